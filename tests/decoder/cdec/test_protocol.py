"""What is said to cdec and what it answers, as text."""

from __future__ import annotations

import base64
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import fake_cdec
from support.fake import Session

from mpitune.decoder.cdec.protocol import BadAnswer, completions, decode, encode, entry, segment

NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=8)
VALUES = st.floats(allow_nan=False)


def as_sent(features: dict[str, float]) -> str:
    """As cdec sends them; see tests/support/fake_cdec.py for what it leaves out."""
    return fake_cdec.encode(features)


def record(features: dict[str, float]) -> bytes:
    return b"".join(name.encode() + b"\0" + struct.pack("<d", value) for name, value in features.items())


@given(st.dictionaries(NAMES, VALUES))
def test_what_is_sent_can_be_read(features: dict[str, float]) -> None:
    sent = encode(features.items())
    assert base64.b64decode(sent, validate=True) == record(features)
    assert fake_cdec.decode(sent) == list(features.items())


@given(st.dictionaries(NAMES, VALUES.filter(bool)))
def test_what_is_received_is_read_but_for_a_nibble(features: dict[str, float]) -> None:
    found, guessed = decode(as_sent(features))
    assert [name.decode() for name in found] == list(features), "in the order of the answer"
    lossy = len(record(features)) % 3 == 2
    assert guessed == (list(found)[-1] if lossy else None)
    exact = list(features.items())[: -1 if lossy else None]
    assert [(name, found[name.encode()]) for name, _ in exact] == exact
    if lossy:
        assert list(features.values())[-1] in completions(found[guessed or b""])


@given(st.binary(min_size=7, max_size=7), st.sampled_from([0x00, 0x3F, 0x40, 0x80, 0xBF, 0xC0]))
def test_the_usual_last_byte_is_restored(first: bytes, last: int) -> None:
    """The last byte of a double of magnitude 2^-15 to 2^17, or of 0, is one of these."""
    sent = base64.b64encode(b"ab\0" + first + bytes([last])).decode()
    found, guessed = decode(sent[:-2] + "==")
    assert guessed == b"ab" and struct.pack("<d", found[b"ab"]) == first + bytes([last])


@pytest.mark.parametrize("exponent", range(-15, 17))
def test_magnitudes_with_a_usual_last_byte(exponent: int) -> None:
    for value in (2.0**exponent, -1.75 * 2.0**exponent):
        found, guessed = decode(as_sent({"abcd": value}))  # 4 + 1 + 8 bytes
        assert guessed is None and found == {b"abcd": value}
        found, guessed = decode(as_sent({"abcde": value}))
        assert guessed == b"abcde" and found == {b"abcde": value}


@given(VALUES)
def test_completions_differ_in_the_lowest_bits_of_the_last_byte(value: float) -> None:
    found = [struct.pack("<d", number) for number in completions(value)]
    assert len(set(found)) == 16 and {data[:7] for data in found} == {struct.pack("<d", value)[:7]}
    assert {data[7] >> 4 for data in found} == {struct.pack("<d", value)[7] >> 4}


def test_nothing_sent_is_nothing() -> None:
    assert decode("") == ({}, None) and encode([]) == ""


@pytest.mark.parametrize(
    "text",
    [
        "*",
        "A",
        "YQ",
        encode([("a", 1.0)])[:-4],
        encode([("a", 1.0)]) + "YQ==",
        "YWJj",
        "YQAAAA==",
        "\u00e4\u00e4\u00e4=",
    ],
)
def test_what_is_no_record_is_refused(text: str) -> None:
    with pytest.raises((ValueError, struct.error)):
        decode(text)


def test_segments_carry_weights_and_grammars(tmp_path: Path) -> None:
    assert segment(3, ["ein", "haus"], None, []) == '<seg id="3">ein haus</seg>'
    delta = [("Glue", -0.5), ("R:X:ä:b", 2.0**-44)]
    line = segment(0, ["x"], tmp_path / "g.gz", delta)
    assert line == f'<seg id="0" grammar="{tmp_path}/g.gz" delta="{encode(delta)}">x</seg>'
    found = fake_cdec.SEGMENT.fullmatch(line)
    assert found and fake_cdec.decode(found[3]) == delta


def test_entries_of_a_list_are_read() -> None:
    found = entry(f"7 ||| 2 ||| the  house ||| {as_sent({'Glue': 1.0, 'ä': -0.25})} ||| -1.5e-05", 7)
    assert found == (["the", "house"], {b"Glue": 1.0, "ä".encode(): -0.25}, -1.5e-05, None)
    other_spaces = ["\N{NO-BREAK SPACE}the", "old\N{EM SPACE}house"]
    assert entry(f"7 ||| 2 ||| {' '.join(other_spaces)} |||  ||| 0", 7).words == other_spaces, "parts of words"
    assert entry("7 ||| 2 |||  |||  ||| 0", 7) == ([], {}, 0.0, None), "no words, no features"


@pytest.mark.parametrize(
    "line",
    [
        "Segmentation fault",
        "8 ||| 2 ||| a |||  ||| 0",
        "seven ||| 2 ||| a |||  ||| 0",
        "7 ||| 2 ||| a |||  ||| high",
        "7 ||| 2 ||| a ||| ",
        "7 ||| 2 ||| a |||  ||| 0 ||| 1",
        "7 ||| 2 ||| a ||| Glue=1 ||| 0",
        "7 ||| 2 ||| a ||| R2x1ZQAA ||| 0",
    ],
)
def test_what_is_no_entry_is_refused(line: str) -> None:
    with pytest.raises(BadAnswer, match="expected '7 "):
        entry(line, 7)


def test_a_recorded_session_is_said_byte_by_byte(session: Session) -> None:
    """Sent as recorded, byte by byte; all scores are what the restored values give."""
    weights = dict(session.weights)
    scores, guessed = [], 0
    for number, turn in enumerate(session.turns):
        delta = turn["delta"] or {}
        words = turn["sent"].partition(">")[2].removesuffix("</seg>").split(" ")
        sent = turn["sent"].replace(' delta=""', "")  # An empty one is left out now.
        assert segment(number, words, None, delta.items()) == sent
        for name, value in delta.items():
            weights[name] = weights.get(name, 0.0) + value
        count, *lines = (line.rstrip("\n") for line in turn["received"])
        assert count == (str(session.kbest) if lines else "") and len(lines) in (0, session.kbest)
        for line in lines:
            found = entry(line, number)
            score = sum(weights.get(name.decode(), 0.0) * value for name, value in found.features.items())
            assert f"{score:.6g}" == f"{found.score:.6g}"
            scores.append(score)
            guessed += found.guessed is not None
    assert (len(scores), guessed) == {3: (12, 3), 5: (25, 11)}[session.kbest]
