"""The shard store: made once, opened without text, made anew when its inputs change."""

from __future__ import annotations

import os
import re
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.commands import Cli, Done
from support.stages import Stages

from mpitune.corpus import text
from mpitune.corpus.text import read_parallel
from mpitune.errors import DataError, UsageError
from mpitune.grammar.templates import GLUE, features, pass_through
from mpitune.store.build import build_store
from mpitune.store.inputs import StoreInputs, Texts
from mpitune.store.store import Store, open_store

ARPA = """\\data\\
ngram 1=4
ngram 2=1

\\1-grams:
-1\t<unk>
-9\t<s>\t-0.5
-1\t</s>
-1\thouse\t-0.25

\\2-grams:
-0.5\t<s> house

\\end\\
"""
FILES = {
    "train.de": "das haus\n\nhaus ;\n",
    "train.en": "the house\n\nhouse\n",
    "other.en": "a house\nnothing\nhouse house\n",
    "dev.de": "neu\n",
    "dev.en": "new\n",
    "grammar": "[X] ||| haus ||| house ||| A=1\n[X] ||| das [X,1] ||| the [1] ||| B=2 ||| 0-0 1-1\n",
    "lm": ARPA,
}
ALL = ["data.npz", "lm-0.npz"]


@pytest.fixture
def sources(tmp_path: Path) -> StoreInputs:
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    return StoreInputs(
        train=Texts(tmp_path / "train.de", (tmp_path / "train.en", tmp_path / "other.en")),
        devtest=Texts(tmp_path / "dev.de", (tmp_path / "dev.en",)),
        grammar=tmp_path / "grammar",
        templates=("id", "shape"),
        lms=(tmp_path / "lm",),
    )


made = build_store


def test_each_file_that_is_built_is_logged(
    sources: StoreInputs, tmp_path: Path, logged: pytest.LogCaptureFixture
) -> None:
    for built in (ALL, []):
        logged.clear()
        assert made(sources, tmp_path / "store") == built
        assert [line for line in logged.messages if line.endswith("building it")] == [
            f"{tmp_path / 'store' / name}: building it" for name in built
        ]


def words(store: Store, numbers: np.ndarray) -> str:
    return " ".join(store.model.words.decode(numbers))


def rules_of_grammars(store: Store) -> list[int]:
    grammars = store.model.grammars
    return [len(grammars.open(number).type) for number in range(len(grammars))]


def test_a_store_holds_all_that_training_needs(sources: StoreInputs, tmp_path: Path) -> None:
    assert made(sources, tmp_path / "store") == ALL
    for name in FILES:
        (tmp_path / name).unlink()
    store = open_store(sources, tmp_path / "store")
    assert store.train is not None and store.devtest is not None
    assert (store.train.size, store.devtest.size) == (3, 1)
    assert [words(store, store.train.sentence(i).words) for i in range(3)] == ["das haus", "", "haus ;"]
    assert [store.train.sentence(i)[::2] for i in range(3)] == [(0, 0), (1, 0), (2, 0)]
    references = [[words(store, r) for r in store.train.references(i)] for i in range(3)]
    assert references == [["the house", "a house"], ["nothing"], ["house", "house house"]]
    assert words(store, store.devtest.references(0)[0]) == "new"
    assert store.model.categories == ["S", "X"]
    assert store.model.score_names == ["A", "B"]
    assert rules_of_grammars(store) == [2]
    assert words(store, store.model.grammars.types.target[:1]) == "house"
    [(lm, vocabulary)] = store.model.lms
    assert (lm.order, vocabulary.numbers(["house", "das"]).tolist()) == (2, [3, 0])
    of_rules = ["R:X:das_NX:the_N1", "Shape_S11000_T11000"]
    expected = [*GLUE, *map(pass_through, ["das", "haus", ";", "neu"])]
    known = {*of_rules, *(name for rule in expected for name, _ in features(sources.templates, rule)), "A", "Glue"}
    assert store.model.fired([*known, "R:X:das_NX:a_N1", "RBS:<r>_das"]) == known


def test_missing_references_are_left_out_and_told_once(
    sources: StoreInputs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A store of an older version, which has them as empty ones, is built again."""
    current = Texts.settings.fget
    assert current is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "joined_references", lambda sentences, names, warn: [[*each] for each in sentences])
        former = {"references", "bitext", "limit"}
        kept = property(lambda texts: {key: value for key, value in current(texts).items() if key in former})
        patch.setattr(Texts, "settings", kept)
        made(sources, tmp_path / "store")
    assert "counted as missing" not in caplog.text
    assert made(sources, tmp_path / "store") == ALL[:1]
    train = open_store(sources, tmp_path / "store").train
    assert train is not None and [len(train.references(i)) for i in range(3)] == [2, 1, 2]
    told = f"{tmp_path}/train.en: 1 of 3 lines are empty where another reference is not: counted as missing"
    assert (
        [record.getMessage() for record in caplog.records].count(told) == caplog.text.count("counted as missing") == 1
    )


def test_nothing_is_made_twice(sources: StoreInputs, tmp_path: Path) -> None:
    made(sources, tmp_path / "store")
    assert made(sources, tmp_path / "store") == []
    for name in FILES:
        os.utime(tmp_path / name, ns=(1, 1))
    assert made(sources, tmp_path / "store") == [], "touched, with the same content"
    moved = tmp_path / "lm-moved"
    (tmp_path / "lm").rename(moved)
    assert made(replace(sources, lms=(moved,)), tmp_path / "store") == [], "the same content elsewhere"


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("train.de", ALL[:1]),
        ("train.en", ALL[:1]),
        ("other.en", ALL[:1]),
        ("dev.de", ALL[:1]),
        ("dev.en", ALL[:1]),
        ("grammar", ALL[:1]),
        ("lm", ALL[1:]),
    ],
)
def test_changed_files_make_their_parts_anew(sources: StoreInputs, tmp_path: Path, name: str, parts: list[str]) -> None:
    made(sources, tmp_path / "store")
    path = tmp_path / name
    content = path.read_text().replace("h", "k").replace("ne", "na")
    assert content != FILES[name]
    path.write_text(content)
    os.utime(path, ns=(1, 1))
    assert made(sources, tmp_path / "store") == parts
    assert made(sources, tmp_path / "store") == []


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("train.en", [ALL[0], "lm-0-own.npz"]),
        ("lm", [ALL[1], "lm-0-own.npz"]),
        ("text", ["lm-0-own.npz"]),
        ("dev.en", ALL[:1]),
    ],
)
def test_what_is_left_out_depends_on_references_model_and_text(
    sources: StoreInputs, tmp_path: Path, name: str, parts: list[str]
) -> None:
    text = tmp_path / "text"
    text.write_text("the house\nhouse\n")
    known = replace(sources, lm_texts=((text,),))
    assert made(known, tmp_path / "store") == [*ALL, "lm-0-own.npz"]
    (tmp_path / name).write_text((tmp_path / name).read_text().replace("h", "k").replace("ne", "na"))
    assert made(known, tmp_path / "store") == parts
    assert made(known, tmp_path / "store") == []


def test_changed_parameters_make_their_parts_anew(sources: StoreInputs, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    made(sources, folder)
    for templates in [("shape",), ()]:
        assert made(replace(sources, templates=templates), folder) == [], "features are not stored"
    assert sources.train is not None
    limited = replace(sources, train=replace(sources.train, limit=1))
    assert made(limited, folder) == ALL[:1]
    train = open_store(limited, folder).train
    assert train is not None and train.size == 1
    assert made(replace(sources, devtest=None), folder) == ALL[:1]
    assert open_store(replace(sources, devtest=None), folder).devtest is None
    assert made(replace(sources, train=sources.devtest, devtest=sources.train), folder) == ALL[:1]


def test_a_flipped_bit_is_found_and_mended(sources: StoreInputs, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    made(sources, folder)
    whole = {name: (folder / name).read_bytes() for name in ALL}
    drawn = np.random.default_rng(1)
    for n in range(30):
        name = ALL[n % len(ALL)]
        content = bytearray(whole[name])
        bit = int(drawn.integers(8 * len(content)))
        content[bit // 8] ^= 1 << bit % 8
        (folder / name).write_bytes(content)
        with pytest.raises(DataError, match=f"{re.escape(name)}: found a damaged or missing store"):
            open_store(sources, folder)
        assert made(sources, folder) == [name]
        assert (folder / name).read_bytes() == whole[name]


def test_parts_of_an_older_version_are_made_anew_and_newer_ones_kept(
    sources: StoreInputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("mpitune.array_files.arrays.VERSION", -1)
        made(sources, tmp_path / "store")
    assert made(sources, tmp_path / "store") == ALL
    with monkeypatch.context() as patch:
        patch.setattr("mpitune.array_files.arrays.VERSION", 9)
        (tmp_path / "store" / ALL[1]).unlink()
        made(sources, tmp_path / "store")
    newer = {name: (tmp_path / "store" / name).read_bytes() for name in ALL}
    with pytest.raises(UsageError, match=rf"{ALL[0]}: made by a newer mpitune \(version 9, "):
        made(sources, tmp_path / "store")
    assert {name: (tmp_path / "store" / name).read_bytes() for name in ALL} == newer


def test_a_failed_preparation_leaves_no_part(sources: StoreInputs, tmp_path: Path) -> None:
    (tmp_path / "grammar").write_text("[X] ||| haus\n")
    with pytest.raises(DataError, match="grammar:1: found 2 fields"):
        made(sources, tmp_path / "store")
    with pytest.raises(DataError, match="data.npz: found a damaged or missing store"):
        open_store(sources, tmp_path / "store")
    (tmp_path / "grammar").write_text(FILES["grammar"])
    with pytest.raises(UsageError, match="unknown feature template 'shapes'"):
        made(replace(sources, templates=("shapes",)), tmp_path / "store")


def test_missing_files_are_told_before_anything_is_made(sources: StoreInputs, tmp_path: Path) -> None:
    (tmp_path / "lm").unlink()
    with pytest.raises(DataError, match="lm: found no such file"):
        made(sources, tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_a_grammar_that_no_translation_can_begin_with_is_refused(sources: StoreInputs, tmp_path: Path) -> None:
    rules = (tmp_path / "grammar").read_text()
    (tmp_path / "grammar").write_text(rules.replace("[X]", "[PH]").replace("[X,", "[PH,").replace("[S]", "[PH]"))
    with pytest.raises(DataError, match=r"grammar: found only rules of \[PH\].*, expected rules of \[X\] or \[S\]"):
        made(sources, tmp_path / "store")


def test_a_grammar_of_no_rules_is_refused(sources: StoreInputs, tmp_path: Path) -> None:
    (tmp_path / "grammar").write_text("")
    with pytest.raises(DataError, match="grammar: found no rules, expected a rule a line"):
        made(sources, tmp_path / "store")
    own = tmp_path / "own"
    own.write_text('<seg grammar="grammar">das haus</seg>\n')
    made(StoreInputs(train=Texts(own)), tmp_path / "store")


def test_texts_that_the_grammar_does_not_know(
    sources: StoreInputs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sources = replace(sources, train=sources.devtest, devtest=None)
    made(sources, tmp_path / "store")
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path}/dev.de: 1 of 1 words are in no rule's source side: is this the right text?"
    ]
    caplog.clear()
    (tmp_path / "dev.de").write_text("neu haus\n")
    made(sources, tmp_path / "store")
    assert caplog.records == []


def test_untokenised_texts_are_warned_of(
    sources: StoreInputs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """So are texts with marks at a few words, which may be abbreviations, not."""
    for count in (4, 5):
        (tmp_path / "dev.de").write_text("das haus neu haus usw.\n" * count)
        made(StoreInputs(train=Texts(tmp_path / "dev.de"), grammar=tmp_path / "grammar"), tmp_path / f"store-{count}")
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path}/dev.de: 5 of 5 punctuation marks in the first 1000 lines are attached to words: is this text "
        "tokenised?"
    ]


def test_grammars_of_sentences_that_are_not_used_are_warned_of(
    sources: StoreInputs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "in").write_text('<seg grammar="grammar">das haus</seg>\n')
    for grammar in (None, tmp_path / "grammar"):
        made(StoreInputs(train=Texts(tmp_path / "in"), grammar=grammar), tmp_path / "store")
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path}/in: 1 of 1 sentences name a grammar of their own, which is not used: the job has another, or a "
        "bitext"
    ]


def test_one_empty_side_is_warned_of(sources: StoreInputs, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Two are not: they may be the same line."""
    sentences, references = tmp_path / "dev.de", tmp_path / "dev.en"
    sentences.write_text("das haus\n\n\nneu\n")
    references.write_text("the house\n\nnew\n\n")
    train = Texts(sentences, (references,))
    made(StoreInputs(train=train, grammar=tmp_path / "grammar"), tmp_path / "store")
    assert [record.getMessage() for record in caplog.records] == [
        f"{sentences}: 2 of 4 sentences are empty and their references are not, or the reverse (the first is number 3, "
        "counted from 1): do the lines belong together?"
    ]


def test_a_score_named_like_a_sparse_feature(sources: StoreInputs, tmp_path: Path) -> None:
    (tmp_path / "grammar").write_text(
        "[X] ||| haus ||| house ||| A=1\n[X] ||| haus ||| home ||| A=1 R:X:haus:house=1\n"
    )
    said = f"{tmp_path}/grammar:2: found score R:X:haus:house, expected another name: a template of this job makes"
    with pytest.raises(DataError, match=said):
        made(sources, tmp_path / "store")
    assert made(replace(sources, templates=("shape",)), tmp_path / "store") == ["lm-0.npz"]


def test_scores_that_no_weights_file_can_hold(sources: StoreInputs, tmp_path: Path) -> None:
    (tmp_path / "grammar").write_text("[X] ||| haus ||| house ||| A=1\n[X] ||| haus ||| home ||| A=1 #lex=1\n")
    said = f"{tmp_path}/grammar:2: found score name '#lex', expected one without blanks and control characters that"
    with pytest.raises(DataError, match=said):
        made(sources, tmp_path / "store")


def test_scores_named_like_built_in_features(
    sources: StoreInputs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "dev.de").write_text("haus\n")
    (tmp_path / "grammar").write_text("[X] ||| haus ||| house ||| A=1\n[X] ||| haus ||| a ||| Glue=1 PhraseModel_0=1\n")
    made(replace(sources, train=sources.devtest, devtest=None, lm_names=("A",)), tmp_path / "store")
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path}/grammar:2: score Glue has the name of a built-in feature, and is added to it",
        f"{tmp_path}/grammar:1: score A has the name of a built-in feature, and is added to it",
    ]


def test_sentences_with_grammars_of_their_own(sources: StoreInputs, tmp_path: Path) -> None:
    (tmp_path / "g1").write_text("[X] ||| haus ||| home\n")
    pairs = ['<seg grammar="g1">haus</seg> ||| a', "|||", '<seg grammar="grammar">das</seg> ||| b ||| c']
    (tmp_path / "in").write_text("\n".join([*pairs, pairs[0]]))
    (tmp_path / "dev").write_text('<seg grammar="g2">das</seg>\n')
    (tmp_path / "g2").write_text("[X] ||| haus ||| house ||| A=3\n")
    own = replace(sources, train=Texts(tmp_path / "in", bitext=True), devtest=Texts(tmp_path / "dev"), grammar=None)
    assert made(own, tmp_path / "store") == ALL
    store = open_store(own, tmp_path / "store")
    assert store.train is not None and store.devtest is not None
    assert store.train.grammar.tolist() == [0, 0, 1, 0]
    assert store.devtest.sentence(0).grammar == 2
    assert rules_of_grammars(store) == [1, 2, 1]
    assert [len(store.train.references(i)) for i in range(4)] == [1, 1, 2, 1]
    assert store.devtest.references(0) == []
    (tmp_path / "g2").write_text("[X] ||| haus ||| house ||| A=4\n")
    os.utime(tmp_path / "g2", ns=(1, 1))
    assert made(own, tmp_path / "store") == ALL[:1]
    (tmp_path / "dev").write_text("\ndas\n")
    with pytest.raises(DataError, match="dev:2: found a sentence that names no grammar"):
        made(own, tmp_path / "store")


def test_grammars_of_sentences_lie_in_the_folders_for_them(tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text2").mkdir()
    (tmp_path / "text2" / "g").write_text("[X] ||| haus ||| home\n")
    for name in ("../text2/g", str(tmp_path / "text2" / "g")):
        (tmp_path / "text" / "in").write_text(f'\n<seg grammar="{name}">haus</seg>\n')
        own = StoreInputs(train=Texts(tmp_path / "text" / "in"))
        with pytest.raises(DataError, match=r"text/in:2: found the grammar .*text2/g, expected one below .*text, or a"):
            made(own, tmp_path / "store")
        made(replace(own, grammar_folder=tmp_path), tmp_path / "store")


def test_the_same_texts_with_other_grammars_beside_them(sources: StoreInputs, tmp_path: Path) -> None:
    for folder, word in (("a", "home"), ("b", "house")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "in").write_text('<seg grammar="g">haus</seg>\n')
        (tmp_path / folder / "g").write_text(f"[X] ||| haus ||| {word}\n")
    first, second = (StoreInputs(train=Texts(tmp_path / folder / "in")) for folder in "ab")
    assert made(first, tmp_path / "store") == ["data.npz"]
    assert made(second, tmp_path / "store") == ["data.npz"]
    assert "house" in open_store(second, tmp_path / "store").model.words.words


def test_a_store_needs_no_sentences(sources: StoreInputs, tmp_path: Path) -> None:
    bare = replace(sources, train=None, devtest=None)
    assert made(bare, tmp_path / "store") == ALL
    store = open_store(bare, tmp_path / "store")
    assert (store.train, store.devtest) == (None, None)
    assert len(store.model.grammars.types.side) == 2


@pytest.mark.slow
def test_the_store_of_the_news_data(shared: Path, tmp_path: Path) -> None:
    nc = shared / "data" / "nc"
    templates = ("id", "source-bigram", "shape")
    sources = StoreInputs(Texts(nc / "nc.de.gz", (nc / "nc.en.gz",), limit=200), None, nc / "grammar.gz", templates)
    made(sources, tmp_path / "store")
    assert made(sources, tmp_path / "store") == []
    store = open_store(sources, tmp_path / "store")
    assert rules_of_grammars(store) == [72_745]
    assert store.train is not None and store.train.size == 200
    pairs = read_parallel(nc / "nc.de.gz", [nc / "nc.en.gz"], 200)
    for i in (0, 99, 199):
        assert words(store, store.train.sentence(i).words) == " ".join(pairs[i].source.words)
        assert words(store, store.train.references(i)[0]) == " ".join(pairs[i].references[0])


def test_the_news_data_with_grammars_per_sentence(shared: Path, tmp_path: Path) -> None:
    nc = shared / "data" / "nc"
    sources = StoreInputs(Texts(nc / "persent.in", (nc / "persent.refs",), limit=2), templates=("shape",))
    made(sources, tmp_path / "store")
    assert made(sources, tmp_path / "store") == []
    store = open_store(sources, tmp_path / "store")
    assert store.train is not None
    assert store.train.grammar.tolist() == [0, 1]
    assert len(store.model.grammars) == 2


STAGES = {
    "kB of grammars read": "kB of grammars read: 3/3, 3/s, 0:00 left",
    "n-grams read": "n-grams read: 5/5, 5/s, 0:00 left",
}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_each_stage_shows_its_progress_and_heeds_a_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli, sources: StoreInputs, number: signal.Signals
) -> None:
    del sources  # its files are used
    stages = Stages(monkeypatch)
    (tmp_path / "in").write_text("".join(f'<seg grammar="g{i}">haus</seg> ||| house\n' for i in range(3)))
    for i in range(3):
        (tmp_path / f"g{i}").write_text(f"[X] ||| haus ||| house ||| A=1\n[X] ||| haus ||| house{i} ||| A=1\n")
    job = tmp_path / "job.toml"
    job.write_text(
        '[data]\nbitext = "in"\n[grammar]\nper_sentence = true\n[[lm]]\nfile = "lm"\n[features]\ntemplates = ["id"]\n'
    )

    def prepare(store: str) -> Done:
        return cli("prepare", job, "--set", f"run.store={tmp_path / store}")

    done = prepare("undisturbed")
    assert done.code == 0
    assert stages.lines == STAGES
    assert "INFO kB of grammars read: 1/3" in done.errors
    for task in STAGES:
        stages.stop(task, number)
        done = prepare("stopped")
        told = f"stopped by {number.name} in the preparation of the data; finished work is kept: "
        assert done.code == 75
        assert done.errors.splitlines()[-1].startswith(f"mpitune: {told}")
    signal.signal(number, signal.SIG_DFL)
    done = prepare("stopped")
    assert done.code == 0
    # The files that were finished before the last stop are not built again.
    assert done.output == f"{tmp_path / 'stopped'}: lm-0.npz, lm-0-own.npz made\n"
    # The records of checks, whose names begin with a dot, hold times.
    files = {path.name: path.read_bytes() for path in (tmp_path / "undisturbed").glob("[!.]*")}
    assert {path.name: path.read_bytes() for path in (tmp_path / "stopped").glob("[!.]*")} == files


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_compiling_a_bitext_shows_its_progress_and_heeds_a_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli, sources: StoreInputs, number: signal.Signals
) -> None:
    del sources  # its files are used
    stages, task = Stages(monkeypatch), "kB of the bitext read"
    (tmp_path / "links").write_text("0-0 1-1\n\n0-0\n")
    job = tmp_path / "job.toml"
    job.write_text(
        '[data]\nsource = "dev.de"\nreferences = ["dev.en"]\n[[lm]]\nfile = "lm"\n'
        '[grammar]\nsource = "train.de"\ntarget = "train.en"\nalignment = "links"\n'
    )
    assert cli("prepare", job, "--set", f"run.store={tmp_path / 'undisturbed'}").code == 0
    assert stages.lines[task] == f"{task}: 3/3, 3/s, 0:00 left"
    stages.stop(task, number)
    command = ["prepare", job, "--set", f"run.store={tmp_path / 'stopped'}"]
    done = cli(*command)
    told = f"mpitune: stopped by {number.name} in the preparation of the bitext; finished work is kept: "
    assert done.code == 75
    assert done.errors.splitlines()[-1].startswith(told)
    signal.signal(number, signal.SIG_DFL)
    assert cli(*command).code == 0
    for path in (tmp_path / "undisturbed").glob("*.npz"):
        assert (tmp_path / "stopped" / path.name).read_bytes() == path.read_bytes()
