"""Services of a running process: log, signals, memory.

- `log`: LOG, the log file of a run and rank 0's log on standard error
- `memory`: peak memory of the process, memory of the machine
- `signals`: `stop_flag`, set by SIGTERM, SIGUSR1, SIGHUP and SIGINT
"""
