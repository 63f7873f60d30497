"""Output of fairseq's `generate`: lines that begin with a letter and the number of the sentence.

    S-0<TAB>das haus
    T-0<TAB>the house
    H-0<TAB>-0.25<TAB>the home
    D-0<TAB>-0.25<TAB>the home
    P-0<TAB>-0.2 -0.3

Of H lines, hypotheses, the second field is the feature ``score``. S and T lines are sources and references, where a job
of this format names none. Others are not read: detokenised hypotheses (D), scores of words (P), log lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from mpitune.corpus.lines import lines as text_lines
from mpitune.corpus.text import SentencePair, SourceSentence, checked_words
from mpitune.corpus.wording import counted
from mpitune.decoder.lists.formats import Entry, Lines, Malformed
from mpitune.decoder.lists.formats.line_format import Layout, NamedValues, RewrittenFormat, Row, as_fields
from mpitune.decoder.lists.formats.values import list_number
from mpitune.decoder.lists.notation import FORMATS, Notation
from mpitune.errors import DataError

_LINE = re.compile(r"[STHDP]-[0-9]+\t")
_TEXT = re.compile(r"([ST])-([0-9]{1,9})\t(.*)")

_FEATURES = NamedValues(["score"])


@FORMATS.register("fairseq")
class Fairseq(RewrittenFormat):
    """Output of fairseq."""

    ascending = False
    has_sentences = True

    @staticmethod
    def begins(lines: Sequence[str]) -> bool:
        return any(_LINE.match(line) for line in lines)

    def rows(self, lines: Lines, notation: Notation) -> Iterator[Row]:
        for line in lines:
            if line.startswith("H-"):
                fields = line[2:].split("\t", 2)
                if len(fields) < 3:
                    raise Malformed(repr(line[:60]), "H-number, score and hypothesis, with tabs between")
                number, score, text = fields
                features = _FEATURES.of((score,))
                yield Row(lines.number, line, as_fields(list_number(number), text, notation, features))

    def writer(self, layout: Layout) -> Callable[[Entry, str], str]:
        return _with_score

    def sentences(self, path: Path, notation: Notation) -> list[SentencePair]:
        """The sources and references by number. Raises DataError if a reference is missing."""
        texts: dict[str, dict[int, list[str]]] = {"S": {}, "T": {}}
        for number, line in text_lines(path):
            if match := _TEXT.fullmatch(line):
                kind, sentence, text = match.groups()
                texts[kind][int(sentence)] = checked_words(path, number, notation.joined(text))
        sources, references = texts["S"], texts["T"]
        count = max([*sources, *references], default=0) + 1
        if len(references) < count:
            missing = next(n for n in range(count) if n not in references)
            expected = f"a reference for each of {counted(count, 'sentence')}, here or in a file that is named"
            raise DataError.at(path, None, found=f"no line T-{missing}", expected=expected)
        return [SentencePair(SourceSentence(sources.get(n, []), None), [references[n]]) for n in range(count)]


def _with_score(entry: Entry, score: str) -> str:
    number, _, text = entry.text.split("\t", 2)
    return f"{number}\t{score}\t{text}"
