"""Conversion of dtrain's configuration files to job files.

dtrain is the C++ trainer of Simianer, Riezler, Dyer, ACL 2012. An option is translated by its effect in dtrain's source
code, which may differ from its name. Two generations of options exist; `GENERATIONS` lists them by year.

- `options`: the file's lines, types of options
- `draft`: Draft, the job file under construction
- `common`: translations of options that both generations have
- `generation2012`: the options of cdec's training/dtrain as of 2012
- `generation2016`: the options of pks/cdec-dtrain as of 2016
"""

from __future__ import annotations

from pathlib import Path

from mpitune.config.dtrain import generation2012, generation2016
from mpitune.config.dtrain.draft import Draft
from mpitune.config.dtrain.options import DtrainOptions, Setting, read_settings, suggestion
from mpitune.errors import UsageError

GENERATIONS: dict[int, DtrainOptions] = {2012: generation2012.OPTIONS, 2016: generation2016.OPTIONS}
"""By year: all options of a generation, in the order of their translation."""


def import_job(path: Path, folder: Path) -> str:
    """Convert the dtrain configuration ``path`` to a job file (TOML), with a comment on each option.

    Relative paths in it start from ``folder``, the working folder, as in dtrain; paths in the job are absolute. Raises
    UsageError for an unknown option, a wrong value or options of both generations, and DataError if the file cannot be
    read.
    """
    settings = read_settings(path)
    year, evidence = _generation(path, settings)
    if evidence:
        reason = f"according to {evidence} in line {settings[evidence].line}"
    else:
        reason = "no option distinguishes 2016 from 2012"
    draft = Draft(path, folder, settings, GENERATIONS[year])
    for name, option in GENERATIONS[year].items():
        option.translate(draft, name)
    header = [
        f"From {path.absolute()}: a configuration of dtrain as of {year} ({reason}).",
        f"Relative paths were resolved from the working folder, as in dtrain: {folder.absolute()}",
        "dtrain processes the sentences in the order of the file, mpitune in a random order drawn from run.seed.",
    ]
    return draft.text(header)


def _generation(path: Path, settings: dict[str, Setting]) -> tuple[int, str]:
    """Year of the generation, and the first option that only this one has ("" and the later year if there is none).

    Raises UsageError for options of both generations and for unknown options.
    """
    known = {name for options in GENERATIONS.values() for name in options}
    evidence: dict[int, str] = {}
    for name, (line, _) in settings.items():
        years = [year for year, options in GENERATIONS.items() if name in options]
        if not years:
            raise UsageError(f"{path}:{line}: found {name!r}, expected an option of dtrain{suggestion(name, known)}")
        if len(years) == 1:
            evidence.setdefault(years[0], name)
    if len(evidence) > 1:
        (year, first), (other, second) = evidence.items()
        found = f"{second}, an option of dtrain as of {other}"
        expected = f"options of {year} only, as {first} in line {settings[first].line} is"
        raise UsageError(f"{path}:{settings[second].line}: found {found}, expected {expected}")
    return next(iter(evidence.items()), (max(GENERATIONS), ""))
