"""N-best lists of any system, from Python: read, extended by features and metrics, tuned, reranked."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from mpitune.api.call import alone
from mpitune.api.decoder import Hypothesis
from mpitune.api.job import Job
from mpitune.api.runs import train_alone
from mpitune.api.tools import Lines, texts_of
from mpitune.api.weights import Weights
from mpitune.array_files.atomic import check_output, open_output, write_text
from mpitune.corpus.subwords import KINDS
from mpitune.corpus.vocabulary import Vocabulary
from mpitune.decoder.base import KBest, as_kbest
from mpitune.decoder.lists.formats import Entry
from mpitune.decoder.lists.notation import FORMATS, Notation
from mpitune.decoder.lists.stream import read_lists, score_of
from mpitune.errors import DataError, UsageError
from mpitune.files import temporary_folder
from mpitune.learner.methods import METHODS
from mpitune.metrics.minimum_bayes_risk import ExpectedGain
from mpitune.metrics.tuning_metric import METRICS, Metric, known_metrics

Column = Sequence[float] | np.ndarray | Callable[[int, Hypothesis], float]
"""A value for each hypothesis in the order of the lists, or a function of a list's number and a hypothesis."""


class NBest:
    """Lists of hypotheses by the number of their sentence, from 0; sentences may lack a list.

    >>> lists = NBest([(0, [Hypothesis("a b", features={"lm": -2.0}), Hypothesis("a c", features={"lm": -1.0})])])
    >>> lists.add_feature("words", lambda number, hypothesis: len(hypothesis.text.split()))
    >>> lists.rerank({"lm": 1.0, "words": 0.5})
    ['a c']
    """

    def __init__(self, lists: Iterable[tuple[int, Sequence[Hypothesis]]]) -> None:
        """Raises UsageError for a number below 0, or that two lists have."""
        self._lists: dict[int, list[Hypothesis]] = {}
        for number, hypotheses in lists:
            if number < 0 or number in self._lists:
                which = "a second list" if number in self._lists else "list"
                raise UsageError(f"found {which} {number}, expected numbers from 0, each once")
            self._lists[int(number)] = list(hypotheses)
            for each in self._lists[int(number)]:
                if not isinstance(each, Hypothesis):
                    raise UsageError(f"list {number}: found {each!r:.60}, expected objects of mpitune.Hypothesis")

    @classmethod
    def read(
        cls,
        *paths: str | os.PathLike[str],
        format: str = "auto",
        nbest: int = 0,
        counts: str | os.PathLike[str] | None = None,
        join: str = "none",
    ) -> NBest:
        """The lists of files in any of the formats of jobs/lists.md; those of several files are merged.

        The score of a hypothesis is the number beside its features, "score" of JSON, or else the feature ``score``; 0
        where there is none. ``format``, ``nbest``, ``counts``, ``join``: as the keys of ``[data]``. Raises UsageError
        for an unknown format, DataError for a malformed line.
        """
        if format not in ("auto", *FORMATS):
            raise UsageError(f"format: found {format!r}, expected one of auto, {', '.join(FORMATS)}")
        if join not in ("none", *KINDS):
            raise UsageError(f"join: found {join!r}, expected one of none, {', '.join(KINDS)}")
        notation = Notation(format, nbest, None if counts is None else Path(counts), join)
        with alone():
            found = list(read_lists([Path(path) for path in paths], notation=notation))
        return cls((number, [_hypothesis(entry) for entry in entries]) for number, entries in found)

    def __iter__(self) -> Iterator[tuple[int, list[Hypothesis]]]:
        return iter(sorted(self._lists.items()))

    def __len__(self) -> int:
        return len(self._lists)

    def __getitem__(self, number: int) -> list[Hypothesis]:
        return self._lists[number]

    @property
    def hypotheses(self) -> list[Hypothesis]:
        """The hypotheses of all lists, in the order of the values of a column."""
        return list(chain.from_iterable(hypotheses for _, hypotheses in self))

    def add_feature(self, name: str, values: Column) -> None:
        """Give each hypothesis the feature ``name``. Raises UsageError for a wrong number of values."""
        for hypothesis, value in self._column(name, values):
            hypothesis.features[name] = value

    def add_metric(self, name: str, values: Column) -> None:
        """Give each hypothesis the value of a metric, which `tune` can learn to maximise as ``metric=name``."""
        for hypothesis, value in self._column(name, values):
            hypothesis.metrics[name] = value

    def _column(self, name: str, values: Column) -> list[tuple[Hypothesis, float]]:
        hypotheses = self.hypotheses
        if callable(values):
            values = [values(number, hypothesis) for number, of_list in self for hypothesis in of_list]
        if len(values) != len(hypotheses):
            raise UsageError(f"{name}: found {len(values)} values, expected {len(hypotheses)}, one for each hypothesis")
        return list(zip(hypotheses, map(float, values), strict=True))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a line ``number ||| text ||| name=value ... ||| score`` for each hypothesis (.gz: gzipped).

        To a name in .jsonl or .jsonl.gz, objects of JSON, which also hold metrics. Raises UsageError for a text that a
        line cannot hold.
        """
        path = Path(path)
        self._write(path, _json_line if path.name.removesuffix(".gz").endswith(".jsonl") else _line)

    def _write(self, path: Path, line: Callable[[int, Hypothesis], str]) -> None:
        with alone():
            check_output(path)
            with open_output(path) as file:
                for number, hypotheses in self:
                    file.write("".join([f"{line(number, hypothesis)}\n" for hypothesis in hypotheses]).encode())

    def tune(
        self,
        references: Lines | Sequence[Lines] = (),
        *,
        method: str = "minrisk",
        metric: str | Mapping[str, float] = "bleu",
        devtest: tuple[NBest, Lines | Sequence[Lines]] | None = None,
        folder: str | os.PathLike[str] | None = None,
        verbose: bool = False,
        **tables: Mapping[str, Any],
    ) -> Weights:
        """Learn weights of the features with which the best-scored hypotheses are good by ``metric``.

        ``references``: by number of the sentence, one text or several; none where ``metric`` names metrics of the
        hypotheses. ``devtest``: lists, and their references, on which the best epoch is chosen. ``folder``: keeps the
        run. ``verbose``: as for `train`. ``tables``: further keys of the job, such as ``learner={"epochs": 5}``, and
        ``run={"seed": 2}``. A method that learns once per epoch from all lists has one epoch by default: lists stay as
        they are.

        Raises UsageError for keys that do not fit, DataError for hypotheses or references that do not.
        """
        with temporary_folder() as beside:
            columns = [name for name in ([metric] if isinstance(metric, str) else metric) if name not in METRICS]
            data = self._files(beside, "tuned", references, columns)
            if devtest is not None:
                lists, texts = devtest
                data["devtest"] = lists._files(beside, "devtest", texts, columns)
            learner: dict[str, Any] = {"method": method, "metric": metric}
            if method in METHODS and METHODS[method].is_batch:
                learner["epochs"] = 1
            given = {"data": data, "decoder": {"backend": "lists"}, "learner": learner}
            job = Job(given, run={"dir": beside / "run" if folder is None else Path(folder).absolute()})
            try:
                return train_alone(job.replace(**tables), verbose=verbose).weights
            except DataError as error:
                read = {"tuned": self} if devtest is None else {"tuned": self, "devtest": devtest[0]}
                raise _by_sentence(error, beside, read) from None

    def _files(
        self, folder: Path, name: str, references: Lines | Sequence[Lines], columns: Sequence[str]
    ) -> dict[str, Any]:
        """Keys of ``[data]``, whose files are written to ``folder``; ``columns``: metrics, written among features."""

        def line(number: int, hypothesis: Hypothesis) -> str:
            return _line(number, hypothesis, [name for name in columns if name in hypothesis.metrics])

        self._write(folder / f"{name}.lists", line)
        texts = self._texts(references)
        for n, text in enumerate(texts, start=1):
            write_text(folder / f"{name}.references {n}", "".join(f"{line}\n" for line in text))
        return {
            "lists": [str(folder / f"{name}.lists")],
            "references": [str(folder / f"{name}.references {n}") for n in range(1, len(texts) + 1)],
        }

    def _texts(self, references: Lines | Sequence[Lines]) -> list[Lines]:
        """The texts of ``references``, each with a line for each list. Raises DataError for others."""
        texts = [[line.removesuffix("\n") for line in text] for text in texts_of(references)] if len(references) else []
        needed = max(self._lists, default=-1) + 1
        for n, text in enumerate(texts, start=1):
            if len(text) < needed:
                raise DataError.at(f"references {n}", found=f"{len(text)} sentences", expected=f"{needed} or more")
            for i, line in enumerate(text):
                if "\n" in line:
                    raise DataError.at(f"references {n}", i + 1, found="a line end in it", expected="one sentence")
        return list(texts)

    def rerank(self, weights: Mapping[str, float]) -> list[str]:
        """The text of the best hypothesis of each sentence under ``weights``; empty for a sentence without a list."""
        scores = Weights(weights)
        return self._best(lambda _, hypotheses: [scores.score(hypothesis.features) for hypothesis in hypotheses])

    def mbr(self, metric: str = "bleu", weights: Mapping[str, float] | None = None) -> list[str]:
        """The hypotheses of largest expected ``metric`` (minimum Bayes risk), by the probabilities of their scores.

        Scores are those under ``weights``, by default the hypotheses' own.
        """
        known_metrics([metric], "metric")
        words, own = Vocabulary(), None if weights is None else Weights(weights)
        gain = ExpectedGain(metric, words.words)

        def expected(_: int, hypotheses: Sequence[Hypothesis]) -> np.ndarray:
            scores = [each.score if own is None else own.score(each.features) for each in hypotheses]
            return gain.of(_as_kbest(hypotheses, words)._replace(score=np.array(scores)))

        return self._best(expected)

    def oracle(self, references: Lines | Sequence[Lines] = (), metric: str = "bleu") -> list[str]:
        """The hypothesis of each list with the largest ``metric``, by the ``references`` or one of the hypotheses' own.

        Raises DataError for too few references, UsageError for a hypothesis without such a metric.
        """
        words, texts = Vocabulary(), self._texts(references)
        scorer = Metric({metric: 1.0}, words.words)

        def scores(number: int, hypotheses: Sequence[Hypothesis]) -> Sequence[float] | np.ndarray:
            if metric not in METRICS:
                return [_metric(number, hypothesis, metric) for hypothesis in hypotheses]
            encoded = [words.encode(text[number].split()) for text in texts]
            return scorer.sentence_scores(scorer.statistics(_as_kbest(hypotheses, words), encoded))

        if metric in METRICS and not texts:
            raise UsageError(f"found no references, expected one text or several, as metric is {metric}")
        return self._best(scores)

    def _best(self, scores: Callable[[int, Sequence[Hypothesis]], Sequence[float] | np.ndarray]) -> list[str]:
        found = [""] * (max(self._lists, default=-1) + 1)
        for number, hypotheses in self:
            if hypotheses:
                found[number] = hypotheses[int(np.argmax(scores(number, hypotheses)))].text
        return found

    def __repr__(self) -> str:
        return f"<mpitune.NBest of {len(self)} lists, {sum(map(len, self._lists.values()))} hypotheses>"


def _hypothesis(entry: Entry) -> Hypothesis:
    return Hypothesis(" ".join(entry.words), score_of(entry), entry.features, entry.metrics)


def _metric(number: int, hypothesis: Hypothesis, name: str) -> float:
    if name not in hypothesis.metrics:
        expected = f"one of {', '.join(METRICS)}, or a metric that all hypotheses have"
        raise UsageError(f"list {number}: found metric {name!r}, expected {expected}")
    return hypothesis.metrics[name]


def _by_sentence(error: DataError, folder: Path, lists: Mapping[str, NBest]) -> DataError:
    """``error``, with the place in ``lists`` or their references instead of that in the files of ``folder``."""
    path = Path(error.file or "")
    if path.parent != folder or error.line is None or error.found is None or error.expected is None:
        return error
    name, part = path.name.split(".")
    line: int | None = error.line
    if part == "lists":
        places = (f"list {number}, hypothesis {j}" for number, of_list in lists[name] for j in range(len(of_list)))
        part, line = next(islice(places, error.line - 1, None)), None
    return DataError.at(
        part if name == "tuned" else f"devtest, {part}", line, found=error.found, expected=error.expected
    )


def _as_kbest(hypotheses: Sequence[Hypothesis], words: Vocabulary) -> KBest:
    return as_kbest([words.encode(hypothesis.text.split()) for hypothesis in hypotheses])


def _line(number: int, hypothesis: Hypothesis, metrics: Sequence[str] = ()) -> str:
    text, values = hypothesis.text, hypothesis.features
    if "\n" in text or "|||" in text:
        raise UsageError(f"list {number}: found a line end or ||| in {text[:60]!r}, expected words")
    if metrics:
        values = values | {name: hypothesis.metrics[name] for name in metrics}
    shown = " ".join([f"{name}={value!r}" for name, value in values.items()])
    return f"{number} ||| {text} ||| {shown} ||| {hypothesis.score!r}"


def _json_line(number: int, hypothesis: Hypothesis) -> str:
    values = {"id": number, "text": hypothesis.text, "features": hypothesis.features, "score": hypothesis.score}
    if hypothesis.metrics:
        values["metrics"] = hypothesis.metrics
    return json.dumps(values, ensure_ascii=False)
