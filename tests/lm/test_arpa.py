"""Reading ARPA files: what they may look like, and how bad ones are refused."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.naive_lm import NaiveLm, random_arpa

from mpitune.errors import DataError
from mpitune.lm import arpa
from mpitune.lm.arpa import read_arpa
from mpitune.lm.arpa_lines import AHEAD
from mpitune.lm.ngram_table import find, language_model

pytestmark = pytest.mark.kernel

GOOD = """
\\data\\
ngram 1=5
ngram 2=3
ngram 3=1

\\1-grams:
-1.5\t<unk>\t0
-99\t<s>\t-0.25
-1.25\t</s>
-0.5\ta\t-0.5
-0.75\tß\t0.125

\\2-grams:
-0.5\t<s> a\t-1
-0.25\ta ß
-0.125\tß </s>\t-2e-1

\\3-grams:
-0.0625\t<s> a ß

\\end\\
"""


def read(path: Path, content: str | bytes) -> dict[str, np.ndarray]:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_arpa(path)


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    "variant",
    [
        GOOD.lstrip(),
        GOOD.rstrip(),
        f"# made by hand\n\n# from two texts\n{GOOD}",
        GOOD.replace("\n", "\r\n"),
        GOOD.replace("\t", " "),
        *(GOOD.replace("<s> a ß\n", f"<s> a ß\t{zero}\n") for zero in ("0", "-0.00", "0e7 ")),
        GOOD.replace(" a", "  a") + "\n\n",
        "\ufeff" + GOOD,
        GOOD.replace("-1.25", "-125e-2").replace("-99", "-.99E+2").replace("\t0.125", "\t+0.125"),
        gzip.compress(GOOD.encode(), mtime=0),
        gzip.compress(GOOD[:50].encode(), mtime=0) + gzip.compress(GOOD[50:].encode(), mtime=0),
    ],
)
def test_ways_to_write_the_same(tmp_path: Path, variant: str | bytes) -> None:
    assert same(read(tmp_path / "good", GOOD), read(tmp_path / "variant", variant))


@pytest.mark.parametrize("block", [64, 65, 67, 100])
def test_blocks_may_end_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    random_arpa(tmp_path / "lm.arpa", block, 3)
    whole = read_arpa(tmp_path / "lm.arpa")
    monkeypatch.setattr(arpa, "_BLOCK", block)
    assert same(read_arpa(tmp_path / "lm.arpa"), whole)


def test_numbers_are_read_as_python_reads_them(tmp_path: Path) -> None:
    draw = random.Random(1)
    numbers = ["0", "-0", "-0.0", "-5", "-.5", "-5.", "-1e-3", "-1.E2", "-3.4e38", "-1e-46", "-1e-400", "-00012.50"]
    numbers += ["-0." + "0" * 30 + "12345", "-" + "9" * 30, "-123456789012345678901.5e-10"]
    numbers += [f"-{draw.random() * 10 ** draw.randint(-6, 2):.{draw.randint(1, 20)}g}" for _ in range(500)]
    lines = [f"{number}\tw{i}\t{number}" for i, number in enumerate(numbers)]
    header = f"\\data\\\nngram 1={len(lines) + 2}\nngram 2=0\n\\1-grams:\n"
    arrays = read(tmp_path / "lm.arpa", header + "\n".join(["0 <s>", "0 </s>", *lines]) + "\n\\2-grams:\n\\end\\\n")
    lm, vocabulary = language_model(arrays)
    nodes = lm.node[vocabulary.numbers([f"w{i}" for i in range(len(lines))])]
    expected = np.array([float(number) for number in numbers], dtype=np.float32)
    assert np.array_equal(nodes["prob"], expected)
    assert np.array_equal(nodes["backoff"], expected)


def test_a_model_without_unk_is_read(tmp_path: Path) -> None:
    arrays = read(tmp_path / "lm.arpa", GOOD.replace("-1.5\t<unk>\t0\n", "").replace("1=5", "1=4"))
    lm, vocabulary = language_model(arrays)
    assert vocabulary.names.all() == ["<unk>", "<s>", "</s>", "a", "ß"]
    assert (lm.node[0]["prob"], lm.node[0]["backoff"]) == (-100, 0)


def test_unk_is_word_0_wherever_it_stands(tmp_path: Path) -> None:
    unknown = "-1.5\t<unk>\t0\n"
    arrays = read(tmp_path / "lm.arpa", GOOD.replace(unknown, "").replace("-0.75\tß", unknown + "-0.75\tß"))
    lm, vocabulary = language_model(arrays)
    assert vocabulary.names.all() == ["<unk>", "<s>", "</s>", "a", "ß"]
    assert lm.node[0]["prob"] == -1.5


def test_unk_in_capitals_is_the_same(tmp_path: Path) -> None:
    small = GOOD.replace("\ta ß\n", "\ta <unk>\n")
    capital = small.replace("<unk>", "<UNK>")
    assert capital.count("<UNK>") == 2
    assert same(read(tmp_path / "capital.arpa", capital), read(tmp_path / "small.arpa", small))


def test_table_grows_for_many_blanks(tmp_path: Path) -> None:
    words = [f"w{i}" for i in range(900)]
    unigrams = "\n".join(f"-1\t{word}" for word in ["<s>", "</s>", *words])
    ngrams = "\n".join("-1\t" + " ".join(words[i : i + 6]) for i in range(0, 900, 6))
    counts = "\n".join(f"ngram {n}={count}" for n, count in enumerate([902, 0, 0, 0, 0, 150], 1))
    empty = "".join(f"\\{n}-grams:\n\n" for n in range(2, 6))
    text = f"\\data\\\n{counts}\n\n\\1-grams:\n{unigrams}\n\n{empty}\\6-grams:\n{ngrams}\n\n\\end\\\n"
    lm, _ = language_model(read(tmp_path / "lm.arpa", text))
    assert np.count_nonzero(lm.node["key"][lm.words :]) == 150 * (5 + 4 + 3 + 2 + 1)


KENLM = b"mmap lm http://kheafield.com/code format version 5\n".ljust(96, b"\0")
BAD = [
    ("", 1, "found the end of the file, expected \\data\\"),
    (
        gzip.compress(KENLM + b"\2\0\0\0" + bytes(9), mtime=0),
        None,
        "found a KenLM binary (trie), expected a probing one (build_binary's default), or the ARPA file",
    ),
    (gzip.compress(KENLM, mtime=0), None, "found a KenLM binary of 96 bytes, expected more: was it cut?"),
    ("[X] ||| haus ||| house\n", 1, "'[X] ||| haus ||| house', expected \\data\\"),
    (random.Random(1).randbytes(1000), 1, "found bytes that are not UTF-8"),
    ("the cat sat\n", 1, "'the cat sat', expected \\data\\"),
    (GOOD.replace("ngram 2", "ngram 4"), 4, "'ngram 4=3', expected ngram 2=COUNT (at most 18 digits) or \\1-grams:"),
    (GOOD.replace("2=3", "2=three"), 4, "'ngram 2=three', expected ngram 2=COUNT"),
    (GOOD.replace("3=1", "3=128"), 5, "found 'ngram 3=128', expected no more n-grams than 1 kB of text can hold"),
    (GOOD.replace("1=5", f"1={'9' * 18}"), 3, "expected no more n-grams than 1 kB of text can hold"),
    (
        gzip.compress(GOOD.replace("2=3", "2=999999").encode(), mtime=0),
        4,
        "found 'ngram 2=999999', expected no more n-grams than 1032 kB of text can hold",
    ),
    (GOOD.replace("1=5", "1=12345678901234567890123"), 3, "123', expected ngram 1=COUNT (at most 18 digits)"),
    (GOOD.replace("\\end\\\n", ""), 21, "found the end of the file, expected \\end\\"),
    (GOOD[: GOOD.index("-0.25\ta")], 15, "the end of the file after 1 2-grams, expected 3 2-grams, as announced"),
    (GOOD.replace("2=3", "2=4"), 18, "found '' after 3 2-grams, expected 4 2-grams"),
    (GOOD.replace("2=3", "2=4").replace("</s>\t-2e-1\n\n", "</s>\n"), 18, "'\\\\3-grams:' after 3 2-grams"),
    (GOOD.replace("2=3", "2=2"), 17, "found more 2-grams than the 2 announced, expected \\3-grams:"),
    (GOOD.replace("3=1", "3=0"), 20, "found more 3-grams than the 0 announced, expected \\end\\"),
    (GOOD.replace("\\3-grams:", "\\4-grams:"), 19, "'\\\\4-grams:', expected \\3-grams:"),
    (GOOD + "\\data\\\n", 23, "'\\\\data\\\\', expected nothing after \\end\\"),
    (GOOD.replace("a ß\n-0.1", "a\n-0.1"), 16, "found 2 fields, expected a log10 probability, 2 words and perhaps"),
    (GOOD.replace("a ß\n\n", "a ß 0 0 0 0 0 0\n\n"), 20, "found 10 fields, expected a log10 probability, 3 words"),
    (
        GOOD.replace("<s> a ß", "<s> a ß\t-1"),
        20,
        "the backoff '-1', expected none other than 0, as no n-grams are longer",
    ),
    (GOOD.replace("<s> a ß", "<s> a ß\t1e-9"), 20, "found the backoff '1e-9', expected none other than 0"),
    (GOOD.replace("<s> a ß", "<s> a ß\tb"), 20, "found 5 fields, expected a log10 probability, 3 words"),
    (GOOD.replace("-0.25\ta", "x\ta"), 16, "found 'x', expected a log10 probability"),
    (GOOD.replace("-0.25\ta", "0.25\ta"), 16, "found '0.25', expected a log10 probability"),
    (GOOD.replace("-0.25\ta", "nan\ta"), 16, "found 'nan', expected a log10 probability"),
    (GOOD.replace("-0.25\ta", "-inf\ta"), 16, "found '-inf', expected a log10 probability"),
    (GOOD.replace("-0.25\ta", "-\ta"), 16, "found '-', expected a log10 probability"),
    (GOOD.replace("-0.25\ta", "-1e\ta"), 16, "found '-1e', expected a log10 probability"),
    (GOOD.replace("-0.25\ta", "-0.2.5\ta"), 16, "found '-0.2.5', expected a log10 probability"),
    (GOOD.replace("-0.25\ta", "-1e39\ta"), 16, "found '-1e39', expected a log10 probability"),
    (GOOD.replace("-2e-1", "NaN"), 17, "found 'NaN', expected a log10 backoff"),
    (GOOD.replace("a ß\n-", "a bß\n-"), 16, "found 'bß' in a 2-gram, expected a word that is among the 1-grams"),
    (GOOD.replace("\tß\t", "\ta\t"), 12, "the 1-gram 'a' a second time"),
    (GOOD.replace("\tß\t", "\t<UNK>\t"), 12, "the 1-gram '<unk>' a second time"),
    (GOOD.replace("a ß\n-", "<s> a\n-"), 16, "the 2-gram '<s> a' a second time"),
    (GOOD.replace("\t<s>\t", "\ts\t"), 12, "found no <s> among the 1-grams"),
    (GOOD.replace("\t</s>\n", "\t/s\n"), 12, "found no </s> among the 1-grams"),
    (GOOD.encode().replace("ß".encode(), b"\xff", 1), 12, "found bytes that are not UTF-8"),
    (GOOD.encode().replace("a ß".encode(), b"a \xc3", 1), 16, "found bytes that are not UTF-8"),
    (GOOD.encode().replace(b"ngram 2", b"ngram \xff"), 4, "found bytes that are not UTF-8"),
    (GOOD.replace("ß", "\0"), 12, "found a NUL character"),
    (gzip.compress(GOOD.encode(), mtime=0)[:-30], 1, "found damaged gzip data"),
    (gzip.compress(GOOD.encode(), mtime=0)[:-3], 1, "found damaged gzip data"),
    (gzip.compress(GOOD.encode(), mtime=0)[:-8] + b"\0" * 8, 1, "found damaged gzip data"),
]


@pytest.mark.parametrize(("content", "line", "message"), BAD)
def test_bad_files_are_refused(tmp_path: Path, content: str | bytes, line: int | None, message: str) -> None:
    path = tmp_path / "lm.arpa"
    with pytest.raises(DataError) as refused:
        read(path, content)
    assert str(refused.value).startswith(f"{path}: found" if line is None else f"{path}:{line}: found")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_model_of_words_alone_may_have_backoffs_of_0(tmp_path: Path) -> None:
    text = "\\data\\\nngram 1=3\n\\1-grams:\n-1\t<s>{0}\n-1\t</s>{0}\n-1\ta{0}\n\\end\\\n"
    plain = read(tmp_path / "plain.arpa", text.format(""))
    assert same(read(tmp_path / "zeros.arpa", text.format("\t0")), plain)


def test_a_gzipped_model_may_be_much_larger_than_its_file(tmp_path: Path) -> None:
    words = ["<s>", "</s>", *(f"{n:07}" for n in range(0, 10_000_000, 500))]
    lines = "".join(f"-1\t{word}\n" for word in words)
    packed = gzip.compress(f"\\data\\\nngram 1={len(words)}\n\\1-grams:\n{lines}\\end\\\n".encode(), mtime=0)
    assert len(packed) < 4 * len(words)
    assert len(read(tmp_path / "lm.arpa", packed)["word_ptr"]) == len(words) + 2


def test_more_ngrams_than_a_table_has_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arpa, "MAX_NODES", 20)
    with pytest.raises(
        DataError, match="lm.arpa:7: found 9 n-grams announced, expected what a table of 20 n-grams can"
    ):
        read(tmp_path / "lm.arpa", GOOD)


def test_a_line_longer_than_a_block_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arpa, "_BLOCK", 64)
    with pytest.raises(DataError, match="found a line of more than 63 bytes"):
        read(tmp_path / "lm.arpa", GOOD.replace("ß", "ß" * 40))


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read_arpa(tmp_path / "lm.arpa")
    with pytest.raises(DataError, match="a folder"):
        read_arpa(tmp_path)


@pytest.mark.large
def test_a_real_model_is_read(shared: Path) -> None:
    lm, vocabulary = language_model(read_arpa(shared / "data/nc/lm.3.arpa.gz"))
    naive = NaiveLm(shared / "data/nc/lm.3.arpa.gz")
    assert (lm.order, lm.words) == (3, 4243)
    assert vocabulary.names.all() == [ngram[0] for ngram in naive.ngrams if len(ngram) == 1]
    assert np.count_nonzero(lm.node["key"][lm.words :]) == 16630 + 22508
    values = lm.node[: lm.words]
    assert [(float(np.float32(p)), float(np.float32(b))) for p, b in list(naive.ngrams.values())[: lm.words]] == list(
        zip(values["prob"].tolist(), values["backoff"].tolist(), strict=True)
    )


def many_bigrams(count: int, change: Callable[[int, str], str]) -> str:
    """A model of words and 2-grams w{k} w{k + 1}, of which line k is changed."""
    words = ["<s>", "</s>", *(f"w{k}" for k in range(count + 1))]
    unigrams = "".join(f"-1\t{word}\t-0.5\n" for word in words)
    bigrams = "".join(change(k, f"-0.{k + 1}\tw{k} w{k + 1}\n") for k in range(count))
    return f"\\data\\\nngram 1={len(words)}\nngram 2={count}\n\\1-grams:\n{unigrams}\\2-grams:\n{bigrams}\\end\\\n"


@pytest.mark.parametrize("bad", [1, AHEAD - 1, AHEAD, AHEAD + 1, 2 * AHEAD, 39])
def test_the_line_of_an_error_is_told_however_many_are_read_ahead(tmp_path: Path, bad: int) -> None:
    """And what is wrong earlier is told first."""
    changes = {
        f"-1\tw{bad - 1} w{bad}\n": f"the 2-gram 'w{bad - 1} w{bad}' a second time",
        f"-1\tw{bad} absent\n": "found 'absent' in a 2-gram",
        f"x\tw{bad} absent\n": "found 'x', expected a log10 probability",
        f"-1\tw{bad}\n": "found 2 fields",
        "\n": f"found '' after {bad} 2-grams",
    }
    for line, message in changes.items():
        text = many_bigrams(40, lambda k, good, line=line: line if k == bad else "-1\tabsent\n" if k > bad else good)
        with pytest.raises(DataError) as refused:
            read(tmp_path / "lm.arpa", text)
        assert str(refused.value).startswith(f"{tmp_path}/lm.arpa:{4 + 43 + 1 + bad + 1}: ")
        assert message in str(refused.value)


@pytest.mark.parametrize("pruned", [0.0, 0.5])
def test_the_order_of_lines_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pruned: float) -> None:
    """Neighbours that have words in common, at either end, are read faster; blocks end anywhere."""
    monkeypatch.setattr(arpa, "_BLOCK", 200)
    random_arpa(tmp_path / "sorted.arpa", 3, 5, pruned=pruned)
    sections = (tmp_path / "sorted.arpa").read_text().split("\n\n")
    naive = NaiveLm(tmp_path / "sorted.arpa")
    for key in (None, lambda line: line.split("\t")[1].split()[::-1], lambda line: line.split("\t")[1].split()):
        shuffled = []
        for section in sections:
            header, *ngrams = section.split("\n")
            if header.endswith("-grams:"):
                random.Random(4).shuffle(ngrams)
                ngrams = ngrams if key is None else sorted(ngrams, key=key)
            shuffled.append("\n".join([header, *ngrams]))
        lm, vocabulary = language_model(read(tmp_path / "lm.arpa", "\n\n".join(shuffled)))
        for ngram, (prob, backoff) in naive.ngrams.items():
            words = vocabulary.numbers(ngram).astype(np.int64)
            node = lm.node[find(lm, words, 0, len(words))]
            assert (node["prob"], node["backoff"]) == (np.float32(prob), np.float32(backoff))
