"""Compare cdec's MIRA and PRO with mpitune's on Multi30k's validation set: BLEU and time.

    PATH=...:$PATH MPITUNE_DATA=... python jobs/papers/cdec_tuners.py [--passes N] [--small]

Requires cdec's `cdec`, `kbest_cut_mira`, `mr_pro_map` and `mr_pro_reduce` and KenLM's `build_binary` on the PATH. This
script does the work of cdec's mira.py and pro.pl, with their settings; only MIRA's are those of Simianer, Riezler and
Dyer (ACL 2012): k = 250, C = 0.01, initial weights 0. There are as many processes as mpitune has ranks, each with its
part of the sentences; MIRA's weights are averaged after each pass. Grammars, LM, features and search are the same. The
test sets are translated by mpitune, whose translations equal cdec's. Times are those of the passes, wall-clock and
(``busy``) CPU, without grammar extraction. Finished work is not repeated.

cdec's MIRA scores in a pseudo-document and never initialises its length in source words (`corpus_src_length` of
kbest_cut_mira.cc, f7c4899). Built by some compilers, the length begins at 1e31, and the costs dominate the model
scores. This script refuses such a binary; initialise the length to 0 in TrainingObserver's constructor.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from methods import JOB, METHODS, SETS, Method, table
from systems import Place, place, read

import mpitune
from mpitune.array_files.atomic import write_text

PROGRAMS = ("cdec", "kbest_cut_mira", "mr_pro_map", "mr_pro_reduce", "build_binary")
START = Path(__file__).with_name("start.weights")
CONFIG = """formalism=scfg
add_pass_through_rules=true
scfg_max_span_limit=15
intersection_strategy=cube_pruning
cubepruning_pop_limit=200
feature_function=WordPenalty
feature_function=KLanguageModel {lm}
"""
Step = Callable[["Peer", int], list[str]]
"""One pass, numbered from 0: writes its results into the run folder and returns the 1-best translations."""


class Peer:
    """A run of one of cdec's tuners, in a run folder like mpitune's."""

    def __init__(
        self, folder: Path, texts: Path, ranks: int, references: Sequence[str], step: Step, start: Mapping[str, float]
    ):
        """``texts``: the folder written by `prepare`, with a part for each of ``ranks``."""
        self.folder, self.texts = folder, texts
        folder.mkdir(parents=True, exist_ok=True)
        # In the order of ranks: by name, part.10 is before part.2.
        self.parts = [(texts / f"part.{n}").resolve() for n in range(ranks)]
        self.refs = (texts / "references").resolve()
        self._references, self._step = references, step
        mpitune.Weights(start).write(self.weights(0))

    def weights(self, done: int) -> Path:
        """The weights file after ``done`` passes."""
        return (self.folder / f"weights.{done}").resolve()

    def train(self, passes: int) -> None:
        """Train until ``passes`` passes are done."""
        done = mpitune.Run(self.folder).metrics
        while len(done) < passes:
            began, used = time.monotonic(), _cpu_seconds()
            best = self._step(self, len(done))
            seconds, used = time.monotonic() - began, _cpu_seconds() - used
            bleu = mpitune.evaluate({"1-best": best}, self._references).scores[0].bleu
            done.append({"epoch": len(done) + 1, "seconds": seconds, "busy_seconds": used, "best_bleu": bleu})
            print(f"{self.folder.name}: pass {len(done)}: BLEU of the 1-best {bleu:.2f}, {seconds:.1f} s", flush=True)
            mpitune.Weights.read(self.weights(len(done))).write(self.folder / "weights.txt.gz")
            # Written last: passes recorded here are not repeated.
            write_text(self.folder / "metrics.jsonl", "".join(f"{json.dumps(each)}\n" for each in done))

    def side_by_side(self, commands: Sequence[Sequence[str | Path]], inputs: Sequence[Path]) -> list[list[str]]:
        """Run all commands in parallel, each with one of the ``inputs``; returns the lines that each prints."""
        with ExitStack() as stack:
            begun = []
            for n, (command, file) in enumerate(zip(commands, inputs, strict=True)):
                errors = stack.enter_context(open(self.folder / f"errors.{n}", "w", encoding="utf-8"))
                output = stack.enter_context(open(self.folder / f"output.{n}", "w+", encoding="utf-8"))
                lines: IO[str] = stack.enter_context(open(file, encoding="utf-8"))
                # Grammars are named relative to this folder.
                begun.append(
                    (subprocess.Popen(command, cwd=self.texts, stdin=lines, stdout=output, stderr=errors), output)
                )
            for process, _ in begun:
                if process.wait():
                    sys.exit(f"{commands[0][0]} ended with {process.returncode}: {self.folder}/errors.*")
            for _, output in begun:
                output.seek(0)
            return [output.read().splitlines() for _, output in begun]


def _cpu_seconds() -> float:
    """CPU time of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def mira(peer: Peer, done: int) -> list[str]:
    """One pass of MIRA with mira.py's defaults, except k and C; returns the 1-best translations."""
    folders = [peer.folder / f"pass.{done}.{n}" for n in range(len(peer.parts))]
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    asked: list[str | Path] = ["-c", "cdec.ini", "-w", peer.weights(done), "-r", peer.refs, "-m", "IBM_BLEU", "-s", "1"]
    asked += ["-b", "250", "-k", "250", "-o", "2", "-p", str(done), "-D", peer.folder.resolve(), "-h", "1", "-f", "1"]
    asked += ["-C", "0.01", "-u", "-e", "-S", "1"]
    printed = peer.side_by_side([["kbest_cut_mira", *asked, "-O", folder.resolve()] for folder in folders], peer.parts)
    check_length(peer.folder / "errors.0")
    picked = [line.split(" ||| ") for line in _interleaved(printed)]
    best = [one for _, one, _ in picked]
    # The context in which the next pass scores.
    (peer.folder / f"run.raw.{done}.B").write_text("".join(f"{one}\n" for one in best), encoding="utf-8")
    _averaged(folders, [len(part) for part in printed]).write(peer.weights(done + 1))
    return best


def check_length(errors: Path) -> None:
    """Exit if the pseudo-document begins longer than a sentence; ``errors``: MIRA's standard error."""
    found = re.search(r"^ps corpus size: (\S+) (\S+)$", errors.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None or not 0 <= float(found[1]) <= float(found[2]):
        sys.exit(
            f"{errors}: kbest_cut_mira begins with a pseudo-document of undefined length: see the script's docstring"
        )


def pro(peer: Peer, done: int) -> list[str]:
    """One iteration of PRO with pro.pl's defaults; returns the 1-best translations."""
    forests = peer.folder / "forests"
    shutil.rmtree(forests, ignore_errors=True)
    decode: list[str | Path] = ["cdec", "-c", "cdec.ini", "-w", peer.weights(done), "-O", forests.resolve()]
    forests.mkdir()
    best = list(_interleaved(peer.side_by_side([decode] * len(peer.parts), peer.parts)))
    agendas = [peer.folder / f"agenda.{n}" for n in range(len(peer.parts))]
    for n, agenda in enumerate(agendas):
        files = sorted(forests.resolve().iterdir())[n :: len(agendas)]
        agenda.write_text("".join(f"{file} {file.name.partition('.')[0]}\n" for file in files), encoding="utf-8")
    sample: list[str | Path] = ["mr_pro_map", "-m", "ibm_bleu", "-r", peer.refs, "-w", peer.weights(done)]
    sample += ["-K", (peer.folder / "kbest").resolve(), "-S", str(done + 1)]
    drawn = peer.side_by_side([sample] * len(agendas), agendas)
    examples = peer.folder / "examples"
    examples.write_text("".join(f"{line}\n" for part in drawn for line in part), encoding="utf-8")
    reduce: list[str | Path] = ["mr_pro_reduce", "-w", peer.weights(done), "-C", "500", "-y", "5000"]
    learned = peer.side_by_side([reduce], [examples])[0]
    text = "".join(f"{line}\n" for line in learned if not line.startswith("#"))
    peer.weights(done + 1).write_text(text, encoding="utf-8")
    return best


def _interleaved(parts: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of all parts in sentence order: part n of N has the sentences n, n + N, ..."""
    for i in range(sum(map(len, parts))):
        yield parts[i % len(parts)][i // len(parts)]


def _averaged(folders: Sequence[Path], counts: Sequence[int]) -> mpitune.Weights:
    """Average the final weights of all processes, weighted by the number of sentences that each translated."""
    total = mpitune.Weights()
    for folder, count in zip(folders, counts, strict=True):
        (file,) = (file for file in folder.iterdir() if re.fullmatch(r"weights\.mira-pass\d+\.\d+\.gz", file.name))
        total += mpitune.Weights.read(file) * count / sum(counts)
    return total


def prepare(where: Place, folder: Path) -> None:
    """Write cdec.ini, a binary LM, references, and the sentences with a grammar each, split into a part per rank."""
    if not (folder / "input.sgm").exists():
        bitext = (where.data / f"train.{name}.gz" for name in ("de", "en", "de-en.align"))
        mpitune.extract(*bitext, where.source("val"), folder)
    if not (folder / "lm.klm").exists():
        with gzip.open(where.data / "lm.4.arpa.gz") as packed, open(folder / "lm.arpa", "wb") as plain:
            shutil.copyfileobj(packed, plain)
        subprocess.run(["build_binary", folder / "lm.arpa", folder / "lm.part"], check=True)
        (folder / "lm.part").rename(folder / "lm.klm")
    (folder / "cdec.ini").write_text(CONFIG.format(lm="lm.klm"), encoding="utf-8")
    sentences = read(folder / "input.sgm")
    # An earlier call may have had more ranks.
    for old in folder.glob("part.*"):
        old.unlink()
    for n in range(where.ranks):
        part = sentences[n :: where.ranks]
        (folder / f"part.{n}").write_text("".join(f"{line}\n" for line in part), encoding="utf-8")
    references = read(where.reference("val"))
    (folder / "references").write_text("".join(f"{line}\n" for line in references), encoding="utf-8")


TUNERS = {
    Method("cdec-mira", JOB, {}, "cdec's MIRA"): (mira, {"Glue": 0.0}),
    Method("cdec-pro", JOB, {}, "cdec's PRO", "given"): (pro, mpitune.Weights.read(START)),
}
BESIDE = ("dev", "mira-m-c-mpc", "mira-m-c-mpc-cutting-plane-given", "pro")


def main(arguments: Sequence[str] | None = None) -> None:
    """Do the missing runs and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passes", type=int, default=15, help="number of passes of cdec's tuners (default 15)")
    where, options = place(parser, arguments)
    if lacking := [program for program in PROGRAMS if shutil.which(program) is None]:
        print(f"skipped: no {', '.join(lacking)} on the PATH")
        return
    texts, references = where.runs / "multi30k-cdec-val", read(where.reference("val"))
    prepare(where, texts)
    for method, (step, start) in TUNERS.items():
        peer = Peer(where.run(method).folder, texts, where.ranks, references, step, start)
        peer.train(2 if options.small else options.passes)
    ours = [method for method in METHODS if method.name in BESIDE]
    where.train(ours)
    where.translate([*ours, *TUNERS], SETS)
    print(table([*ours, *TUNERS], where), end="")


if __name__ == "__main__":
    main()
