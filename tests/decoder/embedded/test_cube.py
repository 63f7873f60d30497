"""The order in which rules enter cube pruning, and which of them are scored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.decoder_case import Case, by_slot
from support.naive_decoder import Line
from support.uncompiled import seeds

from mpitune.decoder.embedded import cube
from mpitune.decoder.embedded.candidates import UNSCORED, Candidates, ScoringModel
from mpitune.decoder.embedded.chart import Chart
from mpitune.decoder.embedded.decoder import EmbeddedDecoder
from mpitune.decoder.embedded.matched import MatchedRules
from mpitune.grammar.sparse import Gap, Rule

pytestmark = pytest.mark.kernel

Seen = tuple[MatchedRules, ScoringModel, int]


def searched(monkeypatch: pytest.MonkeyPatch, case: Case, decoder: EmbeddedDecoder, words: Sequence[str]) -> Seen:
    """What a search fills in, and how many candidates it scores (those of one number count once)."""
    seen: list[Seen] = []
    search = cube._search

    def observed(chart: Chart, matched: MatchedRules, model: ScoringModel, candidates: Candidates, *rest: Any) -> None:
        candidates.record["next"] = UNSCORED
        search(chart, matched, model, candidates, *rest)
        seen.append((matched, model, int(np.count_nonzero(candidates.record["next"] != UNSCORED))))

    monkeypatch.setattr(cube, "_search", observed)
    decoder.decode(case.sentence(words), by_slot(decoder, case.weights(decoder, words)), 10)
    monkeypatch.undo()
    return seen[-1]


@pytest.mark.parametrize("seed", seeds(4))
def test_rules_are_ranked_by_their_scores_without_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    case = Case(tmp_path, 900 + seed, orders=[1 + seed, 2])
    matched, model, _ = searched(monkeypatch, case, case.decoder(rule_margin=2.0), case.some_words(20, 200))
    for rule, score in enumerate(model.estimate.tolist()):
        expected = matched.score[rule] + matched.oov_score[rule].sum()
        symbols = matched.target[matched.target_ptr[rule] : matched.target_ptr[rule + 1]].tolist()
        text = " ".join("|" if symbol < 0 else case.vocabulary.words[symbol] for symbol in symbols)
        for weight, lm in zip(model.lm_weight, case.naive_lms, strict=True):
            expected += weight * sum(lm.score(part.split(), start=0) for part in text.split("|"))
        assert score == pytest.approx(expected, rel=1e-5, abs=1e-5)
    for begin, end in zip(matched.group_ptr[:-1], matched.group_ptr[1:], strict=True):
        best_first = sorted(range(begin, end), key=lambda rule: (-model.estimate[rule], rule))
        assert model.ranking[begin:end].tolist() == best_first


def test_rules_that_cannot_be_the_best_are_not_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = 400
    lines = [Line(Rule("X", ["a", Gap("X", 1)], ["a", Gap("X", 1), "b"]), {"A": 50.0 * n}) for n in range(rules)]
    case = Case(tmp_path, 910, [lines], orders=[2])
    *_, few = searched(monkeypatch, case, case.decoder(pop_limit=5, rule_margin=2.0), ["a", "b"])
    *_, all_of_them = searched(monkeypatch, case, case.decoder(pop_limit=5, rule_margin=0.0), ["a", "b"])
    assert few < 20
    assert all_of_them >= rules
