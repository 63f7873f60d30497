"""Extraction of Hiero rules from a word-aligned bitext, for many sentences at once.

bitext          `compile_bitext`: texts, links, occurrences of words and lexical counts as arrays
sentences       `index_sentences`, `items_of_work`: ranges of words whose cores are extracted together
cores           `find_cores`: the cores of sentences, source sides without gaps at their edges, as a trie
occurrences     `sample_occurrences`: sampled occurrences of the cores of a trie
phrase_pairs    `phrase_pairs`: the rules of one occurrence
lexical         `lexical_scores`: lexical scores of a rule
rule_counts     `RuleCounts`: counts of the rules and alignments of one core
leave_one_out   `leave_out`: these counts without one pair of the bitext
rule_table      `RuleTable`: source sides with rules and counts, and the source sides of each sentence
extractor       `extract_item`: the tables of an item of work
rule_arrays     `part_of`, `merged`: tables as the arrays of a store
rule_lines      `rule_lines`: rules as the lines of a grammar file
"""
