"""Extraction of Hiero rules from a word-aligned bitext, one sentence at a time.

suffix_array   `compile_bitext`: texts, links, suffix array and lexical counts as arrays
occurrences    `occurrences`: sampled occurrences of a core, a source side without gaps at its edges
phrase_pairs   `phrase_pairs`: the rules of one occurrence
lexical        `lexical_scores`: lexical scores of a rule
rule_counts    `RuleCounts`: counts of rules and alignments, cached between sentences
extractor      `Extractor`: the cores of a sentence and the rules of their occurrences
extracted      `Extracted`: the rules of a sentence as arrays, with their seven features
rule_arrays    `Collector`, `merged`: grammars of many sentences as the arrays of a store
rule_lines     `rule_lines`: rules as the lines of a grammar file
"""
