"""A language model and its estimation straight from their definitions, and random models to try things on."""

from __future__ import annotations

import gzip
import math
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path


class NaiveLm:
    """An ARPA file as a dictionary: n-gram -> (log10 probability, log10 backoff)."""

    def __init__(self, path: Path) -> None:
        data = path.read_bytes()
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()
        self.order = 0
        self.ngrams: dict[tuple[str, ...], tuple[float, float]] = {}
        for line in text.split("\n"):
            if line.endswith("-grams:"):
                self.order = int(line[1:-7])
            elif line and self.order and not line.startswith("\\"):
                prob, *fields = line.split()
                words = tuple(fields[: self.order])
                self.ngrams[words] = float(prob), float(fields[self.order]) if len(fields) > self.order else 0.0
        self.ngrams.setdefault(("<unk>",), (-100.0, 0.0))

    def known(self, words: Sequence[str]) -> list[str]:
        return [word if (word,) in self.ngrams else "<unk>" for word in words]

    def with_backoff(self) -> set[tuple[str, ...]]:
        """The n-grams that have a backoff other than 0, and all that these end with."""
        return {ngram[k:] for ngram, entry in self.ngrams.items() if entry[1] for k in range(len(ngram))}

    def prob(self, context: tuple[str, ...], word: str) -> float:
        """log10 p(word | context): the longest n-gram there is, and the backoffs of the contexts that are longer."""
        if (*context, word) in self.ngrams:
            return self.ngrams[(*context, word)][0]
        return self.ngrams.get(context, (0.0, 0.0))[1] + self.prob(context[1:], word)

    def score(self, words: Sequence[str], start: int = 0) -> float:
        """log10 probability of ``words[start:]`` with ``words[:start]`` as context."""
        known = self.known(words)
        return sum(self.prob(tuple(known[max(0, i - self.order + 1) : i]), known[i]) for i in range(start, len(known)))


def random_arpa(path: Path, seed: int, order: int, *, pruned: float = 0.0, unknown: bool = True) -> list[str]:
    """Write a random model to ``path`` and return its words.

    A share ``pruned`` of the n-grams that others need (as suffix or context) is left out again. Not a distribution:
    probabilities and backoffs are any numbers, some backoffs are 0.
    """
    draw = random.Random(seed)
    words = ["a", "b", "c", "d", "é", "Zug"]
    levels: list[set[tuple[str, ...]]] = [{(word,) for word in [*words, "<s>", "</s>"] + ["<unk>"] * unknown}]
    for n in range(2, order + 1):
        level = set()
        for _ in range(draw.randrange(1, 40)):
            middle = [draw.choice([*words, "<unk>"] if unknown else words) for _ in range(n - 2)]
            level.add((draw.choice([*words, "<s>"]), *middle, draw.choice([*words, "</s>"])))
        levels.append(level)
    for n in range(order - 1, 1, -1):
        needed = {ngram[k : k + n] for ngram in levels[n] for k in (0, 1)}
        levels[n - 1] |= {ngram for ngram in sorted(needed) if draw.random() >= pruned}
    with open(path, "w") as file:
        print("\n\\data\\", *(f"ngram {n}={len(level)}" for n, level in enumerate(levels, 1)), sep="\n", file=file)
        for n, level in enumerate(levels, 1):
            print(f"\n\\{n}-grams:", file=file)
            for ngram in sorted(sorted(level), key=lambda _: draw.random()):
                fields = [f"{-9 * draw.random():.6g}", " ".join(ngram)]
                if n < order and draw.random() < 0.8:
                    fields.append(draw.choice(["0", f"{draw.gauss(-0.3, 0.5):.5f}", f"{-draw.random() / 1e4:.4e}"]))
                elif n == order and ngram[-1] in ("a", "</s>"):
                    fields.append("-0" if ngram[-1] == "a" else "0.000")
                print("\t".join(fields), file=file)
        print("\n\\end\\", file=file)
    return words


def adjusted_counts(sentences: Sequence[Sequence[str]], order: int) -> Counter[tuple[str, ...]]:
    """The adjusted count of each n-gram of the sentences, with their ends."""
    marked = [("<s>", *sentence, "</s>") for sentence in sentences]
    seen = Counter(words[i : i + n] for words in marked for n in range(1, order + 1) for i in range(len(words) - n + 1))
    before = defaultdict(set)
    for ngram in seen:
        before[ngram[1:]].add(ngram[0])
    return Counter(
        {
            ngram: count if len(ngram) == order or ngram[0] == "<s>" else len(before[ngram])
            for ngram, count in seen.items()
        }
    )


def discounts(adjusted: Counter[tuple[str, ...]], n: int) -> list[float]:
    """Those of n-grams with adjusted counts 0, 1, 2, and 3 or more."""
    n1, n2, n3, n4 = (sum(len(g) == n and count == k for g, count in adjusted.items()) for k in (1, 2, 3, 4))
    if n1 and n2 and n3:
        y = n1 / (n1 + 2 * n2)
        closed_form = [0, 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3]
        if min(closed_form[1:]) > 0:
            return closed_form
    return [0, 0.5, 1, 1.5]


def kneser_ney(sentences: Sequence[Sequence[str]], order: int) -> dict[tuple[str, ...], tuple[float, float]]:
    """n-gram -> (log10 probability, log10 backoff), by interpolated modified Kneser-Ney."""
    adjusted = {("<unk>",): 0} | adjusted_counts(sentences, order) | {("<s>",): 0}
    after = defaultdict(list)
    for ngram in adjusted:
        after[ngram[:-1]].append(ngram)

    discount = {n: discounts(Counter(adjusted), n) for n in range(1, order + 1)}

    def backoff(context: tuple[str, ...]) -> float:
        if not after[context]:
            return 1.0
        mass = sum(discount[len(context) + 1][min(adjusted[ngram], 3)] for ngram in after[context])
        return mass / sum(adjusted[ngram] for ngram in after[context])

    def prob(ngram: tuple[str, ...]) -> float:
        if not ngram:
            return 1 / (len(after[()]) - 1)
        count, context = adjusted[ngram], ngram[:-1]
        own = (count - discount[len(ngram)][min(count, 3)]) / sum(adjusted[other] for other in after[context])
        return own + backoff(context) * prob(ngram[1:])

    return {
        ngram: (math.log10(prob(ngram)), math.log10(backoff(ngram)) if len(ngram) < order else 0.0)
        for ngram in adjusted
    }
