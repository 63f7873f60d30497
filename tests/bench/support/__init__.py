"""Shared code of the benchmark scripts.

- `measure`: CPU time, child programs, Markdown tables.
- `ours`: tasks, and mpitune's decoders and learners over them; `cdec`: cdec and dtrain over the same tasks.
- `quality`: model scores compared with cdec's.
- `synthetic`: generated translation tasks of any size; `curves`: measurements over sizes, as tables and plots.
"""

import sys
from pathlib import Path

# The folder of the naive reference implementations, for `naive_lm`.
sys.path.append(str(Path(__file__).parents[2]))
