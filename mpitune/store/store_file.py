"""A file of the store: built only if it is missing or damaged, if an older version wrote it, or if an input changed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from mpitune.array_files.arrays import Stored, read_attributes, write_arrays
from mpitune.array_files.checked import Check, open_checked
from mpitune.corpus.fingerprint import all_unchanged, fingerprint
from mpitune.corpus.lines import check_readable
from mpitune.errors import DataError, UsageError
from mpitune.files import exists
from mpitune.ownership import locked

LOG = logging.getLogger(__name__)

_MISSING = "missing"


class StoreFile(NamedTuple):
    """A file of the store, and what it depends on."""

    path: Path
    inputs: Sequence[Path]
    """The input files."""
    settings: Mapping[str, Any]
    """The settings of the job."""
    check: Check
    """The check of its arrays, of `mpitune.store.structure`."""

    def fault(self) -> str | None:
        """The reason why the file must be built; None if it is sound and up to date."""
        if not exists(self.path):
            return _MISSING
        check_readable(self.path)  # one that may not be read is not damaged
        try:
            open_checked(self.path, self.check)
        except DataError:
            return "damaged or of an older version"
        try:
            known = (read_attributes(self.path) or {})["inputs"]
            fresh = known["shape"] == self.settings and all_unchanged(known["files"], self.inputs)
        except (KeyError, TypeError):
            fresh = False  # attributes that mpitune does not write
        return None if fresh else "stale"

    def build(self, compile_arrays: Callable[[], Mapping[str, Stored]]) -> list[str]:
        """Build the file unless it is sound and up to date; returns its name if it was built.

        Raises UsageError if it cannot be written.
        """
        fault = self.fault()
        if fault is None:
            return []
        with ExitStack() as stack:
            try:
                stack.enter_context(locked(self.path.parent, "store"))
            except UsageError as error:
                raise UsageError(f"{self.path}: {fault}, and cannot be built: {error}") from None
            # Another run may have built it in the meantime.
            fault = self.fault()
            if fault is None:
                return []
            LOG.info(f"{self.path}: building it" if fault == _MISSING else f"{self.path}: {fault}: rebuilding it")
            # Fingerprints are taken before the files are read: the next build notices a change in between.
            attributes = input_attributes(self.inputs, self.settings)
            write_arrays(self.path, compile_arrays(), attributes)
        # Checked once here, so that all ranks need not do it.
        open_checked(self.path, self.check)
        return [self.path.name]


def input_attributes(inputs: Sequence[Path], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a file that identify its inputs: fingerprints of files, and settings."""
    return {"inputs": {"files": [fingerprint(path) for path in inputs], "shape": settings}}
