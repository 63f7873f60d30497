"""``python -m mpitune``."""

import sys

from mpitune.cli import main

if __name__ == "__main__":
    sys.exit(main())
