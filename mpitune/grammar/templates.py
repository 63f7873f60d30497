"""Sparse features of rules: templates turn a rule into feature names.

Simianer, Riezler and Dyer, "Joint Feature Selection in Distributed Stochastic Learning for Large-Scale Discriminative
Training in SMT" (ACL 2012), section 5; the names are those of cdec, so that weights files are interchangeable.
Word pairs, insertions and target words: Eidelman, "Optimization Strategies for Online Large-Margin Learning in Machine
Translation" (WMT 2012), section 3.3; their names are a choice of this implementation. Reordering and fertility are
*(ours)*, after the lexicalised orientations of phrases (Tillmann, HLT-NAACL 2004) and the fertilities of Brown et al.
(Computational Linguistics 19, 1993).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from mpitune.array_files.csr import iter_rows, select_rows
from mpitune.errors import UsageError
from mpitune.grammar.rules import RuleTypes


class Gap(NamedTuple):
    """A nonterminal on the right-hand side of a rule."""

    label: str
    """Its category."""
    number: int
    """Its number from 1, in the order of the source side."""

    def __str__(self) -> str:
        return f"[{self.label},{self.number}]"


class Rule(NamedTuple):
    """A rule as words and gaps. Its string is the beginning of a grammar line in cdec's format."""

    lhs: str
    source: Sequence[str | Gap]
    target: Sequence[str | Gap]
    links: Sequence[tuple[int, int]] = ()
    """The word alignment: positions in source and target, gaps included; empty if the grammar has none."""

    def __str__(self) -> str:
        return f"[{self.lhs}] ||| {' '.join(map(str, self.source))} ||| {' '.join(map(str, self.target))}"


Template = Callable[[Rule], Iterable[str]]

FARTHEST = 3
"""Reordering: larger distances count as this one."""
MOST_LINKED = 3
"""Fertility: more target words count as so many."""
_CONTROLS = dict.fromkeys([*range(32), 127], "_")
"""Replacements of control characters, by their numbers."""


def pass_through(word: str) -> Rule:
    """Make the rule that copies a source word to the target."""
    return Rule("X", [word], [word], [(0, 0)])


GLUE = (
    Rule("S", [Gap("X", 1)], [Gap("X", 1)]),
    Rule("S", [Gap("S", 1), Gap("X", 2)], [Gap("S", 1), Gap("X", 2)]),
)
"""The two glue rules, S -> X and S -> S X, which concatenate phrases."""


def _identity(rule: Rule) -> Iterable[str]:
    source = "_".join([symbol if isinstance(symbol, str) else f"N{symbol.label}" for symbol in rule.source])
    target = "_".join([symbol if isinstance(symbol, str) else f"N{symbol.number}" for symbol in rule.target])
    return [f"R:{rule.lhs}:{source}:{target}"]


def _source_bigrams(rule: Rule) -> Iterable[str]:
    return _bigrams("RBS", [symbol if isinstance(symbol, str) else symbol.label for symbol in rule.source])


def _target_bigrams(rule: Rule) -> Iterable[str]:
    symbols = [symbol if isinstance(symbol, str) else f"{symbol.label}{symbol.number}" for symbol in rule.target]
    return _bigrams("RBT", symbols)


def _bigrams(prefix: str, symbols: list[str]) -> Iterable[str]:
    return [f"{prefix}:{a}_{b}" for a, b in zip(["<r>", *symbols], [*symbols, "</r>"], strict=True)]


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


def _word_pairs(rule: Rule) -> Iterable[str]:
    linked = [(rule.source[i], rule.target[j]) for i, j in rule.links]
    return [f"WP:{f}_{e}" for f, e in linked if isinstance(f, str) and isinstance(e, str)]


def _all_word_pairs(rule: Rule) -> Iterable[str]:
    """Pair every source word with every target word, aligned or not."""
    target = [e for e in rule.target if isinstance(e, str)]
    return [f"WPA:{f}_{e}" for f in rule.source if isinstance(f, str) for e in target]


def _insertions(rule: Rule) -> Iterable[str]:
    """Pair each unaligned target word with every source word. A rule without any link counts as not aligned."""
    if not rule.links:
        return []
    linked = {j for _, j in rule.links}
    inserted = [e for j, e in enumerate(rule.target) if isinstance(e, str) and j not in linked]
    return [f"INS:{f}_{e}" for e in inserted for f in rule.source if isinstance(f, str)]


def _target_words(rule: Rule) -> Iterable[str]:
    """Bigrams of adjacent target words."""
    pairs = zip(rule.target[:-1], rule.target[1:], strict=True)
    return [f"TB:{a}_{b}" for a, b in pairs if isinstance(a, str) and isinstance(b, str)]


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


def _fertility(rule: Rule) -> Iterable[str]:
    """Number of target words that each source word is linked to. A rule without any link counts as not aligned."""
    if not rule.links:
        return []
    linked = Counter(i for i, j in rule.links if isinstance(rule.target[j], str))
    words = ((i, f) for i, f in enumerate(rule.source) if isinstance(f, str))
    return [f"FERT:{f}_{min(linked[i], MOST_LINKED)}" for i, f in words]


TEMPLATES: dict[str, Template] = {
    "id": _identity,
    "source-bigram": _source_bigrams,
    "target-bigram": _target_bigrams,
    "shape": _shape,
    "word-pair": _word_pairs,
    "word-pair-all": _all_word_pairs,
    "insertion": _insertions,
    "target-words": _target_words,
    "reordering": _reordering,
    "fertility": _fertility,
}
"""Registry of the templates by their names in job files; a template returns the feature names that a rule fires."""


def features(templates: Sequence[str], rule: Rule) -> list[tuple[str, float]]:
    """Features that ``rule`` fires, with their counts. Raises UsageError for an unknown template."""
    return [(name, float(count)) for name, count in Counter(_fired(_look_up(templates), rule)).items()]


def all_names(
    templates: Sequence[str], types: RuleTypes, categories: Sequence[str], words: Sequence[str]
) -> Iterator[str]:
    """Yield the names of all features that rules of these ``types`` fire, with repetitions, and those of glue rules.

    ``categories`` and ``words`` name the rules' symbols. Raises UsageError for an unknown template.
    """
    functions = _look_up(templates)
    # Without templates, no rule need be spelled out.
    for rule in chain(_all_as_symbols(types, categories, words), GLUE) if functions else ():
        yield from _fired(functions, rule)


def as_symbols(types: RuleTypes, rule_type: int, categories: Sequence[str], words: Sequence[str]) -> Rule:
    """Spell out ``rule_type``, a number in ``types``; ``categories`` and ``words`` name the symbols."""
    side, target_side = types.side[rule_type], types.target_side[rule_type]
    alignment = types.alignment[rule_type]
    source = types.source[types.source_ptr[side] : types.source_ptr[side + 1]].tolist()
    target = types.target[types.target_ptr[target_side] : types.target_ptr[target_side + 1]].tolist()
    links = types.align[types.align_ptr[alignment] : types.align_ptr[alignment + 1]].ravel().tolist()
    return _make_rule(int(types.lhs[side]), source, target, links, categories, words)


def _all_as_symbols(types: RuleTypes, categories: Sequence[str], words: Sequence[str]) -> Iterable[Rule]:
    sources = iter_rows(*select_rows(types.source_ptr, types.source, types.side))
    targets = iter_rows(*select_rows(types.target_ptr, types.target, types.target_side))
    links = iter_rows(*select_rows(2 * types.align_ptr, types.align.ravel(), types.alignment))
    for of_type in zip(types.lhs[types.side].tolist(), sources, targets, links, strict=True):
        yield _make_rule(*of_type, categories, words)


def _make_rule(
    lhs: int, source: list[int], target: list[int], links: list[int], categories: Sequence[str], words: Sequence[str]
) -> Rule:
    """Spell out a rule; ``links``: source position, target position of each link, flattened."""
    source_side: list[str | Gap] = []
    gaps: list[Gap] = []
    for symbol in source:
        if symbol < 0:
            gaps.append(Gap(categories[-1 - symbol], len(gaps) + 1))
            source_side.append(gaps[-1])
        else:
            source_side.append(words[symbol])
    target_side = [words[symbol] if symbol >= 0 else gaps[-1 - symbol] for symbol in target]
    return Rule(categories[lhs], source_side, target_side, list(zip(links[::2], links[1::2], strict=True)))


def checked(templates: Sequence[str]) -> Sequence[str]:
    """``templates``, if they are all in `TEMPLATES`; else raises UsageError."""
    for template in templates:
        if template not in TEMPLATES:
            raise UsageError(f"unknown feature template {template!r}, expected any of {', '.join(TEMPLATES)}")
    return templates


def _look_up(templates: Sequence[str]) -> list[Template]:
    return [TEMPLATES[template] for template in checked(templates)]


def _fired(templates: Sequence[Template], rule: Rule) -> list[str]:
    """List the names that ``rule`` fires, with repetitions."""
    return [without_separators(name) for template in templates for name in template(rule)]


def without_separators(text: str) -> str:
    """``text`` as part of a name: ``=`` and ``;``, which end a name in files, and control characters become _."""
    text = text.replace("=", "_").replace(";", "_")
    return text if text.isprintable() else text.translate(_CONTROLS)
