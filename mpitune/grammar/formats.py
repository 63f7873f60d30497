"""The formats of rule tables: those of cdec, Joshua and Moses. A line is converted to the notation of `line_parser`.

In all three formats a line consists of fields separated by ``|||``:

    cdec    [X] ||| [X,1] pas ||| not [1] ||| 0.5 Name=2 ||| 1-0
    Joshua  [X] ||| [X,1] pas ||| not [X,1] ||| 0.5 Name=2 ||| 1-0
    Moses   [X][X] pas [X] ||| not [X][X] [X] ||| 0.6 2.718 ||| 0-1 1-0 ||| 9 5 3 ||| Name 2

Features made of the scores (the reader leaves out zeros):

- cdec: the i-th score on the line, from 0, becomes ``PhraseModel_i``; named scores keep their name. Values are
  unchanged.
- Joshua: the i-th unnamed score, from 0, becomes ``tm_pt_i``, Joshua's name for a grammar with the owner ``pt``. It is
  a cost: the feature value is **minus** the score. Named scores keep name and sign (``FeatureVector``).
- Moses: the k-th score, from 1, becomes ``TranslationModel0_k``, Moses' own name (``ScoreComponentCollection::Save``);
  the value is its natural logarithm, floored at -100 (``TransformScore``, ``FloorScore``). Sparse scores become
  ``TranslationModel0_<name>`` with unchanged values.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Protocol

from mpitune.corpus.text import IN_RANGE, parse_number, split_fields, split_words
from mpitune.corpus.wording import counted
from mpitune.portable_math import log

LOG_FLOOR = -100.0
"""Lower bound of log scores in Moses, and the log score of 0."""

LHS = re.compile(r"\[([^\[\],\s]+)\]")
LINK = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")
_JOSHUA_SOURCE_GAP = re.compile(r"\[[^\[\],]+(?:,([0-9]+))?\]")
_JOSHUA_TARGET_GAP = re.compile(r"\[[^\[\],]+,[0-9]+\]")
_MOSES_GAP = re.compile(r"\[([^\[\],]+)\]\[([^\[\],]+)\]")


class MalformedLine(Exception):
    """An error in a line of a rule table; the reader adds file and line number."""

    def __init__(self, found: str, expected: str) -> None:
        self.found = found
        self.expected = expected


class Sides(NamedTuple):
    """A rule without its scores, in cdec's notation."""

    lhs: str
    """The category, without brackets."""
    source: str
    target: str
    alignment: str


class TableFormat(Protocol):
    """A format of lines. The methods of a line raise `MalformedLine` for a bad one."""

    def fields(self, line: str) -> list[str]:
        """Split a line into fields and check their number."""

    def sides(self, fields: list[str]) -> Sides:
        """Parse the rule without its scores."""

    def scores(self, fields: list[str]) -> tuple[tuple[str, ...], list[float]]:
        """Parse the scores; returns labels, the argument of `score_names`, and feature values."""

    def score_names(self, labels: tuple[str, ...]) -> list[str]:
        """Return the feature names for the labels of `scores`."""


class CdecFormat:
    """cdec's format."""

    unnamed_sign = 1.0
    """Factor of scores without a name."""

    def is_source_symbol(self, word: str) -> bool:
        """Test if ``word`` may be on a source side, whatever its place there."""
        return True

    def is_target_symbol(self, word: str) -> bool:
        """Test if ``word`` may be on a target side."""
        return True

    def fields(self, line: str) -> list[str]:
        fields = split_fields(line)
        if not 3 <= len(fields) <= 5:
            expected = "[LHS] ||| source ||| target [||| scores [||| alignment]]"
            raise MalformedLine(counted(len(fields), "field"), expected + _moses_hint(fields))
        return fields

    def sides(self, fields: list[str]) -> Sides:
        lhs = LHS.fullmatch(fields[0].strip(" \t"))
        if lhs is None:
            raise MalformedLine(f"left-hand side {fields[0].strip()!r}", "a category such as [X]" + _moses_hint(fields))
        return Sides(lhs[1], fields[1], fields[2], fields[4] if len(fields) > 4 else "")

    def scores(self, fields: list[str]) -> tuple[tuple[str, ...], list[float]]:
        text = fields[3] if len(fields) > 3 else ""
        scores = numbers = text.split()
        labels = [""] * len(scores)
        if "=" in text:
            parts = [score.rpartition("=") for score in scores]
            labels = [name + equals for name, equals, _ in parts]
            numbers = [number for _, _, number in parts]
        try:
            values = [parse_number(number) for number in numbers]
        except ValueError:
            bad = next(score for score, number in zip(scores, numbers, strict=True) if not _is_score(number))
            raise MalformedLine(f"score {bad!r}", IN_RANGE) from None
        return tuple(labels), [v if label else self.unnamed_sign * v for label, v in zip(labels, values, strict=True)]

    def score_names(self, labels: tuple[str, ...]) -> list[str]:
        return [_given_name(label) or f"PhraseModel_{place}" for place, label in enumerate(labels)]


class JoshuaFormat(CdecFormat):
    """Joshua's format: it differs from cdec's in the scores, and writes gaps as ``[X,1]`` on both sides."""

    unnamed_sign = -1.0

    def is_source_symbol(self, word: str) -> bool:
        return not in_brackets(word, 3) or _JOSHUA_SOURCE_GAP.fullmatch(word) is not None

    def is_target_symbol(self, word: str) -> bool:
        return not in_brackets(word, 3) or _JOSHUA_TARGET_GAP.fullmatch(word) is not None

    def sides(self, fields: list[str]) -> Sides:
        sides = super().sides(fields)
        gaps = [word for word in split_words(sides.source) if in_brackets(word, 3)]
        for number, word in enumerate(gaps, start=1):
            gap = _JOSHUA_SOURCE_GAP.fullmatch(word)
            if gap is None or (gap[1] and gap_number(gap[1]) != str(number)):
                expected = f"[X,{number}]: Joshua's gaps are numbered in the order of the source side"
                raise MalformedLine(f"source gap {word}", expected)
        for word in split_words(sides.target):
            if not self.is_target_symbol(word):
                hint = '(a table of cdec? then grammar.format = "cdec")'
                raise MalformedLine(f"target gap {word}", f"a gap such as [X,1], as Joshua writes it {hint}")
        return sides

    def score_names(self, labels: tuple[str, ...]) -> list[str]:
        unnamed = iter(range(len(labels)))
        return [_given_name(label) or f"tm_pt_{next(unnamed)}" for label in labels]


class MosesFormat:
    """Moses' hierarchical tables: the left-hand side ends both sides, and links pair gaps as well as words.

    Fields: source, target, scores, alignment, counts, sparse scores, properties. Counts are ignored, as in Moses.
    Refused are properties (``{{...}}``), because mpitune lacks the Moses features that use them, and gaps or left-hand
    sides with different source and target labels, because a gap has one category here.
    """

    def __init__(self) -> None:
        self._dense: int | None = None

    def fields(self, line: str) -> list[str]:
        fields = split_fields(line)
        if not 3 <= len(fields) <= 7:
            expected = "source [LHS] ||| target [LHS] ||| scores [||| alignment [||| counts [||| sparse scores]]]"
            raise MalformedLine(counted(len(fields), "field"), expected)
        for field in fields[5:]:
            if "{{" in field:
                found = f"properties {shortened(field.strip())!r}"
                raise MalformedLine(found, "a table without: mpitune has no features that use them")
        if len(fields) == 7 and fields[6].strip():
            raise MalformedLine(
                f"a seventh field {shortened(fields[6].strip())!r}", "at most six: it is for properties"
            )
        return fields

    def sides(self, fields: list[str]) -> Sides:
        if LHS.fullmatch(fields[0].strip(" \t")):
            hint = '(a table of cdec or Joshua? then grammar.format = "cdec" or "joshua")'
            raise MalformedLine(f"source side {fields[0].strip()!r}", f"words or gaps, then the left-hand side {hint}")
        source, source_gaps, lhs = _moses_side(fields[0], "source")
        target, target_gaps, target_lhs = _moses_side(fields[1], "target")
        if lhs != target_lhs:
            raise MalformedLine(f"left-hand sides [{lhs}] and [{target_lhs}]", "the same on both sides")
        alignment = fields[3] if len(fields) > 3 else ""
        pairs, words = _paired_gaps(alignment, source_gaps, target_gaps)
        for number, (i, j) in enumerate(sorted(pairs.items()), start=1):
            if source_gaps[i] != target_gaps[j]:
                raise MalformedLine(f"gaps {source[i]} and {target[j]}, linked by {i}-{j}", "gaps of the same label")
            source[i] = target[j] = f"[{source_gaps[i]},{number}]"
        return Sides(lhs, " ".join(source), " ".join(target), " ".join(words))

    def scores(self, fields: list[str]) -> tuple[tuple[str, ...], list[float]]:
        dense = fields[2].split()
        sparse = fields[5].split() if len(fields) > 5 else []
        if len(sparse) % 2:
            raise MalformedLine(f"sparse scores {shortened(fields[5].strip())!r}", "pairs of a name and a value")
        labels = [""] * len(dense)
        try:
            values = [_log(score) for score in dense]
        except ValueError:
            bad = next(score for score in dense if not _is_score(score) or float(score) < 0)
            raise MalformedLine(f"score {bad!r}", "a number from 0 to 1e30, as Moses takes its log") from None
        for name, score in zip(sparse[::2], sparse[1::2], strict=True):
            try:
                values.append(parse_number(score))
            except ValueError:
                raise MalformedLine(
                    f"sparse score {f'{name} {score}'!r}", "a name and a number from -1e30 to 1e30"
                ) from None
            labels.append(name)
        return tuple(labels), values

    def score_names(self, labels: tuple[str, ...]) -> list[str]:
        dense = labels.count("")
        if self._dense is None:
            self._dense = dense
        if dense != self._dense:
            raise MalformedLine(counted(dense, "score"), f"{self._dense}, as many as the first rule has")
        return [f"TranslationModel0_{label or place}" for place, label in enumerate(labels, start=1)]


FORMATS: dict[str, type[TableFormat]] = {"cdec": CdecFormat, "joshua": JoshuaFormat, "moses": MosesFormat}
"""Registry of the formats by values of the job key ``grammar.format``."""


def table_format(name: str, line: str) -> TableFormat:
    """The format of this name; ``auto`` chooses Moses' or cdec's by the first ``line``.

    A line cannot distinguish Joshua's format from cdec's.
    """
    if name == "auto":
        name = "moses" if _is_moses(split_fields(line)) else "cdec"
    return FORMATS[name]()


def _moses_side(text: str, side: str) -> tuple[list[str], dict[int, str], str]:
    """Parse a side: its symbols, the labels of its gaps by position, and the left-hand side."""
    *symbols, last = split_words(text) or [""]
    lhs = LHS.fullmatch(last)
    if lhs is None:
        found = f"{side} side {shortened(text.strip())!r}"
        raise MalformedLine(found, "words or gaps, then the left-hand side, such as [X]: a hierarchical table")
    gaps = {}
    for position, word in enumerate(symbols):
        if not in_brackets(word, 2):
            continue
        gap = _MOSES_GAP.fullmatch(word)
        if gap is None:
            raise MalformedLine(f"{word!r} on the {side} side", "a word without brackets, or a gap such as [X][X]")
        if gap[1] != gap[2]:
            raise MalformedLine(f"gap {word} on the {side} side", "one label for source and target, as in [X][X]")
        gaps[position] = gap[1]
    return symbols, gaps, lhs[1]


def _paired_gaps(text: str, source: dict[int, str], target: dict[int, str]) -> tuple[dict[int, int], list[str]]:
    """Split the links into pairs of gaps (source position to target position) and links between words."""
    pairs: dict[int, int] = {}
    words = []
    for word in split_words(text):
        link = LINK.fullmatch(word)
        if link is None:
            raise MalformedLine(f"alignment {word!r}", "i-j, positions in source and target from 0")
        i, j = int(link[1]), int(link[2])
        if i not in source and j not in target:
            words.append(word)
        elif i in source and j in target and i not in pairs and j not in pairs.values():
            pairs[i] = j
        else:
            raise MalformedLine(
                f"alignment {word!r}", "each gap linked to one gap of the other side, and to nothing else"
            )
    for side, unlinked in (("source", source.keys() - pairs.keys()), ("target", target.keys() - set(pairs.values()))):
        if unlinked:
            found = f"alignment {text.strip()!r} without the {side}'s gap at {min(unlinked)}"
            raise MalformedLine(found, "each gap linked to one gap of the other side")
    return pairs, words


def _moses_hint(fields: list[str]) -> str:
    """Return a hint for error messages if the line looks like one of Moses' tables, else ""."""
    if _is_moses(fields):
        return ' (a table of Moses? then grammar.format = "moses")'
    return " (a phrase table of Moses? expected a hierarchical one)" if _is_phrase_pair(fields) else ""


def _is_moses(fields: list[str]) -> bool:
    """Test if words and a left-hand side make up the first field, and a left-hand side ends the second."""
    if len(fields) < 3:
        return False
    source, target = split_words(fields[0]), split_words(fields[1])
    return len(source) > 1 and bool(target and LHS.fullmatch(source[-1]) and LHS.fullmatch(target[-1]))


def _is_phrase_pair(fields: list[str]) -> bool:
    """Test if the first field is no category and the third has scores, as in Moses' tables without left-hand sides."""
    if len(fields) < 3 or LHS.fullmatch(fields[0].strip(" \t")):
        return False
    scores = fields[2].split()
    return bool(scores) and all(map(_is_score, scores))


def _given_name(label: str) -> str:
    """Return the name in ``name=``; "" for an unnamed score."""
    if label == "=" or "=" in label[:-1]:
        raise MalformedLine(f"a score named {label[:-1]!r}", "name=value or value")
    return label[:-1]


def gap_number(digits: str) -> str:
    """The number of a gap, without zeros before it; as text, because it may be too long for `int`."""
    return digits.lstrip("0") or "0"


def in_brackets(word: str, min_length: int) -> bool:
    """Test if ``word`` is bracketed and has ``min_length`` characters or more; 3 make it a gap to cdec's decoder."""
    return len(word) >= min_length and word[0] == "[" and word[-1] == "]"


def _log(text: str) -> float:
    """Log of a score, floored. Raises ValueError unless ``text`` is a number from 0 to 1e30."""
    value = parse_number(text)
    if value < 0:
        raise ValueError(f"{text} has no log")
    return max(log(value), LOG_FLOOR) if value else LOG_FLOOR


def _is_score(text: str) -> bool:
    try:
        parse_number(text)
    except ValueError:
        return False
    return True


def shortened(text: str) -> str:
    """``text`` for a message: its beginning, if it is long."""
    return text if len(text) <= 60 else f"{text[:57]}..."
