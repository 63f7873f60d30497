"""Every path of every command: none replaces an input, and each error of the system has its file and its direction."""

from __future__ import annotations

import builtins
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.commands import Cli, Trained
from support.paths import Argument, World, arguments, keys
from support.tiny import Tiny

from mpitune.ownership import OWN

ARGUMENTS, KEYS = arguments(), keys()
INPUTS = [each for each in ARGUMENTS if each.role == "reads"]
OUTPUTS = [each for each in ARGUMENTS if each.role == "writes"]
FOLDERS = [each for each in ARGUMENTS if each.role == "writes a folder"]


@pytest.fixture(scope="module")
def world(tiny: Tiny, trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"), tiny, trained.run)


@pytest.fixture(autouse=True)
def eflomal_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mpitune.corpus.eflomal.find_program", lambda: "/bin/false")


def test_every_command_has_its_paths_in_the_tables() -> None:
    assert {each.command for each in ARGUMENTS} == {
        *("init", "train", "prepare", "decode", "local", "rerank", "evaluate", "report", "weights", "extract"),
        *("align", "lm", "import-dtrain"),
    }
    assert (len(INPUTS), len(OUTPUTS), len(FOLDERS), len(KEYS)) == (32, 8, 3, 24)


# Each failure: what the path is, how the system fails, and whether looking at the path already tells.


@contextmanager
def failing(below: Path, number: int) -> Iterator[None]:
    """All calls that open, look at or list something ``below`` fail with the error ``number``."""

    def guarded(call: Callable[..., Any]) -> Callable[..., Any]:
        def checked(path: Any = ".", *rest: Any, **named: Any) -> Any:
            if isinstance(path, str | bytes | os.PathLike) and os.fsdecode(path).startswith(str(below)):
                raise OSError(number, os.strerror(number), os.fsdecode(path))
            return call(path, *rest, **named)

        return checked

    with pytest.MonkeyPatch.context() as patch:
        for name in ("stat", "lstat", "open", "mkdir", "listdir", "scandir", "access", "readlink", "unlink", "rename"):
            patch.setattr(os, name, guarded(getattr(os, name)))
        patch.setattr(builtins, "open", guarded(builtins.open))
        yield


REAL: dict[str, Callable[[Path], Path]] = {
    "name too long": lambda folder: folder / ("y" * 300),
    "link to itself": lambda folder: folder / "loop",
    "below a file": lambda folder: folder / "grammar" / "x",
    "nothing there": lambda folder: folder / "no" / "x",
}
"""Paths that the system itself refuses."""
FAKED = {"may not be entered": errno.EACCES, "stale": errno.ESTALE, "broken disk": errno.EIO}
"""What calls below a folder fail with."""
CODES = {"stale": 4, "broken disk": 4}
"""Whose fault it is: the machine's, or else the user's (2 or 3)."""
READ, WRITE = ("cannot be read", "expected a readable file", "found no"), ("cannot be written",)


@pytest.mark.parametrize("failure", [*REAL, *FAKED])
@pytest.mark.parametrize("argument", [*ARGUMENTS, *KEYS], ids=str)
def test_an_error_of_the_system_has_its_file_and_its_direction(
    world: World, cli: Cli, argument: Argument, failure: str
) -> None:
    if argument.name == "grammar.folder":
        pytest.skip("names alone are compared with it")
    if failure == "nothing there" and (argument.role == "writes a folder" or argument.name.startswith("run.")):
        pytest.skip("it is made")
    path = REAL[failure](world.folder) if failure in REAL else world.folder / "cursed" / "x"
    if failure in REAL:
        done = cli(*world.call(argument, path))
    else:
        with failing(path.parent, FAKED[failure]):
            done = cli(*world.call(argument, path))
    said = [line for line in done.errors.splitlines() if line.startswith("mpitune: ") and "warning" not in line]
    assert done.code in ((CODES[failure],) if failure in CODES else (2, 3)), done
    assert len(said) == 1 and "Traceback" not in done.errors, done.errors
    assert str(path) in said[0] or str(path.parent) in said[0], said
    wrong = READ[:2] if argument.role.startswith("writes") or argument.name in ("run.dir", "run.store") else WRITE
    assert not any(words in said[0] for words in wrong), said


@pytest.mark.parametrize("argument", [*INPUTS, *KEYS], ids=str)
def test_an_input_that_fails_while_it_is_read(world: World, cli: Cli, argument: Argument) -> None:
    """A real error of the system at the first byte: a process may open its memory, but not read its page 0."""
    if argument.name in ("run.dir", "run.store", "grammar.folder", "run_folders"):
        pytest.skip("a folder")
    done = cli(*world.call(argument, "/proc/self/mem"))
    [said] = [line for line in done.errors.splitlines() if line.startswith("mpitune: ") and "warning" not in line]
    assert done.code in (3, 4) and "/proc/self/mem: " in said and "cannot be written" not in said, said


LINKS: dict[str, Callable[[Path, Path], None]] = {
    "itself": lambda path, name: None,
    "symbolic link": lambda path, name: name.symlink_to(path),
    "hard link": lambda path, name: name.hardlink_to(path),
}
"""By how an output names an input: makes the name."""


def named_again(path: Path, link: str, folder: Path) -> Path:
    """A name for ``path``."""
    name = path if link == "itself" else folder / "name"
    LINKS[link](path, name)
    return name


def refused(cli: Cli, *words: str) -> str:
    """The error of a command that ends with code 2, without what it said before."""
    done = cli(*words)
    said = [line for line in done.errors.splitlines() if line.startswith("mpitune: ")]
    assert (done.code, len(said)) == (2, 1), done
    return said[0].removeprefix("mpitune: ")


def check_kept(cli: Cli, words: list[str], name: Path, path: Path) -> None:
    """The command is refused, and the file ``path`` stays as it is."""
    before = path.read_bytes()
    assert refused(cli, *words) == f"{name}: found as input and as output, expected two files"
    assert path.read_bytes() == before and os.path.samefile(path, name)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize(
    "output,given",
    [(output, given) for output in OUTPUTS for given in INPUTS if output.command == given.command],
    ids=str,
)
def test_no_output_is_an_input(
    world: World, cli: Cli, tmp_path: Path, output: Argument, given: Argument, link: str
) -> None:
    path = tmp_path / "mine"
    path.write_bytes((world.folder / "job.toml").read_bytes() if given.name == "job" else b"mine\n")
    name = named_again(path, link, tmp_path)
    words = world.call(given, path)
    if output.name in words:
        words[words.index(output.name) + 1] = str(name)
    else:
        words += [output.name, str(name)]
    check_kept(cli, words, name, path)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("key", [key for key in KEYS if not key.name.startswith("run.")], ids=str)
def test_no_output_is_a_file_that_the_job_names(
    world: World, cli: Cli, tmp_path: Path, key: Argument, link: str
) -> None:
    path = tmp_path / "mine"
    path.write_text("mine = 1\n" if key.name == "plugins.modules" else "formalism=scfg\n")
    name = named_again(path, link, tmp_path)
    _, job, *settings = world.call(key, path)
    words = ["decode", job, *settings, "--input", str(world.folder / "dev.de"), "--output", str(name)]
    check_kept(cli, words, name, path)


@pytest.mark.parametrize("link", LINKS)
def test_no_output_is_a_file_that_other_files_name(world: World, cli: Cli, tmp_path: Path, link: str) -> None:
    """Grammars in sentences, files in a cdec.ini and in a configuration of dtrain."""
    mine = tmp_path / "mine"
    mine.write_bytes((world.folder / "own.0").read_bytes())
    name = named_again(mine, link, tmp_path)
    source, ini, dtrain = tmp_path / "source", tmp_path / "cdec.ini", tmp_path / "dtrain.ini"
    source.write_text('<seg grammar="mine" id="0">das haus</seg>\n')
    ini.write_text("formalism=scfg\ngrammar=mine\nfeature_function=KLanguageModel lm.arpa\n")
    (tmp_path / "lm.arpa").write_bytes((world.folder / "lm.arpa").read_bytes())
    dtrain.write_text(f"bitext={mine}\ndecoder_config={ini}\n")
    job = ["decode", str(world.folder / "job.toml"), "--weights", str(world.folder / "warm"), "--output", str(name)]
    keys = ["--set", "grammar.file=", "--set", "grammar.per_sentence=true", "--set", "data={}"]
    check_kept(cli, [*job, "--input", str(source), *keys[:4]], name, mine)
    keys = ["--set", "grammar.file=", "--set", "lm=[]", "--set", f"decoder.config={ini}"]
    check_kept(cli, [*job, "--input", str(world.folder / "dev.de"), *keys], name, mine)
    check_kept(cli, ["import-dtrain", str(dtrain), "--output", str(name)], name, mine)


# Folders that many files are written to.

NAMES = {
    kind: [pattern.replace("[0-9]*", "0").replace("*", "0001") for pattern in patterns]
    for kind, patterns in OWN.items()
}
"""By kind of folder: a name like each of its own."""
WRITERS: dict[str, Callable[[World, Path], list[str]]] = {
    "run": lambda world, folder: world.call(Argument("train", "run.dir", "key"), folder),
    "store": lambda world, folder: world.call(Argument("train", "run.store", "key"), folder),
    "grammars": lambda world, folder: world.call(Argument("extract", "--output", "writes a folder"), folder),
}


def placed(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("kind,name", [(kind, name) for kind, names in NAMES.items() for name in names])
def test_files_of_others_are_not_replaced(world: World, cli: Cli, tmp_path: Path, kind: str, name: str) -> None:
    path = placed(tmp_path / "mine", name, b"mine")
    for more in ([], ["--resume", "never"] if kind == "run" else []):
        line = refused(cli, *WRITERS[kind](world, tmp_path / "mine"), *more)
        assert f"{path}: found a file that no {kind} has written" in line
    assert path.read_bytes() == b"mine"
    assert [each for each in (tmp_path / "mine").rglob("*") if each.is_file()] == [path]


@pytest.mark.parametrize("kind", WRITERS)
def test_a_lock_of_others_is_not_overwritten(world: World, cli: Cli, tmp_path: Path, kind: str) -> None:
    path = placed(tmp_path / "mine", "lock", b"precious\n")
    line = refused(cli, *WRITERS[kind](world, tmp_path / "mine"))
    assert f"{path}: found a file that no {kind} has written" in line and path.read_bytes() == b"precious\n"
    target = placed(tmp_path, "precious", b"precious\n")
    path.unlink()
    path.symlink_to(target)
    line = refused(cli, *WRITERS[kind](world, tmp_path / "mine"))
    assert "cannot be written: Too many levels of symbolic links" in line
    assert target.read_bytes() == b"precious\n"


@pytest.mark.parametrize("name", [name for name in NAMES["run"] if not name.startswith("cdec")])
def test_an_input_in_the_folder_of_its_run(world: World, cli: Cli, tmp_path: Path, name: str) -> None:
    """A marked folder's own file: found before anything of it is replaced."""
    path = placed(tmp_path / "run", name, (world.folder / "warm").read_bytes())
    (tmp_path / "run" / "lock").write_text("process 1 on here\n")
    words = [*WRITERS["run"](world, tmp_path / "run"), "--set", f"learner.initial_weights={path}"]
    assert cli.refused(2, *words).startswith(f"{path}: found as input and as output, expected one outside of the run")
    assert path.read_bytes() == (world.folder / "warm").read_bytes()


@pytest.mark.parametrize("name", NAMES["grammars"])
@pytest.mark.parametrize("option", ["--source", "--target", "--alignment", "--input"])
def test_an_input_of_extract_in_its_output(world: World, cli: Cli, tmp_path: Path, option: str, name: str) -> None:
    path = placed(tmp_path / "mine", name, b"mine\n")
    words = WRITERS["grammars"](world, tmp_path / "mine")
    words[words.index(option) + 1] = str(path)
    for mark in (b"", b"process 1 on here\n"):
        if mark:
            placed(tmp_path / "mine", "lock", mark)
        assert f"{path}: found" in cli.refused(2, *words) and path.read_bytes() == b"mine\n"


def test_a_report_replaces_reports_alone(world: World, cli: Cli, tmp_path: Path) -> None:
    words = ["report", str(world.run), "--output", str(tmp_path / "mine")]
    for name in ("report.html", "plots/bleu.png"):
        path = placed(tmp_path / "mine", name, b"mine")
        line = cli.refused(2, *words)
        assert line.startswith(f"{path}: found a file that no report has written") and path.read_bytes() == b"mine"
        path.unlink()
    other = placed(tmp_path / "mine", "plots/mine.png", b"mine")
    for _ in range(2):
        assert cli(*words).code == 0 and path.is_file() and other.read_bytes() == b"mine"


def test_a_run_starts_over_among_files_of_the_user(world: World, cli: Cli, tmp_path: Path) -> None:
    mine = [placed(tmp_path / "my", f"{folder}/mine", b"mine") for folder in ("weights", "translations", "checkpoints")]
    for resume in ("never", "auto", "never"):
        words = [*WRITERS["run"](world, tmp_path / "my"), "--set", "learner.epochs=1"]
        assert cli(*words, "--resume", resume, "--quiet").code == 0
        assert all(path.read_bytes() == b"mine" for path in mine)
        assert len(list((tmp_path / "my" / "checkpoints").glob("*.h5"))) == 1


def test_the_configuration_of_a_run_is_a_job_unless_the_user_has_changed_it(
    world: World, cli: Cli, tmp_path: Path
) -> None:
    words = [*WRITERS["run"](world, tmp_path / "run"), "--set", "learner.epochs=1", "--quiet"]
    config = tmp_path / "run" / "config.toml"
    assert cli(*words).code == 0
    assert cli("train", config, "--set", "learner.epochs=2", "--quiet").code == 0
    assert "epochs = 2\n" in config.read_text()
    config.write_text(f"# of mine\n{config.read_text()}")
    line = cli.refused(2, "train", config, "--set", "learner.epochs=3")
    assert line.startswith(f"{config}: found as input and as output") and config.read_text().startswith("# of mine")


def test_work_of_an_extraction_is_not_that_of_others(world: World, cli: Cli, tmp_path: Path) -> None:
    path = placed(tmp_path / "out", ".extraction/data.npz", b"mine")
    for _ in range(2):
        line = refused(cli, *WRITERS["grammars"](world, tmp_path / "out"))
        assert f"{path}: found a file that no store has written" in line and path.read_bytes() == b"mine"


def test_links_to_files_of_a_run_are_no_outputs(world: World, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(world.run / "weights.txt.gz")
    (tmp_path / "folder").symlink_to(world.run / "checkpoints")
    for output in (tmp_path / "link", tmp_path / "folder" / "epoch-0001.h5"):
        before = output.read_bytes()
        line = refused(cli, "weights", str(world.folder / "warm"), "--export", str(output))
        assert line.startswith(f"{output}: found the name of a file of the run there") and output.read_bytes() == before


def test_an_input_with_the_name_of_a_file_that_is_being_written(world: World, cli: Cli, tmp_path: Path) -> None:
    for name in (".out.part", ".out.mpitune-part"):
        path = placed(tmp_path, name, b"the house\n")
        words = ["lm", "--order", "2", "--input", str(path), "--output", str(tmp_path / "out")]
        assert cli(*words).code == (0 if name == ".out.part" else 2) and path.read_bytes() == b"the house\n"


def test_a_second_extraction_leaves_no_grammars_of_the_first(world: World, cli: Cli, tmp_path: Path) -> None:
    words = WRITERS["grammars"](world, tmp_path / "out")
    assert cli(*words).code == 0
    mine = placed(tmp_path / "out", "grammar.mine.gz", b"mine")
    placed(tmp_path / "out", "grammar.99x.gz", b"mine")
    short = placed(tmp_path, "short", b"das haus\n")
    words[words.index("--input") + 1] = str(short)
    assert cli(*words).code == 0
    assert sorted(os.listdir(tmp_path / "out")) == [
        "grammar.0.gz",
        "grammar.99x.gz",
        "grammar.mine.gz",
        "input.sgm",
        "lock",
    ]
    assert mine.read_bytes() == b"mine"
