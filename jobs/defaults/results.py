"""Run settings, each as a process of `mpitune train` with its own folder, and store the results."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sets import DataSet
from settings import Setting

from mpitune.array_files.atomic import write_text
from mpitune.config.effective_keys import effective_keys
from mpitune.corpus.lines import lines
from mpitune.corpus.wording import clock
from mpitune.metrics.evaluation import SystemRuns, evaluate
from mpitune.run_folder.run_state import chosen_epoch, dense_start_is_best, dense_start_score, devtest_scores
from mpitune.training.job_inputs import load_job

Result = dict[str, Any]
"""Result of one run: a line of results.jsonl."""
_Made = tuple[Path, str, str]
"""A store, the command that adds to it, and the feature templates."""


@dataclass(frozen=True)
class Task:
    """One run."""

    data: DataSet
    setting: Setting
    seed: int
    further: tuple[str, ...] = ()
    """Settings of every run, ``table.key=value``."""

    @cached_property
    def variant(self) -> DataSet:
        """The variant of the data that the setting names."""
        return self.data.variant(self.setting.variant) if self.setting.variant else self.data

    @property
    def given(self) -> list[str]:
        """Settings of the job, ``table.key=value``."""
        size = [f"data.limit={self.setting.size}"] if self.setting.size else []
        return [*self.further, *self.setting.given, *size, f"run.seed={self.seed}"]

    @cached_property
    def digest(self) -> str:
        """Hash of all that the result depends on, except files: runs with equal digests have equal results."""
        job = load_job(self.variant.job, self.given)
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
    def store(self) -> Path:
        """Folder of the store."""
        size = f"-{self.setting.size}" if self.setting.size else ""
        return self.variant.job.parent / f"store{size}"


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
        self._locks: dict[Path, threading.Lock] = defaultdict(threading.Lock)
        self._made: set[_Made] = set()

    def result(self, task: Task) -> Result | None:
        """Result of a run; None if it has not been run."""
        return self._results.get(task.key)

    def p_value(self, task: Task, base: Task) -> float:
        """p-value of the difference in test BLEU of two finished runs (approximate randomisation)."""
        translations = [self._output(one) for one in (base, task)]
        key = tuple(str(file) for file in translations)
        if key not in self._p_values:
            texts = [(name, _read(file)) for name, file in zip(("base", "other"), translations, strict=True)]
            reference = [("reference", _read(task.data.reference))]
            found = evaluate(reference, [SystemRuns(text[0], [text]) for text in texts], test="ar").scores[1].p_value
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
        with ThreadPoolExecutor(self._at_once) as pool:
            running = {pool.submit(self._run, task): task for task in missing}
            try:
                for n, future in enumerate(as_completed(running), start=1):
                    task, result = running[future], future.result()
                    self._results[task.key] = result
                    _append(self._file, result)
                    left = (time.monotonic() - began) / n * (len(missing) - n)
                    bleu = result["error"] or f"BLEU {result['bleu']:.2f}"
                    about = f"{task.data.name} {task.setting.name} seed {task.seed}: {bleu}"
                    print(f"run {n} of {len(missing)}: {about}; {clock(left)} left", file=sys.stderr, flush=True)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _run(self, task: Task) -> Result:
        task.folder.mkdir(parents=True, exist_ok=True)
        sets = [*task.given, f"run.dir={task.folder}", f"run.store={task.store}"]
        self._alone((task.store, "prepare", task.setting.templates), lambda: self._mpitune(task, "prepare", sets))
        seconds, error = self._mpitune(task, "train", sets, "--quiet")
        spent = {"train": seconds}
        result: Result = {"set": task.data.name, "setting": task.setting.name, "seed": task.seed}
        result |= {"digest": task.digest, "given": task.given, "error": error, "bleu": None, "length_ratio": None}
        epochs = _objects(task.folder / "metrics.jsonl")
        result |= {"epoch": chosen_epoch(devtest_scores(epochs)), "epochs": len(epochs)}
        # The score of the dense start if its weights are the result.
        result["dense"] = dense_start_score(epochs) if dense_start_is_best(epochs) else None
        result["warnings"] = sum(len(epoch.get("warnings", ())) for epoch in epochs)
        result["devtest"] = [epoch["devtest_bleu"] for epoch in epochs]
        if not error:
            if not (task.folder / "test.out").exists():
                spent["decode"] = self._decode(task)
            system = SystemRuns("test", [("test", _read(task.folder / "test.out"))])
            score = evaluate([("reference", _read(task.data.reference))], [system]).scores[0]
            result |= {"bleu": score.bleu, "length_ratio": score.values["length_ratio"]}
        # Each checkpoint is as large as the sparse weights of all shards.
        shutil.rmtree(task.folder / "checkpoints", ignore_errors=True)
        return result | {"core_seconds": spent}

    def _decode(self, task: Task) -> float:
        """Translate the test set; returns the CPU seconds."""
        # All sizes share one store, because the grammars extracted for the test set are the same.
        store, templates = task.variant.job.parent / "store", task.setting.templates
        sets = [f"run.dir={task.folder}", f"run.store={store}", *filter(None, [templates])]
        files = ["--input", str(task.data.source), "--output", str(task.folder / "test.out")]

        def work() -> tuple[float, str]:
            return self._mpitune(task, "decode", sets, *files)

        return (self._alone((store, "decode", templates), work) or work())[0]

    def _alone(self, made: _Made, work: Callable[[], tuple[float, str]]) -> tuple[float, str] | None:
        """Do ``work``, with the store locked, if ``made`` is not in the store yet; else return None."""
        with self._locks[made[0]]:
            if made in self._made:
                return None
            done = work()
            self._made.add(made)
            return done

    def _mpitune(self, task: Task, command: str, sets: Sequence[str], *more: str) -> tuple[float, str]:
        """Run a command; returns the CPU seconds, and an error message if weights became NaN or infinite, else ""."""
        given = [word for one in sets for word in ("--set", one)]
        words = [sys.executable, "-m", "mpitune", command, str(task.variant.job), *given, *more]
        log = task.folder / f"{command}.log"
        with open(log, "wb") as out:
            env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        said = log.read_text(encoding="utf-8", errors="replace").strip()
        if process.returncode and "NaN or infinite weights" not in said:
            sys.exit(f"{' '.join(words)}\nfailed with exit code {process.returncode}:\n{said[-2000:]}")
        return usage.ru_utime + usage.ru_stime, "NaN or infinite weights" if process.returncode else ""

    def _output(self, task: Task) -> Path:
        """File of the test translation, by this run or by an earlier one with the same digest."""
        result = self._results[task.key]
        name = f"{result['setting']}-{result['seed']}-{task.digest}"
        return task.folder.parent / name / "test.out"


def _read(file: Path) -> list[str]:
    return [line for _, line in lines(file)]


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
