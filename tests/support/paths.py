"""Every path that a command reads or writes, from the parser and from the schema of jobs, each with a call around it.

A new argument or key of the same kind is in the tables of `tests/cli/test_paths.py` by itself; one that needs others
beside it must be given them here, or those tests fail.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

from support.tiny import Tiny

from mpitune.cli.arguments import reads, writes, writes_folder
from mpitune.cli.help import subparsers
from mpitune.cli.options import make_parser
from mpitune.config.spec import Job

ROLES: dict[object, str] = {reads: "reads", writes: "writes", writes_folder: "writes a folder"}


class Argument(NamedTuple):
    """What names a file or a folder: an argument of a command, or a key of the job that a command reads."""

    command: str
    name: str
    """``--input``, ``job``, or the dotted key of a job."""
    role: str
    """A value of `ROLES`, or "key"."""
    several: bool = False
    """True for a key whose value is a list."""

    def __str__(self) -> str:
        return f"{self.command} {self.name}"


def arguments() -> list[Argument]:
    """Those of the command line, in the order of the parser."""
    found = []
    for parser in subparsers(make_parser()):
        for action in parser._actions:
            if action.type in ROLES:
                name = action.option_strings[-1] if action.option_strings else action.dest
                found.append(Argument(parser.prog.split()[-1], name, ROLES[action.type]))
    return found


def keys() -> list[Argument]:
    """The keys of a job whose values are paths; those of lists of tables have the number 0."""
    return list(_path_keys(Job, ""))


def _path_keys(table: Any, prefix: str) -> Iterator[Argument]:
    for name, hint in get_type_hints(table).items():
        core = next((kind for kind in get_args(hint) if kind not in (type(None), Ellipsis)), hint)
        if core is Path and f"{prefix}{name}" != "file":  # the job file itself
            yield Argument("train", f"{prefix}{name}", "key", str(hint).startswith("tuple"))
        elif is_dataclass(core):
            yield from _path_keys(core, f"{prefix}{name}." + ("0." if str(hint).startswith("tuple") else ""))


EXTRACTED = ("grammar.file=", "grammar.source=train.de", "grammar.target=train.en", "grammar.alignment=links")
LISTS = (
    *("decoder.backend=lists", "data.source=", 'data.lists=["lists"]', "lm=[]", "grammar.file="),
    *("features.templates=[]", "learner.preset=default"),
)
DEVTEST_LISTS = (*LISTS, 'data.devtest.lists=["lists"]', 'data.devtest.references=["train.en"]')
SCORES = ("features.files.0.name=other", "features.files.0.file=scores")
LEXICON = ("features.templates=['lexicon-pair']", "features.lexicon=lexicon", "data.source=train.de")
BESIDE: dict[str, tuple[str, ...]] = {
    "--scores": SCORES,
    "--source": LEXICON,
    "data.bitext": ("data.source=", "data.references=[]"),
    "data.lists": LISTS,
    "data.devtest.source": ('data.devtest.references=["dev.en"]',),
    "data.devtest.references": ("data.devtest.source=dev.de",),
    "data.devtest.lists": DEVTEST_LISTS,
    "data.counts": (*LISTS, "data.format=plain"),
    "data.devtest.counts": (*DEVTEST_LISTS, "data.format=plain"),
    "grammar.folder": (
        "grammar.file=",
        "grammar.per_sentence=true",
        "data.source=own.de",
        'data.references=["own.en"]',
    ),
    **{f"grammar.{name}": EXTRACTED for name in ("source", "target", "alignment")},
    "features.lexicon": (*LISTS, *LEXICON),
    "features.files.0.file": (*LISTS, *SCORES),
    "features.files.0.devtest": (*DEVTEST_LISTS, *SCORES, "features.files.0.devtest=scores"),
    "lm.0.text": ("lm.0.file=",),
}
"""Settings of a job that an argument or a key needs."""
REPLACED = {
    "--bitext": ("--source", "--target"),
    "--system": ("--hyps",),
    "--lists": ("--hyps",),
    "--counts": ("--hyps",),
}
"""By argument: those that must not be given with it."""


class World:
    """A folder with files for a call of every command, over the tiny task."""

    def __init__(self, folder: Path, tiny: Tiny, run: Path) -> None:
        """``run``: the folder of a finished run over the tiny task with `DEVTEST`."""
        self.folder = folder
        for path in tiny.folder.iterdir():
            if path.is_file():
                (folder / path.name).write_bytes(path.read_bytes())
        sentences = (folder / "train.de").read_text().count("\n")
        texts = {
            "links": sentences * "\n",
            "own.en": 6 * "the\n",
            "lists": "".join(
                f"{i} ||| the {word} ||| A={n} ||| {n}\n" for i in range(26) for n, word in enumerate("ab")
            ),
            "scores": 2 * sentences * "0.5\n",
            "lexicon": "das the\n",
            "dtrain.ini": f"input={folder}/train.de\nrefs={folder}/train.en\ndecoder_config={folder}/cdec.ini\n",
            "cdec.ini": "formalism=scfg\ngrammar=grammar\nfeature_function=KLanguageModel lm.arpa\n",
            "words": "the\n",
        }
        for name, text in texts.items():
            (folder / name).write_text(text)
        (folder / "links").write_text("".join("0-0\n" if line else "\n" for line in self._lines("train.de")))
        job = Path(tiny.job_file(folder / "run")).read_text()
        store = json.dumps(str(folder / "store"))
        lines = [f"store = {store}" if line.startswith("store =") else line for line in job.splitlines()]
        (folder / "job.toml").write_text("\n".join(lines))
        (folder / "loop").symlink_to("loop")
        self.run = run
        self._runs = 0

    def _lines(self, name: str) -> list[str]:
        return (self.folder / name).read_text().splitlines()

    def call(self, argument: Argument, path: Path | str) -> list[str]:
        """A command that would work, but that ``argument`` names ``path``."""
        if argument.role == "key":
            value = json.dumps([str(path)] if argument.several else str(path))
            self._runs += 1
            settings = [f"run.dir=run-{self._runs}", *BESIDE.get(argument.name, ()), f"{argument.name}={value}"]
            return ["train", str(self.folder / "job.toml"), *(word for text in settings for word in ("--set", text))]
        replaced = REPLACED.get(argument.name, ())
        given = {name: values for name, values in self._usual(argument.command).items() if name not in replaced}
        given[argument.name] = ["name", str(path)] if argument.name == "--system" else [str(path)]
        if argument.name == "--counts":
            lists = "--input" if argument.command == "rerank" else "--lists"
            given |= {"--format": ["plain"], lists: [str(self.folder / "lists")]}
        if argument.command == "rerank":
            given["--set"] += BESIDE.get(argument.name, ())
        words = [argument.command]
        for name, values in given.items():
            if name == "--set":
                words += [word for value in values for word in (name, value)]
            elif name.startswith("-"):
                words += [name, *values]
            else:
                words[1:1] = values
        return words

    def _usual(self, command: str) -> dict[str, list[str]]:
        """The arguments that a command needs, by name."""
        at = {path.name: str(path) for path in self.folder.iterdir()}
        job = {"job": [at["job.toml"]], "--set": []}
        weights = {"--weights": [at["warm"]]}
        bitext = {"--source": [at["train.de"]], "--target": [at["train.en"]]}
        out = {"--output": [str(self.folder / "out")]}
        return {
            "init": {"directory": [str(self.folder / "new")]},
            "train": job,
            "prepare": job,
            "decode": {**job, "--input": [at["dev.de"]], **weights, **out},
            "local": {**job, "--input": [at["dev.de"]], **weights, **out},
            "rerank": {**job, "--set": list(LISTS), "--input": [at["lists"]], **weights, **out},
            "evaluate": {"--refs": [at["dev.en"]], "--hyps": [at["dev.en"]]},
            "report": {"run_folders": [str(self.run)], "--output": [str(self.folder / "report")]},
            "weights": {"model": [at["warm"]]},
            "extract": {
                **bitext,
                "--alignment": [at["links"]],
                "--input": [at["dev.de"]],
                "--output": [str(self.folder / "grammars")],
            },
            "align": {**bitext, **out},
            "lm": {"--order": ["2"], "--input": [at["train.en"]], **out},
            "import-dtrain": {"configuration": [at["dtrain.ini"]], **out},
        }[command]
