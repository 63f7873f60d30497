"""Grammars as they are opened, one by one, from the arrays of a store."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mpitune.corpus.vocabulary import Vocabulary
from mpitune.grammar.binning import Bins
from mpitune.grammar.grammars import ListedGrammars
from mpitune.grammar.rules import RuleReader, Rules
from mpitune.grammar.score_transforms import Scoring, make_plan

TEXTS = [
    "[X] ||| b ||| u ||| Cost=3 ||| 0-0\n[X] ||| a [X,1] ||| v [1] ||| Cost=1 Lex=2 ||| 0-0\n"
    "[S] ||| b ||| u ||| Lex=1\n",
    "",
    "[X] ||| b ||| w ||| Lex=4 ||| 0-0\n[X] ||| a [X,1] ||| v [1] ||| Cost=5 ||| 0-0\n",
]
NAMES = ["Cost", "Lex"]


@pytest.fixture
def listed(tmp_path: Path) -> ListedGrammars:
    reader = RuleReader(Vocabulary(["a", "b"]))
    for n, text in enumerate(TEXTS):
        (tmp_path / f"{n}").write_text(text)
        reader.read(tmp_path / f"{n}")
    assert reader.score_names == NAMES
    return ListedGrammars(reader.rules(), reader.grammar_ptr)


def scores(rules: Rules) -> list[list[tuple[int, float]]]:
    """Index and value of each score, in their order, for each rule."""
    rows = [slice(*rules.score_ptr[row : row + 2].tolist()) for row in rules.score_row.tolist()]
    return [list(zip(rules.score_index[row].tolist(), rules.score_value[row].tolist(), strict=True)) for row in rows]


def test_each_grammar_opens_with_its_own_rules(listed: ListedGrammars) -> None:
    stored = ListedGrammars.stored(listed.as_arrays(), None)
    for grammars in (listed, stored):
        opened = [grammars.open(number) for number in range(len(grammars))]
        assert [scores(rules) for rules in opened] == [
            [[(0, 1.0), (1, 2.0)], [(1, 1.0)], [(0, 3.0)]],
            [],
            [[(0, 5.0)], [(1, 4.0)]],
        ]
        # Nothing is copied.
        assert np.shares_memory(opened[2].type, grammars.rules.type)
        assert opened[2].score_value is grammars.rules.score_value and opened[2].types is grammars.types


def test_types_share_source_sides_and_alignments(listed: ListedGrammars) -> None:
    types, (one, _, other) = listed.types, map(listed.open, range(3))
    assert (len(types.side), len(types.lhs), len(types.source)) == (4, 3, 4)
    assert np.diff(types.align_ptr).tolist() == [1, 0]
    # b -> u and b -> w have the left-hand side X and the links 0-0 in common; [S] -> b has neither.
    b_u, b_w, goal = one.type[2], other.type[1], one.type[1]
    assert b_u != b_w and types.side[b_u] == types.side[b_w] != types.side[goal]
    assert types.alignment[b_u] == types.alignment[b_w] != types.alignment[goal]


@pytest.mark.kernel
def test_scores_are_transformed_at_opening(listed: ListedGrammars) -> None:
    bins = Bins("Cost", np.array([0.0, 3.0]), np.array([1.0, 5.0]), np.array([1, 1]))
    scoring = Scoring({"Lex": "10**v-1"}, (bins,))
    assert scoring.names(NAMES) == ["Lex", "Cost_1", "Cost_2"]
    grammars = ListedGrammars.stored(listed.as_arrays(), make_plan(scoring, NAMES))
    assert [scores(grammars.open(number)) for number in range(3)] == [
        [[(0, 99.0), (1, 1.0)], [(0, 9.0), (1, 1.0)], [(2, 1.0)]],
        [],
        [[(2, 1.0)], [(0, 9999.0), (1, 1.0)]],
    ]
    assert all(np.array_equal(array, listed.as_arrays()[name]) for name, array in grammars.as_arrays().items())
