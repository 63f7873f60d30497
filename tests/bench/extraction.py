"""Cost of grammar extraction: CPU time of a sentence, compared with cdec's extractor, and of compiling a bitext.

    MPITUNE_DATA=... PATH=<cdec's extractor>:$PATH python tests/bench/extraction.py [--small]

The bitext is Multi30k's; the sentences are the first of its validation set, extracted for together. The reference
(``sacompile``, ``extract``) writes gzipped text with one thread; its start-up time, measured with one sentence, is
subtracted. Growth is shown on Europarl; still larger bitexts, which are compiled only, are synthetic.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median

from tools.measure import CpuTime, in_turns, print_table, run
from tools.synthetic import SENTENCE, source, target, text

from mpitune.array_files.arrays import open_arrays, write_arrays
from mpitune.corpus.bitext import AlignedFiles
from mpitune.corpus.vocabulary import Names
from mpitune.extraction.rule_arrays import merged
from mpitune.extraction.rule_lines import rule_lines
from mpitune.grammar.extracted import ExtractedGrammars
from mpitune.store.build import build_bitext
from mpitune.store.compile_data import ExtractedParts
from mpitune.store.extract_grammars import GrammarExtractor, SentenceToCover, warm_up

PASSES = 3
SIZES = (1_000, 5_000, 20_000)
"""Numbers of sentences for which rules are extracted from all of Europarl."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost of grammar extraction.")
    parser.add_argument("--small", action="store_true", help="test the script on few sentences and small bitexts")
    parser.add_argument("--compile", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--extract", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.compile:
        print(_compile(options.compile) if options.extract is None else _extract(options.compile, options.extract))
        return
    with tempfile.TemporaryDirectory() as name:
        print_table(("a sentence", "CPU ms", "against the reference"), speed(Path(name), 5 if options.small else 600))
        print_table(
            ("extraction into the store, leave-one-out", "CPU ms a sentence", "kB a sentence", "peak memory"),
            growing(Path(name), options.small),
        )
        print_table(("compiling a bitext", "CPU", "file", "peak memory"), compiling(Path(name), options.small))


def speed(folder: Path, count: int) -> Iterator[Sequence[str]]:
    """CPU time of a sentence: mpitune's into a store and as text, the reference's."""
    data = Path(os.environ.get("MPITUNE_DATA", "")) / "multi30k"
    if not (data / "train.de.gz").exists():
        yield ("the speed is not measured: MPITUNE_DATA has no multi30k",)
        return
    files = _unpacked(data, folder)
    wanted = (folder / "val.de").read_text(encoding="utf-8").splitlines()[:count]
    file = build_bitext(files, folder)

    sentences: list[SentenceToCover] = [(line.split(), None) for line in wanted]
    words = Names.stored(open_arrays(file), "words")

    def to_store() -> ExtractedGrammars:
        parts = [extraction.part(item) for item in extraction.items]
        write_arrays(folder / "grammars.npz", merged(parts, len(sentences), folder), {})
        return ExtractedGrammars.stored(open_arrays(folder / "grammars.npz"), None)

    def to_text() -> None:
        grammars = to_store()
        for number in range(len(grammars)):
            gzip.compress(rule_lines(grammars.open(number), words), 6)

    def ours(extract: Callable[[], object]) -> float:
        with CpuTime() as spent:
            extract()
        return 1000 * spent.seconds / len(sentences)

    extraction = GrammarExtractor(file, sentences)
    measures = {"into the store": partial(ours, to_store), "as gzipped text": partial(ours, to_text)}
    # Kernels are compiled.
    to_text()
    if shutil.which("extract") and shutil.which("sacompile"):
        measures["the reference, as gzipped text"] = _reference(files, folder, wanted)
    taken = {name: median(values) for name, values in in_turns(measures, PASSES).items()}
    reference = taken.get("the reference, as gzipped text")
    for name, value in taken.items():
        yield (name, f"{value:.1f}", f"1/{reference / value:.1f}" if reference else "-")
    if reference is None:
        yield ("the reference is not measured: sacompile and extract are not on the PATH",)


def _reference(files: AlignedFiles, folder: Path, wanted: Sequence[str]) -> Callable[[], float]:
    assert files.target is not None
    index = folder / "index"
    command = [
        "sacompile",
        "-f",
        files.source,
        "-e",
        files.target,
        "-a",
        *files.alignments,
        "-o",
        index,
        "-c",
        index / "ini",
    ]
    index.mkdir()
    run(command, folder)

    def seconds(sentences: Sequence[str]) -> float:
        output = Path(tempfile.mkdtemp(dir=folder))
        command = ["extract", "-c", index / "ini", "-g", output, "-z", "-t", "1"]
        return run(command, folder, input="".join(f"{line}\n" for line in sentences)).cpu

    return lambda: 1000 * (seconds(wanted) - seconds(wanted[:1])) / (len(wanted) - 1)


def growing(folder: Path, small: bool) -> Iterator[Sequence[str]]:
    """Growth with the number of sentences and of pairs: the first sentences of Europarl, of 28 words."""
    data = Path(os.environ.get("MPITUNE_DATA", "")) / "europarl"
    if not (data / "train.fr.gz").exists():
        yield ("the growth is not measured: MPITUNE_DATA has no europarl",)
        return
    names = {"train.de": "train.fr.gz", "train.en": "train.en.gz", "align": "train.fr-en.align.gz"}
    sizes = [(50_000, 5_000), (100_000, 5_000), *((200_000, sentences) for sentences in SIZES)]
    for pairs, sentences in [(200, 20)] if small else sizes:
        made = folder / f"europarl-{pairs}"
        made.mkdir(exist_ok=True)
        for name, packed in names.items():
            with gzip.open(data / packed, "rb") as packed_file:
                (made / name).write_bytes(b"".join(islice(packed_file, pairs)))
        done = run([sys.executable, __file__, "--compile", made, "--extract", str(sentences)], made)
        cpu, size, memory = done.output.split()
        name = f"Europarl, {pairs:,} pairs, {sentences:,} sentences"
        yield name, cpu, f"{int(size) / sentences / 1e3:.0f}", f"{int(memory) / 1e9:.2f} GB"


def _extract(folder: Path, count: int) -> str:
    """Extract for ``count`` sentences; returns CPU ms a sentence, bytes of the grammars, peak memory in bytes."""
    file = build_bitext(_files(folder), folder / "compiled")
    with open(folder / "train.de", encoding="utf-8") as text:
        sentences: list[SentenceToCover] = [(line.split(), i) for i, line in enumerate(islice(text, count))]
    warm_up(file)
    with CpuTime() as spent:
        extraction, parts = GrammarExtractor(file, sentences), ExtractedParts(folder)
        for item in extraction.items:
            parts.write(item, extraction.part(item), {})
        write_arrays(folder / "grammars.npz", merged(parts, count, folder), {})
    parts.remove()
    size = (folder / "grammars.npz").stat().st_size
    return f"{1000 * spent.seconds / count:.1f} {size} {_peak()}"


def compiling(folder: Path, small: bool) -> Iterator[Sequence[str]]:
    """CPU time and memory of compiling: Multi30k, and synthetic bitexts with 20 words per sentence."""
    if (folder / "train.de").exists():
        yield _compiled("Multi30k, 29,000 pairs", folder)
    for pairs in (1_000,) if small else (29_000, 1_000_000):
        made = folder / str(pairs)
        made.mkdir()
        walk = text(SENTENCE * pairs)
        links = []
        with open(made / "train.de", "w") as german, open(made / "train.en", "w") as english:
            for begin in range(0, len(walk), SENTENCE):
                words = source(walk[begin : begin + SENTENCE])
                print(" ".join(words), file=german)
                print(target(walk[begin : begin + SENTENCE]), file=english)
        # `source` swaps neighbours.
        turned = list(range(SENTENCE))
        for i in range(0, SENTENCE - 1, 3):
            turned[i], turned[i + 1] = turned[i + 1], turned[i]
        links = " ".join(f"{i}-{j}" for i, j in enumerate(turned))
        (made / "align").write_text(f"{links}\n" * pairs)
        yield _compiled(f"synthetic, {pairs:,} pairs", made)


def _compiled(name: str, folder: Path) -> Sequence[str]:
    done = run([sys.executable, __file__, "--compile", folder], folder)
    size, memory = map(int, done.output.split())
    return name, f"{done.cpu:.1f} s", f"{size / 1e6:.0f} MB", f"{memory / 1e6:.0f} MB"


def _compile(folder: Path) -> str:
    """Compile the bitext in ``folder``; returns the size of the file and the peak memory of this process."""
    size = build_bitext(_files(folder), folder / "compiled").stat().st_size
    return f"{size} {_peak()}"


def _peak() -> int:
    """The peak memory of this process in bytes. Not getrusage, which begins with what the parent process had."""
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert peak is not None
    return 1024 * int(peak[1])


def _files(folder: Path) -> AlignedFiles:
    return AlignedFiles(folder / "train.de", folder / "train.en", (folder / "align",))


def _unpacked(data: Path, folder: Path) -> AlignedFiles:
    names = {
        "train.de": "train.de.gz",
        "train.en": "train.en.gz",
        "align": "train.de-en.align.gz",
        "val.de": "val.de.gz",
    }
    for name, packed in names.items():
        (folder / name).write_bytes(gzip.decompress((data / packed).read_bytes()))
    return _files(folder)


if __name__ == "__main__":
    main()
