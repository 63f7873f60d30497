"""The command `mpitune extract`."""

from __future__ import annotations

import argparse

from mpitune.api.extraction import Options, write_grammars
from mpitune.cli.output import print_message, print_warning
from mpitune.corpus.bitext import AlignedFiles
from mpitune.corpus.wording import counted
from mpitune.errors import UsageError, raised_on_all_ranks
from mpitune.exchange.comm import Comm


def run_extract(options: argparse.Namespace, comm: Comm) -> None:
    """Write a grammar for each sentence, from a word-aligned bitext; alone, or under mpirun or srun."""
    if (options.bitext is None) == (options.source is None) or (options.source is None) != (options.target is None):
        raise raised_on_all_ranks(UsageError("expected --source F and --target E, or --bitext FE"))
    files = AlignedFiles(options.bitext or options.source, options.target, tuple(options.alignment))
    given = Options(files, options.input, options.output, options.leave_one_out, options.max_translations)
    done = write_grammars(given, comm)

    def tell() -> None:
        if done.left_out:
            print_warning(f"{counted(done.left_out, 'rule')} left out: words such as [1] are gaps in a grammar file")
        print_message(f"{done.input}: {counted(done.sentences, 'sentence')}, {counted(done.rules, 'rule')}")

    comm.on_root(tell)
