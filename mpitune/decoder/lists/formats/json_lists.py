"""JSON lines, a list each, as of Sockeye (``--output-type json``) and of scripts around CTranslate2 or Transformers.

``{"sentence_id": 0, "translations": ["one", "other"], "scores": [[-0.5], [-0.7]]}``

The hypotheses, strings or lists of tokens, are ``translations``, ``hypotheses`` or ``sequences``; their scores, numbers
or lists of numbers, are ``scores`` or ``sequences_scores``, and become the feature ``score``, or ``score_0``,
``score_1`` ... A list has the number ``id``, or else that of its line: Sockeye writes lists in the order of its input,
and its ``sentence_id`` counts the lines of a file from 1. Other keys are not read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mpitune.corpus.text import split_words
from mpitune.corpus.wording import counted
from mpitune.decoder.lists.formats import Entry, Format, Lines, Malformed
from mpitune.decoder.lists.formats.json_values import check_strings, decoded, named_values, shown
from mpitune.decoder.lists.formats.values import checked_list_number
from mpitune.decoder.lists.notation import FORMATS, Notation

_OBJECT = '{"sentence_id": 0, "translations": ["hypothesis", ...], "scores": [-0.5, ...]}'
_HYPOTHESES, _SCORES = ("translations", "hypotheses", "sequences"), ("scores", "sequences_scores")


@FORMATS.register("json-lists")
class JsonLists(Format):
    """A JSON object for each list."""

    @staticmethod
    def begins(lines: Sequence[str]) -> bool:
        with suppress(Malformed):
            return _key(decoded(lines[0], ""), _HYPOTHESES) is not None
        return False

    def read(self, path: Path, blocks: Iterable[bytearray], notation: Notation) -> Iterator[Entry]:
        return self.placed(path, blocks, notation, _parsed)


def _parsed(lines: Lines, notation: Notation) -> Iterator[Entry]:
    for line in lines:
        found = decoded(line, _OBJECT)
        if "id" in found:
            number = checked_list_number(found["id"], f"id {json.dumps(found['id'])}")
        else:
            number, lines.lists = lines.lists, lines.lists + 1
        texts = _list(found, _HYPOTHESES)
        scores = _list(found, _SCORES) if _key(found, _SCORES) else [[]] * len(texts)
        if len(scores) != len(texts):
            raise Malformed(counted(len(scores), "score"), f"{len(texts)}, one for each hypothesis")
        for text, score in zip(texts, scores, strict=True):
            words = split_words(notation.joined(" ".join(_words(text))))
            check_strings(line, words)
            yield Entry(lines.number, number, words, _features(score), {}, line)


def _key(found: dict[str, Any], known: Sequence[str]) -> str | None:
    return next((key for key in known if key in found), None)


def _list(found: dict[str, Any], known: Sequence[str]) -> list[Any]:
    value = found.get(_key(found, known) or known[0])
    if not isinstance(value, list):
        raise Malformed(f"{known[0]} {shown(value)}", f"a list, as {' or '.join(known)}")
    return value


def _words(text: object) -> list[str]:
    if isinstance(text, str):
        return split_words(text)
    if isinstance(text, list) and all(isinstance(token, str) and split_words(token) == [token] for token in text):
        return text
    raise Malformed(f"hypothesis {shown(text)}", "a string or a list of tokens")


def _features(score: object) -> dict[str, float]:
    values = score if isinstance(score, list) else [score]
    names = ["score"] if len(values) == 1 else [f"score_{n}" for n in range(len(values))]
    return named_values("scores", dict(zip(names, values, strict=True)))
