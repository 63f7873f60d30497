"""Options that tell how n-best lists are written, and what they give."""

from __future__ import annotations

import argparse

from mpitune.cli.arguments import reads, whole_number
from mpitune.corpus.subwords import KINDS
from mpitune.decoder.choices import MAX_SIZE
from mpitune.decoder.lists.notation import AS_FOUND, FORMATS, Notation


def add_notation(sub: argparse.ArgumentParser) -> None:
    """Add the options to a command that reads lists."""
    sub.add_argument(
        "--format",
        choices=FORMATS,
        metavar="FORMAT",
        help="format of the lists, as data.format; default: as the first lines tell",
    )
    plain = sub.add_mutually_exclusive_group()
    plain.add_argument(
        "--list-size",
        type=whole_number(1, MAX_SIZE),
        metavar="N",
        help="lines of each list, as data.nbest",
    )
    plain.add_argument("--counts", type=reads, metavar="FILE", help="the lines of each list, as data.counts")
    sub.add_argument("--join", choices=KINDS, help="take the marks of parts of words, or of phrases, out of hypotheses")


def given_notation(options: argparse.Namespace, of_job: Notation = AS_FOUND) -> Notation:
    """The notation of the lists that a command reads: what its options do not say is as in the job."""
    given = {"format": options.format, "nbest": options.list_size, "join": options.join}
    return of_job._replace(counts=options.counts, **{key: value for key, value in given.items() if value is not None})
