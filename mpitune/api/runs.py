"""Training from Python, and the run folder that it leaves."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mpitune.api.call import alone, collective
from mpitune.api.decoder import Decoder
from mpitune.api.job import Job, as_job, load_plugins_of, note
from mpitune.api.weights import Weights
from mpitune.config import spec
from mpitune.config.load import load
from mpitune.corpus.lines import read_text
from mpitune.errors import MpituneError
from mpitune.exchange.comm import Comm
from mpitune.report.readable import rule_in_words
from mpitune.run_folder.layout import RunFolder
from mpitune.run_folder.reader import Epoch, read_epochs, read_metrics
from mpitune.run_folder.run_state import (
    RunState,
    chosen_epoch,
    dense_start_is_best,
    dense_start_score,
    devtest_scores,
    read_state,
)
from mpitune.runtime.log import LOG
from mpitune.runtime.signals import StopFlag
from mpitune.store.extract_grammars import extract_and_build
from mpitune.store.store import rules_firing
from mpitune.training import job_inputs, loop
from mpitune.training.hosts import check_hosts
from mpitune.training.open_run import open_fitted

if TYPE_CHECKING:
    from mpi4py import MPI

EXAMPLES = 3
"""Maximum number of rules that a report shows as examples of a feature."""


def train(
    job: Job | str | os.PathLike[str] | Mapping[str, Any],
    comm: MPI.Intracomm | None = None,
    *,
    resume: Literal["auto", "never", "must"] = "auto",
    verbose: bool = False,
) -> Run:
    """Learn the weights of ``job`` (or of a job file), from the newest checkpoint on if there is one.

    Collective over ``comm``, a communicator of mpi4py; by default over all processes that ``mpirun`` has started with
    the script, or in this process alone. The result does not depend on their number. ``resume``: "never" begins anew,
    "must" needs a checkpoint. ``verbose``: the log and the progress go to standard error; else only to the run folder,
    and to handlers of the caller's `logging`.

    Raises UsageError, DataError or MachineError, as the command line tells of them. After any error, and after a
    KeyboardInterrupt, the same call goes on from the finished work.

    >>> run = train("job.toml")  # doctest: +SKIP
    >>> run.weights.top(10, template="id")  # doctest: +SKIP
    """
    with collective(comm, verbose=verbose) as processes:
        keys = processes.bcast(as_job(job).keys)
        _learn(keys, processes, resume)
    return Run(keys.run.dir)


def train_alone(job: Job, *, verbose: bool) -> Run:
    """As `train`, in this process alone, whatever others mpirun has started."""
    with alone(verbose=verbose) as process:
        _learn(job.keys, process, "auto")
    return Run(job.keys.run.dir)


def _learn(job: spec.Job, comm: Comm, resume: Literal["auto", "never", "must"]) -> None:
    note(job, comm)
    check_hosts(comm, job)
    loop.train(job, comm, resume=resume)


def prepare(job: Job | str | os.PathLike[str] | Mapping[str, Any], comm: MPI.Intracomm | None = None) -> list[str]:
    """Build the store of ``job``, which `train` would otherwise build; returns the names of the files made.

    Collective over ``comm``, as `train` is; the errors are those of `train`.
    """
    with collective(comm) as processes:
        keys = processes.bcast(as_job(job).keys)
        note(keys, processes)
        return build_store(keys, processes)


def build_store(job: spec.Job, comm: Comm) -> list[str]:
    """`prepare` on the processes ``comm``."""
    store, sources = job.run.store, job_inputs.sources(job)
    with StopFlag():
        made = extract_and_build(comm, sources, store, store)
        if sources.train is not None:
            open_fitted(comm, job, sources, store)
    return made


class Metrics(list[dict[str, Any]]):
    """The figures of each epoch: keys as in metrics.jsonl, which mpitune/README.md lists."""

    @property
    def result(self) -> tuple[int, float | None]:
        """The epoch whose weights are the result, 0 for the dense start, and its score on devtest, None without one."""
        if dense_start_is_best(self):
            return 0, dense_start_score(self)
        scores = devtest_scores(self)
        epoch = chosen_epoch(scores)
        return epoch, scores[epoch - 1] if epoch else None

    def table(self) -> Any:
        """A pandas DataFrame with a row for each epoch, without what is no single number.

        Raises ImportError without pandas.
        """
        pandas = import_module("pandas")
        rows = [{key: value for key, value in epoch.items() if not isinstance(value, list | dict)} for epoch in self]
        return pandas.DataFrame(rows).set_index("epoch") if rows else pandas.DataFrame()


class Report:
    """A report on runs, a self-contained HTML file; a notebook shows it inline."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"<mpitune.Report {self.path}>"

    def _repr_html_(self) -> str:
        # In a frame of its own: its styles are for a whole page.
        page = html.escape(read_text(self.path), quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 60em; border: 0"></iframe>'


class Run:
    """The folder of a run, finished or not; files are read when they are asked for.

    >>> run = Run("runs/job")  # doctest: +SKIP
    >>> run.weights.dense, run.metrics[-1]["devtest_bleu"]  # doctest: +SKIP
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._files = RunFolder(self.folder)

    @cached_property
    def weights(self) -> Weights:
        """The result: of the best epoch on devtest, or of the last one. Raises DataError before the first epoch."""
        return Weights.read(self.folder)

    def weights_of(self, epoch: int) -> Weights:
        """The weights published after an ``epoch``, from 1."""
        return Weights.read(self._files.epoch_weights(epoch))

    @property
    def metrics(self) -> Metrics:
        """The figures of the finished epochs."""
        return Metrics(read_metrics(self._files.metrics))

    @property
    def epochs(self) -> list[Epoch]:
        """The same with a type for each figure, those that reports show."""
        return read_epochs(self._files.metrics)

    @cached_property
    def config(self) -> Job:
        """The job as it was run, every key with its value."""
        return Job(self._files.config)

    @property
    def state(self) -> RunState | None:
        """``running``, ``stopped``, ``done`` or ``failed``, with the reason; None for a folder without a run."""
        return read_state(self._files)

    def report(self, *others: Run | str | os.PathLike[str], output: str | os.PathLike[str] | None = None) -> Report:
        """Write the report on this run, compared with ``others``, to the folder ``output`` or into the run folder."""
        folders = [self.folder, *(run.folder if isinstance(run, Run) else Path(run) for run in others)]
        return report(folders, Path(output) if output is not None else None)

    def decoder(self, weights: Mapping[str, float] | None = None) -> Decoder:
        """A decoder with the models of the run, and its weights unless others are given."""
        return Decoder(self.config, self.weights if weights is None else weights, scoring=self.folder)

    def __repr__(self) -> str:
        state = self.state
        return f"<mpitune.Run {self.folder}, {f'{state.state}, epoch {state.epoch}' if state else 'not begun'}>"


def report(folders: Sequence[Path], output: Path | None = None, warn: Callable[[str], None] = LOG.warning) -> Report:
    """Write the report on the first of the run ``folders``, compared with the others, to ``output`` or into the first.

    Raises UsageError for a folder that is no run with a finished epoch, or that has a report.html of something else.
    """
    # Its libraries take longer to load than all others together.
    from mpitune.report.html import write_report

    with alone():
        for folder in folders:
            load_plugins_of(folder, warn)
        return Report(write_report(folders, _examples, output, warn))


def _examples(run: Path, names: Sequence[str]) -> dict[str, list[str]]:
    """Rules that fire the features ``names``, as text; empty for lists, or if the store no longer exists."""
    try:
        job = load(RunFolder(run).config)
        if job.decoder.backend == "lists":
            return {}
        found = rules_firing(job.run.store, job.features.templates, names, EXAMPLES)
    except MpituneError:
        return {}
    return {
        name: [rule_in_words([*map(str, rule.source)], [*map(str, rule.target)]) for rule in rules]
        for name, rules in found.items()
    }
