"""Training: the epoch loop and the parts of an epoch.

- `loop`: `train`, the epoch loop; `online_epoch`: an epoch of algorithms 1 to 4; `batch_epoch`: an epoch of PRO, MERT,
  minimum risk or RAMPION.
- `open_run`: opens a run, with bins of the rules' features; `session`: its parts; `state`: what changes from epoch to
  epoch, with resume.
- `hosts`: what the hosts of a run must have in common.
- `job_inputs`: from a job file to the job and its inputs;
  `seen_references`: those that a language model's text has; `factory`: constructs decoder, learner and metric.
- `scheduler`: shards and their distribution over the ranks, other work on all ranks.
- `list_pass`: a pass over given lists, many at a time.
- `dense_start`: initial weights; `metric_spreads`: scales of metrics.
- `epoch_statistics`: sums; `epoch_metrics`: the line in metrics.jsonl; `epoch_clock`: time and memory; `devtest`:
  translation of the devtest set; `sanity_checks`: warnings;
  `early_stopping`: the end of training.
- `local/`: weights for each sentence.
"""
