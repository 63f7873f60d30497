"""The run folder: all files that a run writes, and their readers.

- `layout`: `RunFolder`, the path and the writer of each file; folders of runs with several seeds.
- `checkpoint`: one HDF5 file per epoch, and the results of shards beside it.
- `nbest_store`: k-best lists and forests of batch methods, one file per shard.
- `run_state`: status.json: running, stopped, done or failed; the epoch whose weights are the result; versions.
- `reader`: `read_record`, everything that a report shows of a run.
- `watch`: `follow`, the terminal summary of ``mpitune report --watch``.
- `model_weights`: models with their bins; their largest weights, templates, differences.
"""
