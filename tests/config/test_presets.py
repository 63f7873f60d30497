"""Presets: values by name, after the schema's defaults and before all that the job says."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.tiny import Tiny

from mpitune import schema
from mpitune.cli.parser import main
from mpitune.config.dtrain import import_job
from mpitune.config.effective_keys import describe_changes, effective_keys, ignored_keys
from mpitune.config.load import complete_from_cdec_ini, load
from mpitune.config.presets import PRESETS
from mpitune.config.spec import Job, LearnerKeys, RunKeys
from mpitune.errors import UsageError
from mpitune.learner.methods import METHODS

SMALL = '[data]\nbitext = "b"\n[grammar]\nfile = "g"\n[[lm]]\nfile = "l"\n'
NAMES = sorted(PRESETS)


def job(folder: Path, text: str = "", *overrides: str, name: str = "job.toml") -> Job:
    path = folder / name
    path.write_text(text if "[grammar]" in text else SMALL + text, encoding="utf-8")
    return load(path, overrides)


def values_of(found: Job) -> dict[str, Any]:
    return {key: value for key, _, value in schema.values(found)}


def preset(name: str) -> str:
    return f'[learner]\npreset = "{name}"\n'


# The table


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_is_what_a_job_has_that_says_no_more(tmp_path: Path, name: str) -> None:
    """All else has its default: the schema's, or that of the method."""
    found = values_of(job(tmp_path, preset(name)))
    plain = values_of(job(tmp_path)) | dict(METHODS[found["learner.method"]].defaults)
    if found["learner.method"] == "pro":
        plain["learner.algorithm"] = "itermix"  # a batch method has no other
    if found["learner.method"] == "mira":
        plain["learner.mira.oracle_kbest"] = found["decoder.kbest"]
    assert found == plain | dict(PRESETS[name].keys) | {"learner.preset": name}
    assert {key: type(value) for key, value in PRESETS[name].keys.items()} == {
        key: type(found[key]) for key in PRESETS[name].keys
    }


@pytest.mark.parametrize("name", NAMES)
def test_dry_run_shows_what_a_preset_expands_to(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    asked = job(tmp_path, preset(name))
    assert main(["train", str(tmp_path / "job.toml"), "--dry-run"]) == 0
    shown = tmp_path / "shown.toml"
    shown.write_text(capsys.readouterr().out)
    assert load(shown) == asked
    raw = tomllib.loads(shown.read_text())
    for key, value in PRESETS[name].keys.items():
        place: Any = raw
        for part in key.split("."):
            place = place[part]
        assert place == value, key


def test_every_preset_has_a_source() -> None:
    assert next(iter(PRESETS)) == "default" == LearnerKeys().preset and not PRESETS["default"].keys
    assert all(len(preset.source) > 40 for preset in PRESETS.values())


def test_the_paper_of_2012_says_all_that_a_perceptron_looks_at() -> None:
    """So it stays what it is when defaults change: a key that is new in [learner] needs the paper's value there."""
    table = {
        key for key, kind, _ in schema.values(LearnerKeys(), "learner.") if key.count(".") == 1 and kind is not Path
    }
    assert table - {"learner.preset", "learner.frozen", "learner.tune"} <= PRESETS["simianer2012"].keys.keys()
    assert {
        "decoder.kbest",
        "decoder.unique",
        "decoder.pop_limit",
        "decoder.span_limit",
        "select.k",
        "select.norm",
    } <= (PRESETS["simianer2012"].keys.keys())


def test_what_mira_does_by_default_is_what_its_paper_has(tmp_path: Path) -> None:
    """But for patience and what is hidden from language models, which no paper of that time knows."""
    by_default = job(tmp_path, '[learner]\nmethod = "mira"\n')
    named = job(tmp_path, preset("eidelman2012"))
    ours = by_default.learner
    asked = replace(named.learner, preset="default", patience=ours.patience, lm_leave_one_out=ours.lm_leave_one_out)
    assert replace(named, learner=asked) == by_default


# What comes before what


def test_the_job_comes_before_the_preset_and_settings_before_both(tmp_path: Path) -> None:
    text = preset("simianer2012") + "margin = 0.5\nepochs = 3\n[decoder]\nkbest = 7\n"
    found = job(tmp_path, text, "learner.margin=2", "parallel.reshuffle=true")
    assert (found.learner.margin, found.learner.epochs, found.decoder.kbest) == (2.0, 3, 7)
    assert found.parallel.reshuffle and found.learner.learning_rate == 0.0001
    other = job(tmp_path, text, "learner.preset=dtrain")
    assert (other.learner.preset, other.learner.order, other.learner.margin) == ("dtrain", "sentence", 0.5)
    assert "learner.order" not in other.explicit and "learner.margin" in other.explicit


def test_a_preset_comes_before_the_defaults_of_a_method(tmp_path: Path) -> None:
    found = job(tmp_path, preset("simianer2012") + 'method = "mira"\n')
    assert (found.learner.epochs, found.learner.gold, found.decoder.kbest) == (10, "liang", 100)
    assert found.parallel.shards == 20, "the preset says nothing of it"
    found = job(tmp_path, preset("hopkins2011"), "learner.method=rampion")
    assert (found.learner.epochs, found.decoder.kbest, found.learner.gold) == (20, 500, "bleu+1")


def test_a_cdec_ini_comes_before_the_preset_and_after_the_job(tmp_path: Path) -> None:
    text = preset("simianer2012") + '[decoder]\nconfig = "cdec.ini"\nspan_limit = 12\n[grammar]\nfile = "g"\n'
    given = {"lm": [{"file": "l"}], "decoder.pop_limit": 30, "decoder.span_limit": 20}
    found = complete_from_cdec_ini(job(tmp_path, text), given, tmp_path / "cdec.ini")
    assert (found.decoder.pop_limit, found.decoder.span_limit, found.decoder.kbest) == (30, 12, 100)
    assert (
        complete_from_cdec_ini(job(tmp_path, found.to_toml(), name="again.toml"), given, tmp_path / "cdec.ini") == found
    )


def test_a_threshold_takes_the_place_of_the_preset_s_k(tmp_path: Path) -> None:
    found = job(tmp_path, preset("simianer2012") + "[select]\nlambda = 0.5\n")
    assert (found.select.k, found.select.lambda_) == (None, 0.5)
    assert job(tmp_path, found.to_toml(), name="again.toml") == found


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "text", ["margin = 0.25\nepochs = 3\n", 'method = "mira"\nmira.c = 0.5\n', 'algorithm = "sgd"\n']
)
def test_what_is_written_reads_back_to_the_same_job(tmp_path: Path, name: str, text: str) -> None:
    found = job(tmp_path, preset(name) + text)
    again = job(tmp_path, found.to_toml(), name="again.toml")
    assert again == found and again.to_toml() == found.to_toml()
    assert effective_keys(again) == effective_keys(found)


def test_an_unknown_name_is_refused_with_those_there_are(tmp_path: Path) -> None:
    there_are = f"expected one of {', '.join(PRESETS)}"
    with pytest.raises(UsageError) as error:
        job(tmp_path, preset("simianer2011"))
    assert str(error.value) == f'{tmp_path}/job.toml: learner.preset: found "simianer2011", {there_are}'
    with pytest.raises(UsageError) as error:
        job(tmp_path, "", "learner.preset=x")
    assert str(error.value) == f'--set learner.preset: found "x", {there_are}'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[learner]\npreset = 3\n", "learner.preset: found 3, expected a string"),
        ('[learner]\npreset = ["dtrain"]\n', 'learner.preset: found ["dtrain"], expected a string'),
        (f"{preset('eidelman2012')}mira = 3\n", "learner.mira: found 3, expected a table"),
    ],
)
def test_what_is_wrong_beside_a_preset_is_named(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UsageError, match=r"job\.toml: ") as error:
        job(tmp_path, text)
    assert str(error.value).endswith(told)
    with pytest.raises(UsageError, match="select: found 3, expected a table"):
        job(tmp_path, "select = 3\n" + SMALL + preset("simianer2012"))


# Who looks at it


def test_the_result_depends_on_the_values_not_on_the_name(tmp_path: Path) -> None:
    named = job(tmp_path, preset("dtrain"))
    assert "learner.preset" not in effective_keys(named)
    assert effective_keys(
        job(tmp_path, named.to_toml(), "learner.preset=default", name="again.toml")
    ) == effective_keys(named)
    assert effective_keys(job(tmp_path, preset("simianer2012"))) != effective_keys(named)


def test_nothing_is_said_of_keys_that_a_preset_sets(tmp_path: Path) -> None:
    """Neither in a job that names it nor in the configuration that is written of that."""
    for name in NAMES:
        for method in ("mira", "pro", "perceptron"):
            found = job(tmp_path, preset(name), f"learner.method={method}")
            told = ignored_keys(found) + ignored_keys(job(tmp_path, found.to_toml(), name="again.toml"))
            assert told == [], (name, method)
    asked = preset("dtrain") + 'method = "mira"\nmargin = 3.0\n'
    assert ignored_keys(job(tmp_path, asked)) == ["learner.margin"]


def test_batch_methods_ignore_what_belongs_to_passes_over_shards(tmp_path: Path) -> None:
    """So a run goes on if such a key changes."""
    keys = ("learner.averaging='epoch'", "learner.dense_start=0", "parallel.mixing='uniform'")
    for method, ignores in (("pro", True), ("mert", True), ("perceptron", False)):
        plain = job(tmp_path, "", f"learner.method={method}")
        changed = job(tmp_path, "", f"learner.method={method}", *keys, "parallel.reshuffle=false")
        names = [key.partition("=")[0] for key in keys] + ["parallel.reshuffle"]
        assert sorted(ignored_keys(changed)) == (sorted(names) if ignores else [])
        assert (effective_keys(changed) == effective_keys(plain)) == ignores
    scale = "learner.mira.cost_scale=2"
    assert ignored_keys(job(tmp_path, "", "learner.method=mira", scale)) == []
    other = job(tmp_path, "", "learner.method=mira", scale, "learner.gold=document")
    assert ignored_keys(other) == ["learner.mira.cost_scale"]


def test_changes_between_versions_are_named() -> None:
    before = {"learner.margin": 0.0, "learner.old": 1, "select.k": 5}
    now = {"learner.margin": 1.0, "learner.new": "x", "select.k": 5}
    assert describe_changes(before, now) == [
        "learner.margin (was 0.0, is 1.0)",
        "learner.new (was not there, is 'x')",
        "learner.old (was 1, is not there)",
    ]
    assert describe_changes(now, now) == []
    texts = {"lm.0.text": "0" * 32}, {"lm.0.text": "f" * 32}
    assert describe_changes(*texts) == ["lm.0.text (other content)"]
    assert describe_changes({}, {"select.lambda": None}) == ["select.lambda (was not there, is None)"]


# Runs


def test_a_run_goes_on_under_another_name_for_the_same_values(tiny: Tiny, tmp_path: Path) -> None:
    keys = PRESETS["simianer2012"].keys
    learner, parallel = (
        {key.partition(".")[2]: value for key, value in keys.items() if key.startswith(table)}
        for table in ("learner.", "parallel.")
    )
    learner |= {"preset": "default", "learning_rate": 1 / 128}
    tiny.train(run := tmp_path / "run", learner={"epochs": 1})
    tiny.train(run, resume="must", learner=learner | {"epochs": 2}, parallel=parallel)
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 2
    told = r"learner\.extend_ties \(was False, is True\), .*learner\.order \(was 'sequential', is 'sentence'\)"
    with pytest.raises(UsageError, match=f"the job has changed since its last checkpoint: {told}"):
        tiny.train(run, learner={"preset": "dtrain"})


def test_a_run_goes_on_from_its_own_config(tiny: Tiny, tmp_path: Path) -> None:
    tiny.train(run := tmp_path / "run", learner={"preset": "dtrain", "epochs": 1})
    assert main(["train", str(run / "config.toml"), "--quiet", "--set", "learner.epochs=2"]) == 0
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize("name", NAMES)
def test_each_preset_learns(tiny: Tiny, tmp_path: Path, name: str) -> None:
    """From a few steps of each nothing breaks, and something is learned."""
    keys = {"preset": name, "epochs": 2, "learning_rate": None, "initial_weights": "warm"}
    tiny.train(tmp_path / "run", learner=keys, parallel={"shards": None})
    assert (tmp_path / "run" / "weights.txt.gz").stat().st_size > 100


def test_a_checkpoint_of_an_older_version_is_one_line(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever its job says: what it says may mean something else today."""
    monkeypatch.setattr("mpitune.run_folder.checkpoint.VERSION", 1)
    tiny.train(run := tmp_path / "run", learner={"epochs": 1})
    monkeypatch.undo()
    file = tiny.job_file(run, learner={"epochs": 2, "margin": 1.0})
    assert main(["train", str(file), "--quiet"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"mpitune: {run}/checkpoints/epoch-0001.h5: made by an older mpitune (version 1, ")
    assert line.endswith("or start over with --resume never")


# From dtrain

SHIPPED = """k=100
N=4
learning_rate=0.0001
gamma=0
loss_margin=1.0
epochs=1
scorer=stupid_bleu
sample_from=kbest
filter=uniq
pair_sampling=XYX
hi_lo=0.1
select_weights=last
"""
"""What the trainer's configuration for training in shards sets."""


def test_the_configuration_that_dtrain_ships_is_its_preset(tmp_path: Path) -> None:
    (tmp_path / "dtrain.ini").write_text(SHIPPED)
    text = import_job(tmp_path / "dtrain.ini", tmp_path)
    raw = {table: entries for table, entries in tomllib.loads(text).items() if entries}
    assert raw == {"learner": {"preset": "dtrain"}}
    read = schema.read(Job, {"run": {"dir": "r", "store": "s"}}, tmp_path / "job.toml")
    assert read == Job(RunKeys(tmp_path / "r", tmp_path / "s")), "the import itself leaves defaults alone"


def test_an_imported_job_has_the_preset_and_what_differs(tmp_path: Path) -> None:
    (tmp_path / "dtrain.ini").write_text(f"{SHIPPED}bitext=b\n".replace("loss_margin=1.0", "loss_margin=0"))
    (tmp_path / "job.toml").write_text(
        import_job(tmp_path / "dtrain.ini", tmp_path) + '[grammar]\nfile="g"\n[[lm]]\nfile="l"'
    )
    found = load(tmp_path / "job.toml")
    assert (found.learner.preset, found.learner.margin, found.learner.epochs) == ("dtrain", 0.0, 1)
    assert (found.learner.order, found.learner.gold, found.learner.extend_ties) == ("sentence", "bleu+1", True)
    assert "learner.order" not in found.explicit
