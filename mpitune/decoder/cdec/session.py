"""cdec as a resident: one child, its weights kept up to date by what they change between sentences.

The child adds a delta to its weights before it decodes a sentence. Rounded sums would make its weights depend on all
that it was sent before, and a translation on which rank's child decodes it. Hence it never gets the weights themselves,
but these rounded to `BITS` binary digits of the largest: their sums and differences are exact.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mpitune.array_files.atomic import write_text
from mpitune.corpus.vocabulary import FeatureTable
from mpitune.corpus.weights import write_weights
from mpitune.decoder.cdec.process import Child, ChildError, NotStarted, Timeouts
from mpitune.decoder.cdec.protocol import segment
from mpitune.errors import MachineError, UsageError

LOG = logging.getLogger(__name__)

BITS = 44
"""Exact, then, while the largest weight changes by less than a factor 2^8 from one sentence to the next."""
_NOT_IN_NAMES = set(" \t\r\n=")
"""What cdec does not take in the names of a weights file; such features travel as deltas only."""


class CdecSession:
    """A child that is there when it is asked: started for the first sentence, and anew after it has failed."""

    def __init__(
        self,
        features: FeatureTable,
        *,
        binary: str,
        inifile: str,
        folder: Path,
        kbest: int,
        unique: bool,
        timeouts: Timeouts,
    ) -> None:
        """``binary``: the program; ``inifile``: what its cdec.ini says; ``folder``: for its files; ``kbest``: how many
        translations it answers with. Raises UsageError where ``folder`` cannot be written.
        """
        self.name = binary
        self.log = folder / "stderr.log"
        """What the children say besides their answers."""
        self._features = features
        self._weights_file = folder / "weights"
        self._kbest = kbest
        self._timeouts = timeouts
        self._command = [binary, "-c", str(folder / "cdec.ini"), "-w", str(self._weights_file), "-k", str(kbest)]
        self._command += ["-r", "--mr_mira_compat"] if unique else ["--mr_mira_compat"]
        self._child: Child | None = None
        self._sent = np.zeros(0)
        self._registered = 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_text(folder / "cdec.ini", inifile)
        except OSError as error:
            raise UsageError(f"{folder}: cannot be written: {error.strerror}") from None

    def answer(self, number: int, words: Sequence[str], grammar: Path | None, weights: np.ndarray) -> list[str]:
        """The lines that translate sentence ``number`` under ``weights`` (`rounded`); none if there is no derivation.

        Raises ChildError where the child fails; MachineError where it does not start.
        """
        try:
            child, delta = self._synchronise_weights(weights)
            slots = np.flatnonzero(delta)
            named = zip(map(self._features.name, slots.tolist()), delta[slots].tolist(), strict=True)
            first = child.ask(segment(number, words, grammar, named))
            if not first:
                return []
            if first != str(self._kbest):
                raise ChildError(f"answered {first[:80]!r}, expected {self._kbest}, the number of lines that follow")
            lines = [child.line() for _ in range(self._kbest)]
        except NotStarted as error:
            self.end()
            said = f"; what it said is in {self.log}" if self.log.exists() else ""
            raise MachineError(f"decoder.binary: {self.name} {error}{said}") from None
        except ChildError:
            self.end()
            raise
        return [line for line in lines if line]

    def end(self) -> None:
        """End the child; the next sentence gets another, which begins with the same weights."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def _synchronise_weights(self, weights: np.ndarray) -> tuple[Child, np.ndarray]:
        """A child, and what it has to add to its weights to get at ``weights``; it counts as having them from here."""
        sent = grow_to(self._sent, len(weights))
        if self._child is not None and not np.array_equal(sent + (weights - sent), weights):
            self.end()
        if self._child is None:
            self._child, sent = self._start_child(weights)
        self._sent = weights
        return self._child, weights - sent

    def _start_child(self, weights: np.ndarray) -> tuple[Child, np.ndarray]:
        """A new child, and the weights that it has from its file.

        The file names all features known when the first child was started, in one order: cdec numbers features as it
        meets them, and adds up the features of a rule in an order that those numbers give.
        """
        self._registered = self._registered or len(self._features)
        dynamic = [slot for slot in np.flatnonzero(weights).tolist() if slot >= self._registered]
        dynamic.sort(key=lambda slot: int(self._features.ids[slot]))
        named = {slot: self._features.name(slot) for slot in (*range(self._registered), *dynamic)}
        held = [slot for slot, name in named.items() if name and name[0] != "#" and not set(name) & _NOT_IN_NAMES]
        LOG.info("starting %s, which loads its grammar and language models", self.name)
        try:
            write_weights(self._weights_file, [(named[slot], float(weights[slot])) for slot in held])
        except OSError as error:
            raise MachineError(f"{self._weights_file}: cannot be written: {error.strerror}") from None
        sent = np.zeros(len(weights))
        sent[held] = weights[held]
        return Child(self._command, self.log, self._timeouts), sent


def rounded(weights: np.ndarray) -> np.ndarray:
    """``weights`` (float64 [n]) rounded to multiples of 2^-`BITS` of a power of 2 above the largest."""
    _, exponent = np.frexp(np.abs(weights).max(initial=0.0))
    result: np.ndarray = np.ldexp(np.rint(np.ldexp(weights, BITS - exponent)), exponent - BITS)
    return result


def grow_to(array: np.ndarray, size: int) -> np.ndarray:
    """``array`` (float64 [n]), with zeros up to ``size`` where it is shorter."""
    return array if len(array) >= size else np.concatenate([array, np.zeros(size - len(array))])
