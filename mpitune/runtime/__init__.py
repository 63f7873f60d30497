"""Services of a running process: log, progress, signals, memory.

- `log`: LOG, the log file of a run and rank 0's log on standard error
- `memory`: peak memory of the process, memory of the machine
- `progress`: items done, rate and time left, on the terminal and in the log
- `signals`: StopFlag, set by SIGTERM, SIGUSR1, SIGHUP and SIGINT
"""
