"""A reader of grammars in cdec's format straight from the definition of `Rules`: dictionaries of tuples, no arrays."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any


class NaiveReader:
    """Reads the text of well-formed grammars, line by line; gaps are numbered in the order of the source side."""

    def __init__(self) -> None:
        self.words = dict[str, int]()
        self.categories = {"S": 0, "X": 1}
        self.score_names = dict[str, int]()
        self._types = dict[tuple[Any, ...], int]()
        self._rules: list[tuple[int, int, int]] = []
        """Grammar, type and line of each rule; scores are in ``_scores[line]``."""
        self._scores: list[list[tuple[int, float]]] = []
        self._grammars = 0

    def read(self, text: str) -> None:
        for line in text.splitlines():
            lhs, source, target, *more = (field.split() for field in re.split(r"(?:^| )\|\|\|(?= |$)", line))
            scores, links = (*more, [], [])[:2]
            source_side = [
                self._symbol(word, r"\[(.+),[12]\]", lambda gap: -1 - self._category(gap)) for word in source
            ]
            target_side = [self._symbol(word, r"\[(?:.+,)?([12])\]", lambda gap: -int(gap)) for word in target]
            pairs = [tuple(map(int, link.split("-"))) for link in links]
            key = self._category(lhs[0][1:-1]), tuple(source_side), tuple(target_side), tuple(pairs)
            rule_type = self._types.setdefault(key, len(self._types))
            self._rules.append((self._grammars, rule_type, len(self._scores)))
            self._scores.append([self._score(place, score) for place, score in enumerate(scores)])
        self._grammars += 1

    def rules(self) -> dict[str, list[Any]]:
        """The fields of `Rules` as lists; a type is left-hand side, source side, target side, links."""
        types = list(self._types)
        order = sorted(self._rules, key=lambda rule: (rule[0], types[rule[1]][1], types[rule[1]][0], rule[2]))
        scores = [[(index, value) for index, value in row if value] for row in self._scores]
        of_grammar = [sum(grammar == g for grammar, _, _ in order) for g in range(self._grammars)]
        return {
            "types": types,
            "type": [rule_type for _, rule_type, _ in order],
            "score_row": [line for _, _, line in order],
            "score_ptr": _ends(len(row) for row in scores),
            "score_index": [index for row in scores for index, _ in row],
            "score_value": [value for row in scores for _, value in row],
            "grammar_ptr": _ends(of_grammar),
        }

    def _symbol(self, word: str, gap: str, symbol: Callable[[str], int]) -> int:
        match = re.fullmatch(gap, word)
        return symbol(match[1]) if match else self.words.setdefault(word, len(self.words))

    def _gap(self, category: str) -> int:
        return -1 - self._category(category)

    def _category(self, name: str) -> int:
        return self.categories.setdefault(name, len(self.categories))

    def _score(self, place: int, text: str) -> tuple[int, float]:
        name, _, value = text.rpartition("=")
        return self.score_names.setdefault(name or f"PhraseModel_{place}", len(self.score_names)), float(value)


def _ends(lengths: Iterable[int]) -> list[int]:
    ends = [0]
    for length in lengths:
        ends.append(ends[-1] + length)
    return ends
