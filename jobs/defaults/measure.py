"""Measure how good the learner's defaults are on several data sets: `make defaults`.

    MPITUNE_DATA=... python jobs/defaults/measure.py [--part PART ...] [--sets SET ...] [--seeds N] [--small]

README.md in this folder describes the parts. Every result is a line of results.jsonl in the working folder; finished
runs are not repeated. Prints the tables of the given parts and sets, and writes those of all parts to tables.md.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from builders import FURTHER, SETS, make
from making import Asked
from results import Result, Runs, Task
from sets import DataSet
from settings import BEST, DEFAULTS, PARTS, SEEDS, Setting, best

from mpitune.array_files.atomic import write_text

JOBS = Path(__file__).resolve().parents[1]
SMALL_SETS, SMALL_SEEDS, SMALL_TEST, SMALL_EPOCHS, SMALL_GRID = ("demo:200",), 2, 200, 2, 15
"""Values of --small; ``SMALL_GRID``: the step through the points of the grid."""
HEAD = ["set", "setting", "seeds", "mean", "sd", "lowest", "highest", "compared with", "difference", "p", "to the best"]
HEAD += ["length", "epoch", "devtest by epoch", "core hours"]


@dataclass(frozen=True)
class Study:
    """The measurement that the command line asks for."""

    runs: Runs
    sets: list[DataSet]
    seeds: int | None = None
    further: Mapping[str, Any] = field(default_factory=dict)
    """Settings of every run, values of dotted keys."""
    small: bool = False
    known: dict[tuple[str, Setting, int], Task] = field(default_factory=dict)

    def settings(self, part: str, data: DataSet) -> list[Setting]:
        """Settings of a part for a set."""
        found = PARTS[part](data)
        return found[::SMALL_GRID] if self.small and part == "grid" else found

    def tasks(self, part: str, data: DataSet, setting: Setting) -> list[Task]:
        """Runs of a setting, one for each seed."""
        tasks = (Task(data, setting, 1 + n, self.further) for n in range(self.seeds or SEEDS[part]))
        # Tasks are reused because they cache their digests, which are slow to compute.
        return [self.known.setdefault((data.name, setting, task.seed), task) for task in tasks]

    def do(self, part: str) -> None:
        """Do the missing runs of a part."""
        if part != "grid":
            self.runs.do(
                task for data in self.sets for one in self.settings(part, data) for task in self.tasks(part, data, one)
            )
            return
        self.runs.do(self.tasks(part, data, one)[0] for data in self.sets for one in self.settings(part, data))
        self.runs.do(
            task for data in self.sets for one in (DEFAULTS, *self.best(data)) for task in self.tasks(part, data, one)
        )

    def best(self, data: DataSet) -> list[Setting]:
        """Best points of the grid by the test BLEU of their first seed."""
        found = [(one, self.result(self.tasks("grid", data, one)[0])) for one in self.settings("grid", data)]
        return best([(one, result["bleu"]) for one, result in found if result and result["bleu"] is not None])

    def result(self, task: Task) -> Result | None:
        """Result of a run; None if it has not been run."""
        return self.runs.result(task)

    def begun(self, part: str, data: DataSet) -> bool:
        """Test if the part has a finished run other than those of the defaults (of `seeds`: any finished run)."""
        defaults = {task.key for task in self.tasks(part, data, DEFAULTS) if part != "seeds"}
        tasks = (task for one in self.settings(part, data) for task in self.tasks(part, data, one))
        return any(self.result(task) and task.key not in defaults for task in tasks)

    def rows(self, part: str, data: DataSet) -> Iterator[list[str]]:
        """Yield the lines of the part's table for a set."""
        settings = self.settings(part, data)
        if part == "grid":
            # The whole grid runs with one seed, its best points with as many seeds as the defaults.
            settings = [DEFAULTS, *self.best(data), *(replace(one, name=f"{one.name}, seed 1") for one in settings)]
        tasks = {one: self.tasks(part, data, one)[: 1 if one.name.endswith(", seed 1") else None] for one in settings}
        found = {one: [task for task in tasks[one] if self.result(task)] for one in settings}
        means = {one: statistics.mean(bleus) for one in settings if (bleus := self.bleus(found[one]))}
        for one in settings:
            if not found[one]:
                continue
            results = [result for task in found[one] if (result := self.result(task))]
            seconds = sum(sum(result["core_seconds"].values()) for result in results)
            about = [
                data.name,
                one.name,
                f"{len(results)}",
                *self.summary(found[one]),
                *self.compared(part, found[one]),
            ]
            about.append(f"{means[one] - max(means.values()):+.2f}" if one in means else "")
            ratios = [result["length_ratio"] for result in results if result["length_ratio"] is not None]
            about += [
                f"{statistics.mean(ratios):.3f}" if ratios else "",
                chosen_epochs(results),
                by_epoch([result.get("devtest", []) for result in results]),
            ]
            yield [*about, f"{seconds / 3600:.3f}"]

    def bleus(self, tasks: Sequence[Task]) -> list[float]:
        """Test BLEU of the finished runs, without those that ended with NaN or infinite weights."""
        results = [self.result(task) for task in tasks]
        return [result["bleu"] for result in results if result and result["bleu"] is not None]

    def summary(self, tasks: Sequence[Task]) -> list[str]:
        """Mean, standard deviation, lowest and highest BLEU."""
        bleus = self.bleus(tasks)
        if len(bleus) < len(tasks):
            return ["no numbers", "", "", ""]
        deviation = f"{statistics.stdev(bleus):.2f}" if len(bleus) > 1 else ""
        return [f"{statistics.mean(bleus):.2f}", deviation, f"{min(bleus):.2f}", f"{max(bleus):.2f}"]

    def compared(self, part: str, tasks: Sequence[Task]) -> list[str]:
        """Name of the baseline, difference of the mean BLEU over common seeds, and median p-value."""
        data, setting = tasks[0].data, tasks[0].setting
        base = next((one for one in (DEFAULTS, *self.settings(part, data)) if one.name == setting.base), DEFAULTS)
        of_seed = {task.seed: task for task in self.tasks(part, data, base)}
        pairs = [(task, of_seed[task.seed]) for task in tasks if task.seed in of_seed]
        pairs = [pair for pair in pairs if len(self.bleus(pair)) == 2 and pair[0].key != pair[1].key]
        if not pairs:
            return ["", "", ""]
        difference = statistics.mean(self.bleus([a])[0] - self.bleus([b])[0] for a, b in pairs)
        # One seed is not enough to test a point of the grid.
        wanted = not setting.name.endswith(", seed 1")
        p_value = f"{statistics.median(self.runs.p_value(a, b) for a, b in pairs):.3f}" if wanted else ""
        return [setting.base, f"{difference:+.2f}", p_value]

    def table(self, part: str) -> str:
        """Make the table of a part in Markdown; "" if it has no finished runs besides the defaults."""
        rows = [row for data in self.sets if self.begun(part, data) for row in self.rows(part, data)]
        if not rows:
            return ""
        lines = [f"| {' | '.join(row)} |" for row in (HEAD, ["---"] * len(HEAD), *rows)]
        return "\n".join([f"## {part}", "", *lines, ""])


def chosen_epochs(results: Sequence[Result]) -> str:
    """First and last of the epochs that are results; apart from them dense starts that are, with their mean devtest."""
    # Results of earlier versions have no "dense".
    dense = [result["dense"] for result in results if result.get("dense") is not None]
    epochs = sorted(result["epoch"] for result in results if result.get("dense") is None)
    cells = [f"dense start ({statistics.mean(dense):.2f})"] if dense else []
    if epochs:
        cells.append("-".join(dict.fromkeys(map(str, (epochs[0], epochs[-1])))))
    return ", ".join(cells)


def by_epoch(runs: Sequence[Sequence[float | None]]) -> str:
    """Devtest BLEU of each epoch that all ``runs`` have, with the standard error over them; "" without devtest."""
    cells = []
    for scores in zip(*runs, strict=False):
        known = [score for score in scores if score is not None]
        if len(known) < len(runs):
            return ""
        error = f" ({statistics.stdev(known) / len(known) ** 0.5:.2f})" if len(known) > 1 else ""
        cells.append(f"{statistics.mean(known):.2f}{error}")
    return ", ".join(cells)


def main(arguments: Sequence[str] | None = None) -> None:
    """Do the missing runs and write the tables."""
    options = _options(arguments)
    work = (options.work or JOBS / "runs" / ("defaults-small" if options.small else "defaults")).resolve()
    work.mkdir(parents=True, exist_ok=True)
    asked = Asked(work, options.devtest, options.training, SMALL_TEST if options.small else sys.maxsize)
    sets = []
    for name in options.sets or (SMALL_SETS if options.small else SETS):
        made = make(asked, name)
        if isinstance(made, str):
            print(f"skipped {name}: {made}", file=sys.stderr, flush=True)
        else:
            sets.append(made)
    if not sets:
        sys.exit("measure.py: none of the sets is available")
    epochs = options.epochs or (SMALL_EPOCHS if options.small else 0)
    further = {"learner.epochs": epochs} if epochs else {}
    seeds = options.seeds or (SMALL_SEEDS if options.small else None)
    study = Study(Runs(work, options.ranks), sets, seeds, further, options.small)
    for part in options.part:
        print(f"== {part}", file=sys.stderr, flush=True)
        study.do(part)
    print("\n".join(study.table(part) for part in options.part), end="")
    tables = "\n".join(filter(None, (study.table(part) for part in PARTS)))
    write_text(work / "tables.md", tables)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="+", choices=list(PARTS), default=list(PARTS), metavar="PART")
    parser.add_argument(
        "--sets",
        nargs="+",
        type=_set,
        metavar="SET",
        help=f"data sets, of {', '.join(SETS)} (default: all of these), {', '.join(FURTHER)}; demo:300 tunes on 300 "
        "sentences",
    )
    counts = ", ".join(f"{count} for {part}" for part, count in SEEDS.items())
    parser.add_argument(
        "--seeds",
        type=int,
        metavar="N",
        help=f"runs of each setting (default: {counts}; in the grid, of its best {BEST} points)",
    )
    parser.add_argument("--ranks", type=int, default=2, help="number of parallel runs, a process each (default 2)")
    parser.add_argument("--epochs", type=int, metavar="N", help="no more than N epochs (default: that of the defaults)")
    parser.add_argument("--devtest", action="store_true", help="choose the epoch on a set other than the test set")
    parser.add_argument(
        "--training", action="store_true", help="tune on training pairs, choose the epoch on training pairs held out"
    )
    parser.add_argument("--small", action="store_true", help="test the script on the demo; scores are meaningless")
    parser.add_argument(
        "--work", type=Path, metavar="DIR", help="folder for data, runs and results (default jobs/runs/defaults)"
    )
    return parser.parse_args(arguments)


def _set(name: str) -> str:
    kind, colon, number = name.partition(":")
    if kind not in SETS | FURTHER or (colon and not (number.isdecimal() and int(number))):
        raise argparse.ArgumentTypeError(f"found {name!r}, expected one of {', '.join(SETS | FURTHER)}, or demo:300")
    return name


if __name__ == "__main__":
    # The processes of the runs inherit it: each is to use one core.
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    main()
