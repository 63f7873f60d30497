"""Keep the results of this version, or compare them with those of another one: are they the same bits?

    python tests/bench/results.py keep FILE
    python tests/bench/results.py compare FILE

Requires MPITUNE_DATA. Runs jobs of each kind on little data: the four algorithms, each method, binned scores, grammars
and language models that leave the tuned sentences out, n-best lists, weights for each sentence, a run that is resumed.
``FILE`` gets a digest of each result: weights, translations, metrics without times. ``compare`` prints the results that
differ, and ends with 1 if there are any. To try another version, run its commands with this script: it imports nothing.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

MPITUNE = (sys.executable, "-m", "mpitune")
TIMES = ("seconds", "busy_seconds", "wait_seconds", "timeline", "peak_memory_bytes", "shard_seconds")
"""Keys of `metrics.jsonl` that are not the same in two runs."""

SPARSE = {"features.templates": ["id", "source-bigram", "shape"]}
ITERSEL = {"learner.algorithm": "itersel", "select.k": 500}
METHODS: Mapping[str, Mapping[str, object]] = {
    **{name: {"learner.algorithm": name, **SPARSE, "select.k": 500} for name in ("sgd", "mix", "itermix", "itersel")},
    **{
        f"perceptron {rate}": {"learner.rate": rate, **SPARSE, **ITERSEL}
        for rate in ("constant", "adagrad", "adadelta")
    },
    "sequential": {"learner.order": "sequential", "learner.rate": "constant", **SPARSE, **ITERSEL},
    **{f"pairs {name}": {"learner.pairs": name, **SPARSE, **ITERSEL} for name in ("pro", "all", "hope-fear")},
    **{
        f"mira {name}": {"learner.method": "mira", "learner.mira.variant": name, **SPARSE, **ITERSEL}
        for name in ("1-best", "k-constraint", "cutting-plane")
    },
    **{f"batch {name}": {"learner.method": name} for name in ("pro", "mert", "minrisk", "rampion")},
    "ter": {"learner.metric": "ter", **ITERSEL},
    "bins": {
        "features.discretize.features": ["PhraseModel_0", "PhraseModel_1"],
        "features.discretize.regularizer": "linear",
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Are the results those of another version?")
    parser.add_argument("action", choices=("keep", "compare"))
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    if not os.environ.get("MPITUNE_DATA"):
        parser.error("MPITUNE_DATA is not set")
    with tempfile.TemporaryDirectory() as folder:
        results = {}
        for name, digest in all_results(Path(folder)):
            results[name] = digest
            print(digest[:12], name, flush=True)
    if options.action == "keep":
        options.file.write_text(json.dumps(results, indent=1) + "\n")
        return
    kept = json.loads(options.file.read_text())
    different = [name for name in kept.keys() | results.keys() if kept.get(name) != results.get(name)]
    print(f"{len(kept)} results kept, {len(different)} of them different", *sorted(different), sep="\n  ")
    sys.exit(bool(different))


def all_results(folder: Path) -> Iterator[tuple[str, str]]:
    """Run everything in ``folder``; yields names of results, and their digests."""
    data = Path(os.environ["MPITUNE_DATA"])
    head(data / "nc/nc.de.gz", 0, 40, folder / "train.de")
    head(data / "nc/nc.en.gz", 0, 40, folder / "train.en")
    head(data / "nc/nc.de.gz", 100, 120, folder / "devtest.de")
    head(data / "nc/nc.en.gz", 100, 120, folder / "devtest.en")
    head(data / "multi30k/train.de.gz", 0, 2000, folder / "bitext.de")
    head(data / "multi30k/train.en.gz", 0, 2000, folder / "bitext.en")
    head(data / "multi30k/train.de-en.align.gz", 0, 2000, folder / "bitext.align")
    (folder / "nc.toml").write_text(f"""
run.store = "store"
data.source = "train.de"
data.references = ["train.en"]
data.devtest.source = "devtest.de"
data.devtest.references = ["devtest.en"]
grammar.file = "{data}/nc/grammar.gz"
lm = [{{file = "{data}/nc/lm.3.arpa.gz"}}]
learner.epochs = 2
parallel.shards = 3
""")
    (folder / "bitext.toml").write_text("""
data.source = "bitext.de"
data.references = ["bitext.en"]
data.limit = 60
grammar.source = "bitext.de"
grammar.target = "bitext.en"
grammar.alignment = "bitext.align"
lm = [{text = ["bitext.en"], order = 3}]
features.templates = ["id", "word-pair"]
learner.algorithm = "itersel"
learner.epochs = 2
""")
    for name, keys in METHODS.items():
        yield from train(folder, name, "nc", keys)
    yield from train(folder, "dev", "nc", {})
    yield from train(folder, "left out", "bitext", {})
    yield "resumed", resumed(folder, {**SPARSE, **ITERSEL})
    yield from lists(folder)
    run("local", "bitext.toml", "--set", "run.dir=runs/left out", "--set", "local.k=5", "--input", "devtest.de",
        "--weights", "runs/left out", "--output", "local", folder=folder)  # fmt: skip
    yield "local", digest((folder / "local").read_bytes())


def lists(folder: Path) -> Iterator[tuple[str, str]]:
    """N-best lists written, learned from, and sorted."""
    for text, output in (("train", "train.moses.gz"), ("devtest", "devtest.json.gz")):
        run("decode", "nc.toml", "--set", "run.dir=runs/dev", "--input", f"{text}.de", "--weights", "runs/dev",
            "--nbest", "30", "--format", output.split(".")[1], "--output", output, folder=folder)  # fmt: skip
        yield output, digest(gzip.decompress((folder / output).read_bytes()))
    (folder / "lists.toml").write_text("""
data.lists = ["train.moses.gz"]
data.references = ["train.en"]
decoder.backend = "lists"
""")
    for method in ("perceptron", "mira", "pro", "mert"):
        yield from train(folder, f"lists {method}", "lists", {"learner.method": method})
    for option in ((), ("--mbr", "bleu")):
        run("rerank", "lists.toml", "--set", "run.dir=runs/lists mira", "--input", "devtest.json.gz", *option,
            "--output", "reranked", folder=folder)  # fmt: skip
        yield " ".join(("rerank", *option)), digest((folder / "reranked").read_bytes())


def train(folder: Path, name: str, job: str, keys: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Train ``job`` in a run folder called ``name``."""
    run("train", f"{job}.toml", *settings({"run.dir": f"runs/{name}", **keys}), folder=folder)
    yield name, digest_of_run(folder / "runs" / name)


def resumed(folder: Path, keys: Mapping[str, object]) -> str:
    """One epoch, and then a second one, in the same run folder."""
    for epochs in (1, 2):
        each = settings({"run.dir": "runs/resumed", **keys, "learner.epochs": epochs})
        run("train", "nc.toml", *each, folder=folder)
    return digest_of_run(folder / "runs/resumed")


def settings(keys: Mapping[str, object]) -> list[str]:
    return [each for key, value in keys.items() for each in ("--set", f"{key}={json.dumps(value)}")]


def run(*command: str, folder: Path) -> None:
    done = subprocess.run([*MPITUNE, *command], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr[-1000:]}")


def digest_of_run(folder: Path) -> str:
    """That of weights, translations and metrics."""
    parts = []
    for file in [folder / "weights.txt.gz", *sorted(folder.glob("weights/*")), *sorted(folder.glob("translations/*"))]:
        parts.append(file.name.encode() + gzip.decompress(file.read_bytes()))
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        parts.append(json.dumps({key: value for key, value in json.loads(line).items() if key not in TIMES}).encode())
    return digest(b"\n".join(parts))


def digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def head(file: Path, begin: int, end: int, target: Path) -> None:
    """Write the lines from ``begin`` to ``end`` of a gzipped file."""
    target.write_bytes(b"".join(gzip.decompress(file.read_bytes()).splitlines(keepends=True)[begin:end]))


if __name__ == "__main__":
    main()
