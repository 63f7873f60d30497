"""Run folders made up, for reports: no training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mpitune.metrics.sacrebleu import corpus_bleu
from mpitune.run_folder.layout import RunFolder
from mpitune.run_folder.run_state import write_state

CONFIG = """\
[run]
dir = "somewhere"

[learner]
algorithm = "{algorithm}"
method = "perceptron"
metric = "bleu"
epochs = {epochs}

[parallel]
shards = 8
"""


SOURCE = [f"s{i} das haus & <b>der</b> hund {i}" for i in range(30)]


REFERENCE = [f'the house & <b>the</b> dog {i} is "big" and it\'s red .' for i in range(30)]


BEFORE = [line.replace("house", "haus").replace("is", "be") for line in REFERENCE]


WEIGHTS = {
    "LanguageModel": 1.25,
    "Glue": -0.5,
    "R:X:das_NX:the_N1": 0.03125,
    "R:X:<b>&amp:\"x'y</td>": -0.015625,
    "RBS:<r>_das": 0.25,
    "Shape_S11000_T11100": 0.125,
}


def after(epoch: int) -> list[str]:
    """Better from epoch to epoch; sentence 7 becomes worse."""
    lines = [ref if i % 5 < epoch else old for i, (ref, old) in enumerate(zip(REFERENCE, BEFORE, strict=True))]
    lines[7] = "worse than ever"
    return lines


def figures(epoch: int, bleu: float | None) -> dict[str, Any]:
    counts = {"sentences": 1000, "empty_outputs": 0, "pairs": 12345, "updates": 678}
    features = {"active_features": 5000 + epoch, "selected_features": 2000, "cancelled_features": 1994, "lambda": 0.001}
    norms = {
        "column_norms": [[0.0005, 5000 + epoch], [0.001, 2000], [0.5, 1]],
        "largest_norms": {"shape": [["Shape_S11000_T11100", 0.75]], "dense": [["LanguageModel", 0.5]]},
    }
    ranks = {
        "busy_seconds": [1.0, 2.0],
        "wait_seconds": [1.5, 0.5],
        "timeline": ["9" * 16 + "0" * 24, "9" * 32 + "0" * 8],
        "peak_memory_bytes": [1e9, 2e9],
    }
    other = {"seconds": 2.5, "length_ratio": 1.0, "devtest_bleu": bleu, "best_bleu": 30.0 + epoch, "weight_norm": 1.5}
    other |= {"metric_best": 0.30, "metric_oracle": 0.40, "metric_random": 0.25, "warnings": []}
    return {"epoch": epoch, "gold": 0.3 + epoch / 100, **counts, **features, **norms, **ranks, **other}


def make_run(
    path: Path, epochs: int = 3, *, planned: int | None = None, devtest: bool = True, algorithm: str = "itersel"
) -> RunFolder:
    """A run whose epoch 2 is the best on devtest, if it has come that far."""
    path.mkdir(parents=True)
    folder = RunFolder(path)
    folder.write_config(CONFIG.format(algorithm=algorithm, epochs=planned or epochs))
    translations = {epoch: after(3 if epoch == 2 else 1) for epoch in range(1, epochs + 1)}
    references = [[line] for line in REFERENCE]
    folder.write_watched(SOURCE, references)
    folder.write_translations(0, BEFORE)
    history = []
    for epoch, lines in translations.items():
        folder.write_translations(epoch, lines)
        folder.write_weights(folder.epoch_weights(epoch), list(WEIGHTS.items()))
        history.append(figures(epoch, corpus_bleu(lines, references) if devtest else None))
    folder.write_metrics(history)
    folder.write_weights(folder.result, list(WEIGHTS.items()))
    write_state(folder, "running" if epochs < (planned or epochs) else "done", planned or epochs, epochs)
    return folder
