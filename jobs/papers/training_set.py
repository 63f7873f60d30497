"""Systems that learn sparse features from training sentences of a corpus, for the table and the figure.

Table and figure have some of them in common: these have one name, and so one run.
"""

from __future__ import annotations

from corpora import Corpus
from systems import System

Templates = tuple[str, ...]
DENSE = ()
ALL = ("id", "source-bigram", "shape")
"""The templates of Simianer, Riezler and Dyer (ACL 2012)."""
WORDS = (*ALL, "word-pair", "target-words")
SUFFIX = {DENSE: "-dense", ALL: "", WORDS: "-words"}
"""Of names, by the templates."""


def learned(corpus: Corpus, size: int, algorithm: str, templates: Templates = ALL, *, k: int | None = None) -> System:
    """``algorithm`` on the first ``size`` training sentences; ``k``: features to be selected, if not the default."""
    name = f"{algorithm}{SUFFIX[templates]}-{size}" + (f"-{k}" if k else "")
    select = {"select.k": k} if k else {}
    settings = {"features.templates": templates, "learner.algorithm": algorithm, "data.limit": size, **select}
    return System(name, corpus.train, settings, store=f"{corpus.name}-train-{size}")


def refitted(corpus: Corpus, size: int, templates: Templates = ALL) -> System:
    """The weights of algorithm 4 on ``size`` training sentences, the dense ones then tuned on the development set."""
    settings = {"features.templates": templates, "learner.tune": "dense"}
    initial = learned(corpus, size, "itersel", templates).name
    return System(f"refitted{SUFFIX[templates]}-{size}", corpus.dev, settings, initial=initial)
