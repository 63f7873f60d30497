"""N-best lists of other programs: whole runs over the lists of a tiny task."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.mpi import mpirun
from support.runs import SENTENCES, TRAIN_JOBS, Decodes, epoch_weights, files_of, metrics
from support.tiny import Tiny
from support.tiny_lists import FORMATS, Hypothesis, TinyLists

from mpitune.array_files.csr import row_ends
from mpitune.corpus.vocabulary import FeatureTable
from mpitune.decoder.base import KBest, Sentence, empty_translation
from mpitune.decoder.lists.model import ListModel
from mpitune.errors import StopRequested
from mpitune.exchange.comm import SerialComm
from mpitune.store.store import Store
from mpitune.training import factory
from mpitune.training.loop import train

METHODS = ["perceptron", "mira", "pro", "mert", "minrisk", "rampion"]


@pytest.fixture(scope="module")
def lists(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> TinyLists:
    return TinyLists(tiny, tmp_path_factory.mktemp("lists"))


def tables_of(method: str, epochs: int = 2) -> dict[str, Any]:
    tables: dict[str, Any] = {"learner": {"method": method, "epochs": epochs, "patience": 0}}
    return tables | ({"learner__mert": {"restarts": 1, "directions": 2}} if method == "mert" else {})


def run_job(lists: TinyLists, run: Path, kind: str = "cdec", /, **tables: Any) -> None:
    train(factory.load_job(lists.job_file(run, kind, **tables), []), SerialComm(), quiet=True)


def test_translations_get_better_and_the_format_does_not_matter(lists: TinyLists, tmp_path: Path) -> None:
    for kind in FORMATS:
        run_job(lists, tmp_path / kind, kind)
    first, last = metrics(tmp_path / "cdec")
    assert max(first["devtest_bleu"], last["devtest_bleu"]) > first["devtest_bleu_before"] + 5
    for kind in ("moses", "json"):
        assert files_of(tmp_path / kind) == files_of(tmp_path / "cdec")


class InMemory:
    """A decoder of lists that were never in a file, in plain Python."""

    failed = 0

    def __init__(self, model: ListModel, lists: Sequence[Sequence[Hypothesis]]) -> None:
        """``model``: words, and the order of the features, which is that of sums."""
        self.features: FeatureTable = model.feature_table()
        self._words = model.words
        self._lists = lists

    def decode(self, sentence: Sentence, weights: np.ndarray, k: int) -> KBest:
        scored = []
        for entry in {entry.text: entry for entry in reversed(self._lists[sentence.grammar])}.values():
            row = sorted((self.features.slot(name), value) for name, value in entry.features.items())
            score = 0.0
            for slot, value in row:
                score += float(weights[slot]) * value
            scored.append((score, self._words.encode(entry.text.split()), row))
        scored.reverse()
        best = sorted(scored, key=lambda entry: -entry[0])[:k]
        if not best:
            return empty_translation()
        return KBest(
            row_ends([len(words) for _, words, _ in best]),
            np.concatenate([words for _, words, _ in best]),
            np.array([score for score, _, _ in best]),
            row_ends([len(row) for _, _, row in best]),
            np.array([slot for _, _, row in best for slot, _ in row], dtype=np.int32),
            np.array([value for _, _, row in best for _, value in row]),
        )


@pytest.mark.parametrize("method", METHODS)
def test_learners_see_the_lists_as_if_they_had_them_in_memory(
    lists: TinyLists, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    tables = tables_of(method, 1)
    run_job(lists, tmp_path / "files", **tables)

    def in_memory(job: Any, store: Store, *_: Any) -> InMemory:
        assert isinstance(store.model, ListModel)
        return InMemory(store.model, [*lists.lists["train"], *lists.lists["dev"]])

    monkeypatch.setattr(factory, "decoder", in_memory)
    run_job(lists, tmp_path / "memory", **tables)
    assert files_of(tmp_path / "files") == files_of(tmp_path / "memory")
    assert len(epoch_weights(tmp_path / "files", 1)) > 5


@pytest.mark.mpi
def test_ranks_leave_no_trace(lists: TinyLists, tmp_path: Path) -> None:
    for method in ("perceptron", "pro"):
        tables = tables_of(method)
        run_job(lists, tmp_path / method, **tables)
        job = lists.job_file(tmp_path / f"{method}-2", **tables)
        assert mpirun(2, [TRAIN_JOBS, job]).returncode == 0
        assert files_of(tmp_path / method) == files_of(tmp_path / f"{method}-2")


@pytest.mark.parametrize("method", ["perceptron", "mert"])
def test_a_stopped_run_goes_on_as_if_unbroken(lists: TinyLists, tmp_path: Path, decodes: Decodes, method: str) -> None:
    tables = tables_of(method)
    run_job(lists, tmp_path / "unbroken", **tables)
    decodes.count, decodes.stop_at = 0, (1 + SENTENCES + 10, signal.SIGTERM)
    with pytest.raises(StopRequested):
        run_job(lists, tmp_path / "run", **tables)
    decodes.count, decodes.stop_at = 0, None
    run_job(lists, tmp_path / "run", **tables)
    assert files_of(tmp_path / "run") == files_of(tmp_path / "unbroken")
