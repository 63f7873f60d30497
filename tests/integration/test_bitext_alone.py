"""A job that names a bitext and nothing else: what is made of it, when it is made again, and what comes out."""

from __future__ import annotations

import gzip
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands import Cli, Done
from support.mpi import mpirun
from support.naive_extract import random_pairs

from mpitune.array_files.arrays import open_arrays
from mpitune.corpus import eflomal
from mpitune.corpus.lines import lines
from mpitune.corpus.text import read_sentences
from mpitune.errors import DataError
from mpitune.lm.arpa import read_arpa
from mpitune.lm.kneser_ney import estimate
from mpitune.store import bitext_inputs
from mpitune.store.bitext_inputs import BitextParts, make_inputs
from mpitune.training import job_inputs

PAIRS = [pair for seed in range(3, 40) for pair in random_pairs(seed) if pair[0] and pair[1]]
BITEXT = '[data]\nsource = "f"\nreferences = ["e"]\nlimit = 20\n'
QUICK = '[learner]\npreset = "simianer2012"\nepochs = 2\n[parallel]\nshards = 2\n'


def write(path: Path, sentences: list[str]) -> None:
    path.write_text("".join(f"{sentence}\n" for sentence in sentences))


def read(path: Path) -> list[str]:
    return [line for _, line in lines(path)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A bitext with its links, and a job for it."""
    write(tmp_path / "f", [" ".join(pair[0]) for pair in PAIRS])
    write(tmp_path / "e", [" ".join(pair[1]) for pair in PAIRS])
    write(tmp_path / "fe", [f"{' '.join(pair[0])} ||| {' '.join(pair[1])}" for pair in PAIRS])
    write(tmp_path / "a", [" ".join(f"{i}-{j}" for i, j in dict.fromkeys(pair[2])) for pair in PAIRS])
    write(tmp_path / "job.toml", [BITEXT + QUICK])
    return tmp_path


@pytest.fixture
def aligned(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Stands in for eflomal: links words at the same position. Returns the sources that it has aligned."""
    asked: list[Path] = []

    def align(source: Path, target: Path) -> Iterator[str]:
        asked.append(source)
        for (_, one), (_, other) in zip(lines(source), lines(target), strict=True):
            yield " ".join(f"{i}-{i}" for i in range(min(len(one.split()), len(other.split()))))

    monkeypatch.setattr(eflomal, "align", align)
    monkeypatch.setattr(bitext_inputs, "find_program", lambda: "eflomal")
    return asked


def run(cli: Cli, folder: Path, command: str = "train", *more: str | Path) -> Done:
    done = cli(command, folder / "job.toml", *more)
    assert done.code == 0, done.errors
    return done


def lm_arrays(folder: Path, n: int = 0, store: str = "runs/job/store") -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in open_arrays(folder / store / f"lm-{n}.npz").items()}


def estimated(text: Path, order: int) -> dict[str, bytes]:
    """The arrays of a model of ``text``, by way of a file."""
    model = text.with_name("expected")
    estimate(text, order, model)
    return {name: array.tobytes() for name, array in read_arpa(model).items()}


def inputs(folder: Path, store: str = "runs/job/store") -> dict[str, list[str]]:
    return {path.name: read(path) for path in (folder / store / "inputs").glob("[!.]*") if path.suffix != ".npz"}


@pytest.mark.parametrize("one_file", [False, True])
def test_the_parts_of_a_bitext(folder: Path, one_file: bool) -> None:
    pairs = [*PAIRS, ([], ["x"], []), (["x"], [], [])]
    texts = [" ".join(pair[0]) for pair in pairs], [" ".join(pair[1]) for pair in pairs]
    write(folder / "f", texts[0])
    write(folder / "e", texts[1])
    write(folder / "fe", list(map(" ||| ".join, zip(*texts, strict=True))))
    links = [" ".join(f"{i}-{j}" for i, j in dict.fromkeys(pair[2])) for pair in pairs]
    write(folder / "a", links)
    source, target = (folder / "fe", None) if one_file else (folder / "f", folder / "e")
    made = folder / "made"
    made.mkdir()
    write(folder / "b", [line.partition(" ")[0] for line in links])
    alignments = folder / "a", folder / "b"
    parts = BitextParts(source, target, alignments, made, 20, holds_out=True, makes_lm=True)
    told = parts.make()
    held_out = len(PAIRS) // 20
    found = {path.name: read(path) for path in made.iterdir()}
    bitext = list(zip(found["bitext.source"], found["bitext.target"], found["bitext.links"], strict=True))
    assert found["bitext.links-1"] == [of_pair.partition(" ")[0] for of_pair in found["bitext.links"]]
    out = list(zip(found["held-out.source"], found["held-out.target"], strict=True))
    everything = list(zip(*texts, links, strict=True))[: len(PAIRS)]
    assert len(out) == held_out and sorted([pair[:2] for pair in bitext] + out) == sorted(p[:2] for p in everything)
    # In the order of the files; those tuned on are the first.
    rest = iter(everything)
    assert all(triple in rest for triple in bitext)
    assert list(zip(found["tuned.source"], found["tuned.target"], strict=True)) == [pair[:2] for pair in bitext[:20]]
    assert [line.removeprefix(f"{source}: ") for line in told] == [
        f"no [grammar]: rules are extracted from {len(bitext)} pairs, for a tuned sentence from all but its own",
        "2 pairs with an empty side left out",
        f"no [data.devtest]: {held_out} pairs, drawn at random, held out for it: neither grammar nor LM has them",
        "data.limit = 20: the first 20 pairs of the others are tuned on",
    ]


@pytest.mark.parametrize(("word", "bad"), [("</seg>", True), ("<seg", True), ("<segment>", False)])
def test_words_that_no_text_to_tune_on_can_have(folder: Path, word: str, bad: bool) -> None:
    """They are found in the bitext, and not in a file that was made from it."""
    lines = read(folder / "f")
    write(folder / "f", [lines[0], f"{lines[1]} {word}", *lines[2:]])
    parts = BitextParts(folder / "f", folder / "e", (), folder, 5, holds_out=False, makes_lm=False)
    if not bad:
        parts.make()
        assert read_sentences(parts.tuned[0])[1].words == [*lines[1].split(), word]
        return
    with pytest.raises(DataError, match=f"/f:2: found {word}, expected words alone"):
        parts.make()


def test_sizes_of_the_parts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def sizes(limit: int, *, holds_out: bool, makes_lm: bool) -> list[int]:
        parts = BitextParts(folder / "f", folder / "e", (), folder, limit, holds_out, makes_lm)
        parts.make()
        return [len(read(path)) for path in parts.outputs if path.suffix != ".source"]

    count, held_out = len(PAIRS), len(PAIRS) // 20
    left = count - held_out
    assert sizes(0, holds_out=True, makes_lm=True) == [left, left // 10, held_out]
    assert sizes(0, holds_out=True, makes_lm=False) == [left, left, held_out]
    assert sizes(0, holds_out=False, makes_lm=False) == [count, count]
    for name in ("MOST_HELD_OUT", "MOST_TUNED"):
        monkeypatch.setattr(bitext_inputs, name, 3)
    assert sizes(0, holds_out=True, makes_lm=True) == [count - 3, 3, 3]


def test_a_bitext_becomes_a_tuned_system(folder: Path, aligned: list[Path], cli: Cli) -> None:
    done = run(cli, folder)
    store = folder / "runs/job/store"
    decisions = [f"{folder}/f: no [grammar]: ", f"{folder}/f: no [data.devtest]: ", f"{folder}/f: data.limit = 20: "]
    decisions += [f"{store}/inputs/links.gz: no grammar.alignment: aligned by eflomal, "]
    decisions += [f"{store}/lm-0.npz: no file in [[lm]]: a model of order 5, estimated from "]
    for decision in decisions:
        assert done.errors.count(f"INFO {decision}") == 1, decision
    epochs = [json.loads(line) for line in (folder / "runs/job/metrics.jsonl").read_text().splitlines()]
    assert [epoch["sentences"] for epoch in epochs] == [20, 20]
    assert all(epoch["devtest_bleu"] is not None for epoch in epochs)
    # The log of every run says it; nothing is made twice.
    again = run(cli, folder, "train", "--set", "learner.epochs=3")
    assert all(again.errors.count(f"INFO {decision}") == 1 for decision in decisions)
    assert "building" not in again.errors and aligned == [store / "inputs/bitext.source"]
    config = folder / "runs/job/config.toml"
    write(folder / "test", ["a b c", "f e"])
    for job in (folder / "job.toml", config):
        translated = cli("decode", job, "--input", folder / "test", "--set", f"run.store={store}")
        assert translated.code == 0 and len(translated.output.splitlines()) == 2
        assert "no [grammar]" not in translated.errors and "eflomal" not in translated.errors
    assert len(aligned) == 1


def test_it_is_the_job_that_names_all_these_files(folder: Path, aligned: list[Path], cli: Cli) -> None:
    run(cli, folder)
    made = "runs/job/store/inputs"
    whole = f'[data]\nsource = "{made}/tuned.source"\nreferences = ["{made}/tuned.target"]\n'
    whole += f'[data.devtest]\nsource = "{made}/held-out.source"\nreferences = ["{made}/held-out.target"]\n'
    whole += f'[grammar]\nsource = "{made}/bitext.source"\ntarget = "{made}/bitext.target"\n'
    whole += f'alignment = "{made}/links.gz"\nleave_one_out = true\n'
    whole += f'[[lm]]\nfile = "lm.gz"\ntext = ["{made}/bitext.target"]\n'
    estimate(folder / made / "bitext.target", 5, folder / "lm.gz")
    write(folder / "whole.toml", [whole + QUICK])
    assert cli("train", folder / "whole.toml", "--set", "learner.lm_leave_one_out=true").code == 0
    one, other = ((folder / "runs" / name / "weights.txt.gz").read_bytes() for name in ("job", "whole"))
    assert one == other and gzip.decompress(one)


def test_only_what_has_changed_is_made_again(folder: Path, aligned: list[Path], cli: Cli) -> None:
    def made_again(*settings: str) -> set[str]:
        store = folder / "runs/job/store"
        files = store / "inputs/links.gz", store / "lm-0.npz"
        times = {path: path.stat().st_mtime_ns for path in files if path.exists()}
        run(cli, folder, "prepare", *(word for setting in settings for word in ("--set", setting)))
        return {path.name for path in files if path.stat().st_mtime_ns != times.get(path)}

    assert made_again() == {"links.gz", "lm-0.npz"}
    assert made_again() == set()
    # Other seeds share the store, and other limits the alignment and the language model.
    assert made_again("run.seed=2") == set()
    assert made_again("data.limit=30") == set()
    assert len(inputs(folder)["tuned.source"]) == 30
    assert made_again("data.limit=30", "lm=[{order=2}]") == {"lm-0.npz"}
    links = folder / "runs/job/store/inputs/links.gz"
    links.write_bytes(links.read_bytes()[:-9])
    assert made_again("data.limit=30", "lm=[{order=2}]") == {"links.gz"}
    (folder / "runs/job/store/inputs/links.gz.npz").write_text("{}")
    assert made_again("data.limit=30", "lm=[{order=2}]") == {"links.gz"}
    write(folder / "e", [" ".join(reversed(pair[1])) for pair in PAIRS])
    assert made_again("data.limit=30", "lm=[{order=2}]") == {"links.gz", "lm-0.npz"}


def test_what_is_given_is_not_made(folder: Path, aligned: list[Path], cli: Cli) -> None:
    """The links of all pairs, texts of a language model, a devtest set."""
    write(folder / "dev", ["a b c"])
    write(folder / "more", ["x y z", "w x"])
    given = '[data]\nbitext = "fe"\n[data.devtest]\nsource = "dev"\nreferences = ["more"]\n'.replace('"more"', '"dev"')
    given += '[grammar]\nalignment = "a"\n[[lm]]\ntext = ["e", "more"]\norder = 3\n[[lm]]\ntext = ["more"]\norder = 1\n'
    write(folder / "job.toml", [given])
    run(cli, folder, "prepare")
    found = inputs(folder)
    assert aligned == [] and "links.gz" not in found and "held-out.source" not in found
    # The text of the language model is not the bitext: all are tuned on.
    assert found["tuned.source"] == found["bitext.source"] == read(folder / "f")
    assert found["bitext.links"] == read(folder / "a")
    (folder / "both").write_text((folder / "e").read_text() + (folder / "more").read_text())
    for n, text, order in ((0, "both", 3), (1, "more", 1)):
        assert lm_arrays(folder, n) == estimated(folder / text, order)


def test_the_target_side_as_text_is_without_held_out_pairs(folder: Path, aligned: list[Path], cli: Cli) -> None:
    write(folder / "more", ["x y z", "w x"])
    write(folder / "job.toml", [f'{BITEXT}[[lm]]\ntext = ["e", "more"]\norder = 2\n'])
    run(cli, folder, "prepare")
    found = inputs(folder)
    write(folder / "both", [*found["bitext.target"], *read(folder / "more")])
    assert lm_arrays(folder) == estimated(folder / "both", 2)


def test_an_external_decoder_gets_the_model_as_text(folder: Path) -> None:
    write(folder / "grammar", ["[X] ||| a ||| b ||| A=1"])
    job = '[data]\nsource = "f"\nreferences = ["e"]\n[grammar]\nfile = "grammar"\n[[lm]]\ntext = ["e"]\norder = 2\n'
    write(folder / "job.toml", [f'{job}[decoder]\nbackend = "cdec"\n'])
    sources = job_inputs.sources(job_inputs.load_job(folder / "job.toml", []))
    make_inputs(sources.made)
    estimate(folder / "e", 2, folder / "expected")
    assert sources.estimated == {} and read(sources.lms[0]) == read(folder / "expected")


def test_another_bitext_is_aligned_and_has_the_text_of_the_language_model(
    folder: Path, aligned: list[Path], cli: Cli
) -> None:
    write(folder / "dev", ["a b c"])
    job = '[data]\nsource = "dev"\nreferences = ["dev"]\n[grammar]\nsource = "f"\ntarget = "e"\n[[lm]]\norder = 2\n'
    write(folder / "job.toml", [job])
    run(cli, folder, "prepare")
    assert aligned == [folder / "f"] and set(inputs(folder)) == {"links.gz", "lock"}
    assert lm_arrays(folder) == estimated(folder / "e", 2)


def test_eflomal_is_missed_before_the_work(folder: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bitext_inputs, "find_program", lambda: None)
    done = cli("prepare", folder / "job.toml")
    told = (
        "eflomal is not installed, and the job has no grammar.alignment: pip install 'mpitune[align]', or name a file"
    )
    assert done.code == 2 and done.errors.splitlines()[-1] == f"mpitune: {told} of links there"
    assert inputs(folder) == {}


def test_untokenised_text_is_warned_about(folder: Path, aligned: list[Path], cli: Cli) -> None:
    write(folder / "f", [f"{' '.join(pair[0])}." for pair in PAIRS])
    said = [
        line for line in run(cli, folder, "prepare").errors.splitlines() if "WARNING" in line and "attached" in line
    ]
    count = len(PAIRS)
    assert [line.partition(" WARNING ")[2] for line in said] == [
        f"{folder}/f: {count} of {count} punctuation marks in the first 1000 lines are attached to words: is this text "
        "tokenised?"
    ]


def test_an_untokenised_text_of_a_model_is_warned_about(folder: Path, aligned: list[Path], cli: Cli) -> None:
    write(folder / "more", 9 * ["x y, z."])
    write(folder / "job.toml", [f'{BITEXT}[[lm]]\ntext = ["e", "more"]\norder = 2\n'])
    for times in (1, 0):
        assert run(cli, folder, "prepare").errors.count(f"WARNING {folder}/more: 18 of 18 punctuation marks") == times


@pytest.mark.parametrize(
    ("count", "limit", "first", "told"),
    [
        (0, 0, "", "f: found 0 sentence pairs, expected more: some to tune on"),
        (1, 0, "a", "f: found 1 sentence pair, expected more: some to tune on"),
        (10, 1, '<seg grammar="g">a</seg>', "f:1: found a <seg> tag, expected words alone ("),
        (10, 1, "a ||| b", "f:1: found the separator |||, expected a sentence alone"),
    ],
)
def test_bitexts_that_are_refused(
    folder: Path, aligned: list[Path], cli: Cli, count: int, limit: int, first: str, told: str
) -> None:
    write(folder / "f", [first, *["a"] * (count - 1)][:count])
    write(folder / "e", ["x"] * count)
    done = cli("prepare", folder / "job.toml", "--set", f"data.limit={limit}")
    assert done.code == 3 and done.errors.splitlines()[-1].startswith(f"mpitune: {folder}/{told}")
    assert aligned == [] and set(inputs(folder)) <= {"lock"}


def test_a_stop_keeps_what_is_made(
    folder: Path, aligned: list[Path], cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGUSR1)

    with monkeypatch.context() as patch:
        patch.setattr(bitext_inputs, "estimate_arrays", stop)
        done = cli("train", folder / "job.toml")
    told = "stopped by SIGUSR1 in the preparation of the data; finished work is kept: run the same command again"
    assert done.code == 75 and f"mpitune: {told} to continue" in done.errors
    assert "links.gz" in inputs(folder) and not (folder / "runs/job/store/lm-0.npz").exists()
    run(cli, folder)
    run(cli, folder, "prepare", "--set", f"run.store={folder}/other")
    assert len(aligned) == 2 and inputs(folder) == inputs(folder, "other")
    assert lm_arrays(folder) == lm_arrays(folder, store="other")


@pytest.mark.mpi
def test_any_number_of_ranks(folder: Path) -> None:
    with open(folder / "job.toml", "a") as job:
        job.write('[grammar]\nalignment = "a"\n')
    weights = []
    for n in (1, 2):
        command = ["-m", "mpitune", "train", folder / "job.toml", "--set", f"run.dir={folder}/run{n}"]
        done = mpirun(n, command)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("no [data.devtest]: ") == 1
        assert done.stderr.count("each is left out of the model while it is learned from") == 1
        weights.append((folder / f"run{n}/weights.txt.gz").read_bytes())
    assert weights[0] == weights[1]
