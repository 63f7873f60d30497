"""Time and size of the HTML report for runs with many epochs and ranks.

    python tests/bench/reports.py [--small]

The run folders are synthetic: metrics, models and translations of realistic size.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tools.measure import print_table, run

from mpitune.run_folder.layout import RunFolder
from mpitune.run_folder.run_state import write_state
from mpitune.training.epoch_clock import SLOTS

CONFIG = '[learner]\nalgorithm = "itersel"\nmethod = "perceptron"\nmetric = "bleu"\nepochs = {}\n'
TEMPLATES = {"id": "R:X:das_w{0}:the_v{0}", "source-bigram": "RBS:w{0}_</r>", "target-bigram": "RBT:<r>_v{0}"}


def main() -> None:
    parser = argparse.ArgumentParser(description="Time and size of the report.")
    parser.add_argument("--small", action="store_true", help="test the script on small runs; figures are meaningless")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        print_table(("epochs", "ranks", "features", "CPU", "wall", "size"), rows(Path(name), options.small))


def rows(folder: Path, small: bool) -> Iterator[Sequence[str]]:
    for epochs, ranks, features in (
        ((3, 2, 60),) if small else ((10, 2, 100_000), (100, 8, 100_000), (100, 300, 100_000))
    ):
        path = folder / f"{epochs}-{ranks}"
        make_run(path, epochs, ranks, features, sentences=20 if small else 1000)
        done = run([sys.executable, "-m", "mpitune", "report", path], folder)
        size = (path / "report.html").stat().st_size
        yield (
            str(epochs),
            str(ranks),
            f"{features:,}",
            f"{done.cpu:.2f} s",
            f"{done.wall:.2f} s",
            f"{size / 1e6:.2f} MB",
        )


def make_run(path: Path, epochs: int, ranks: int, features: int, sentences: int) -> None:
    """Write a run folder whose ``sentences`` of devtest improve over the epochs."""
    draw, folder = random.Random(1), RunFolder(path)
    path.mkdir()
    folder.write_config(CONFIG.format(epochs))
    words = [f"word{i}" for i in range(2000)]
    reference = [" ".join(draw.choices(words, k=20)) for _ in range(sentences)]
    folder.write_watched(reference, [[line] for line in reference])
    for epoch in (0, epochs):
        wrong = 0.5 if epoch == 0 else 0.3
        lines = [" ".join("wrong" if draw.random() < wrong else word for word in line.split()) for line in reference]
        folder.write_translations(epoch, lines)
    names = [name.format(i) for i in range(features // len(TEMPLATES)) for name in TEMPLATES.values()]
    folder.write_weights(folder.result, [(name, draw.gauss(0, 1)) for name in names])
    folder.write_metrics([_figures(epoch, epoch, ranks, features, draw) for epoch in range(1, epochs + 1)])
    write_state(folder, "done", epochs, epochs)


def _figures(epoch: int, bleu: float, ranks: int, features: int, draw: random.Random) -> dict[str, Any]:
    """Make an epoch's line of metrics, as long as a real one."""
    counts = {"sentences": 29000, "pairs": 5 * 10**7, "updates": 3 * 10**7, "empty_outputs": 0}
    scores = {"gold": 0.3 + epoch / 1000, "devtest_bleu": 30 + bleu / 10, "best_bleu": 30 + draw.random()}
    scores |= {"metric_best": 0.3, "metric_oracle": 0.4, "metric_random": 0.25, "weight_norm": 1.0 + draw.random()}
    norms = [[2.0 ** (i / 4 - 14), round(features * (1 - i / 80) ** 4)] for i in range(80)]
    largest = {template: [[name.format(i), 1.0] for i in range(15)] for template, name in TEMPLATES.items()}
    waiting = [draw.randrange(1, SLOTS // 4) for _ in range(ranks)]
    return {
        "epoch": epoch,
        "seconds": 100.0,
        "length_ratio": 1.0,
        **counts,
        **scores,
        "active_features": 2 * features,
        "selected_features": features,
        "lambda": 0.001,
        "column_norms": norms,
        "largest_norms": largest,
        "busy_seconds": [100 * (1 - part / SLOTS) for part in waiting],
        "wait_seconds": [100 * part / SLOTS for part in waiting],
        "timeline": ["9" * (SLOTS - part) + "0" * part for part in waiting],
        "peak_memory_bytes": [4 * 10**8] * ranks,
        "warnings": [],
    }


if __name__ == "__main__":
    main()
