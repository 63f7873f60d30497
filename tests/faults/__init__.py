"""Faults done to whole runs, and what comes of them: ``make test-faults``, and a few of them in ``make test``."""
