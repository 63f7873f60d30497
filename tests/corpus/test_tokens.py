"""Lines as arrays of numbers against splitting them in Python."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpitune.corpus.text import parse_number, split_fields, split_words
from mpitune.corpus.tokens import LINKS, NEW, SCORES, SKIPPED, WORDS, LineSplitter, parse_float32, runs

pytestmark = pytest.mark.kernel

TOKEN = st.sampled_from(
    [
        "a",
        "b",
        "\u00fc",
        "|||",
        "||",
        "||||",
        "x=1",
        "x=",
        "=",
        "x=y=-2.5",
        "1e3",
        "1e30",
        "1e31",
        "0.1",
        "nan",
        "1\x0b",
    ]
    + ["0-0", "1-20", "32767-0", "32768-0", "0-0-0", "-1", "1-", "-", "0000001-2"]
)
LINE = st.lists(st.tuples(TOKEN, st.sampled_from([" ", "\t", "  "])), max_size=12).map(
    lambda pairs: "".join(token + blank for token, blank in pairs)
)


def naive(line: str, kinds: Sequence[int]) -> list[list[object]]:
    """The tokens of each field: words, names with their values, links."""
    fields = split_fields(line) if len(kinds) > 1 else [line]
    return [
        [of_kind(token, kind) for token in split_words(field)] if kind != SKIPPED else []
        for field, kind in zip(fields + [""] * len(kinds), kinds, strict=False)
    ]


def of_kind(token: str, kind: int) -> object:
    if kind == WORDS:
        return token
    if kind == LINKS:
        link = re.fullmatch("([0-9]+)-([0-9]+)", token)
        return int(link[1]) | int(link[2]) << 16 if link and int(link[1]) < 32768 and int(link[2]) < 32768 else -1
    name, equals, number = token.rpartition("=")
    try:
        return name + equals, str(parse_number(number))
    except ValueError:
        return name + equals, "nan"


@given(
    st.lists(st.lists(LINE, max_size=5), max_size=3),
    st.sampled_from([(WORDS,), (WORDS, SCORES), (SKIPPED, LINKS, SCORES, WORDS), (WORDS, WORDS, WORDS, SCORES, LINKS)]),
)
def test_any_lines_are_split_as_in_python(blocks: list[list[str]], kinds: tuple[int, ...]) -> None:
    splitter, numbers = LineSplitter(), dict[str, int]()
    for block in blocks:
        text = bytearray("".join(f"{line}\n" for line in block).encode())
        lines = splitter.split(text, kinds)
        assert [text[a:b].decode() for a, b in zip(lines.start[:-1], lines.start[1:], strict=True)] == [
            f"{line}\n" for line in block
        ]
        assert lines.fields.tolist() == [len(split_fields(line)) if len(kinds) > 1 else 1 for line in block]
        for n, line in enumerate(block):
            for field, (kind, expected) in enumerate(zip(kinds, naive(line, kinds), strict=True)):
                ptr, token = lines.row(field)
                found: list[object] = token[ptr[n] : ptr[n + 1]].tolist()
                if kind in (WORDS, SCORES):
                    names = [splitter.words.texts(np.array([each]))[0] if each != -1 else "" for each in found]
                    assert all(numbers.setdefault(name, each) == each for name, each in zip(names, found, strict=True))
                    values = [str(value) for value in lines.value[ptr[n] : ptr[n + 1]].tolist()]
                    found = list(names) if kind == WORDS else list(zip(names, values, strict=True))
                assert found == expected
    assert len(set(numbers.values())) == len(numbers)


def test_words_are_new_once_in_each_role_and_in_the_order_of_lines() -> None:
    splitter = LineSplitter()
    lines = splitter.split(bytearray(b"b a ||| a c\na ||| b d a\n"), (WORDS, WORDS))
    meaning = splitter.with_new(np.zeros(0, dtype="i4, i4"), np.array((NEW, NEW), dtype="i4, i4"))
    roles = [(*lines.row(field), meaning[f"f{field}"]) for field in (0, 1)]
    new = splitter.new_words(roles)
    assert [(role, place, text) for role, place, _, text in new] == [
        (0, 0, "b"), (0, 1, "a"), (1, 0, "a"), (1, 1, "c"), (1, 2, "b"), (1, 3, "d"),
    ]  # fmt: skip
    for role, _, number, _ in new:
        meaning[f"f{role}"][number] = 0
    assert splitter.new_words(roles) == []


def test_many_words_keep_their_numbers_as_the_table_grows() -> None:
    splitter = LineSplitter()
    words = [f"w{n}" for n in range(3000)]
    text = bytearray("".join(f"{' '.join(words[n : n + 7])}\n" for n in range(0, 3000, 5)).encode())
    first = splitter.split(text, (WORDS,)).row(0)[1].copy()
    assert splitter.words.texts(np.arange(3000)) == words
    assert np.array_equal(splitter.split(text, (WORDS,)).row(0)[1], first)


def test_runs_of_equal_values() -> None:
    assert list(runs(np.array([True, True, False, True]))) == [(0, 2, True), (2, 3, False), (3, 4, True)]
    assert list(runs(np.zeros(0, dtype=np.bool_))) == []


@pytest.mark.parametrize(
    "text", ["1", "-2.50", "1e-40", "3.4e38", "-0", "123456789012345678901", "1e39", "x", "1e", "."]
)
def test_numbers_are_rounded_for_float32(text: str) -> None:
    found = parse_float32(np.frombuffer(bytearray(text.encode()), dtype=np.uint8), 0, len(text))
    expected = np.float32(text) if re.search("[0-9]$", text) and text != "1e39" else np.float32("nan")
    assert np.float32(found).tobytes() == expected.tobytes()
