"""Reader of a run folder: settings, the metrics of each epoch, the model, warnings, translations.

Nothing outside the folder is read: it may have been copied to a machine without the data.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import Field, dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from mpitune.config.load import read_tables
from mpitune.corpus.lines import lines
from mpitune.errors import DataError, printable
from mpitune.files import exists, is_file, open_regular
from mpitune.metrics.tuning_metric import METRICS
from mpitune.run_folder.layout import RunFolder
from mpitune.run_folder.model_weights import read_model
from mpitune.run_folder.run_state import RunState, chosen_epoch, dense_start_is_best, dense_start_score, read_state

_LOG_LINE = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) \[\d+/\d+\] ([A-Z]+) (.*)")


@dataclass(frozen=True)
class Epoch:
    """The metrics of one epoch that are shown: keys of its line in metrics.jsonl."""

    epoch: int
    seconds: float
    sentences: int
    gold: float
    """Mean gold score of the 1-best translations of the training sentences."""
    devtest_bleu: float | None
    """0 to 100; None without a devtest set or its references."""
    devtest_metric: float | None
    """``learner.metric`` of the devtest set, if it is another one than BLEU."""
    devtest_bleu_dense: float | None
    """Devtest BLEU of the dense start; None in other epochs than the first, and without sparse features."""
    devtest_metric_dense: float | None
    """The same in ``learner.metric``, if it is another one than BLEU."""
    metric_best: float
    """``learner.metric`` of the 1-best translations of training, of the best entries of all lists, and of a random
    choice."""
    metric_oracle: float
    metric_random: float
    length_ratio: float | None
    devtest_length_ratio: float | None
    weight_norm: float
    """L2 norm of the published weights without frozen ones."""
    empty_outputs: int
    pairs: int
    updates: int
    active_features: int
    selected_features: int
    cancelled_features: int | None
    """Selected features that have no weight, as those of the shards cancel out; None in runs of earlier versions."""
    lambda_: float | None
    """lambda: the smallest column norm for selection."""
    best_bleu: float | None
    """Corpus BLEU, 0 to 100, of the 1-best translations of training; None without references."""
    oracle_bleu: float | None
    """Corpus BLEU of the oracles, and of the predictions, of MIRA; None for methods without them."""
    prediction_bleu: float | None
    objective: float | None
    """The objective of a batch method; None for others."""
    column_norms: list[tuple[float, int]]
    """Norms, ascending, each with the number of columns of at least that norm; empty without selection."""
    largest_norms: dict[str, list[tuple[str, float]]]
    """By template, the features of largest column norm; empty without selection."""
    busy_seconds: list[float]
    """One entry per rank; so for the next three."""
    wait_seconds: list[float]
    timeline: list[list[float]]
    """Busy share (0 to 1) of each rank in equal parts of the epoch."""
    peak_memory_bytes: list[float]
    warnings: list[str]
    """Warnings of the sanity checks."""

    @property
    def devtest_score(self) -> float | None:
        """The score on which the epoch is chosen."""
        return self.devtest_bleu if self.devtest_metric is None else self.devtest_metric

    @property
    def cut(self) -> float | None:
        """lambda, if it cuts off any feature."""
        return self.lambda_ or None

    @property
    def rate(self) -> float:
        """Sentences per second."""
        return self.sentences / self.seconds if self.seconds > 0 else 0.0


class LogLine(NamedTuple):
    """One message in log.txt."""

    time: str
    level: str
    text: str


@dataclass(frozen=True)
class Watched:
    """The watched sentences with their translations before training and after the best epoch."""

    source: list[str]
    references: list[list[str]]
    """The references of each sentence, one or more."""
    before: list[str]
    after: list[str]


@dataclass(frozen=True)
class Record:
    """Everything that a report shows of one run."""

    path: Path
    name: str
    config: str
    """The effective configuration, as TOML."""
    algorithm: str
    method: str
    metric: str
    """The name of the metric that is tuned; names joined by + for several."""
    state: RunState
    epochs: list[Epoch]
    """The finished epochs, at least one."""
    weights: dict[str, float]
    """The weights of the result."""
    watched: Watched | str
    """A string: the reason why there are no translations."""
    warnings: list[LogLine]
    versions: str
    """Versions of mpitune and its libraries, from the last start in the log."""

    @property
    def scores(self) -> list[float | None]:
        """The devtest score of each epoch."""
        return [epoch.devtest_score for epoch in self.epochs]

    @property
    def has_devtest(self) -> bool:
        return None not in self.scores

    @property
    def has_bleu(self) -> bool:
        """True if each epoch has devtest BLEU."""
        return all(epoch.devtest_bleu is not None for epoch in self.epochs)

    @property
    def selects(self) -> bool:
        """True if the published weights have other features than the learned ones: itersel."""
        return any(epoch.active_features != epoch.selected_features for epoch in self.epochs)

    @property
    def chosen(self) -> Epoch:
        """The best epoch, whose weights are the result unless the dense start is better."""
        return self.epochs[chosen_epoch(self.scores) - 1]

    @property
    def dense_start_score(self) -> float | None:
        """The devtest score of the dense start; None without one."""
        return dense_start_score([vars(epoch) for epoch in self.epochs])

    @property
    def dense_start_is_best(self) -> bool:
        """True if the result has the weights of the dense start instead."""
        return dense_start_is_best([vars(epoch) for epoch in self.epochs])

    @property
    def result_bleu(self) -> float | None:
        """Devtest BLEU of the result: of the dense start if that is best, else of the best epoch."""
        return self.epochs[0].devtest_bleu_dense if self.dense_start_is_best else self.chosen.devtest_bleu

    @property
    def result_gold(self) -> float | None:
        """Mean gold score of the best epoch; None if the dense start is best: it has none."""
        return None if self.dense_start_is_best else self.chosen.gold


def read_record(path: Path) -> Record:
    """Read the run in the folder ``path``.

    Raises DataError if it is no run folder, if no epoch is finished, or for a damaged file.
    """
    folder = RunFolder(path)
    if not is_file(folder.config) and not is_file(folder.status):
        raise DataError(f"{path}: found no config.toml, expected a run folder")
    epochs = read_epochs(folder.metrics)
    if not epochs:
        raise DataError(
            f"{path}: found no finished epoch, expected at least one to report on; "
            "mpitune report --watch shows progress before that"
        )
    if (state := read_state(folder)) is None:
        raise DataError.at(folder.status, None, found="no file", expected="the state of the run")
    text = "".join(f"{line}\n" for _, line in lines(folder.config))
    log = read_log(folder.log)
    return Record(
        path=path,
        name=printable(path.resolve().name),
        config=text,
        **_settings(folder.config),
        state=state,
        epochs=epochs,
        weights=read_model(path),
        watched=_watched(folder, chosen_epoch([epoch.devtest_score for epoch in epochs])),
        warnings=[line for line in log if line.level == "WARNING"],
        versions=next((line.text for line in reversed(log) if line.text.startswith("mpitune ")), ""),
    )


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All figures of each epoch in a metrics.jsonl; none if it is missing. Raises DataError for a damaged file."""
    return list(_metrics_of_epochs(path))


def _metrics_of_epochs(path: Path) -> Iterator[dict[str, Any]]:
    for number, line in lines(path) if is_file(path) else ():
        try:
            metrics = json.loads(line)
        except ValueError:
            metrics = None
        if not isinstance(metrics, dict):
            raise DataError.at(path, number, found=repr(line[:60]), expected="a JSON object, the figures of an epoch")
        yield metrics


def read_epochs(path: Path) -> list[Epoch]:
    """Read the epochs of a metrics.jsonl; none if it is missing. Raises DataError if it is damaged."""
    epochs: list[Epoch] = []
    for number, metrics in enumerate(_metrics_of_epochs(path), start=1):
        values = {spec.name: _metric(path, number, metrics, spec) for spec in fields(Epoch)}
        if values["epoch"] != number:
            raise DataError.at(path, number, found=f"epoch {values['epoch']}", expected=f"epoch {number}")
        epochs.append(Epoch(**values))
    return epochs


def _metric(path: Path, number: int, metrics: dict[str, Any], spec: Field[Any]) -> Any:
    """The value of one field of `Epoch`; it may be null or missing if its type has None."""
    key = spec.name.rstrip("_")
    value = metrics.get(key)
    if key in _PARSERS:
        try:
            return _PARSERS[key](value)
        except (TypeError, ValueError, AttributeError, IndexError):
            found = f"{key} {json.dumps(value)[:60]}"
            raise DataError.at(path, number, found=found, expected=f"{key} as a run writes it") from None
    if value is None and "None" in str(spec.type):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        found = f"{key} {json.dumps(value)}" if key in metrics else f"no {key}"
        raise DataError.at(path, number, found=found, expected=f"a number as {key}")
    return value


def _numbers(value: Any) -> list[float]:
    return [float(number) for number in value]


def _steps(value: Any) -> list[tuple[float, int]]:
    return [(float(norm), int(count)) for norm, count in value or ()]


def _named(value: Any) -> dict[str, list[tuple[str, float]]]:
    return {str(template): [(str(name), float(norm)) for name, norm in rows] for template, rows in value.items()}


def _timeline(value: Any) -> list[list[float]]:
    """Digits to shares."""
    return [[int(digit) / 9 for digit in rank] for rank in value]


_PARSERS: dict[str, Callable[[Any], Any]] = {
    "column_norms": _steps,
    "largest_norms": _named,
    "busy_seconds": _numbers,
    "wait_seconds": _numbers,
    "timeline": _timeline,
    "peak_memory_bytes": _numbers,
    "warnings": lambda value: [str(line) for line in value],
}
"""Parsers of metrics with several numbers; a missing key is None to them."""


def _settings(config: Path) -> dict[str, Any]:
    """The settings of the learner in a `Record`, from the configuration. Raises DataError if one is missing."""
    learner = read_tables(config).get("learner")
    found = dict(learner) if isinstance(learner, dict) else {}
    if isinstance(metric := found.get("metric"), str | dict):
        names = [metric] if isinstance(metric, str) else metric
        found["metric"] = " + ".join(METRICS[name].label if name in METRICS else name for name in names)
    settings = {key: found.get(key) for key in ("algorithm", "method", "metric")}
    for key, value in settings.items():
        if not isinstance(value, str):
            raise DataError.at(config, None, found=f"no learner.{key}", expected="the configuration that the run wrote")
    return settings


def read_log(path: Path) -> list[LogLine]:
    """Read the messages of all ranks; none if the file is missing. Raises DataError if it cannot be read.

    A line without a time stamp continues the message before it.
    """
    found: list[LogLine] = []
    if not exists(path):
        return found
    with open_regular(path) as file:
        # A killed process may leave a truncated UTF-8 character.
        text = file.read().decode(errors="replace")
    for line in text.splitlines():
        if match := _LOG_LINE.fullmatch(line):
            found.append(LogLine(*match.groups()))
        elif found:
            found[-1] = found[-1]._replace(text=f"{found[-1].text}\n{line}")
    return found


def _watched(folder: RunFolder, epoch: int) -> Watched | str:
    """Read the watched sentences, translated before training and after ``epoch``; or name the file that is missing."""
    references = [folder.translations / "reference-0.txt.gz"]
    while is_file(path := folder.translations / f"reference-{len(references)}.txt.gz"):
        references.append(path)
    first = folder.translations / "source.txt.gz"
    paths = [first, folder.epoch_translations(0), folder.epoch_translations(epoch), *references]
    for path in paths:
        if not is_file(path):
            return f"the run folder holds no {path.relative_to(folder.path)}"
    source, before, after, *texts = [[line for _, line in lines(path)] for path in paths]
    for path, text in zip(paths, [source, before, after, *texts], strict=True):
        if not text or len(text) != len(source):
            expected = f"{len(source)}, as in {first}" if source else "one for each watched sentence"
            raise DataError.at(path, None, found=f"{len(text)} lines", expected=expected)
    # A sentence with fewer references than others has empty lines in the other files.
    by_sentence = [[one, *filter(None, others)] for one, *others in zip(*texts, strict=True)]
    return Watched(source, by_sentence, before, after)
