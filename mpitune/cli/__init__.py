"""Command line: parses options and calls the packages that do the work.

- `parser`: main; errors to one line and an exit code
- `options`: the options and help texts of all commands; `help`: examples, exit codes, completion
- `commands`: all commands except those below
- `init`, `decode`, `extract`, `local`, `rerank`: the commands of these names
- `streams`: standard output and standard error
- `output`: messages on standard error, output files, the job of a command
- `warmup`: compiles all kernels ahead of the first run
"""
