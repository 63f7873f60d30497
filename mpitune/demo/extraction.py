"""Extract Hiero rules with the usual dense features from a word-aligned bitext.

A rule is a phrase pair in which gaps replace up to two phrase pairs (Chiang, "Hierarchical Phrase-Based Translation",
Computational Linguistics 2007, section 3). An occurrence of a source side is a choice of positions for its words; a gap
at its edge is the shortest that gives a rule.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

MAX_SPAN = 15
"""Largest number of source words that a rule covers, including those in its gaps."""
MAX_SYMBOLS = 5
MAX_GAPS = 2
SAMPLE = 300
"""Largest number of occurrences of a source side from which rules are extracted."""

GAPS = frozenset({"X1", "X2"})

Span = tuple[int, int]
Side = tuple[str, ...]
Sentence = tuple[Sequence[str], Sequence[str], set[tuple[int, int]]]
"""Source words, target words and links."""


class Rule(NamedTuple):
    """A rule as it occurs: gaps are X1 and X2, links are pairs of positions on both sides."""

    source: Side
    target: Side
    links: tuple[tuple[int, int], ...]


class Phrases:
    """The tight phrase pairs of a sentence: no link crosses their borders."""

    def __init__(self, words: int, links: set[tuple[int, int]]) -> None:
        """``words``: number of source words."""
        by_source, by_target = defaultdict(list), defaultdict(list)
        for i, j in links:
            by_source[i].append(j)
            by_target[j].append(i)
        self.target: dict[Span, Span] = {}
        """Target span of each source span that is a phrase."""
        for start in by_source:
            reached: list[int] = []
            for end in range(start + 1, min(words, start + MAX_SPAN) + 1):
                reached += by_source.get(end - 1, ())
                if end - 1 in by_source:
                    low, high = min(reached), max(reached) + 1
                    if all(start <= i < end for j in range(low, high) for i in by_target.get(j, ())):
                        self.target[start, end] = low, high
        self.aligned = frozenset(by_source)
        self.words = words

    def left(self, end: int) -> list[int]:
        """List the starts of the phrases that end at ``end``, shortest phrase first."""
        return [start for start in range(end - 1, -1, -1) if (start, end) in self.target]

    def right(self, start: int) -> list[int]:
        """List the ends of the phrases that start at ``start``, shortest phrase first."""
        return [end for end in range(start + 1, self.words + 1) if (start, end) in self.target]


def word_stretches(phrases: Phrases) -> Iterator[tuple[Span, ...]]:
    """Yield the possible words of a rule's source side: one to three contiguous spans, with gaps between them."""
    gaps_from = defaultdict(list)
    for start, end in phrases.target:
        gaps_from[start].append(end)

    def grow(parts: tuple[Span, ...], symbols: int) -> Iterator[tuple[Span, ...]]:
        yield parts
        if symbols + 2 <= MAX_SYMBOLS and len(parts) <= MAX_GAPS:
            for place in gaps_from[parts[-1][1]]:
                longest = min(MAX_SYMBOLS - symbols - 1, phrases.words - place, parts[0][0] + MAX_SPAN - place)
                for length in range(1, longest + 1):
                    yield from grow((*parts, (place, place + length)), symbols + 1 + length)

    for start in range(phrases.words):
        for length in range(1, min(MAX_SYMBOLS, phrases.words - start) + 1):
            yield from grow(((start, start + length),), length)


def rules_at(sentence: Sentence, phrases: Phrases, parts: tuple[Span, ...]) -> Iterator[Rule]:
    """Yield the rules whose source words are those of ``parts``, at most one for each source side."""
    inner = [(a[1], b[0]) for a, b in pairwise(parts)]
    if not any(i in phrases.aligned for a, b in parts for i in range(a, b)):
        return
    start, end = parts[0][0], parts[-1][1]
    symbols = sum(b - a for a, b in parts) + len(inner)
    free = min(MAX_GAPS - len(inner), MAX_SYMBOLS - symbols)
    lefts = [[start], phrases.left(start) if free > 0 else []]
    rights = [[end], phrases.right(end) if free > 0 else []]
    for before in (0, 1):
        for after in (0, 1) if before == 0 or free > 1 else (0,):
            spans = ((a, b) for a in lefts[before] for b in rights[after] if b - a <= MAX_SPAN)
            whole = next((span for span in spans if span in phrases.target), None)
            if whole:
                gaps = [(whole[0], start)] * before + inner + [(end, whole[1])] * after
                yield _rule(sentence, phrases, whole, gaps)


def _rule(sentence: Sentence, phrases: Phrases, whole: Span, gaps: list[Span]) -> Rule:
    source, i_of = _side(sentence[0], whole, gaps)
    target, j_of = _side(sentence[1], phrases.target[whole], [phrases.target[gap] for gap in gaps])
    links = ((i_of[i], j_of[j]) for i, j in sentence[2] if i in i_of and j in j_of)
    return Rule(source, target, tuple(sorted(links)))


def _side(words: Sequence[str], whole: Span, gaps: list[Span]) -> tuple[Side, dict[int, int]]:
    """Return the symbols of one side, and the position of each word among them."""
    number = {place: n for n, (a, b) in enumerate(gaps, 1) for place in range(a, b)}
    symbols: list[str] = []
    places: dict[int, int] = {}
    for place in range(*whole):
        if place not in number:
            places[place] = len(symbols)
            symbols.append(words[place])
        elif place == gaps[number[place] - 1][0]:
            symbols.append(f"X{number[place]}")
    return tuple(symbols), places


def lexical(sentences: Sequence[Sentence]) -> tuple[dict[tuple[str, str], float], dict[tuple[str, str], float]]:
    """Estimate p(f|e) by (f, e) and p(e|f) by (e, f) as relative frequencies of links; unaligned words link to ""."""
    counts: Counter[tuple[str, str]] = Counter()
    for source, target, links in sentences:
        counts.update((source[i], target[j]) for i, j in links)
        counts.update((word, "") for i, word in enumerate(source) if all(i != a for a, _ in links))
        counts.update(("", word) for j, word in enumerate(target) if all(j != b for _, b in links))
    of_f, of_e = Counter[str](), Counter[str]()
    for (f, e), count in counts.items():
        of_f[f] += count
        of_e[e] += count
    f_given_e = {(f, e): count / of_e[e] for (f, e), count in counts.items()}
    e_given_f = {(e, f): count / of_f[f] for (f, e), count in counts.items()}
    return f_given_e, e_given_f


def _cost(words: Side, others: Side, probability: dict[tuple[str, str], float]) -> float:
    """Sum over words of -log10 of the largest probability given any of the others, or given no word."""
    given = ["", *(other for other in others if other not in GAPS)]
    best = (max(probability.get((word, other), 0.0) for other in given) for word in words if word not in GAPS)
    return sum(-math.log10(max(p, 1e-7)) for p in best)


def extract(sentences: Sequence[Sentence]) -> list[str]:
    """Extract the lines of the grammar: rules that occur at least twice, and short rules without gaps."""
    found: list[dict[tuple[Span, ...], list[Rule]]] = []
    for sentence in sentences:
        phrases = Phrases(len(sentence[0]), sentence[2])
        found.append({parts: list(rules_at(sentence, phrases, parts)) for parts in word_stretches(phrases)})
    times = Counter((rule.source, rule.target) for rules in found for at in rules.values() for rule in at)
    kept = {rule for rule, count in times.items() if count > 1 or _is_short(rule[0])}
    f_given_e, e_given_f = lexical(sentences)
    lines = []
    for source, (seen, rules) in sorted(_count(sentences, found, {source for source, _ in kept}).items()):
        targets: Counter[Side] = Counter()
        for rule, count in rules.items():
            targets[rule.target] += count
        for target, count in sorted(targets.items(), key=lambda item: (-item[1], item[0])):
            if (source, target) in kept:
                scores = {
                    "EgivenFCoherent": math.log10(seen / count),
                    "SampleCountF": math.log10(1 + seen),
                    "CountEF": math.log10(1 + count),
                    "MaxLexFgivenE": _cost(source, target, f_given_e),
                    "MaxLexEgivenF": _cost(target, source, e_given_f),
                    "IsSingletonF": float(targets.total() == 1),
                    "IsSingletonFE": float(count == 1),
                }
                usual = max((rule for rule in rules if rule.target == target), key=lambda rule: (rules[rule], rule))
                lines.append(_line(usual, scores))
    return lines


def _count(
    sentences: Sequence[Sentence], found: list[dict[tuple[Span, ...], list[Rule]]], wanted: set[Side]
) -> dict[Side, tuple[int, Counter[Rule]]]:
    """Count, for each wanted source side, its first `SAMPLE` occurrences, and the rules among them."""
    cores = {_core(source) for source in wanted}
    beginnings = {core[:length] for core in cores for length in range(1, len(core) + 1)}
    seen: Counter[Side] = Counter()
    rules: dict[Side, Counter[Rule]] = {source: Counter() for source in wanted}
    for (words, _, _), at in zip(sentences, found, strict=True):
        for core, parts in _occurrences(words, beginnings):
            if core in cores and seen[core] < SAMPLE:
                seen[core] += 1
                for rule in at.get(parts, ()):
                    if rule.source in wanted:
                        rules[rule.source][rule] += 1
    return {source: (seen[_core(source)], counted) for source, counted in rules.items() if counted}


def _core(source: Side) -> Side:
    """Return a source side without gaps at its edges, which add no occurrences; inner gaps lose their number."""
    start, end = source[0] == "X1", len(source) - (source[-1] in GAPS)
    return tuple("X" if symbol in GAPS else symbol for symbol in source[start:end])


def _occurrences(words: Sequence[str], beginnings: set[Side]) -> Iterator[tuple[Side, tuple[Span, ...]]]:
    """Yield all cores with a prefix in ``beginnings``, with the spans of their words."""

    def grow(core: Side, parts: tuple[Span, ...]) -> Iterator[tuple[Side, tuple[Span, ...]]]:
        if core not in beginnings:
            return
        yield core, parts
        start, end = parts[-1]
        if end < len(words):
            yield from grow((*core, words[end]), (*parts[:-1], (start, end + 1)))
        if (*core, "X") in beginnings:
            for place in range(end + 1, min(len(words), parts[0][0] + MAX_SPAN)):
                yield from grow((*core, "X", words[place]), (*parts, (place, place + 1)))

    for place, word in enumerate(words):
        yield from grow((word,), ((place, place + 1),))


def _is_short(source: Side) -> bool:
    return len(source) <= 3 and not GAPS.intersection(source)


def _line(rule: Rule, scores: dict[str, float]) -> str:
    gaps = {"X1": "[X,1]", "X2": "[X,2]"}
    sides = (" ".join(gaps.get(word, word) for word in side) for side in (rule.source, rule.target))
    values = " ".join(f"{name}={value:.6g}" for name, value in scores.items())
    return " ||| ".join(["[X]", *sides, values, " ".join(f"{i}-{j}" for i, j in rule.links)])
