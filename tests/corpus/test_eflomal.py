"""Word alignment: how two directions are joined, and how eflomal is driven (mostly a stand-in for it)."""

from __future__ import annotations

import errno
import gzip
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import naive_align
from support.mpi import ROOT, mpirun
from support.stages import Stages

from mpitune.cli.parser import main
from mpitune.corpus import eflomal as aligning
from mpitune.corpus import progress
from mpitune.corpus.symmetrise import Link, grow_diag_final_and

STAND_IN = '''#!{python}
"""Stands in for eflomal: forward it links i-i where the two words have the same number, backward first and last."""
import os, signal, sys, time
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
behaviour = os.environ.get("STAND_IN", "")
assert set(options) == set("-m -n -N -1 -2 -3 -s -t -f -r".split()), sys.argv
texts = []
for option in ("-s", "-t"):
    header, *lines = open(options[option]).read().splitlines()
    count, distinct = map(int, header.split())
    text = [list(map(int, line.split())) for line in lines]
    assert len(text) == count and all(0 < words[0] == len(words) - 1 < 1024 for words in text), text
    assert {{word for words in text for word in words[1:]}} == set(range(distinct)), text
    texts.append(text)
assert len(texts[0]) == len(texts[1])
def say(text):
    print(text, file=sys.stderr)
say(f"Read texts ({{len(texts[0])}} sentences): 0.1 s")
for direction in range(2):
    for model in "123":
        say(f"Aligning with model {{model}} ({{options['-' + model]}} iterations)")
        say("Done: 0.1 s")
    say("Final argmax iteration: 0.1 s")
with open(options["-f"], "w") as forward, open(options["-r"], "w") as backward:
    for source, target in zip(*texts):
        both = enumerate(zip(source[1:], target[1:]))
        print(*[f"{{i}}-{{i}}" for i, (one, other) in both if one == other], file=forward)
        print(f"0-{{target[0] - 1}}", file=backward)
    if behaviour == "cut":
        backward.truncate(backward.tell() - 1)
        backward.seek(backward.tell() - 1)
if behaviour == "wait":
    open(os.environ["STARTED"], "w").write(str(os.getpid()))
    time.sleep(100)
if behaviour == "fail":
    sys.exit("\\nsentence_read(): out of luck")
if behaviour == "crash":
    os.kill(os.getpid(), signal.SIGSEGV)
'''


@pytest.fixture
def eflomal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for the package eflomal, found before it; and a folder of its own for temporary files."""
    program = tmp_path / "packages" / "eflomal" / "bin" / "eflomal"
    program.parent.mkdir(parents=True)
    (program.parents[1] / "__init__.py").touch()
    program.write_text(STAND_IN.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    return program


def written(folder: Path, source: str, target: str) -> list[str]:
    """The options for the two texts and an output file ``out``."""
    (folder / "f").write_text(source, encoding="utf-8")
    (folder / "e").write_text(target, encoding="utf-8")
    return ["align", "--source", f"{folder}/f", "--target", f"{folder}/e", "--output", f"{folder}/out"]


def nothing_is_left(folder: Path) -> bool:
    return not any((folder / "temporary").iterdir()) and {path.name for path in folder.iterdir()} <= {
        "f",
        "e",
        "packages",
        "temporary",
    }


# Joining two directions


@pytest.mark.parametrize(
    ("forward", "backward", "joined"),
    [
        ("", "", ""),
        ("0-0 1-1", "0-0 1-1", "0-0 1-1"),
        # Straight steps come before diagonal ones: 0-1, then 1-1. The other way round, 1-1 would shut out 0-1.
        ("0-0 0-1", "0-0 1-1", "0-0 0-1 1-1"),
        # 2-1 adds 1-0, for the next turn, and 1-2, whose place in this turn is still to come: it adds 0-1, after which
        # 1-0 cannot add 0-0 any more.
        ("0-0 2-1 1-2", "0-1 1-0 2-1", "0-1 1-0 1-2 2-1"),
        # Nothing beside a link: forward is asked first, and what it gives shuts backward's out.
        ("0-0", "0-1", "0-0"),
        # final-and: 2-2 is near no link, and both its words are free; of 2-0, one is not.
        ("0-0 2-2", "0-0 2-0", "0-0 2-2"),
    ],
)
def test_what_symal_gives(forward: str, backward: str, joined: str) -> None:
    """The answers are those of Moses' symal."""
    assert grow_diag_final_and(links(forward), links(backward)) == links(joined)


def links(text: str) -> list[Link]:
    return [(int(i), int(j)) for i, j in (pair.split("-") for pair in text.split())]


@st.composite
def directions(draw: st.DrawFn) -> tuple[list[Link], list[Link], tuple[int, int]]:
    """What an aligner may give: at most one link for each target word, and for each source word."""
    n, m = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    ahead = draw(st.lists(st.integers(-1, n - 1), min_size=m, max_size=m))
    back = draw(st.lists(st.integers(-1, m - 1), min_size=n, max_size=n))
    forward = [(i, j) for j, i in enumerate(ahead) if i >= 0]
    # Two aligners that agree nowhere would leave nothing to grow from.
    backward = {i: j for i, j in enumerate(back) if j >= 0} | dict(forward[:: draw(st.integers(1, 4))])
    return forward, list(backward.items()), (n, m)


@settings(max_examples=500)
@given(directions())
def test_joined_as_by_the_twin(case: tuple[list[Link], list[Link], tuple[int, int]]) -> None:
    forward, backward, words = case
    joined = grow_diag_final_and(forward, backward)
    assert joined == naive_align.grow_diag_final_and(forward, backward, words)
    assert {*forward} & {*backward} <= {*joined} <= {*forward} | {*backward}
    # Each word that a link was offered for is left alone only where all its partners have links.
    covered = {i for i, _ in joined}, {j for _, j in joined}
    assert all(i in covered[0] or j in covered[1] for i, j in forward + backward)


# Driving eflomal


@pytest.mark.usefixtures("eflomal")
def test_aligns_line_by_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # An empty line on either side, blanks alone, a tab, and a space that separates words for others than us.
    options = written(tmp_path, "a b c\n\nd\n \t\na\u00a0b\tC\nc\n", "x y z\nx\n\ny\nX z y\nx\n")
    assert main(options) == 0
    assert (tmp_path / "out").read_text() == "0-0 1-1 2-2\n\n\n\n0-2 1-1\n0-0\n"
    assert capsys.readouterr().err.split(" INFO ")[1] == (
        f"{tmp_path}/f, {tmp_path}/e: eflomal aligns 3 of 6 sentence pairs\n{tmp_path}/out: 6 links\n"
    )
    (tmp_path / "out").unlink()
    assert nothing_is_left(tmp_path)


@pytest.mark.usefixtures("eflomal")
def test_all_stages_show_their_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, "a b c\n\nd\n", "x y z\nx\ny\n")
    stages = Stages(monkeypatch)
    list(aligning.align(tmp_path / "f", tmp_path / "e"))
    # 5000 divided by the square root of the number of sentences, a quarter of them with models 1 and 2.
    iterations = 2 * (3536 + 2 * 884)
    assert stages.done == {
        "kB of the bitext read": (2, 2),
        "eflomal's iterations, in both directions": (iterations, iterations),
        "sentence pairs symmetrised": (3, 3),
    }


@pytest.mark.usefixtures("eflomal")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_stop_is_heeded_while_eflomal_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    started = tmp_path / "temporary" / "started"
    monkeypatch.setenv("STAND_IN", "wait")
    monkeypatch.setenv("STARTED", str(started))
    monkeypatch.setattr(aligning, "_REFRESH", 0.01)
    monkeypatch.setattr(progress, "LOG_INTERVAL", 0.0)
    child = []

    def stop_when_started(*_: object) -> None:
        if started.exists() and started.read_text():
            child.append(started.read_text())
            os.kill(os.getpid(), number)

    monkeypatch.setattr(progress.Progress, "line", lambda self, now: stop_when_started() or self.task)
    options = written(tmp_path, "a\n", "x\n")
    assert main(options) == 75
    said = capsys.readouterr().err
    assert said.endswith(
        f"mpitune: stopped by {number.name} in the word alignment; "
        "nothing of it is written: run the same command again\n"
    )
    assert "INFO eflomal's iterations, in both directions" in said
    assert not Path("/proc", child[0]).exists()
    started.unlink()
    assert nothing_is_left(tmp_path)
    monkeypatch.setenv("STAND_IN", "")
    signal.signal(number, signal.SIG_DFL)
    assert main(options) == 0
    assert (tmp_path / "out").read_text() == "0-0\n"


@pytest.mark.usefixtures("eflomal")
def test_words_are_the_same_in_upper_and_lower_case(tmp_path: Path) -> None:
    assert main(written(tmp_path, "Ä ä b\n", "x y X\n")) == 0
    # As different words they would have the numbers 0, 1, 2 on both sides.
    assert (tmp_path / "out").read_text() == "0-0\n"


@pytest.mark.usefixtures("eflomal")
def test_gzip_in_and_out(tmp_path: Path) -> None:
    options = written(tmp_path, "", "x\ny\n")
    (tmp_path / "f").write_bytes(gzip.compress(b"a\nb\n"))
    assert main([*options[:-1], f"{tmp_path}/out.gz"]) == 0
    assert gzip.decompress((tmp_path / "out.gz").read_bytes()) == b"0-0\n0-0\n"


@pytest.mark.usefixtures("eflomal")
def test_a_sentence_too_long_for_eflomal_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(written(tmp_path, "a\n" + "a " * 1024 + "\n" + "b " * 1023, "x\nx\nx\n")) == 0
    assert (tmp_path / "out").read_text() == "0-0\n\n0-0\n"
    assert f"WARNING {tmp_path}/f:2: 1 sentence pair of more than 1023 words" in capsys.readouterr().err


@pytest.mark.parametrize(("source", "target"), [("\n", "\n"), ("\n\n", "a\n\n")])
def test_empty_texts_have_empty_alignments(tmp_path: Path, eflomal: Path, source: str, target: str) -> None:
    eflomal.write_text("no program: it must not be run")
    assert main(written(tmp_path, source, target)) == 0
    assert (tmp_path / "out").read_text() == source


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        ("a\nb\nc\n", "x\n", "{e}: found 1 line, expected 3, as many as {f} has"),
        ("a\n", "x\ny\n\n", "{e}: found 3 lines, expected 1, as many as {f} has"),
        ("", "x", "{e}: found 1 line, expected 0, as many as {f} has"),
        ("", "", "{f}: found no sentences, expected a bitext"),
        (None, "x\n", "{f}: found no such file or directory, expected a readable file"),
        ("a\n", None, "{e}: found no such file or directory, expected a readable file"),
    ],
)
@pytest.mark.usefixtures("eflomal")
def test_bad_texts_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str | None, target: str | None, said: str
) -> None:
    options = written(tmp_path, source or "", target or "")
    for name, text in (("f", source), ("e", target)):
        if text is None:
            (tmp_path / name).unlink()
    assert main(options) == 3
    assert capsys.readouterr().err == f"mpitune: {said.format(f=tmp_path / 'f', e=tmp_path / 'e')}\n"
    assert nothing_is_left(tmp_path)


def test_eflomal_is_not_installed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aligning, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(written(tmp_path, "a\n", "x\n")) == 2
    assert capsys.readouterr().err == "mpitune: eflomal is not installed: pip install 'mpitune[align]'\n"
    assert not (tmp_path / "out").exists()


def test_eflomal_on_the_path(tmp_path: Path, eflomal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aligning, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(eflomal.parent))
    assert main(written(tmp_path, "a\n", "x\n")) == 0


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        ("fail", "eflomal failed (exit code 1): sentence_read(): out of luck"),
        ("crash", "eflomal failed (signal 11, Segmentation fault): it said nothing"),
        ("cut", "eflomal failed: line 2 of its 2 is b'0-0', not links: is the disk of {temporary} full?"),
    ],
)
@pytest.mark.usefixtures("eflomal")
def test_a_failure_of_eflomal_is_told(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    behaviour: str,
    said: str,
) -> None:
    monkeypatch.setenv("STAND_IN", behaviour)
    options = written(tmp_path, "a\nb\n", "x\ny\n")
    assert main(options) == 4
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"mpitune: {said.format(temporary=tmp_path / 'temporary')}"
    assert nothing_is_left(tmp_path)


@pytest.mark.usefixtures("eflomal")
def test_temporary_files_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = tempfile.TemporaryFile

    def full(dir: Path | None = None) -> object:
        if dir is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        return usual(dir=dir)

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    assert main(written(tmp_path, "a\n", "x\n")) == 4
    said = capsys.readouterr().err
    assert said == f"mpitune: {tmp_path}/temporary: cannot be written: No space left on device\n"


@pytest.mark.usefixtures("eflomal")
def test_an_output_that_cannot_be_written_is_told_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = written(tmp_path, "a\n", "x\n")
    assert main([*options[:-1], f"{tmp_path}/absent/out"]) == 2
    assert capsys.readouterr().err == f"mpitune: {tmp_path}/absent/out: cannot be written: No such file or directory\n"


@pytest.mark.skipif(sys.platform != "linux", reason="the child launcher works on Linux alone")
@pytest.mark.usefixtures("eflomal")
def test_eflomal_does_not_outlive_us(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path / "packages"), str(ROOT)]),
        "STAND_IN": "wait",
        "STARTED": str(tmp_path / "started"),
        "TMPDIR": str(tmp_path / "temporary"),
    }
    command = [sys.executable, "-m", "mpitune", *written(tmp_path, "a\n", "x\n")]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as run:
        started = tmp_path / "started"
        while not (started.exists() and started.read_text()):
            assert run.poll() is None
            time.sleep(0.05)
        run.kill()
        child = started.read_text()
    gone = Path("/proc", child, "cmdline")
    deadline = time.monotonic() + 60
    # Whoever inherits it may take a while to notice that it has ended; its command line is empty then.
    while gone.exists() and gone.read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not any((tmp_path / "temporary").iterdir())


@pytest.mark.mpi
@pytest.mark.usefixtures("eflomal")
def test_one_rank_aligns(tmp_path: Path) -> None:
    run = mpirun(
        2,
        ["-m", "mpitune", *written(tmp_path, "a\n", "x\n")],
        environment={"PYTHONPATH": os.pathsep.join([str(tmp_path / "packages"), str(ROOT)])},
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr.count("eflomal aligns 1 of 1 sentence pair\n") == 1
    assert (tmp_path / "out").read_text() == "0-0\n"


@pytest.mark.skipif(find_spec("eflomal") is None, reason="needs eflomal: pip install 'mpitune[align]'")
def test_eflomal_itself_aligns(tmp_path: Path) -> None:
    """Sentences of a made-up language whose words stand in reverse order, one missing here and there."""
    draw = random.Random(1)
    pairs = []
    for _ in range(400):
        sentence = [f"w{draw.randrange(30)}" for _ in range(draw.randrange(9))]
        pairs.append((" ".join(sentence), " ".join(word.replace("w", "v") for word in reversed(sentence))))
    sources, targets = zip(*pairs, strict=True)
    assert main(written(tmp_path, "\n".join(sources) + "\n", "\n".join(targets) + "\n")) == 0
    found = right = words = 0
    for source, line in zip(sources, (tmp_path / "out").read_text().split("\n"), strict=False):
        size = len(source.split())
        given = links(line)
        found += len(given)
        right += sum(i + j == size - 1 for i, j in given)
        words += size
    assert right > 0.9 * words and right > 0.9 * found
