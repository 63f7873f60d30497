"""The unit of a language model's scores."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from support.naive_kenlm import write_kenlm
from support.naive_lm import NaiveLm

from mpitune.lm.arpa import read_arpa
from mpitune.lm.kenlm import open_kenlm, read_kenlm
from mpitune.lm.log_scale import log_scale
from mpitune.lm.ngram_table import LanguageModel, language_model

pytestmark = pytest.mark.kernel


def unigrams(folder: Path, probabilities: dict[str, float], unit: float = 1.0, kind: str = "arpa") -> LanguageModel:
    """A model of unigrams (and one bigram, which KenLM demands) with these log10 probabilities, times ``unit``."""
    lines = [f"{unit * math.log10(p):.6f}\t{word}\t0" for word, p in probabilities.items()]
    counts = f"ngram 1={len(lines) + 1}\nngram 2=1"
    body = "\n".join(
        [f"\\data\\\n{counts}\n\n\\1-grams:\n-99\t<s>\t0", *lines, "", "\\2-grams:", f"{-unit:.6f}\t<s> a"]
    )
    (folder / "lm").write_text(f"{body}\n\n\\end\\\n")
    if kind == "arpa":
        return language_model(read_arpa(folder / "lm"))[0]
    write_kenlm(folder / "lm", folder / "lm.klm")
    return open_kenlm(folder / "lm.klm", int(read_kenlm(folder / "lm.klm")["kenlm"][0]))[0]


DISTRIBUTION = {"a": 0.4, "b": 0.3, "c": 0.2, "</s>": 0.1}


@pytest.mark.parametrize("kind", ["arpa", "binary"])
@pytest.mark.parametrize("unit", [0.01, math.log(10), 100.0])
def test_the_unit_is_found(tmp_path: Path, unit: float, kind: str) -> None:
    lm = unigrams(tmp_path, DISTRIBUTION, unit, kind)
    assert log_scale(lm) == pytest.approx(1 / unit, rel=1e-2)
    # That is its definition: the probabilities add up to 1.
    scores = [prob for [word], (prob, _) in _unigrams(tmp_path / "lm") if word not in ("<s>", "<unk>")]
    assert np.sum(10.0 ** (np.array(scores) * log_scale(lm))) == pytest.approx(1, rel=1e-4)


def _unigrams(path: Path) -> list[tuple[tuple[str, ...], tuple[float, float]]]:
    return [(ngram, entry) for ngram, entry in NaiveLm(path).ngrams.items() if len(ngram) == 1]


@pytest.mark.parametrize(
    "probabilities",
    [
        DISTRIBUTION,
        # The rest is that of <unk>, which does not count.
        {"<unk>": 0.2, "a": 0.3, "b": 0.2, "c": 0.2, "</s>": 0.1},
        # No factor makes them add up to 1.
        {"a": 1.0, "b": 1.0, "</s>": 1.0},
        {"a": 1e-9, "</s>": 1.0},
    ],
)
def test_the_usual_unit(tmp_path: Path, probabilities: dict[str, float]) -> None:
    assert log_scale(unigrams(tmp_path, probabilities)) == 1.0
