"""Configurations of dtrain, both generations, as job files."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.tiny import Tiny

from mpitune import schema
from mpitune.cli.parser import main
from mpitune.config.dtrain import GENERATIONS, import_job
from mpitune.config.load import load
from mpitune.config.presets import PRESETS
from mpitune.config.spec import DataKeys, Job, RunKeys
from mpitune.errors import DataError, UsageError
from mpitune.training import job_inputs

ALWAYS = 1e18
"""The margin under which all pairs are updates."""
SUFFICIENT = """formalism=scfg
grammar=grammar
add_pass_through_rules=true
scfg_max_span_limit=15
feature_function=WordPenalty
feature_function=KLanguageModel lm.arpa
"""
"""A cdec.ini that the embedded decoder has everything for."""
REQUIRED = {
    2012: "decoder_config=cdec.ini\nbitext=bitext\n",
    2016: "decoder_conf=cdec.ini\nbitext=bitext\n",
}
IN_SHARDS = {year: text.partition("\n")[0] for year, text in REQUIRED.items()}
CDEC_INI = "an option of dtrain: is this the cdec.ini, which dtrain's file names?"
LEFT_TO_USERS = ("names no input", "reads no standard input", "has no decoder_conf")
"""What a job file says where something must be added before it is complete."""
PRESET = PRESETS["dtrain"].keys
DEFAULTS = {key: value for key, _, value in schema.values(Job(RunKeys(Path(), Path()), DataKeys()))} | dict(PRESET)
"""What a job of the preset has, where it says nothing else."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where dtrain would be started."""
    (tmp_path / "cdec.ini").write_text(SUFFICIENT)
    for name in ("bitext", "source", "target", "warm", "grammar", "lm.arpa"):
        (tmp_path / name).write_text("")
    return tmp_path


@pytest.fixture
def imported(folder: Path) -> Callable[[str], str]:
    def job(text: str) -> str:
        (folder / "dtrain.ini").write_text(text)
        return import_job(folder / "dtrain.ini", folder)

    return job


def keys(text: str, folder: Path) -> dict[str, Any]:
    """The keys that a job file gives, by dotted name, after a look that all are valid, and none is the preset's."""
    elsewhere = folder / "far" / "away"
    elsewhere.mkdir(parents=True, exist_ok=True)
    (elsewhere / "job.toml").write_text(text)
    if not any(left in text for left in LEFT_TO_USERS):
        load(elsewhere / "job.toml")
    raw = {table: entries for table, entries in tomllib.loads(text).items() if entries}
    schema.read(Job, {"run": {"dir": "r", "store": "s"}} | raw, elsewhere / "job.toml")
    found = {f"{table}.{key}": value for table, entries in raw.items() for key, value in entries.items()}
    assert found.pop("learner.preset") == "dtrain"
    assert [key for key, value in found.items() if key in PRESET and PRESET[key] == value] == []
    return found


def test_a_configuration_of_2012(imported: Callable[[str], str], folder: Path) -> None:
    text = imported(
        """# comments, blanks and a flag without a value

  bitext = ./bitext       # the data
output=-
select_weights=avg
decoder_config=./cdec.ini
print_weights=Glue WordPenalty
stop_after=10
epochs=3
N=4
scorer=fixed_stupid_bleu
learning_rate=0.1
gamma=0.5
hi_lo=0.2
loss_margin=0.25
rescale
"""
    )
    assert text.splitlines()[0] == (
        f"# From {folder}/dtrain.ini: a configuration of dtrain as of 2012 (according to select_weights in line 5)."
    )
    assert keys(text, folder) == {
        "data.bitext": f"{folder}/bitext",
        "data.limit": 10,
        "decoder.config": f"{folder}/cdec.ini",
        "learner.epochs": 3,
        "learner.algorithm": "sgd",
        "learner.gold": "nakov",
        "learner.share": 0.2,
        "learner.learning_rate": 0.1,
        "learner.margin": 0.25,
        "learner.l2": 0.5,
    }
    lines = text.splitlines()
    assert "learning_rate = 0.1  # dtrain: learning_rate=0.1" in lines
    assert "# rescale: mpitune does not rescale the weight vector" in lines
    assert lines.index("# Options without a counterpart:") < lines.index("# Options that need no key:")


def test_a_configuration_of_2016(imported: Callable[[str], str], folder: Path) -> None:
    text = imported(
        """bitext=bitext
decoder_conf=cdec.ini
iterations=5
k=50
unique_kbest=false
score=lin
margin=0
cut=0.15
adjust=yes
average=off
l1_reg=0.001
learning_rate=0.1
input_weights=warm
threshold=0.02
"""
    )
    assert "dtrain as of 2016 (according to decoder_conf in line 2)" in text.splitlines()[0]
    assert keys(text, folder) == {
        "data.bitext": f"{folder}/bitext",
        "decoder.config": f"{folder}/cdec.ini",
        "decoder.kbest": 50,
        "decoder.unique": False,
        "learner.epochs": 5,
        "learner.algorithm": "itermix",
        "parallel.shards": 1,
        "learner.share": 0.15,
        "learner.margin": 0.0,
        "learner.learning_rate": 0.1,
        "learner.l1": 0.01,
        "learner.initial_weights": f"{folder}/warm",
    }
    assert "# threshold=0.02: mpitune compares all pairs whose gold scores differ" in text.splitlines()


@pytest.mark.parametrize(
    ("year", "score", "notes"),
    [
        (2012, "scorer=stupid_bleu", []),
        (2012, "scorer=fixed_stupid_bleu", []),
        (2012, "scorer=bleu", ["references of fewer than 4 words dtrain leaves out"]),
        (2016, "score=lin", ["several references of which one has fewer than 4 words: dtrain leaves out"]),
        (2016, "score=nakov", ["several references of which one has fewer than 4 words: dtrain leaves out"]),
        (2016, "score=papineni", ["references of fewer than 4 words dtrain leaves out"]),
    ],
)
def test_what_is_said_of_short_references(
    imported: Callable[[str], str], year: int, score: str, notes: list[str]
) -> None:
    text = imported(f"{REQUIRED[year]}{score}\n")
    told = " ".join(line.strip("# ") for line in text.splitlines())
    assert told.count("fewer than 4 words") == len(notes) and all(note in told for note in notes)


@pytest.mark.parametrize(
    ("year", "expected"),
    [
        (
            2012,
            {
                "learner.algorithm": "itermix",  # the last epoch's weights
                "parallel.shards": 1,
                "learner.learning_rate": 1.0,
                "learner.margin": 0.0,
            },
        ),
        (
            2016,
            {
                "learner.epochs": 15,
                "learner.algorithm": "sgd",
                "learner.gold": "nakov",
                "learner.extend_ties": False,
                "learner.learning_rate": 0.00001,
            },
        ),
    ],
)
def test_defaults_that_differ_from_the_preset_are_written(
    imported: Callable[[str], str], folder: Path, year: int, expected: dict[str, Any]
) -> None:
    text = imported(REQUIRED[year])
    found = {key: value for key, value in keys(text, folder).items() if key.startswith(("learner", "parallel"))}
    assert found == expected
    assert f"learning_rate = {expected['learner.learning_rate']}  # dtrain: learning_rate=" in text
    assert "dtrain's default (the preset's: 0.0001)" in text


VALUES: dict[int, dict[str, list[str]]] = {
    2012: {
        "bitext": ["bitext", "-"],
        "input": ["source\nrefs=target", "-\nrefs=target"],
        "refs": ["target\ninput=source"],
        "stop_after": ["0", "7"],
        "decoder_config": ["cdec.ini", "missing.ini"],
        "k": ["7"],
        "filter": ["uniq", "not"],
        "sample_from": ["kbest", "forest"],
        "select_weights": ["last", "best", "avg", "VOID"],
        "epochs": ["1", "7"],
        "scorer": ["bleu", "stupid_bleu", "fixed_stupid_bleu", "smooth_bleu", "sum_bleu", "sumexp_bleu"]
        + ["sumwhatever_bleu", "approx_bleu", "lc_bleu"],
        "approx_bleu_d": ["0.9", "0.8", "0.8\nscorer=approx_bleu", "0.9\nscorer=approx_bleu"],
        "N": ["4", "3"],
        "pair_sampling": ["XYX", "all", "PRO", "PRO\ngamma=0.1"],
        "hi_lo": ["0.1", "0.3", "0.3\npair_sampling=all"],
        "pair_threshold": ["0", "0.1", "0.05\npair_sampling=PRO", "0.1\npair_sampling=PRO"],
        "max_pairs": ["100"],
        "learning_rate": ["1", "1e-4", "0.1\nscale_bleu_diff=true"],
        "scale_bleu_diff": ["true", "false", ""],
        "pclr": ["no", "simple", "adagrad"],
        "loss_margin": ["0", "0.5", "9999", "0\npair_sampling=PRO"],
        "gamma": ["0", "0.5", "0.5\npclr=adagrad"],
        "l1_reg": ["none", *(f"{kind}\nl1_reg_strength=0.1" for kind in ("naive", "clip", "cumul"))],
        "l1_reg_strength": ["0.1", "0.1\nl1_reg=clip"],
        "rescale": ["true"],
        "batch": ["true"],
        "repeat": ["1", "3"],
        "check": ["true"],
        "fselect": ["-1", "0.5"],
        "noup": ["true"],
        "input_weights": ["warm", "-"],
        "output": ["-", "w.gz"],
        "keep": ["true"],
        "print_weights": ["Glue WordPenalty"],
        "config": ["x"],
        "quiet": ["true"],
        "verbose": ["true"],
    },
    2016: {
        "bitext": ["bitext", "-"],
        "stop_after": ["7"],
        "decoder_conf": ["cdec.ini", "missing.ini"],
        "k": ["7"],
        "unique_kbest": ["true", "false"],
        "forest_sample": ["false", "true"],
        "average": ["true", "false"],
        "iterations": ["1", "7"],
        "score": ["nakov", "lin", "papineni", "liang", "chiang", "sum"],
        "nakov_fix": ["1", "0.5"],
        "chiang_decay": ["0.9", "0.5"],
        "N": ["4", "5"],
        "cut": ["0.2", "0", "0.2\nstructured=1", "5000\npro_sampling=1", "0.1\npro_sampling=1"],
        "adjust": ["true", "false", "true\ncut=0", "true\npro_sampling=1"],
        "structured": ["true", "false"],
        "pro_sampling": ["true", "false", "true\ncut=0", "true\nstructured=1"],
        "all": ["true", "false", "true\nstructured=1", "true\npro_sampling=1"],
        "margin": ["0", "0.5", "0.5\nall=1", "0.5\nstructured=1", "0.5\npro_sampling=1"],
        "threshold": ["0", "0.1", "0.1\nall=1", "0.05\npro_sampling=1", "0.1\npro_sampling=1", "0.1\nstructured=1"],
        "max_pairs": ["100", "50\npro_sampling=1", "60\npro_sampling=1", "60\nall=1", "60\nstructured=1"],
        "learning_rate": ["1", "1e-4"],
        "adadelta": ["true", "false"],
        "adadelta_decay": ["0.9", "0.9\nadadelta=1", "0.8\nadadelta=1"],
        "adadelta_input": ["", "x"],
        "adadelta_output": ["", "x"],
        "l1_reg": ["0", "0.1"],
        "batch": ["false", "true"],
        "disable_learning": ["false", "true"],
        "input_weights": ["warm", "-"],
        "output": ["-", "w.gz"],
        "keep": ["false", "true"],
        "print_weights": ["Glue WordPenalty"],
        "output_updates": ["", "x"],
        "output_raw": ["", "x"],
        "conf": ["x"],
        "help": ["true"],
    },
}
"""Values of each option, some with options beside it."""


def told(text: str) -> list[str]:
    """The options of which a job file says what they became."""
    options = []
    for line in text.splitlines():
        before, _, comment = line.partition("# ")
        if not before:
            options.append(comment.partition(": ")[0])
        elif comment.startswith("dtrain: "):
            options += comment.removeprefix("dtrain: ").split(", ")
    return options


@pytest.mark.parametrize("year", GENERATIONS)
def test_all_options_are_here(year: int) -> None:
    assert sorted(VALUES[year]) == sorted(GENERATIONS[year])


@pytest.mark.parametrize("year", GENERATIONS)
def test_conditions_name_options(year: int) -> None:
    """A name that no generation has would never hold, without a word."""
    known = {name for options in GENERATIONS.values() for name in options}
    for option in GENERATIONS[year].values():
        conditions = [*option.ignored, *(condition for condition, _ in option.cases)]
        assert {re.split("[=>]", word)[0].lstrip("!") for word in " ".join(conditions).split()} <= known


@pytest.mark.parametrize(
    ("year", "name", "value"),
    [(year, name, value) for year, options in VALUES.items() for name, values in options.items() for value in values],
)
def test_every_option_is_told(imported: Callable[[str], str], folder: Path, year: int, name: str, value: str) -> None:
    """Once, in a comment; and the job is valid."""
    own = f"{name}={value}"
    names = [line.partition("=")[0] for line in own.splitlines()]
    rest = [line for line in REQUIRED[year].splitlines() if line.partition("=")[0] not in names]
    if "input" in names:
        rest.remove("bitext=bitext")
    for lines in ([*rest, own], [own, *(line for line in rest if line != "bitext=bitext")]):
        text = imported("\n".join(lines))
        keys(text, folder)
        for option in own.splitlines():
            assert told(text).count(option) == 1, text


@pytest.mark.parametrize(
    ("year", "options", "expected"),
    [
        (2012, "input=source\nrefs=target", {"data.references": ["target"], "data.source": "source"}),
        (2012, "scorer=smooth_bleu", {"learner.gold": "liang"}),
        (2012, "scorer=bleu", {"learner.gold": "papineni"}),
        (2012, "scorer=sum_bleu", {"learner.gold": "sum"}),
        (2012, "scorer=approx_bleu", {"learner.gold": "chiang"}),
        (2012, "filter=not", {"decoder.unique": False}),
        (2012, "sample_from=forest", {"decoder.sample": "forest"}),
        (2016, "forest_sample=true", {"decoder.sample": "forest"}),
        (2012, "select_weights=best", {"learner.algorithm": "itermix", "parallel.shards": 1}),
        (2012, "loss_margin=9999", {"learner.margin": ALWAYS}),
        (2012, "pair_sampling=PRO", {"learner.pairs": "pro", "learner.margin": ALWAYS}),
        (2012, "pair_sampling=PRO\nloss_margin=0.5", {"learner.pairs": "pro", "learner.margin": 0.5}),
        (2012, "pair_sampling=PRO\ngamma=0.5", {"learner.pairs": "pro", "learner.l2": 0.5}),
        (2012, "pair_sampling=all", {"learner.pairs": "all"}),
        (2012, "scale_bleu_diff=false", {"learner.scale_by_gold": True, "learner.learning_rate": 1.0}),
        (2012, "pclr=adagrad", {"learner.rate": "adagrad"}),
        (2012, "l1_reg=cumul\nl1_reg_strength=0.1\nlearning_rate=0.5", {"learner.l1": 0.2}),
        (2012, "l1_reg=cumul\nl1_reg_strength=0.1\nlearning_rate=0.5\nscale_bleu_diff", {"learner.l1": 0.1}),
        (2012, "input_weights=warm", {"learner.initial_weights": "warm"}),
        (2016, "score=chiang", {"learner.gold": "papineni"}),
        (2016, "score=liang", {"learner.gold": "liang"}),
        (2016, "cut=0", {"learner.pairs": "all", "learner.margin": 1.0}),
        (2016, "all=true", {"learner.margin": ALWAYS}),
        (2016, "structured=true\ncut=0", {"learner.pairs": "hope-fear", "learner.margin": ALWAYS}),
        (2016, "pro_sampling=true", {"learner.pairs": "pro", "learner.margin": ALWAYS}),
        (2016, "pro_sampling=true\ncut=0", {"learner.pairs": "all", "learner.margin": 1.0}),
        (2016, "adadelta=true", {"learner.rate": "adadelta"}),
    ],
)
def test_each_option_becomes_keys_of_its_meaning(
    imported: Callable[[str], str], folder: Path, year: int, options: str, expected: dict[str, Any]
) -> None:
    required = REQUIRED[year] if "input" not in options.split("=")[0].split("_") else IN_SHARDS[year] + "\n"
    found = dict(PRESET) | keys(imported(required + options), folder)
    for key, value in expected.items():
        told = found.get(key)
        if isinstance(told, str | list):
            told = [name.removeprefix(f"{folder}/") for name in ([told] if isinstance(told, str) else told)]
            value = [value] if isinstance(value, str) else value
        assert told == value, key


@pytest.mark.parametrize("year", GENERATIONS)
def test_without_input_it_is_the_job_of_parallelize(imported: Callable[[str], str], folder: Path, year: int) -> None:
    text = imported(IN_SHARDS[year])
    found = keys(text, folder)
    as_parallelize = {"learner.algorithm": "itersel", "learner.epochs": 10, "select.k": 100000, "select.norm": "l2"}
    assert as_parallelize.items() <= (dict(PRESET) | found).items()
    assert "data.limit" not in found and "parallel.shards" not in found
    assert "# The file names no input. Add source and references, or bitext." in text.splitlines()
    passes = {2012: "epochs=10", 2016: "iterations=15"}[year]
    assert f"# {passes}, dtrain's default: passes over a shard in each epoch of parallelize.rb" in text


# The cdec.ini


def test_what_only_cdec_has_needs_cdec(imported: Callable[[str], str], folder: Path) -> None:
    assert "backend" not in imported(REQUIRED[2012])
    (folder / "cdec.ini").write_text(f"{SUFFICIENT}feature_function=ArityPenalty\n")
    reason = "the embedded decoder does not have feature_function=ArityPenalty"
    text = imported(REQUIRED[2012])
    assert f'backend = "cdec"  # {reason}' in text.splitlines()
    keys(text, folder)
    job_inputs.load_job(folder / "far/away/job.toml", [])


def test_without_a_language_model_it_needs_cdec(imported: Callable[[str], str], folder: Path) -> None:
    (folder / "cdec.ini").write_text("formalism=scfg\ngrammar=grammar\n")
    text = imported(REQUIRED[2012])
    assert keys(text, folder)["decoder.backend"] == "cdec" and "no language model" in text
    job_inputs.load_job(folder / "far/away/job.toml", [])


def test_what_a_cdec_ini_leaves_open(imported: Callable[[str], str], folder: Path) -> None:
    (folder / "cdec.ini").write_text("formalism=scfg\nfeature_function=KLanguageModel lm.arpa\n")
    text = imported(REQUIRED[2016])
    found = keys(text, folder)
    assert found["grammar.per_sentence"] is True
    assert found["learner.frozen"] == ["WordPenalty"]
    assert "does not set add_pass_through_rules" in text
    assert job_inputs.load_job(folder / "far/away/job.toml", []).decoder.span_limit == 10


def test_what_no_decoder_can_be_tuned_with(imported: Callable[[str], str], folder: Path) -> None:
    assert "cannot tune" not in imported(REQUIRED[2012])
    (folder / "cdec.ini").write_text(SUFFICIENT.replace("scfg\n", "fst\n", 1))
    assert "# cdec.ini asks for formalism=fst: with that, mpitune cannot tune" in imported(REQUIRED[2012])


def test_weights_of_the_cdec_ini(imported: Callable[[str], str], folder: Path) -> None:
    (folder / "cdec.ini").write_text(f"{SUFFICIENT}weights=first\n")
    assert keys(imported(REQUIRED[2012]), folder)["learner.initial_weights"] == f"{folder}/first"
    given = f"{REQUIRED[2012]}input_weights=warm"
    assert keys(imported(given), folder)["learner.initial_weights"] == f"{folder}/warm"
    assert "learner.initial_weights" not in keys(imported(REQUIRED[2016]), folder)


@pytest.mark.parametrize(
    ("content", "expected"),
    [(None, "cdec.ini: found no such file or directory"), ("nonsense\n", "cdec.ini:1: found 'nonsense'")],
)
def test_a_cdec_ini_that_cannot_be_looked_into(
    imported: Callable[[str], str], folder: Path, content: str | None, expected: str
) -> None:
    (folder / "cdec.ini").unlink()
    if content:
        (folder / "cdec.ini").write_text(content)
    text = imported(REQUIRED[2012])
    assert f"# The cdec.ini could not be read: {folder}/{expected}" in text
    assert keys(text, folder)["decoder.config"] == f"{folder}/cdec.ini"


def test_a_cdec_ini_whose_paths_depend_on_the_working_folder(
    imported: Callable[[str], str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "etc").mkdir()
    (folder / "cdec.ini").rename(folder / "etc/cdec.ini")
    text = imported(REQUIRED[2012].replace("cdec.ini", "etc/cdec.ini"))
    assert "start `mpitune train` in the same folder" in text
    assert "start `mpitune train`" not in imported(REQUIRED[2012])


def test_a_file_that_is_not_there_is_told(imported: Callable[[str], str], folder: Path) -> None:
    assert "There is no such file" not in imported(REQUIRED[2012])
    (folder / "bitext").unlink()
    assert "There is no such file" in imported(REQUIRED[2012])


# Errors


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "decoder_config=x\nlearning_rat=1",
            "2: found 'learning_rat', expected an option of dtrain; did you mean learning_rate?",
        ),
        ("decoder_config=x\nxyzzy=1", "2: found 'xyzzy', expected an option of dtrain"),
        ("K=1", "1: found 'K', expected an option of dtrain"),
        (
            "k=3\ndecoder_config=x\nmargin=1",
            "3: found margin, an option of dtrain as of 2016, "
            "expected options of 2012 only, as decoder_config in line 2 is",
        ),
        ("k=3\n\nk=4", "3: found a second k, expected one (line 1)"),
        ("formalism=scfg\n", f"1: found formalism, expected {CDEC_INI}"),
        ("k=3\nfeature_function=A\nfeature_function=B", f"2: found feature_function, expected {CDEC_INI}"),
        ("k=3\n[learner]", "2: found '[learner]', expected name=value"),
        ("=3", "1: found '=3', expected name=value"),
        ("k", "1: found k, expected a whole number from 1 to 1000000"),
        ("k=", "1: found k=, expected a whole number from 1 to 1000000"),
        ("k=0", "1: found k=0, expected a whole number from 1 to 1000000"),
        ("k=1e2", "1: found k=1e2, expected a whole number from 1 to 1000000"),
        ("learning_rate=fast", "1: found learning_rate=fast, expected a number above 0 to 1e+18"),
        ("learning_rate=nan", "1: found learning_rate=nan, expected a number above 0 to 1e+18"),
        ("learning_rate=0", "1: found learning_rate=0, expected a number above 0 to 1e+18"),
        ("epochs=0", "1: found epochs=0, expected a whole number from 1 to 4294967295"),
        ("hi_lo=0.6", "1: found hi_lo=0.6, expected a number from 0.01 to 0.5"),
        ("cut=0.6", "1: found cut=0.6, expected at most 0.5, the half of a list"),
        ("adjust=maybe", "1: found adjust=maybe, expected true or false"),
        ("rescale=maybe", "1: found rescale=maybe, expected true or false"),
        ("filter=unique", "1: found filter=unique, expected one of uniq, not"),
        ("score=bleu", "1: found score=bleu, expected one of nakov, lin, papineni, liang, chiang, sum"),
        ("bitext=", "1: found bitext=, expected a file's name"),
        ("hi_lo=0.1\nbitext=b\nrefs=r", "3: found refs=r, expected it or bitext, not both"),
        ("hi_lo=0.1\ninput=b", "2: found input=b, expected input and refs together"),
        ("refs=b", "1: found refs=b, expected input and refs together"),
        ("hi_lo=0.1\nl1_reg=clip", "2: found l1_reg=clip, expected l1_reg_strength beside it"),
    ],
)
def test_bad_files_are_refused_with_their_line(
    imported: Callable[[str], str], folder: Path, text: str, expected: str
) -> None:
    with pytest.raises(UsageError) as error:
        imported(text)
    assert str(error.value) == f"{folder}/dtrain.ini:{expected}"


def test_a_file_that_cannot_be_read(folder: Path) -> None:
    with pytest.raises(DataError, match="nowhere.ini: found no such file"):
        import_job(folder / "nowhere.ini", folder)


def test_options_of_both_generations_only_are_taken_for_the_later_one(
    imported: Callable[[str], str], folder: Path
) -> None:
    text = imported("bitext=bitext\nk=7\n")
    assert "2016 (no option distinguishes 2016 from 2012)" in text.splitlines()[0]
    assert "# The file has no decoder_conf: add config, or [grammar] and [[lm]]." in text
    assert keys(text, folder)["decoder.kbest"] == 7


def test_odd_characters_stay_out_of_comments(imported: Callable[[str], str], folder: Path) -> None:
    text = imported(f"{REQUIRED[2012]}print_weights=a\x01b\x7fc ä\n")
    keys(text, folder)
    assert "# print_weights=a\\x01b\\x7fc ä: " in text


# The command


def test_an_imported_job_trains(
    tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From dtrain's file to weights."""
    source = tmp_path / "dtrain"
    source.mkdir()
    for name in ("grammar", "lm.arpa", "train.de", "train.en"):
        (source / name).symlink_to(tiny.folder / name)
    (source / "cdec.ini").write_text(SUFFICIENT)
    options = "decoder_config=cdec.ini\ninput=train.de\nrefs=train.en\nk=20\nlearning_rate=0.01\nepochs=2\n"
    (source / "dtrain.ini").write_text(options)
    monkeypatch.chdir(source)
    assert main(["import-dtrain", "dtrain.ini"]) == 0
    shown = capsys.readouterr().out
    job = tmp_path / "job.toml"
    assert main(["import-dtrain", "dtrain.ini", "--output", str(job)]) == 0
    assert job.read_text() == shown and capsys.readouterr() == ("", "")
    monkeypatch.chdir(tmp_path)
    assert job_inputs.load_job(job, []).learner.algorithm == "itermix"
    assert main(["train", str(job), "--quiet"]) == 0
    run = tmp_path / "runs/job"
    assert (run / "weights.txt.gz").read_bytes() == (run / "weights/epoch-0002.txt.gz").read_bytes()


def test_the_command_writes_nothing_where_the_file_is_wrong(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "dtrain.ini").write_text("k=0\n")
    (folder / "job.toml").write_text("before")
    assert main(["import-dtrain", str(folder / "dtrain.ini"), "--output", str(folder / "job.toml")]) == 2
    told = capsys.readouterr()
    assert told.out == "" and told.err.startswith(f"mpitune: {folder}/dtrain.ini:1: found k=0")
    assert (folder / "job.toml").read_text() == "before"
