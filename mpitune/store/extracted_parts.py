"""Extracted rules until all are there: a file for each item of work, so that interrupted work continues from these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mpitune.array_files.arrays import add_prefix, map_arrays, read_attributes, with_prefix, write_arrays
from mpitune.extraction.rule_arrays import TablePart
from mpitune.files import matching
from mpitune.ownership import remove
from mpitune.store.store import inputs_digest


class ExtractedParts:
    """The parts in a folder, in the order of their words; the first time that they are read, they are checked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._is_checked = False

    def __len__(self) -> int:
        return len(self.files())

    def __iter__(self) -> Iterator[TablePart]:
        for file in self.files():
            yield TablePart(**with_prefix(map_arrays(file, check_digest=not self._is_checked), "part"))
        self._is_checked = True

    def files(self) -> list[Path]:
        """The files of the parts, in the order of their words."""
        return matching(self.folder, "part-*.h5")

    def file(self, item: range) -> Path:
        """The file for the rules of ``item``, words of the bitext."""
        return self.folder / f"part-{item.start:012d}.h5"

    def write(self, item: range, part: TablePart, inputs: Mapping[str, Any]) -> None:
        """Write the rules of ``item``; ``inputs``: attributes that identify what they are extracted from."""
        arrays = add_prefix("part", part._asdict())
        write_arrays(self.file(item), arrays, {**inputs, "words": [item.start, item.stop]})

    def missing(self, items: Sequence[range], inputs: Mapping[str, Any]) -> list[range]:
        """The ``items`` that have no part yet; removes parts of other items, damaged ones and those of other inputs."""
        missing = list(items)
        for file in self.files():
            item = _item_of(file, inputs)
            if item in missing:
                missing.remove(item)
            else:
                remove(self.folder, file.name)
        return missing

    def remove(self) -> None:
        """Remove all parts."""
        remove(self.folder, "part-*.h5")


def _item_of(file: Path, inputs: Mapping[str, Any]) -> range | None:
    """The item of work whose rules ``file`` holds; None if it is damaged or of other inputs."""
    attributes = read_attributes(file) or {}
    if "inputs" not in attributes or inputs_digest(attributes["inputs"]) != inputs_digest(inputs["inputs"]):
        return None
    return range(*attributes["words"])
