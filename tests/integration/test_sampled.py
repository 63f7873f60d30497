"""Lists sampled from the forest in whole runs: by seed, epoch and sentence, whatever the ranks and interruptions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.mpi import mpirun
from support.runs import result
from support.tiny import Tiny

from mpitune.config.effective_keys import effective_keys
from mpitune.config.load import load
from mpitune.decoder.base import Sentence
from mpitune.decoder.embedded.decoder import EmbeddedDecoder
from mpitune.errors import UsageError
from mpitune.exchange.comm import SerialComm
from mpitune.training.open_run import open_run

METHODS: dict[str, dict[str, Any]] = {
    "perceptron": {},
    "mira": {"method": "mira"},
    "pro": {"method": "pro", "learning_rate": None, "initial_weights": "warm"},
    "mert": {"method": "mert", "learning_rate": None, "initial_weights": "warm"},
}


def tables(method: str, **learner: Any) -> dict[str, Any]:
    return {
        "decoder": {"sample": "forest", "kbest": 25},
        "features": {"templates": []},
        "learner": {"epochs": 2, **METHODS[method], **learner},
    }


@pytest.mark.mpi
@pytest.mark.parametrize("method", ["perceptron", "pro"])
def test_any_number_of_ranks(tiny: Tiny, tmp_path: Path, method: str) -> None:
    tiny.train(tmp_path / "one", **tables(method))
    done = mpirun(3, ["-m", "mpitune", "train", tiny.job_file(tmp_path / "many", **tables(method)), "--quiet"])
    assert done.returncode == 0, done.stderr
    assert result(tmp_path / "one") == result(tmp_path / "many")


@pytest.mark.parametrize("method", METHODS)
def test_seeds_vary_and_resumed_runs_do_not(tiny: Tiny, tmp_path: Path, method: str) -> None:
    tiny.train(tmp_path / "whole", **tables(method))
    tiny.train(tmp_path / "parts", **tables(method, epochs=1))
    tiny.train(tmp_path / "parts", resume="must", **tables(method))
    assert result(tmp_path / "parts") == result(tmp_path / "whole")
    tiny.train(tmp_path / "seed", **tables(method), run={"seed": 7})
    tiny.train(tmp_path / "best", **{**tables(method), "decoder": {"kbest": 25}})
    assert len({result(tmp_path / run) for run in ("whole", "seed", "best")}) == 3


def test_each_list_is_that_of_its_seed_epoch_and_sentence(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(tiny.job(tmp_path / "run", **tables("mira")), SerialComm())
    streams: list[Any] = []
    sample = EmbeddedDecoder.sample

    def noted(self: EmbeddedDecoder, sentence: Sentence, weights: np.ndarray, k: int, random: Any) -> Any:
        streams.append((sentence.number, k, random.bit_generator.state["state"]["state"]))
        return sample(self, sentence, weights, k, random)

    monkeypatch.setattr(EmbeddedDecoder, "sample", noted)
    other = replace(run, job=replace(run.job, run=replace(run.job.run, seed=run.job.run.seed + 1)))
    weights = run.first.copy()
    for of_seed, i, epoch in ((run, 0, 1), (run, 1, 1), (run, 0, 2), (run, 0, 1), (other, 0, 1)):
        of_seed.decode(i, weights, epoch)
    assert [number for number, _, _ in streams] == [0, 1, 0, 0, 0] and {k for _, k, _ in streams} == {25}
    states = [state for _, _, state in streams]
    assert states[0] == states[3] and len(set(states)) == 4
    assert states[0] != np.random.default_rng([run.job.run.seed, 1, 0]).bit_generator.state["state"]["state"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"decoder": {"backend": "cdec", "sample": "forest"}}, "cdec returns no hypergraphs"),
        (
            {
                "decoder": {"sample": "forest"},
                "learner": {"method": "mert", "learning_rate": None},
                "learner__mert": {"search": "hypergraph"},
            },
            'found both learner.mert.search = "hypergraph" and decoder.sample = "forest": the search needs no sample',
        ),
        ({"decoder": {"sample": "sometimes"}}, 'found "sometimes", expected one of none, forest'),
    ],
)
def test_what_has_no_forest_is_refused(tiny: Tiny, tmp_path: Path, given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        load(tiny.job_file(tmp_path / "run", **given))


def test_the_result_depends_on_the_key(tiny: Tiny, tmp_path: Path) -> None:
    assert effective_keys(tiny.job(tmp_path / "run"))["decoder.sample"] == "none"
    assert effective_keys(tiny.job(tmp_path / "run", **tables("mira")))["decoder.sample"] == "forest"
