"""Job file: its tables and keys, their defaults and checks.

- `spec`: Job and the dataclasses of its tables, which define every key: name, type, default, valid values
- `load`: load; reads a job file, with the values that follow from others
- `plugin_files`: execution of the Python files that a job names
- `checks`: check; do the keys of a job fit together, are the names of its features distinct?
- `explained`: a job file with an explanation of every key
- `presets`: PRESETS, METHOD_DEFAULTS; named sets of values and their sources
- `effective_keys`: keys that the result depends on, keys that are ignored
- `dtrain`: conversion of dtrain's configuration files to job files
"""
