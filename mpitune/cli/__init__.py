"""Command line: parses options and calls the packages that do the work.

- `parser`: main, the options of all commands, errors to one line and an exit code
- `commands`: all commands except those below
- `decode`, `local`, `rerank`: the commands of these names
- `streams`: standard output and standard error
- `output`: messages on standard error, output files, the job of a command
- `warmup`: compiles all kernels ahead of the first run
"""
