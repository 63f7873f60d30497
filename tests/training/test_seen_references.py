"""Language models that have seen the references that are tuned on leave them out; else they are warned of."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from support.naive_lm import NaiveLm

from mpitune.exchange.comm import SerialComm
from mpitune.lm.arpa import read_arpa
from mpitune.lm.kneser_ney import estimate
from mpitune.lm.ngram_table import language_model
from mpitune.lm.seen_text import known_ngrams
from mpitune.training.job_inputs import load_job, sources
from mpitune.training.open_run import open_run
from mpitune.training.session import TrainingRun

JOB = """[data]
source = "source"
references = ["first", "second"]
[grammar]
file = "grammar"
[[lm]]
file = "lm"
[learner]
algorithm = "sgd"
"""


def sentences(seed: int, number: int) -> list[str]:
    """Sentences of 30 words: nearly all bigrams of one such text are in another, few trigrams are."""
    draw = random.Random(seed)
    return [" ".join(f"w{draw.randrange(30)}" for _ in range(8)) for _ in range(number)]


def lm_of(folder: Path, text: list[str], order: int) -> Path:
    (folder / "text").write_text("".join(f"{line}\n" for line in text))
    estimate(folder / "text", order, folder / "lm")
    return folder / "lm"


def opened(folder: Path, first: list[str], second: list[str], *overrides: str) -> TrainingRun:
    """A run on sentences with these references, with the language model in ``folder``."""
    files = {"first": first, "second": second, "source": ["a"] * len(first), "grammar": ["[X] ||| a ||| w1 ||| C=1"]}
    for name, lines in files.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    (folder / "job.toml").write_text(JOB)
    return open_run(load_job(folder / "job.toml", list(overrides)), SerialComm())


def said(caplog: pytest.LogCaptureFixture, what: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if what in record.getMessage()]


@pytest.mark.parametrize(
    ("order", "seen", "others", "tuned", "warned"),
    [
        (3, 1.0, 1000, 120, True),
        (4, 1.0, 1000, 120, True),
        (3, 0.98, 200, 120, True),
        (3, 0.5, 1000, 120, False),
        (3, 0.0, 1000, 120, False),
        (2, 1.0, 1000, 120, False),
        (3, 1.0, 1000, 40, False),
    ],
)
def test_nearly_all_ngrams_of_enough_references(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, order: int, seen: float, others: int, tuned: int, warned: bool
) -> None:
    """``seen``: the part of all references, two for a sentence, that the model of ``order`` has seen, with others."""
    first, second = sentences(1, tuned), sentences(2, tuned)
    references = [*first, *second]
    lm_of(tmp_path, references[: round(seen * len(references))] + sentences(3, others), order)
    opened(tmp_path, first, second)
    found = said(caplog, "references in [data]")
    assert len(found) == warned
    if warned and seen == 1.0:
        expected = f"{tmp_path}/lm: has 100.0 % of the {order}-grams of the references in [data], expected less than"
        assert found[0].startswith(expected)
        assert "name the texts that it was estimated from in lm.0.text" in found[0]
    assert not said(caplog, "is left out of the model")


def test_a_model_of_other_words_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    references = sentences(1, 20)
    lm_of(tmp_path, [line.upper() for line in references], 3)
    opened(tmp_path, references, references)
    told = f"{tmp_path}/lm: 320 of 320 words of the references in [data] are unknown to it: is it a model of such text"
    assert len(said(caplog, told)) == 1


FILE_AND_TEXT = 'lm.0.text=["text"]'
TEXT_ALONE = ('lm=[{text=["text"], order=3}]',)


@pytest.mark.parametrize(
    ("others", "overrides", "leaves_out"),
    [
        (0, (), True),
        (1000, (FILE_AND_TEXT,), True),
        (1000, TEXT_ALONE, True),
        (1000, ('lm.0.text=["text"]', "learner.lm_leave_one_out=false"), False),
    ],
)
def test_models_of_known_texts_leave_references_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, others: int, overrides: tuple[str, ...], leaves_out: bool
) -> None:
    """The text is named, or it is that of the references alone, which the model tells by its n-grams."""
    caplog.set_level("INFO")
    first, second = sentences(1, 120), sentences(2, 120)
    lm_of(tmp_path, [*first, *second, *sentences(3, others)], 3)
    run = opened(tmp_path, first, second, *overrides)
    assert len(said(caplog, "its text has 240 of the 240 references")) == leaves_out
    assert len(said(caplog, "set learner.lm_leave_one_out = true")) == (not leaves_out)
    sentence = run.store.tuned_sentence(5)
    assert ("lm.0.text" in run.identity) == bool(sentence.left_out) == leaves_out
    assert not run.corpus.sentence(5).left_out
    if leaves_out:
        [left] = sentence.left_out
        assert 10 < np.isneginf(left.prob).sum() < len(left.node) == len(set(left.node.tolist())) < 2 * (9 + 9 + 8)


def test_texts_that_a_model_may_be_of(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(JOB.replace('file = "grammar"', 'source = "f"\ntarget = "e"'))
    references = tmp_path / "first", tmp_path / "second"
    found = sources(load_job(tmp_path / "job.toml", [])).likely_texts
    assert found == (references, (tmp_path / "e",), (*references, tmp_path / "e"))


def test_a_part_of_the_texts_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, second, others = sentences(1, 120), sentences(2, 120), sentences(3, 1000)
    lm_of(tmp_path, [*first, *second, *others], 3)
    for n, text in enumerate(([*first, *second, *others], [*first, *second])):
        (tmp_path / "text").write_text("".join(f"{line}\n" for line in text))
        opened(tmp_path, first, second, FILE_AND_TEXT)
        assert len(said(caplog, "% of its n-grams, expected 99 % or more: name all its texts")) == n


def test_a_text_without_references_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    lm_of(tmp_path, sentences(3, 1000), 3)
    opened(tmp_path, sentences(1, 120), sentences(2, 120), FILE_AND_TEXT)
    assert len(said(caplog, "/lm: its text has 0 of the 240 references: none has to be left out")) == 1


def test_without_a_text_no_references_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    lm_of(tmp_path, sentences(3, 1000), 3)
    opened(tmp_path, sentences(1, 120), sentences(2, 120))
    assert said(caplog, "reference") == [f"{tmp_path / 'lm'}: no reference is left out of it"]


@pytest.mark.parametrize(
    ("devtest", "text", "warned"),
    [("source", "a" * 9, 9), ("copy", "a" * 9, 9), ("half", "aaaaabbbb", 5), ("less", "aaaabbbbb", 0)],
)
def test_a_devtest_set_that_is_tuned_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, devtest: str, text: str, warned: int
) -> None:
    """The file itself or its content; ``text``: its sentences, of one word each."""
    lm_of(tmp_path, sentences(3, 100), 3)
    (tmp_path / devtest).write_text("".join(f"{word}\n" for word in text))
    keys = f'data.devtest={{source="../{tmp_path.name}/{devtest}", references=["first"]}}'
    opened(tmp_path, sentences(1, 9), sentences(2, 9), keys)
    found = said(caplog, f"/{devtest}: {warned} of 9 sentences are tuned on, expected another devtest set")
    assert len(found) == bool(warned) == len(said(caplog, "are tuned on"))


def test_a_named_text_that_is_not_there(tmp_path: Path) -> None:
    lm_of(tmp_path, sentences(1, 120), 3)
    with pytest.raises(Exception, match="absent: found no such file or directory"):
        opened(tmp_path, sentences(1, 120), sentences(2, 120), 'lm.0.text=["absent"]')


def test_counts_of_known_ngrams(tmp_path: Path) -> None:
    """Ends of sentences count as words; a sentence that is shorter than the order has no n-grams."""
    lm, words = language_model(read_arpa(lm_of(tmp_path, sentences(1, 50), 3)))
    known = NaiveLm(tmp_path / "lm").ngrams
    texts = [["<s>", *line.split(), "</s>"] for line in [*sentences(1, 5), *sentences(2, 50), "", "w1", "never seen"]]
    ngrams = [tuple(text[i : i + 3]) for text in texts for i in range(len(text) - 2)]
    numbers: list[np.ndarray] = [words.numbers(text[1:-1]) for text in texts]
    assert known_ngrams(lm, numbers) == (sum(ngram in known for ngram in ngrams), len(ngrams))
    assert 0 < known_ngrams(lm, numbers)[0] < len(ngrams)
