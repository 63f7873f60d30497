"""Lines, sentences, references and fingerprints."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mpitune.corpus import text
from mpitune.errors import DataError


def write(path: Path, content: str | bytes, *, zipped: bool = False) -> Path:
    raw = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(raw) if zipped else raw)
    return path


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("name", ["a.txt", "a.gz"])
def test_lines_are_opened_by_content_and_not_by_name(tmp_path: Path, name: str, zipped: bool) -> None:
    path = write(tmp_path / name, "eins\r\n\nzwei\u2028\x85\u00a0drei", zipped=zipped)
    assert list(text.lines(path)) == [(1, "eins"), (2, ""), (3, "zwei\u2028\x85\u00a0drei")]


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    assert list(text.lines(write(tmp_path / "a", ""))) == []
    assert list(text.lines(write(tmp_path / "b", "", zipped=True))) == []


def test_damaged_gzip_data_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress(b"".join(b"line %d\n" % i for i in range(5000)))
    corrupt = bytearray(whole)
    corrupt[len(whole) // 2] ^= 0xFF
    for raw in (whole[: len(whole) // 2], whole[:-4], whole[:5], bytes(corrupt), whole + b"tail"):
        path = write(tmp_path / "a.gz", raw)
        with pytest.raises(DataError, match=r"a\.gz:\d+: found damaged gzip data .*expected a whole gzip file"):
            list(text.lines(path))


def test_bytes_that_are_not_utf8_are_told_with_their_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a:2: found bytes that are not UTF-8"):
        list(text.lines(write(tmp_path / "a", b"gut\n\xff\xfe\n")))


@pytest.mark.parametrize(("pack", "name"), [(bz2.compress, "bzip2"), (lzma.compress, "xz")])
def test_other_packers_than_gzip_are_named(tmp_path: Path, pack: Callable[[bytes], bytes], name: str) -> None:
    packed = pack(b"".join(b"%d\n" % (n * n) for n in range(999)))
    with pytest.raises(DataError, match=f"a:1: found data packed by {name}, expected a text, plain or gzipped"):
        list(text.lines(write(tmp_path / "a", packed)))
    assert list(text.lines(write(tmp_path / "a", "BZh is a word\n"))) == [(1, "BZh is a word")]


def test_nul_characters_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a:2: found a NUL character, expected text without any"):
        list(text.lines(write(tmp_path / "a", "gut\nb\0se\n")))
    with pytest.raises(DataError, match=r"a:1: found bytes that are not UTF-8"):
        list(text.lines(write(tmp_path / "a", "gut\n".encode("utf-16"))))


def test_a_pipe_cannot_be_read_twice(tmp_path: Path) -> None:
    """Nobody writes to it: opening it would wait forever."""
    os.mkfifo(tmp_path / "pipe")
    for read in (text.check_readable, text.fingerprint):
        with pytest.raises(DataError, match=r"pipe: found a pipe or a device, expected a regular file"):
            read(tmp_path / "pipe")


@pytest.mark.parametrize("block", [1, 7, 1000])
@pytest.mark.parametrize("zipped", [False, True])
def test_blocks_have_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zipped: bool, block: int) -> None:
    monkeypatch.setattr(text, "_BLOCK", block)
    content = "\ufeffein wort\n\nund eine lange zeile\r\n" + 50 * "x" + "\nende"
    blocks = list(text.line_blocks(write(tmp_path / "a", content, zipped=zipped)))
    assert b"".join(blocks).decode() == content[1:] + "\n"
    assert all(not block or block.endswith(b"\n") for block in blocks)


@pytest.mark.parametrize("damage", ["cut", "latin"])
@pytest.mark.parametrize("block", [1, 1 << 20])
def test_lines_before_a_damaged_one_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, damage: str
) -> None:
    monkeypatch.setattr(text, "_BLOCK", block)
    content = b"".join(b"line %d\n" % i for i in range(50_000))
    zipped = gzip.compress(content)
    path = write(tmp_path / "a", zipped[: len(zipped) // 2] if damage == "cut" else content + b"t\xfcr\n" + content)
    read = []
    with pytest.raises(DataError) as error:
        for line in text.lines(path):
            read.append(line)
    assert len(read) >= 10_000
    assert read == [(i + 1, f"line {i}") for i in range(len(read))]
    assert str(error.value).startswith(f"{path}:{len(read) + 1}: found ")


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere: found no such file"):
        list(text.lines(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=r"found a folder, expected a readable file"):
        list(text.lines(tmp_path))
    with pytest.raises(DataError, match=r"nowhere: found no such file"):
        text.check_readable(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"expected a readable file \(an environment variable is written \${NAME}\)"):
        text.check_readable(tmp_path / "$DATA" / "train.de")
    text.check_readable(write(tmp_path / "here", ""))


@pytest.mark.parametrize("zipped", [False, True])
def test_a_byte_order_mark_is_no_text(tmp_path: Path, zipped: bool) -> None:
    path = write(tmp_path / "a", "\ufeffeins\n\ufeffzwei", zipped=zipped)
    assert list(text.lines(path)) == [(1, "eins"), (2, "\ufeffzwei")]


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
    first, second = write(tmp_path / "r1", "x\ny y\nz\n"), write(tmp_path / "r2", "u\nv\nw", zipped=True)
    pairs = text.read_parallel(source, [first, second])
    assert [pair.source.words for pair in pairs] == [["a"], [], ["c"]]
    assert [pair.references for pair in pairs] == [[["x"], ["u"]], [["y", "y"], ["v"]], [["z"], ["w"]]]
    assert text.read_parallel(source, [first, second], limit=2) == pairs[:2]
    for content, count in (("x\ny\n", 2), ("x\ny\nz\n\n", 4), ("", 0)):
        short = write(tmp_path / "r3", content)
        for limit in (0, 1):
            with pytest.raises(DataError, match=rf"r3: found {count} lines, expected 3, as many as .*s has"):
                text.read_parallel(source, [first, short], limit)


def test_real_segments_name_their_grammars(shared: Path) -> None:
    sentences = text.read_sentences(shared / "data" / "nc" / "persent.in")
    assert len(sentences) == 10
    assert sentences[0].words == ["europas", "nach", "rassen", "geteiltes", "haus"]
    assert sentences[9].grammar == shared / "data" / "nc" / "persent" / "grammar.out.9.gz"


def test_a_file_is_unchanged_by_time_or_by_content(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "eins")
    known = text.fingerprint(path)
    assert known.size == 4
    assert text.unchanged(known, path)
    os.utime(path, ns=(1, 1))
    assert text.unchanged(known, path), "same content at another time"
    assert text.unchanged(known, write(tmp_path / "b", "eins")), "same content elsewhere"
    other = write(tmp_path / "c", "zwei")
    os.utime(other, ns=(known.mtime_ns, known.mtime_ns))
    assert not text.unchanged(known, other), "another file of the same size and time"
    write(path, "vier")
    os.utime(path, ns=(2, 2))
    assert not text.unchanged(known, path)
    assert not text.unchanged(known, write(path, "eins und mehr"))
    path.unlink()
    assert not text.unchanged(known, path)
    with pytest.raises(DataError, match="no such file"):
        text.fingerprint(path)
