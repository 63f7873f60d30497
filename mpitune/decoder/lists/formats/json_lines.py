"""JSON lines, a hypothesis each: ``{"id": 0, "text": "hypothesis", "features": {"name": 1.0}}``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from mpitune.corpus.text import split_words
from mpitune.decoder.lists.formats import Entry, Format, Lines, Malformed
from mpitune.decoder.lists.formats.json_values import check_strings, decoded, named_values, shown
from mpitune.decoder.lists.formats.values import checked_list_number
from mpitune.decoder.lists.notation import FORMATS, Notation

_OBJECT = '{"id": 0, "text": "hypothesis", "features": {"name": 1.0}}'


@FORMATS.register("json")
class JsonLines(Format):
    """A JSON object for each hypothesis, with metrics if it has some."""

    @staticmethod
    def begins(lines: Sequence[str]) -> bool:
        return lines[0].lstrip().startswith("{")

    def read(self, path: Path, blocks: Iterable[bytearray], notation: Notation) -> Iterator[Entry]:
        return self.placed(path, blocks, notation, _parsed)


def _parsed(lines: Lines, notation: Notation) -> Iterator[Entry]:
    for line in lines:
        found = decoded(line, _OBJECT)
        text, number = found.get("text"), found.get("id")
        number = checked_list_number(number, f"id {json.dumps(number)}")
        if not isinstance(text, str):
            raise Malformed(f"text {shown(text)}", "a string")
        metrics = named_values("metrics", found["metrics"]) if "metrics" in found else {}
        features = named_values("features", found.get("features", {}))
        check_strings(line, (text, *features, *metrics))
        yield Entry(lines.number, number, split_words(notation.joined(text)), features, metrics, line, _with_score)


def _with_score(entry: Entry, score: str) -> str:
    return json.dumps({**json.loads(entry.text), "score": float(score)}, ensure_ascii=False)
