"""mpitune init: its jobs load, mean what their templates mean and explain every key; nothing is overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import Cli
from support.mpi import ROOT

from mpitune import schema
from mpitune.cli import init
from mpitune.cli.parser import main
from mpitune.config.load import load

NAMES = ("demo", "bitext", "dev", "train", "cdec", "rerank")
every_template = pytest.mark.parametrize("template", NAMES)


def test_one_source_with_the_example_and_the_scripts() -> None:
    for name, folder in {"example.toml": "jobs", **dict.fromkeys(init.SCRIPTS, "slurm")}.items():
        assert (init.TEMPLATES / name).read_bytes() == (ROOT / folder / name).read_bytes()
    others = {path.stem for path in init.TEMPLATES.glob("*.toml")} - {"example"}
    assert others == set(NAMES)


@every_template
def test_the_job_means_what_the_template_means(cli: Cli, tmp_path: Path, template: str) -> None:
    done = cli("init", tmp_path / "new", "--template", template)
    assert (
        done.code == 0 and f"cd {tmp_path}/new\n" in done.output and "mpirun -n 2 mpitune train job.toml" in done.output
    )
    assert f"mpitune {'rerank' if template == 'rerank' else 'decode'} job.toml --input" in done.output
    (tmp_path / "job.toml").write_bytes((init.TEMPLATES / f"{template}.toml").read_bytes())
    written, short = load(tmp_path / "new" / "job.toml"), load(tmp_path / "job.toml")
    keys = {key: str(value) for key, _, value in schema.values(short)}
    found = {key: str(value).replace(f"{tmp_path}/new", str(tmp_path)) for key, _, value in schema.values(written)}
    assert found == keys


@every_template
@pytest.mark.parametrize("asked", ["learner.preset=simianer2012", "learner.method=mira"])
def test_presets_and_methods_set_what_the_template_does_not(
    cli: Cli, tmp_path: Path, template: str, asked: str
) -> None:
    assert cli("init", tmp_path / "new", "--template", template).code == 0
    short = tmp_path / "new" / "short.toml"
    short.write_bytes((init.TEMPLATES / f"{template}.toml").read_bytes())

    def keys(path: Path, *settings: str) -> dict[str, object]:
        return {key: value for key, _, value in schema.values(load(path, settings))}

    assert keys(tmp_path / "new" / "job.toml", asked) == keys(short, asked) != keys(short)


def test_cdec_ini_sets_what_the_job_does_not(cli: Cli, tmp_path: Path) -> None:
    assert cli("init", tmp_path, "--template", "cdec").code == 0
    (tmp_path / "lm.klm").touch()
    (tmp_path / "cdec.ini").write_text(
        "formalism=scfg\ngrammar=g.gz\nscfg_max_span_limit=12\ncubepruning_pop_limit=300\n"
        "feature_function=KLanguageModel lm.klm\nfeature_function=RuleShape\n"
    )
    done = cli("train", tmp_path / "job.toml", "--dry-run")
    assert done.code == 0
    for line in ("pop_limit = 300", "span_limit = 12", 'templates = ["shape"]'):
        assert line in done.output.splitlines()


@every_template
def test_the_job_explains_every_key(cli: Cli, tmp_path: Path, template: str) -> None:
    """Its lines are those of jobs/example.toml but for values and for what is not in use."""
    assert cli("init", tmp_path, "--template", template).code == 0

    def comments_and_keys(path: Path) -> list[str]:
        lines = path.read_text(encoding="utf-8").splitlines()
        keys = [line.removeprefix("# ").partition(" = ")[0] for line in lines]
        return keys[next(i for i, line in enumerate(lines) if line.startswith("# All keys")) :]

    assert comments_and_keys(tmp_path / "job.toml") == comments_and_keys(ROOT / "jobs" / "example.toml")


def test_scripts_for_slurm(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = cli("init", "--slurm")
    assert done.code == 0 and "sbatch slurm/train.sbatch job.toml" in done.output and "cd " not in done.output
    names = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    assert names == ["job.toml", "slurm/decode.sbatch", "slurm/train.sbatch"]
    assert (tmp_path / "slurm" / "train.sbatch").read_bytes() == (ROOT / "slurm" / "train.sbatch").read_bytes()


@pytest.mark.parametrize("name", ["job.toml", "slurm/decode.sbatch", "data"])
def test_nothing_is_overwritten(cli: Cli, tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    line = cli.refused(2, "init", tmp_path, "--template", "demo", "--slurm")
    assert line.startswith(f"{tmp_path}/{name}: found a file or folder of this name, expected none")
    assert sorted(tmp_path.rglob("*")) == before and (tmp_path / name).read_text() == "mine"


def test_the_demo_has_its_corpus(cli: Cli, tmp_path: Path) -> None:
    assert cli("init", tmp_path, "--template", "demo").code == 0
    corpus = {path.name: path.read_bytes() for path in (init.TEMPLATES / "demo").iterdir()}
    assert {path.name: path.read_bytes() for path in (tmp_path / "data").iterdir()} == corpus


def test_an_interruption_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(source: Path, copy: Path) -> None:
        copy.write_bytes(source.read_bytes())
        raise KeyboardInterrupt

    monkeypatch.setattr(init.shutil, "copyfile", interrupt)
    assert main(["init", str(tmp_path), "--template", "demo"]) == 130
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be written" in cli.refused(2, "init", tmp_path / "file" / "new")
