"""The compiled parser against the parser of single lines: same numbers, same names, same errors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mpitune.corpus.vocabulary import Vocabulary
from mpitune.grammar.compiled_parser import CompiledParser
from mpitune.grammar.formats import CdecFormat, JoshuaFormat, MalformedLine
from mpitune.grammar.line_parser import UNNAMED, LineParser, ParsedLines, Vocabularies

pytestmark = pytest.mark.kernel

Result = tuple[list[list[object]], list[list[str]], str]


def result(parser: type[CompiledParser | LineParser], of_format: CdecFormat, blocks: list[str]) -> Result:
    """The fields of all lines, a list for each line; words and categories, unless there is an error; the error."""
    vocabularies = Vocabularies(Vocabulary(), Vocabulary(["S", "X"]), Vocabulary([UNNAMED]))
    chosen = parser(of_format, vocabularies)
    lines: list[list[object]] = []
    try:
        for block in blocks:
            for parsed in chosen.parse(bytearray(block.encode())):
                lines += each_line(parsed, vocabularies.labels)
    except MalformedLine as raised:
        return lines, [], f"{raised.found}, {raised.expected}"
    return lines, [names.words for names in vocabularies[:2]], ""


def each_line(parsed: ParsedLines, labels: Vocabulary) -> Iterator[list[object]]:
    for n, lhs in enumerate(parsed.lhs.tolist()):
        fields: list[object] = [lhs]
        for ptr, flat in (
            (parsed.source_ptr, parsed.source),
            (parsed.target_ptr, parsed.target),
            (parsed.align_ptr, parsed.align),
            (parsed.score_ptr, parsed.score),
        ):
            # The type too, and the bits of numbers: -0.0 is not 0.0.
            fields.append((flat.dtype.str, flat[ptr[n] : ptr[n + 1]].tobytes()))
        # Labels by name, as their numbers do not matter.
        fields.append(labels.decode(parsed.label[parsed.score_ptr[n] : parsed.score_ptr[n + 1]]))
        yield fields


def same(of_format: CdecFormat, blocks: list[str]) -> None:
    assert result(CompiledParser, of_format, blocks) == result(LineParser, of_format, blocks)


FORMATS = st.sampled_from([CdecFormat(), JoshuaFormat()])
GAPS = [
    "[X,1]",
    "[X,2]",
    "[X]",
    "[NP,1]",
    "[NP,2]",
    "[1]",
    "[2]",
    "[3]",
    "[X,0]",
    "[X,3]",
    "[X,01]",
    "[a,b]",
    "[]",
    "[",
]
WORDS = ["a", "b", "\u00fc", "||", "||||", "=", "\v", "x\u00a0y", "S", "[X][X]"]
SIDE = st.lists(st.sampled_from(GAPS + WORDS), max_size=4).map(" ".join)
SCORE = st.sampled_from(["1", "0", "-0", "A=1", "B=-2.5", "A=B=1", "=1", "A=", "A", "C\u00a0=1", "D=\u00a01", "1\x0b2"])
LINK = st.sampled_from(["0-0", "1-0", "0-1", "2-2", "00-0", "0-", "-0", "-", "0", "0-0-0", "0:0", "99999999999-0"])
BLANKS = st.sampled_from([" ", "\t", "  ", ""])


@st.composite
def lines(draw: st.DrawFn) -> str:
    fields = [draw(st.sampled_from(["[X]", "[NP]", "[S]", "X", "[X] [X]", "", "[X,1]"])), draw(SIDE), draw(SIDE)]
    fields.append(" ".join(draw(st.lists(SCORE, max_size=3))))
    fields.append(" ".join(draw(st.lists(LINK, max_size=3))))
    fields = fields[: draw(st.integers(2, 5))] + draw(st.sampled_from([[], [], [], [""]]))
    separator = f"{draw(BLANKS)}|||{draw(BLANKS)}"
    return separator.join(fields) + draw(st.sampled_from(["", "", "\r", " ", " \r"]))


@given(FORMATS, st.lists(st.lists(lines(), max_size=3), max_size=3))
@example(CdecFormat(), [["[X] ||| [X,2] a [X,1] ||| [1] b [2] ||| A=1 ||| 1-1", "[X] ||| a ||| b"]])
@example(CdecFormat(), [["[NP] ||| [VP,1] a ||| b [1]", "[S] ||| a ||| a"]])
def test_any_line_is_parsed_as_by_the_parser_of_lines(of_format: CdecFormat, blocks: list[list[str]]) -> None:
    same(of_format, ["".join(f"{line}\n" for line in block) for block in blocks])


NUMBER = st.from_regex(r"[+-]?[0-9]{0,20}(\.[0-9]{0,20})?([eE][+-]?[0-9]{1,4})?", fullmatch=True)


@given(st.lists(NUMBER | st.floats().map(repr) | st.floats(0, 10).map("{:.12g}".format), min_size=1, max_size=8))
@example(["1e22", "1e23", "9007199254740993", "9007199254740992", "0.1", "1e-22", "4.9e-324", "1e308", "1e309", "-0.0"])
@example([".1", "1.", ".", "", "e1", "1e", "1e+", "--1", "0x1p3", "1_0", "infinity", "1e-400", "0e999"])
def test_any_number_is_rounded_as_by_python(numbers: list[str]) -> None:
    same(CdecFormat(), ["".join(f"[X] ||| a ||| b ||| A={number} {number}\n" for number in numbers)])
    for number in numbers:
        same(JoshuaFormat(), [f"[X] ||| a ||| b ||| A={number} {number}\n"])


@pytest.mark.parametrize("of_format", [CdecFormat(), JoshuaFormat()])
def test_usual_lines_need_no_parser_of_lines(of_format: CdecFormat, monkeypatch: pytest.MonkeyPatch) -> None:
    block = """\
[X] ||| der mann ||| the man ||| A=1.77815125038 B=0 ||| 0-0 1-1
[X] ||| ne [X,1] pas ||| not [X,1] ||| -1.5 2 3e-05 ||| 0-0 2-0
[NP-SBJ] ||| [X,1] de [NP,2] ||| [NP,2] 's [X,1] ||| A=0.12345678901234567 ||| 1-1
[S]\t|||\t[S] [X] ||| [S,1] [X,2]
[X] ||| a ||| |||
"""
    expected = result(LineParser, of_format, [block])
    monkeypatch.setattr(LineParser, "parse", None)
    assert result(CompiledParser, of_format, [block]) == expected
    assert len(expected[0]) == 5


@pytest.mark.large
def test_a_side_has_so_many_symbols_at_most() -> None:
    for count in (32767, 32768):
        same(CdecFormat(), [f"[X] ||| a ||| {'b ' * count}||| 1 ||| 0-{count - 1}\n"])


def test_arrays_of_one_block_do_not_change_with_the_next() -> None:
    parser = CompiledParser(CdecFormat(), Vocabularies(Vocabulary(), Vocabulary(["S", "X"]), Vocabulary([UNNAMED])))
    [first] = parser.parse(bytearray(b"[X] ||| a b ||| c ||| 1 2 ||| 0-0\n"))
    before = [array.copy() for array in first]
    list(parser.parse(bytearray(b"[S] ||| d ||| e f ||| 3 ||| 0-1\n")))
    assert all(map(np.array_equal, first, before))
