"""mpitune: large-scale discriminative training for hierarchical machine translation."""

__version__ = "0.1.0"
