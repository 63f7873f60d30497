"""The grammars of a store; a grammar is opened when a sentence is decoded with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mpitune.array_files.arrays import add_prefix, with_prefix
from mpitune.grammar.rules import Rules, RuleTypes
from mpitune.grammar.score_transforms import TransformPlan, transform_scores


class Grammars(Protocol):
    """Numbered grammars with common rule types."""

    @property
    def types(self) -> RuleTypes:
        """The types of the rules of all grammars."""
        ...

    def __len__(self) -> int: ...

    def open(self, number: int) -> Rules:
        """The rules of grammar ``number``, with transformed scores if the model transforms them."""
        ...


@dataclass(frozen=True)
class ListedGrammars:
    """Grammars stored as lists of rules with scores."""

    rules: Rules
    """The rules of all grammars, one grammar after the other."""
    grammar_ptr: np.ndarray
    """int64 [grammars + 1]: the rules of grammar g are ``grammar_ptr[g]`` to ``grammar_ptr[g + 1]``."""
    plan: TransformPlan | None = None
    """The transformation of scores; None: unchanged."""

    @classmethod
    def stored(cls, arrays: Mapping[str, np.ndarray], plan: TransformPlan | None) -> ListedGrammars:
        """The grammars stored by `as_arrays`."""
        types = RuleTypes(**with_prefix(arrays, "types"))
        return cls(Rules(types, **with_prefix(arrays, "rules")), arrays["grammar_ptr"], plan)

    def as_arrays(self) -> dict[str, np.ndarray]:
        """The arrays for storage, with untransformed scores."""
        rules = self.rules._asdict()
        types = rules.pop("types")
        return add_prefix("types", types._asdict()) | add_prefix("rules", rules) | {"grammar_ptr": self.grammar_ptr}

    @property
    def types(self) -> RuleTypes:
        return self.rules.types

    def __len__(self) -> int:
        return len(self.grammar_ptr) - 1

    def open(self, number: int) -> Rules:
        first, last = self.grammar_ptr[number : number + 2].tolist()
        rules = self.rules._replace(type=self.rules.type[first:last], score_row=self.rules.score_row[first:last])
        return rules if self.plan is None else transform_scores(rules, self.plan)
