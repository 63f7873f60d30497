"""Language models that have seen the references that are tuned on are warned of before training; others are not."""

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
from mpitune.runtime.signals import StopFlag
from mpitune.training.factory import load_job
from mpitune.training.seen_references import known_ngrams
from mpitune.training.session import open_run

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
    estimate(folder / "text", order, folder / "lm", lambda _: None)
    return folder / "lm"


@pytest.mark.parametrize(
    ("order", "seen", "others", "tuned", "warned"),
    [
        (3, 1.0, 0, 120, True),
        (4, 1.0, 1000, 120, True),
        (3, 0.98, 200, 120, True),
        (3, 0.5, 1000, 120, False),
        (3, 0.0, 1000, 120, False),
        (2, 1.0, 0, 120, False),
        (3, 1.0, 0, 40, False),
    ],
)
def test_nearly_all_ngrams_of_enough_references(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, order: int, seen: float, others: int, tuned: int, warned: bool
) -> None:
    """``seen``: the part of all references, two for a sentence, that the model of ``order`` has seen, with others."""
    first, second = sentences(1, tuned), sentences(2, tuned)
    references = [*first, *second]
    lm_of(tmp_path, references[: round(seen * len(references))] + sentences(3, others), order)
    files = {"first": first, "second": second, "source": ["a"] * tuned, "grammar": ["[X] ||| a ||| w1 ||| Cost=1"]}
    for name, lines in files.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "job.toml").write_text(JOB)
    open_run(load_job(tmp_path / "job.toml", []), SerialComm(), StopFlag(), True)
    found = [record.getMessage() for record in caplog.records if "references in [data]" in record.getMessage()]
    assert len(found) == warned
    if warned and seen == 1.0:
        expected = f"{tmp_path}/lm: has 100.0 % of the {order}-grams of the references in [data], expected less than"
        assert found[0].startswith(expected)


def test_counts_of_known_ngrams(tmp_path: Path) -> None:
    """Ends of sentences count as words; a sentence that is shorter than the order has no n-grams."""
    lm, words = language_model(read_arpa(lm_of(tmp_path, sentences(1, 50), 3)))
    known = NaiveLm(tmp_path / "lm").ngrams
    texts = [["<s>", *line.split(), "</s>"] for line in [*sentences(1, 5), *sentences(2, 50), "", "w1", "never seen"]]
    ngrams = [tuple(text[i : i + 3]) for text in texts for i in range(len(text) - 2)]
    numbers: list[np.ndarray] = [words.numbers(text[1:-1]) for text in texts]
    assert known_ngrams(lm, numbers) == (sum(ngram in known for ngram in ngrams), len(ngrams))
    assert 0 < known_ngrams(lm, numbers)[0] < len(ngrams)
