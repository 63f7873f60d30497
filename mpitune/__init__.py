"""mpitune: large-scale discriminative training for hierarchical machine translation.

The sub-packages, in the order of the pipeline, are listed in ``mpitune/README.md``. `mpitune.__main__.main` is the
entry point.
"""

import os

# Set before numpy is loaded: with several threads, sums of long vectors would depend on the number of cores.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"


__version__ = "0.1.0"
