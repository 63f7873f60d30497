"""Sparse features of rules, by template, and their names in words.

Simianer, Riezler and Dyer, "Joint Feature Selection in Distributed Stochastic Learning for Large-Scale Discriminative
Training in SMT" (ACL 2012), section 5; the names are those of cdec, so that weights files are interchangeable.
Word pairs, insertions and target words: Eidelman, "Optimization Strategies for Online Large-Margin Learning in Machine
Translation" (WMT 2012), section 3.3; their names are a choice of this implementation. Reordering and fertility are
*(ours)*, after the lexicalised orientations of phrases (Tillmann, HLT-NAACL 2004) and the fertilities of Brown et al.
(Computational Linguistics 19, 1993). `mpitune.grammar.fired` has kernels for them.

A ``_`` inside a word looks like one between words: both become blanks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import compress

from mpitune.grammar.sparse import Gap, Rule, template

FARTHEST = 3
"""Reordering: larger distances count as this one."""
MOST_LINKED = 3
"""Fertility: more target words count as so many."""
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def _rule(text: str) -> str | None:
    """``X:NX_eine:a_N1``: left-hand side, source side (gaps as labels), target side (gaps as numbers)."""
    lhs, _, sides = text.partition(":")
    # Words may contain colons.
    cuts = [(sides[: colon.start()], sides[colon.end() :]) for colon in re.finditer(":", sides)]
    found = [pair for source, target in cuts if (pair := _sides(lhs, source.split("_"), target.split("_")))]
    return found[0] if len(found) == 1 else None


def _sides(lhs: str, source: list[str], target: list[str]) -> str | None:
    """Both sides as words; None if their gaps do not match."""
    gaps = [word for word in source if word in ("NX", "NS", f"N{lhs}")]
    names = {f"N{n}": f"{gap[1:]}{n}".translate(SUBSCRIPTS) for n, gap in enumerate(gaps, start=1)}
    numbers = [word for word in target if re.fullmatch(r"N\d", word)]
    if sorted(numbers) != sorted(names) or not all([*source, *target]):
        return None
    following = iter(names.values())
    left = [next(following) if word in gaps else word for word in source]
    return f"{' '.join(left)} → {' '.join(names.get(word, word) for word in target)}"


def _bigram(text: str) -> str | None:
    words = [word.translate(SUBSCRIPTS) if re.fullmatch(r"X\d", word) else word for word in text.split("_")]
    return " ".join(words) if all(words) else None


def _shape_in_words(text: str) -> str | None:
    match = re.fullmatch(r"S([01]{5})_T([01]{5})", text)
    sides = [" ".join(compress("wXwXw", map(int, side))) for side in match.groups()] if match else []
    return " → ".join(sides) or None


def _parts(pattern: str, words: str) -> Callable[[str], str | None]:
    """A reader of names that match ``pattern``, whose groups stand in ``words``."""
    return lambda text: match.expand(words) if (match := re.fullmatch(pattern, text)) else None


in_pair = _parts("([^_]+)_([^_]+)", r"\1 → \2")


@template("id", "R:", _rule)
def _identity(rule: Rule) -> Iterable[str]:
    source = "_".join([symbol if isinstance(symbol, str) else f"N{symbol.label}" for symbol in rule.source])
    target = "_".join([symbol if isinstance(symbol, str) else f"N{symbol.number}" for symbol in rule.target])
    return [f"R:{rule.lhs}:{source}:{target}"]


@template("source-bigram", "RBS:", _bigram)
def _source_bigrams(rule: Rule) -> Iterable[str]:
    return _bigrams("RBS", [symbol if isinstance(symbol, str) else symbol.label for symbol in rule.source])


@template("target-bigram", "RBT:", _bigram)
def _target_bigrams(rule: Rule) -> Iterable[str]:
    symbols = [symbol if isinstance(symbol, str) else f"{symbol.label}{symbol.number}" for symbol in rule.target]
    return _bigrams("RBT", symbols)


def _bigrams(prefix: str, symbols: list[str]) -> Iterable[str]:
    return [f"{prefix}:{a}_{b}" for a, b in zip(["<r>", *symbols], [*symbols, "</r>"], strict=True)]


@template("shape", "Shape_", _shape_in_words)
def _shape(rule: Rule) -> Iterable[str]:
    return [shape_name(side_shape(rule.source), side_shape(rule.target))]


def shape_name(source: int, target: int) -> str:
    """The name of the feature of a rule with sides of these `side_shape`."""
    return f"Shape_S{source:05b}_T{target:05b}"


def side_shape(side: Sequence[str | Gap]) -> int:
    """Five flags, the highest bit first: words before the first gap, first gap, words, second gap, words after that."""
    shape, bit = 0, 0b10000
    for symbol in side:
        shape |= bit >> 1 if isinstance(symbol, Gap) else bit
        bit >>= 2 if isinstance(symbol, Gap) else 0
    return shape


@template("word-pair", "WP:", in_pair)
def _word_pairs(rule: Rule) -> Iterable[str]:
    linked = [(rule.source[i], rule.target[j]) for i, j in rule.links]
    return [f"WP:{f}_{e}" for f, e in linked if isinstance(f, str) and isinstance(e, str)]


@template("word-pair-all", "WPA:", in_pair)
def _all_word_pairs(rule: Rule) -> Iterable[str]:
    """Pair every source word with every target word, aligned or not."""
    target = [e for e in rule.target if isinstance(e, str)]
    return [f"WPA:{f}_{e}" for f in rule.source if isinstance(f, str) for e in target]


@template("insertion", "INS:", in_pair)
def _insertions(rule: Rule) -> Iterable[str]:
    """Pair each unaligned target word with every source word. A rule without any link counts as not aligned."""
    if not rule.links:
        return []
    linked = {j for _, j in rule.links}
    inserted = [e for j, e in enumerate(rule.target) if isinstance(e, str) and j not in linked]
    return [f"INS:{f}_{e}" for e in inserted for f in rule.source if isinstance(f, str)]


@template("target-words", "TB:", _bigram)
def _target_words(rule: Rule) -> Iterable[str]:
    """Bigrams of adjacent target words."""
    pairs = zip(rule.target[:-1], rule.target[1:], strict=True)
    return [f"TB:{a}_{b}" for a, b in pairs if isinstance(a, str) and isinstance(b, str)]


@template("reordering", "RO:", _parts("(.+)_([^_]*)", r"\1: distance \2"))
def _reordering(rule: Rule) -> Iterable[str]:
    """Distance of the source of each target symbol from that of the one before: 1 is the next symbol, 0 the same one.

    Words without a link are skipped; of several source symbols, the first one comes after the last one before it. The
    sides begin at -1 and end together, with ``</r>``.
    """
    gaps = {symbol.number: i for i, symbol in enumerate(rule.source) if isinstance(symbol, Gap)}
    before = -1
    for j, symbol in enumerate(rule.target):
        if isinstance(symbol, Gap):
            name, places = symbol.label, [gaps[symbol.number]]
        else:
            name, places = symbol, [i for i, linked in rule.links if linked == j]
        if places:
            yield _distance(name, min(places) - before)
            before = max(places)
    yield _distance("</r>", len(rule.source) - before)


def _distance(symbol: str, distance: int) -> str:
    return f"RO:{symbol}_{max(-FARTHEST, min(distance, FARTHEST))}"


@template("fertility", "FERT:", _parts("(.+)_([^_]*)", r"\1: \2 words"))
def _fertility(rule: Rule) -> Iterable[str]:
    """Number of target words that each source word is linked to. A rule without any link counts as not aligned."""
    if not rule.links:
        return []
    linked = Counter(i for i, j in rule.links if isinstance(rule.target[j], str))
    words = ((i, f) for i, f in enumerate(rule.source) if isinstance(f, str))
    return [f"FERT:{f}_{min(linked[i], MOST_LINKED)}" for i, f in words]
