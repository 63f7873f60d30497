"""Lists compiled into a store: warnings."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpitune.array_files.arrays import open_arrays, write_arrays
from mpitune.corpus.vocabulary import Names
from mpitune.store.build import build_store
from mpitune.store.compile_lists import compile_lists
from mpitune.store.inputs import StoreInputs, Texts
from mpitune.store.structure import check_lists


def test_features_of_another_scale_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for value in (900, 1100):
        entries = [f"0 ||| {n} ||| lm=-1 tm=1 length={value}" for n in range(3)]
        (tmp_path / "lists").write_text("".join(f"{entry}\n" for entry in entries))
        (tmp_path / "references").write_text("a\n")
        texts = Texts(None, (tmp_path / "references",), lists=(tmp_path / "lists",))
        caplog.clear()
        compile_lists(StoreInputs(train=texts), tmp_path)
        assert ("values of length are 1100 times as large as those of other features" in caplog.text) == (value > 1000)


def test_words_are_tokenised_once(tmp_path: Path) -> None:
    """Of hypotheses, which may become equal, and references; templates fire on the words of the lists."""
    (tmp_path / "lists").write_text("0 ||| a house, old. ||| lm=1\n0 ||| a house , old . ||| lm=2\n0 ||| b ||| lm=3\n")
    (tmp_path / "references").write_text("the house, (old).\n")
    texts = Texts(None, (tmp_path / "references",), lists=(tmp_path / "lists",))
    sources = StoreInputs(train=texts, templates=("text-length",), tokenize="13a")
    assert build_store(sources, tmp_path / "store") == ["data.npz"]
    arrays = open_arrays(tmp_path / "store" / "data.npz")
    words = Names.stored(arrays, "words").all()
    assert [words[word] for word in arrays["lists.word"].tolist()] == ["a", "house", ",", "old", ".", "b"]
    assert [words[word] for word in arrays["train.reference"].tolist()] == [*("the", "house", ","), *"(", "old", *")."]
    assert arrays["lists.entry_ptr"].tolist() == [0, 2]
    # Of the first hypothesis, as the lists have it: lm and three words.
    assert arrays["lists.value"][:2].tolist() == [1.0, 3.0]
    # Built again for other tokens, not for the same ones.
    assert build_store(sources, tmp_path / "store") == []
    assert build_store(replace(sources, tokenize="none"), tmp_path / "store") == ["data.npz"]


def compiled_line(folder: Path, line: str) -> None:
    (folder / "lists").write_text(f"{line}\n")
    (folder / "references").write_text("a\n")
    texts = Texts(None, (folder / "references",), lists=(folder / "lists",))
    compile_lists(StoreInputs(train=texts), folder)


def test_a_feature_is_large_beside_the_median_of_the_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    random = np.random.default_rng(1)
    for _ in range(60):
        sizes = random.choice([0.0, 1e-3, 1.0, 1.5, 999.0, 1001.0, 2e3, 1e6], random.integers(1, 7)).tolist()
        large = [f"f{n}" for n, size in enumerate(sizes) if size > 1000 * median(sizes[:n] + sizes[n + 1 :]) > 0]
        caplog.clear()
        compiled_line(tmp_path, f"0 ||| a ||| {' '.join(f'f{n}={size}' for n, size in enumerate(sizes))}")
        assert re.findall(r"values of (\w+) are", caplog.text) == large


def median(values: list[float]) -> float:
    return float(np.median(values)) if values else 0.0


def test_however_many_features_one_median_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken, calls = np.median, list[int]()

    def counting(values: list[float]) -> Any:
        calls.append(len(values))
        return taken(values)

    monkeypatch.setattr(np, "median", counting)
    compiled_line(tmp_path, f"0 ||| a ||| {' '.join(f'f{n}={n + 1}' for n in range(50))}")
    assert calls == [49]


WORDS = ["the", "house", "is", "small", "and", "old", "but", "it", "has", "a", "garden", "with", "trees"]


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (lambda words: words, ""),
        (lambda words: [words[0].capitalize(), *words[1:]], ""),
        (
            lambda words: [part for word in words for part in (f"{word[0]}@@", word[1:] or "s")],
            'have marks of parts of words, @@, and references have none: set data.join = "bpe"',
        ),
        (
            lambda words: [f"\u2581{word}" for word in words],
            'have marks of parts of words, \u2581, and references have none: set data.join = "spm"',
        ),
        (
            lambda words: [word.upper() for word in words],
            " 0 of 160 pairs of adjacent words in first hypotheses are in",
        ),
        (lambda words: words[:2], ""),
    ],
    ids=["alike", "first letters", "parts of words", "sentencepiece", "case", "too few to tell"],
)
def test_hypotheses_of_other_words_than_references(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, written: Callable[[list[str]], list[str]], told: str
) -> None:
    random = np.random.default_rng(2)
    sentences = [[*map(str, random.choice(WORDS, 9))] for _ in range(20)]
    entries = [f"{i} ||| {' '.join(written(words))} ||| lm=-1" for i, words in enumerate(sentences)]
    (tmp_path / "lists").write_text("".join(f"{entry}\n" for entry in entries))
    (tmp_path / "references").write_text("".join(f"{' '.join(words)}\n" for words in sentences))
    texts = Texts(None, (tmp_path / "references",), lists=(tmp_path / "lists",))
    compile_lists(StoreInputs(train=texts), tmp_path)
    assert [told in message for message in caplog.messages if "hypotheses" in message] == [True] * bool(told)


def test_missing_references_of_lists_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name, content in {"lists": "0 ||| a ||| lm=1\n1 ||| b ||| lm=1\n", "few": "\nb\n", "all": "a\nc\n"}.items():
        (tmp_path / name).write_text(content)
    texts = Texts(None, (tmp_path / "few", tmp_path / "all"), lists=(tmp_path / "lists",))
    arrays = compile_lists(StoreInputs(train=texts), tmp_path)
    assert np.asarray(arrays["train.first_reference"]).tolist() == [0, 1, 3]
    assert f"{tmp_path}/few: 1 of 2 lines are empty where another reference is not: counted as missing" in caplog.text


def test_compiled_lists_depend_on_metric_templates_lexicon_and_files(tmp_path: Path) -> None:
    def made(changed: str) -> list[str]:
        return build_store(changed_to[changed], tmp_path / "store")

    entries = [{"id": 0, "text": text, "features": {"lm": -1}, "metrics": {"a": 1, "b": 2}} for text in ("x", "y z")]
    (tmp_path / "lists").write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    (tmp_path / "references").write_text("x\n")
    (tmp_path / "lexicon").write_text("q x\n")
    (tmp_path / "source").write_text("q\n")
    texts = Texts(tmp_path / "source", (tmp_path / "references",), lists=(tmp_path / "lists",))
    first = StoreInputs(train=texts, metrics=("a",), templates=("target-bigram",))
    with_lexicon = replace(first, templates=("lexicon-pair",), lexicon=tmp_path / "lexicon")
    changed_to = {
        "nothing": first,
        "metric": replace(first, metrics=("b",)),
        "templates": replace(first, templates=()),
        "lexicon": with_lexicon,
    }
    for changed in ("nothing", "metric", "templates", "lexicon"):
        assert made(changed) == ["data.npz"], changed
        assert made(changed) == [], changed
    (tmp_path / "lexicon").write_text("q y\n")
    assert made("lexicon") == ["data.npz"], "another lexicon"


@pytest.fixture
def compiled(tmp_path: Path) -> dict[str, np.ndarray]:
    (tmp_path / "lists").write_text("0 ||| a b ||| lm=-1 x=1\n0 ||| c ||| lm=-2\n1 ||| a ||| lm=-3\n")
    (tmp_path / "references").write_text("a\nb\n")
    texts = Texts(None, (tmp_path / "references",), lists=(tmp_path / "lists",))
    write_arrays(tmp_path / "data.npz", compile_lists(StoreInputs(train=texts), tmp_path), {})
    return open_arrays(tmp_path / "data.npz")


def test_lists_that_are_built_pass_their_check(compiled: dict[str, np.ndarray]) -> None:
    check_lists(compiled)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lists.entry_ptr", 9),
        ("lists.word_ptr", 9),
        ("lists.word", 9),
        ("lists.word", -1),
        ("lists.feature_ptr", 9),
        ("lists.feature", 2),
        ("lists.dense", 3),
        ("train.grammar", 2),
    ],
)
def test_numbers_that_point_outside_are_refused(compiled: dict[str, np.ndarray], name: str, value: int) -> None:
    compiled[name][-1] = value
    with pytest.raises(ValueError, match="expected "):
        check_lists(compiled)
