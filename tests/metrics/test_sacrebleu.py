"""The access to sacreBLEU: corpus BLEU of tokenised text, and tokenizers."""

from __future__ import annotations

import gzip
import re
import sys
from pathlib import Path

import pytest
from sacrebleu.metrics import BLEU
from sacrebleu.tokenizers import tokenizer_ja_mecab

from mpitune.errors import DataError, MachineError
from mpitune.metrics.choices import Tokenizer
from mpitune.metrics.evaluation import SystemRuns, evaluate
from mpitune.metrics.sacrebleu import corpus_bleu, word_tokenizer
from mpitune.metrics.sentence_statistics import SentenceStatistics


def test_counts_of_sentences_add_up_to_those_of_the_corpus(caplog: pytest.LogCaptureFixture) -> None:
    hypotheses = ["a b c d e .", "x", "", "A b, c d"]
    references = [["a b c x e .", "x y", "z", "a b, c"], ["b c d e", "", "z z", "a b , c d e"]]
    for tokenize, lowercase in (("none", False), ("13a", True)):
        found = SentenceStatistics(["bleu"]).count([hypotheses], references, tokenize, lowercase=lowercase)
        whole = BLEU(tokenize=tokenize, lowercase=lowercase).corpus_score(hypotheses, references)
        sums = found.sum(axis=(0, 1)).tolist()
        assert sums[:-1] == [*whole.counts, *whole.totals, whole.sys_len, whole.ref_len]
    assert caplog.text == ""


def test_counts_of_lines_must_agree() -> None:
    with pytest.raises(DataError, match="the translations: found 2 lines, expected 1, as in the references"):
        corpus_bleu(["a", "b"], [["a"]])


def test_corpus_bleu_is_silent_on_tokenised_text_and_takes_uneven_references(caplog: pytest.LogCaptureFixture) -> None:
    hypotheses = ["a b c d ."] * 150
    references = [["a b c d .", "x y z"] if i % 2 else ["a b c d ."] for i in range(150)]
    assert corpus_bleu(hypotheses, references) == pytest.approx(100)
    assert caplog.text == ""


def test_a_tokenizer_that_lacks_its_package_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer_ja_mecab, "MeCab", None)
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    told: list[tuple[Tokenizer, str]] = [("ja-mecab", "sacrebleu[ja]"), ("flores200", "pip install sentencepiece")]
    for name, remedy in told:
        with pytest.raises(MachineError, match=f"^tokenizer {name}: .* expected .*{re.escape(remedy)}[^\n]*$"):
            word_tokenizer(name)


def test_words_are_tokenised_or_left_as_they_are() -> None:
    words = ["Ein", "Haus,", "alt\u00a0.", "(neu)"]
    assert word_tokenizer("none")(words) == words
    assert word_tokenizer("13a")(words) == ["Ein", "Haus", ",", "alt", ".", "(", "neu", ")"]
    assert word_tokenizer("zh")(["我爱你", "OK"]) == ["我", "爱", "你", "OK"]


def test_japanese_is_tokenised() -> None:
    pytest.importorskip("MeCab")
    pytest.importorskip("ipadic")
    assert word_tokenizer("ja-mecab")(["猫がいる"]) == ["猫", "が", "いる"]


def test_nothing_translated_scores_0() -> None:
    assert corpus_bleu(["", ""], [["a b"], ["c"]]) == 0.0


def test_golden_kbest_scores_as_sacrebleu_says(shared: Path) -> None:
    """The reference decoder's 1-best of real sentences against their references."""
    with gzip.open(shared / "golden" / "nc.kbest.gz", "rt", encoding="utf-8") as file:
        best: dict[int, str] = {}
        for line in file:
            fields = line.rstrip("\n").split(" ||| ")
            best.setdefault(int(fields[0]), fields[1])
    with gzip.open(shared / "data" / "nc" / "nc.en.gz", "rt", encoding="utf-8") as file:
        references = [line.rstrip("\n") for line, _ in zip(file, best, strict=False)]
    hypotheses = [best[i] for i in range(len(best))]
    value = corpus_bleu(hypotheses, [[line] for line in references])
    system = SystemRuns("h", [("h", hypotheses)])
    assert value == pytest.approx(evaluate([("r", references)], [system]).scores[0].bleu)
    assert 5 < value < 60
