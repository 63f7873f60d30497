"""Estimating language models: against the definition, against models of lmplz, and what is refused."""

from __future__ import annotations

import errno
import gzip
import os
import random
import signal
import sys
from itertools import pairwise, zip_longest
from pathlib import Path

import numpy as np
import pytest
from support.commands import Cli
from support.naive_lm import NaiveLm
from support.naive_lm import kneser_ney as by_definition
from support.small_disk import on_a_small_disk
from support.sorting_lm import arpa_file
from support.stages import Stages

from mpitune.corpus import lines
from mpitune.errors import DataError, UsageError
from mpitune.lm import arpa_writer, kneser_ney, ngram_runs
from mpitune.lm.arpa import read_arpa
from mpitune.lm.kneser_ney import discounts, estimate, estimate_arrays
from mpitune.lm.ngram_table import LanguageModel, find, language_model

CORPORA = [(seed, order) for seed in range(4) for order in range(1, 6)]


def corpus(seed: int) -> list[list[str]]:
    """Sentences of 0 to 8 words, rare and common, some of them several times; the higher the seed, the more."""
    draw = random.Random(seed)
    words = [f"w{i}" for i in range((1, 6, 20, 400)[seed])]
    chances = [1 / i for i in range(1, len(words) + 1)]
    sentences: list[list[str]] = []
    for _ in range((1, 10, 60, 600)[seed]):
        again = sentences and draw.random() < 0.4
        sentences.append(draw.choice(sentences) if again else draw.choices(words, chances, k=draw.randrange(9)))
    return sentences


def estimated(folder: Path, sentences: list[list[str]], order: int) -> Path:
    """The model of ``sentences``."""
    text, output = folder / "text", folder / "lm.arpa"
    text.write_text("".join(" ".join(sentence) + "\n" for sentence in sentences))
    estimate(text, order, output)
    return output


@pytest.mark.parametrize(("seed", "order"), CORPORA)
def test_follows_the_definition(tmp_path: Path, seed: int, order: int, logged: pytest.LogCaptureFixture) -> None:
    sentences = corpus(seed)
    output = estimated(tmp_path, sentences, order)
    written, expected = NaiveLm(output).ngrams, by_definition(sentences, order)
    assert written.keys() == expected.keys()
    for ngram, values in expected.items():
        assert written[ngram] == pytest.approx(values, abs=2e-6, rel=0)
    if seed == 0:
        assert sum(each.levelname == "WARNING" for each in logged.records) == order
    if seed == 3:
        assert not any(each.levelname == "WARNING" for each in logged.records)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 5, 19])
def test_words_outside_the_vocabulary_are_unknown(
    tmp_path: Path, size: int, order: int, logged: pytest.LogCaptureFixture
) -> None:
    """The definition, of the text with <unk> in their place; the list may name words that the text lacks."""
    sentences, allowed = corpus(2), {f"w{i}" for i in range(size)}
    (tmp_path / "text").write_text("".join(" ".join(sentence) + "\n" for sentence in sentences))
    (tmp_path / "words").write_text("\n".join([*sorted(allowed), "more <unk>  words"]))
    estimate(tmp_path / "text", order, tmp_path / "lm", vocabulary=tmp_path / "words")
    replaced = [[word if word in allowed else "<unk>" for word in sentence] for sentence in sentences]
    written, expected = NaiveLm(tmp_path / "lm").ngrams, by_definition(replaced, order)
    assert written.keys() == expected.keys()
    for ngram, values in expected.items():
        assert written[ngram] == pytest.approx(values, abs=2e-6, rel=0)
    unknown = sum(sentence.count("<unk>") for sentence in replaced)
    assert logged.messages[1].endswith(f"({size} distinct, {unknown} outside the vocabulary)")
    lm, words = language_model(read_arpa(tmp_path / "lm"))
    predicted = [word for word in range(lm.words) if word != lm.bos]
    for context in [("<unk>",), ("<s>", "<unk>"), ("w0", "<unk>")]:
        numbers = words.numbers(context[-order + 1 :] if order > 1 else ()).tolist()
        total = sum(10 ** log_prob(lm, np.array([*numbers, word], dtype=np.int64)) for word in predicted)
        assert total == pytest.approx(1, abs=1e-5), context


@pytest.mark.parametrize("allowed", [None, ["w0", "w3", "w7", "w300"]])
@pytest.mark.parametrize(("seed", "order"), [*CORPORA, (3, 10)])
def test_the_file_is_the_same_in_any_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, order: int, allowed: list[str] | None
) -> None:
    """And that of the slow twin, byte for byte; in the least memory, runs have some lines, and all is on the disk."""
    sentences = corpus(seed)
    expected = arpa_file(sentences, order, allowed)
    text, vocabulary = tmp_path / "text", tmp_path / "words"
    text.write_text("".join(" ".join(sentence) + "\n" for sentence in sentences))
    vocabulary.write_text(" ".join(allowed or []))
    for module, name, value in [
        *((lines, "_BLOCK", 200), (lines, "_STEP", 200), (ngram_runs, "_LEAST_RUN", 1), (ngram_runs, "_WINDOW", 7)),
        *((kneser_ney, "_BLOCK", 9), (arpa_writer, "_BUFFER", 300)),
    ]:
        monkeypatch.setattr(module, name, value)
    for memory in (1, 1 << 14, 1 << 30):
        given = vocabulary if allowed else None
        estimate(text, order, tmp_path / "lm", vocabulary=given, memory=memory)
        assert (tmp_path / "lm").read_bytes() == expected, memory
        assert {path.name for path in tmp_path.iterdir()} == {"text", "words", "lm"}


@pytest.mark.parametrize(("seed", "order"), [*CORPORA, (3, 10)])
def test_the_arrays_are_those_read_from_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, order: int
) -> None:
    """Bit for bit, whatever the number of n-grams that are written at a time."""
    output = estimated(tmp_path, corpus(seed), order)
    expected = read_arpa(output)
    for block in (9, 1 << 20):
        monkeypatch.setattr(kneser_ney, "_BLOCK", block)
        found = estimate_arrays([tmp_path / "text"], order, tmp_path)
        assert found.keys() == expected.keys()
        for name, array in found.items():
            assert (array.dtype, array.tobytes()) == (expected[name].dtype, expected[name].tobytes()), name


LM_STAGES = {
    "kB of text read": "kB of text read: 1/1, 1/s, 0:00 left",
    "distinct n-grams merged": "distinct n-grams merged: 9/9, 9/s, 0:00 left",
    "n-grams written": "n-grams written: 22/22, 22/s, 0:00 left",
}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_each_stage_shows_its_progress_and_heeds_a_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli, number: signal.Signals
) -> None:
    stages = Stages(monkeypatch)
    (tmp_path / "text").write_text("a b c\nb a\nd\n")
    command = ["lm", "--order", "3", "--input", tmp_path / "text", "--output", tmp_path / "lm"]
    done = cli(*command)
    assert done.code == 0
    assert stages.lines == LM_STAGES
    assert "INFO n-grams written: 7/22" in done.errors
    model = (tmp_path / "lm").read_bytes()
    (tmp_path / "lm").write_text("an earlier file")
    for task in LM_STAGES:
        stages.stop(task, number)
        done = cli(*command)
        expected = (
            f"stopped by {number.name} in the language model; nothing of it is written: run the same command again"
        )
        assert (done.code, done.errors.splitlines()[-1]) == (75, f"mpitune: {expected}")
        assert (tmp_path / "lm").read_text() == "an earlier file"
        assert {path.name for path in tmp_path.iterdir()} == {"text", "lm"}
    assert cli(*command).code == 0
    assert (tmp_path / "lm").read_bytes() == model


def log_prob(lm: LanguageModel, words: np.ndarray) -> float:
    """log10 p(last of ``words`` | the others)."""
    n = len(words)
    backoffs = 0.0
    for begin in range(n):
        node = find(lm, words, begin, n)
        if node >= 0:
            return backoffs + float(lm.node[node]["prob"])
        context = find(lm, words, begin, n - 1)
        backoffs += float(lm.node[context]["backoff"]) if context >= 0 else 0.0
    raise AssertionError


@pytest.mark.parametrize(("seed", "order"), CORPORA)
def test_probabilities_sum_to_one_after_every_context(tmp_path: Path, seed: int, order: int) -> None:
    output = estimated(tmp_path, corpus(seed), order)
    lm, vocabulary = language_model(read_arpa(output))
    assert lm.order == order
    contexts = [ngram for ngram in NaiveLm(output).ngrams if len(ngram) < order and ngram[-1] != "</s>"]
    random.Random(seed).shuffle(contexts)
    predicted = [word for word in range(lm.words) if word != lm.bos]
    for context in [(), ("<s>",), *contexts[:60]]:
        numbers = vocabulary.numbers(context).tolist()
        total = sum(10 ** log_prob(lm, np.array([*numbers, word], dtype=np.int64)) for word in predicted)
        assert total == pytest.approx(1, abs=1e-5), context


def test_a_model_as_text(tmp_path: Path, logged: pytest.LogCaptureFixture) -> None:
    """One word after ``<s>``, one before ``</s>``: with the fallback discounts this is easy to follow.

    p(a) = p(</s>) = (1 - 0.5) / 2 + (0.5 + 0.5) / 2 / 3 = 5/12; p(<unk>) = 1/6;
    p(a | <s>) = p(</s> | a) = (2 - 1) / 2 + 1 / 2 * 5/12 = 17/24.
    """
    output = estimated(tmp_path, [["a"], ["a"]], 2)
    assert output.read_text() == (
        "\\data\\\nngram 1=4\nngram 2=2\n\n\\1-grams:\n"
        "-0.7781513\t<unk>\t0\n-0.7781513\t<s>\t-0.30103\n-0.38021123\t</s>\t0\n-0.38021123\ta\t-0.30103\n\n"
        "\\2-grams:\n-0.14976232\ta </s>\n-0.14976232\t<s> a\n\n\\end\\\n"
    )
    assert logged.messages == [
        f"reading {tmp_path / 'text'}",
        "2 sentences, 2 words (1 distinct)",
        "2-grams: 2",
        "numbers of 1-grams with counts 1, 2, 3, 4: 2, 0, 0, 0: too few, using fallback discounts",
        "1-grams: discounts 0.5 1 1.5",
        "numbers of 2-grams with counts 1, 2, 3, 4: 0, 2, 0, 0: too few, using fallback discounts",
        "2-grams: discounts 0.5 1 1.5",
        "writing 4 1-grams",
        "writing 2 2-grams",
    ]


def test_discounts() -> None:
    # Y = 10 / (10 + 2 * 5) = 1/2
    assert discounts([7, 10, 5, 3, 2]) == pytest.approx(np.array([0, 1 - 0.5, 2 - 0.9, 3 - 4 / 3]))
    assert discounts([0, 10, 5, 3, 0]) == pytest.approx(np.array([0, 1 - 0.5, 2 - 0.9, 3]))
    for undefined in ([0, 0, 5, 3, 2], [0, 10, 0, 3, 2], [0, 10, 5, 0, 2]):
        assert discounts(undefined) is None
    for below_zero in ([0, 10, 1, 3, 2], [0, 10, 5, 3, 7]):
        assert discounts(below_zero) is None
    assert discounts([0, 4, 2, 2, 1])[2] == pytest.approx(0.5)
    assert discounts([0, 6, 3, 4, 1]) is None  # D2 = 0: nothing would be left to back off to


def test_an_empty_line_is_an_empty_sentence(tmp_path: Path, logged: pytest.LogCaptureFixture) -> None:
    output = estimated(tmp_path, [["a"], [], []], 2)
    assert ("<s>", "</s>") in NaiveLm(output).ngrams
    assert "3 sentences, 1 word (1 distinct)" in logged.messages
    output = estimated(tmp_path, [[]], 3)
    assert list(NaiveLm(output).ngrams) == [("<unk>",), ("<s>",), ("</s>",), ("<s>", "</s>")]
    assert language_model(read_arpa(output))[0].order == 3


def test_words_may_hold_any_other_character(tmp_path: Path) -> None:
    words = ["a\u00a0b", "\u2028", "\x85\x0b", "\\end\\", "\\2-grams:", "|||", "-1.5", "<S>", "𝄞"]
    (tmp_path / "text").write_text(" \t".join(words) + "  ", newline="")
    estimate(tmp_path / "text", 3, tmp_path / "lm.arpa")
    lm, vocabulary = language_model(read_arpa(tmp_path / "lm.arpa"))
    assert vocabulary.names.all() == ["<unk>", "<s>", "</s>", *words]
    numbers = vocabulary.numbers(["<s>", *words, "</s>"]).astype(np.int64)
    assert all(find(lm, numbers, end - 3, end) > 0 for end in range(3, len(numbers) + 1))


def test_gzipped_text_and_output_to_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = estimated(tmp_path, corpus(2), 3)
    (tmp_path / "text.gz").write_bytes(gzip.compress((tmp_path / "text").read_bytes()))
    estimate(tmp_path / "text.gz", 3, tmp_path / "a.gz")
    monkeypatch.setattr("time.time", lambda: 1e9)
    estimate(tmp_path / "text", 3, tmp_path / "b.gz")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == output.read_bytes()


BAD = [
    (b"", None, "found no lines, expected sentences, one a line"),
    (gzip.compress(b"", mtime=0), None, "found no lines, expected sentences, one a line"),
    (b"a b\nc <unk> <s>\n", 2, "found the word <unk>, expected a sentence without <unk>, <s>, </s>"),
    (b"a b\nc <UNK>\n", 2, "found the word <UNK>, expected a sentence without <unk>, <s>, </s>, <UNK>"),
    (b"<s> a b </s>\n", 1, "found the word <s>"),
    (b"\n\na\t</s>", 3, "found the word </s>"),
    (b"a\nb\rc\n", 2, "found a carriage return within a line"),
    (b"a\0\n", 1, "found a NUL character, expected text without any"),
    (b"a\nb\nc\xff\n", 3, "found bytes that are not UTF-8"),
    (gzip.compress(b"a b c\n" * 99, mtime=0)[:-9], 1, "found damaged gzip data"),
]


@pytest.mark.parametrize(("content", "line", "message"), BAD)
@pytest.mark.parametrize("name", ["lm.arpa", "lm.arpa.gz"])
def test_bad_texts_are_refused(tmp_path: Path, content: bytes, line: int | None, message: str, name: str) -> None:
    text = tmp_path / "text"
    text.write_bytes(content)
    with pytest.raises(DataError) as refused:
        estimate(text, 2, tmp_path / name)
    assert str(refused.value).startswith(f"{text}: " if line is None else f"{text}:{line}: ")
    assert message in str(refused.value)
    assert os.listdir(tmp_path) == ["text"]


def test_other_refusals(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a\n")
    for order in (0, -1):
        with pytest.raises(UsageError, match=f"order {order}: must be 1 or more"):
            estimate(tmp_path / "text", order, tmp_path / "lm")
    with pytest.raises(DataError, match="no such file"):
        estimate(tmp_path / "absent", 2, tmp_path / "lm")
    (tmp_path / "words").write_text("b c\n")
    with pytest.raises(
        DataError, match=f"words: found no word of {tmp_path}/text, expected words, separated by blanks"
    ):
        estimate(tmp_path / "text", 2, tmp_path / "lm", vocabulary=tmp_path / "words")
    assert sorted(os.listdir(tmp_path)) == ["text", "words"]


def test_output_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logged: pytest.LogCaptureFixture
) -> None:
    text = tmp_path / "text"
    text.write_text("a\n")
    for output in (tmp_path / "absent" / "lm.arpa", tmp_path, text / "lm.arpa"):
        with pytest.raises(OSError):
            estimate(text, 2, output)
    assert logged.messages == []  # known before any work
    with pytest.raises(OSError) as full:
        estimate(text, 2, Path("/dev/full"))
    assert full.value.errno == errno.ENOSPC

    def no_space(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "lm.arpa.gz").write_text("before")
    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError):
        estimate(text, 2, tmp_path / "lm.arpa.gz")
    assert (tmp_path / "lm.arpa.gz").read_text() == "before"
    assert sorted(os.listdir(tmp_path)) == ["lm.arpa.gz", "text"]


@pytest.mark.slow
def test_a_disk_without_room_for_what_the_memory_cannot_hold(tmp_path: Path) -> None:
    draw = random.Random(1)
    (tmp_path / "text").write_text("".join(f"{' '.join(draw.choices('abcdefgh', k=20))}\n" for _ in range(4000)))
    (tmp_path / "disk").mkdir()
    model = tmp_path / "disk/lm.gz"
    command = [sys.executable, "-m", "mpitune", "lm", "--order", "5", "--input", tmp_path / "text", "--output", model]
    full = on_a_small_disk(tmp_path / "disk", [*command, "--memory", "1K"], blocks=512)
    expected = f"mpitune: {tmp_path}/disk: cannot be written: No space left on device"
    assert (full.returncode, full.stderr.splitlines()[-1]) == (4, expected)
    assert on_a_small_disk(tmp_path / "disk", [*command, "--memory", "1G"], blocks=512).returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "order", "model"),
    [("nc/nc.en.gz", 3, "nc/lm.3.arpa.gz"), ("multi30k/lm-train.en.gz", 4, "multi30k/lm.4.arpa.gz")],
)
def test_models_of_lmplz(shared: Path, tmp_path: Path, text: str, order: int, model: str) -> None:
    """The same lines in the same order, and the same numbers but for the float32 that lmplz computes in."""
    estimate(shared / "data" / text, order, tmp_path / "lm.arpa")
    difference = 0.0
    with open(tmp_path / "lm.arpa", "rb") as ours, gzip.open(shared / "data" / model, "rb") as theirs:
        for one, other in zip_longest(ours, theirs, fillvalue=b"missing"):
            # A header, or: probability, n-gram, and a backoff where the n-gram is not one of the longest.
            fields, expected = one.split(b"\t"), other.split(b"\t")
            assert fields[1:2] == expected[1:2] and len(fields) == len(expected)
            if len(fields) == 1:
                assert one == other
            else:
                for column in range(0, len(fields), 2):
                    difference = max(difference, abs(float(fields[column]) - float(expected[column])))
    assert difference < 1e-6


def test_real_probabilities_sum_to_one(shared: Path, tmp_path: Path) -> None:
    """After a context c, the words not seen there share what c', c without its first word, gives to them.

    So if the sum is 1 after c', it is 1 after c when sum p(w | c) = 1 - b(c) (1 - sum p(w | c')), over the w seen
    after c.
    """
    estimate(shared / "data/nc/nc.en.gz", 3, tmp_path / "lm.arpa")
    naive = NaiveLm(tmp_path / "lm.arpa")
    levels = [[ngram for ngram in naive.ngrams if len(ngram) == n] for n in (1, 2, 3)]
    assert sum(10 ** naive.ngrams[ngram][0] for ngram in levels[0] if ngram != ("<s>",)) == pytest.approx(1, abs=1e-5)
    for contexts, ngrams in pairwise(levels):
        seen = dict.fromkeys(contexts, 0.0)
        shorter = dict(seen)
        for ngram in ngrams:
            seen[ngram[:-1]] += 10 ** naive.ngrams[ngram][0]
            shorter[ngram[:-1]] += 10 ** naive.ngrams[ngram[1:]][0]
        for context in contexts:
            rest = 10 ** naive.ngrams[context][1] * (1 - shorter[context])
            assert seen[context] + rest == pytest.approx(1, abs=1e-5), context
