"""Texts, words and weights: readers of plain files, and algorithms on texts alone.

lines          `lines`, `line_blocks`: text files line by line, plain or gzipped
text           `read_sentences`, `read_bitext`, `read_parallel`: sentences, references, words of a line
vocabulary     `Vocabulary`, `Names`: words as numbers, many strings in an array
feature_table  `FeatureTable`: names, ids and slots of the features in use
weights        `read_weights`, `write_weights`: weights files
bitext         `AlignedFiles`: word-aligned bitexts
eflomal        `align`: word alignment by the program eflomal
symmetrise     `grow_diag_final_and`: one alignment from two directed ones
retrieval      `IndexedPart`: search for similar sentences
hashing        `hashed`, `joined`: hashes of names from those of their parts, and of numbers, for kernels
subwords       `joined`: marks of parts of words, and of phrases, taken out
tokenisation   `punctuation`, `warn_of_untokenised`: is a text tokenised?
tokens         `LineSplitter`: lines as arrays of numbers; decimal numbers
shortest_digits   numbers as text
progress       `Progress` of long tasks: items done, rate and time left, on the terminal and in the log
wording        `counted`, `clock`: numbers and durations in messages
"""
