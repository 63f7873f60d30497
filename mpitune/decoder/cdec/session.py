"""A session with cdec: one child process, whose weights are updated by their changes between sentences.

The child adds a delta to its weights before it decodes a sentence. With rounded sums, its weights would depend on all
earlier deltas, and a translation on the rank that decodes it. Therefore weights are rounded to `BITS` binary digits
relative to the largest before they are sent: sums and differences of such weights are exact.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mpitune.array_files.atomic import write_text
from mpitune.array_files.grow import grow_to
from mpitune.corpus.feature_table import FeatureTable
from mpitune.corpus.weights import write_weights
from mpitune.decoder.cdec.process import Child, ChildError, NotStarted, Timeouts
from mpitune.decoder.cdec.protocol import segment
from mpitune.errors import MachineError
from mpitune.files import is_file, make_folder, writing

LOG = logging.getLogger(__name__)

BITS = 44
"""Sums are exact while the largest weight changes by less than a factor 2^8 from one sentence to the next."""
_NOT_IN_NAMES = set(" \t\r\n=")
"""Characters that cdec rejects in names of a weights file; such features are sent as deltas only."""


class CdecSession:
    """A cdec child process: started for the first sentence, and restarted after a failure."""

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
        """``binary``: the program; ``inifile``: content of its cdec.ini; ``folder``: for its files; ``kbest``: lines in
        each answer; ``unique``: a k-best list contains each translation once. Raises UsageError if ``folder`` cannot
        be written.
        """
        self.name = binary
        self.log = folder / "stderr.log"
        """Standard error of the children."""
        self._features = features
        self._weights_file = folder / "weights"
        self._kbest = kbest
        self._timeouts = timeouts
        self._command = [binary, "-c", str(folder / "cdec.ini"), "-w", str(self._weights_file), "-k", str(kbest)]
        self._command += ["-r", "--mr_mira_compat"] if unique else ["--mr_mira_compat"]
        self._child: Child | None = None
        self._sent = np.zeros(0)
        self._registered = 0
        make_folder(folder)
        with writing(folder):
            write_text(folder / "cdec.ini", inifile)

    def answer(self, number: int, words: Sequence[str], grammar: Path | None, weights: np.ndarray) -> list[str]:
        """The k-best lines of sentence ``number`` under ``weights`` (`rounded`); none if there is no derivation.

        Raises ChildError if the child fails; MachineError if it does not start.
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
            where = f"; its standard error is in {self.log}" if is_file(self.log) else ""
            raise MachineError(f"decoder.binary: {self.name} {error}{where}") from None
        except ChildError:
            self.end()
            raise
        return [line for line in lines if line]

    def end(self) -> None:
        """End the child; the next sentence starts another one."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def _synchronise_weights(self, weights: np.ndarray) -> tuple[Child, np.ndarray]:
        """The child, and the delta from its weights to ``weights``, which are recorded as its weights from now on.

        If the delta cannot be exact, the child is replaced by one started with ``weights``.
        """
        sent = grow_to(self._sent, len(weights))
        if self._child is not None and not np.array_equal(sent + (weights - sent), weights):
            self.end()
        if self._child is None:
            self._child, sent = self._start_child(weights)
        self._sent = weights
        return self._child, weights - sent

    def _start_child(self, weights: np.ndarray) -> tuple[Child, np.ndarray]:
        """Start a child; returns it with the weights in its weights file.

        The file lists all features registered when the first child started, then others by id: cdec numbers features
        in order of appearance and adds up the features of a rule in the order of these numbers.
        """
        self._registered = self._registered or len(self._features)
        dynamic = [slot for slot in np.flatnonzero(weights).tolist() if slot >= self._registered]
        dynamic.sort(key=lambda slot: int(self._features.ids[slot]))
        named = {slot: self._features.name(slot) for slot in (*range(self._registered), *dynamic)}
        in_file = [slot for slot, name in named.items() if name and name[0] != "#" and not set(name) & _NOT_IN_NAMES]
        LOG.info("starting %s, which loads its grammar and language models", self.name)
        with writing(self._weights_file, MachineError):
            write_weights(self._weights_file, [(named[slot], float(weights[slot])) for slot in in_file])
        sent = np.zeros(len(weights))
        sent[in_file] = weights[in_file]
        return Child(self._command, self.log, self._timeouts), sent


def rounded(weights: np.ndarray) -> np.ndarray:
    """``weights`` (float64 [n]) rounded to multiples of 2^-`BITS` of a power of 2 above the largest."""
    _, exponent = np.frexp(np.abs(weights).max(initial=0.0))
    result: np.ndarray = np.ldexp(np.rint(np.ldexp(weights, BITS - exponent)), exponent - BITS)
    return result
