"""All methods on all processors: the same bits, whatever libm, BLAS, NumPy and LLVM make of the processor."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.mpi import ROOT, launcher
from support.naive_extract import random_pairs
from support.runs import result
from support.tiny import DEVTEST, Tiny

from mpitune.array_files.arrays import open_arrays

LIBM = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F"}
BLAS = {"OPENBLAS_CORETYPE": "Nehalem"}
NUMPY = {"NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX2 FMA3 AVX512F AVX512_SKX"}
LLVM = {"NUMBA_CPU_NAME": "generic"}
"""An old processor, as each of them sees it; names that NumPy does not know are ignored with a warning."""
PROCESSORS: dict[str, list[dict[str, str]]] = {
    "native": [{}],
    "old": [LIBM | BLAS | NUMPY],
    "two ranks": [LIBM | BLAS | NUMPY, {}],
}
"""The environment of each rank. `LLVM` would compile all kernels anew, for minutes: see the test of learners."""

PRO: dict[str, Any] = {"method": "pro", "pro.candidates": 200}
MERT: dict[str, Any] = {"method": "mert", "epochs": 1, "mert.restarts": 1, "mert.directions": 2}
JOBS: dict[str, dict[str, Any]] = {
    "perceptron": {"learner": {"gold": "nakov"}},
    "normalized": {"learner": {"preset": None, "learning_rate": None, "l2": 0.01}},
    "adadelta": {"learner": {"rate": "adadelta", "gold": "chiang", "learning_rate": 1.0}},
    "mira": {"learner": {"method": "mira", "mira.c": 10.0}},
    "all constraints": {"learner": {"method": "mira", "mira.variant": "k-constraint", "mira.c": 10.0}},
    "cutting planes": {"learner": {"method": "mira", "mira.variant": "cutting-plane", "mira.c": 10.0}},
    "pro": {"learner": PRO, **DEVTEST},
    "minimum risk": {"learner": {"method": "minrisk"}},
    "rampion": {"learner": {"method": "rampion"}},
    "mert": {"learner": MERT, "features": {"templates": []}},
    "hypergraphs": {"learner": {**MERT, "mert.search": "hypergraph"}, "features": {"templates": []}},
    "metrics": {"learner": PRO, "learner__metric": {"bleu": 0.5, "ter": 0.3, "chrf": 0.2}},
    "sampled": {"decoder": {"sample": "forest"}},
    "bins": {
        "learner": PRO,
        "features__discretize": {"features": ["Cost", "Lex"], "bins": 4, "regularizer": "monotone"},
        "features__unlog": {"minus_log10": ["Order"]},
    },
    "linear bins": {
        "learner": {"method": "mira"},
        "features__discretize": {"features": ["Cost", "Lex"], "bins": 6, "regularizer": "linear", "overlap": 1},
    },
}
"""By name: what a job over the tiny task says."""
PAIRS = [pair for seed in (3, 8, 9, 11) for pair in random_pairs(seed) if pair[0] and pair[1]]
BITEXT = """
[data]
source = "f"
references = ["e"]
[grammar]
source = "f"
target = "e"
alignment = "a"
[[lm]]
file = "made.arpa"
text = ["e"]
[learner]
epochs = 1
[parallel]
shards = 2
"""


def commands(folder: Path) -> dict[str, list[str]]:
    """The commands of one process, by name: the trainings of all `JOBS`, and what is made from a bitext."""
    tiny = Tiny(folder)
    texts = {
        "f": [" ".join(pair[0]) for pair in PAIRS],
        "e": [" ".join(pair[1]) for pair in PAIRS],
        "a": [" ".join(f"{i}-{j}" for i, j in pair[2]) for pair in PAIRS],
        "global": ["LanguageModel 0.5", "Cost -0.25", "Lex -0.5", "Order -0.125", "Glue -0.0625"],
        "bitext.toml": [BITEXT],
    }
    for name, lines in texts.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    jobs = {name: str(tiny.job_file(folder / name, **tables)) for name, tables in JOBS.items()}
    local = ["local", str(tiny.job_file(folder / "ebuu")), "--input", str(folder / "dev.de")]
    local += ["--weights", str(folder / "global"), "--set", "local.method=ebuu", "--set", "local.lambda=100.0"]
    return {
        **{name: ["train", job, "--quiet"] for name, job in jobs.items()},
        "local": [*local, "--output", str(folder / "local.out")],
        "lm": ["lm", "--order", "3", "--input", str(folder / "e"), "--output", str(folder / "made.arpa")],
        "bitext": ["train", str(folder / "bitext.toml"), "--quiet"],
    }


def digests(folder: Path) -> dict[str, str]:
    """By name: digests of the weights, of the stores' arrays and of texts."""
    contents = {name: result(folder / name) for name in JOBS} | {"bitext": result(folder / "runs/bitext")}
    contents |= {name: (folder / name).read_bytes() for name in ("local.out", "made.arpa")}
    for path in sorted(folder.rglob("*.npz")):
        if not {"checkpoints", "inputs"} & set(path.parts):
            arrays = sorted(open_arrays(path).items())
            contents[path.relative_to(folder).as_posix()] = b"".join(array.tobytes() for _, array in arrays)
    return {name: hashlib.blake2b(content, digest_size=8).hexdigest() for name, content in contents.items()}


def environment(*given: Mapping[str, str]) -> dict[str, str]:
    """That of this process without what names a processor, and what is ``given``."""
    names = set().union(LIBM, BLAS, NUMPY, LLVM)
    mine = {name: value for name, value in os.environ.items() if name not in names}
    mine["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    return {**mine, **{name: value for each in given for name, value in each.items()}}


def run(folder: Path, ranks: list[dict[str, str]]) -> dict[str, str]:
    folder.mkdir()
    listed = folder / "commands.json"
    listed.write_text(json.dumps(list(commands(folder).values())))
    program = [sys.executable, str(ROOT / "tests/support/run_commands.py"), str(listed)]
    command: list[str] = []
    for rank in ranks:
        one = ["env", *(f"{name}={value}" for name, value in rank.items()), *program]
        command += [":", "-n", "1", *one] if len(ranks) > 1 else one
    done = subprocess.run(
        [*launcher(), *command[1:]] if len(ranks) > 1 else command,
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return digests(folder)


@pytest.mark.mpi
def test_runs_have_the_same_bits(tmp_path: Path) -> None:
    # The first one alone: it compiles what is not compiled yet.
    first, *others = [(tmp_path / str(n), ranks) for n, ranks in enumerate(PROCESSORS.values())]
    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(PROCESSORS, [run(*first), *pool.map(run, *zip(*others, strict=True))], strict=True))
    different = {
        f"{method} on {processor}"
        for processor, results in found.items()
        for method, digest in results.items()
        if digest != found["native"][method]
    }
    assert not different
    assert all(results.keys() == found["native"].keys() for results in found.values())
    assert len(set(found["native"].values())) > len(JOBS)


def test_learners_have_the_same_bits() -> None:
    """Without a decoder, whose kernels take minutes to compile for another processor."""
    program = [sys.executable, str(ROOT / "tests/support/learned_bits.py")]
    native, other = (
        subprocess.run(program, env=environment(each), capture_output=True, text=True, timeout=600, check=True).stdout
        for each in ({}, LIBM | BLAS | NUMPY | LLVM)
    )
    assert native == other != ""
