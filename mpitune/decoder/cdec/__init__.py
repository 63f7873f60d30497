"""`CdecDecoder`: the cdec decoder as a child process.

- `decoder`: `CdecDecoder`, which retries after a failure and converts answers to k-best lists
- `session`: `CdecSession`, a child process whose weights are updated by differences
- `process`: `Child`, the process itself: lines to it and from it, with time-outs
- `protocol`: the lines: segments with weight differences, k-best entries with feature vectors
"""
