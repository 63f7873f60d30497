"""Making of input files in the store (`mpitune.store.bitext_inputs`), where the job does not name them.

A record beside the files keeps the fingerprints of the files and of what they were made from, and what the log says of
them. Files are made again only if one of these has changed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from mpitune.array_files.atomic import write_text
from mpitune.corpus.fingerprint import all_unchanged, fingerprint
from mpitune.corpus.lines import read_text
from mpitune.corpus.tokenisation import warn_of_untokenised
from mpitune.errors import DataError, MachineError
from mpitune.files import writing
from mpitune.ownership import locked

LOG = logging.getLogger(__name__)


class MadeInput(Protocol):
    """Files that are made together."""

    @property
    def outputs(self) -> list[Path]:
        """The files."""

    @property
    def inputs(self) -> list[Path]:
        """The files that they are made from."""

    @property
    def settings(self) -> dict[str, Any]:
        """All that they depend on besides (JSON types)."""

    def check(self) -> None:
        """Raise UsageError if a program is missing that `make` needs."""

    def make(self) -> list[str]:
        """Write the files; returns lines for the log about them. Raises OSError if they cannot be written."""


def make_inputs(wanted: Sequence[MadeInput]) -> None:
    """Make the files of ``wanted`` that are missing or stale; each may be made from those before it.

    Raises UsageError if a program is missing or the folder cannot be written, DataError for bad inputs, MachineError
    for a full disk.
    """
    stale = [made for made in wanted if _record(made) is None]
    for made in stale:
        made.check()
    outputs = {path for made in wanted for path in made.outputs}
    for text in dict.fromkeys(path for made in stale for path in made.inputs if path not in outputs):
        warn_of_untokenised(text)
    for made in wanted:
        if _record(made) is not None:
            continue
        with locked(made.outputs[0].parent, "store"):
            # Another run may have made them in the meantime.
            if _record(made) is None:
                for line in _make(made):
                    LOG.info(line)


def known_decisions(wanted: Sequence[MadeInput]) -> list[str]:
    """Lines of the log about the files of ``wanted`` that are up to date."""
    records = [_record(made) for made in wanted]
    return [line for record in records if record is not None for line in record["told"]]


def _make(made: MadeInput) -> list[str]:
    """Make files and their record; returns lines for the log."""
    # Taken before the files are read: a change in between is noticed the next time.
    inputs = [fingerprint(path) for path in made.inputs]
    with writing(made.outputs[0].parent, MachineError):
        told = made.make()
        outputs = [fingerprint(path) for path in made.outputs]
        record = {"inputs": inputs, "settings": made.settings, "outputs": outputs, "told": told}
        write_text(_record_file(made), json.dumps(record, indent=1) + "\n")
    return told


def _record_file(made: MadeInput) -> Path:
    return made.outputs[0].with_name(f"{made.outputs[0].name}.json")


def _record(made: MadeInput) -> dict[str, Any] | None:
    """The record of files that are up to date; None if they must be made."""
    try:
        record: dict[str, Any] = json.loads(read_text(_record_file(made)))
        files = {"inputs": made.inputs, "outputs": made.outputs}
        fresh = record["settings"] == made.settings and all(
            all_unchanged(record[kind], paths) for kind, paths in files.items()
        )
        return record if fresh and isinstance(record["told"], list) else None
    except (DataError, ValueError, KeyError, TypeError):
        return None
