"""The public names of mpitune, which `mpitune` itself passes on; the command line is a layer over them.

- `job`: `Job`, from a file, a mapping or keywords
- `runs`: `train`, `prepare`, and `Run`, a run folder
- `weights`: `Weights`, by feature
- `decoder`: `Decoder`, which translates, and `Hypothesis`
- `opened`: a job's decoder, opened with the stores that it needs
- `lists`: `NBest`, n-best lists of other systems
- `tools`: `evaluate`, `estimate_lm`, `align`
- `extraction`: `extract`
- `call`: how a call behaves in a program that is not mpitune's own
"""
