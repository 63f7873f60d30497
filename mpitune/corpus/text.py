"""Sentences with their grammars, references, and the words and fields of a line.

Words are separated by blanks and tabs only: other Unicode spaces are parts of words, as in the decoders that read the
same files.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from mpitune.corpus.lines import lines
from mpitune.corpus.wording import counted
from mpitune.errors import DataError
from mpitune.files import is_file

MAX_WORDS = 5000
"""Maximum number of words of a sentence or reference; decoding takes memory quadratic in it, 1 GB at the maximum."""
MAX_WORD_LENGTH = 10_000
"""Maximum number of characters of a word of a sentence or reference."""

LARGEST_NUMBER = 1e30
"""Largest absolute value of scores and weights: sums and products with larger ones overflow."""
IN_RANGE = "a number from -1e30 to 1e30"

SEG_TAG = re.compile(r"<seg(?=[ \t>]|$)|</seg>")
"""A part of the tag around a sentence that names its grammar; such a sentence cannot contain it."""
_SEG = re.compile(r'<seg((?:[ \t]+[^\s<>="]+[ \t]*=[ \t]*"[^"]*")*)[ \t]*>(.*)</seg>')
_ATTRIBUTE = re.compile(r'([^\s<>="]+)[ \t]*=[ \t]*"([^"]*)"')
_SEPARATOR = re.compile(r"\|\|\|(?<![^ \t]\|\|\|)(?![^ \t])")

_Reference = TypeVar("_Reference", str, list[str])
Warn = Callable[[str], object]
"""Is told what is odd about a text."""


class SourceSentence(NamedTuple):
    """One input sentence."""

    words: list[str]
    grammar: Path | None
    """The grammar file named by its ``<seg>`` tag, if any."""


class SentencePair(NamedTuple):
    """One input sentence and its reference translations."""

    source: SourceSentence
    references: list[list[str]]


def split_words(text: str) -> list[str]:
    """The words of ``text``, separated by blanks and tabs."""
    return list(filter(None, text.replace("\t", " ").split(" ")))


def split_fields(line: str) -> list[str]:
    """The fields of ``line``, separated by ``|||`` between blanks, tabs or line ends."""
    return _SEPARATOR.split(line)


def split_first_field(line: str) -> tuple[str, str]:
    """The first field of ``line``, and the others, from their first ``|||`` on; "" without any."""
    separator = _SEPARATOR.search(line)
    return (line[: separator.start()], line[separator.start() :]) if separator else (line, "")


def parse_number(text: str) -> float:
    """The number in ``text``, in ASCII. Raises ValueError for anything else, and beyond `LARGEST_NUMBER`."""
    value = float(text)
    # `float` also takes _ between digits, and the digits and blanks of all scripts.
    if "_" in text or not (text.isascii() and text.isprintable()) or not abs(value) <= LARGEST_NUMBER:
        raise ValueError(text)
    return value


def resolve(name: str, beside: Path) -> Path | None:
    """The file ``name`` in the folder of the file ``beside``, else in the working folder; None if in neither."""
    return next((path for path in (beside.parent / name, Path(name)) if is_file(path)), None)


def read_sentences(path: Path) -> list[SourceSentence]:
    """The sentences of a source file. Raises DataError for a bad line."""
    return [_source(path, number, line) for number, line in lines(path)]


def read_bitext(path: Path, limit: int = 0, warn: Warn = lambda text: None) -> list[SentencePair]:
    """The pairs of lines ``source ||| reference [||| reference ...]``, at most ``limit`` (0: all).

    ``warn``: see `joined_references`. Raises DataError for a bad line.
    """
    pairs = [_pair(path, number, line) for number, line in islice(lines(path), limit or None)]
    fields = range(2, 2 + max((len(pair.references) for pair in pairs), default=0))
    return _with_joined(pairs, [f"{path}, field {n}" for n in fields], warn)


def read_parallel(
    source: Path, references: Sequence[Path], limit: int = 0, warn: Warn = lambda text: None
) -> list[SentencePair]:
    """The sentences of ``source`` with their translations from each of ``references``, line by line.

    ``warn``: see `joined_references`. Raises DataError for a bad line, or if a file has more or fewer lines than the
    source.
    """
    inputs: list[SourceSentence] = []
    count = 0
    for count, line in lines(source):
        if not limit or count <= limit:
            inputs.append(_source(source, count, line))
    translations: list[list[list[str]]] = [[] for _ in inputs]
    for path in references:
        number = 0
        for number, line in lines(path):
            if number <= len(inputs):
                translations[number - 1].append(checked_words(path, number, line))
        if number != count:
            raise DataError.at(path, None, found=counted(number, "line"), expected=f"{count}, as many as {source} has")
    pairs = [SentencePair(*pair) for pair in zip(inputs, translations, strict=True)]
    return _with_joined(pairs, references, warn)


def read_references(references: Sequence[Path], limit: int = 0, warn: Warn = lambda text: None) -> list[SentencePair]:
    """The translations of sentences from each of ``references``, line by line; the sentences have no words.

    ``warn``: see `joined_references`. Raises DataError if a file has more or fewer lines than the first one.
    """
    texts = [[checked_words(path, number, line) for number, line in lines(path)] for path in references]
    for path, text in zip(references, texts, strict=True):
        if len(text) != len(texts[0]):
            expected = f"{len(texts[0])}, as many as {references[0]} has"
            raise DataError.at(path, None, found=counted(len(text), "line"), expected=expected)
    nothing = SourceSentence([], None)
    pairs = [SentencePair(nothing, list(of_one)) for of_one in islice(zip(*texts, strict=True), limit or None)]
    return _with_joined(pairs, references, warn)


def joined_references(
    sentences: Iterable[Sequence[_Reference]], names: Sequence[object], warn: Warn
) -> list[Sequence[_Reference | None]]:
    """The references of each of the ``sentences``, one of each of the texts ``names``, or of the first ones of these.

    An empty reference beside one that is not is missing, and becomes None: as a translation to nothing, it would be
    the closest one in length to every translation that is too short. ``warn`` is told how many each text lacks.
    """
    joined, missing = list[Sequence[_Reference | None]](), Counter[int]()
    for references in sentences:
        # Blanks of all scripts: sacreBLEU separates words by them.
        filled = [any(map(str.strip, reference)) for reference in references]
        if all(filled) or not any(filled):
            joined.append(references)
        else:
            joined.append([each if is_filled else None for each, is_filled in zip(references, filled, strict=True)])
            missing.update(n for n, is_filled in enumerate(filled) if not is_filled)
    for n, count in sorted(missing.items()):
        what = f"{count} of {len(joined)} lines are empty where another reference is not"
        warn(f"{names[n]}: {what}: counted as missing")
    return joined


def _with_joined(pairs: Sequence[SentencePair], names: Sequence[object], warn: Warn) -> list[SentencePair]:
    """``pairs`` without missing references."""
    joined = joined_references([pair.references for pair in pairs], names, warn)
    return [
        pair if None not in references else pair._replace(references=[each for each in references if each is not None])
        for pair, references in zip(pairs, joined, strict=True)
    ]


def _pair(path: Path, number: int, line: str) -> SentencePair:
    source, *references = split_fields(line)
    if not references:
        raise DataError.at(path, number, found="1 field", expected="source ||| reference [||| reference ...]")
    texts = [checked_words(path, number, reference) for reference in references]
    return SentencePair(_source(path, number, source), texts)


def _source(path: Path, number: int, text: str) -> SourceSentence:
    """A sentence, plain or inside ``<seg ...> </seg>``."""
    text = text.strip(" \t")
    if not SEG_TAG.search(text):
        return SourceSentence(checked_words(path, number, text), None)
    match = _SEG.fullmatch(text)
    attributes = _ATTRIBUTE.findall(match[1]) if match else []
    if match is None or SEG_TAG.search(match[2]) or len(dict(attributes)) < len(attributes):
        expected = '<seg grammar="FILE" id="N">sentence</seg> or plain text'
        raise DataError.at(path, number, found=f"a malformed segment {text[:60]!r}", expected=expected)
    name = dict(attributes).get("grammar")
    if name is None:
        return SourceSentence(checked_words(path, number, match[2]), None)
    grammar = resolve(name, beside=path)
    if grammar is None:
        expected = f"one in {path.parent} or in the working folder"
        raise DataError.at(path, number, found=f"no such grammar file {name!r}", expected=expected)
    return SourceSentence(checked_words(path, number, match[2]), grammar)


def checked_words(path: Path, number: int, text: str) -> list[str]:
    """The words of a sentence or reference: at most `MAX_WORDS`, of at most `MAX_WORD_LENGTH` characters each."""
    words = split_words(text)
    if "|||" in words:
        raise DataError.at(path, number, found="the separator |||", expected="a sentence alone, not a bitext")
    if len(words) > MAX_WORDS:
        expected = f"a sentence of at most {MAX_WORDS}: is a line end missing?"
        raise DataError.at(path, number, found=f"{len(words)} words", expected=expected)
    if (longest := max(map(len, words), default=0)) > MAX_WORD_LENGTH:
        expected = f"words of at most {MAX_WORD_LENGTH}: is a blank missing?"
        raise DataError.at(path, number, found=f"a word of {longest} characters", expected=expected)
    return words
