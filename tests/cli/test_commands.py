"""The command line: what each subcommand does, says, and ends with."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sacrebleu.metrics import BLEU, CHRF, TER
from support.commands import Arguments, Cli, Trained
from support.mpi import ROOT, mpirun
from support.tiny import Tiny

import mpitune.cli.decode
from mpitune import jit
from mpitune.cli.parser import main
from mpitune.config.load import load
from mpitune.corpus import progress
from mpitune.corpus.weights import read_weights
from mpitune.decoder.lists.formats import ListReader
from mpitune.ownership import FolderLock
from mpitune.runtime.log import LOG
from mpitune.training.job_inputs import load_job

BITEXT = "grammar={source='dev.de', target='dev.en', alignment='dev.en'}"
COMMANDS = ["train", "prepare", "decode", "local", "evaluate", "import-dtrain", "weights"]


def test_too_little_memory_is_the_machine_s_error(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_out(*_: object) -> None:
        raise MemoryError("Unable to allocate 9 GiB")

    monkeypatch.setattr("mpitune.cli.evaluate._systems", run_out)
    done = cli("evaluate", "--refs", "a", "--hyps", "b")
    assert (done.code, done.errors) == (4, "mpitune: not enough memory: Unable to allocate 9 GiB\n")


@pytest.mark.parametrize(
    "told", ["lib.so: failed to map segment from shared object", "[Errno 12] Cannot allocate memory"]
)
def test_too_little_memory_to_load_a_library(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    def refused(_: object) -> None:
        raise ImportError(told)

    def refused_and_wrapped(_: object) -> None:
        try:
            refused(_)
        except ImportError:
            raise OSError("could not load the library") from None

    for raising in (refused, refused_and_wrapped):
        monkeypatch.setattr("mpitune.cli.parser._load", raising)
        done = cli("evaluate", "--refs", "a", "--hyps", "b")
        assert (done.code, done.errors) == (4, f"mpitune: not enough memory: {told}\n")


def test_a_library_that_may_not_be_loaded_is_no_lack_of_memory(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: object) -> None:
        raise ImportError("a.so: failed to map segment from shared object: Operation not permitted")

    monkeypatch.setattr("mpitune.cli.parser._load", refused)
    done = cli("evaluate", "--refs", "a", "--hyps", "b")
    assert done.code == 1 and "mpitune: a bug: ImportError" in done.errors


def python(arguments: Sequence[str | Path], **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "mpitune", *map(str, arguments)]
    # Buffered, as users have it.
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": ""}
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(command, env=environment, text=True, **{**pipes, **options})  # type: ignore[call-overload, no-any-return]


# All commands


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert [command for command in COMMANDS if not re.search(rf"\n    {command}\s", text)] == []


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["trian"],
        ["train"],
        ["train", "job.toml", "--resume", "maybe"],
        ["decode", "job.toml"],
        ["decode", "job.toml", "--input", "x", "--nbest", "0"],
        ["decode", "job.toml", "--input", "x", "--nbest", "many"],
        ["evaluate", "--refs", "x"],
        ["evaluate", "--refs", "x", "--hyps", "y", "--system", "A", "z"],
    ],
)
def test_bad_usage_ends_with_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    command = " ".join(["mpitune", *[name for name in arguments[:1] if name in COMMANDS]])
    assert line.startswith("mpitune: ") and line.endswith(f"; see {command} --help") and "_positive" not in line


def test_a_job_file_that_is_not_there(cli: Cli, tmp_path: Path) -> None:
    for command in (["train"], ["prepare"], ["decode", "--input", "x"]):
        assert cli.refused(2, *command, tmp_path / "no.toml").startswith(
            f"{tmp_path}/no.toml: found no such file or directory, expected a readable job file"
        )


def test_an_unknown_key(cli: Cli, tiny: Tiny, tmp_path: Path) -> None:
    job = tiny.job_file(tmp_path / "run", learner={"epoch": 3})
    assert "learner.epoch: unknown key; did you mean learner.epochs?" in cli.refused(2, "train", job)
    job = tiny.job_file(tmp_path / "run")
    assert "--set learner.epoch: unknown key" in cli.refused(2, "train", job, "--set", "learner.epoch=3")
    assert not (tmp_path / "run").exists(), "nothing is begun"


def test_training_needs_data(cli: Cli, tiny: Tiny, tmp_path: Path) -> None:
    job = tiny.job_file(tmp_path / "run", data=None)
    assert "[data] is missing" in cli.refused(2, "train", job)
    (tiny.folder / "empty").write_text("")
    job = tiny.job_file(tmp_path / "run", data={"source": "empty", "references": ["empty"]})
    assert (
        cli.refused(3, "train", job, "--quiet")
        == f"{job}: found no sentences in [data], expected at least one sentence"
    )
    (tiny.folder / "empty").write_text("\n \n")
    assert "found empty lines alone in [data], expected" in cli.refused(3, "train", job, "--quiet")
    (tiny.folder / "empty").write_text("")
    job = tiny.job_file(tmp_path / "run", data__devtest={"source": "empty", "references": ["empty"]})
    assert "found no sentences in [data.devtest]" in cli.refused(3, "train", job, "--quiet")


def test_a_missing_file(cli: Cli, tiny: Tiny, tmp_path: Path) -> None:
    job = tiny.job_file(tmp_path / "run", grammar={"file": "nowhere"})
    expected = f"{tiny.folder}/nowhere: found no such file or directory, expected a readable file"
    assert cli.refused(3, "train", job, "--quiet") == expected
    job = tiny.job_file(tmp_path / "run", learner={"initial_weights": "nowhere"})
    assert cli.refused(3, "train", job, "--quiet") == expected


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "job", "--set", "data.references=['pipe']"],
        ["train", "job", "--set", "grammar.file=pipe"],
        ["train", "job", "--set", "lm.0.file=pipe"],
        ["train", "job", "--set", "learner.initial_weights=pipe"],
        ["train", "job", "--set", "decoder.config=pipe"],
        ["train", "job", "--set", BITEXT.replace("dev.en", "pipe", 1)],
        ["train", "job", "--set", BITEXT, "--set", "data.source=pipe"],
        ["extract", "--source", "dev.de", "--target", "pipe", "--alignment", "dev.en", "--input", "dev.de"],
    ],
)
def test_a_pipe_where_a_file_is_read_twice(
    cli: Cli, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    """Nobody writes to it: whoever opened it would wait."""
    monkeypatch.chdir(tiny.folder)
    if not (tiny.folder / "pipe").exists():
        os.mkfifo(tiny.folder / "pipe")
    job = tiny.job_file(tmp_path / "run")
    rest = ["--quiet"] if arguments[0] == "train" else ["--leave-one-out", "--output", tmp_path / "out"]
    line = cli.refused(3, *[job if argument == "job" else argument for argument in arguments], *rest)
    assert line.endswith("pipe: found a pipe or a device, expected a regular file, as it is read more than once")
    assert not (tmp_path / "out").exists()


def test_a_bad_line_of_a_grammar(cli: Cli, tiny: Tiny, tmp_path: Path) -> None:
    (tiny.folder / "bad").write_text("[X] ||| haus ||| house ||| A=1\n[X] ||| das [X,1] ||| the [2] ||| A=1\n")
    job = tiny.job_file(tmp_path / "run", grammar={"file": "bad"})
    line = cli.refused(3, "train", job, "--quiet")
    assert line.startswith(f"{tiny.folder}/bad:2: found ") and ", expected " in line


def test_a_bug_keeps_its_traceback(cli: Cli, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError("what went wrong")

    monkeypatch.setattr("mpitune.training.online_epoch.learn_shard", fail)
    line = cli.refused(1, "train", tiny.job_file(tmp_path / "run"), "--quiet")
    kept = tmp_path / "run" / "traceback-0.txt"
    assert line == f"a bug: KeyError: 'what went wrong'; its traceback is in {kept}"
    assert "KeyError" in kept.read_text()
    job = tiny.job_file(tmp_path / "decoded")
    monkeypatch.setattr("mpitune.training.factory.decoder", fail)
    done = cli("decode", job, "--input", tiny.folder / "dev.de", "--weights", tiny.folder / "warm")
    assert done.code == 1 and "Traceback" in done.errors, "there is no folder to keep it in"
    assert done.errors.endswith("mpitune: a bug: KeyError: 'what went wrong'; its traceback is printed above\n")


def test_a_command_says_when_it_compiles(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object) -> None:
        LOG.info("begun")
        jit.kernel(lambda x: x + 1)(1)
        jit.kernel(lambda x: x + 2)(1)

    monkeypatch.setattr("mpitune.cli.parser._load", lambda _: run)
    monkeypatch.setattr("mpitune.jit.compiler.REPORTED", -1.0)
    done = cli("weights", "x")
    message = f".* compiling kernels, once on {re.escape(socket.gethostname())}: half a minute"
    assert re.fullmatch(f".* begun\n{message}\n{message}; 1 compiled so far\n", done.errors)


# train, prepare


def test_dry_run_prints_a_job_that_reads_back(cli: Cli, tiny: Tiny, tmp_path: Path) -> None:
    job = tiny.job_file(tmp_path / "run")
    done = cli("train", job, "--dry-run", "--set", "learner.epochs=7", "--set", "select.lambda=0.5")
    assert (done.code, done.errors) == (0, "")
    (tmp_path / "copy.toml").write_text(done.output)
    read = load(tmp_path / "copy.toml")
    assert (read.learner.epochs, read.select.lambda_, read.select.k) == (7, 0.5, None)
    assert read.run.dir == tmp_path / "run" and not (tmp_path / "run").exists()


def test_dry_run_warns_of_a_file_that_is_not_there(cli: Cli, tiny: Tiny, tmp_path: Path) -> None:
    done = cli("train", tiny.job_file(tmp_path / "run", data={"source": "no", "references": ["no"]}), "--dry-run")
    expected = f"warning: {tiny.folder}/no: found no such file or directory, expected a readable file\n"
    assert (done.code, done.errors) == (0, expected) and "[data]" in done.output


def test_dry_run_names_the_program_that_the_job_runs(
    cli: Cli, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = tiny.job_file(tmp_path / "run", decoder={"backend": "cdec", "binary": "a-program"})
    assert cli("train", job, "--dry-run").output.endswith("# This job runs a-program, which is not there\n")
    program = tmp_path / "a-program"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli("train", job, "--dry-run").output.endswith(f"# This job runs {program}\n")


def test_train_and_resume(cli: Cli, tiny: Tiny, tmp_path: Path) -> None:
    job = tiny.job_file(tmp_path / "run")
    assert "--resume must asks for one" in cli.refused(2, "train", job, "--resume", "must", "--quiet")
    assert cli("train", job, "--quiet") == (0, "", "")
    done = cli("train", job, "--set", "learner.epochs=3")
    assert done.code == 0 and "going on after epoch 2" in done.errors and "epoch 3: mean gold" in done.errors
    changed = cli.refused(2, "train", job, "--quiet", "--set", "learner.margin=0.5")
    assert "the job has changed since its last checkpoint: learner.margin (was 0.0, is 0.5); set another" in changed


def test_train_with_seeds(cli: Cli, tiny: Tiny, tmp_path: Path) -> None:
    job = tiny.job_file(tmp_path / "run")
    assert cli("train", job, "--quiet", "--seeds", "2..3") == (0, "", "")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["seed-2", "seed-3"]
    assert not list((tmp_path / "run").glob("*/store")), "they share the job's store"
    cli("train", job, "--quiet", "--set", "run.seed=3", "--set", f"run.dir={tmp_path}/alone")
    results = [tmp_path / folder / "weights.txt.gz" for folder in ("run/seed-2", "run/seed-3", "alone")]
    two, three, alone = (read_weights(path) for path in results)
    assert three == alone != two
    done = cli("train", job, "--seeds", "1..3", "--set", "learner.epochs=3")
    assert done.code == 0 and done.errors.count("going on after epoch 2") == 2
    other = FolderLock(tmp_path / "run" / "seed-2", "run")
    other.acquire(wait=False)
    refused = cli("train", job, "--quiet", "--seeds", "1..2", "--set", "learner.epochs=3")
    assert refused.code == 2 and "seed-2: the run folder is in use" in refused.errors
    assert "in use" not in (tmp_path / "run" / "seed-1" / "log.txt").read_text(), "the message of another run"
    other.release()
    assert load(tmp_path / "run" / "seed-1" / "config.toml").run.seed == 1
    line = cli.refused(2, "train", job, "--seeds", "1..2", "--set", f"run.dir={tmp_path}/alone")
    assert line == f"{tmp_path}/alone: found a single run, expected no --seeds or another run.dir"
    assert not list((tmp_path / "alone").glob("seed-*")), "they would be hidden by the single run"
    report = cli("report", tmp_path / "run")
    assert report == (0, f"the report: {tmp_path}/run/report.html\n", "")
    line = cli.refused(2, "train", job)
    assert line == f"{tmp_path}/run: found runs with several seeds, expected --seeds or another run.dir"
    assert not (tmp_path / "run" / "log.txt").exists()
    line = cli.refused(2, "weights", tmp_path / "run")
    assert line == f"{tmp_path}/run: found runs with several seeds, expected one of them, such as {tmp_path}/run/seed-1"


@pytest.mark.parametrize("seeds", ["3..1", "1-3", "1", "", "a..b", "1..2..3", "0..9223372036854775808"])
def test_bad_seeds(cli: Cli, tiny: Tiny, tmp_path: Path, seeds: str) -> None:
    line = cli.refused(2, "train", tiny.job_file(tmp_path / "run"), f"--seeds={seeds}")
    assert line == f"--seeds {seeds}: expected A..B, whole numbers with A no larger than B"
    assert not (tmp_path / "run").exists()


def test_the_log_ends_with_commands_that_work(cli: Cli, trained: Trained) -> None:
    log = (trained.run / "log.txt").read_text(encoding="utf-8").splitlines()
    commands = [shlex.split(line.partition(": mpitune ")[2]) for line in log[-2:]]
    assert [command[0] for command in commands] == ["report", "decode"]
    for command in commands:
        assert cli(*(str(trained.source) if word == "TEXT" else word for word in command)).code == 0


def test_prepare_twice(cli: Cli, tiny: Tiny, tmp_path: Path) -> None:
    arguments: Arguments = ["prepare", tiny.job_file(tmp_path / "run"), "--set", f"run.store={tmp_path}/store"]
    first = cli(*arguments)
    made = "data.npz, lm-0.npz made"
    assert (first.code, first.output) == (0, f"{tmp_path}/store: {made}\n")
    assert f"INFO {tmp_path}/store: building the store: all inputs as arrays, for this run and later" in first.errors
    assert cli(*arguments) == (0, f"{tmp_path}/store: up to date\n", "")
    assert not (tmp_path / "run").exists()


# decode


def test_decode_to_standard_output_tells_how_far_it_is(
    cli: Cli, trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LOG_INTERVAL", 0.0)
    done = cli("decode", trained.job, "--input", trained.source)
    assert "INFO decode: 4/4" in done.errors and "decode" not in done.output


def test_decode_text(cli: Cli, trained: Trained, tmp_path: Path) -> None:
    done = cli("decode", trained.job, "--input", trained.source)
    assert (done.code, done.errors) == (0, "")
    lines = done.output.split("\n")
    assert lines[0] == "the child has seen the house"
    assert lines[1] == ""
    assert sorted(lines[2].split()) == sorted(["qwertz", "#1", "||"]), "unknown words are kept"
    assert len(lines) == 5 and lines[4] == "", "a line for each sentence"
    (tmp_path / "out").write_text("before")
    assert cli("decode", trained.job, "--input", trained.source, "--output", tmp_path / "out").output == ""
    assert (tmp_path / "out").read_text() == done.output
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_decode_looks_at_the_output_first(
    cli: Cli, trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command: Arguments = ["decode", trained.job, "--input", trained.source]
    plain = cli(*command).output
    assert cli(*command, "--output", "-").output == plain and not Path("-").exists()
    monkeypatch.setattr("mpitune.cli.decode.opened_decoder", lambda *_: pytest.fail("decoding begins"))
    for path, why in ((tmp_path / "no" / "out", "No such file or directory"), (tmp_path, "Is a directory")):
        for option in ("--output", "--forest"):
            assert cli.refused(2, *command, option, path) == f"{path}: cannot be written: {why}"
    same = tmp_path / "out"
    line = cli.refused(2, *command, "--output", same, "--forest", same)
    assert line == f"--output and --forest: found {same} twice, expected two files"
    assert not same.exists()
    for words in (
        ("lm", "--order", "2", "--input", trained.source, "--output", "-"),
        ("weights", trained.run, "--export", "-"),
        (*command, "--forest", "-"),
    ):
        with pytest.raises(SystemExit):
            cli(*words)


def test_no_folder_is_made_for_an_export(cli: Cli, trained: Trained, tmp_path: Path) -> None:
    line = cli.refused(2, "weights", trained.run, "--export", tmp_path / "no" / "x")
    assert line == f"{tmp_path}/no/x: cannot be written: No such file or directory"
    assert not (tmp_path / "no").exists()


def test_a_moses_ini_holds_all_weights_of_lists_from_moses(cli: Cli, trained: Trained, tmp_path: Path) -> None:
    export = ["--export", tmp_path / "w.ini"]
    line = cli.refused(2, "weights", trained.run, *export)
    assert "found a weight of WordPenalty, expected weights learned from Moses' n-best lists" in line
    (tmp_path / "weights").write_text("LM0 1\nTM0_0 2\nTM0_1 3\nTN:a 4\n")
    for option in (["--top", "1"], ["--find", "TM"], ["--near", "TM"], ["--diff", trained.run]):
        line = cli.refused(2, "weights", tmp_path / "weights", *option, *export)
        assert "expected all weights of a template, or all" in line
    assert not (tmp_path / "w.ini").exists()
    assert cli("weights", tmp_path / "weights", "--template", "dense", *export).code == 0
    assert (tmp_path / "w.ini").read_text() == "[weight]\nLM0= 1.0\nTM0= 2.0 3.0\n"


def test_the_order_of_a_language_model_is_bounded(cli: Cli, trained: Trained, tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        cli("lm", "--order", "11", "--input", trained.source, "--output", tmp_path / "lm")
    assert not (tmp_path / "lm").exists()


def test_an_output_is_no_file_of_the_job(cli: Cli, trained: Trained) -> None:
    """Neither of its run nor of its store; those that it names are in `test_paths`."""
    job, run = load(trained.job), trained.run
    files = [run / name for name in ("config.toml", "weights.txt.gz", "checkpoints/epoch-0001.h5", "lock")]
    files += [run / "weights" / "epoch-0001.txt.gz", job.run.store / "lm-0.npz"]
    for file in files:
        before = file.read_bytes()
        for words in (
            ("decode", trained.job, "--input", trained.source, "--output"),
            ("weights", run, "--top", "1", "--export"),
            ("weights", run / "weights" / "epoch-0001.txt.gz", "--export"),
        ):
            line = cli.refused(2, *words, file)
            assert re.match(f"{file}: found (the name of a file of the (run|store) there|as input and as output)", line)
        assert file.read_bytes() == before


def test_weights_without_a_feature_are_warned_of(cli: Cli, trained: Trained, tmp_path: Path) -> None:
    (tmp_path / "weights").write_text("LanguageModel= 1\nWordPenalty -0.4\nR:X:no:such 1\nFoo 0\n")
    done = cli("decode", trained.job, "--input", trained.source, "--weights", tmp_path / "weights")
    told = f"{tmp_path}/weights: 1 of 4 weights do not count: no feature is called LanguageModel=: are they those"
    assert done.code == 0 and f"warning: {told}" in done.errors
    keys = f'learner.initial_weights="{tmp_path}/weights"', f'run.dir="{trained.run}-given"', "learner.epochs=1"
    given = cli("train", trained.job, *(word for key in keys for word in ("--set", key)))
    assert f"WARNING {told}" in given.errors


def test_weights_of_templates_that_the_job_lacks_are_warned_of(cli: Cli, trained: Trained, tiny: Tiny) -> None:
    names = read_weights(trained.run / "weights.txt.gz")
    sparse = sum(name.startswith(("R:", "RBS:")) for name in names)
    done = cli("decode", trained.job, "--input", trained.source, "--set", 'features.templates=["shape"]')
    told = f"{sparse} of {len(names)} weights do not count: features.templates lacks id, source-bigram: add them"
    assert sparse and done.code == 0 and told in done.errors
    assert "do not count" not in cli("decode", trained.job, "--input", trained.source).errors
    keys = 'learner.initial_weights="warm"', "features.templates=[]", f'run.dir="{trained.run}-dense"'
    given = cli("train", trained.job, "--set", keys[0], "--set", keys[1], "--set", keys[2])
    assert "weights do not count: features.templates lacks id" in given.errors


def test_a_run_folder_stands_for_its_weights(trained: Trained) -> None:
    for given in (trained.run, trained.run / "weights.txt.gz"):
        job = load_job(trained.job, [f'learner.initial_weights="{given}"'])
        assert job.learner.initial_weights == trained.run / "weights.txt.gz"


def test_an_empty_file_of_initial_weights_is_warned_of(cli: Cli, tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "none").touch()
    job = tiny.job_file(tmp_path / "run", learner={"initial_weights": str(tmp_path / "none"), "epochs": 1})
    assert f"{tmp_path}/none: found no weights: all are 0" in cli("train", job).errors


def test_a_refused_command_leaves_the_state_of_the_run(cli: Cli, tiny: Tiny, tmp_path: Path) -> None:
    job = tiny.job_file(tmp_path / "run")
    cli("train", job, "--quiet")
    done = json.loads((tmp_path / "run" / "status.json").read_text())
    assert done["state"] == "done"
    cli.refused(2, "train", job, "--quiet", "--set", "learner.margin=0.5", "--set", "learner.epochs=9")
    cli.refused(3, "train", job, "--quiet", "--resume", "never", "--set", 'grammar.file="nofile"')
    again = json.loads((tmp_path / "run" / "status.json").read_text())
    assert again | {"when": done["when"]} == done


def test_weights_that_are_not_there_are_told(cli: Cli, trained: Trained) -> None:
    done = cli("weights", trained.run, "--find", "zzzz")
    assert done.code == 0 and done.output == "" and "weights matches" in done.errors


def test_decode_without_weights_says_so(cli: Cli, trained: Trained, tmp_path: Path) -> None:
    (tmp_path / "weights").write_text("# none\n")
    done = cli("decode", trained.job, "--input", trained.source, "--weights", tmp_path / "weights")
    assert (
        done.code == 0
        and done.errors
        == f"warning: {tmp_path}/weights: found no weights: all are 0; is it the file of a run that has learned?\n"
    )


def test_decode_knows_weights_in_every_form(cli: Cli, trained: Trained, tmp_path: Path) -> None:
    own = cli("decode", trained.job, "--input", trained.source, "--format", "cdec", "--nbest", "3").output
    chosen = (trained.run / "weights.txt.gz").read_bytes()
    epoch = next(n for n in (1, 2) if (trained.run / "weights" / f"epoch-000{n}.txt.gz").read_bytes() == chosen)
    (tmp_path / "plain").write_bytes(gzip.decompress(chosen))
    (tmp_path / "none").write_text("")
    found = {}
    for weights in (
        trained.run,
        trained.run / "weights.txt.gz",
        trained.run / "checkpoints" / f"epoch-000{epoch}.h5",
        tmp_path / "plain",
        tmp_path / "none",
    ):
        arguments: Arguments = ["--weights", weights, "--format", "cdec", "--nbest", "3"]
        found[weights] = cli("decode", trained.job, "--input", trained.source, *arguments).output
    assert found.pop(tmp_path / "none") != own
    assert set(found.values()) == {own}


def test_decode_before_training(cli: Cli, tiny: Tiny, trained: Trained, tmp_path: Path) -> None:
    job = tiny.job_file(tmp_path / "run")
    line = cli.refused(3, "decode", job, "--input", trained.source)
    assert line == f"{tmp_path}/run: found no such file or folder, expected a weights file, or a run with an epoch done"
    (tmp_path / "run").mkdir()
    line = cli.refused(3, "decode", job, "--input", trained.source)
    assert line.endswith("found no weights.txt.gz, expected a run folder with at least one epoch done")


@pytest.mark.parametrize(
    "command",
    ["decode {job} --input {source} --weights {no}", "local {job} --input {source} --weights {no}"]
    + ["weights {no}", "weights {run} --diff {no}", "weights {no}.h5", "report {no}", "report --watch {no}"]
    + ["decode {job} --input {no}", "train {new} --set learner.initial_weights={no}"],
)
def test_what_is_missing_has_one_exit_code(
    cli: Cli, tiny: Tiny, trained: Trained, tmp_path: Path, command: str
) -> None:
    """Weights, runs and texts that a command names."""
    names = {**trained._asdict(), "new": tiny.job_file(tmp_path / "run"), "no": tmp_path / "no"}
    done = cli(*command.format(**names).split())
    assert done.code == 3 and done.errors.splitlines()[-1].startswith(f"mpitune: {tmp_path}/no")


def test_decode_needs_no_data(cli: Cli, tiny: Tiny, trained: Trained, tmp_path: Path) -> None:
    job = tiny.job_file(tmp_path / "other", data=None)
    arguments: Arguments = ["--input", trained.source, "--format", "cdec", "--nbest", "5"]
    expected = cli("decode", trained.job, *arguments).output
    done = cli("decode", job, *arguments, "--weights", trained.run)
    assert (done.code, done.output) == (0, expected)


def test_decode_with_a_cdec_ini(cli: Cli, tiny: Tiny, trained: Trained, tmp_path: Path) -> None:
    ini = tiny.folder / "cdec.ini"
    ini.write_text(
        "formalism=scfg\ngrammar=grammar\nadd_pass_through_rules=true\nfeature_function=WordPenalty\n"
        "feature_function=KLanguageModel lm.arpa\nfeature_function=RuleShape\ncubepruning_pop_limit=30\n"
    )
    job = tmp_path / "job.toml"
    job.write_text(f'[decoder]\nconfig = "{ini}"\n[features]\ntemplates = ["id", "source-bigram", "shape"]\n')
    arguments: Arguments = ["--input", trained.source, "--format", "cdec", "--nbest", "5"]
    expected = cli("decode", trained.job, *arguments).output
    assert cli("decode", job, *arguments, "--weights", trained.run).output == expected
    ini.write_text(ini.read_text() + "feature_function=CMR2008ReorderingFeatures x\n")
    line = cli.refused(2, "decode", job, *arguments, "--weights", trained.run)
    assert "feature_function=CMR2008ReorderingFeatures x, which the embedded decoder does not have" in line


@pytest.mark.parametrize("style", ["cdec", "moses", "json"])
def test_kbest_lists(cli: Cli, trained: Trained, tmp_path: Path, style: str) -> None:
    weights = read_weights(trained.run / "weights.txt.gz")
    arguments: Arguments = ["--input", trained.source, "--nbest", "4", "--format", style]
    lists: dict[int, list[tuple[str, float]]] = {}
    (tmp_path / "lists").write_text(cli("decode", trained.job, *arguments).output)
    for entry in ListReader().entries(tmp_path / "lists"):
        score = json.loads(entry.text)["score"] if style == "json" else float(entry.text.split(" ||| ")[3])
        assert {"moses": "= ", "cdec": "=", "json": '": '}[style] in entry.text or not entry.features
        vector, translation = entry.features, " ".join(entry.words)
        assert sum(weights.get(name, 0.0) * value for name, value in vector.items()) == pytest.approx(score, abs=1e-6)
        if translation:
            assert vector["WordPenalty"] == pytest.approx(-len(translation.split()) / 2.302585093, abs=1e-6)
        lists.setdefault(entry.sentence, []).append((translation, score))
    assert [len(lists[i]) for i in (0, 1, 3)] == [4, 1, 4]
    assert lists[1] == [("", 0.0)]
    for entries in lists.values():
        assert [score for _, score in entries] == sorted((score for _, score in entries), reverse=True)
        assert len({translation for translation, _ in entries}) == len(entries)


def test_text_has_room_for_one_translation(cli: Cli, trained: Trained) -> None:
    line = cli.refused(2, "decode", trained.job, "--input", trained.source, "--nbest", "2")
    assert line == "--nbest 2 needs --format cdec, moses or json"


def test_decode_is_what_training_saw(cli: Cli, tiny: Tiny, trained: Trained, tmp_path: Path) -> None:
    metrics = [json.loads(line) for line in (trained.run / "metrics.jsonl").read_text().splitlines()]
    for epoch in metrics:
        weights = trained.run / "weights" / f"epoch-000{epoch['epoch']}.txt.gz"
        decode: Arguments = [
            "--input",
            tiny.folder / "dev.de",
            "--weights",
            weights,
            "--output",
            tmp_path / "out",
        ]
        assert cli("decode", trained.job, *decode).code == 0
        done = cli("evaluate", "--refs", tiny.folder / "dev.en", "--hyps", tmp_path / "out", "--json")
        assert json.loads(done.output)["scores"][0]["bleu"] == pytest.approx(epoch["devtest_bleu"], rel=1e-12)


def test_decode_with_a_grammar_for_each_sentence(cli: Cli, tiny: Tiny, trained: Trained, tmp_path: Path) -> None:
    job = tiny.job_file(tmp_path / "run", grammar={"file": None, "per_sentence": True}, data=None)
    shared: Arguments = ["--weights", trained.run, "--format", "cdec", "--nbest", "2"]
    done = cli("decode", job, "--input", tiny.folder / "own.de", *shared)
    assert done.code == 0
    plain = cli("decode", trained.job, "--input", tiny.folder / "own.de", *shared)
    # The grammars are the common one but for rules that good translations do without.
    assert done.output.splitlines()[0] == plain.output.splitlines()[0]
    assert [line[:2] for line in done.output.splitlines()] == [line[:2] for line in plain.output.splitlines()]
    (tmp_path / "bare").write_text("haus\n")
    line = cli.refused(3, "decode", job, "--input", tmp_path / "bare", *shared)
    assert line.startswith(f"{tmp_path}/bare:1: found a sentence that names no grammar")
    with python(["decode", job, "--input", "/dev/stdin", *shared], cwd=tiny.folder) as process:
        output, errors = process.communicate((tiny.folder / "own.de").read_text(), timeout=120)
    assert (process.returncode, output) == (0, done.output), errors


@pytest.mark.slow
@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_decode_from_standard_input(cli: Cli, trained: Trained, name: str) -> None:
    expected = cli("decode", trained.job, "--input", trained.source).output
    with python(["decode", trained.job, "--input", name]) as process:
        output, errors = process.communicate(trained.source.read_text(), timeout=120)
    assert (process.returncode, output, errors) == (0, expected, "")


def test_decode_into_a_pipe(cli: Cli, trained: Trained, tmp_path: Path) -> None:
    expected = cli("decode", trained.job, "--input", trained.source).output
    os.mkfifo(tmp_path / "pipe")
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe").read_text()), daemon=True)
    reader.start()
    assert cli("decode", trained.job, "--input", trained.source, "--output", tmp_path / "pipe").code == 0
    reader.join(timeout=60)
    assert found == [expected]
    assert (tmp_path / "pipe").is_fifo(), "it is written to, not replaced"


def test_decode_into_a_pipe_whose_reader_leaves(
    cli: Cli, trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = threading.Thread(target=lambda: (tmp_path / "pipe").open().close(), daemon=True)
    reader.start()
    parallel_map = mpitune.cli.decode.parallel_map

    def after_the_reader(*given: Any, **more: Any) -> Any:
        reader.join()
        return parallel_map(*given, **more)

    monkeypatch.setattr(mpitune.cli.decode, "parallel_map", after_the_reader)
    line = cli.refused(4, "decode", trained.job, "--input", trained.source, "--forest", tmp_path / "pipe")
    assert line == f"{tmp_path}/pipe: cannot be written: Broken pipe"


def test_decode_gzips_by_the_name(cli: Cli, trained: Trained, tmp_path: Path) -> None:
    expected = cli("decode", trained.job, "--input", trained.source).output
    assert cli("decode", trained.job, "--input", trained.source, "--output", tmp_path / "out.gz").code == 0
    assert gzip.decompress((tmp_path / "out.gz").read_bytes()).decode() == expected


def test_output_that_cannot_be_written(cli: Cli, trained: Trained, tmp_path: Path) -> None:
    arguments: Arguments = [
        "decode",
        trained.job,
        "--input",
        trained.source,
        "--output",
        tmp_path / "no" / "out",
    ]
    assert cli.refused(2, *arguments) == f"{tmp_path}/no/out: cannot be written: No such file or directory"


@pytest.mark.mpi
def test_decode_on_two_ranks(cli: Cli, tiny: Tiny, trained: Trained, tmp_path: Path) -> None:
    source = tmp_path / "input"
    source.write_text((tiny.folder / "train.de").read_text() + "qwertz asdf\n")
    arguments: Arguments = ["decode", trained.job, "--input", source, "--nbest", "10", "--format", "cdec"]
    done = mpirun(2, ["-m", "mpitune", *arguments])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == cli(*arguments).output


@pytest.mark.slow
@pytest.mark.parametrize("command", ["decode", "weights"])
def test_a_reader_that_has_had_enough(trained: Trained, command: str) -> None:
    arguments: Arguments = [trained.job, "--input", trained.source] if command == "decode" else [trained.run]
    with python([command, *arguments]) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert (process.wait(timeout=120), process.stderr.read()) == (0, "")


# evaluate


@pytest.fixture
def texts(tmp_path: Path) -> dict[str, Path]:
    reference = [f"a small sentence number {n} with some words" for n in range(40)]
    worse = [line.replace("small", "big") if n % 2 else line for n, line in enumerate(reference)]
    lines = {"ref": reference, "good": reference, "worse": worse, "short": reference[:-1]}
    for name, text in lines.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in text))
    return {name: tmp_path / name for name in lines}


@pytest.mark.parametrize("test", ["ar", "bootstrap"])
def test_evaluate_tests_significance(cli: Cli, texts: dict[str, Path], test: str) -> None:
    arguments: Arguments = [
        "evaluate",
        "--refs",
        texts["ref"],
        "--hyps",
        texts["good"],
        texts["worse"],
        "--test",
        test,
    ]
    done = cli(*arguments, "--json")
    assert done.code == 0
    found = json.loads(done.output)
    assert "tok:none" in found["signature"]
    good, worse = found["scores"]
    assert (good["system"], worse["system"]) == (str(texts["good"]), str(texts["worse"]))
    assert good["bleu"] == pytest.approx(100) and worse["bleu"] < 90
    assert good["p_values"] is None and worse["p_values"]["bleu"] < 0.05
    plain = cli(*arguments).output
    assert found["signature"] in plain and f"{worse['bleu']:.2f}" in plain


def test_evaluate_options(cli: Cli, texts: dict[str, Path]) -> None:
    shouted = texts["good"].with_name("shouted")
    shouted.write_text(texts["good"].read_text().upper())
    arguments: Arguments = ["evaluate", "--refs", texts["ref"], "--hyps", shouted, "--json"]
    assert json.loads(cli(*arguments).output)["scores"][0]["bleu"] < 1
    found = json.loads(cli(*arguments, "--lowercase", "--tokenize", "13a").output)
    assert found["scores"][0]["bleu"] == pytest.approx(100) and "tok:13a" in found["signature"]
    [other] = json.loads(cli(*arguments, "--metrics", "wer", "exact").output)["scores"]
    assert (other["wer"], other["exact"]) == (87.5, 0.0) and "bleu" not in other
    assert cli.refused(2, *arguments, "--metrics", "wars").startswith(
        "--metrics: found wars, expected one of bleu, ter"
    )


@pytest.mark.parametrize("order", [1, -1])
def test_evaluate_takes_an_empty_line_beside_a_reference_for_a_missing_one(
    cli: Cli, tmp_path: Path, order: int
) -> None:
    """Whichever file comes first, and of lists, too: scores are those of sacreBLEU without it."""
    lines = {
        "full": ["the old cat sat on the mat", "a dog ran down to the river", "", "they said so last night"],
        "few": ["", " ", "", "so they said"],
        "hyp": ["the old cat", "a dog ran down", "", "they said so last night"],
    }
    for name, text in lines.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in text))
    (tmp_path / "lists").write_text("".join(f"{i} ||| {line} ||| lm=1\n" for i, line in enumerate(lines["hyp"])))
    references: Arguments = ["--refs", *[tmp_path / name for name in ("full", "few")][::order]]
    warning = f"warning: {tmp_path}/few: 2 of 4 lines are empty where another reference is not: counted as missing\n"
    texts = [lines["full"], [None, None, "", "so they said"]]
    expected = [metric.corpus_score(lines["hyp"], texts).score for metric in (BLEU(tokenize="none"), TER(), CHRF())]
    assert expected[0] < 60
    done = cli("evaluate", *references, "--hyps", tmp_path / "hyp", tmp_path / "full", "--test", "ar", "--json")
    assert (done.code, done.errors) == (0, warning)
    first, _ = json.loads(done.output)["scores"]
    assert [first[name] for name in ("bleu", "ter", "chrf")] == pytest.approx(expected)
    done = cli("evaluate", *references, "--lists", tmp_path / "lists", "--json")
    assert (done.code, done.errors) == (0, warning)
    [found] = json.loads(done.output).values()
    unsmoothed = BLEU(tokenize="none", smooth_method="none").corpus_score(lines["hyp"], texts).score
    assert [found[name]["1-best"] for name in found] == pytest.approx([unsmoothed, *expected[1:]])


def test_evaluate_runs_of_systems(cli: Cli, texts: dict[str, Path]) -> None:
    systems: Arguments = ["--system", "A", texts["good"], texts["worse"], "--system", "B", texts["worse"]]
    arguments: Arguments = ["evaluate", "--refs", texts["ref"], *systems, "--test", "ar"]
    first, second = json.loads(cli(*arguments, "--json").output)["scores"]
    assert (first["system"], first["runs"], second["system"], second["runs"]) == ("A", 2, "B", 1)
    assert first["bleu"] == pytest.approx((100 + second["bleu"]) / 2) and first["deviations"]["bleu"] > 1
    assert second["corrected"] == second["p_values"]
    text, markdown = cli(*arguments).output, cli(*arguments, "--markdown").output
    assert f"{first['bleu']:.2f}  {first['deviations']['bleu']:.2f}" in text
    assert f"| A | 2 | {first['bleu']:.2f} | {first['deviations']['bleu']:.2f} |" in markdown


def test_evaluate_refuses_bad_systems(cli: Cli, texts: dict[str, Path]) -> None:
    arguments: Arguments = ["evaluate", "--refs", texts["ref"], "--system", "A"]
    expected = "--system A: found no translations, expected a name and a file for each run"
    assert cli.refused(2, *arguments) == expected
    line = cli.refused(2, *arguments, texts["good"], "--system", "A", texts["worse"])
    assert line == "found two systems called A, expected a name for each"


def test_evaluate_refuses_bad_texts(cli: Cli, texts: dict[str, Path]) -> None:
    line = cli.refused(3, "evaluate", "--refs", texts["ref"], "--hyps", texts["short"])
    assert line == f"{texts['short']}: found 39 lines, expected 40, as in {texts['ref']}"
    line = cli.refused(2, "evaluate", "--refs", texts["ref"], "--hyps", texts["good"], "--test", "ar")
    assert line.startswith("--test ar compares systems")
    line = cli.refused(3, "evaluate", "--refs", texts["ref"], "--hyps", "nowhere")
    assert line == "nowhere: found no such file or directory, expected a readable file"


# weights

MODEL = {"Glue": -0.5, "R:X:a:b": 3.0, "R:X:c:d": -4.0, "Shape_S10000_T10000": 1.5, "RBS:a_b": 0.25, "RBT:a_b": 1e-20}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    path.write_text("".join(f"{name} {value!r}\n" for name, value in MODEL.items()))
    return path


def listed(output: str) -> dict[str, float]:
    return {name: float(value) for name, value in (line.split(" ") for line in output.splitlines())}


def test_weights_largest_first(cli: Cli, model: Path) -> None:
    found = listed(cli("weights", model).output)
    assert found == MODEL
    assert list(found) == ["R:X:c:d", "R:X:a:b", "Shape_S10000_T10000", "Glue", "RBS:a_b", "RBT:a_b"]
    assert list(listed(cli("weights", model, "--top", "2").output)) == ["R:X:c:d", "R:X:a:b"]


@pytest.mark.parametrize(
    ("template", "names"),
    [
        ("dense", ["Glue"]),
        ("id", ["R:X:c:d", "R:X:a:b"]),
        ("source-bigram", ["RBS:a_b"]),
        ("target-bigram", ["RBT:a_b"]),
        ("shape", ["Shape_S10000_T10000"]),
    ],
)
def test_weights_of_a_template(cli: Cli, model: Path, template: str, names: list[str]) -> None:
    assert list(listed(cli("weights", model, "--template", template).output)) == names


def test_weights_found_by_name(cli: Cli, model: Path) -> None:
    assert list(listed(cli("weights", model, "--find", "a_b").output)) == ["RBS:a_b", "RBT:a_b"]
    assert list(listed(cli("weights", model, "--find", ":c:").output)) == ["R:X:c:d"]


def test_weights_that_differ(cli: Cli, model: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("Glue -0.5\nR:X:a:b 1\nR:X:new:one 7\nShape_S10000_T10000 1.5\nRBS:a_b 0.25\nRBT:a_b 1e-20\n")
    assert cli("weights", model, "--diff", other).output.splitlines() == [
        "R:X:new:one -7.0 0.0 7.0",
        "R:X:c:d -4.0 -4.0 0.0",
        "R:X:a:b 2.0 3.0 1.0",
    ]


def test_weights_of_each_template(cli: Cli, model: Path) -> None:
    """As a weights file, in which headings are comments."""
    text = cli("weights", model, "--template", "each", "--top", "1").output
    assert text.splitlines() == [
        "# dense: 1 feature",
        "Glue -0.5",
        "# id: 2 features",
        "R:X:c:d -4.0",
        "# source-bigram: 1 feature",
        "RBS:a_b 0.25",
        "# target-bigram: 1 feature",
        "RBT:a_b 1e-20",
        "# shape: 1 feature",
        "Shape_S10000_T10000 1.5",
    ]


def test_the_nearest_rules(cli: Cli, tmp_path: Path) -> None:
    rules = ["R:X:letzter_NX:last_N1", "R:X:letzte:latest", "R:X:NX_haus:N1_house", "R:X:dach:roof", "Glue"]
    (tmp_path / "model").write_text("".join(f"{name} {i}.5\n" for i, name in enumerate(rules)))
    for text in ("letzter", "R:X:letzter_NX:last_N1", "Letzter last"):
        found = listed(cli("weights", tmp_path / "model", "--near", text).output)
        assert list(found) == rules[:2] and found[rules[0]] == 0.5, text
    assert list(listed(cli("weights", tmp_path / "model", "--near", "hause", "--top", "1").output)) == [rules[2]]
    assert cli("weights", tmp_path / "model", "--near", "qqq") == (
        0,
        "",
        f"{tmp_path}/model: none of 5 weights matches\n",
    )


def test_weights_exported(cli: Cli, model: Path, tmp_path: Path) -> None:
    exported = tmp_path / "out.gz"
    assert cli("weights", model, "--top", "3", "--export", exported) == (0, "", "")
    assert list(read_weights(exported).items()) == [
        (name, MODEL[name]) for name in sorted(MODEL) if abs(MODEL[name]) > 1
    ]
    (tmp_path / "file").write_text("")
    line = cli.refused(2, "weights", model, "--export", tmp_path / "file" / "out")
    assert line.startswith(f"{tmp_path}/file/out: cannot be written")
    assert read_weights(Path(os.devnull)) == {}
    assert cli("weights", model, "--export", os.devnull) == (0, "", "")
    assert Path(os.devnull).is_char_device(), "devices are never replaced"


def test_weights_of_runs_and_checkpoints(cli: Cli, trained: Trained, tmp_path: Path) -> None:
    expected = read_weights(trained.run / "weights" / "epoch-0002.txt.gz")
    assert listed(cli("weights", trained.run / "checkpoints" / "epoch-0002.h5").output) == expected
    assert listed(cli("weights", trained.run).output) == read_weights(trained.run / "weights.txt.gz")
    line = cli.refused(3, "weights", tmp_path)
    assert line == f"{tmp_path}: found no weights.txt.gz, expected a run folder with at least one epoch done"
    (tmp_path / "cut.h5").write_bytes((trained.run / "checkpoints" / "epoch-0002.h5").read_bytes()[:-100])
    assert cli.refused(3, "weights", tmp_path / "cut.h5").startswith(f"{tmp_path}/cut.h5: found a damaged or cut file")
    (tmp_path / "bad").write_text("Glue 1\nGlue: x y\n")
    assert cli.refused(3, "weights", tmp_path / "bad").startswith(f"{tmp_path}/bad:2: found 3 fields")


def test_lists_that_are_not_unique(tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = str(tiny.job_file(tmp_path / "run"))
    (tmp_path / "weights").write_text("LanguageModel 1\n")
    given = ["decode", job, "--input", str(tiny.folder / "train.de"), "--weights", str(tmp_path / "weights")]

    def most_often(unique: str) -> int:
        assert main([*given, "--set", f"decoder.unique={unique}", "--nbest", "20", "--format", "cdec"]) == 0
        lines = capsys.readouterr().out.splitlines()
        entries = [tuple(line.split(" ||| ")[:2]) for line in lines]
        return max(entries.count(entry) for entry in entries)

    assert most_often("true") == 1 < most_often("false")


def test_a_language_model_may_have_a_name_of_its_own(cli: Cli, trained: Trained, tmp_path: Path) -> None:
    (tmp_path / "weights").write_text("Big 1\nWordPenalty -1\n")
    arguments: Arguments = ["--input", trained.source, "--format", "cdec", "--weights", tmp_path / "weights"]
    lines = cli("decode", trained.job, *arguments, "--set", "lm.0.name=Big").output.splitlines()
    assert any(" Big=-" in line for line in lines) and not any("LanguageModel=" in line for line in lines)


# output


def test_all_commands_that_translate_look_at_the_output_first(cli: Cli, trained: Trained, tmp_path: Path) -> None:
    told = f"{tmp_path}/no/out: cannot be written: No such file or directory"
    for command in ("decode", "local"):
        given: Arguments = ["--input", trained.source, "--weights", trained.run, "--output", tmp_path / "no" / "out"]
        assert cli.refused(2, command, trained.job, *given) == told
