"""Hiero rules from a word-aligned bitext, by their definition and slowly, to hold a fast extractor against.

A *core* is a source side without a gap at its edges. Its words are looked up in the corpus; each of its occurrences
yields at most one rule for the core itself and one for each way to put a gap before it, after it, or both.
"""

from __future__ import annotations

import gzip
import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

Pair = tuple[list[str], list[str], list[tuple[int, int]]]  # source, target, links
Side = tuple[str | int, ...]  # words, and gaps as 1 and 2, numbered in source order
Span = tuple[int, int]  # from, to (exclusive)
Alignment = tuple[tuple[int, int], ...]
Places = Mapping[Side, Sequence[tuple[int, tuple[int, ...]]]]  # core -> (pair, position of each of its words)

MAX_SPAN = 15  # words under a rule, on either side
MAX_SYMBOLS = 5  # on the source side
MAX_GAPS = 2


@dataclass(frozen=True)
class Extracted:
    """What a grammar says of one rule. The alignment counts words and gaps as positions."""

    features: dict[str, float]
    alignment: Alignment


Grammar = dict[tuple[Side, Side], Extracted]


def naive_grammar(pairs: Sequence[Pair], words: Sequence[str], without: int | None = None) -> Grammar:
    """The rules for `words`. Pair `without` does not count, except in the lexical probabilities."""
    return scored(pairs, places(pairs, cores_of(words)), Lexicon(pairs), without)


# ---------------------------------------------------------------- which source sides, and where


def cores_of(words: Sequence[str]) -> set[Side]:
    """All cores in a sentence to translate. Here, unlike in the corpus, one may reach over 16 words, not 15."""
    return {core for core, _ in cores_with_places(words, MAX_SPAN + 1)}


def cores_with_places(
    words: Sequence[str], max_span: int, prefixes: Collection[Side] | None = None
) -> Iterator[tuple[Side, tuple[int, ...]]]:
    """Each core of a sentence with the positions of its words; if asked, only those all of whose prefixes are given."""

    def grown(core: Side, at: tuple[int, ...]) -> Iterator[tuple[Side, tuple[int, ...]]]:
        if len(core) > MAX_SYMBOLS or at[-1] + 1 - at[0] > max_span or (prefixes is not None and core not in prefixes):
            return
        yield core, at
        after = at[-1] + 1
        if after < len(words):
            yield from grown((*core, words[after]), (*at, after))
        gaps = gap_count(core)
        if gaps < MAX_GAPS:
            for position in range(after + 1, min(len(words), at[0] + max_span)):
                yield from grown((*core, gaps + 1, words[position]), (*at, position))

    for start, word in enumerate(words):
        yield from grown((word,), (start,))


def gap_count(side: Side) -> int:
    return sum(isinstance(symbol, int) for symbol in side)


def places(pairs: Sequence[Pair], cores: Collection[Side]) -> Places:
    """All occurrences of the cores, in the order of the corpus."""
    prefixes = {core[: n + 1] for core in cores for n in range(len(core)) if isinstance(core[n], str)}
    found: dict[Side, list[tuple[int, tuple[int, ...]]]] = defaultdict(list)
    for i, (source, _, _) in enumerate(pairs):
        for core, at in cores_with_places(source, MAX_SPAN, prefixes):
            if core in cores:
                found[core].append((i, at))
    return found


# ---------------------------------------------------------------- the rules of one occurrence


def rules_at(pair: Pair, core: Side, at: tuple[int, ...]) -> Iterator[tuple[Side, Side, Alignment]]:
    """Source, target and alignment of the rules that one occurrence of a core yields."""
    source, _, links = pair
    aligned = {s for s, _ in links}
    if not aligned.intersection(at):
        return
    inner = [(before + 1, after) for before, after in pairwise(at) if after > before + 1]
    low, high = at[0], at[-1] + 1
    closed = closure(links, (low, high))
    forced_left, forced_right = closed[0] < low, closed[1] > high
    for more_left, more_right in ((0, 0), (0, 1), (1, 0), (1, 1)):
        if (more_left and forced_left) or (more_right and forced_right):
            continue
        wider = (closed[0] - more_left, closed[1] + more_right)
        if wider[0] < 0 or wider[1] > len(source):
            continue
        span = closure(links, wider)
        left, right = span[0] < low, span[1] > high
        if (left, right) != (forced_left or bool(more_left), forced_right or bool(more_right)):
            continue  # a gap turned up on a side where none was asked for
        gaps = [(span[0], low)] * left + inner + [(high, span[1])] * right
        if len(gaps) > MAX_GAPS or len(core) + left + right > MAX_SYMBOLS:
            continue
        if all(is_tight_phrase(links, part) for part in (span, *gaps)):
            yield rule(pair, at, span, gaps)


def closure(links: Sequence[tuple[int, int]], span: Span) -> Span:
    """The smallest source span around `span` whose words' translations translate no word outside it."""
    while True:
        onto = target_span(links, span)
        back = [s for s, t in links if onto is not None and onto[0] <= t < onto[1]]
        wider = (min([span[0], *back]), max([span[1], *(s + 1 for s in back)]))
        if wider == span:
            return span
        span = wider


def target_span(links: Sequence[tuple[int, int]], span: Span) -> Span | None:
    """From the first to the last target word linked with the source span."""
    linked = [t for s, t in links if span[0] <= s < span[1]]
    return (min(linked), max(linked) + 1) if linked else None


def is_tight_phrase(links: Sequence[tuple[int, int]], span: Span) -> bool:
    """Whether the span and its target span make a consistent phrase pair within the limits, edge words aligned."""
    onto = target_span(links, span)
    if onto is None or span[1] - span[0] > MAX_SPAN or onto[1] - onto[0] > MAX_SPAN:
        return False
    aligned = {s for s, _ in links}
    consistent = all((span[0] <= s < span[1]) == (onto[0] <= t < onto[1]) for s, t in links)
    return consistent and span[0] in aligned and span[1] - 1 in aligned


def rule(pair: Pair, at: tuple[int, ...], span: Span, gaps: Sequence[Span]) -> tuple[Side, Side, Alignment]:
    """The phrase pair over `span` with its gaps taken out."""
    source, target, links = pair
    onto = [target_span(links, part) for part in (span, *gaps)]
    source_side, source_index = side(source, span, gaps)
    assert set(source_index) == set(at)
    target_side, target_index = side(target, onto[0], onto[1:])
    alignment = tuple((source_index[s], target_index[t]) for s, t in links if s in source_index)
    return source_side, target_side, alignment


def side(words: Sequence[str], span: Span | None, gaps: Sequence[Span | None]) -> tuple[Side, dict[int, int]]:
    """The words of the span with gaps in place, and where each word of the sentence stands in it."""
    assert span is not None
    number = {gap: n for n, gap in enumerate(gaps, 1)}
    starts = {gap[0]: gap for gap in gaps if gap is not None}
    symbols: list[str | int] = []
    index: dict[int, int] = {}
    position = span[0]
    while position < span[1]:
        if position in starts:
            symbols.append(number[starts[position]])
            position = starts[position][1]
        else:
            index[position] = len(symbols)
            symbols.append(words[position])
            position += 1
    return tuple(symbols), index


# ---------------------------------------------------------------- counts and features


class Lexicon:
    """Relative frequencies of links in the whole corpus; an unaligned word is linked with NULL (None) once."""

    def __init__(self, pairs: Sequence[Pair]):
        self.links: Counter[tuple[str | None, str | None]] = Counter()
        for source, target, links in pairs:
            self.links.update((source[s], target[t]) for s, t in links)
            self.links.update((word, None) for s, word in enumerate(source) if s not in {s for s, _ in links})
            self.links.update((None, word) for t, word in enumerate(target) if t not in {t for _, t in links})
        self.source: Counter[str | None] = Counter()
        self.target: Counter[str | None] = Counter()
        for (f, e), count in self.links.items():
            self.source[f] += count
            self.target[e] += count

    def max_lex_f_given_e(self, source: Side, target: Side) -> float:
        return sum(
            -math.log10(max(self.links[f, e] / self.target[e] for e in given(target) if self.target[e]))
            for f in terminals(source)
        )

    def max_lex_e_given_f(self, source: Side, target: Side) -> float:
        return sum(
            -math.log10(max(self.links[f, e] / self.source[f] for f in given(source) if self.source[f]))
            for e in terminals(target)
        )


def terminals(side: Side) -> list[str]:
    return [symbol for symbol in side if isinstance(symbol, str)]


def given(side: Side) -> list[str | None]:
    return [*terminals(side), None]


def scored(pairs: Sequence[Pair], where: Places, lexicon: Lexicon, without: int | None = None) -> Grammar:
    """The rules of all these occurrences, with their features."""
    grammar: Grammar = {}
    for core, occurrences in where.items():
        kept = [(i, at) for i, at in occurrences if i != without]
        counts: dict[Side, dict[Side, Counter[Alignment]]] = defaultdict(lambda: defaultdict(Counter))
        for i, at in kept:
            for source, target, alignment in rules_at(pairs[i], core, at):
                counts[source][target][alignment] += 1
        for source, targets in counts.items():
            source_total = sum(seen.total() for seen in targets.values())
            for target, seen in targets.items():
                features = {
                    "EgivenFCoherent": -math.log10(seen.total() / len(kept)),
                    "SampleCountF": math.log10(1 + len(kept)),
                    "CountEF": math.log10(1 + seen.total()),
                    "MaxLexFgivenE": lexicon.max_lex_f_given_e(source, target),
                    "MaxLexEgivenF": lexicon.max_lex_e_given_f(source, target),
                    "IsSingletonF": float(source_total == 1),
                    "IsSingletonFE": float(seen.total() == 1),
                }
                most = max(seen.values())
                grammar[source, target] = Extracted(features, min(a for a, count in seen.items() if count == most))
    return grammar


# ---------------------------------------------------------------- files, and toy corpora


def read_grammar(path: Path) -> Grammar:
    """A text grammar (gzipped or not), features by name as they stand in the file."""

    def symbols(field: str) -> Side:
        gaps = (re.fullmatch(r"\[(?:\w+,)?([12])\]", token) for token in field.split())
        return tuple(int(gap[1]) if gap else token for gap, token in zip(gaps, field.split(), strict=True))

    grammar: Grammar = {}
    with open(path, "rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    with gzip.open(path, "rt", encoding="utf-8") if packed else open(path, encoding="utf-8") as lines:
        for line in lines:
            _, source, target, scores, links = (field.strip() for field in line.split("|||"))
            features = {name: float(value) for name, _, value in (score.rpartition("=") for score in scores.split())}
            alignment = [link.split("-") for link in links.split()]
            key = symbols(source), symbols(target)
            assert key not in grammar, f"{path} has {key} twice"
            grammar[key] = Extracted(features, tuple((int(s), int(t)) for s, t in alignment))
    return grammar


def read_pairs(source: Path, target: Path, links: Path) -> list[Pair]:
    """A gzipped bitext with its alignment."""
    with (
        gzip.open(source, "rt", encoding="utf-8") as f,
        gzip.open(target, "rt", encoding="utf-8") as e,
        gzip.open(links, "rt", encoding="utf-8") as a,
    ):
        return [
            (f_line.split(), e_line.split(), [(int(s), int(t)) for s, t in (k.split("-") for k in a_line.split())])
            for f_line, e_line, a_line in zip(f, e, a, strict=True)
        ]


def random_pairs(seed: int) -> list[Pair]:
    """A toy corpus: few words, so that patterns recur; unaligned words, many-to-many links in any order, repeated
    links, lines over the span limit and empty sides."""
    rng = random.Random(seed)
    pairs: list[Pair] = []
    for _ in range(rng.randint(1, 12)):
        size = rng.choice((0, 1, 2, 3, 5, 8, 8, 12, 20))
        source = rng.choices("abcdef", k=size)
        target = rng.choices("uvwxyz", k=max(0, size + rng.randint(-2, 3)))
        links: list[tuple[int, int]] = []
        if source and target:
            noise = rng.choice((0.0, 0.1, 0.4))
            for s in range(len(source)):
                near = min(max(0, s + rng.choice((-1, 0, 0, 0, 1))), len(target) - 1)
                links += [(s, near)] * (rng.random() < 0.8)
                links += [(s, rng.randrange(len(target)))] * (rng.random() < noise)
            if rng.random() < 0.3:
                rng.shuffle(links)
        pairs.append((source, target, links))
    return pairs
