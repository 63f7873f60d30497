"""Two metrics of the words that a translation has in common with a reference, in any order.

`word-overlap` scores a sentence: the score of a set is the mean. `word-f1` counts: the score of a set follows from the
sums of its counts, as that of BLEU does.

    [plugins]
    modules = ["plugins/word_overlap.py"]
    [learner]
    metric = "word-f1"     # or { bleu = 0.5, word-f1 = 0.5 }
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from mpitune.plugins import metric


@metric("word-overlap", "word overlap")
def word_overlap(hypothesis: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """The share of common words in all words of both (Jaccard), of the best reference."""
    words = set(hypothesis)
    return max(len(words & set(reference)) / (len(words | set(reference)) or 1) for reference in references)


def f1(counts: np.ndarray) -> np.ndarray:
    """float64 [n]: the F-scores of n sets, from sums of counts (int64 [n, 3])."""
    common, hypothesis, reference = counts.T
    return 2 * common / np.maximum(hypothesis + reference, 1)


@metric("word-f1", "word F1", width=3, score=f1)
def word_f1(hypothesis: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[int, int, int]:
    """Common words, words of the hypothesis, words of the reference that has most in common."""
    words = Counter(hypothesis)
    common, length = max(((words & Counter(reference)).total(), len(reference)) for reference in references)
    return common, len(hypothesis), length
