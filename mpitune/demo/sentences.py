"""Turn derivations into sentence pairs, with contractions and punctuation as in running text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from mpitune.demo.synchronous import Link, Tree

CONTRACTIONS = {
    ("an", "dem"): "am",
    ("bei", "dem"): "beim",
    ("can", "not"): "cannot",
    ("in", "das"): "ins",
    ("in", "dem"): "im",
    ("von", "dem"): "vom",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
}
VOWEL = re.compile(r"(?!eu|uni|one)[aeiou]|hour|honest")


class Pair(NamedTuple):
    """A sentence with its translation."""

    source: list[str]
    target: list[str]
    links: set[Link]
    """The word alignment: positions in ``source`` and ``target``."""


def sentence_pair(tree: Tree) -> Pair:
    """The sentence pair of a derivation."""
    pair = _yield(tree)
    source, i_of = _contracted(pair.source)
    target, j_of = _contracted(pair.target)
    following = zip(target, [*target[1:], ""], strict=True)
    target = ["an" if word == "a" and VOWEL.match(after) else word for word, after in following]
    return Pair(source, target, {(i_of[i], j_of[j]) for i, j in pair.links})


def _yield(tree: Tree) -> Pair:
    parts = [_yield(child) for child in tree.children]
    source, i_of = _joined(tree.rule.source, [part.source for part in parts])
    target, j_of = _joined(tree.rule.target, [part.target for part in parts])
    links = {(i_of[i], j_of[j]) for i, j in tree.rule.links}
    for n, part in enumerate(parts):
        i, j = i_of[tree.rule.source.index(n)], j_of[tree.rule.target.index(n)]
        links |= {(i + a, j + b) for a, b in part.links}
    return Pair(source, target, links)


def _joined(symbols: Sequence[str | int], parts: list[list[str]]) -> tuple[list[str], list[int]]:
    """Return the words of a rule's side, and the start of each symbol's words."""
    words: list[str] = []
    starts: list[int] = []
    for symbol in symbols:
        starts.append(len(words))
        words += parts[symbol] if isinstance(symbol, int) else [symbol]
    return words, starts


def _contracted(words: list[str]) -> tuple[list[str], list[int]]:
    """Contract words and drop a comma before another mark; returns the words and the new position of each old word."""
    text: list[str] = []
    places: list[int] = []
    for word in words:
        if text and (text[-1], word) in CONTRACTIONS:
            text[-1] = CONTRACTIONS[text[-1], word]
        elif text and text[-1] == "," and word in (",", ".", "?"):
            text[-1] = word
        else:
            text.append(word)
        places.append(len(text) - 1)
    return text, places
