"""Training and decoding with cdec, a fake one in its place: neither ranks nor failures leave a trace in the result."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.fake import FakeCdec, Table, is_alive
from support.mpi import mpirun
from support.runs import SENTENCES, TRAIN_JOBS, epoch_weights, files_of, metrics
from support.tiny import DEVTEST, Tiny, kill_all, ranks_of, start, wait_for

from mpitune.api.opened import opened_decoder
from mpitune.cli.parser import main
from mpitune.corpus.vocabulary import feature_id
from mpitune.corpus.weights import read_weights
from mpitune.decoder.base import check_failed
from mpitune.errors import MachineError
from mpitune.exchange.comm import SerialComm
from mpitune.run_folder.checkpoint import read_checkpoint
from mpitune.training import loop, online_epoch

Unbroken = Callable[..., dict[str, bytes]]


def tables(fake: FakeCdec, **learner: Any) -> dict[str, Any]:
    """What a job says that runs with ``fake``."""
    return {
        "decoder": {"backend": "cdec", "binary": str(fake.binary)},
        "learner": {"epochs": 3, **learner},
        **DEVTEST,
    }


@pytest.fixture(scope="module")
def unbroken(tiny: Tiny, table: Table, tmp_path_factory: pytest.TempPathFactory) -> Unbroken:
    """What a run on one rank that nothing disturbs leaves."""
    known: dict[str, dict[str, bytes]] = {}

    def of(**learner: Any) -> dict[str, bytes]:
        if repr(learner) not in known:
            folder = tmp_path_factory.mktemp("unbroken")
            fake = FakeCdec(folder / "fake", table)
            tiny.train(folder / "run", **tables(fake, **learner))
            assert len(fake.children) == 1 and fake.living() == []
            known[repr(learner)] = files_of(folder / "run")
        return known[repr(learner)]

    return of


def only_known_to_the_fake(weights: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in weights.items() if name.startswith("Only:")}


# What is learned


@pytest.mark.parametrize("algorithm", ["sgd", "itersel"])
def test_with_the_defaults_epochs_learn_what_the_dense_start_has_not(
    tiny: Tiny, tmp_path: Path, fake: FakeCdec, unbroken: Unbroken, algorithm: str
) -> None:
    """Features that cdec alone knows are sparse; a run that is continued has the bits of an unbroken one."""
    learner: dict[str, Any] = {"preset": "default", "learning_rate": None, "algorithm": algorithm, "dense_start": 40}
    asked = tables(fake, **learner)
    for epochs in (1, 3):
        tiny.train(tmp_path / "run", **{**asked, "learner": {**asked["learner"], "epochs": epochs}})
    assert files_of(tmp_path / "run") == unbroken(**learner)
    first, last = (epoch_weights(tmp_path / "run", epoch) for epoch in (1, 3))
    dense = [name for name in first if not name.startswith(("Only:", "R:", "RBS:", "Shape"))]
    assert len(dense) > 3 and all(first[name] == last[name] for name in dense)
    only = only_known_to_the_fake(last)
    assert only and only != only_known_to_the_fake(first)


@pytest.mark.parametrize("algorithm", ["sgd", "itersel"])
def test_training_with_cdec_learns_features_that_it_alone_knows(
    tiny: Tiny, tmp_path: Path, fake: FakeCdec, algorithm: str
) -> None:
    tiny.train(tmp_path / "run", **tables(fake, algorithm=algorithm))
    found = metrics(tmp_path / "run")
    assert found[-1]["gold"] > found[0]["gold"]
    assert [epoch["failed_sentences"] for epoch in found] == [0] * 3
    for epoch in (1, 2, 3):
        weights = epoch_weights(tmp_path / "run", epoch)
        assert 0 < len(only_known_to_the_fake(weights)) < len(weights)


def test_only_the_names_of_what_an_epoch_keeps_travel(tiny: Tiny, tmp_path: Path, fake: FakeCdec) -> None:
    tiny.train(tmp_path / "run", select={"k": 20}, **tables(fake, algorithm="itersel"))
    kept: set[int] = set()
    for epoch in (1, 2, 3):
        checkpoint = read_checkpoint(tmp_path / "run" / "checkpoints" / f"epoch-{epoch:04d}.h5")
        # Not only those of `weights`: a mean may be 0.
        kept |= set(checkpoint.start[0].tolist())
        met = {feature_id(name) for name in checkpoint.dynamic_names}
        assert met and met <= kept
    assert {feature_id(name) for name in only_known_to_the_fake(epoch_weights(tmp_path / "run", 3))} <= met


def test_what_the_child_was_started_with(tiny: Tiny, tmp_path: Path, fake: FakeCdec) -> None:
    tiny.train(tmp_path / "run", **tables(fake, initial_weights="warm"))
    folder = tmp_path / "run" / "cdec" / "rank-0"
    assert (folder / "cdec.ini").read_text().splitlines() == [
        "formalism=scfg",
        "scfg_max_span_limit=15",
        "cubepruning_pop_limit=30",
        f"grammar={tiny.folder}/grammar",
        f"feature_function=KLanguageModel -n LanguageModel {tiny.folder}/lm.arpa",
        "feature_function=RuleIdentityFeatures",
        "feature_function=RuleSourceBigramFeatures",
        "feature_function=RuleShape",
        "add_pass_through_rules=true",
        "feature_function=WordPenalty",
    ]
    weights = read_weights(folder / "weights")
    assert weights["LanguageModel"] == 0.015625 and weights["R:X:never:fired"] == 0.25
    assert {"Glue", "Cost", "R:X:haus:house"} <= weights.keys(), "those that weigh nothing too: cdec numbers them so"
    assert (folder / "stderr.log").read_text() == "loading ...\n"


def test_sentences_with_grammars_of_their_own(tiny: Tiny, tmp_path: Path, fake: FakeCdec) -> None:
    (tiny.folder / "own.en").write_text("".join((tiny.folder / "train.en").read_text().splitlines(True)[:6]))
    fake.keeps_turns()
    job = tables(fake) | {
        "data": {"source": "own.de", "references": ["own.en"]},
        "grammar": {"file": None, "per_sentence": True},
        "data__devtest": {"source": "own.de", "references": ["own.en"]},
    }
    tiny.train(tmp_path / "run", **job)
    texts = (tiny.folder / "train.de").read_text().splitlines()
    asked = {re.sub(' (id|delta)="[^"]*"', "", segment) for segment, _ in fake.turns()}
    assert asked == {f'<seg grammar="{tiny.folder}/own.{n % 3}">{texts[n]}</seg>' for n in range(5)}, "5 is empty"
    assert f"starting {fake.binary} on all ranks" in (tmp_path / "run" / "log.txt").read_text()
    assert "grammar=" not in (tmp_path / "run" / "cdec" / "rank-0" / "cdec.ini").read_text()


def test_both_decoders_use_one_store(tiny: Tiny, tmp_path: Path, fake: FakeCdec) -> None:
    embedded: dict[str, Any] = {"learner": {"epochs": 1}, **DEVTEST}
    job = tiny.train(tmp_path / "embedded-1", **embedded)
    assert tiny.train(tmp_path / "cdec-1", **tables(fake, epochs=1)).run.store == job.run.store
    before = {path: path.stat().st_mtime_ns for path in job.run.store.iterdir()}
    tiny.train(tmp_path / "embedded-2", **embedded)
    tiny.train(tmp_path / "cdec-2", **tables(fake, epochs=1))
    assert {path: path.stat().st_mtime_ns for path in job.run.store.iterdir()} == before
    assert files_of(tmp_path / "cdec-1") == files_of(tmp_path / "cdec-2")


def test_the_decoder_is_part_of_the_job_and_where_it_lies_is_not(
    tiny: Tiny, tmp_path: Path, fake: FakeCdec, table: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny.train(tmp_path / "run", **tables(fake, epochs=1))
    moved = FakeCdec(tmp_path / "moved", table)
    command = ["train", str(tiny.job_file(tmp_path / "run", **tables(moved, epochs=2))), "--quiet"]
    assert main([*command, "--set", "decoder.backend=embedded"]) == 2
    assert "decoder.backend (was 'cdec', is 'embedded')" in capsys.readouterr().err
    assert main([*command, "--set", "decoder.cdec.sentence_timeout=60"]) == 0
    assert len(metrics(tmp_path / "run")) == 2 and len(moved.children) == 1


# Ranks and failures leave no trace


@pytest.mark.mpi
@pytest.mark.parametrize(("ranks", "exchange"), [(2, "allgather"), (3, "alltoall")])
def test_ranks_leave_no_trace(
    tiny: Tiny, tmp_path: Path, table: Table, unbroken: Unbroken, ranks: int, exchange: str
) -> None:
    """With a failure somewhere or without one."""
    fakes = {name: FakeCdec(tmp_path / f"fake-{name}", table) for name in ("mix", "itersel", "failing")}
    fakes["failing"].fails("dies mid-answer", segment=15, once=True)
    learners = {name: {"algorithm": "mix" if name == "mix" else "itersel"} for name in fakes}
    parallel = {"exchange": exchange}
    jobs = [
        tiny.job_file(tmp_path / name, parallel=parallel, **tables(fake, **learners[name]))
        for name, fake in fakes.items()
    ]
    done = mpirun(ranks, [TRAIN_JOBS, *jobs])
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    for name, fake in fakes.items():
        assert files_of(tmp_path / name) == unbroken(**learners[name])
        assert len(fake.children) == ranks + (name == "failing") and fake.living() == []
        assert sorted(path.name for path in (tmp_path / name / "cdec").iterdir()) == [f"rank-{n}" for n in range(ranks)]


@pytest.mark.parametrize("fault", ["dies", "dies mid-answer", "not base64", "says too much"])
def test_a_failure_leaves_no_trace(tiny: Tiny, tmp_path: Path, fake: FakeCdec, unbroken: Unbroken, fault: str) -> None:
    # In epoch 2, each at another place; the first segment only starts the child.
    for segment in (40, 49):
        fake.fails(fault, segment=segment, once=True)
    fake.fails(fault, segment=3, once=True)
    tiny.train(tmp_path / "run", **tables(fake, algorithm="itersel"))
    assert files_of(tmp_path / "run") == unbroken(algorithm="itersel")
    assert len(fake.children) == 4 and fake.living() == []
    log = (tmp_path / "run" / "log.txt").read_text()
    assert len(re.findall(r"WARNING sentence \d+: .*; retrying once", log)) == 3
    assert "giving up" not in log


@pytest.mark.mpi
def test_children_that_are_killed_leave_no_trace(
    tiny: Tiny, tmp_path: Path, fake: FakeCdec, unbroken: Unbroken
) -> None:
    learner: dict[str, Any] = {"algorithm": "itersel", "epochs": 12, "patience": 0}
    process = start(2, ["train", tiny.job_file(tmp_path / "run", **tables(fake, **learner)), "--quiet"])
    for epoch in (2, 5):
        wait_for((tmp_path / "run" / "checkpoints" / f"epoch-{epoch:04d}.h5").exists, process)
        for pid in fake.living():
            os.kill(pid, signal.SIGKILL)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert files_of(tmp_path / "run") == unbroken(**learner)
    assert len(fake.children) > 2 and fake.living() == []


@pytest.mark.mpi
def test_a_killed_run_goes_on_on_another_number_of_ranks(
    tiny: Tiny, tmp_path: Path, fake: FakeCdec, unbroken: Unbroken
) -> None:
    """Features that nobody knew before are known again, and in the same order."""
    learner: dict[str, Any] = {"algorithm": "itersel", "epochs": 12, "patience": 0}
    job = tiny.job_file(tmp_path / "run", **tables(fake, **learner))
    for ranks, epoch in ((3, 2), (1, 4)):
        process = start(ranks, ["train", job, "--quiet"])
        wait_for((tmp_path / "run" / "checkpoints" / f"epoch-{epoch:04d}.h5").exists, process)
        kill_all(process)
        wait_until_none_lives(fake)
        assert len(metrics(tmp_path / "run")) < 12
    done = mpirun(3, ["-m", "mpitune", "train", job, "--quiet"])
    assert done.returncode == 0, done.stderr
    assert files_of(tmp_path / "run") == unbroken(**learner)
    assert only_known_to_the_fake(epoch_weights(tmp_path / "run", 12))


def wait_until_none_lives(fake: FakeCdec, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while fake.living():
        assert time.monotonic() < end, "children outlive the run"
        time.sleep(0.01)


@pytest.mark.mpi
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's end")
def test_a_killed_rank_leaves_no_child(tiny: Tiny, tmp_path: Path, fake: FakeCdec) -> None:
    fake.fails("never ends")
    job = tiny.job_file(tmp_path / "run", **tables(fake, epochs=1000))
    process = start(2, ["train", job, "--quiet"])
    wait_for((tmp_path / "run" / "checkpoints" / "epoch-0001.h5").exists, process)
    assert len(fake.living()) == 2
    parents = {int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) for pid in fake.living()}
    assert len(parents) == 2 and parents <= set(ranks_of(process))
    os.kill(min(parents), signal.SIGKILL)
    try:
        process.communicate(timeout=60)
    finally:
        kill_all(process)
    assert process.returncode != 0
    wait_until_none_lives(fake)
    assert not any(is_alive(pid) for pid in parents)


@pytest.mark.mpi
def test_a_signal_stops_the_run_after_its_sentence(
    tiny: Tiny, tmp_path: Path, fake: FakeCdec, unbroken: Unbroken
) -> None:
    """It reaches children too, as a cluster's warning does: they go on."""
    learner: dict[str, Any] = {"algorithm": "itersel", "epochs": 12, "patience": 0}
    job = tiny.job_file(tmp_path / "run", **tables(fake, **learner))
    process = start(2, ["train", job, "--quiet"])
    wait_for((tmp_path / "run" / "checkpoints" / "epoch-0002.h5").exists, process)
    for pid in fake.living():
        os.kill(pid, signal.SIGUSR1)
    process.send_signal(signal.SIGUSR1)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 75, errors
    assert len(fake.children) == 2 and fake.living() == []
    done = mpirun(1, ["-m", "mpitune", "train", job, "--quiet"])
    assert done.returncode == 0, done.stderr
    assert files_of(tmp_path / "run") == unbroken(**learner)


# Sentences that are given up


def test_too_many_failed_sentences_end_the_run(
    tiny: Tiny, tmp_path: Path, fake: FakeCdec, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.fails("dies mid-answer", text=(tiny.folder / "train.de").read_text().splitlines()[3])
    job = tables(fake) | {"data__devtest": None}
    assert main(["train", str(tiny.job_file(tmp_path / "run", **job)), "--quiet"]) == 4
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("mpitune:")]
    assert said == [
        "mpitune: the decoder failed on 1 of 26 sentences, more than 1 %: "
        'its log tells how (jobs/migrating.md, "With cdec")'
    ]
    assert not list((tmp_path / "run").glob("checkpoints/*.h5"))


def test_too_many_failed_sentences_end_the_dense_start(
    tiny: Tiny, tmp_path: Path, table: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    """And what it has learned of the others is not gone on from."""
    learner: dict[str, Any] = {"preset": "default", "learning_rate": None, "dense_start": SENTENCES, "epochs": 1}
    fake = FakeCdec(tmp_path / "fake", table)
    fake.fails("dies mid-answer", text=(tiny.folder / "train.de").read_text().splitlines()[3])
    job = tables(fake, **learner) | {"data__devtest": None}
    assert main(["train", str(tiny.job_file(tmp_path / "run", **job)), "--quiet"]) == 4
    assert "the decoder failed on 1 of 26 sentences, more than 1 %" in capsys.readouterr().err
    assert not list((tmp_path / "run" / "checkpoints").glob("epoch-0001*")), "it was the dense start that ended"
    (tmp_path / "fake" / "faults.json").unlink()
    tiny.train(tmp_path / "run", **job)
    tiny.train(tmp_path / "unbroken", **job)
    assert files_of(tmp_path / "run") == files_of(tmp_path / "unbroken")


def test_one_percent_is_the_most() -> None:
    for failed, sentences in ((0, 0), (0, 26), (1, 100), (10, 1000)):
        check_failed(failed, sentences)
    for failed, sentences in ((1, 99), (11, 1000), (1, 0)):
        with pytest.raises(MachineError, match=f"the decoder failed on {failed} of {sentences} sentences"):
            check_failed(failed, sentences)


def one_too_hard(tiny: Tiny) -> dict[str, Any]:
    """The data of a job of 105 sentences, the first of which the fake fails on."""
    # Not in its table: it ends. (The shortest sentence of a run would be decoded to warm up, too.)
    hard = "ein satz der viel zu schwer ist um je verstanden zu werden"
    sources = (tiny.folder / "train.de").read_text().splitlines() * 4
    references = (tiny.folder / "train.en").read_text().splitlines() * 4
    (tiny.folder / "many.de").write_text("".join(f"{line}\n" for line in [hard, *sources]))
    (tiny.folder / "many.en").write_text("".join(f"{line}\n" for line in ["too hard", *references]))
    return {"data": {"source": "many.de", "references": ["many.en"]}, "data__devtest": None}


def test_shards_with_failures_are_not_taken_for_done(
    tiny: Tiny, tmp_path: Path, fake: FakeCdec, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = tables(fake, epochs=1) | one_too_hard(tiny)

    def fail(*_: object) -> None:
        raise MachineError("no room")

    with monkeypatch.context() as patch, pytest.raises(MachineError, match="no room"):
        patch.setattr(loop, "write_epoch", fail)
        tiny.train(tmp_path / "run", **job)
    tiny.train(tmp_path / "run", **job)
    given_up = re.findall("sentence 1: .*; giving up", (tmp_path / "run" / "log.txt").read_text())
    assert len(given_up) == 2 * (1 + 2), "in the epoch, and where translations are kept before and after it"


@pytest.mark.mpi
def test_a_few_failed_sentences_are_counted(
    tiny: Tiny, tmp_path: Path, fake: FakeCdec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever they were decoded, and among the few that are watched too."""
    kept: list[Any] = []
    monkeypatch.setattr(online_epoch, "write_shard", lambda *found: kept.append(found[-1]))
    job = tables(fake, epochs=2) | one_too_hard(tiny)
    for ranks in (1, 3):
        run = tmp_path / f"run-{ranks}"
        if ranks == 1:
            tiny.train(run, **job)
            assert sorted(shard.statistics["failed"] for shard in kept) == [0] * 6 + [1] * 2
        else:
            done = mpirun(ranks, ["-m", "mpitune", "train", tiny.job_file(run, **job), "--quiet"])
            assert done.returncode == 0, done.stderr
        for epoch in metrics(run):
            assert (epoch["sentences"], epoch["failed_sentences"]) == (105, 1)
            assert epoch["empty_outputs"] == 0, "failed ones are no translations"
        given_up = re.findall("sentence 1: .*; giving up", (run / "log.txt").read_text())
        assert len(given_up) == 2 + 3, "in each epoch, and where translations are kept"
    assert files_of(tmp_path / "run-1") == files_of(tmp_path / "run-3")


@pytest.mark.mpi
def test_a_decoder_that_does_not_start_on_one_rank_ends_all(tiny: Tiny, tmp_path: Path, fake: FakeCdec) -> None:
    fake.fails("never starts", once=True)
    done = mpirun(2, ["-m", "mpitune", "train", tiny.job_file(tmp_path / "run", **tables(fake)), "--quiet"])
    assert done.returncode == 4
    told = [line for line in done.stderr.splitlines() if line.startswith("mpitune:")]
    assert len(told) == 1 and "last line of its standard error: 'cannot find my grammar'" in told[0], done.stderr
    wait_until_none_lives(fake)


# Decoding


@pytest.fixture
def trained(tiny: Tiny, tmp_path: Path, fake: FakeCdec) -> Path:
    """A job that has been run."""
    tiny.train(tmp_path / "run", **tables(fake))
    return tiny.job_file(tmp_path / "run", **tables(fake))


def best_of_the_table(table: Table, text: str, weights: dict[str, float]) -> list[str]:
    """Translations by score, each once."""
    scored = [(sum(weights.get(n, 0.0) * v for n, v in row.items()), target) for target, row in table.get(text, [])]
    return list(dict.fromkeys(target for _, target in sorted(scored, key=lambda entry: -entry[0]))) or [""]


def test_decoding_knows_the_pass_through_features_of_its_input(tiny: Tiny, tmp_path: Path) -> None:
    job = tiny.job(tmp_path / "run", decoder={"backend": "cdec"})
    (tmp_path / "in").write_text("house haus never\n")
    with opened_decoder(job, SerialComm(), tmp_path / "in", 1, None) as (decoder, model, _):
        assert "house" in model.words.words, "a word of target sides only"
        assert all(f"R:X:{word}:{word}" in decoder.features for word in ("house", "never"))


def test_decoding_gives_the_best_of_the_table(
    tiny: Tiny, tmp_path: Path, trained: Path, table: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = read_weights(tmp_path / "run" / "weights.txt.gz")
    texts = (tiny.folder / "train.de").read_text().splitlines()
    assert "" in texts
    command = ["decode", str(trained), "--input", str(tiny.folder / "train.de")]
    assert main(command) == 0
    assert capsys.readouterr().out.splitlines() == [best_of_the_table(table, text, weights)[0] for text in texts]
    assert main([*command, "--nbest", "3", "--format", "cdec"]) == 0
    lines = [line.split(" ||| ") for line in capsys.readouterr().out.splitlines()]
    for number, text in enumerate(texts):
        mine = [line for line in lines if line[0] == str(number)]
        assert [line[1] for line in mine] == best_of_the_table(table, text, weights)[:3]
        for line in mine:
            features = dict(pair.rpartition("=")[::2] for pair in line[2].split())
            score = sum(weights.get(name, 0.0) * float(value) for name, value in features.items())
            assert float(line[3]) == pytest.approx(score, rel=1e-4, abs=1e-4)
    assert any("Only:" in line[2] for line in lines)
    assert [path.name for path in (tmp_path / "run" / "cdec").iterdir()] == ["rank-0"], "nothing is left"


@pytest.mark.mpi
def test_decoding_on_two_ranks(tiny: Tiny, tmp_path: Path, trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["decode", str(trained), "--input", str(tiny.folder / "dev.de"), "--nbest", "5", "--format", "moses"]
    assert main(command) == 0
    done = mpirun(2, ["-m", "mpitune", *command])
    assert done.returncode == 0, done.stderr
    assert done.stdout == capsys.readouterr().out and done.stdout.count("\n") > 20


def test_decoding_where_a_sentence_fails(
    tiny: Tiny, tmp_path: Path, trained: Path, fake: FakeCdec, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.fails("dies mid-answer", text=(tiny.folder / "dev.de").read_text().splitlines()[2])
    assert main(["decode", str(trained), "--input", str(tiny.folder / "dev.de")]) == 4
    output, errors = capsys.readouterr()
    assert output == "" and "the decoder failed on 1 of 8 sentences, more than 1 %" in errors
    logs = list((tmp_path / "run" / "cdec").glob("decode-*/stderr.log"))
    assert len(logs) == 1 and "out of memory" in logs[0].read_text()


@pytest.mark.parametrize("option", [["--explain", "2"], ["--forest", "forests"]])
def test_there_is_nothing_to_explain(
    tiny: Tiny, trained: Path, capsys: pytest.CaptureFixture[str], option: list[str]
) -> None:
    assert main(["decode", str(trained), "--input", str(tiny.folder / "dev.de"), *option]) == 2
    said = "--explain and --forest need the embedded decoder: --set decoder.backend=embedded"
    assert capsys.readouterr().err == f"mpitune: {said}\n"
