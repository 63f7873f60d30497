"""Rule tables of cdec, Joshua and Moses: the fields of a line, brought to the notation that `RuleReader` reads.

All three are lines of fields between ``|||``:

    cdec    [X] ||| [X,1] pas ||| not [1] ||| 0.5 Name=2 ||| 1-0
    Joshua  [X] ||| [X,1] pas ||| not [X,1] ||| 0.5 Name=2 ||| 1-0
    Moses   [X][X] pas [X] ||| not [X][X] [X] ||| 0.6 2.718 ||| 0-1 1-0 ||| 9 5 3 ||| Name 2

What their scores become (zeros are left out by the reader):

- cdec: ``PhraseModel_i``, i being the place on the line; named ones keep their name. Values are as they stand.
- Joshua: ``tm_pt_i``, the i-th of those without a name, from 0, as Joshua calls them for a grammar with the owner
  ``pt``; they are costs: the feature's value is **minus** the score. Named ones keep name and sign (``FeatureVector``).
- Moses: ``TranslationModel0_k``, from 1, as Moses writes them (``ScoreComponentCollection::Save``); the value is the
  natural logarithm, not below -100 (``TransformScore``, ``FloorScore``). Scores of the sparse field become
  ``TranslationModel0_<name>``, their values as they stand.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple, Protocol

from mpitune.corpus.text import counted, parse_number, split_fields, split_words

LEAST_LOG = -100.0
"""The least logarithm of a score in Moses, which is also that of 0."""

LHS = re.compile(r"\[([^\[\],\s]+)\]")
LINK = re.compile(r"([0-9]+)-([0-9]+)")
_JOSHUA_SOURCE_GAP = re.compile(r"\[[^\[\],]+(?:,([0-9]+))?\]")
_JOSHUA_TARGET_GAP = re.compile(r"\[[^\[\],]+,[0-9]+\]")
_MOSES_GAP = re.compile(r"\[([^\[\],]+)\]\[([^\[\],]+)\]")


class Refused(Exception):
    """What is wrong with a line, told before anyone knows which line it is."""

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


class Table(Protocol):
    """How the lines of one format are taken apart. All methods raise `Refused` for a bad line."""

    def fields(self, line: str) -> list[str]:
        """The fields of a line, as many as may be."""

    def type_text(self, fields: list[str]) -> str:
        """The raw text that tells rule types apart: lines of equal text have equal `sides`."""

    def sides(self, fields: list[str]) -> Sides:
        """The rule without its scores."""

    def scores(self, fields: list[str]) -> tuple[tuple[str, ...], list[float]]:
        """Labels (for `score_names`) and values of the features that the line's scores are."""

    def score_names(self, labels: tuple[str, ...]) -> list[str]:
        """The features' names."""


class CdecTable:
    """cdec's format."""

    def fields(self, line: str) -> list[str]:
        fields = split_fields(line)
        if not 3 <= len(fields) <= 5:
            expected = "[LHS] ||| source ||| target [||| scores [||| alignment]]"
            raise Refused(counted(len(fields), "field"), expected + _moses_hint(fields))
        return fields

    def type_text(self, fields: list[str]) -> str:
        return "|||".join(fields[:3] + fields[4:])

    def sides(self, fields: list[str]) -> Sides:
        lhs = LHS.fullmatch(fields[0].strip(" \t"))
        if lhs is None:
            raise Refused(f"left-hand side {fields[0].strip()!r}", "a category such as [X]" + _moses_hint(fields))
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
            return tuple(labels), [parse_number(number) for number in numbers]
        except ValueError:
            bad = next(score for score, number in zip(scores, numbers, strict=True) if not _is_number(number))
            raise Refused(f"score {bad!r}", "a finite number") from None

    def score_names(self, labels: tuple[str, ...]) -> list[str]:
        return [_given_name(label) or f"PhraseModel_{place}" for place, label in enumerate(labels)]


class JoshuaTable(CdecTable):
    """Joshua's format: as cdec's, but for the scores, and both sides have their gaps as ``[X,1]``."""

    def sides(self, fields: list[str]) -> Sides:
        sides = super().sides(fields)
        gaps = [word for word in split_words(sides.source) if _in_brackets(word, 3)]
        for number, word in enumerate(gaps, start=1):
            gap = _JOSHUA_SOURCE_GAP.fullmatch(word)
            if gap is None or int(gap[1] or number) != number:
                expected = f"[X,{number}]: Joshua's gaps are numbered in the order of the source side"
                raise Refused(f"source gap {word}", expected)
        for word in split_words(sides.target):
            if _in_brackets(word, 3) and not _JOSHUA_TARGET_GAP.fullmatch(word):
                hint = '(a table of cdec? then grammar.format = "cdec")'
                raise Refused(f"target gap {word}", f"a gap such as [X,1], as Joshua writes it {hint}")
        return sides

    def scores(self, fields: list[str]) -> tuple[tuple[str, ...], list[float]]:
        labels, values = super().scores(fields)
        return labels, [value if label else -value for label, value in zip(labels, values, strict=True)]

    def score_names(self, labels: tuple[str, ...]) -> list[str]:
        unnamed = iter(range(len(labels)))
        return [_given_name(label) or f"tm_pt_{next(unnamed)}" for label in labels]


class MosesTable:
    """Moses' format of hierarchical tables: the left-hand side ends both sides, links pair gaps as well as words.

    Fields: source, target, scores, alignment, counts, sparse scores, properties. The counts are not looked at, like in
    Moses. Properties (``{{...}}``) are refused: Moses has features that use them, mpitune has none. So are gaps and
    left-hand sides whose source and target labels differ: here a gap has one category.
    """

    def __init__(self) -> None:
        self._dense: int | None = None

    def fields(self, line: str) -> list[str]:
        fields = split_fields(line)
        if not 3 <= len(fields) <= 7:
            expected = "source [LHS] ||| target [LHS] ||| scores [||| alignment [||| counts [||| sparse scores]]]"
            raise Refused(counted(len(fields), "field"), expected)
        for field in fields[5:]:
            if "{{" in field:
                found = f"properties {_shortened(field.strip())!r}"
                raise Refused(found, "a table without: mpitune has no features that use them")
        if len(fields) == 7 and fields[6].strip():
            raise Refused(f"a seventh field {_shortened(fields[6].strip())!r}", "at most six: it is for properties")
        return fields

    def type_text(self, fields: list[str]) -> str:
        return "|||".join(fields[:2] + fields[3:4])

    def sides(self, fields: list[str]) -> Sides:
        if LHS.fullmatch(fields[0].strip(" \t")):
            hint = '(a table of cdec or Joshua? then grammar.format = "cdec" or "joshua")'
            raise Refused(f"source side {fields[0].strip()!r}", f"words or gaps, then the left-hand side {hint}")
        source, source_gaps, lhs = _moses_side(fields[0], "source")
        target, target_gaps, target_lhs = _moses_side(fields[1], "target")
        if lhs != target_lhs:
            raise Refused(f"left-hand sides [{lhs}] and [{target_lhs}]", "the same on both sides")
        alignment = fields[3] if len(fields) > 3 else ""
        pairs, words = _paired_gaps(alignment, source_gaps, target_gaps)
        for number, (i, j) in enumerate(sorted(pairs.items()), start=1):
            if source_gaps[i] != target_gaps[j]:
                raise Refused(f"gaps {source[i]} and {target[j]}, linked by {i}-{j}", "gaps of the same label")
            source[i] = target[j] = f"[{source_gaps[i]},{number}]"
        return Sides(lhs, " ".join(source), " ".join(target), " ".join(words))

    def scores(self, fields: list[str]) -> tuple[tuple[str, ...], list[float]]:
        dense = fields[2].split()
        sparse = fields[5].split() if len(fields) > 5 else []
        if len(sparse) % 2:
            raise Refused(f"sparse scores {_shortened(fields[5].strip())!r}", "pairs of a name and a value")
        labels = [""] * len(dense)
        try:
            values = [_log(score) for score in dense]
        except ValueError:
            bad = next(score for score in dense if not _is_number(score) or float(score) < 0)
            raise Refused(f"score {bad!r}", "a finite number of at least 0, as Moses takes its log") from None
        for name, score in zip(sparse[::2], sparse[1::2], strict=True):
            try:
                values.append(parse_number(score))
            except ValueError:
                raise Refused(f"sparse score {f'{name} {score}'!r}", "a name and a finite number") from None
            labels.append(name)
        return tuple(labels), values

    def score_names(self, labels: tuple[str, ...]) -> list[str]:
        dense = labels.count("")
        if self._dense is None:
            self._dense = dense
        if dense != self._dense:
            raise Refused(counted(dense, "score"), f"{self._dense}, as many as the first rule has")
        return [f"TranslationModel0_{label or place}" for place, label in enumerate(labels, start=1)]


FORMATS: dict[str, type[Table]] = {"cdec": CdecTable, "joshua": JoshuaTable, "moses": MosesTable}
"""By the names that the job's key ``grammar.format`` has for them."""


def table_for(table_format: str, line: str) -> Table:
    """The table for a format: for ``auto``, that which a first ``line`` shows, where cdec's and Joshua's look alike."""
    if table_format == "auto":
        table_format = "moses" if _is_moses(split_fields(line)) else "cdec"
    return FORMATS[table_format]()


def _moses_side(text: str, side: str) -> tuple[list[str], dict[int, str], str]:
    """The symbols, the gaps' labels by position, and the left-hand side."""
    *symbols, last = split_words(text) or [""]
    lhs = LHS.fullmatch(last)
    if lhs is None:
        found = f"{side} side {_shortened(text.strip())!r}"
        raise Refused(found, "words or gaps, then the left-hand side, such as [X]: a hierarchical table")
    gaps = {}
    for place, word in enumerate(symbols):
        if not _in_brackets(word, 2):
            continue
        gap = _MOSES_GAP.fullmatch(word)
        if gap is None:
            raise Refused(f"{word!r} on the {side} side", "a word without brackets, or a gap such as [X][X]")
        if gap[1] != gap[2]:
            raise Refused(f"gap {word} on the {side} side", "one label for source and target, as in [X][X]")
        gaps[place] = gap[1]
    return symbols, gaps, lhs[1]


def _paired_gaps(text: str, source: dict[int, str], target: dict[int, str]) -> tuple[dict[int, int], list[str]]:
    """The target's position of the gap at each of the source's positions, and the links between words."""
    pairs: dict[int, int] = {}
    words = []
    for word in split_words(text):
        link = LINK.fullmatch(word)
        if link is None:
            raise Refused(f"alignment {word!r}", "i-j, positions in source and target from 0")
        i, j = int(link[1]), int(link[2])
        if i not in source and j not in target:
            words.append(word)
        elif i in source and j in target and i not in pairs and j not in pairs.values():
            pairs[i] = j
        else:
            raise Refused(f"alignment {word!r}", "each gap linked to one gap of the other side, and to nothing else")
    for side, unlinked in (("source", source.keys() - pairs.keys()), ("target", target.keys() - set(pairs.values()))):
        if unlinked:
            found = f"alignment {text.strip()!r} without the {side}'s gap at {min(unlinked)}"
            raise Refused(found, "each gap linked to one gap of the other side")
    return pairs, words


def _moses_hint(fields: list[str]) -> str:
    """What to add to an error where the line looks like one of Moses."""
    return ' (a table of Moses? then grammar.format = "moses")' if _is_moses(fields) else ""


def _is_moses(fields: list[str]) -> bool:
    """Whether a left-hand side ends the first two fields: cdec and Joshua have nothing but that in the first."""
    if len(fields) < 3:
        return False
    source, target = split_words(fields[0]), split_words(fields[1])
    return len(source) > 1 and bool(target and LHS.fullmatch(source[-1]) and LHS.fullmatch(target[-1]))


def _given_name(label: str) -> str:
    """The name in ``name=``; "" where there is none."""
    if label == "=" or "=" in label[:-1]:
        raise Refused(f"a score named {label[:-1]!r}", "name=value or value")
    return label[:-1]


def _in_brackets(word: str, least: int) -> bool:
    """Whether ``word`` is taken for a gap by a decoder that does so from ``least`` characters on."""
    return len(word) >= least and word[0] == "[" and word[-1] == "]"


def _log(text: str) -> float:
    """Raises ValueError for what is no finite number, or below 0."""
    value = parse_number(text)
    return max(math.log(value), LEAST_LOG) if value else LEAST_LOG


def _is_number(text: str) -> bool:
    try:
        parse_number(text)
    except ValueError:
        return False
    return True


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
