"""What the scripts of this folder are made of."""

import sys
from pathlib import Path

# tests/, for `support`: the slow plain twins, one of which scores what the reference leaves unscored.
sys.path.append(str(Path(__file__).parents[2]))
