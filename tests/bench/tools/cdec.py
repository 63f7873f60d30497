"""Run the reference, cdec and its trainer dtrain: write their configuration files, parse their output."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from support.naive_lm import NaiveLm

from mpitune.corpus.lines import lines
from mpitune.corpus.weights import read_weights, write_weights
from tools.measure import run
from tools.ours import GOLD, LEARNING_RATE, SHARE, K, Task

TEMPLATES = {"id": "RuleIdentityFeatures", "source-bigram": "RuleSourceBigramFeatures", "shape": "RuleShape"}
"""Template names of mpitune to feature functions of cdec."""


class Entry(NamedTuple):
    """One translation."""

    text: str
    score: float


def read_kbest(printed: Iterable[str]) -> list[list[Entry]]:
    """Parse the k-best lists that cdec prints, one for each sentence."""
    lists: dict[str, list[Entry]] = {}
    for line in printed:
        number, text, _, score = line.rstrip("\n").split(" ||| ")
        lists.setdefault(number, []).append(Entry(text, float(score)))
    return list(lists.values())


class Reference:
    """cdec and dtrain on a task, in the folder where it is written (`Task.write`).

    To exclude start-up (loading of grammar and LM), the time of a run over the first sentence alone is subtracted; the
    difference is the time of the other sentences.
    """

    def __init__(self, task: Task, folder: Path, pop_limit: int = 200) -> None:
        self.epoch_summary = ""
        """Updates and list size of the last epoch."""
        self._task = task
        self._folder = folder
        texts = [[line for _, line in lines(folder / name)] for name in ("source", "references")]
        self._sentences = len(texts[0])
        pairs = [f"{source} ||| {reference}" for source, reference in zip(*texts, strict=True)]
        for name, content in (("input", texts[0]), ("pairs", pairs)):
            self._write(f"{name}.all", content)
            self._write(f"{name}.first", content[:1])
        self._arpa, self._lm = _language_model(task.lm, folder)
        self._search = [
            "formalism=scfg",
            "add_pass_through_rules=true",
            "scfg_max_span_limit=15",
            "intersection_strategy=cube_pruning",
            f"cubepruning_pop_limit={pop_limit}",
            *([f"grammar={task.grammar.resolve()}"] if task.grammar else []),
        ]
        models = ["WordPenalty", f"KLanguageModel {self._lm}", *(TEMPLATES[template] for template in task.templates)]
        self._write("cdec.ini", [*self._search, *(f"feature_function={model}" for model in models)])

    def decoding(self, k: int) -> float:
        """cdec's CPU milliseconds per sentence: 1-best translations, or k-best lists with features."""
        options = ["-k", str(k), "-r"] if k > 1 else []
        return self._per_sentence(lambda which: self._decode("cdec.ini", self._task.weights, which, options)[0])

    def kbest(self) -> list[list[Entry]]:
        """cdec's `K`-best lists."""
        _, printed = self._decode("cdec.ini", self._task.weights, "all", ["-k", str(K), "-r"])
        return read_kbest(printed.splitlines())

    def learning(self) -> float:
        """dtrain's CPU milliseconds per sentence of an epoch, including the reading of per-sentence grammars."""
        settings = {
            "decoder_conf": "cdec.ini",
            "input_weights": self._task.weights.resolve(),
            "output": "weights.learned",
            "iterations": 1,
            "k": K,
            "cut": SHARE,
            "margin": 0,
            "score": GOLD,
            "learning_rate": LEARNING_RATE,
        }
        for which in ("all", "first"):
            chosen = {"bitext": f"pairs.{which}", **settings}
            self._write(f"dtrain.{which}", [f"{key}={value}" for key, value in chosen.items()])

        def seconds(which: str) -> float:
            done = run(["dtrain", "-c", f"dtrain.{which}"], self._folder)
            if which == "all":
                updates, size = (_number(what, done.errors) for what in ("avg # updates", "avg list sz"))
                self.epoch_summary = f"{updates:.0f} updates a sentence, from lists of {size:.0f}"
            return done.cpu

        return self._per_sentence(seconds)

    def incremental(self) -> tuple[float, float]:
        """Run cdec's incremental search; returns CPU milliseconds per sentence and the mean model score.

        The search omits the LM score of the sentence boundaries, which is added here to the scores that it prints.
        """
        self._write("incremental.ini", [*self._search, f"incremental_search={self._lm}"])
        given = read_weights(self._task.weights)
        weights = self._folder / "incremental.weights"
        write_weights(weights, [(name.replace("LanguageModel", "KLanguageModel"), given[name]) for name in given])
        found: list[Entry] = []

        def seconds(which: str) -> float:
            spent, printed = self._decode("incremental.ini", weights, which, [])
            if which == "all":
                split = (line.rpartition("||| ") for line in printed.splitlines())
                found[:] = [Entry(text, float(score)) for text, _, score in split]
            return spent

        time = self._per_sentence(seconds)
        lm = NaiveLm(self._arpa)
        total = sum(entry.score + given["LanguageModel"] * _ends(lm, entry.text.split()) for entry in found)
        return time, total / len(found)

    def _decode(self, ini: str, weights: Path, which: str, options: Sequence[str]) -> tuple[float, str]:
        """Run cdec; returns CPU seconds and standard output."""
        done = run(["cdec", "-c", ini, "-w", weights.resolve(), "-i", f"input.{which}", *options], self._folder)
        return done.cpu, done.output

    def _per_sentence(self, seconds: Callable[[str], float]) -> float:
        return 1000 * (seconds("all") - seconds("first")) / (self._sentences - 1)

    def _write(self, name: str, content: Sequence[str]) -> None:
        (self._folder / name).write_text("".join(f"{line}\n" for line in content), encoding="utf-8")


def _language_model(arpa: Path, folder: Path) -> tuple[Path, Path]:
    """Unpack the model to ``folder``; returns that file and the one for cdec, a binary if build_binary is available."""
    plain, binary = folder / "lm.arpa", folder / "lm.klm"
    with open(plain, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for _, line in lines(arpa))
    if shutil.which("build_binary") is None:
        return plain, plain.resolve()
    run(["build_binary", plain.name, binary.name], folder)
    return plain, binary.resolve()


def _ends(lm: NaiveLm, words: Sequence[str]) -> float:
    """Contribution of <s> and </s> to the log10 probability of ``words``."""
    return lm.score(["<s>", *words, "</s>"], 1) - lm.score(words)


def _number(what: str, printed: str) -> float:
    found = re.search(rf"{re.escape(what)}: *([0-9.]+)", printed)
    if found is None:
        raise RuntimeError(f"dtrain's output lacks {what!r}: {printed[-500:]}")
    return float(found[1])
