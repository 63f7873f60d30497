"""mpitune: large-scale discriminative training for hierarchical machine translation."""

import os

# Before numpy is loaded: with several threads, sums of long vectors depend on how many cores a rank may use.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"


__version__ = "0.1.0"
