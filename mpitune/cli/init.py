"""The command `mpitune init`: a folder with a job to start from."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
from pathlib import Path

from mpitune.array_files.atomic import write_text
from mpitune.config.explained import explained
from mpitune.errors import UsageError, printable
from mpitune.exchange.comm import Comm
from mpitune.files import make_folder, temporary_folder, writing

TEMPLATES = Path(__file__).parents[1] / "templates"
"""Folder of the jobs, of the example that explains all keys, of the batch scripts and of the demo's corpus."""
SCRIPTS = ("train.sbatch", "decode.sbatch")
JOB = "job.toml"
DATA = "data"
"""Folder of the demo's data."""
DEMO = "demo"
"""The template that comes with data."""
ALIGNED = ("dev", "train")
"""The templates that name an alignment and a language model, to be made first."""
LISTS = "rerank"
"""The template for n-best lists."""


def run_init(options: argparse.Namespace, comm: Comm) -> None:
    """Write the job of a template, the demo's data, and batch scripts."""
    comm.on_root(_write, options.directory, options.template, options.slurm)


def _write(folder: Path, template: str, slurm: bool) -> None:
    scripts = [folder / "slurm" / name for name in SCRIPTS] if slurm else []
    data = [folder / DATA] if template == DEMO else []
    for path in (folder / JOB, *data, *scripts):
        if os.path.lexists(path):
            raise UsageError(f"{path}: found a file or folder of this name, expected none: name another folder")
    job = explained(TEMPLATES / f"{template}.toml", TEMPLATES / "example.toml")
    make_folder(folder)
    with writing(folder):
        for path in data:
            _copy_data(path)
        for path in scripts:
            path.parent.mkdir(exist_ok=True)
            shutil.copyfile(TEMPLATES / path.name, path)
        write_text(folder / JOB, job)
    print(_next_steps(folder, template, slurm), flush=True)


def _copy_data(folder: Path) -> None:
    """Copy the demo's corpus to ``folder``, all or nothing."""
    with temporary_folder(folder.parent, prefix=f".{folder.name}-") as beside:
        copy = beside / folder.name
        copy.mkdir()
        for path in (TEMPLATES / DEMO).iterdir():
            # Not its permissions: what is installed may be for reading only.
            shutil.copyfile(path, copy / path.name)
        copy.rename(folder)


def _next_steps(folder: Path, template: str, slurm: bool) -> str:
    """The commands from the job to a report, to be printed."""
    test, reference = (f"{DATA}/test.ja", f"{DATA}/test.en") if template == DEMO else ("test.de", "test.en")
    steps = [] if folder == Path() else [f"cd {shlex.quote(str(folder))}"]
    steps += [] if template == DEMO else [f"edit {JOB}: the names of your files"]
    if template in ALIGNED:
        steps += ["mpitune align --source train.de --target train.en --output train.align.gz"]
        steps += ["mpitune lm --order 3 --input train.en --output lm.arpa.gz"]
    steps += [] if template == DEMO else [f"mpitune train {JOB} --dry-run"]
    steps += [f"sbatch slurm/train.sbatch {JOB}" if slurm else f"mpirun -n 2 mpitune train {JOB}"]
    if template == LISTS:
        steps += [f"mpitune rerank {JOB} --input test.nbest.gz --output test.out"]
    else:
        steps += [f"mpitune decode {JOB} --input {test} --output test.out"]
    steps += [f"mpitune evaluate --refs {reference} --hyps test.out", "mpitune report runs/job"]
    lines = [f"{folder / JOB}: every key is explained in it. Next:", *(f"    {step}" for step in steps)]
    return "\n".join(map(printable, lines))
