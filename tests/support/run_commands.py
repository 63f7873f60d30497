"""``run_commands.py COMMANDS.json``: runs commands of mpitune, a list of arguments each, in the same processes."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from mpitune.cli.parser import main

if __name__ == "__main__":
    # As in `conftest.py`: no waiting for the disk.
    os.fsync = lambda _: None
    sys.exit(max(main(command) for command in json.loads(Path(sys.argv[1]).read_text())))
