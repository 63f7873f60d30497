"""Bad input, from the outside: the message is that of support/messages.tsv, in one line, with the exit code given
there. No file is left half-written, and with mended input the same command ends as usual.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import pytest
from support.fake import FakeCdec
from support.messages import MESSAGES, REMOVED, Row, check_told
from support.mpi import ROOT, mpirun
from support.naive_kenlm import write_kenlm
from support.sharing import read_only
from support.small_disk import on_a_small_disk
from support.tiny import write_data

from mpitune.array_files.arrays import VERSION, open_arrays, write_arrays
from mpitune.cli.parser import main
from mpitune.ownership import FolderLock
from mpitune.run_folder import checkpoint
from mpitune.training.scheduler import draw_shards

JOB = """[data]
source = "train.de"
references = ["train.en"]
[grammar]
file = "grammar"
[[lm]]
file = "lm.arpa"
[decoder]
kbest = 30
pop_limit = 30
[features]
templates = ["id", "shape"]
[learner]
preset = "simianer2012"
epochs = 3
learning_rate = 0.0078125
initial_weights = "warm"
[parallel]
shards = 4
[select]
k = 40
"""
STORE = ("store/data.npz", "store/lm-0.npz")
EXTERNAL = ("store/lm-0-external.npz", *(f"cdec/rank-0/{name}" for name in ("cdec.ini", "weights", "stderr.log")))
WATCHED = tuple(f"translations/{name}.txt.gz" for name in ("source", "reference-0", "epoch-0000"))
CHECKPOINT = "runs/job/checkpoints/epoch-0002.h5"
WITHOUT_BINS = "weights learned with bins, without their run's `scoring.json`"
IN_USE = "a run folder that another run is using"
FULL_DISK = "a full disk"


# The document's table


# What is tried


class Case(NamedTuple):
    spoil: Callable[[Path], object]
    """Makes the input in a folder bad."""
    arguments: tuple[str, ...] = ()
    """Added to ``mpitune train job.toml``."""
    made: int = 0
    """How many of the files of `STORE` are made nevertheless, from what is sound."""
    trained: bool = False
    """Two of the three epochs are done before."""
    mended: tuple[str, ...] = ()
    """Added to the command where the input is mended."""
    left: tuple[str, ...] = ()
    """What else of the run folder is made nevertheless."""


Spoil = Callable[[Path], None]


def write(name: str, content: str | bytes) -> Spoil:
    raw = content.encode() if isinstance(content, str) else content

    def spoil(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(raw)

    return spoil


def line(name: str, number: int, content: str | bytes) -> Spoil:
    """Replaces one line."""

    def spoil(folder: Path) -> None:
        lines = (folder / name).read_bytes().split(b"\n")
        lines[number - 1] = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(b"\n".join(lines))

    return spoil


def edit(name: str, pattern: str, new: str) -> Spoil:
    def spoil(folder: Path) -> None:
        text, count = re.subn(pattern, new, (folder / name).read_text(), count=1)
        assert count == 1
        (folder / name).write_text(text)

    return spoil


def cut(name: str, *, zipped: bool = False) -> Spoil:
    """Leaves the first half, of the gzipped file if asked for."""

    def spoil(folder: Path) -> None:
        content = (folder / name).read_bytes()
        content = gzip.compress(content) if zipped else content
        (folder / name).write_bytes(content[: len(content) // 2])

    return spoil


def kenlm_of(folder: Path) -> bytes:
    """The language model as a KenLM binary."""
    write_kenlm(folder / "lm.arpa", folder / "lm.klm")
    content = (folder / "lm.klm").read_bytes()
    (folder / "lm.klm").unlink()
    return content


def first_lines(name: str, count: int) -> Spoil:
    def spoil(folder: Path) -> None:
        (folder / name).write_bytes(b"".join((folder / name).read_bytes().splitlines(keepends=True)[:count]))

    return spoil


def all_of(*spoils: Spoil) -> Spoil:
    return lambda folder: [spoil(folder) for spoil in spoils] and None


def newer_checkpoint(folder: Path) -> None:
    whole = checkpoint.read_checkpoint(folder / CHECKPOINT)
    with patch.object(checkpoint, "VERSION", checkpoint.VERSION + 1):
        checkpoint.write_checkpoint(folder / "runs/job/checkpoints", whole)


def foreign_checkpoint(folder: Path) -> None:
    """Its digest matches."""
    (folder / CHECKPOINT).write_bytes(checkpoint._user_block(hashlib.blake2b(b"no HDF5")) + b"no HDF5")


def newer_store(folder: Path) -> None:
    data = folder / "runs/job" / STORE[0]
    whole = {name: np.array(array) for name, array in open_arrays(data).items()}
    write_arrays(data, whole, {"version": VERSION + 1})


def cdec(binary: object = "cdec", more: str = "") -> Spoil:
    """Another decoder."""
    return edit("job.toml", r"\[decoder\]", f'[decoder]\nbackend = "cdec"\nbinary = "{binary}"\n{more}')


def failing_cdec(fault: str, *, early: bool = False) -> Spoil:
    """One that fails: always, or on a sentence of the shard that is learned first."""

    def spoil(folder: Path) -> None:
        texts = (folder / "train.de").read_text().splitlines()
        # Beside the folder: what it writes is not of the run.
        fake = FakeCdec(folder.with_name(f"{folder.name}-cdec"), {text: [("the", {})] for text in texts})
        first = max(draw_shards(len(texts), 4, 1, 0), key=lambda shard: sum(len(texts[i].split()) for i in shard))
        fake.fails(fault, **{"text": texts[first[0]]} if early else {})
        cdec(fake.binary)(folder)

    return spoil


LISTS_JOB = """[data]
lists = ["lists"]
references = ["train.en"]
[decoder]
backend = "lists"
[learner]
epochs = 1
[parallel]
shards = 4
"""


def lists(entry: str, job: str = LISTS_JOB) -> Spoil:
    """Lists of another program instead of a grammar, of Moses; ``entry``: the seventh line."""
    sound = "".join(f"0 ||| the house {n} ||| tm= {n} Cost= {n % 3} ||| 0\n" for n in range(6))
    return all_of(write("lists", f"{sound}{entry}\n"), write("job.toml", job))


OWN = "".join(f'<seg grammar="own.{n}" id="{n}">haus</seg>\n' for n in range(26))
KENLM = b"mmap lm http://kheafield.com/code format version 5\n".ljust(96, b"\0") + b"\2\0\0\0" + bytes(1000)

CASES = {
    "the job file is not TOML": Case(line("job.toml", 1, "[data")),
    "a key that does not exist": Case(edit("job.toml", "epochs", "epoch")),
    "a table that does not exist, here in `--set`": Case(write("empty", ""), ("--set", "lerner.epochs=1")),
    "a value of the wrong type": Case(edit("job.toml", "epochs = 3", 'epochs = "ten"')),
    "a value out of range": Case(edit("job.toml", "epochs = 3", "epochs = 3\nshare = 0.6")),
    "a name of a language model that no weights file can hold": Case(
        edit("job.toml", r"\[\[lm\]\]", '[[lm]]\nname = "#lm"')
    ),
    "a path with an environment variable that is not set": Case(edit("job.toml", '"grammar"', '"${CORPORA}/grammar"')),
    "the same without braces": Case(edit("job.toml", '"grammar"', '"$HOME/grammar"')),
    "tables or lists nested without end": Case(line("job.toml", 1, f"[data{'.x' * 3000}]")),
    "a file that is not there (text, grammar, language model)": Case(lambda folder: (folder / "lm.arpa").unlink()),
    "a gzip file that was cut": Case(cut("train.de", zipped=True)),
    "text that is not UTF-8": Case(line("train.de", 3, "süßer die glocken".encode("latin-1"))),
    "a NUL character in a file": Case(line("train.de", 3, "das h\0aus")),
    "a pipe, such as `<(zcat ...)`, for a file of the job": Case(
        all_of(lambda folder: os.mkfifo(folder / "pipe"), edit("job.toml", '"train.en"', '"pipe"'))
    ),
    "source and references of different length": Case(first_lines("train.en", 23)),
    "a sentence or reference of more than 5000 words": Case(line("train.de", 3, "das haus " * 50_000)),
    "a word of more than 10000 characters": Case(line("train.en", 3, f"the {'x' * 10_001}")),
    "a sentence whose grammar is missing": Case(
        all_of(write("train.de", OWN), edit("job.toml", 'file = "grammar"', "per_sentence = true"))
    ),
    "a sentence whose grammar is elsewhere": Case(
        all_of(
            write("text/train.de", '<seg grammar="../grammar">haus</seg>\n' * 26),
            edit("job.toml", "train.de", "text/train.de"),
            edit("job.toml", 'file = "grammar"', "per_sentence = true"),
        )
    ),
    "source and target of a bitext swapped": Case(
        all_of(
            *(write(name, f"{text}\n") for name, text in (("f", "a b"), ("e", "x y z"), ("links", "0-0 2-1"))),
            edit("job.toml", 'file = "grammar"', 'source = "f"\ntarget = "e"\nalignment = "links"'),
        )
    ),
    "a line missing in one of two texts of equal length": Case(
        all_of(line("train.de", 2, ""), line("train.en", 4, "")), made=2, mended=("--resume", "never")
    ),
    "an empty line of a second reference": Case(
        all_of(line("train.en2", 3, ""), edit("job.toml", r'\["train.en"\]', '["train.en2", "train.en"]')),
        made=2,
        mended=("--resume", "never"),
    ),
    "source and references swapped": Case(
        all_of(edit("job.toml", "train.de", "train.en"), edit("job.toml", r'\["train.en"\]', '["train.de"]')),
        made=2,
        mended=("--resume", "never"),
    ),
    "a rule of two fields": Case(line("grammar", 7, "[X] ||| haus")),
    "a score that is NaN, infinite or too large": Case(
        line("grammar", 7, "[X] ||| haus ||| house ||| Lex=0.5 Cost=nan")
    ),
    "a score that no weights file can hold": Case(line("grammar", 7, "[X] ||| haus ||| house ||| #Cost=1")),
    "a score named like a sparse feature": Case(
        line("grammar", 7, "[X] ||| haus ||| house ||| R:X:haus:house=1"), made=1
    ),
    "a score named like a feature of the decoder": Case(
        line("grammar", 7, "[X] ||| haus ||| house ||| Glue=1"), made=2, mended=("--resume", "never")
    ),
    "a rule with three gaps": Case(line("grammar", 7, "[X] ||| [X,1] a [X,2] b [X,3] ||| [1] [2] [3]")),
    "a line of Moses' rule table in one of cdec": Case(line("grammar", 7, "haus [X] ||| house [X] ||| 0.5")),
    "a phrase table of Moses": Case(write("grammar", "haus ||| house ||| 0.5 0.25 ||| 0-0 ||| 4 2 1 ||| |||\n")),
    "a grammar without rules": Case(write("grammar", "")),
    "a grammar of other categories": Case(write("grammar", "[PH] ||| haus ||| house ||| Cost=1\n")),
    "a bitext for a text": Case(line("train.en", 3, "the house ||| das haus")),
    "a language model that was cut": Case(first_lines("lm.arpa", 37), made=1),
    "a language model with wrong counts": Case(edit("lm.arpa", r"ngram 3=\d+", "ngram 3=5"), made=1),
    "a language model that announces more than its file can hold": Case(
        edit("lm.arpa", r"ngram 1=\d+", "ngram 1=999999999999999")
    ),
    "a language model with a backoff after its longest n-grams": Case(
        line("lm.arpa", 54, "-0.15490\t<s> found the\t-0.4"), made=1
    ),
    "a KenLM binary of another kind": Case(write("lm.arpa", KENLM), made=1),
    "a KenLM binary that was cut": Case(lambda folder: write("lm.arpa", kenlm_of(folder)[:1024])(folder), made=1),
    "no language model at all": Case(lambda folder: shutil.copy(folder / "grammar", folder / "lm.arpa")),
    "plain text as n-best lists, without the number of lines of a list": Case(
        all_of(write("lists", "the house\n"), write("job.toml", LISTS_JOB))
    ),
    "plain text with a line too few": Case(
        all_of(write("lists", "the house\n"), write("job.toml", LISTS_JOB.replace("[decoder]", "nbest = 2\n[decoder]")))
    ),
    "a line of an n-best list with too few fields": Case(lists("0 ||| the house tm= 1")),
    "a value in an n-best list that is NaN, infinite or too large": Case(
        lists("0 ||| the house ||| tm= 1 Cost= nan ||| 0")
    ),
    "`_`, or digits of other scripts, in a value": Case(lists("0 ||| the house ||| tm= 1 Cost= 1_0 ||| 0")),
    "lines that end with carriage returns alone": Case(lists("0 ||| the house ||| tm= 1 ||| 0\r0 ||| a ||| tm= 1")),
    "a list with a number beyond the references": Case(lists("26 ||| the house ||| tm= 1 ||| 0")),
    "a name of Moses with another number of values": Case(lists("0 ||| the house ||| tm= 1 2 ||| 0")),
    "an entry without the metric that is tuned": Case(
        lists("0 ||| the house ||| tm= 1 ||| 0", LISTS_JOB.replace("[learner]", '[learner]\nmetric = "Cost"'))
    ),
    "sentences without a list": Case(lists("0 ||| the house ||| tm= 1 ||| 0"), mended=("--resume", "never")),
    "a score to be put into bins that no rule has": Case(
        edit("job.toml", r'"shape"\]', '"shape"]\ndiscretize.features = ["Cots"]'), made=2
    ),
    "a weights file with a bad line": Case(line("warm", 2, "R:X:ball:dance = 0.25"), made=2),
    "a weight of a name that is none": Case(line("warm", 2, " #x 0.25"), made=2),
    "a weight that is NaN, infinite or too large": Case(line("warm", 2, "R:X:ball:dance 1e308"), made=2),
    # Root may write wherever permission is all that is missing: here a file is in the way.
    "a run folder that cannot be written to": Case(write("runs", "a file")),
    "a file of yours in the run folder": Case(write("runs/job/weights.txt.gz", "mine")),
    "an input in the folder of its run": Case(
        edit("job.toml", '"warm"', '"runs/job/weights.txt.gz"'), trained=True, mended=("--resume", "must")
    ),
    "a run folder as the store": Case(write("job.toml", f'{JOB}\n[run]\nstore = "runs/job"\n')),
    "a job that has changed since its last checkpoint": Case(
        edit("job.toml", "epochs = 3", "epochs = 3\nmargin = 0.5"), trained=True
    ),
    "a checkpoint that was cut: the one before is used": Case(cut(CHECKPOINT), trained=True),
    "no checkpoint is sound": Case(all_of(cut(CHECKPOINT), cut(CHECKPOINT.replace("2.h5", "1.h5"))), trained=True),
    "cdec is asked for and not there": Case(cdec("no-such-cdec"), made=1, left=EXTERNAL[:-1]),
    "cdec does not start": Case(failing_cdec("never starts"), made=1, left=EXTERNAL),
    "cdec fails on more than 1 % of the sentences": Case(
        failing_cdec("dies mid-answer", early=True),
        made=1,
        # Kept, and done again by whoever goes on.
        left=(*EXTERNAL, "config.toml", "checkpoints/epoch-0001.shards/shard-0001.h5", *WATCHED),
    ),
    "a cdec.ini that mpitune cannot tune": Case(
        all_of(write("cdec.ini", "formalism=scfg\nquiet=true\n"), cdec(more='config = "cdec.ini"'))
    ),
    "a checkpoint of a newer version": Case(newer_checkpoint, trained=True),
    "a store of a newer version": Case(newer_store, trained=True),
}
OTHERS = {
    "devtest without references": (
        Case(edit("job.toml", r"\[grammar\]", '[data.devtest]\nsource = "dev.de"\n[grammar]')),
        Row("job.toml: data.devtest: expected both source and references, or neither", 2),
    ),
    "what only cdec has": (
        Case(
            all_of(
                write("cdec.ini", "feature_function=SpanFeatures\n"),
                edit("job.toml", r"\[decoder\]", '[decoder]\nconfig = "cdec.ini"'),
            )
        ),
        Row("cdec.ini: found feature_function=SpanFeatures, which the embedded decoder does not have", 2),
    ),
    "a cdec.ini whose grammar is beside those of the sentences": (
        Case(
            all_of(
                write("cdec.ini", "grammar=grammar\n"),
                edit("job.toml", 'file = "grammar"', "per_sentence = true"),
                edit("job.toml", r"\[decoder\]", '[decoder]\nconfig = "cdec.ini"'),
            )
        ),
        Row(
            "cdec.ini: found a grammar beside those of the sentences (grammar.per_sentence), "
            "which the embedded decoder does not have",
            2,
        ),
    ),
    "what cdec does not have": (
        Case(all_of(cdec(), edit("job.toml", 'file = "grammar"', 'file = "grammar"\nformat = "moses"'))),
        Row('job.toml: grammar.format = "moses": cdec cannot read this format', 2),
    ),
    "a number that is none": (
        Case(edit("job.toml", "0.0078125", "nan")),
        Row("job.toml: learner.learning_rate: found nan, expected a number above 0.0", 2),
    ),
    "memory for a slip of the pen": (
        Case(edit("job.toml", "kbest = 30", "kbest = 3000000000")),
        Row("job.toml: decoder.kbest: found 3000000000, expected a whole number of at least 1 and at most 1000000", 2),
    ),
    "a folder for a file": (
        Case(edit("job.toml", "train.de", ".")),
        Row("{folder}: found a folder, expected a readable file", 3),
    ),
    "no sentences": (
        Case(all_of(write("train.de", ""), write("train.en", "")), made=2),
        Row("job.toml: found no sentences in [data], expected at least one sentence", 3),
    ),
    "a bitext for a source": (
        Case(line("train.de", 1, "das haus ||| the house")),
        Row("train.de:1: found the separator |||, expected a sentence alone, not a bitext", 3),
    ),
    "a source for a bitext": (
        Case(all_of(edit("job.toml", "source = ", "bitext = "), edit("job.toml", "references.*", ""))),
        Row("train.de:1: found 1 field, expected source ||| reference [||| reference ...]", 3),
    ),
    "a language model for a grammar": (
        Case(edit("job.toml", 'file = "grammar"', 'file = "lm.arpa"')),
        Row("lm.arpa:1: found 1 field, expected [LHS] ||| source ||| target [||| scores [||| alignment]]", 3),
    ),
    "an infinite score": (
        Case(line("grammar", 7, "[X] ||| haus ||| house ||| Lex=1e999")),
        Row("grammar:7: found score 'Lex=1e999', expected a number from -1e30 to 1e30", 3),
    ),
    "a score that sums cannot hold": (
        Case(line("grammar", 7, "[X] ||| haus ||| house ||| Lex=1e308")),
        Row("grammar:7: found score 'Lex=1e308', expected a number from -1e30 to 1e30", 3),
    ),
    "a NUL character in a weights file": (
        Case(line("warm", 2, "R:X:b\0all:dance 0.25"), made=2),
        Row("warm:2: found a NUL character, expected text without any", 3),
    ),
    "a reference without line ends": (
        Case(line("train.en", 3, "the house " * 50_000)),
        Row("train.en:3: found 100000 words, expected a sentence of at most 5000: is a line end missing?", 3),
    ),
    "a language model of more n-grams than there are": (
        Case(edit("lm.arpa", r"ngram 3=\d+", "ngram 3=12345678901234567890123")),
        Row(
            "lm.arpa:4: found 'ngram 3=12345678901234567890123', expected ngram 3=COUNT (at most 18 digits) or "
            "\\1-grams:",
            3,
        ),
    ),
    "a checkpoint made elsewhere": (
        Case(foreign_checkpoint, trained=True),
        Row("runs/job/checkpoints/epoch-0002.h5: found other content than a run writes (...), ...; left out", 0),
    ),
    "an empty language model": (
        Case(write("lm.arpa", "")),
        Row("lm.arpa:1: found the end of the file, expected \\data\\", 3),
    ),
    "a language model cut within a line": (
        Case(cut("lm.arpa"), made=1),
        Row("lm.arpa:46: found 1 field, expected a log10 probability, 2 words and perhaps a backoff", 3),
    ),
    "a gzipped KenLM binary of another kind": (
        Case(write("lm.arpa", gzip.compress(KENLM))),
        Row(
            "lm.arpa: found a KenLM binary (trie), expected a probing one (build_binary's default), or the ARPA file", 3
        ),
    ),
    "a gzipped KenLM binary": (
        Case(lambda folder: write("lm.arpa", gzip.compress(kenlm_of(folder)))(folder)),
        Row("lm.arpa: found a gzipped KenLM binary, expected it unpacked: it is mapped into memory", 3),
    ),
    "bytes for a language model": (
        Case(write("lm.arpa", bytes(range(128, 256)))),
        Row("lm.arpa:1: found bytes that are not UTF-8 (...), expected UTF-8", 3),
    ),
    "a file where the store is to be": (
        Case(write("runs/job/store", "a file")),
        Row("runs/job/store/data.npz: missing, and cannot be built: ...: cannot be written: File exists", 2),
    ),
}
"""What is told as well."""
REAL = ["a key that does not exist", "a rule of two fields", "a job that has changed since its last checkpoint"]
"""Cases that are tried once more as processes of their own, alone and as two ranks."""


# Where it is tried


class Whole(NamedTuple):
    folder: Path
    """The task, and a run of two epochs."""
    weights: bytes
    """What a run of three epochs ends with."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder = tmp_path_factory.mktemp("whole")
    write_data(folder)
    (folder / "job.toml").write_text(JOB)
    assert main(["train", str(folder / "job.toml"), "--quiet", "--set", f"run.dir={folder}/three"]) == 0
    weights = (folder / "three" / "weights.txt.gz").read_bytes()
    shutil.rmtree(folder / "three")
    assert main(["train", str(folder / "job.toml"), "--quiet", "--set", "learner.epochs=2"]) == 0
    return Whole(folder, weights)


def contents(folder: Path) -> dict[str, bytes]:
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {
        name: path.read_bytes()
        for name, path in found.items()
        if path.name not in ("lock", "log.txt", "status.json") and path.suffix != ".checked"
    }


def try_case(
    whole: Whole, folder: Path, case: Case, row: Row, run: Callable[[list[str]], tuple[int, str]], ranks: int = 1
) -> None:
    """Spoil the input, run the command, check all, mend the input, and run it again."""
    shutil.copytree(whole.folder, folder, dirs_exist_ok=True)
    if not case.trained:
        shutil.rmtree(folder / "runs")
    command = ["train", str(folder / "job.toml")]
    good = contents(folder)
    case.spoil(folder)
    spoilt = contents(folder)
    code, errors = run([*command, *case.arguments])
    if ranks > 1:
        # A launcher may have words of its own.
        errors = "".join(f"{line}\n" for line in errors.splitlines() if line.startswith("mpitune: "))
    check_told(row, code, errors, folder)
    left = contents(folder)
    assert spoilt.keys() <= left.keys()
    changed = {name for name in left if left[name] != spoilt.get(name)}
    if code:
        assert changed == {f"runs/job/{name}" for name in (*STORE[: case.made], *case.left)}
    for name in spoilt.keys() - good.keys():
        (folder / name).unlink()
    for name, content in good.items():
        if spoilt.get(name) != content and name not in changed:
            (folder / name).write_bytes(content)
    assert main([*command, "--quiet", *case.mended]) == 0
    assert (folder / "runs/job/weights.txt.gz").read_bytes() == whole.weights


def in_a_process(arguments: Sequence[str], rights: Sequence[str] = ()) -> tuple[int, str]:
    command = [*rights, sys.executable, "-m", "mpitune", *arguments]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_the_table_has_a_row_for_each_case_and_no_other() -> None:
    assert sorted(MESSAGES) == sorted([*CASES, WITHOUT_BINS, IN_USE, FULL_DISK, REMOVED])
    assert {row.code for row in MESSAGES.values()} == {0, 2, 3, 4}


@pytest.mark.parametrize("what", CASES)
def test_what_the_table_says(
    whole: Whole, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.delenv("CORPORA", raising=False)

    def run(arguments: list[str]) -> tuple[int, str]:
        capsys.readouterr()
        code = main(arguments)
        output, errors = capsys.readouterr()
        assert output == ""
        return code, errors

    try_case(whole, tmp_path, CASES[what], MESSAGES[what], run)


@pytest.mark.parametrize("what", OTHERS)
def test_what_else_is_told(whole: Whole, tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str) -> None:
    case, row = OTHERS[what]
    row = row._replace(says=row.says.format(folder=tmp_path))
    try_case(whole, tmp_path, case, row, lambda arguments: (main(arguments), capsys.readouterr().err))


@pytest.mark.parametrize("what", REAL)
def test_the_same_of_a_process(whole: Whole, tmp_path: Path, what: str) -> None:
    try_case(whole, tmp_path, CASES[what], MESSAGES[what], in_a_process)


@pytest.mark.mpi
@pytest.mark.parametrize("what", [*REAL[1:], "a run folder that cannot be written to"])
def test_the_same_of_two_ranks(whole: Whole, tmp_path: Path, what: str) -> None:
    def run(arguments: list[str]) -> tuple[int, str]:
        done = mpirun(2, ["-m", "mpitune", *arguments], timeout=60)
        assert "Traceback" not in done.stderr
        return done.returncode, done.stderr

    try_case(whole, tmp_path, CASES[what], MESSAGES[what], run, ranks=2)


def test_weights_without_their_bins(whole: Whole, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(whole.folder, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("runs"))
    command = ["--set", 'features.discretize.features=["Cost"]', "--set", "learner.epochs=1"]
    assert main(["train", str(tmp_path / "job.toml"), "--quiet", *command]) == 0
    (tmp_path / "runs/job/weights.txt.gz").rename(tmp_path / "weights.txt.gz")
    kept = tmp_path / "runs/job/scoring.json"
    scoring = kept.read_bytes()
    kept.unlink()
    good = contents(tmp_path)
    asked = ("--input", "train.de", "--weights", "weights.txt.gz", "--output", "out")
    files = [str(tmp_path / word) if not word.startswith("--") else word for word in asked]
    capsys.readouterr()
    code = main(["decode", str(tmp_path / "job.toml"), *command, *files])
    check_told(MESSAGES[WITHOUT_BINS], code, capsys.readouterr().err, tmp_path)
    assert contents(tmp_path) == good
    kept.write_bytes(scoring)
    assert main(["decode", str(tmp_path / "job.toml"), *command, *files]) == 0


def test_a_run_folder_in_use(whole: Whole, tmp_path: Path) -> None:
    held = FolderLock(tmp_path / "runs/job", "run")

    def run(arguments: list[str]) -> tuple[int, str]:
        held.acquire(wait=False)
        try:
            return in_a_process(arguments)
        finally:
            held.release()

    try_case(whole, tmp_path, Case(write("empty", "")), MESSAGES[IN_USE], run)


def test_a_run_folder_without_permission(whole: Whole, tmp_path: Path) -> None:
    shutil.copytree(whole.folder, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("runs"))
    (tmp_path / "runs").mkdir()
    with read_only(tmp_path / "runs") as rights:
        code, errors = in_a_process(["train", str(tmp_path / "job.toml")], rights)
    row = MESSAGES["a run folder that cannot be written to"]
    check_told(row._replace(says=row.says.replace("...", "Permission denied")), code, errors, tmp_path)


# What is no error


def test_files_of_another_editor(whole: Whole, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(whole.folder, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("runs"))
    for name in ("job.toml", "train.de", "train.en", "grammar", "lm.arpa", "warm"):
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n"))
    assert main(["train", str(tmp_path / "job.toml"), "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    assert (tmp_path / "runs/job/weights.txt.gz").read_bytes() == whole.weights


def test_a_long_sentence_is_decoded_and_a_far_longer_one_refused(
    whole: Whole, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(whole.folder, tmp_path, dirs_exist_ok=True)
    job = str(tmp_path / "job.toml")
    words = ["der", "mann", "hat", "das", "haus", "gesehen"] * 20_000
    decode = ["decode", job, "--input", str(tmp_path / "input"), "--output", str(tmp_path / "output")]
    (tmp_path / "input").write_text(f"das haus\n{' '.join(words[:400])}\n")
    assert main(decode) == 0
    short, long = (tmp_path / "output").read_text().splitlines()
    assert short and 200 < len(long.split()) < 800
    (tmp_path / "output").unlink()
    for count in (5_001, 100_000):
        (tmp_path / "input").write_text(f"das haus\n{' '.join(words[:count])}\n")
        capsys.readouterr()
        row = MESSAGES["a sentence or reference of more than 5000 words"]
        says = row.says.replace("train.de:3", "input:2").replace("100000", str(count))
        check_told(Row(says, row.code), main(decode), capsys.readouterr().err, tmp_path)
        assert not (tmp_path / "output").exists()
    shutil.rmtree(tmp_path / "runs")
    line("train.de", 3, " ".join(words[:400]))(tmp_path)
    assert main(["train", job, "--quiet"]) == 0


# A full disk

FILLED = """
# Trains on a small disk with 0, 1, 2 ... blocks of room until that is enough; prints how each attempt ended.
import io, json, os, sys
from contextlib import redirect_stderr
from pathlib import Path
from mpitune.cli.parser import main
from mpitune.run_folder.checkpoint import latest_valid_checkpoint

run, job = Path(sys.argv[1]), sys.argv[2]
filler = run.parent / "filler"
ended = []

def attempt(room, *arguments):
    filler.unlink(missing_ok=True)
    disk = os.statvfs(run.parent)
    with open(filler, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, (disk.f_bavail - room) * disk.f_frsize)
    errors = io.StringIO()
    with redirect_stderr(errors):
        code = main(["train", job, "--quiet", *arguments])
    sound, _ = latest_valid_checkpoint(run / "checkpoints")
    files = sorted(path.name for path in run.rglob("*") if path.is_file())
    ended.append((code, errors.getvalue(), files, sound.epoch if sound else 0))
    return code

block = os.statvfs(run.parent).f_frsize
attempt(0)
attempt(os.statvfs(run.parent).f_blocks // 2, "--set", "learner.epochs=1")
# The log, too, needs another block.
log = run / "log.txt"
log.write_text(log.read_text().ljust(block * (log.stat().st_size // block + 1)))
room = 0
while attempt(room):
    room += 1
print(json.dumps([ended, (run / "weights.txt.gz").read_bytes().hex()]))
"""


def test_a_full_disk_while_checkpointing(whole: Whole, tmp_path: Path) -> None:
    shutil.copytree(whole.folder, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("runs"))
    (tmp_path / "runs").mkdir()
    job = tmp_path / "job.toml"
    job.write_text(f'[run]\nstore = "{tmp_path}/store"\n{JOB}')
    (tmp_path / "filled.py").write_text(FILLED)
    done = on_a_small_disk(tmp_path / "runs", [sys.executable, tmp_path / "filled.py", tmp_path / "runs/job", job])
    assert (done.returncode, done.stderr) == (0, "")
    ended, weights = json.loads(done.stdout)
    row = MESSAGES[FULL_DISK]
    check_told(row._replace(says="runs/job: cannot be written: No space left on device"), *ended[0][:2], tmp_path)
    assert ended[0][2:] == [["lock"], 0]
    assert ended[1] == [0, "", ended[1][2], 1]
    for code, errors, files, epoch in ended[2:-1]:
        check_told(row, code, errors, tmp_path)
        assert not [name for name in files if name.endswith("part") or "traceback" in name]
        assert epoch >= 1, "the checkpoint before is sound"
    # Which files, depends on their sizes: one that there was no room for is written when there is room for the next.
    assert len({errors for _, errors, _, _ in ended[2:-1]}) > 3
    code, errors, _, epoch = ended[-1]
    assert (code, errors, epoch) == (0, "", 3)
    assert bytes.fromhex(weights) == whole.weights, "as if there had always been room"
