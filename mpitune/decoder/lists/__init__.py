"""N-best lists of other programs as a decoder: a list is scored with the weights and sorted.

- `notation`: `Notation`, what a job says of its lists; `FORMATS`, their formats by name
- `formats`: the formats of files, each in a module; `ListReader`, which finds that of a file and reads its entries
- `compiled_reader`: the same, with arrays; compiled for well-formed lines of Moses, cdec and their like
- `features`: `ScoreFiles`, further features of the entries; `TextFeatures`, features of their texts
- `compiler`: `ListCompiler`, from entries to arrays of the store
- `decoder`: `Lists` and `ListModel`, the opened arrays, and `ListDecoder`, which sorts them
- `stream`: lists one after the other, without a store, for `mpitune rerank`
"""
