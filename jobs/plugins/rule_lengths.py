"""Sparse features of a rule's lengths: one for each pair of numbers of words, and the difference of the two.

[plugins]
modules = ["plugins/rule_lengths.py"]
[features]
templates = ["id", "rule-lengths"]
"""

from collections.abc import Iterator

from mpitune.plugins import Gap, Rule, template


def in_words(name: str) -> str | None:
    """What reports show for the part of a name after the prefix."""
    source, _, target = name.partition("_")
    return f"{source} to {target} words" if target else None


@template("rule-lengths", "Len:", in_words)
def rule_lengths(rule: Rule) -> Iterator[str | tuple[str, float]]:
    """A feature of the value 1, and one with a value."""
    source, target = (sum(not isinstance(symbol, Gap) for symbol in side) for side in (rule.source, rule.target))
    yield f"Len:{source}_{target}"
    yield "Len:difference", target - source
