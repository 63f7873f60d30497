"""All that a plugin imports: features, metrics, column norms and online methods of one's own, each a decorator away.

A plugin is a Python file that a job names (``plugins.modules``); a script may register parts in the same way. Its parts
are then names in the job like those that come with mpitune. A function must give the same result for the same
arguments on every rank, and today as tomorrow: no random numbers, no clock, no sums over sets. What the job's result
depends on is the text of the plugin's file (of a script: of the function or the class), so a run that goes on with
another text is refused. A plugin imports what is installed, not files beside it: these would not be compared.

``jobs/plugins`` has an example of each, in less than 60 lines.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import is_dataclass
from functools import partial
from typing import Any, NoReturn, TypeVar

import numpy as np

from mpitune.corpus.feature_table import is_feature_name
from mpitune.corpus.text import IN_RANGE, LARGEST_NUMBER
from mpitune.decoder.base import KBest, built_in_features
from mpitune.errors import UsageError, plugin_files
from mpitune.exchange.mixing import WeightColumns, sums_of
from mpitune.exchange.selection import NORMS
from mpitune.grammar import sparse
from mpitune.grammar.sparse import TEMPLATES, Fired, Gap, Hypothesis, InWords, OfRule, OfText, Rule, prefixes
from mpitune.grammar.templates import without_separators
from mpitune.learner.base import Counts, OnlineLearner
from mpitune.learner.methods import METHODS, Method, Parts
from mpitune.learner.weights import Weights
from mpitune.metrics.tuning_metric import METRICS, UNIT, Counter, Mean
from mpitune.registry import Origin, Registry
from mpitune.schema import choice, noted, number

__all__ = [
    "Counts",
    "Gap",
    "Hypothesis",
    "KBest",
    "Method",
    "OnlineLearner",
    "Parts",
    "Rule",
    "WeightColumns",
    "Weights",
    "choice",
    "method",
    "metric",
    "norm",
    "noted",
    "number",
    "sums_of",
    "template",
    "text_template",
]

F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M", bound=type[Method])

LARGEST_SCORE = 10_000
"""Largest absolute value of a sentence's score: sums of 800,000 are then exact in the units of `tuning_metric`."""
_NAME = re.compile(r"\w[\w+-]*")
_origin: Origin | None = None
"""The origin of the plugin that is being loaded."""


def template(name: str, prefix: str, in_words: InWords = lambda text: None) -> Callable[[OfRule], OfRule]:
    """A decorator: sparse features of rules, a choice of ``features.templates`` called ``name``.

    The function gets a `Rule`: ``lhs``, ``source`` and ``target`` (words, and gaps as `Gap`), ``links``. It yields
    names that begin with ``prefix``, or pairs of name and value (0: none); values of a name add up. It is called once
    for a rule, when a grammar with it is opened, and again when a translation first has a feature of the rule: never
    in the search. It does not see the rule's scores, which differ from sentence to sentence.

    ``in_words`` turns the rest of a name into what reports show; None: they show the name.
    """
    return partial(_add_template, name, prefix, in_words, {})


def text_template(
    name: str, prefix: str, in_words: InWords = lambda text: None, *, needs_source: bool = False
) -> Callable[[OfText], OfText]:
    """A decorator: features of the entries of n-best lists, a choice of ``features.templates``, else as `template`.

    The function gets a `Hypothesis`. It is called once for each entry, when the lists are compiled, or reranked;
    ``needs_source``: such lists need their source sentences.
    """
    return partial(_add_template, name, prefix, in_words, {"of_lists": True, "needs_source": needs_source})


def metric(
    name: str,
    label: str = "",
    *,
    width: int = 0,
    score: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Callable[[F], F]:
    """A decorator: a metric that is learned, a choice of ``learner.metric``; ``label``: how it is printed.

    The function gets the words of a hypothesis and of each of its references, two sequences of strings. It returns the
    sentence's score, a number, larger is better, best from 0 to 1; the score of a set is their mean.

    Or it returns ``width`` whole numbers that add up; then ``score`` turns their sums over sets, int64 [n, width], into
    the n sets' scores, float64. A sentence is a set of one. MERT and the exchange use the sums.

    It is called for every entry of every list that is learned from, once an epoch.
    """

    def add(function: F) -> F:
        if (width > 0) != (score is not None):
            _wrong(function, "width without score, or score without width", "both or none")
        columns, printed = width or 2, label or name
        of_set = Mean.score if score is None else partial(_set_scores, score)
        counted = partial(_whole_numbers, function, width) if width else partial(_units, function)

        class Own(Counter):
            label, width, score = printed, columns, staticmethod(of_set)

            def __init__(self, words: Sequence[str]) -> None:
                self._words = words

            def statistics(self, kbest: KBest, references: Sequence[np.ndarray]) -> np.ndarray:
                texts = [[self._words[word] for word in text.tolist()] for text in references]
                entries = (kbest.translation(j).tolist() for j in range(kbest.size))
                rows = [counted([self._words[word] for word in entry], texts) for entry in entries]
                return np.array(rows, dtype=np.int64).reshape(-1, columns)

        _add(METRICS, name, Own, function)
        return function

    return add


def norm(name: str) -> Callable[[F], F]:
    """A decorator: a norm by which itersel selects features, a choice of ``select.norm``.

    The function gets `WeightColumns`, the weights of some of the features in the shards that have them, and the number
    of shards; it returns float64 [features]. A feature's norm must follow from its own column: a rank has a part of
    them. Features with a norm of 0 or less are never selected. `sums_of` adds up columns.
    """

    def add(function: F) -> F:
        def checked(columns: WeightColumns, shards: int) -> np.ndarray:
            return _numbers(function, function(columns, shards), len(columns.id))

        _add(NORMS, name, checked, function)
        return function

    return add


def method(name: str) -> Callable[[M], M]:
    """A decorator: an online method, a choice of ``learner.method``.

    The class is a frozen dataclass derived from `Method`: its fields, made by `number`, `choice` and `noted`, are the
    keys of ``[learner.NAME]``, ``about`` explains them, ``make`` returns the `OnlineLearner`, ``remedy`` says what to
    lower if its steps are too large. The learner's ``update`` gets a list and its gold scores, larger is better, and
    changes ``weights.value`` (float64, by slot, as in ``kbest.feature_index``) where ``weights.frozen`` is False. Slots
    differ from rank to rank: sums over features run in the order of a list's rows, or are exact (`math.fsum`).
    """

    def add(cls: M) -> M:
        if not (isinstance(cls, type) and issubclass(cls, Method) and is_dataclass(cls) and cls.about):
            _wrong(cls, f"{cls.__name__}", "a dataclass derived from Method that has a text `about`")
        cls()  # every key needs a default
        _add(METHODS, name, cls, cls)
        return cls

    return add


@contextmanager
def plugin_text(file: str, text: str) -> Iterator[None]:
    """Parts that are registered in the block are those of the plugin ``file``; all earlier ones of it are forgotten,
    and those too if the block fails.
    """
    global _origin
    _forget(file)
    plugin_files.add(file)
    _origin = Origin(file, digest(text))
    try:
        yield
    except BaseException:
        _forget(file)
        raise
    finally:
        _origin = None


def digest(text: str) -> str:
    """Of the text of a plugin."""
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _forget(file: str) -> None:
    for registry in (TEMPLATES, METRICS, NORMS, METHODS):
        registry.drop(file)
    prefixes.cache_clear()


def _origin_of(part: Any) -> Origin:
    """Of the plugin that is being loaded, or of a part of a script, which may register it again."""
    if _origin is not None:
        return _origin
    try:
        text = inspect.getsource(part)
    except OSError:  # typed in
        text = ""
    return Origin(part.__module__, digest(text))


def _add(registry: Registry[Any], name: str, part: Any, written: Any) -> None:
    """Register ``part``, of which ``written`` is what the plugin's author wrote."""
    _check_name(registry, name, written)
    registry.register(name, _origin_of(written))(part)


def _check_name(registry: Registry[Any], name: str, written: Any) -> None:
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        _wrong(written, f"the name {name!r}", "letters, digits, _, + and -")
    if _origin is None:
        registry.drop(written.__module__, name)
    if name in registry:
        whose = registry.origins[name].file if name in registry.origins else "mpitune"
        _wrong(written, f"the name {name!r}, which {whose} has", "another name")


def _add_template(name: str, prefix: str, in_words: InWords, kind: dict[str, bool], function: F) -> F:
    _check_name(TEMPLATES, name, function)
    prefixes.cache_clear()
    taken = [*prefixes().values(), *built_in_features([])]
    if not (isinstance(prefix, str) and is_feature_name(prefix)) or without_separators(prefix) != prefix:
        _wrong(function, f"the prefix {prefix!r}", "one without blanks, = and ; that does not begin with #")
    if alike := [other for other in taken if other.startswith(prefix) or prefix.startswith(other)]:
        _wrong(function, f"the prefix {prefix!r}, beside {alike[0]!r}", "one that no other feature's name begins with")
    add = sparse.template(name, prefix, in_words, origin=_origin_of(function), **kind)
    add(partial(_features, function, prefix))
    return function


def _features(function: Callable[[Any], Iterable[Fired]], prefix: str, of: Any) -> Iterator[Fired]:
    """The features that ``function`` fires on a rule or a hypothesis, checked."""
    found = function(of)
    if isinstance(found, str) or not isinstance(found, Iterable):
        _wrong(function, repr(found), "features, each a name or a name and a value")
    for each in found:
        match each:
            case str():
                name, value = each, 1.0
            case (str() as name, int() | float() | np.number() as given):
                value = float(given)
            case _:
                _wrong(function, repr(each), "a feature: a name, or a name and a value")
        if not (name.startswith(prefix) and (is_feature_name(name) or is_feature_name(without_separators(name)))):
            _wrong(function, f"the feature {name!r}", f"a name without blanks that begins with {prefix}")
        if not abs(value) <= LARGEST_NUMBER:
            _wrong(function, f"the value {value} of {name}", IN_RANGE)
        if value:
            yield name, value


def _units(function: Callable[..., Any], words: list[str], references: list[list[str]]) -> tuple[int, int]:
    """The score of a sentence as statistics of a column."""
    value = function(words, references)
    score = float(value) if isinstance(value, int | float | np.number) else math.nan
    if not abs(score) <= LARGEST_SCORE:
        _wrong(function, f"the score {value!r}", f"a number of at most {LARGEST_SCORE}")
    return round(score * UNIT), 1


def _whole_numbers(
    function: Callable[..., Any], width: int, words: list[str], references: list[list[str]]
) -> list[int]:
    found = function(words, references)
    try:
        counts = [operator.index(count) for count in found]
    except TypeError:
        counts = []
    if len(counts) != width or any(abs(count) >= 1 << 40 for count in counts):
        _wrong(function, f"the statistics {found!r}", f"{width} whole numbers")
    return counts


def _set_scores(score: Callable[[np.ndarray], np.ndarray], statistics: np.ndarray) -> np.ndarray:
    return _numbers(score, score(statistics), len(statistics))


def _numbers(function: Callable[..., Any], found: Any, size: int) -> np.ndarray:
    """float64 [size]: what ``function`` has returned, if it is that."""
    try:
        numbers = np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.full(size, np.nan)
    if numbers.shape != (size,) or not np.isfinite(numbers).all():
        _wrong(function, " ".join(repr(found).split())[:60], f"{size} finite numbers, float64 [{size}]")
    return numbers


def _wrong(written: Any, found: str, expected: str) -> NoReturn:
    """Raise UsageError at the function or class ``written``."""
    if code := getattr(written, "__code__", None):
        place = f"{code.co_filename}:{code.co_firstlineno}"
    else:
        try:
            place = f"{inspect.getsourcefile(written)}:{inspect.getsourcelines(written)[1]}"
        except (OSError, TypeError):  # typed in, or not written in Python
            place = _origin.file if _origin else repr(written)
    raise UsageError(f"{place}: found {found}, expected {expected}")
