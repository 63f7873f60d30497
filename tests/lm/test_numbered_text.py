"""Words of texts as numbers, against Python's."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from mpitune.corpus import lines
from mpitune.corpus.progress import Progress
from mpitune.errors import DataError
from mpitune.lm import numbered_text
from mpitune.lm.numbered_text import NumberedText

pytestmark = pytest.mark.kernel


def read(text: NumberedText, paths: list[Path], starts: int = 1) -> list[int]:
    return np.concatenate(list(text.read(paths, starts, Progress("", 0)))).tolist()


@pytest.mark.parametrize("starts", [0, 1, 3])
@pytest.mark.parametrize("allowed", [None, {"b", "ß", "w7", "w77", "absent"}])
def test_words_are_numbered_in_the_order_of_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, starts: int, allowed: set[str] | None
) -> None:
    monkeypatch.setattr(lines, "_BLOCK", 50)
    monkeypatch.setattr(lines, "_STEP", 50)
    draw, words = (
        random.Random(starts),
        ["a", "b", "ß", "𝄞x", "<S>", "<unk", "UNK", "\u00a0", *(f"w{n}" for n in range(99))],
    )
    sentences = [draw.choices(words, k=draw.randrange(9)) for _ in range(300)]
    texts = [tmp_path / "one", tmp_path / "two"]
    for path, part in zip(texts, (sentences[:200], sentences[200:]), strict=True):
        path.write_text(
            "".join(draw.choice(["", " "]) + " \t ".join(each) + draw.choice(["\n", "\t\n"]) for each in part)
        )
    numbers, expected, unknown = {"<unk>": 0, "<s>": 1, "</s>": 2}, list[int](), 0
    for sentence in sentences:
        expected += [1] * starts
        for word in sentence:
            if allowed is None or word in allowed:
                expected.append(numbers.setdefault(word, len(numbers)))
            else:
                expected.append(0)
                unknown += 1
        expected.append(2)
    text = NumberedText(allowed)
    assert read(text, texts, starts) == expected
    assert (text.vocabulary, text.sentences, text.words) == ([*numbers], 300, sum(map(len, sentences)))
    assert text.unknown == unknown


@pytest.mark.parametrize("marker", ["<unk>", "<s>", "</s>", "<UNK>"])
def test_a_marker_is_refused_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, marker: str) -> None:
    monkeypatch.setattr(lines, "_BLOCK", 20)
    monkeypatch.setattr(lines, "_STEP", 20)
    (tmp_path / "one").write_text("a\n")
    (tmp_path / "two").write_text(50 * "a b\n" + f"c\td {marker} <s>\n" + 50 * "a b\n")
    with pytest.raises(DataError, match=f"two:51: found the word {marker}, expected a sentence without"):
        read(NumberedText({"c"}), [tmp_path / "one", tmp_path / "two"])


def test_a_text_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbered_text, "MAX_PLACES", 9)
    (tmp_path / "text").write_text("a b\nc\n\n")
    assert len(read(NumberedText(), [tmp_path / "text"])) == 9
    (tmp_path / "text").write_text("a b\nc\nd\n")
    with pytest.raises(DataError, match="text:3: found more than 9 words, expected a smaller text"):
        read(NumberedText(), [tmp_path / "text"])
