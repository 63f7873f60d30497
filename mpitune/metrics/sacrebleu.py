"""The only module that imports sacreBLEU (Post 2018): BLEU of texts and of sentences, and its tokenizers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from mpitune.errors import DataError, MachineError
from mpitune.metrics.choices import Tokenizer

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

Text = tuple[str, Sequence[str]]
"""The name of a text (its file) and its lines, one per sentence."""
References = tuple[str, Sequence[str | None]]
"""The same of a text of references; None for a sentence that has fewer references than others."""


Words = list[str]

_NEEDS = {
    "ja-mecab": "its package: pip install 'sacrebleu[ja]'",
    "flores200": "its package, pip install sentencepiece, and its model, which sacreBLEU downloads once",
}
"""Packages that tokenizers need besides sacreBLEU, and the pip commands for them."""


class CorpusScore(NamedTuple):
    """Corpus BLEU of one text."""

    bleu: float
    """0 to 100."""
    precisions: list[float]
    """Of the n-grams of orders 1 to 4, 0 to 100."""
    brevity_penalty: float
    length_ratio: float
    """Words of the translations divided by words of the closest references."""
    signature: str
    """sacreBLEU's, without which scores cannot be compared."""


def corpus_score(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str | None]],
    tokenize: Tokenizer = "none",
    *,
    lowercase: bool = False,
) -> CorpusScore:
    """Corpus BLEU; ``references`` are whole texts, with None for a sentence that has fewer references than others."""
    # force: suppress the warning that text looks tokenised; the signature names the tokenizer.
    metric = _bleu(tokenize=tokenize, lowercase=lowercase, force=True)
    found = metric.corpus_score(hypotheses, references)  # type: ignore[arg-type]  # its annotation lacks None
    signature = str(metric.get_signature())
    return CorpusScore(float(found.score), list(found.precisions), found.bp, float(found.ratio), signature)


def tokenizer(name: Tokenizer) -> Callable[[str], str]:
    """The function that puts blanks between the words of a line. Raises MachineError if it lacks what it needs."""
    found: Callable[[str], str] = str if name == "none" else _bleu(tokenize=name, force=True).tokenizer
    return found


def word_tokenizer(name: Tokenizer) -> Callable[[Words], Words]:
    """The function from the words of a text to those that `tokenizer` makes of it; ``none`` leaves them as they are."""
    if name == "none":
        return lambda words: words
    tokenize = tokenizer(name)
    return lambda words: tokenize(" ".join(words)).split()


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Corpus BLEU, 0 to 100, of tokenised text; ``references[i]``: one or more references of sentence i.

    Raises DataError if the numbers of sentences differ or are 0.
    """
    return _score_by_sentence(hypotheses, references).bleu


def bleu_and_length(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, float]:
    """`corpus_bleu`, and words of the translations divided by words of their closest references."""
    score = _score_by_sentence(hypotheses, references)
    return score.bleu, score.length_ratio


def signed_bleu(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, str]:
    """`corpus_bleu` and its signature."""
    score = _score_by_sentence(hypotheses, references)
    return score.bleu, score.signature


def _score_by_sentence(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> CorpusScore:
    check_counts([("the references", references), ("the translations", hypotheses)])
    return corpus_score(hypotheses, list(zip_longest(*references)))


def sentence_bleu(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
    """Smoothed BLEU, 0 to 100, of each sentence, over the n-gram orders that the sentence has.

    Arguments as for `corpus_bleu`. These scores rank sentences; their mean is not corpus BLEU.
    """
    metric = _bleu(tokenize="none", effective_order=True)
    return [
        float(metric.sentence_score(hypothesis, list(texts)).score)
        for hypothesis, texts in zip(hypotheses, references, strict=True)
    ]


def check_counts(texts: Sequence[tuple[str, Sequence[object]]]) -> None:
    """Raise DataError if a text has no lines, or not as many as the first one; ``texts``: names and lines."""
    first, expected = texts[0][0], len(texts[0][1])
    for name, lines in texts:
        if len(lines) == 0:
            raise DataError.at(name, None, found="no lines", expected="one translation per line")
        if len(lines) != expected:
            raise DataError.at(name, None, found=f"{len(lines)} lines", expected=f"{expected}, as in {first}")


def _bleu(**options: Any) -> BLEU:
    from sacrebleu.metrics.bleu import BLEU  # which takes time, and not every command needs it

    try:
        return BLEU(**options)
    except (ImportError, RuntimeError, OSError, SystemExit) as error:
        name = options["tokenize"]
        expected = _NEEDS.get(name, "an installation that has it")
        raise MachineError(f"tokenizer {name}: sacreBLEU cannot load it: expected {expected}") from error
