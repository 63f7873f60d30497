"""Shared code of the benchmark scripts.

- `measure`: CPU time, child programs, Markdown tables.
- `ours`: tasks, and mpitune's decoders and learners over them; `cdec`: cdec and dtrain over the same tasks.
- `quality`: model scores compared with cdec's.
- `synthetic`: generated translation tasks of any size; `curves`: measurements over sizes, as tables and plots.
"""

import sys
from pathlib import Path

# tests/, for `support`: the slow plain twins, one of which scores what the reference leaves unscored.
sys.path.append(str(Path(__file__).parents[2]))
