"""Systems that learn sparse features from training sentences of a corpus, for the table and the figure.

Table and figure have some of them in common: these have one name, and so one run.
"""

from __future__ import annotations

from corpora import Corpus
from systems import System

ALL = 'features.templates=["id", "source-bigram", "shape"]'
"""The templates of Simianer, Riezler and Dyer (ACL 2012)."""
WORDS = 'features.templates=["id", "source-bigram", "shape", "word-pair", "target-words"]'
REFIT = "learner.tune=dense"


def learned(corpus: Corpus, size: int, algorithm: str, features: str = ALL, *, k: int | None = None) -> System:
    """``algorithm`` on the first ``size`` training sentences; ``k``: features to be selected, if not the default."""
    name = f"{algorithm}{_suffix(features)}-{size}" + (f"-{k}" if k else "")
    select = (f"select.k={k}",) if k else ()
    settings = features, f"learner.algorithm={algorithm}", f"data.limit={size}", *select
    return System(name, corpus.train, settings, store=f"{corpus.name}-train-{size}")


def refitted(corpus: Corpus, size: int, features: str = ALL) -> System:
    """The weights of algorithm 4 on ``size`` training sentences, the dense ones then tuned on the development set."""
    initial = learned(corpus, size, "itersel", features)
    name = f"refitted{_suffix(features)}-{size}"
    return System(name, corpus.dev, (features, REFIT), initial=initial.name)


def _suffix(features: str) -> str:
    return {ALL: "", WORDS: "-words"}.get(features, "-dense")
