"""Translation from Python: the decoder of a job, with weights that can be exchanged."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from mpitune.api.call import alone
from mpitune.api.job import Job, as_job, note
from mpitune.api.opened import (
    OpenedDecoder,
    inputs_of,
    open_for,
    read_scoring_for,
    register_pass_through,
    translation_inputs,
)
from mpitune.api.weights import Weights
from mpitune.array_files.atomic import write_text
from mpitune.corpus.text import read_sentences
from mpitune.decoder.base import Derivation, ForestDecoder, Hypergraph, KBest, Sentence, check_failed
from mpitune.decoder.kbest_formats import text
from mpitune.errors import DataError, MachineError, UsageError
from mpitune.exchange.comm import SERIAL_COMM
from mpitune.files import temporary_place, writing
from mpitune.grammar.sparse import Gap, Rule
from mpitune.report.readable import NamedHypergraph

_INPUT = "sentences"
"""Name of the temporary file of a call's sentences."""
LONGEST_EXTERNAL = 1000
"""The longest list that an external decoder may be asked for."""


class Hypothesis:
    """A translation of a sentence."""

    def __init__(
        self,
        text: str,
        score: float = 0.0,
        features: Mapping[str, float] | None = None,
        metrics: Mapping[str, float] | None = None,
        align: Callable[[], list[tuple[int, int]]] | None = None,
    ) -> None:
        self.text = text
        """The words, joined by blanks."""
        self.score = score
        """The model score: weights times features."""
        self.features = {name: float(value) for name, value in (features or {}).items()}
        """Values other than 0, by name."""
        self.metrics = {name: float(value) for name, value in (metrics or {}).items()}
        """Values of metrics that come with lists."""
        self._align = align

    @cached_property
    def alignment(self) -> list[tuple[int, int]]:
        """Pairs of a source and a target position, from 0, from the word alignments of the rules; sorted.

        The first look at one of a list decodes the sentence once more. Raises UsageError for lists, and for a decoder
        that returns no derivations.
        """
        if self._align is None:
            raise UsageError("found a hypothesis without a derivation, expected one of mpitune's own decoder")
        return self._align()

    def __repr__(self) -> str:
        return f"<mpitune.Hypothesis {self.text!r}, score {self.score:.6g}>"


class Decoder:
    """The decoder of a job; it runs in this process alone, whatever other ranks do.

    >>> decoder = mpitune.Run("runs/job").decoder()  # doctest: +SKIP
    >>> decoder.translate(["das haus"])  # doctest: +SKIP
    ['the house']

    A job with one grammar opens it once. Where each sentence has a grammar of its own, such as one extracted from a
    bitext, those of all sentences of a call are made first, in a temporary folder: give it many at a time.
    """

    def __init__(
        self,
        job: Job | str | os.PathLike[str] | Mapping[str, Any],
        weights: Mapping[str, float] | str | os.PathLike[str],
        *,
        scoring: str | os.PathLike[str] | None = None,
    ) -> None:
        """``weights``: by feature, or a run folder, a checkpoint or a file; ``scoring``: the run folder, or checkpoint,
        whose transforms and bins of the grammar's scores belong to ``weights``, by default that of ``weights`` or of
        ``run.dir``.

        Raises UsageError or DataError if the job or a file is at fault; models are opened at the first sentence.
        """
        self.job = as_job(job)
        with alone():
            self._inputs = translation_inputs(self.job.keys)
            named = isinstance(weights, str | os.PathLike)
            place = Path(scoring or (weights if named else self.job.keys.run.dir))  # type: ignore[arg-type]
            self._scoring = read_scoring_for(self.job.keys, place)
            self.weights = Weights.read(weights) if named else weights  # type: ignore[arg-type,assignment]
        self._stack = ExitStack()
        self._opened: OpenedDecoder | None = None
        self._numbers: dict[str, int] = {}
        """By source sentence: its number in the opened store."""

    @property
    def weights(self) -> Weights:
        """The weights; setting others takes no time: the models stay open."""
        return self._weights

    @weights.setter
    def weights(self, weights: Mapping[str, float]) -> None:
        self._weights = weights if isinstance(weights, Weights) else Weights(weights)
        binned = self._scoring.to_bin_weights(self._weights) if self._scoring else self._weights
        self._by_name = dict(binned)
        self._vector: np.ndarray | None = None

    def translate(self, sentences: Iterable[str]) -> list[str]:
        """The best translation of each of the tokenised ``sentences``, words joined by blanks.

        Raises DataError for a sentence that is too long, MachineError if the decoder fails on more than 1 % of them.
        """
        opened, batch, weights = self._prepared(list(sentences))
        failed, words = opened.decoder.failed, opened.model.words.words
        found = [text(opened.decoder.decode(sentence, weights, 1).translation(0), words) for sentence in batch]
        check_failed(opened.decoder.failed - failed, len(batch))
        return found

    def nbest(self, sentence: str, k: int = 100) -> list[Hypothesis]:
        """The ``k`` best different translations of a ``sentence``, best first; fewer if there are no more."""
        opened, [source], weights = self._prepared([sentence])
        kbest = opened.decoder.decode(source, weights, k)
        alignments: list[list[tuple[int, int]]] = []

        def align(j: int) -> list[tuple[int, int]]:
            if not alignments:
                forest = self._forest_of(opened, source, weights, kbest.size)
                alignments.extend(_alignment(forest, derivation) for derivation in forest.best)
            return alignments[j]

        words, names = opened.model.words.words, opened.decoder.features
        with_forest = isinstance(opened.decoder, ForestDecoder)
        return [
            Hypothesis(
                text(kbest.translation(j), words),
                float(kbest.score[j]),
                {names.name(slot): value for slot, value in _row(kbest, j)},
                align=partial(align, j) if with_forest else None,
            )
            for j in range(kbest.size)
        ]

    def nbest_lists(self, sentences: Iterable[str], k: int = 100) -> Iterator[list[Hypothesis]]:
        """The lists of `nbest` of many ``sentences``, whose grammars are made at once; ``enumerate`` makes an `NBest`
        of them.
        """
        lines = list(sentences)
        self._prepared(lines)
        for line in lines:
            yield self.nbest(line, k)

    def forest(self, sentence: str, k: int = 0) -> NamedHypergraph:
        """All derivations that the search kept, and the ``k`` best among them; `NamedHypergraph.as_json` writes them.

        Raises UsageError for a decoder that returns no forests.
        """
        opened, [source], weights = self._prepared([sentence])
        return NamedHypergraph(self._forest_of(opened, source, weights, k), weights, opened.decoder.features)

    def explain(self, sentence: str, n: int = 1) -> str:
        """The derivations of the ``n`` best translations as text: rules, features and their scores."""
        return "\n".join(self.forest(sentence, n).as_text(0))

    def _forest_of(self, opened: OpenedDecoder, source: Sentence, weights: np.ndarray, k: int) -> Hypergraph:
        if not isinstance(opened.decoder, ForestDecoder):
            raise UsageError(f'{self.job.keys.file}: found decoder.backend = "cdec", expected "embedded" for forests')
        return opened.decoder.forest(source, weights, k)

    def _prepared(self, sentences: list[str]) -> tuple[OpenedDecoder, list[Sentence], np.ndarray]:
        """The decoder, the ``sentences`` as its input, and float64 [D], the weights by slot of its features."""
        for number, sentence in enumerate(sentences):
            if "\n" in sentence:
                raise UsageError(f"sentence {number}: found a line end in {sentence[:60]!r}, expected one line")
        if self._opened is None or not self._numbers.keys() >= set(sentences):
            distinct = list(dict.fromkeys(sentences))
            try:
                with alone():
                    self._open(distinct)
            except DataError as error:
                # Not the place in a file that is gone when the error is read.
                if error.line is None or Path(error.file or "").name != _INPUT or not (error.found and error.expected):
                    raise
                place = f"sentence {sentences.index(distinct[error.line - 1])}"
                raise DataError.at(place, found=error.found, expected=error.expected) from None
        opened = self._opened
        assert opened is not None  # opened above
        if self._vector is None:
            slots = opened.decoder.features.slots(list(self._by_name))
            self._vector = np.zeros(len(opened.decoder.features))
            self._vector[slots] = list(self._by_name.values())
        found = [opened.sentences[self._numbers[sentence]] for sentence in sentences]
        return opened, found, self._vector

    def _open(self, sentences: Sequence[str]) -> None:
        """Open the store of ``sentences``, or add them to that of the grammar that all sentences share."""
        job, folder = self.job.keys, Path(self._stack.enter_context(_temporary_folder()))
        file = folder / _INPUT
        with writing(file, MachineError):
            write_text(file, "".join(f"{sentence}\n" for sentence in sentences))
        shared = self._inputs.grammar is not None
        lines = read_sentences(file) if shared else []
        if self._opened is None or not shared:
            note(job, SERIAL_COMM)
            inputs = self._inputs if shared else inputs_of(self._inputs, file, file)
            self._opened, self._vector = None, None
            place = job.run.store if shared else folder / "store"
            self._opened = open_for(job, SERIAL_COMM, inputs, place, LONGEST_EXTERNAL, self._scoring)
        encode = self._opened.model.words.encode
        if shared:
            own = [Sentence(i, encode(line.words), 0) for i, line in enumerate(lines)]
            self._opened = self._opened._replace(sentences=own)
        if self._inputs.external:
            register_pass_through(self._opened)
        self._numbers = {sentence: i for i, sentence in enumerate(sentences)}

    def close(self) -> None:
        """Remove the temporary files; the next sentence opens all anew."""
        self._opened = None
        self._numbers = {}
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        with suppress(Exception):
            self.close()


def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    with writing(temporary_place(), MachineError):
        return tempfile.TemporaryDirectory(prefix="mpitune-decoder-", ignore_cleanup_errors=True)


def _row(kbest: KBest, j: int) -> list[tuple[int, float]]:
    """Slots and values other than 0 of the features of entry ``j``."""
    row = slice(kbest.feature_ptr[j], kbest.feature_ptr[j + 1])
    pairs = zip(kbest.feature_index[row].tolist(), kbest.feature_value[row].tolist(), strict=True)
    return [(slot, value) for slot, value in pairs if value != 0.0]


def _alignment(graph: Hypergraph, top: Derivation) -> list[tuple[int, int]]:
    """The word alignment of a derivation: that of its rules, in positions of the sentence and of the translation."""
    steps: list[tuple[list[int], Rule]] = []
    """Of each step: the source positions of the rule's symbols, and the rule."""
    position: dict[tuple[int, int], int] = {}
    """By step and symbol of the rule's target side: the target position of a word."""
    # A list and not recursion: glued phrases nest as deep as the sentence is long.
    waiting: list[Derivation | tuple[int, int]] = [top]
    while waiting:
        next_ = waiting.pop()
        if isinstance(next_, tuple):
            position[next_] = len(position)
            continue
        rule, place = graph.rules[graph.rule_of(next_)], int(graph.node_span[graph.edge_head[next_.edge], 0])
        ends = [int(graph.node_span[graph.edge_head[part.edge], 1]) for part in next_.parts]
        places: list[int] = []
        for symbol in rule.source:
            places.append(place)
            place = ends[symbol.number - 1] if isinstance(symbol, Gap) else place + 1
        symbols = [(j, symbol) for j, symbol in enumerate(rule.target)]
        number = len(steps)
        waiting += [next_.parts[s.number - 1] if isinstance(s, Gap) else (number, j) for j, s in reversed(symbols)]
        steps.append((places, rule))
    links = [(places[i], position[n, j]) for n, (places, rule) in enumerate(steps) for i, j in rule.links]
    return sorted(links)
