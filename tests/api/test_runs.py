"""Training from Python: the same run as the command's, in a program whose signals and log are its own."""

from __future__ import annotations

import logging
import signal
from pathlib import Path

import pytest
from support.commands import Cli
from support.mpi import mpirun
from support.tiny import DEVTEST, Tiny

import mpitune
from mpitune.api.runs import Metrics
from mpitune.report.html import write_report
from mpitune.training import online_epoch


def test_a_run_is_that_of_the_command(tiny: Tiny, cli: Cli, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli("train", tiny.job_file(tmp_path / "command", **DEVTEST), "--quiet").code == 0
    capsys.readouterr()
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)]
    run = mpitune.train(mpitune.Job(tiny.job_file(tmp_path / "run", **DEVTEST)))
    assert handlers == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)]
    assert capsys.readouterr() == ("", "")
    for name in ("weights.txt.gz", "translations/epoch-0002.txt.gz"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "command" / name).read_bytes()
    assert "INFO" in (tmp_path / "run" / "log.txt").read_text()
    state = run.state
    assert state is not None and (state.state, state.epoch) == ("done", 2)
    assert [epoch["epoch"] for epoch in run.metrics] == [epoch.epoch for epoch in run.epochs] == [1, 2]
    assert run.weights == mpitune.Weights.read(tmp_path / "command") and run.weights_of(1) == run.weights
    assert run.config["learner.epochs"] == 2
    assert "<mpitune.Run" in repr(run) and "done, epoch 2" in repr(run)


def test_a_store_is_prepared_once(tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = mpitune.Job(tiny.job_file(tmp_path / "run", **DEVTEST)).replace({"run.store": tmp_path / "store"})
    assert "data.npz" in mpitune.prepare(job) and mpitune.prepare(job) == []
    assert capsys.readouterr() == ("", "") and not (tmp_path / "run" / "config.toml").exists()


@pytest.mark.parametrize(
    ("scores", "dense", "result"),
    [([], None, (0, None)), ([None, None], None, (2, None)), ([1.0, 3.0, 3.0], 2.0, (2, 3.0)), ([1.0], 2.0, (0, 2.0))],
)
def test_the_epoch_that_is_the_result(
    scores: list[float | None], dense: float | None, result: tuple[int, float | None]
) -> None:
    """The first of the best on devtest, the last one without it; 0 for a dense start that is better than all."""
    metrics = Metrics({"devtest_metric": None, "devtest_bleu": score} for score in scores)
    for first in metrics[:1]:
        first["devtest_bleu_dense"] = dense
    assert metrics.result == result


def test_reports_of_runs(tiny: Tiny, tmp_path: Path) -> None:
    tiny.train(tmp_path / "run", **DEVTEST)
    run = mpitune.Run(tmp_path / "run")
    report = run.report(run, output=tmp_path / "report")
    assert report.path == tmp_path / "report" / "report.html" and report.path.exists()
    page = report._repr_html_()
    assert page.startswith('<iframe srcdoc="') and "&lt;html" in page
    assert write_report([tmp_path / "run"]).exists()


def test_the_log_goes_to_the_program(tiny: Tiny, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("mpitune")
    before = log.level, log.propagate, list(log.handlers)
    with caplog.at_level(logging.INFO, "mpitune"):
        mpitune.train(tiny.job_file(tmp_path / "run"))
    assert any("epoch 2" in line for line in caplog.messages)
    assert (log.level, log.propagate, list(log.handlers)) == before


def test_verbose_shows_it(tiny: Tiny, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    mpitune.train(tiny.job_file(tmp_path / "run"), verbose=True)
    assert "[0/1] INFO done" in capfd.readouterr().err


def test_an_interrupted_run_goes_on(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C reaches the program as its own exception; the run is there to be resumed."""
    tiny.train(tmp_path / "whole")
    learn_shard, shards = online_epoch.learn_shard, 0

    def interrupted(*given: object) -> object:
        nonlocal shards
        shards += 1
        if shards == 6:
            signal.raise_signal(signal.SIGINT)
        return learn_shard(*given)

    job = tiny.job_file(tmp_path / "run")
    monkeypatch.setattr(online_epoch, "learn_shard", interrupted)
    # A test that runs in the background may have inherited that it is ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt):
        mpitune.train(job)
    signal.signal(signal.SIGINT, before)
    run = mpitune.Run(tmp_path / "run")
    state = run.state
    assert state is not None and (state.state, state.epoch) == ("stopped", 1)
    mpitune.train(job, resume="must")
    assert run.weights == mpitune.Weights.read(tmp_path / "whole")


def test_errors_tell_the_place(tiny: Tiny, tmp_path: Path) -> None:
    job = mpitune.Job(tiny.job_file(tmp_path / "run"))
    with pytest.raises(mpitune.UsageError) as of_key:
        job.replace(learner={"epochs": 0})
    assert of_key.value.file == str(job.keys.file) and of_key.value.key == "learner.epochs"
    assert (of_key.value.found, of_key.value.expected) == ("0", "a whole number of at least 1")
    (tmp_path / "short").write_text("one\n")
    with pytest.raises(mpitune.DataError) as of_file:
        mpitune.train(job.replace({"data.references": [tmp_path / "short"], "run.store": tmp_path / "store"}))
    assert of_file.value.file == str(tmp_path / "short") and of_file.value.expected is not None
    with pytest.raises(mpitune.UsageError, match="unknown key; did you mean learner.epochs"):
        mpitune.Job({"learner": {"epoch": 3}})
    assert job["learner.epochs"] == 2 and job == mpitune.Job(job.keys.file) != job.replace({"learner.epochs": 3})


HALVES = r"""
import sys
from mpi4py import MPI
import mpitune
world = MPI.COMM_WORLD
half = world.Split(world.rank % 2)
for _ in range(2):
    run = mpitune.train(sys.argv[1 + world.rank % 2], half, resume="auto")
together = mpitune.train(sys.argv[3])
assert world.allreduce(1) == world.size == 2
sys.stdout.write(f"{run.folder.name} {len(run.weights)} {run.weights == together.weights}\n")
"""


@pytest.mark.mpi
def test_two_runs_on_halves_of_the_processes(tiny: Tiny, tmp_path: Path) -> None:
    jobs = [tiny.job_file(tmp_path / name) for name in ("even", "odd", "both")]
    done = mpirun(2, ["-c", HALVES, *jobs])
    assert done.returncode == 0, done.stderr
    tiny.train(tmp_path / "alone")
    weights = mpitune.Weights.read(tmp_path / "alone")
    assert sorted(done.stdout.splitlines()) == [f"even {len(weights)} True", f"odd {len(weights)} True"]
    assert all(mpitune.Weights.read(tmp_path / name) == weights for name in ("even", "odd", "both"))
