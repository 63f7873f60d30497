"""Entry point of ``python -m mpitune``."""

import sys

from mpitune.cli.parser import main

if __name__ == "__main__":
    sys.exit(main())
