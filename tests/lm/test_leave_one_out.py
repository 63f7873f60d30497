"""What leaving a sentence out changes in a language model, against the definition; and models so changed."""

from __future__ import annotations

import gzip
import math
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from support.decoder_case import EVERYTHING, Case, by_slot, entries, same
from support.mpi import ROOT
from support.naive_kenlm import with_blanks, write_kenlm
from support.naive_lm import NaiveLm, adjusted_counts, discounts
from support.uncompiled import fewer, seeds

from mpitune.array_files.arrays import open_arrays, write_arrays
from mpitune.lm.arpa import read_arpa
from mpitune.lm.kenlm import open_kenlm, read_kenlm
from mpitune.lm.kneser_ney import estimate
from mpitune.lm.leave_one_out import LeftOut, OwnNgrams, own_ngrams, without
from mpitune.lm.ngram_table import LanguageModel, LmVocabulary, entry, find, language_model

pytestmark = pytest.mark.kernel

Ngram = tuple[str, ...]

TEXT = ROOT / "mpitune" / "templates" / "demo" / "train.en.gz"
"""English sentences."""


def sentences(seed: int, number: int, words: int = 6) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(f"w{draw.randrange(words)}" for _ in range(draw.randrange(8))) for _ in range(number)]


def write(path: Path, text: Sequence[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in text))
    return path


def model(folder: Path, text: Sequence[str], order: int, kind: str) -> tuple[LanguageModel, LmVocabulary]:
    estimate(write(folder / "lm.text", text), order, folder / "lm")
    if kind == "arpa":
        return language_model(read_arpa(folder / "lm"))
    write_kenlm(folder / "lm", folder / "lm.klm")
    return open_kenlm(folder / "lm.klm", int(read_kenlm(folder / "lm.klm")["kenlm"][0]))


def ngrams(sentence: str, order: int) -> Counter[Ngram]:
    words = ["<s>", *sentence.split(), "</s>"]
    spans = [(a, a + n) for n in range(1, order + 1) for a in range(len(words) - n + 1)]
    return Counter(tuple(words[a:b]) for a, b in spans)


def without_texts(naive: NaiveLm, text: Sequence[str], seen: Sequence[str]) -> dict[Ngram, float]:
    """log10 probabilities of the n-grams of the lines ``seen`` after one copy of each is taken out of the text."""
    others = list(text)
    for line in seen:
        others.remove(line)
    counts, rest = (sum((ngrams(line, naive.order) for line in lines), Counter[Ngram]()) for lines in (text, others))
    adjusted, after = (adjusted_counts([line.split() for line in lines], naive.order) for lines in (text, others))
    discount = {n: discounts(adjusted, n) for n in range(1, naive.order + 1)}

    def prob(ngram: Ngram) -> float:
        old = 10 ** naive.ngrams[ngram][0]
        if len(ngram) == 1:
            return old * rest[ngram] / counts[ngram]
        context, backoff = ngram[:-1], 10 ** naive.ngrams[ngram[:-1]][1]
        by_count = old - backoff * 10 ** naive.ngrams[ngram[1:]][0]
        a, b = (count[ngram] - discount[len(ngram)][min(count[ngram], 3)] for count in (adjusted, after))
        by_count *= (b / a if a else 0) * counts[context] / rest[context]
        by_backoff = backoff * prob(ngram[1:])
        return min(1, by_backoff + by_count) if by_count > 0 else min(old, by_backoff)

    mine = {ngram for line in seen for ngram in ngrams(line, naive.order)} - {("<s>",)}
    return {ngram: math.log10(prob(ngram)) if rest[ngram] else -math.inf for ngram in mine}


def node(lm: LanguageModel, words: LmVocabulary, ngram: Ngram) -> int:
    return find(lm, words.numbers(ngram).astype(np.int64), 0, len(ngram))


def own(
    lm: LanguageModel, words: LmVocabulary, references: list[list[str]], texts: list[Path], certain: bool = True
) -> OwnNgrams:
    numbers = [[words.numbers(text.split()) for text in of_sentence] for of_sentence in references]
    return own_ngrams(lm, words, numbers, texts, certain=certain)


@pytest.mark.parametrize("kind", ["arpa", "binary"])
@pytest.mark.parametrize(("order", "seed"), fewer([(3, 2), (2, 1), (4, 3), (5, 4)]))
def test_models_without_a_sentence(tmp_path: Path, kind: str, order: int, seed: int) -> None:
    """Each of the references counts once, even if the text repeats it; those that are no line of it have nothing."""
    text = sentences(seed, 60)
    text += [text[0], text[1], text[1], "w0 w1", "w0 once w1"]
    others = sentences(seed + 10, 20)
    lines = ["w0 once w1", *text[:23], *others]
    references = [[lines[2 * i], lines[2 * i + 1]][: 1 + i % 2] for i in range(22)] + [["w0 never", text[40]], []]
    lm, words = model(tmp_path, text, order, kind)
    found = own(lm, words, references, [write(tmp_path / "one", text[:31]), write(tmp_path / "two", text[31:])])
    gone, naive = 0, NaiveLm(tmp_path / "lm")
    for i, of_sentence in enumerate(references):
        seen = [line for line in of_sentence if line in text]
        expected = without_texts(naive, text, seen)
        left = found.of(i)
        assert dict(zip(left.node.tolist(), left.prob.tolist(), strict=True)) == pytest.approx(
            {node(lm, words, ngram): value for ngram, value in expected.items()}, abs=1e-4
        )
        gone += sum(value == -math.inf for value in expected.values())
    assert 0 < gone < len(found.node)
    assert len(found.ptr) == len(references) + 1
    in_text = sum(line in text for of_sentence in references for line in of_sentence)
    assert found.references.tolist() == [in_text, sum(map(len, references))]
    assert found.covered.tolist() == [1.0]
    assert len(own(lm, words, [], [tmp_path / "one"]).node) == 0


def test_a_model_of_words_alone(tmp_path: Path) -> None:
    """It is known by its words as the model of the text, and a word is unknown to it that no other line has."""
    text = [*sentences(6, 60), "w0 once", "w0 w1 twice", "twice"]
    lm, words = model(tmp_path, text, 1, "arpa")
    found = own(lm, words, [[line] for line in text[-3:]], [tmp_path / "lm.text"], certain=False)
    assert (found.references.tolist(), found.covered.tolist()) == ([3, 3], [1.0])
    gone = [set(found.of(i).node[np.isneginf(found.of(i).prob)].tolist()) for i in range(3)]
    assert gone == [set(words.numbers(["once"]).tolist()), set(), set()]
    other = own(lm, words, [[line] for line in text[-3:]], [write(tmp_path / "part", text[-3:])], certain=False)
    assert len(other.node) == 0 and other.covered[0] < 0.99


@pytest.mark.parametrize("unit", fewer([math.log(10), 0.01, 100.0]))
def test_a_model_in_another_unit(tmp_path: Path, unit: float) -> None:
    """A model whose scores are all multiplied by a number changes by that number times as much."""
    text = sentences(5, 60)
    lm, words = model(tmp_path, text, 3, "arpa")
    node = lm.node.copy()
    for column in ("prob", "backoff"):
        node[column] *= np.float32(unit)
    usual, other = (
        own(each, words, [[line] for line in text], [tmp_path / "lm.text"]) for each in (lm, lm._replace(node=node))
    )
    assert np.isneginf(usual.prob).any()
    assert other.node.tolist() == usual.node.tolist()
    np.testing.assert_allclose(other.prob, usual.prob * unit, rtol=0, atol=0.01 * unit)


@pytest.mark.large
def test_it_is_nearly_the_model_of_the_other_sentences(tmp_path: Path) -> None:
    """Log10 probabilities of a sentence, left out and with a model that is estimated without it."""
    text = gzip.decompress(TEXT.read_bytes()).decode().splitlines()[:1000]
    lm, vocabulary = model(tmp_path, text, 3, "arpa")
    found = own(lm, vocabulary, [[line] for line in text], [write(tmp_path / "text", text)])
    kept, left_out, exact = 0.0, 0.0, 0.0
    for i in range(0, 1000, 100):
        naive, marked = NaiveLm(tmp_path / "lm"), ["<s>", *text[i].split(), "</s>"]
        kept += naive.score(marked, 1)
        left = dict(zip(found.of(i).node.tolist(), found.of(i).prob.tolist(), strict=True))
        for ngram in ngrams(text[i], 3).keys() - {("<s>",)}:
            value = left[node(lm, vocabulary, ngram)]
            if value > -math.inf:
                naive.ngrams[ngram] = value, naive.ngrams[ngram][1]
            else:
                del naive.ngrams[ngram]
        estimate(write(tmp_path / "others", [*text[:i], *text[i + 1 :]]), 3, tmp_path / "other-lm")
        other = NaiveLm(tmp_path / "other-lm")
        known = [word if (word,) in other.ngrams else "<unk>" for word in marked]
        assert naive.known(marked) == known
        # <unk> of the two models differs: words that are unknown are not compared.
        known_words = [k for k in range(1, len(known)) if known[k] != "<unk>"]
        left_out += sum(naive.prob(tuple(known[max(0, k - 2) : k]), known[k]) for k in known_words)
        exact += sum(other.prob(tuple(known[max(0, k - 2) : k]), known[k]) for k in known_words)
    assert abs(left_out - exact) < 0.02 * abs(kept - exact)


def test_equal_references_are_left_out_as_often_as_the_text_has_them(tmp_path: Path) -> None:
    line = "w0 w1 rare w2"
    for copies in (1, 2):
        text = [*sentences(3, 60), *[line] * copies, "w3 rare w4"]
        lm, words = model(tmp_path, text, 3, "arpa")
        once, twice, often = (
            own(lm, words, [[line] * given], [write(tmp_path / "text", text)]).of(0) for given in (1, 2, 5)
        )
        assert all((ours == theirs).all() for ours, theirs in zip(twice, often, strict=True))
        assert np.array_equal(once.prob, twice.prob) == (copies == 1)
        assert np.isfinite(twice.prob[twice.node == node(lm, words, ("rare",))]).all()


@pytest.mark.parametrize("kind", ["arpa", "binary"])
def test_texts_that_the_model_was_not_estimated_from(tmp_path: Path, kind: str) -> None:
    """A text that may be the model's is taken for it if it has nearly all of the model's n-grams."""
    text, others = sentences(1, 400, words=40), sentences(2, 60, words=40)
    references = [line for line in others if line.count(" ") > 3]
    lm, words = model(tmp_path, [*text, *references], 3, kind)
    tuned = [[line] for line in references]
    for lines, certain, taken in [
        ([*text, *references], False, True),
        ([*text[2:], *references], False, True),
        ([*text[40:], *references], False, False),
        ([*text[40:], *references], True, True),
        (references, False, False),
        (text, True, False),
    ]:
        found = own(lm, words, tuned, [write(tmp_path / "text", lines)], certain)
        assert bool(len(found.node)) == taken, (len(lines), certain)
        assert bool(found.references[0]) == taken


@pytest.mark.parametrize("kind", ["arpa", "binary"])
def test_a_model_is_changed_and_restored(tmp_path: Path, kind: str) -> None:
    lm, words = model(tmp_path, sentences(3, 40), 3, kind)
    every = [ngram for ngram in NaiveLm(tmp_path / "lm").ngrams if len(ngram) > 1]
    nodes = {ngram: node(lm, words, ngram) for ngram in every}
    chosen = {ngram for ngram in every if "w1" in ngram}
    other = {ngram: -0.01 * n for n, ngram in enumerate(sorted(set(every) - chosen)[::3])}
    other |= {("w2",): -7.0, ("</s>",): -0.5}
    gone = [node(lm, words, ("w1",)), *(nodes[ngram] for ngram in chosen)]
    both = np.array([*gone, *(node(lm, words, ngram) for ngram in other)], dtype=np.int32)
    left = LeftOut(both, np.array([-np.inf] * len(gone) + list(other.values()), dtype=np.float32))
    before = {ngram: entry(lm, node(lm, words, ngram)) for ngram in [*every, *other]}
    with pytest.raises(ValueError), without(lm, left):
        for ngram in before.keys() - chosen:
            expected = (np.float32(other.get(ngram, before[ngram][0])), *before[ngram][1:])
            assert entry(lm, node(lm, words, ngram)) == expected
        assert {ngram for ngram in every if node(lm, words, ngram) < 0} == chosen
        assert all(node(lm, words, ngram) == nodes[ngram] for ngram in set(every) - chosen)
        raise ValueError
    assert {ngram: node(lm, words, ngram) for ngram in every} == nodes
    assert {ngram: entry(lm, node(lm, words, ngram)) for ngram in before} == before


@pytest.mark.large
@pytest.mark.parametrize("kind", ["arpa", "binary"])
def test_a_mapped_model_is_read_again_from_its_file(tmp_path: Path, kind: str) -> None:
    """What is written to the same pages is gone after the block, and so are the private copies of these pages."""
    text = sentences(1, 2000, words=300)
    lm, words = model(tmp_path, text, 3, kind)
    if kind == "arpa":
        write_arrays(tmp_path / "lm.npz", read_arpa(tmp_path / "lm"), {})
        lm, words = language_model(open_arrays(tmp_path / "lm.npz"))
    line = max(text, key=len)
    left = own(lm, words, [[line]], [write(tmp_path / "text", text)]).of(0)
    memory = lm.node.view(np.uint32) if kind == "arpa" else lm.probing.data
    before = memory.copy()
    with without(lm, left):
        changed = np.flatnonzero(memory != before)
        beside = np.setdiff1d(changed + 1, changed)
        memory[beside] ^= 1
    remain = np.flatnonzero(memory != before)
    assert 2 * len(remain) < len(beside)
    # Pages of other arrays, and of the unknown word, are kept as they are.
    memory[remain] ^= 1
    assert (memory == before).all()


@pytest.mark.parametrize("seed", seeds(8))
def test_decoding_with_changed_models(tmp_path: Path, seed: int) -> None:
    """The translations of a model that lacks n-grams and has others with other probabilities; and again as before."""
    orders = [2 + seed % 3] if seed % 2 else [2 + seed % 3, 3]
    case = Case(tmp_path, 50 + seed, orders=orders)
    words = case.some_words(20, 300)
    used, fresh = case.decoder(), case.decoder()
    weights = case.weights(used, words)
    case.weights(fresh, words)
    sentence, vector = case.sentence(words), by_slot(used, weights)
    before = used.decode(sentence, vector, EVERYTHING)
    in_texts = {ngram for text, _, _ in entries(case, used, before) for ngram in ngrams(" ".join(text), 4)}
    left_out = []
    for (lm, vocabulary), naive in zip(case.model.lms, case.naive_lms, strict=True):
        every = with_blanks(naive)
        # Without the longest n-grams, or without a word.
        known = sorted((naive.ngrams.keys() & in_texts) - {("<s>",), ("</s>",)}, key=lambda ngram: (len(ngram), ngram))
        roots = known[slice(1) if seed % 4 > 1 else slice(-4, None)]
        gone = {
            ngram for ngram in every for root in roots for a in range(len(ngram)) if ngram[a : a + len(root)] == root
        }
        for ngram in gone & naive.ngrams.keys():
            del naive.ngrams[ngram]
        # But for n-grams that end others which were added to the model, with what backing off gives.
        ends = {ngram[k:] for ngram in every.keys() - naive.ngrams.keys() for k in range(len(ngram))}
        changed = {ngram: -4 * case.draw.random() for ngram in sorted(naive.ngrams.keys() & in_texts - ends)}
        for ngram, value in changed.items():
            naive.ngrams[ngram] = value, naive.ngrams[ngram][1]
        nodes = [node(lm, vocabulary, ngram) for ngram in [*gone, *changed]]
        probs = [-np.inf] * len(gone) + list(changed.values())
        left_out.append(LeftOut(np.array(nodes, dtype=np.int32), np.array(probs, dtype=np.float32)))
    changed_list = used.decode(sentence._replace(left_out=left_out), vector, EVERYTHING)
    listed = entries(case, used, changed_list)
    expected = {text: ways[0][0] for text, ways in case.naive().best(words, weights).items()}
    assert {text: score for text, score, _ in listed} == pytest.approx(expected, rel=1e-6, abs=1e-5)
    assert not np.array_equal(changed_list.score, before.score)
    assert same(used.decode(sentence, vector, EVERYTHING), before)
    assert same(fresh.decode(sentence._replace(left_out=left_out), vector, EVERYTHING), changed_list)
