"""Reader of the bins and transforms of the grammar's scores that a run stores: its weights are valid only with them."""

from __future__ import annotations

import json
from pathlib import Path

from mpitune.corpus.lines import read_text
from mpitune.errors import DataError
from mpitune.files import is_file, is_folder
from mpitune.grammar.score_transforms import Scoring
from mpitune.run_folder.checkpoint import read_checkpoint
from mpitune.run_folder.layout import RunFolder


def read_scoring(path: Path) -> Scoring | None:
    """Bins and transforms that belong to the weights at ``path``; None if there are none or they are unknown.

    ``path``: a run folder, a weights file in one, or a checkpoint anywhere; they are unknown for other weights files.
    Raises DataError for a damaged or unreadable file.
    """
    if path.suffix == ".h5" and is_file(path):
        kept = read_checkpoint(path).scoring
        return Scoring.from_json(kept) if kept else None
    folder = (path if is_folder(path) else path.parent).absolute()
    file = RunFolder(folder).scoring
    if folder.name == RunFolder(folder).weights.name and not (is_file(file) or is_file(RunFolder(folder).config)):
        file = RunFolder(folder.parent).scoring
    if not is_file(file):
        return None
    try:
        return Scoring.from_json(json.loads(read_text(file)))
    except (ValueError, KeyError, TypeError):
        raise DataError.at(file, None, found="a damaged file", expected="what a run has written there") from None
