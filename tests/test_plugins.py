"""Parts of one's own: what the decorators register, and what they refuse, in a script and in the files of a job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpitune.config.effective_keys import effective_keys
from mpitune.config.load import load
from mpitune.config.plugin_files import execute, texts_of
from mpitune.decoder.base import as_kbest
from mpitune.errors import DataError, MpituneError, UsageError, fault
from mpitune.exchange.mixing import WeightColumns
from mpitune.exchange.selection import NORMS
from mpitune.grammar.sparse import TEMPLATES, Gap, Hypothesis, Rule, prefixes
from mpitune.grammar.templates import features, fired_by
from mpitune.learner.methods import METHODS
from mpitune.metrics.tuning_metric import METRICS, Metric
from mpitune.plugins import metric, norm, template, text_template

pytestmark = pytest.mark.usefixtures("own_parts")

JOB = '[data]\nsource = "a"\nreferences = ["b"]\n[grammar]\nfile = "g"\n[[lm]]\nfile = "l"\n'
RULE = Rule("X", ["das", Gap("X", 1)], ["the", Gap("X", 1), "one"], [(0, 0)])
BEGIN = "from mpitune.plugins import *\n"
METHOD = """
from dataclasses import dataclass
@method({0!r})
@dataclass(frozen=True)
class Keys(Method):
    about = "A method."
    step: float = number(0.5, 0.0, text="How long.")
    def make(self, parts): ...
    def remedy(self): return "lower it"
"""


def test_values_of_a_name_add_up_and_those_of_0_are_left_out() -> None:
    @template("mine", "M:", lambda text: f"<{text}>")
    def mine(rule: Rule) -> Iterator[str | tuple[str, float]]:
        yield from ("M:one", ("M:one", 0.5), ("M:=;", np.float32(2)), ("M:none", 0))

    assert features(["mine", "shape"], RULE) == [("M:one", 1.5), ("M:__", 2.0), ("Shape_S11000_T11100", 1.0)]
    assert TEMPLATES["mine"].in_words("x") == "<x>" and prefixes()["mine"] == "M:"
    assert mine(RULE) is not None  # still the function


def test_a_text_feature_sees_the_entry() -> None:
    @text_template("seen", "T:")
    def seen(of: Hypothesis) -> Iterator[tuple[str, float]]:
        yield "T:all", len(of.source) + 10 * len(of.words) + of.features["A"]

    entry = Hypothesis(["a", "b"], ["c"], {"A": 0.5}, {})
    assert fired_by([TEMPLATES["seen"].fire], entry) == {"T:all": 12.5} and TEMPLATES["seen"].of_lists


def test_a_metric_of_sentences_is_their_mean_and_one_of_counts_that_of_their_sums() -> None:
    @metric("alike", "likeness")
    def alike(hypothesis: list[str], references: list[list[str]]) -> float:
        return len({*hypothesis} & {*references[0]}) / 4

    @metric("lengths", width=2, score=lambda sums: sums[:, 0] / np.maximum(sums[:, 1], 1))
    def lengths(hypothesis: list[str], references: list[list[str]]) -> tuple[int, int]:
        return len(hypothesis), min(map(len, references))

    kbest = as_kbest([np.array(words, dtype=np.int32) for words in ([0, 1], [], [0, 0, 0])])
    references = [np.array([0, 2], dtype=np.int32), np.array([1], dtype=np.int32)]
    for name, single, of_sum in (("alike", [0.25, 0.0, 0.25], 0.5 / 3), ("lengths", [2.0, 0.0, 3.0], 5 / 3)):
        of = Metric({name: 1.0}, ["a", "b", "c"])
        statistics = of.statistics(kbest, references)
        assert of.single_scores(statistics)[:, 0].tolist() == single
        assert of.set_scores(statistics.sum(axis=0, keepdims=True)) == pytest.approx([of_sum])
    assert (METRICS["alike"].label, METRICS["lengths"].label) == ("likeness", "lengths")


def test_a_part_of_a_script_is_registered_again_with_its_new_text() -> None:
    """As by a cell of a notebook that is run again; its text is part of what a result depends on."""
    before = None
    for value in (1.0, 1.0, 2.0):

        def register(value: float = value) -> None:
            if value == 1.0:
                norm("again")(lambda columns, shards: np.ones(len(columns.id)))
            else:
                norm("again")(lambda columns, shards: 2 * np.ones(len(columns.id)))

        register()
        now = NORMS.origins["again"]
        assert before is None or (now == before) == (value == 1.0)
        before = now


def plugin(folder: Path, text: str, name: str = "own.py") -> Path:
    (folder / name).write_text(text)
    (folder / "job.toml").write_text(f'{JOB}[plugins]\nmodules = ["{name}"]\n')
    return folder / "job.toml"


def test_a_job_has_the_parts_of_its_plugins(tmp_path: Path) -> None:
    job = plugin(tmp_path, BEGIN + "template('t', 'T:')(lambda rule: ['T:'])\n" + METHOD.format("own-method"))
    settings = ["learner.method=own-method", "learner.own-method.step=2", 'features.templates=["t"]']
    loaded = load(job, settings)
    assert loaded.learner.own.step == 2.0 and loaded.plugins.modules == (tmp_path / "own.py",)  # type: ignore[attr-defined]
    (tmp_path / "config.toml").write_text(loaded.to_toml())
    assert load(tmp_path / "config.toml") == loaded  # the same file twice: loaded once
    keys = effective_keys(loaded)
    own = {key for key in keys if key.startswith("plugins")}
    assert own == {"plugins.modules: the template t", "plugins.modules: the method own-method"}
    (tmp_path / "own.py").write_text((tmp_path / "own.py").read_text() + "# A comment.\n")
    later = effective_keys(load(job, settings))
    assert {key for key in keys if keys[key] != later[key]} == own
    assert "plugins" not in " ".join(effective_keys(load(job)))  # it uses none of them
    [(file, text)] = texts_of(loaded.plugins.modules)
    execute([(file, text)])
    assert file == tmp_path / "own.py" and text.endswith("# A comment.\n")


WRONG = {
    "def f(:\n": "own.py:1: found invalid syntax, expected Python",
    "\n1 / 0\n": "own.py:2: found ZeroDivisionError (division by zero), expected none in a plugin",
    "import no_such_module\n": "own.py:1: found ModuleNotFoundError (No module named 'no_such_module'), expected none",
    "import sys; sys.exit(3)": "own.py:1: found SystemExit (3), expected none in a plugin",
    "template('a b', 'A:')(lambda rule: [])": "own.py:2: found the name 'a b', expected letters, digits, _, + and -",
    "template('id', 'A:')(lambda rule: [])": "own.py:2: found the name 'id', which mpitune has, expected another name",
    "norm('l2')(len)": "found the name 'l2', which mpitune has",
    "template('a', 'R:X')(lambda rule: [])": "own.py:2: found the prefix 'R:X', beside 'R:', expected one that no",
    "template('a', 'Word')(lambda rule: [])": "found the prefix 'Word', beside 'WordPenalty'",
    "template('a', 'A :')(lambda rule: [])": "found the prefix 'A :', expected one without blanks",
    "template('a', '')(lambda rule: [])": "found the prefix '', expected one without blanks",
    "for n in 'ab': template('a', n + ':')(lambda rule: [])": "found the name 'a', which ",
    "metric('a', width=2)(lambda words, references: (1, 2))": "own.py:2: found width without score",
    "method('a')(int)": "found int, expected a dataclass derived from Method that has a text `about`",
    METHOD.format("a").replace('about = "A method."', ""): "own.py:4: found Keys, expected a dataclass derived from",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_fault_in_a_plugin_has_its_line(tmp_path: Path, text: str) -> None:
    start = "" if text.startswith(("def", "\n1", "import")) else BEGIN
    for _ in range(2):  # nothing of it stays
        with pytest.raises(UsageError) as refused:
            load(plugin(tmp_path, start + text))
        assert WRONG[text] in str(refused.value) and "\n" not in str(refused.value)
        assert str(refused.value).startswith(str(tmp_path))
    load(plugin(tmp_path, BEGIN + "template('a', 'A:')(lambda rule: [])"))


def test_a_plugin_that_cannot_be_read(tmp_path: Path) -> None:
    job = plugin(tmp_path, "")
    (tmp_path / "own.py").write_bytes(b"#\n\xff")
    with pytest.raises(DataError, match=r"own.py:2: found bytes that are not UTF-8"):
        load(job)
    (tmp_path / "own.py").unlink()
    with pytest.raises(DataError, match="own.py: found no such file"):
        load(job)
    with pytest.raises(UsageError, match="--set plugins.module: unknown key; did you mean plugins.modules"):
        load(job, ["plugins.module=own.py"])


def test_two_plugins_do_not_have_the_same_name(tmp_path: Path) -> None:
    for name in ("one.py", "two.py"):
        plugin(tmp_path, BEGIN + "norm('same')(lambda columns, shards: columns.value)\n", name)
    with pytest.raises(UsageError, match=r"two.py:2: found the name 'same', which .*one.py has, expected another name"):
        load(tmp_path / "job.toml", ['plugins.modules=["one.py", "two.py"]'])


FIRED: dict[str, tuple[Any, str]] = {
    "no list": (lambda rule: None, "found None, expected features"),
    "text": (lambda rule: "W:a", "found 'W:a', expected features"),
    "number": (lambda rule: [3], "found 3, expected a feature: a name, or a name and a value"),
    "value": (lambda rule: [("W:a", "1")], "found ('W:a', '1'), expected a feature"),
    "prefix": (lambda rule: ["V:a"], "found the feature 'V:a', expected a name without blanks that begins with W:"),
    "blank": (lambda rule: ["W:a b"], "found the feature 'W:a b', expected a name without blanks"),
    "not finite": (lambda rule: [("W:a", float("nan"))], "found the value nan of W:a, expected a number from -1e30"),
    "infinite": (lambda rule: [("W:a", float("inf"))], "found the value inf of W:a"),
}


@pytest.mark.parametrize("case", FIRED)
def test_features_are_names_and_numbers(case: str) -> None:
    function, said = FIRED[case]
    template("wrong", "W:")(function)
    with pytest.raises(UsageError, match=r"test_plugins.py:\d+: found ") as refused:
        features(["wrong"], RULE)
    assert said in str(refused.value)


SCORED: dict[str, tuple[Callable[..., Any], dict[str, Any], str]] = {
    "no number": (lambda words, references: "1", {}, "found the score '1', expected a number of at most 10000"),
    "not finite": (lambda words, references: float("nan"), {}, "found the score nan"),
    "too large": (lambda words, references: 1e5, {}, "found the score 100000.0"),
    "too few": (lambda *_: [1], {"width": 2, "score": np.sum}, "found the statistics [1], expected 2 whole numbers"),
    "fractions": (lambda *_: [1.5], {"width": 1, "score": np.sum}, "found the statistics [1.5]"),
    "one score": (lambda *_: [1], {"width": 1, "score": lambda sums: 1.0}, "found 1.0, expected 2 finite numbers"),
}


@pytest.mark.parametrize("case", SCORED)
def test_scores_are_numbers(case: str) -> None:
    function, options, said = SCORED[case]
    metric("wrong", **options)(function)
    of = Metric({"wrong": 1.0}, ["a"])
    one = np.zeros(1, dtype=np.int32)
    with pytest.raises(UsageError, match=r"test_plugins.py:\d+: found ") as refused:
        of.set_scores(of.statistics(as_kbest([one, one]), [one]))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("norms", "said"), [([1.0], "[1.0]"), (np.array([np.nan, 1.0]), "array([nan, 1.])"), ("ab", "'ab'")]
)
def test_norms_are_finite_numbers(norms: object, said: str) -> None:
    norm("wrong")(lambda columns, shards: norms)
    columns = WeightColumns(np.zeros(2, dtype=np.uint64), np.arange(3), np.ones(2))
    with pytest.raises(UsageError, match=r"test_plugins.py:\d+: found ") as refused:
        NORMS["wrong"](columns, 1)
    assert f"found {said}, expected 2 finite numbers" in str(refused.value)


def test_an_exception_in_a_plugin_has_its_line(tmp_path: Path) -> None:
    """Also where it is raised in what the plugin calls; not one that is raised elsewhere, nor mpitune's own."""
    text = "template('t', 'T:')(lambda rule: [\n'T:' + rule.sources[0]])\nnorm('n')(lambda columns, shards: int('x'))\n"
    load(plugin(tmp_path, BEGIN + text))

    def told(call: Callable[[], object]) -> UsageError | None:
        try:
            call()
        except Exception as error:
            return fault(error)
        raise AssertionError

    of_rule = told(lambda: features(["t"], RULE))
    assert str(of_rule).startswith(f"{tmp_path}/own.py:3: found AttributeError ('Rule' object has no attribute")
    assert "own.py:4: found ValueError (invalid literal for int()" in str(told(lambda: NORMS["n"](None, 1)))  # type: ignore[arg-type]
    assert told(lambda: int("x")) is None

    def fail() -> None:
        raise MpituneError("x")

    assert told(fail) is None
    assert "own-method" not in METHODS
