"""A decoder that lists every derivation of a sentence, and random grammars to try things on."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from support.naive_lm import NaiveLm

from mpitune.grammar.sparse import Gap, Rule
from mpitune.grammar.templates import GLUE, features, pass_through

Symbols = Sequence[str | Gap]
Translation = tuple[str, ...]
Features = dict[str, float]


@dataclass(frozen=True)
class Line:
    """One line of a grammar."""

    rule: Rule
    scores: Features

    def __str__(self) -> str:
        source = " ".join(s if isinstance(s, str) else f"[{s.label},{s.number}]" for s in self.rule.source)
        target = " ".join(s if isinstance(s, str) else f"[{s.number}]" for s in self.rule.target)
        scores = " ".join(f"{name}={value!r}" for name, value in self.scores.items())
        return f"[{self.rule.lhs}] ||| {source} ||| {target} ||| {scores}"


def write_grammar(path: Path, grammar: Sequence[Line]) -> Path:
    path.write_text("".join(f"{line}\n" for line in grammar))
    return path


@dataclass
class NaiveDecoder:
    grammar: Sequence[Line]
    lms: Sequence[NaiveLm]
    templates: Sequence[str] = ()
    span_limit: int = 15
    _found: dict[tuple[str, int, int], list[tuple[Translation, Counter[str]]]] = field(default_factory=dict)

    def derivations(self, words: Sequence[str]) -> list[tuple[Translation, Features]]:
        """The translation and the features of every derivation of ``words``."""
        if not words:
            return [((), {})]
        self._found.clear()
        glue = [Line(GLUE[0], {}), Line(GLUE[1], {"Glue": 1.0})]
        through = [Line(pass_through(word), {"PassThrough": 1.0}) for word in dict.fromkeys(words)]
        rules = [*self.grammar, *glue, *through]
        return [(text, self._with_lms(text, fired)) for text, fired in self._over(rules, words, "S", 0, len(words))]

    def best(
        self, words: Sequence[str], weights: Mapping[str, float]
    ) -> dict[Translation, list[tuple[float, Features]]]:
        """Each translation with the scores and features of its derivations, best first."""
        texts: dict[Translation, list[tuple[float, Features]]] = {}
        for text, fired in self.derivations(words):
            texts.setdefault(text, []).append((dot(weights, fired), fired))
        for ways in texts.values():
            ways.sort(key=lambda way: -way[0])
        return dict(sorted(texts.items(), key=lambda item: -item[1][0][0]))

    def _over(
        self, rules: Sequence[Line], words: Sequence[str], category: str, start: int, end: int
    ) -> list[tuple[Translation, Counter[str]]]:
        """All derivations of ``category`` over ``words[start:end]``, without what the LMs add."""
        if (category, start, end) not in self._found:
            found = []
            for line in rules:
                allowed = start == 0 if category == "S" else end - start <= self.span_limit
                if line.rule.lhs != category or not allowed:
                    continue
                for spans in _matches(line.rule.source, words, start, end):
                    for parts in self._combinations(rules, words, spans):
                        found.append(self._derivation(line, parts))
            self._found[category, start, end] = found
        return self._found[category, start, end]

    def _combinations(
        self, rules: Sequence[Line], words: Sequence[str], spans: list[tuple[Gap, int, int]]
    ) -> Iterator[dict[int, tuple[Translation, Counter[str]]]]:
        """A derivation under the number of each gap."""
        if not spans:
            yield {}
            return
        gap, start, end = spans[0]
        for rest in self._combinations(rules, words, spans[1:]):
            for inner in self._over(rules, words, gap.label, start, end):
                yield {gap.number: inner, **rest}

    def _derivation(
        self, line: Line, parts: dict[int, tuple[Translation, Counter[str]]]
    ) -> tuple[Translation, Counter[str]]:
        text: list[str] = []
        for symbol in line.rule.target:
            text += [symbol] if isinstance(symbol, str) else parts[symbol.number][0]
        fired: Counter[str] = Counter(line.scores)
        fired.update(dict(features(self.templates, line.rule)))
        for _, below in parts.values():
            fired.update(below)
        return tuple(text), fired

    def _with_lms(self, text: Translation, fired: Counter[str]) -> Features:
        values = dict(fired)
        if text:
            values["WordPenalty"] = -len(text) / math.log(10)
        for n, lm in enumerate(self.lms):
            name = f"LanguageModel_{n}" if n else "LanguageModel"
            values[name] = lm.score(["<s>", *text, "</s>"], start=1)
            unknown = lm.known(text).count("<unk>")
            if unknown:
                values[f"{name}_OOV"] = unknown
        return values


def dot(weights: Mapping[str, float], fired: Features) -> float:
    return sum(weights.get(name, 0.0) * value for name, value in fired.items())


def _matches(source: Symbols, words: Sequence[str], start: int, end: int) -> Iterator[list[tuple[Gap, int, int]]]:
    """The ways to lay ``source`` over ``words[start:end]``: the span of each gap."""
    if not source:
        if start == end:
            yield []
        return
    first, rest = source[0], source[1:]
    if isinstance(first, str):
        if start < end and words[start] == first:
            yield from _matches(rest, words, start + 1, end)
        return
    for middle in range(start + 1, end + 1):
        for spans in _matches(rest, words, middle, end):
            yield [(first, start, middle), *spans]


def random_grammar(draw: random.Random, sources: Sequence[str], targets: Sequence[str], size: int) -> list[Line]:
    """``size`` random lines over words of either side, some of them repeated, with no cycle of unary rules.

    Categories come in a random order, X before S; a unary rule turns one into another that comes before it.
    """
    categories = ["X", "NP", "S", "VP"]
    while True:
        draw.shuffle(categories)
        if categories.index("X") < categories.index("S"):
            break
    lines: list[Line] = []
    while len(lines) < size:
        if lines and draw.random() < 0.1:
            lines.append(Line(draw.choice(lines).rule, _scores(draw)))
            continue
        lhs = draw.choice(["X", "X", *categories])
        gaps = draw.choice([0, 0, 1, 1, 2])
        kinds = [*(gaps * ["gap"]), *(draw.randint(0 if gaps else 1, 2) * ["word"])]
        draw.shuffle(kinds)
        source: list[str | Gap] = []
        for kind in kinds:
            number = 1 + sum(isinstance(symbol, Gap) for symbol in source)
            source.append(draw.choice(sources) if kind == "word" else Gap(draw.choice(categories), number))
        if len(source) == gaps == 1:
            before = categories[: categories.index(lhs)]
            if not before:
                continue
            source = [Gap(draw.choice(before), 1)]
        target = [symbol for symbol in source if isinstance(symbol, Gap)]
        target += [draw.choice(targets) for _ in range(draw.randint(0, 3))]
        draw.shuffle(target)
        lines.append(Line(Rule(lhs, source, target), _scores(draw)))
    return lines


def _scores(draw: random.Random) -> Features:
    return {name: draw.choice([1.0, -2.0, draw.gauss(0, 1)]) for name in ("A", "B", "Glue") if draw.random() < 0.5}
