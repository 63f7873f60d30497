"""Run settings, each in a folder of its own, on several processes, and store the results."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cached_property
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from files import read_lines
from sets import DataSet
from settings import Setting

import mpitune
from mpitune.array_files.atomic import write_text
from mpitune.config.effective_keys import effective_keys
from mpitune.corpus.wording import clock

Result = dict[str, Any]
"""Result of one run: a line of results.jsonl."""


@dataclass(frozen=True)
class Task:
    """One run."""

    data: DataSet
    setting: Setting
    seed: int
    further: Mapping[str, Any] = field(default_factory=dict)
    """Settings of every run, values of dotted keys."""

    @property
    def given(self) -> dict[str, Any]:
        """Settings of the job."""
        size = {"data.limit": self.setting.size} if self.setting.size else {}
        return {**self.further, **self.setting.given, **size, "run.seed": self.seed}

    @cached_property
    def variant(self) -> DataSet:
        """The variant of the data that the setting names."""
        return self.data.variant(self.setting.variant) if self.setting.variant else self.data

    @cached_property
    def digest(self) -> str:
        """Hash of all that the result depends on, except files: runs with equal digests have equal results."""
        job = self.variant.job.replace(self.given).keys
        text = json.dumps(
            [effective_keys(job), job.learner.epochs, job.learner.patience, self.setting.variant], default=str
        )
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    @property
    def key(self) -> tuple[str, str]:
        """Key of its result in `Runs`."""
        return self.data.name, self.digest

    @property
    def folder(self) -> Path:
        """Run folder."""
        return self.data.folder / "runs" / f"{self.setting.name}-{self.seed}-{self.digest}"

    @property
    def base(self) -> mpitune.Job:
        """The job of the data, in the run folder, with the templates of the setting."""
        store = self.variant.job["run.store"]
        size = f"-{self.setting.size}" if self.setting.size else ""
        templates = {key: value for key, value in self.setting.given.items() if key == "features.templates"}
        return self.variant.job.replace({"run.dir": self.folder, "run.store": f"{store}{size}", **templates})


def run(task: Task) -> Result:
    """Train and translate the test set."""
    job, error, score = task.base.replace(task.given), "", None
    mpitune.prepare(job)
    began = time.process_time()
    try:
        mpitune.train(job)
    except mpitune.DataError as found:
        if "NaN or infinite weights" not in str(found):
            raise
        error = "NaN or infinite weights"
    spent = {"train": time.process_time() - began}
    if not error:
        began, output = time.process_time(), task.folder / "test.out"
        with mpitune.Decoder(task.base, task.folder) as decoder:
            translations = decoder.translate(read_lines(task.data.source))
        spent["decode"] = time.process_time() - began
        write_text(output, "".join(f"{line}\n" for line in translations))
        score = mpitune.evaluate({"test": translations}, [*read_lines(task.data.reference)]).scores[0]
    # Each checkpoint is as large as the sparse weights of all shards.
    shutil.rmtree(task.folder / "checkpoints", ignore_errors=True)
    epochs = mpitune.Run(task.folder).metrics
    epoch, devtest = epochs.result
    return {
        "set": task.data.name,
        "setting": task.setting.name,
        "seed": task.seed,
        "digest": task.digest,
        "given": task.given,
        "error": error,
        "bleu": score and score.bleu,
        "length_ratio": score and score.values["length_ratio"],
        "epoch": epoch,
        "epochs": len(epochs),
        # The score of the dense start if its weights are the result.
        "dense": None if epoch else devtest,
        "warnings": sum(len(each.get("warnings", ())) for each in epochs),
        "devtest": [each["devtest_bleu"] for each in epochs],
        "core_seconds": spent,
    }


class Runs:
    """Does the missing runs and stores the results."""

    def __init__(self, work: Path, at_once: int) -> None:
        self._file = work / "results.jsonl"
        self._tested = work / "significance.jsonl"
        self._at_once = at_once
        self._results: dict[tuple[str, str], Result] = {}
        for result in _objects(self._file):
            self._results[result["set"], result["digest"]] = result
        self._p_values = {tuple(found["runs"]): float(found["p"]) for found in _objects(self._tested)}

    def result(self, task: Task) -> Result | None:
        """Result of a run; None if it has not been run."""
        return self._results.get(task.key)

    def p_value(self, task: Task, base: Task) -> float:
        """p-value of the difference in test BLEU of two finished runs (approximate randomisation)."""
        translations = [self._output(one) for one in (base, task)]
        key = tuple(str(file) for file in translations)
        if key not in self._p_values:
            first, other, reference = ([*read_lines(file)] for file in (*translations, task.data.reference))
            found = mpitune.evaluate({"base": first, "other": other}, reference, test="ar").scores[1].p_value
            assert found is not None
            self._p_values[key] = found
            _append(self._tested, {"runs": key, "p": found})
        return self._p_values[key]

    def do(self, tasks: Iterable[Task]) -> None:
        """Do the runs that have no result yet; raises SystemExit if one fails."""
        missing = list({task.key: task for task in tasks if task.key not in self._results}.values())
        if not missing:
            return
        began = time.monotonic()
        # Spawned, because forked processes would inherit compiled kernels and loggers.
        with ProcessPoolExecutor(self._at_once, mp_context=get_context("spawn")) as pool:
            running = {pool.submit(run, task): task for task in missing}
            try:
                for n, future in enumerate(as_completed(running), start=1):
                    task = running[future]
                    try:
                        result = future.result()
                    except (mpitune.MpituneError, BrokenExecutor) as error:
                        sys.exit(f"{task.folder}: {error}")
                    self._results[task.key] = result
                    _append(self._file, result)
                    left = (time.monotonic() - began) / n * (len(missing) - n)
                    bleu = result["error"] or f"BLEU {result['bleu']:.2f}"
                    about = f"{task.data.name} {task.setting.name} seed {task.seed}: {bleu}"
                    print(f"run {n} of {len(missing)}: {about}; {clock(left)} left", file=sys.stderr, flush=True)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _output(self, task: Task) -> Path:
        """File of the test translation, by this run or by an earlier one with the same digest."""
        result = self._results[task.key]
        name = f"{result['setting']}-{result['seed']}-{task.digest}"
        return task.folder.parent / name / "test.out"


def _objects(file: Path) -> list[dict[str, Any]]:
    """Read the objects of a JSON-lines file; an incomplete last line is ignored."""
    found = []
    for line in file.read_text(encoding="utf-8").splitlines(keepends=True) if file.exists() else []:
        if line.endswith("\n"):
            found.append(json.loads(line))
    return found


def _append(file: Path, value: object) -> None:
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    # Replaces an incomplete last line.
    write_text(file, text[: text.rfind("\n") + 1] + json.dumps(value) + "\n")
