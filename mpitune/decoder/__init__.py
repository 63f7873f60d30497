"""Decoders: a sentence and weights give a k-best list and a hypergraph of derivations.

- `base`: the protocols `Decoder` and `ForestDecoder`, and the types of their inputs and results: `TranslationModel`,
  `Sentence`, `KBest`, `Hypergraph`, `PackedForest`
- `embedded`: `EmbeddedDecoder`, compiled kernels in this process
- `cdec`: `CdecDecoder`, cdec as a child process
- `lists`: `ListDecoder`, n-best lists that another program made
- `kbest_formats`: `FORMATS`, k-best lists as text; `choices`: the names of these formats
"""
