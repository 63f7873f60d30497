"""Sentences with their grammars, references, words and fields."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpitune.corpus import text
from mpitune.errors import DataError


def write(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


@pytest.mark.parametrize("line", ["{}", '<seg id="0"> {} </seg>'])
def test_a_sentence_has_so_many_words_at_most(tmp_path: Path, line: str) -> None:
    longest = "wort " * text.MAX_WORDS
    path = write(tmp_path / "a", f"wort\n{line.format(longest)}\n")
    assert [len(sentence.words) for sentence in text.read_sentences(path)] == [1, text.MAX_WORDS]
    for separator, read in ((" ", text.read_sentences), (" ||| word", text.read_bitext)):
        path = write(tmp_path / "a", f"wort{separator}\n{line.format(longest + 'wort')}{separator}\n")
        with pytest.raises(DataError, match=rf"a:2: found {text.MAX_WORDS + 1} words, expected .* {text.MAX_WORDS}:"):
            read(path)


def test_references_have_the_limits_of_sentences(tmp_path: Path) -> None:
    source = write(tmp_path / "s", "wort\nwort\n")
    for line, found in (
        ("wort " * (text.MAX_WORDS + 1), f"{text.MAX_WORDS + 1} words"),
        ("w" * (text.MAX_WORD_LENGTH + 1), f"a word of {text.MAX_WORD_LENGTH + 1} characters"),
    ):
        with pytest.raises(DataError, match=f"r:2: found {found}, expected "):
            text.read_references([write(tmp_path / "r", f"wort\n{line}\n")])
        references = write(tmp_path / "r", f"wort\n{line}\n")
        with pytest.raises(DataError, match=f"r:2: found {found}, expected "):
            text.read_parallel(source, [references])
        with pytest.raises(DataError, match=f"b:1: found {found}, expected "):
            text.read_bitext(write(tmp_path / "b", f"wort ||| wort ||| {line}\n"))
        with pytest.raises(DataError, match=f"r:2: found {found}, expected "):
            text.read_sentences(references)
    bitext = write(tmp_path / "r", "wort\nwort ||| wort\n")
    for read in (lambda: text.read_parallel(source, [bitext]), lambda: text.read_references([bitext])):
        with pytest.raises(DataError, match=r"r:2: found the separator \|\|\|, expected a sentence alone"):
            read()
    longest = write(tmp_path / "r", f"{'wort ' * text.MAX_WORDS}\n{'w' * text.MAX_WORD_LENGTH}\n")
    assert len(text.read_parallel(source, [longest])) == 2


def test_words_are_separated_by_blanks_and_tabs_only() -> None:
    assert text.split_words("  ein\twort\u00a0mehr   \u3000 ") == ["ein", "wort\u00a0mehr", "\u3000"]


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("a ||| b", ["a ", " b"]),
        ("||| |||", ["", " ", ""]),
        ("a\t|||\tb", ["a\t", "\tb"]),
        ("a |||| b||| |||c", ["a |||| b||| |||c"]),
        ("", [""]),
    ],
)
def test_fields_are_separated_by_bars_that_stand_alone(line: str, fields: list[str]) -> None:
    assert text.split_fields(line) == fields


@pytest.mark.parametrize("bad", ["", "x", "nan", "inf", "-inf", "1e999", "1_0", "1,5", "0x1"])
def test_numbers_are_finite_and_plain(bad: str) -> None:
    assert text.parse_number("-1.5e-3") == -0.0015
    with pytest.raises(ValueError):
        text.parse_number(bad)


@pytest.mark.parametrize(
    ("line", "words", "grammar"),
    [
        ("ein  haus", ["ein", "haus"], False),
        ("", [], False),
        ("<segment a < b", ["<segment", "a", "<", "b"], False),
        ('<seg grammar="g/0.gz" id="0">ein haus</seg>', ["ein", "haus"], True),
        ('<seg id="0"  grammar="g/0.gz"> ein haus </seg> \t ', ["ein", "haus"], True),
        ('  <seg  x-y="a b" id = "7" grammar= "g/0.gz"  >a "b" > c</seg>', ["a", '"b"', ">", "c"], True),
        ('<seg id="3">ein haus</seg>', ["ein", "haus"], False),
        ("<seg>ein haus</seg>", ["ein", "haus"], False),
        ('<seg grammar="g/0.gz" id="0"></seg>', [], True),
    ],
)
def test_legal_sentences_are_read(tmp_path: Path, line: str, words: list[str], grammar: bool) -> None:
    (tmp_path / "g").mkdir()
    file = write(tmp_path / "g" / "0.gz", "")
    [sentence] = text.read_sentences(write(tmp_path / "in", line + "\n"))
    assert sentence == text.SourceSentence(words, file if grammar else None)


@pytest.mark.parametrize(
    "line",
    [
        '<seg grammar="g" id="0">ein haus',
        "ein haus</seg>",
        '<seg grammar="g id="0">ein haus</seg>',
        "<seg grammar=g>ein haus</seg>",
        "<seg grammar>ein haus</seg>",
        '<seg grammar="g" grammar="g">ein haus</seg>',
        '<seg id="0">ein</seg> haus',
        'das <seg id="0">haus</seg>',
        '<seg id="0">ein</seg> <seg id="1">haus</seg>',
        '<seg id="0"',
        "<seg",
    ],
)
def test_malformed_segments_are_refused(tmp_path: Path, line: str) -> None:
    write(tmp_path / "g", "")
    with pytest.raises(DataError, match=r"in:2: found a malformed segment"):
        text.read_sentences(write(tmp_path / "in", "gut\n" + line + "\n"))


def test_grammars_lie_beside_the_file_or_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside, working = tmp_path / "beside", tmp_path / "working"
    beside.mkdir()
    working.mkdir()
    monkeypatch.chdir(working)
    source = write(beside / "in", '<seg grammar="g">a</seg>\n')
    with pytest.raises(DataError, match=r"in:1: found no such grammar file 'g'"):
        text.read_sentences(source)
    write(working / "g", "")
    assert text.read_sentences(source)[0].grammar == Path("g")
    write(beside / "g", "")
    assert text.read_sentences(source)[0].grammar == beside / "g"
    absolute = write(tmp_path / "in", f'<seg grammar="{working / "g"}">a</seg>\n')
    assert text.read_sentences(absolute)[0].grammar == working / "g"


def test_a_name_that_is_too_long_for_a_file_is_none(tmp_path: Path) -> None:
    path = write(tmp_path / "a", f'<seg grammar="{"g" * 5000}">wort</seg>\n')
    assert text.resolve("g" * 5000, path) is None
    with pytest.raises(DataError, match="a:1: found no such grammar file 'ggg"):
        text.read_sentences(path)


def test_a_bitext_is_not_taken_for_a_source(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"in:1: found the separator"):
        text.read_sentences(write(tmp_path / "in", "a ||| b\n"))


def test_a_bitext_has_a_source_and_references(tmp_path: Path) -> None:
    write(tmp_path / "g", "")
    path = write(tmp_path / "in", '<seg grammar="g"> a b </seg> ||| x ||| y z\n ||| \nc ||| |||| w\n')
    assert text.read_bitext(path) == [
        (text.SourceSentence(["a", "b"], tmp_path / "g"), [["x"], ["y", "z"]]),
        (text.SourceSentence([], None), [[]]),
        (text.SourceSentence(["c"], None), [["||||", "w"]]),
    ]
    assert len(text.read_bitext(path, limit=2)) == 2
    with pytest.raises(DataError, match=r"in:2: found 1 field"):
        text.read_bitext(write(tmp_path / "in", "a ||| b\nc\n"))


def test_references_are_as_many_as_sources(tmp_path: Path) -> None:
    source = write(tmp_path / "s", "a\n\nc\n")
    first, second = write(tmp_path / "r1", "x\ny y\nz\n"), write(tmp_path / "r2", "u\nv\nw")
    pairs = text.read_parallel(source, [first, second])
    assert [pair.source.words for pair in pairs] == [["a"], [], ["c"]]
    assert [pair.references for pair in pairs] == [[["x"], ["u"]], [["y", "y"], ["v"]], [["z"], ["w"]]]
    assert text.read_parallel(source, [first, second], limit=2) == pairs[:2]
    for content, count in (("x\ny\n", 2), ("x\ny\nz\n\n", 4), ("", 0)):
        short = write(tmp_path / "r3", content)
        for limit in (0, 1):
            with pytest.raises(DataError, match=rf"r3: found {count} lines, expected 3, as many as .*s has"):
                text.read_parallel(source, [first, short], limit)


@pytest.mark.parametrize("filled", [0, 1])
@pytest.mark.parametrize("blank", ["", " \t", "\u00a0\u3000"])
def test_an_empty_reference_beside_a_filled_one_is_missing(tmp_path: Path, filled: int, blank: str) -> None:
    """Whichever file comes first. Where all are empty, the translation is to be empty."""
    lines = [["a b", blank], ["c", "d e"], [blank, blank], ["f", blank]]
    columns = [[line[n] for line in lines] for n in ((0, 1) if filled == 0 else (1, 0))]
    paths = [write(tmp_path / f"r{n}", "".join(f"{line}\n" for line in column)) for n, column in enumerate(columns)]
    source = write(tmp_path / "s", "w\n" * 4)
    rows = zip(*columns, strict=True)
    bitext = write(tmp_path / "b", "".join(f"w ||| {one} ||| {other}\n" for one, other in rows))
    missing = "{}: 2 of 4 lines are empty where another reference is not: counted as missing"
    for read, name in (
        (lambda warn: text.read_parallel(source, paths, warn=warn), paths[1 - filled]),
        (lambda warn: text.read_references(paths, warn=warn), paths[1 - filled]),
        (lambda warn: text.read_bitext(bitext, warn=warn), f"{bitext}, field {3 - filled}"),
    ):
        told: list[str] = []
        pairs = read(told.append)
        assert [pair.references for pair in pairs[::3]] == [[["a", "b"]], [["f"]]]
        assert sorted(pairs[1].references) == [["c"], ["d", "e"]]
        assert not any("".join(reference).strip() for reference in pairs[2].references) and pairs[2].references
        assert told == [missing.format(name)]


def test_lines_of_a_bitext_lack_references_of_their_own(tmp_path: Path) -> None:
    told: list[str] = []
    content = "a ||| x ||| ||| z\nb |||\nc ||| x |||\nd ||| ||| y\ne ||| x\n"
    pairs = text.read_bitext(write(tmp_path / "in", content), warn=told.append)
    assert [pair.references for pair in pairs] == [[["x"], ["z"]], [[]], [["x"]], [["y"]], [["x"]]]
    lack = "lines are empty where another reference is not: counted as missing"
    assert told == [f"{tmp_path}/in, field 2: 1 of 5 {lack}", f"{tmp_path}/in, field 3: 2 of 5 {lack}"]


def test_real_segments_name_their_grammars(shared: Path) -> None:
    sentences = text.read_sentences(shared / "data" / "nc" / "persent.in")
    assert len(sentences) == 10
    assert sentences[0].words == ["europas", "nach", "rassen", "geteiltes", "haus"]
    assert sentences[9].grammar == shared / "data" / "nc" / "persent" / "grammar.out.9.gz"
