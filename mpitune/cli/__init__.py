"""Command line: parses options and calls the packages that do the work.

- `parser`: main; errors to one line and an exit code
- `arguments`: types of arguments: paths that are read or written, numbers
- `notation`: how n-best lists are written, an option each
- `options`: the options and help texts of all commands; `help`: examples, exit codes, completion
- `train`: the commands `train` and `prepare`; every other command has a module of its name
- `decoding`: shared by `decode` and `local`
- `streams`: standard output and standard error
- `output`: messages on standard error, output files, the job of a command
- `warmup`: compiles all kernels ahead of the first run
"""
