"""Configurations of dtrain, the C++ trainer that SRD12 was done with, as job files.

Two generations of its options exist: those of cdec as of 2012 (`generation2012`) and those of pks/cdec-dtrain as of
2016 (`generation2016`). What is translated is what dtrain's source does with an option, not what its name says.
"""

from __future__ import annotations

from pathlib import Path

from mpitune.config.dtrain import generation2012, generation2016
from mpitune.config.dtrain.draft import Draft
from mpitune.config.dtrain.options import DtrainOptions, Setting, nearest, read_settings
from mpitune.errors import UsageError

GENERATIONS: dict[int, DtrainOptions] = {2012: generation2012.OPTIONS, 2016: generation2016.OPTIONS}
"""All options of each generation, in the order in which they are translated."""


def import_job(path: Path, folder: Path) -> str:
    """The job file (TOML) that the dtrain configuration ``path`` corresponds to, with what became of each option.

    Relative paths in it start from ``folder``, the working folder, as they do for dtrain; the job's are absolute.
    Raises UsageError for an unknown option, a wrong value or options of both generations, and DataError where the file
    cannot be read.
    """
    settings = read_settings(path)
    year, told_by = _generation(path, settings)
    where = f"{told_by} in line {settings[told_by].line} tells" if told_by else "no option tells which of 2012 and 2016"
    draft = Draft(path, folder, settings, GENERATIONS[year])
    for name, option in GENERATIONS[year].items():
        option.becomes(draft, name)
    header = [
        f"From {path.absolute()}: a configuration of dtrain as of {year} ({where}).",
        f"Relative paths in it were taken from the working folder, as dtrain does: {folder.absolute()}",
        "dtrain goes through the sentences in the order of the file, mpitune in one that run.seed draws.",
    ]
    return draft.text(header)


def _generation(path: Path, settings: dict[str, Setting]) -> tuple[int, str]:
    """The year of the options of a file, and the first option that tells ("" where none does: the later year).

    Raises UsageError for options of both, or of none.
    """
    known = {name for options in GENERATIONS.values() for name in options}
    told: dict[int, str] = {}
    for name, (line, _) in settings.items():
        years = [year for year, options in GENERATIONS.items() if name in options]
        if not years:
            raise UsageError(f"{path}:{line}: found {name!r}, expected an option of dtrain{nearest(name, known)}")
        if len(years) == 1:
            told.setdefault(years[0], name)
    if len(told) > 1:
        (year, first), (other, second) = told.items()
        found = f"{second}, an option of dtrain as of {other}"
        expected = f"options of {year} only, as {first} in line {settings[first].line} is"
        raise UsageError(f"{path}:{settings[second].line}: found {found}, expected {expected}")
    return next(iter(told.items()), (max(GENERATIONS), ""))
