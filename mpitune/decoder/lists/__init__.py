"""N-best lists of other programs as a decoder: a list is scored with the weights and sorted.

- `formats`: `ListReader`, the entries of files of Moses, cdec or JSON lines
- `compiled_reader`: the same for blocks of well-formed lines, several times as fast
- `features`: `ScoreFiles`, further features of the entries; `TextFeatures`, features of their texts
- `compiler`: `ListCompiler`, from entries to arrays of the store
- `decoder`: `Lists` and `ListModel`, the opened arrays, and `ListDecoder`, which sorts them
- `stream`: lists one after the other, without a store, for `mpitune rerank`
"""
