"""Words of Kaldi's `nbest-to-linear`, as text: ``utterance-1 words``, ``utterance-2 words`` ...

Lists are numbered in the order of the utterances, which is that of the references. Costs are in files of their own,
``utterance-1 12.5``, which ``[[features.files]]`` may name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mpitune.decoder.lists.formats import Lines, Malformed
from mpitune.decoder.lists.formats.line_format import RewrittenFormat, Row, as_fields
from mpitune.decoder.lists.notation import FORMATS, Notation

_KEY = re.compile(r"(.+)-([0-9]{1,9})")


@FORMATS.register("kaldi")
class Kaldi(RewrittenFormat):
    """N-best texts of Kaldi."""

    @staticmethod
    def begins(lines: Sequence[str]) -> bool:
        utterance, last = "", 0
        for line in lines:
            match = _KEY.fullmatch(line.split(maxsplit=1)[0])
            if match is None or int(match[2]) != (last + 1 if match[1] == utterance else 1):
                return False
            utterance, last = match[1], int(match[2])
        return True

    def rows(self, lines: Lines, notation: Notation) -> Iterator[Row]:
        utterance, seen = "", set[str]()
        for line in lines:
            key, _, text = line.strip(" \t").replace("\t", " ").partition(" ")
            match = _KEY.fullmatch(key)
            if match is None:
                raise Malformed(repr(key[:60]), "utterance-number and words")
            if match[1] != utterance:
                utterance = match[1]
                if utterance in seen:
                    raise Malformed(f"{utterance[:60]!r} again", "all hypotheses of an utterance together")
                seen.add(utterance)
                lines.lists += 1
            yield Row(lines.number, line, as_fields(lines.lists - 1, text, notation))
