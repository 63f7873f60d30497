"""Options of all commands, with help texts, examples and exit codes.

The module imports nothing that does work, so that help, the version and shell completion take no time: the module of a
command is imported when the command runs.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import get_args

from mpitune import __version__
from mpitune.cli.arguments import Named, reads, size, whole_number, writes, writes_folder
from mpitune.cli.help import Commands, Parser, PrintCompletion
from mpitune.cli.notation import add_notation
from mpitune.decoder.choices import MAX_SIZE, KbestFormat
from mpitune.grammar.sparse import TEMPLATES
from mpitune.metrics.choices import SignificanceTest, Tokenizer

EACH_TEMPLATE = "each"
"""Value of --template that shows all templates, one after the other."""


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command line. ``run`` of the parsed options is the command's function, as module:name."""
    parser = Parser(
        prog="mpitune",
        description="Tune the weights of a hierarchical translation system on its whole training set.",
        epilog="`mpitune COMMAND --help` shows the options of a command, an example and the exit codes.",
    )
    parser.add_argument("--version", action="version", version=f"mpitune {__version__}")
    parser.add_argument(
        "--print-completion",
        action=PrintCompletion,
        choices=["bash", "zsh", "tcsh"],
        metavar="SHELL",
        help="print the completion script of a shell: bash, zsh or tcsh",
    )
    parser.set_defaults(folder=None, job=None)
    commands = Commands(parser.add_subparsers(required=True, metavar="COMMAND"))
    for add in (
        _add_init,
        _add_train,
        _add_prepare,
        _add_decode,
        _add_local,
        _add_rerank,
        _add_evaluate,
        _add_report,
        _add_weights,
        _add_extract,
        _add_align,
        _add_lm,
        _add_import_dtrain,
    ):
        add(commands)
    return parser


def _add_init(commands: Commands) -> None:
    sub = commands.add(
        "init",
        "init:run_init",
        "Write a job file in which every key is explained, to start from.",
        "mpitune init first --template demo",
    )
    sub.add_argument(
        "directory", type=writes_folder, nargs="?", default=Path(), metavar="DIR", help="folder to write it to"
    )
    sub.add_argument(
        "--template",
        choices=["demo", "bitext", "dev", "train", "cdec", "rerank"],
        default="dev",
        help="demo: with data; bitext: a bitext is all there is; dev: tune on a development set; train: on the whole "
        "training set; cdec: for cdec; rerank: n-best lists of another system",
    )
    sub.add_argument("--slurm", action="store_true", help="also write batch scripts for SLURM")


def _add_train(commands: Commands) -> None:
    sub = commands.add_of_job(
        "train",
        "train:run_train",
        "Learn the weights, continuing from checkpoints; alone, or under mpirun or srun.",
        "mpirun -n 4 mpitune train job.toml --set learner.epochs=5",
    )
    sub.add_argument(
        "--resume",
        choices=["auto", "never", "must"],
        default="auto",
        help="auto: continue from a checkpoint if there is one; never: start anew; must: fail without one",
    )
    sub.add_argument(
        "--seeds",
        metavar="A..B",
        help="one run for each of these values of run.seed, in the folders seed-A ... seed-B of run.dir",
    )
    sub.add_argument(
        "--dry-run",
        action="store_true",
        help="print the effective configuration only; under mpirun or srun, also the hosts and how they differ",
    )
    sub.add_argument("--quiet", action="store_true", help="print warnings and errors only")


def _add_prepare(commands: Commands) -> None:
    commands.add_of_job(
        "prepare",
        "train:run_prepare",
        "Compile the inputs of the job into its store, which train would otherwise do; alone, or under mpirun or srun.",
        "mpirun -n 4 mpitune prepare job.toml",
    )


def _add_decode(commands: Commands) -> None:
    sub = commands.add_of_job(
        "decode",
        "decode:run_decode",
        "Translate sentences with fixed weights; alone, or under mpirun or srun.",
        "mpitune decode job.toml --input test.de --output test.out",
    )
    sub.add_argument("--input", type=reads, required=True, help="source sentences, a line each; -: standard input")
    sub.add_argument(
        "--weights", type=reads, help="a weights file, checkpoint or run folder; default: the job's run folder"
    )
    sub.add_argument(
        "--nbest",
        type=whole_number(1, MAX_SIZE),
        default=1,
        metavar="K",
        help="translations per sentence; more than 1 need --format cdec, moses or json",
    )
    sub.add_argument(
        "--output", type=writes, help="a file (gzipped for a name in .gz); standard output if not given, or -"
    )
    sub.add_argument(
        "--format",
        choices=get_args(KbestFormat),
        default="text",
        help="text: the best translation, a line each; cdec, moses, json: k-best lists",
    )
    sub.add_argument(
        "--explain",
        type=whole_number(1, MAX_SIZE),
        metavar="N",
        help="write the derivations of the N best translations instead",
    )
    sub.add_argument(
        "--forest",
        type=writes,
        action=Named,
        metavar="FILE",
        help="also write the hypergraphs, a line of JSON each (gzipped for .gz)",
    )


def _add_local(commands: Commands) -> None:
    sub = commands.add_of_job(
        "local",
        "local:run_local",
        "Translate each sentence with weights learned from similar training data; alone, or under mpirun or srun.",
        "mpirun -n 4 mpitune local job.toml --input test.de --weights runs/job --output test.out",
    )
    sub.add_argument("--input", type=reads, required=True, help="source sentences, a line each; -: standard input")
    sub.add_argument(
        "--weights", type=reads, required=True, help="the global weights: a weights file, checkpoint or run folder"
    )
    sub.add_argument(
        "--output", type=writes, help="a file (gzipped for a name in .gz); standard output if not given, or -"
    )
    sub.add_argument(
        "--explain",
        type=whole_number(0),
        metavar="N",
        help="write the data and weights learned for sentence N (from 0) instead",
    )


def _add_rerank(commands: Commands) -> None:
    sub = commands.add_of_job(
        "rerank",
        "rerank:run_rerank",
        "Sort n-best lists by the learned weights: write the best hypothesis of each list, or the lists.",
        "mpitune rerank job.toml --input test.nbest.gz --output test.out",
    )
    sub.add_argument(
        "--input",
        type=reads,
        nargs="+",
        default=[],
        metavar="LISTS",
        help="n-best lists, numbers ascending; those of several files are merged; -, or none: standard input",
    )
    sub.add_argument(
        "--scores",
        type=reads,
        nargs="+",
        default=[],
        metavar="FILE",
        help="for each of the job's [[features.files]], in their order, the scores of --input",
    )
    each = sub.add_mutually_exclusive_group()
    each.add_argument(
        "--source",
        type=reads,
        metavar="F",
        help="the source sentences: each gets a line; for templates too",
    )
    each.add_argument("--sentences", type=whole_number(1, MAX_SIZE), metavar="N", help="their number: each gets a line")
    add_notation(sub)
    sub.add_argument(
        "--weights", type=reads, help="a weights file, checkpoint or run folder; default: the job's run folder"
    )
    sub.add_argument(
        "--output", type=writes, help="a file (gzipped for a name in .gz); standard output if not given, or -"
    )
    sub.add_argument(
        "--nbest",
        type=whole_number(1, MAX_SIZE),
        metavar="K",
        help="write the K best entries of each list instead, in its format",
    )
    sub.add_argument(
        "--mbr",
        metavar="METRIC",
        help="sort by expected gain in a metric, such as bleu or chrf (minimum Bayes risk), not by model score",
    )


def _add_evaluate(commands: Commands) -> None:
    sub = commands.add(
        "evaluate",
        "evaluate:run_evaluate",
        "Score translations by BLEU and other metrics, and test systems against the first one; or n-best lists.",
        "mpitune evaluate --refs test.en --hyps before.out after.out --test ar",
    )
    sub.add_argument("--refs", type=reads, nargs="+", default=[], metavar="R", help="references")
    systems = sub.add_mutually_exclusive_group(required=True)
    systems.add_argument("--hyps", type=reads, nargs="+", metavar="A", help="translations, one system each")
    systems.add_argument(
        "--system",
        type=reads,
        nargs="+",
        action="append",
        metavar="NAME",
        help="a system's name and its translations, one file for each run; repeated for each system",
    )
    systems.add_argument(
        "--lists",
        type=reads,
        nargs="+",
        metavar="LISTS",
        help="n-best lists instead: the metrics of the first entries, of the best ones (oracle) and of a random choice",
    )
    add_notation(sub)
    sub.add_argument(
        "--metrics",
        nargs="+",
        metavar="M",
        help="some of bleu, ter, chrf, cer, chrf++, exact, length_ratio and wer; "
        "default: bleu ter chrf, of texts length_ratio too",
    )
    sub.add_argument(
        "--test", choices=get_args(SignificanceTest), help="ar: approximate randomisation; bootstrap: paired"
    )
    sub.add_argument(
        "--tokenize", choices=get_args(Tokenizer), default="none", help="for BLEU; none: texts are tokenised"
    )
    sub.add_argument("--lowercase", action="store_true", help="ignore case")
    layout = sub.add_mutually_exclusive_group()
    layout.add_argument("--json", action="store_true", help="print JSON")
    layout.add_argument("--markdown", action="store_true", help="print a table in Markdown")


def _add_report(commands: Commands) -> None:
    sub = commands.add(
        "report",
        "report:run_report",
        "Report on a run, or compare runs: one self-contained HTML file, and plots.",
        "mpitune report runs/job runs/other",
    )
    sub.add_argument(
        "run_folders", type=reads, nargs="+", metavar="RUN", help="run folders; the report is about the first"
    )
    sub.add_argument(
        "--output", type=writes_folder, metavar="DIR", help="folder for the report; default: the first run folder"
    )
    sub.add_argument("--watch", action="store_true", help="show the progress of running jobs in the terminal instead")


def _add_weights(commands: Commands) -> None:
    sub = commands.add(
        "weights",
        "weights:run_weights",
        "Show the weights of a model: the largest, those of a template, some by name, or differences to another model.",
        "mpitune weights runs/job --template id --top 20",
    )
    sub.add_argument("model", type=reads, metavar="RUN_OR_FILE", help="a run folder, checkpoint or weights file")
    sub.add_argument("--top", type=whole_number(1), metavar="N", help="only the N of largest absolute value")
    templates = ", ".join(["dense", *TEMPLATES, EACH_TEMPLATE])
    sub.add_argument(
        "--template", metavar="T", help=f"only features of one template: {templates}, or one of the run's plugins"
    )
    sub.add_argument("--find", metavar="TEXT", help="only features whose names contain TEXT")
    sub.add_argument(
        "--near", metavar="TEXT", help="the rules most similar to TEXT, by common sequences of three letters"
    )
    sub.add_argument("--diff", type=reads, metavar="OTHER", help="differences to another model, with both weights")
    sub.add_argument(
        "--export",
        type=writes,
        action=Named,
        metavar="W.txt",
        help="write the selected weights to a file instead; .json: JSON, .ini: the section [weight] of a moses.ini",
    )


def _add_extract(commands: Commands) -> None:
    sub = commands.add(
        "extract",
        "extract:run_extract",
        "Write a grammar for each sentence, from a word-aligned bitext; alone, or under mpirun or srun.",
        "mpitune extract --source train.de --target train.en --alignment train.align --input test.de --output grammars",
    )
    sub.add_argument("--source", type=reads, metavar="F", help="the bitext's source sentences, tokenised, a line each")
    sub.add_argument("--target", type=reads, metavar="E", help="the bitext's target sentences, likewise")
    sub.add_argument("--bitext", type=reads, metavar="FE", help="both in one file instead: source ||| target")
    sub.add_argument(
        "--alignment",
        type=reads,
        nargs="+",
        required=True,
        metavar="A",
        help="alignment, a line of links for each pair: 0-0 1-2; of several, counts of rules are added up",
    )
    sub.add_argument(
        "--input",
        type=reads,
        required=True,
        metavar="IN",
        help="sentences to extract grammars for, a line each; -: standard input, from a file",
    )
    sub.add_argument(
        "--output", type=writes_folder, required=True, metavar="DIR", help="folder for grammar.N.gz and input.sgm"
    )
    sub.add_argument(
        "--leave-one-out",
        action="store_true",
        help="exclude each sentence's own pair; the input must be the bitext's source",
    )
    sub.add_argument(
        "--max-translations",
        type=whole_number(0, MAX_SIZE),
        default=0,
        metavar="N",
        help="keep the N most frequent rules of each source side; 0, the default: all",
    )


def _add_align(commands: Commands) -> None:
    sub = commands.add(
        "align",
        "align:run_align",
        "Align the words of a bitext by eflomal in both directions, symmetrised by grow-diag-final-and.",
        "mpitune align --source train.de --target train.en --output train.align.gz",
        more="eflomal is a random sampler without a seed option: links differ slightly between runs.",
    )
    sub.add_argument("--source", type=reads, required=True, metavar="F", help="tokenised sentences, a line each")
    sub.add_argument("--target", type=reads, required=True, metavar="E", help="their translations, likewise")
    sub.add_argument(
        "--output", type=writes, action=Named, required=True, metavar="A", help="alignment (gzipped for a name in .gz)"
    )


def _add_lm(commands: Commands) -> None:
    sub = commands.add(
        "lm",
        "lm:run_lm",
        "Estimate a language model: modified Kneser-Ney, written as ARPA.",
        "mpitune lm --order 3 --input train.en --output lm.arpa.gz",
    )
    sub.add_argument(
        "--order", type=whole_number(1, 10), required=True, metavar="N", help="order of the model, 1 to 10"
    )
    sub.add_argument(
        "--input", type=reads, required=True, metavar="E", help="tokenised sentences, a line each; -: stdin"
    )
    sub.add_argument(
        "--output", type=writes, action=Named, required=True, metavar="LM", help="ARPA file (gzipped for a name in .gz)"
    )
    sub.add_argument(
        "--vocabulary", type=reads, metavar="V", help="words; the others count as <unk>; default: all words"
    )
    sub.add_argument(
        "--memory",
        type=size,
        metavar="SIZE",
        help="memory to use, about, such as 2G; what does not fit lies on the disk of LM meanwhile; "
        "default: half of the machine's",
    )


def _add_import_dtrain(commands: Commands) -> None:
    sub = commands.add(
        "import-dtrain",
        "import_dtrain:run_import_dtrain",
        "Convert a configuration of dtrain to a job file, with a comment on each option.",
        "mpitune import-dtrain dtrain.ini --output job.toml",
    )
    sub.add_argument("configuration", type=reads, metavar="DTRAIN.ini", help="the configuration file, of 2012 or 2016")
    sub.add_argument("--output", type=writes, metavar="JOB.toml", help="the job file; standard output if not given")
