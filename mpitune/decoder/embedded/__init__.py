"""`EmbeddedDecoder`: hierarchical phrase-based decoding with Numba kernels, in the order of the search.

- `decoder`: `EmbeddedDecoder`, which calls the kernels
- `trie`, `chart`: source sides of a grammar; CYK+ parsing into a forest without language models
- `matched`: the rules that match a sentence, with features and scores under the current weights
- `cube`, `candidates`, `heap`: cube pruning into a forest with language models (`forest`)
- `lm_state`, `automaton`: language model states of partial translations, and a cache of their transitions
- `kbest`, `sample`, `readout`: the k best derivations of a forest, or random ones; their words, features and scores
- `packed`, `explain`: a forest as arrays for learners; as a hypergraph for reports
- `arena`: memory that all sentences share
"""
