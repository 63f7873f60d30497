"""`CdecDecoder`: sends sentences to a cdec child process, retries after a failure, and converts its answers."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from mpitune.array_files.grow import grow_to
from mpitune.decoder.base import KBest, Sentence, TranslationModel, empty_translation
from mpitune.decoder.cdec.process import ChildError, Timeouts
from mpitune.decoder.cdec.protocol import BadAnswer, Entry, completions, entry
from mpitune.decoder.cdec.session import CdecSession, rounded
from mpitune.errors import DataError, MachineError

LOG = logging.getLogger(__name__)

_TOLERANCE = 2e-5
"""Relative tolerance of the printed score, which has 6 digits."""
_MOST_IN_A_ROW = 5
"""Consecutive failed sentences that end the run: the cause is then not the sentences."""
_LATTICE = "((('"
"""Lines with this prefix are lattices in cdec."""
_UNKNOWN = (
    "%s fires features that are not known before decoding, such as %s: where scores tie, its choice may depend on the "
    "sentences decoded before, and so on the number of ranks; list such features in learner.initial_weights "
    "(with weight 0) to prevent that"
)


class CdecDecoder:
    """Decodes with a cdec child process; see `Decoder` for its methods."""

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
        sparse: Iterable[str] = (),
    ) -> None:
        """``grammars``: grammar files by `Sentence.grammar` (empty if ``inifile`` names one for all sentences);
        ``kbest``: the largest ``k`` of `decode`; ``sparse``: distinct names of sparse features that cdec gets to know
        before it decodes; for the others see `CdecSession`.
        """
        self.features = model.feature_table(sparse)
        self.failed = 0
        self._words = model.words
        self._grammars = grammars
        self._session = CdecSession(
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
        self._warned = False
        self._underivable: set[int] = set()

    def decode(self, sentence: Sentence, weights: np.ndarray, k: int) -> KBest:
        """At most ``k`` translations of ``sentence`` under ``weights`` (float64 by slot of `features`).

        The result is one translation of no words for a sentence of no words, for one without a derivation, which is
        logged once, and for one that the child fails on twice, which `failed` counts. Raises MachineError if the child
        does not start, or fails on several sentences in a row; DataError for a sentence that cdec reads as a lattice.
        """
        if len(sentence.words) == 0:
            return empty_translation()
        if not np.isfinite(weights).all():
            # Every score would be NaN. Sent to the child, these weights would also spoil the next sentences.
            return empty_translation()._replace(score=np.full(1, np.nan))
        for next_step in ("retrying once", "giving up: its translation is empty"):
            try:
                kbest = self._translate(sentence, weights, k)
                self._failed_in_a_row = 0
                return kbest
            except ChildError as error:
                failure = f"{self._session.name} {error}"
                LOG.warning("sentence %d: %s; %s", sentence.number + 1, failure, next_step)
        self.failed += 1
        self._failed_in_a_row += 1
        if self._failed_in_a_row == _MOST_IN_A_ROW:
            log = self._session.log
            raise MachineError(f"{_MOST_IN_A_ROW} sentences in a row failed: {failure}; its standard error is in {log}")
        return empty_translation()

    def _translate(self, sentence: Sentence, weights: np.ndarray, k: int) -> KBest:
        """One attempt of `decode`. Raises ChildError if the child fails or its answer is invalid."""
        words = self._words.decode(sentence.words)
        if words[0].startswith(_LATTICE):
            found = f"sentence {sentence.number + 1} begins with {words[0][:20]!r}"
            raise DataError(f"{found}, which cdec reads as a lattice, expected words")
        grammar = self._grammars[sentence.grammar].absolute() if self._grammars else None
        child_weights = rounded(grow_to(weights, len(self.features)))
        lines = self._session.answer(sentence.number, words, grammar, child_weights)
        if not lines:
            if sentence.number not in self._underivable:
                self._underivable.add(sentence.number)
                what = "finds no derivation: its translation is empty"
                LOG.warning("sentence %d: %s %s", sentence.number + 1, self._session.name, what)
            return empty_translation()
        try:
            return self._kbest([entry(line, sentence.number) for line in lines[:k]], child_weights, weights)
        except (BadAnswer, UnicodeDecodeError) as error:
            self._session.end()
            raise ChildError(str(error)) from None

    def _kbest(self, entries: Sequence[Entry], child_weights: np.ndarray, weights: np.ndarray) -> KBest:
        """The k-best list of ``entries``, scored with ``weights``; ``child_weights``: the weights of the child.

        Raises BadAnswer if a printed score differs from that of the features under ``child_weights``.
        """
        words = [self._words.encode(found.words) for found in entries]
        length = [len(found.features) for found in entries]
        slot = np.array([self._slot(name) for found in entries for name in found.features], dtype=np.int32)
        value = np.array([number for found in entries for number in found.features.values()], dtype=np.float64)
        row = np.repeat(np.arange(len(entries)), length)
        child_weights, weights = grow_to(child_weights, len(self.features)), grow_to(weights, len(self.features))
        scores = np.bincount(row, child_weights[slot] * value, minlength=len(entries)).tolist()
        for found, end, score in zip(entries, np.cumsum(length).tolist(), scores, strict=True):
            if not _is_near(score, found.score):
                value[end - 1] = _completed(found, score, child_weights[slot[end - 1]])
        order = np.lexsort((self._dynamic_ids(slot), np.minimum(slot, self.features.first_dynamic_slot), row))
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
        """The slot of feature ``name``, which is registered if it is new."""
        slot = self._slots.get(name)
        if slot is None:
            text = name.decode()
            if text not in self.features and not self._warned:
                self._warned = True
                LOG.warning(_UNKNOWN, self._session.name, text)
            slot = self._slots[name] = self.features.slot(text)
        return slot

    def _dynamic_ids(self, slots: np.ndarray) -> np.ndarray:
        """uint64 [n]: ids of those ``slots`` whose features were discovered while decoding, 0 for others."""
        dynamic = slots >= self.features.first_dynamic_slot
        ids = np.zeros(len(slots), dtype=np.uint64)
        ids[dynamic] = self.features.dynamic_ids[slots[dynamic] - self.features.first_dynamic_slot]
        return ids


def _is_near(score: float, printed: float) -> bool:
    return abs(score - printed) <= _TOLERANCE * max(abs(printed), 1.0)


def _completed(found: Entry, score: float, weight: float) -> float:
    """The value of ``found.guessed`` that agrees with the printed score; raises BadAnswer if none does.

    ``score``: the score of the features with the guessed value; ``weight``: the weight of that feature.
    """
    if found.guessed is not None:
        guess = found.features[found.guessed]
        for value in completions(guess):
            if _is_near(score + weight * (value - guess), found.score):
                return value
    failure = f"answered a score of {found.score} for features of score {score:.6g}"
    raise BadAnswer(f"{failure}, expected the same: does its cdec.ini ask for more than one pass?")
