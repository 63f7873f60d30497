"""The decoder that is cdec: asks the resident child, tries again where it fails, reads its answers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mpitune.decoder.base import KBest, Sentence, TranslationModel, empty_translation
from mpitune.decoder.cdec.process import ChildError, Timeouts
from mpitune.decoder.cdec.protocol import BadAnswer, Entry, completions, entry
from mpitune.decoder.cdec.session import CdecSession, padded, rounded
from mpitune.errors import DataError, MachineError

LOG = logging.getLogger(__name__)

_TOLERANCE = 2e-5
"""Of the printed score, relative: it has 6 digits."""
_MOST_IN_A_ROW = 5
"""So many sentences given up one after the other, and it is not the sentences' fault."""
_LATTICE = "((('"
"""A line that begins like this is a lattice to cdec."""
_UNKNOWN = (
    "%s fires features that are not known beforehand, such as %s: where scores tie, its choice may then depend on the "
    "sentences that it has decoded before, that is on the number of ranks; name such features in "
    "learner.initial_weights (weight 0 will do) to rule that out"
)


class CdecDecoder:
    """Decodes with a child process; see `Decoder` for what is promised."""

    def __init__(
        self,
        model: TranslationModel,
        *,
        binary: str,
        inifile: str,
        grammars: Sequence[Path],
        folder: Path,
        kbest: int,
        unique: bool,
        timeouts: Timeouts,
    ) -> None:
        """``grammars``: those of the sentences, by number (none where there is one for all); ``kbest``: the most that
        `decode` is asked for; for the rest see `CdecSession`.
        """
        self.features = model.feature_table()
        self.failed = 0
        self._words = model.words
        self._grammars = grammars
        self._resident = CdecSession(
            self.features,
            binary=binary,
            inifile=inifile,
            folder=folder,
            kbest=kbest,
            unique=unique,
            timeouts=timeouts,
        )
        self._failed_in_a_row = 0
        self._slots: dict[bytes, int] = {}
        self._met_unknown = False
        self._underivable: set[int] = set()

    def decode(self, sentence: Sentence, weights: np.ndarray, k: int) -> KBest:
        """At most ``k`` translations of ``sentence`` under ``weights`` (float64 by slot of `features`).

        A sentence of no words has one translation of no words. So has one that the child finds no derivation for, which
        the log tells once, and one that it fails on twice, which `failed` counts. Raises MachineError where the child
        does not start, or fails on one sentence after the other; DataError for a sentence that it takes for a lattice.
        """
        if len(sentence.words) == 0:
            return empty_translation()
        if not np.isfinite(weights).all():
            # As any decoder's scores would be; the child would carry them on to the next sentence.
            return empty_translation()._replace(score=np.full(1, np.nan))
        for what_next in ("it is tried once more", "it is given up"):
            try:
                kbest = self._translated(sentence, weights, k)
                self._failed_in_a_row = 0
                return kbest
            except ChildError as error:
                said = f"{self._resident.name} {error}"
                LOG.warning("sentence %d: %s; %s", sentence.number + 1, said, what_next)
        self.failed += 1
        self._failed_in_a_row += 1
        if self._failed_in_a_row == _MOST_IN_A_ROW:
            log = self._resident.log
            raise MachineError(f"{_MOST_IN_A_ROW} sentences in a row failed: {said}; what it said before is in {log}")
        return empty_translation()

    def _translated(self, sentence: Sentence, weights: np.ndarray, k: int) -> KBest:
        """Raises ChildError where the child fails or answers nonsense."""
        words = self._words.decode(sentence.words)
        if words[0].startswith(_LATTICE):
            found = f"sentence {sentence.number + 1} begins with {words[0][:20]!r}"
            raise DataError(f"{found}, which cdec takes for a lattice, expected words")
        grammar = self._grammars[sentence.grammar].absolute() if self._grammars else None
        wanted = rounded(padded(weights, len(self.features)))
        lines = self._resident.answer(sentence.number, words, grammar, wanted)
        if not lines:
            if sentence.number not in self._underivable:
                self._underivable.add(sentence.number)
                what = "finds no derivation: its translation is empty"
                LOG.warning("sentence %d: %s %s", sentence.number + 1, self._resident.name, what)
            return empty_translation()
        try:
            return self._kbest([entry(line, sentence.number) for line in lines[:k]], wanted, weights)
        except (BadAnswer, UnicodeDecodeError) as error:
            self._resident.end()
            raise ChildError(str(error)) from None

    def _kbest(self, entries: Sequence[Entry], wanted: np.ndarray, weights: np.ndarray) -> KBest:
        """The k-best list of ``entries``, scored with ``weights``.

        Raises BadAnswer where a printed score is not what the features give under ``wanted``, the child's weights.
        """
        words = [self._words.encode(found.words) for found in entries]
        length = [len(found.features) for found in entries]
        slot = np.array([self._slot(name) for found in entries for name in found.features], dtype=np.int32)
        value = np.array([number for found in entries for number in found.features.values()], dtype=np.float64)
        row = np.repeat(np.arange(len(entries)), length)
        wanted, weights = padded(wanted, len(self.features)), padded(weights, len(self.features))
        scores = np.bincount(row, wanted[slot] * value, minlength=len(entries)).tolist()
        for found, end, score in zip(entries, np.cumsum(length).tolist(), scores, strict=True):
            if not _is_near(score, found.score):
                value[end - 1] = _completed(found, score, wanted[slot[end - 1]])
        order = np.lexsort((self._late_ids(slot), np.minimum(slot, self.features.first_dynamic_slot), row))
        slot, value = slot[order], value[order]
        return KBest(
            word_ptr=np.cumsum([0] + [len(text) for text in words], dtype=np.int64),
            word=np.concatenate(words),
            score=np.bincount(row, weights[slot] * value, minlength=len(entries)),
            feature_ptr=np.cumsum([0, *length], dtype=np.int64),
            feature_index=slot,
            feature_value=value,
        )

    def _slot(self, name: bytes) -> int:
        slot = self._slots.get(name)
        if slot is None:
            text = name.decode()
            if text not in self.features and not self._met_unknown:
                self._met_unknown = True
                LOG.warning(_UNKNOWN, self._resident.name, text)
            slot = self._slots[name] = self.features.slot(text)
        return slot

    def _late_ids(self, slots: np.ndarray) -> np.ndarray:
        """uint64 [n]: the ids of those ``slots`` that are of features met late, 0 for others."""
        late = slots >= self.features.first_dynamic_slot
        ids = np.zeros(len(slots), dtype=np.uint64)
        ids[late] = self.features.dynamic_ids[slots[late] - self.features.first_dynamic_slot]
        return ids


def _is_near(score: float, printed: float) -> bool:
    return abs(score - printed) <= _TOLERANCE * max(abs(printed), 1.0)


def _completed(found: Entry, score: float, weight: float) -> float:
    """What the value that was guessed must have been, where the guess gives ``score``. Raises BadAnswer."""
    if found.guessed is not None:
        guess = found.features[found.guessed]
        for value in completions(guess):
            if _is_near(score + weight * (value - guess), found.score):
                return value
    said = f"answered a score of {found.score} for features that give {score:.6g}"
    raise BadAnswer(f"{said}, expected the same: does its cdec.ini ask for more than one pass?")
