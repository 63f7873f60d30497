"""The run folder: all files that a run writes, and their readers.

- `layout`: `RunFolder`, the path and the writer of each file.
- `checkpoint`: one HDF5 file per epoch, and the results of shards beside it.
- `nbest_store`: k-best lists and forests of batch methods, one file per shard.
- `run_state`: status.json: running, stopped, done or failed.
- `seeds`: folders of runs with several seeds.
- `best_epoch`: the epoch whose weights are the result, and the end by patience.
- `reader`: `read_record`, everything that a report shows of a run.
- `watch`: `follow`, the terminal summary of ``mpitune report --watch``.
- `model_weights`: queries on a model: largest weights, templates, differences.
- `scoring`: bins and transforms of the grammar's scores, stored with the weights.
- `versions`: versions of mpitune and its libraries.
"""
