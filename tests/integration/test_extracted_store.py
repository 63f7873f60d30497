"""A job whose grammars are extracted from a bitext, straight into the store."""

from __future__ import annotations

import gzip
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.mpi import mpirun
from support.naive_extract import random_pairs
from support.tiny import write_data

from mpitune.api.opened import OpenedDecoder
from mpitune.array_files.arrays import open_arrays, write_arrays
from mpitune.array_files.disk_array import DiskArray
from mpitune.cli import decode as decode_command
from mpitune.cli.parser import main
from mpitune.errors import MachineError
from mpitune.extraction import extractor, sentences
from mpitune.extraction.rule_arrays import TablePart
from mpitune.grammar.templates import as_symbols
from mpitune.store.compile_data import ExtractedParts
from mpitune.store.extract_grammars import GrammarExtractor
from mpitune.store.store import open_store
from mpitune.training import job_inputs

PAIRS = [pair for seed in (3, 8, 9, 11) for pair in random_pairs(seed) if pair[0] and pair[1]]
JOB = """
[data]
source = "f"
references = ["e"]
[data.devtest]
source = "dev"
references = ["dev.e"]
[[lm]]
file = "lm.arpa"
[learner]
preset = "simianer2012"
epochs = 1
[parallel]
shards = 2
[grammar]
"""
EXTRACTED = 'source = "f"\ntarget = "e"\nalignment = "a"\nleave_one_out = true\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A bitext to tune on, which the grammars come from as well, and its job."""
    write_data(tmp_path)
    texts = {
        "f": [" ".join(pair[0]) for pair in PAIRS],
        "e": [" ".join(pair[1]) for pair in PAIRS],
        "a": [" ".join(f"{i}-{j}" for i, j in pair[2]) for pair in PAIRS],
        "b": [" ".join(f"{i}-{j}" for i, j in pair[2][1:]) for pair in PAIRS],
        "dev": ["a b c d", "zzz f e a"],
        "dev.e": ["u v w x", "zzz z y u"],
    }
    for name, lines in texts.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "job.toml").write_text(JOB + EXTRACTED)
    return tmp_path


def grammars(job_file: Path, *overrides: str) -> list[set[tuple[object, ...]]]:
    """The rules of each sentence of the job's store, devtest last, with all that a decoder sees of them."""
    job = job_inputs.load_job(job_file, list(overrides))
    store = open_store(job_inputs.sources(job), job.run.store)
    types, words, found = store.model.grammars.types, store.model.words.words, []
    assert store.train is not None and store.devtest is not None
    for corpus in (store.train, store.devtest):
        for i in range(corpus.size):
            rules = store.model.grammars.open(corpus.sentence(i).grammar)
            of_sentence: set[tuple[object, ...]] = set()
            for t, number in zip(rules.type.tolist(), rules.score_row.tolist(), strict=True):
                rule = as_symbols(types, t, store.model.categories, words)
                row = slice(rules.score_ptr[number], rules.score_ptr[number + 1])
                names = [store.model.score_names[k] for k in rules.score_index[row].tolist()]
                values = [f"{value:.9g}" for value in rules.score_value[row].tolist()]
                of_sentence.add((str(rule), *rule.links, *sorted(zip(names, values, strict=True))))
            assert len(of_sentence) == len(rules.type)
            found.append(of_sentence)
    return found


@pytest.mark.parametrize("alignments", [["a"], ["a", "b"]])
def test_the_rules_are_those_of_the_grammar_files(folder: Path, alignments: list[str]) -> None:
    (folder / "job.toml").write_text(JOB + EXTRACTED.replace('"a"', json.dumps(alignments)))
    files = [f"{folder}/{name}" for name in alignments]
    options = ["--source", f"{folder}/f", "--target", f"{folder}/e", "--alignment", *files]
    for name, more in (("f", ["--leave-one-out"]), ("dev", [])):
        assert main(["extract", *options, "--input", f"{folder}/{name}", "--output", f"{folder}/{name}.d", *more]) == 0
    # input.sgm has references where its input has some: here it has none.
    other = JOB.replace('"f"', '"f.d/input.sgm"').replace('"dev"', '"dev.d/input.sgm"')
    (folder / "files.toml").write_text(f"{other}per_sentence = true\n")
    assert main(["prepare", f"{folder}/job.toml"]) == 0
    assert main(["prepare", f"{folder}/files.toml"]) == 0
    extracted = grammars(folder / "job.toml")
    assert extracted == grammars(folder / "files.toml")
    assert len(extracted) == len(PAIRS) + 2 and sum(map(len, extracted)) > 300


def test_own_pairs_are_found_where_nothing_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = grammars_prepared(folder, EXTRACTED)
    job = EXTRACTED.replace("leave_one_out = true", "")
    found = grammars_prepared(folder, job)
    assert found == said and f"/f: {len(PAIRS)} of {len(PAIRS)} sentences are pairs of" in capsys.readouterr().err
    # In another order, and with other sentences among them.
    turned = [*PAIRS[::-1], (["a"], ["zzz"], [])]
    for name, side in (("f2", 0), ("e2", 1)):
        (folder / name).write_text("".join(f"{' '.join(pair[side])}\n" for pair in turned))
    moved = grammars_prepared(folder, job, 'data.source="f2"', 'data.references=["e2"]')
    assert moved[: len(PAIRS)] == said[: len(PAIRS)][::-1]
    # The last one and the devtest set have the rules of all pairs.
    whole = grammars_prepared(folder, job, 'data.source="f2"', 'data.references=["e2"]', "grammar.leave_one_out=false")
    assert whole[len(PAIRS) :] == moved[len(PAIRS) :]
    assert whole[: len(PAIRS)] != moved[: len(PAIRS)]


def grammars_prepared(folder: Path, of_grammar: str, *overrides: str) -> list[set[tuple[object, ...]]]:
    """`grammars` of a job with the grammar keys ``of_grammar``, in a store of its own."""
    (folder / "own.toml").write_text(JOB + of_grammar)
    more = [*overrides, f"run.store={folder}/store{len(list(folder.iterdir()))}"]
    assert main(["prepare", f"{folder}/own.toml", *(word for one in more for word in ("--set", one))]) == 0
    return grammars(folder / "own.toml", *more)


def test_a_limit_of_translations_needs_no_other_store_and_is_that_of_the_files(folder: Path) -> None:
    limit = "grammar.max_translations=1"
    assert main(["prepare", f"{folder}/job.toml"]) == 0
    before = grammars(folder / "job.toml")
    stamp = (folder / "runs/job/store/data.npz").stat().st_mtime_ns
    assert main(["prepare", f"{folder}/job.toml", "--set", limit]) == 0
    assert (folder / "runs/job/store/data.npz").stat().st_mtime_ns == stamp
    limited = grammars(folder / "job.toml", limit)
    for rules, all_rules in zip(limited, before, strict=True):
        sides = [str(rule[0]).split(" ||| ")[1] for rule in rules]
        assert rules <= all_rules and len(set(sides)) == len(sides)
        assert set(sides) == {str(rule[0]).split(" ||| ")[1] for rule in all_rules}
    assert sum(map(len, limited)) < sum(map(len, before))
    files = ["--source", f"{folder}/f", "--target", f"{folder}/e", "--alignment", f"{folder}/a"]
    output = ["--input", f"{folder}/dev", "--output", f"{folder}/dev.d", "--max-translations", "1"]
    assert main(["extract", *files, *output]) == 0
    lines = [gzip.decompress((folder / f"dev.d/grammar.{i}.gz").read_bytes()).count(b"\n") for i in range(2)]
    assert lines == [len(rules) for rules in limited[-2:]]


def test_a_store_that_is_up_to_date_is_only_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["prepare", f"{folder}/job.toml"]) == 0
    for module in ("array_files.cache", "store.extract_grammars"):
        monkeypatch.setattr(f"mpitune.{module}.locked", lambda *_: pytest.fail("locked to be written"))
    assert main(["prepare", f"{folder}/job.toml"]) == 0


def test_another_alignment_makes_another_store(folder: Path) -> None:
    both = 'grammar.alignment=["a", "b"]'
    job = f"{folder}/job.toml"
    assert main(["train", job]) == 0
    first = grammars(folder / "job.toml")
    assert main(["train", job, "--set", both, "--set", "learner.epochs=2"]) == 2
    assert main(["train", job, "--set", both, "--resume", "never"]) == 0
    joined = grammars(folder / "job.toml", both)
    assert joined != first and sum(map(len, joined)) > sum(map(len, first))


@pytest.mark.mpi
def test_the_store_does_not_tell_how_many_ranks_there_were(folder: Path) -> None:
    command = ["-m", "mpitune", "train", folder / "job.toml", "--set"]
    for n in (1, 3):
        run = mpirun(n, [*command, f"run.dir={folder}/run{n}"])
        assert run.returncode == 0, run.stderr
    one, three = (open_arrays(folder / f"run{n}/store/data.npz") for n in (1, 3))
    assert one.keys() == three.keys() and all((one[name] == three[name]).all() for name in one)
    assert (folder / "run1/weights.txt.gz").read_bytes() == (folder / "run3/weights.txt.gz").read_bytes()
    assert sorted(path.name for path in (folder / "run3/store").glob("[!.]*")) == sorted(
        ["bitext.npz", "data.npz", "lm-0.npz", "lock", "parts"]
    )
    assert len((folder / "run3/metrics.jsonl").read_text().splitlines()) == 1


@pytest.mark.mpi
def test_several_ranks_prepare_what_training_then_opens(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job, store = str(folder / "job.toml"), folder / "prepared"
    run = mpirun(3, ["-m", "mpitune", "prepare", job, "--set", f"run.store={store}"])
    assert run.returncode == 0, run.stderr
    assert not (folder / "runs/job/weights.txt.gz").exists()
    assert main(["train", job]) == 0
    assert (store / "data.npz").read_bytes() == (folder / "runs/job/store/data.npz").read_bytes()
    capsys.readouterr()
    assert main(["train", job, "--set", f"run.store={store}", "--set", f"run.dir={folder}/other"]) == 0
    assert "building it" not in capsys.readouterr().err


def test_the_store_does_not_tell_how_much_a_rank_held_in_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = str(folder / "job.toml")
    assert main(["prepare", job, "--set", f"run.store={folder}/at-once"]) == 0
    monkeypatch.setattr(extractor, "TABLE", 1)
    assert main(["prepare", job, "--set", f"run.store={folder}/bit-by-bit"]) == 0
    assert (folder / "at-once/data.npz").read_bytes() == (folder / "bit-by-bit/data.npz").read_bytes()


ITEMS = 6
"""Number of different words of the bitext, each of which is an item where items are small."""


@pytest.fixture
def worked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[range]]]:
    """Small items, and a function: it says which were worked at since its last call, and does harm at a later one."""
    for name in ("ITEMS", "SMALLEST_ITEM", "LARGEST_ITEM"):
        monkeypatch.setattr(sentences, name, 1)
    part, items, harms = GrammarExtractor.part, list[range](), dict[int, Callable[[], None]]()

    def watched(self: GrammarExtractor, item: range) -> TablePart:
        if self.words_of(item) > 3:  # the kernels are warmed up by fewer
            items.append(item)
            harms.get(len(items), lambda: None)()
        return part(self, item)

    def since(at: int = 0, harm: Callable[[], None] = lambda: None) -> list[range]:
        done = items.copy()
        items.clear()
        harms.clear()
        harms[at] = harm
        return done

    monkeypatch.setattr(GrammarExtractor, "part", watched)
    yield since


def stop() -> None:
    os.kill(os.getpid(), signal.SIGUSR1)


def fail() -> None:
    raise MachineError("the disk is full")


def test_a_stopped_extraction_goes_on(
    folder: Path, worked: Callable[..., list[range]], capsys: pytest.CaptureFixture[str]
) -> None:
    job, parts = str(folder / "job.toml"), folder / "runs/job/store/parts"
    assert main(["prepare", job, "--set", f"run.store={folder}/unbroken"]) == 0
    items = worked(2, stop)
    assert len(items) == ITEMS
    assert main(["train", job, "--quiet"]) == 75
    said = capsys.readouterr().err
    assert "stopped by SIGUSR1 in the extraction of grammars; finished work is kept" in said
    # The item at work is finished; what was extracted is kept where the process fails, too.
    assert worked(3, fail) == items[:2] and not (parts.parent / "data.npz").exists()
    assert main(["train", job, "--quiet"]) == 4
    assert worked() == items[2:5]
    files = sorted(parts.glob("part-*.npz"))
    assert files == [ExtractedParts(parts).file(item) for item in items[:4]]
    # A part that was damaged is extracted again; the others are not.
    files[1].write_bytes(files[1].read_bytes()[:100])
    assert main(["train", job, "--quiet"]) == 0
    assert worked() == [items[1], *items[4:]]
    assert (parts.parent / "data.npz").read_bytes() == (folder / "unbroken/data.npz").read_bytes()
    assert [path.name for path in parts.iterdir()] == ["lock"]
    # The next run removes what one that was killed at the very end has left.
    write_arrays(files[0], {}, {})
    assert main(["prepare", job]) == 0
    assert [path.name for path in parts.iterdir()] == ["lock"]


def test_what_was_extracted_from_something_else_is_not_kept(folder: Path, worked: Callable[..., list[range]]) -> None:
    job, parts = str(folder / "job.toml"), folder / "runs/job/store/parts"
    worked(2, stop)
    assert main(["train", job, "--quiet"]) == 75
    first = worked()[0]
    # Nor what does not say what it comes from, nor what are the rules of other words.
    write_arrays(ExtractedParts(parts).file(range(1000, 1001)), {}, {})
    assert ExtractedParts(parts).file(first).exists()
    given = ["--set", "grammar.leave_one_out=false"]
    assert main(["prepare", job, *given]) == 0
    assert len(worked()) == ITEMS
    assert main(["prepare", job, *given, "--set", f"run.store={folder}/other"]) == 0
    assert (folder / "runs/job/store/data.npz").read_bytes() == (folder / "other/data.npz").read_bytes()
    assert [path.name for path in parts.iterdir()] == ["lock"]


def test_parts_of_other_items_are_not_kept(
    folder: Path, worked: Callable[..., list[range]], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = str(folder / "job.toml")
    worked(2, stop)
    assert main(["train", job, "--quiet"]) == 75
    for name in ("SMALLEST_ITEM", "LARGEST_ITEM"):
        monkeypatch.setattr(sentences, name, 1 << 20)
    worked()
    assert main(["prepare", job]) == 0
    (item,) = worked()
    assert len(item) >= ITEMS
    assert main(["prepare", job, "--set", f"run.store={folder}/unbroken"]) == 0
    assert (folder / "runs/job/store/data.npz").read_bytes() == (folder / "unbroken/data.npz").read_bytes()


@pytest.mark.mpi
def test_all_ranks_go_on_with_a_stopped_extraction(folder: Path, worked: Callable[..., list[range]]) -> None:
    job, small = (
        folder / "job.toml",
        "from mpitune.extraction import sentences as s; s.SMALLEST_ITEM = s.LARGEST_ITEM = 1",
    )
    worked(2, stop)
    assert main(["train", str(job), "--quiet"]) == 75
    worked()
    program = f"import sys; from mpitune.cli.parser import main; {small}; sys.exit(main())"
    run = mpirun(3, ["-c", program, "train", job])
    assert run.returncode == 0, run.stderr
    assert main(["prepare", str(job), "--set", f"run.store={folder}/unbroken"]) == 0
    assert (folder / "runs/job/store/data.npz").read_bytes() == (folder / "unbroken/data.npz").read_bytes()


def test_a_merge_that_breaks_off_leaves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise MachineError("the disk is full")

    job, store = str(folder / "job.toml"), folder / "runs/job/store"
    with monkeypatch.context() as patch:
        patch.setattr(DiskArray, "append", full)
        assert main(["prepare", job]) == 4
    assert "the disk is full" in capsys.readouterr().err
    assert {path.name for path in store.glob("[!.]*")} == {"bitext.npz", "lock", "parts"}
    assert main(["prepare", job]) == 0
    assert [path.name for path in (store / "parts").iterdir()] == ["lock"]
    assert sum(map(len, grammars(folder / "job.toml"))) > 300


def test_what_is_fresh_is_not_made_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = str(folder / "job.toml")
    assert main(["prepare", job]) == 0
    assert "bitext.npz: building it" in capsys.readouterr().err
    assert main(["prepare", job]) == 0
    assert "making" not in capsys.readouterr().err
    assert main(["prepare", job, "--set", "grammar.leave_one_out=false"]) == 0
    said = capsys.readouterr().err
    assert "data.npz: stale" in said and "bitext.npz" not in said
    links = (folder / "a").read_text().splitlines()
    (folder / "a").write_text("\n".join(["", *links[1:]]) + "\n")
    assert main(["prepare", job, "--set", "grammar.leave_one_out=false"]) == 0
    said = capsys.readouterr().err
    assert "data.npz: stale" in said and "bitext.npz: stale" in said


def test_decode_extracts_for_its_input(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = str(folder / "job.toml")
    assert main(["train", job, "--quiet"]) == 0
    capsys.readouterr()
    assert main(["decode", job, "--input", f"{folder}/f", "--nbest", "3", "--format", "cdec"]) == 0
    out, said = capsys.readouterr()
    assert len({line.split(" ||| ")[0] for line in out.splitlines()}) == len(PAIRS)
    # Nothing is left out here, and the compiled bitext and language model are used again.
    assert "bitext.npz" not in said and "lm-0.npz" not in said
    assert not (folder / "runs/job/store/decode/lm-0.npz").exists()
    metrics = json.loads((folder / "runs/job/metrics.jsonl").read_text())
    assert metrics["sentences"] == len(PAIRS)


def test_two_decode_at_a_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second text that is decoded while the first one is: neither sees the other's."""
    job = str(folder / "job.toml")
    assert main(["train", job, "--quiet"]) == 0

    def decode(text: str) -> bytes:
        assert main(["decode", job, "--input", f"{folder}/{text}", "--output", f"{folder}/{text}.out"]) == 0
        return (folder / f"{text}.out").read_bytes()

    alone = [decode(text) for text in ("dev", "f")]
    opened = decode_command.opened_decoder

    @contextmanager
    def and_another(*given: Any) -> Iterator[OpenedDecoder]:
        with opened(*given) as first:
            monkeypatch.undo()
            (folder / "f.out").unlink()
            assert decode("f") == alone[1]
            yield first

    monkeypatch.setattr(decode_command, "opened_decoder", and_another)
    assert decode("dev") == alone[0] and decode_command.opened_decoder is opened
    assert not list(folder.glob("runs/job/store/decode-*"))


@pytest.mark.parametrize(
    ("grammar", "code", "told"),
    [
        ('source = "f"\n', 2, "grammar.source: expected grammar.target beside it"),
        ('file = "grammar"\nleave_one_out = true\n', 2, "found leave_one_out, expected source beside it"),
        (EXTRACTED + 'file = "grammar"\n', 2, "found grammar.file and grammar.source, expected one of"),
        (EXTRACTED + '[decoder]\nbackend = "cdec"\n', 2, "cdec needs grammar files: write them by `mpitune extract`"),
        (EXTRACTED + "[data]", 3, "dev:1: found another sentence, expected that of "),
        (EXTRACTED.replace('"a"', '"nowhere"'), 3, "nowhere: found no such file or directory"),
    ],
)
def test_bad_jobs_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], grammar: str, code: int, told: str
) -> None:
    other = ("data.source=dev", 'data.references=["dev.e"]') if grammar.endswith("[data]") else ()
    (folder / "job.toml").write_text(JOB + grammar.removesuffix("[data]"))
    assert main(["prepare", f"{folder}/job.toml", *(text for one in other for text in ("--set", one))]) == code
    assert told in capsys.readouterr().err
    assert not list(folder.glob("runs/job/store/parts/part-*"))


@pytest.mark.mpi
def test_bad_text_is_told_once_and_first(folder: Path) -> None:
    run = mpirun(2, ["-m", "mpitune", "train", folder / "job.toml", "--set", "data.devtest.source=nope"])
    assert run.returncode == 3
    assert run.stderr.count("nope: found no such file") == 1 and "building it" not in run.stderr
