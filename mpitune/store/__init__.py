"""The shard store: data, grammars and language models of a job, compiled once into memory-mapped arrays.

inputs             `StoreInputs`: the input files of a store
bitext_inputs      `make_inputs`: input files made from a bitext, where the job names none
estimate           `announce`: time and disk that building takes, told before
build              `build_store`, `build_bitext`: builds the files that are missing or stale
compile_data       `compile_data`: texts and grammars to arrays; `ExtractedParts`: rules, a file for each item of work
compile_lists      `compile_lists`: n-best lists to arrays
extract_grammars   `extract_and_build`: extracts grammars on all ranks before the store is built
leave_one_out      `own_pairs`: the pairs of the bitext that are tuned on; language models without these sentences
store              `open_store`, `Store`, `Corpus`: the opened store
structure          `check_data` and others: checks of the arrays before kernels index them
"""
