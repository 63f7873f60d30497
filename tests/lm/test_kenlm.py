"""KenLM's probing binaries: they say what the ARPA file that they were made from says."""

from __future__ import annotations

import base64
import gzip
import itertools
import os
import random
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest
from support.decoder_case import EVERYTHING, Case, by_slot, same
from support.lm_scorer import Scorer
from support.naive_kenlm import MAGIC, murmur, with_blanks, write_kenlm
from support.naive_lm import NaiveLm, random_arpa
from support.tiny import Tiny
from support.uncompiled import fewer

from mpitune.corpus.weights import read_weights
from mpitune.decoder.embedded.decoder import EmbeddedDecoder
from mpitune.errors import DataError
from mpitune.exchange.comm import SerialComm
from mpitune.lm.arpa import read_arpa
from mpitune.lm.kenlm import is_kenlm, open_kenlm, read_kenlm
from mpitune.lm.ngram_table import LanguageModel, LmVocabulary, child, entry, find, language_model
from mpitune.store.build import build_store
from mpitune.store.inputs import StoreInputs, Texts
from mpitune.store.store import content_digests, open_store
from mpitune.training import job_inputs
from mpitune.training.loop import train

pytestmark = pytest.mark.kernel

Opened = tuple[LanguageModel, LmVocabulary]

MODELS = [(seed, order, pruned) for seed, (order, pruned) in enumerate(itertools.product(range(2, 7), (0.0, 0.5, 1.0)))]
SMALL = """\\data\\
ngram 1=5
ngram 2=4
ngram 3=2

\\1-grams:
-1.5\t<unk>
-99\t<s>\t-0.5
-0.75\t</s>
-1\thouse\t-0.25
-1.25\tthe

\\2-grams:
-0.5\t<s> the\t0
-0.25\tthe house\t-0.125
-2\thouse house
-1.75\thouse the

\\3-grams:
-0.0625\t<s> the house
-0.375\tthe house </s>

\\end\\
"""
BINARY = (
    "c-qU&O)OBz$yLZGDJihh*U!#KO-##7%}LQq&d=3P&QD2INXswEO)OC;OD!tS%+FIW<zhg9274f}pAks>2Lg}?BUFYNOdhaD7Gs6dEKr(>0TqDc"
    "3+fd2TDFzK^}v9Z$u|BHp{!<*x!Q}KO07}1UIH?QE9d*i+TsV<=w_jU1N%XaWnegV2;^P{1_yfxALRaqeGCi>?2%PVxp=OBA$oubqLzVy;}cUx"
    "%SK~i28IV<bJq0U7GX|ITLWa;0r~qTA6aHDc)x!N$Rd!u*m<wd>uRzjpyAVi?i$~d_096X-iia2??V<3TJlE0P3G=xpq9NhrFq$Q3^v6;tPdnI"
    "@=J?T8A>uz82~v|Sx5"
)
"""SMALL, as KenLM's own build_binary has made it: zlib, base 85."""


def binary(path: Path) -> Opened:
    """The model in a KenLM binary."""
    return open_kenlm(path, int(read_kenlm(path)["kenlm"][0]))


def as_estimated(arpa: Path) -> None:
    """Make a random model like those that estimators make.

    No backoff makes a probability greater than 1, and only n-grams that others start with have one.
    """
    contexts = {ngram[a:b] for ngram in NaiveLm(arpa).ngrams for b in range(len(ngram)) for a in range(b)}
    lines = []
    for line in arpa.read_text().split("\n"):
        if line.count("\t"):
            prob, ngram, *backoff = line.split("\t")
            line = "\t".join([f"{float(prob) - 9:.6g}", ngram, *(backoff if tuple(ngram.split()) in contexts else [])])
        lines.append(line)
    arpa.write_text("\n".join(lines))


def both(folder: Path, seed: int, order: int, pruned: float) -> tuple[Path, Opened, Opened]:
    """A random model: its ARPA file, the model from there and from a binary."""
    arpa, file = folder / "lm.arpa", folder / "lm.klm"
    random_arpa(arpa, 700 + seed, order, pruned=pruned, unknown=seed % 2 == 0)
    as_estimated(arpa)
    write_kenlm(arpa, file, room=[1.5, 1.0, 3.0][seed % 3], with_words=seed % 4 != 1)
    return arpa, language_model(read_arpa(arpa)), binary(file)


def test_the_writer_of_these_tests_writes_as_kenlm_does(tmp_path: Path) -> None:
    (tmp_path / "lm.arpa").write_text(SMALL)
    write_kenlm(tmp_path / "lm.arpa", tmp_path / "lm.klm")
    assert (tmp_path / "lm.klm").read_bytes() == zlib.decompress(base64.b85decode(BINARY))


@pytest.mark.skipif(shutil.which("build_binary") is None, reason="needs KenLM's build_binary")
@pytest.mark.parametrize("seed", range(6))
def test_the_writer_of_these_tests_writes_as_build_binary_does(tmp_path: Path, seed: int) -> None:
    arpa, ours, theirs = tmp_path / "lm.arpa", tmp_path / "ours", tmp_path / "theirs"
    random_arpa(arpa, 800 + seed, 2 + seed % 4, unknown=seed % 2 == 0)
    room = [1.5, 1.2, 2.0][seed % 3]
    write_kenlm(arpa, ours, room=room)
    subprocess.run(["build_binary", "-p", str(room), "probing", arpa, theirs], check=True, capture_output=True)
    assert ours.read_bytes() == theirs.read_bytes()


@pytest.mark.parametrize(("seed", "order", "pruned"), fewer(MODELS))
def test_ngrams_are_the_same(tmp_path: Path, seed: int, order: int, pruned: float) -> None:
    arpa, (ours, our_words), (theirs, their_words) = both(tmp_path, seed, order, pruned)
    assert (ours.order, ours.words, len(our_words)) == (theirs.order, theirs.words, len(their_words))
    assert [theirs.bos, theirs.eos] == their_words.numbers(["<s>", "</s>"]).tolist()
    naive = NaiveLm(arpa)
    known = with_blanks(naive)
    for ngram in known:
        word, their_word = (words.numbers(ngram).astype(np.int64) for words in (our_words, their_words))
        node, their_node = find(ours, word, 0, len(word)), find(theirs, their_word, 0, len(word))
        assert node >= 0 and their_node >= 0
        assert entry(ours, node) == entry(theirs, their_node), ngram
        if len(ngram) < order:
            for oldest in ("a", "b", "<s>"):
                older, theirs_older = (
                    child(lm, n, np.int64(words.numbers([oldest])[0]))
                    for lm, n, words in ((ours, node, our_words), (theirs, their_node, their_words))
                )
                assert (older >= 0) == (theirs_older >= 0) == ((oldest, *ngram) in known)
    draw, words = random.Random(seed), [word for (word, *rest) in naive.ngrams if not rest]
    for _ in range(300):
        ngram = tuple(draw.choices(words, k=draw.randint(2, order)))
        word = their_words.numbers(ngram).astype(np.int64)
        assert (find(theirs, word, 0, len(word)) >= 0) == (ngram in known)


@pytest.mark.parametrize(("seed", "order", "pruned"), fewer(MODELS))
def test_scores_and_states_are_the_same(tmp_path: Path, seed: int, order: int, pruned: float) -> None:
    arpa, *opened = both(tmp_path, seed, order, pruned)
    words = [word for (word, *rest) in NaiveLm(arpa).ngrams if not rest and word not in ("<s>", "</s>")]
    ours, theirs = (Scorer(*model) for model in opened)
    keys: set[tuple[int, int]] = set()
    draw = random.Random(seed)
    for n in range(200):
        sentence = draw.choices([*words[:5], "unheard"], k=draw.randint(0, 8))
        i, gain = ours.bracket(sentence, random.Random(n), n % 3 == 0)
        j, their_gain = theirs.bracket(sentence, random.Random(n), n % 3 == 0)
        assert gain == their_gain
        keys.add((ours.key(i), theirs.key(j)))
        (_, whole), (_, their_whole) = ours.build([i, "</s>"], True), theirs.build([j, "</s>"], True)
        assert whole == their_whole
    assert len({key for key, _ in keys}) == len({key for _, key in keys}) == len(keys)


@pytest.mark.large
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("binaries", [(True,), (False, True), (True, False)])
def test_the_search_finds_the_same(tmp_path: Path, seed: int, binaries: tuple[bool, ...]) -> None:
    case = Case(tmp_path, 900 + seed, orders=[2 + (seed + n) % 2 for n in range(len(binaries))], templates=["id"])
    arpas = [tmp_path / f"lm.{n}" for n in range(len(binaries))]
    for arpa in arpas:
        as_estimated(arpa)
        write_kenlm(arpa, Path(f"{arpa}.klm"), with_words=seed % 2 == 0)
    found = []
    for kinds in (binaries, [False] * len(binaries)):
        opened: list[Opened] = []
        for arpa, is_binary in zip(arpas, kinds, strict=True):
            opened.append(binary(Path(f"{arpa}.klm")) if is_binary else language_model(read_arpa(arpa)))
        case.model = case.model._replace(lms=opened)
        for pop_limit, words in ((EVERYTHING, ["a", "b", "b"]), (20, ["a", "b", "b", "a", "other", "b"])):
            decoder = case.decoder(pop_limit)
            case.draw.seed(seed)
            weights = case.weights(decoder, ["a", "b", "a"])
            found.append(decoder.decode(case.sentence(words), by_slot(decoder, weights), 100))
    assert found[0].size > 1
    assert same(found[0], found[2]) and same(found[1], found[3])


@pytest.mark.slow
@pytest.mark.large
def test_the_search_finds_the_same_on_real_data(shared: Path, tmp_path: Path) -> None:
    nc = shared / "data" / "nc"
    write_kenlm(nc / "lm.3.arpa.gz", tmp_path / "lm.klm")
    lists = []
    for lm in (nc / "lm.3.arpa.gz", tmp_path / "lm.klm"):
        sources = StoreInputs(train=Texts(nc / "nc.de.gz", limit=5), grammar=nc / "grammar.gz", lms=(lm,))
        build_store(sources, tmp_path / "store")
        store = open_store(sources, tmp_path / "store")
        assert store.train is not None
        decoder = EmbeddedDecoder(store.model)
        weights = read_weights(shared / "golden/nc.weights")
        slots = [decoder.features.slot(feature) for feature in weights]
        vector = np.zeros(len(decoder.features))
        vector[slots] = [*weights.values()]
        lists.append([decoder.decode(store.train.sentence(i), vector, 100) for i in range(5)])
    assert all(same(one, other) for one, other in zip(*lists, strict=True))


def test_words_are_known_by_their_hashes(tmp_path: Path) -> None:
    draw = random.Random(1)
    words = ["".join(draw.choices("aбcü漢", k=length)) + str(length) for length in range(40)]
    ngrams = "".join(f"-1\t{word}\n" for word in ["<s>", "</s>", *words])
    text = f"\\data\\\nngram 1={len(words) + 2}\nngram 2=1\n\\1-grams:\n{ngrams}\\2-grams:\n-1\t<s> </s>\n\\end\\\n"
    (tmp_path / "lm.arpa").write_text(text)
    write_kenlm(tmp_path / "lm.arpa", tmp_path / "lm.klm")
    lm, vocabulary = binary(tmp_path / "lm.klm")
    assert vocabulary.numbers(words).tolist() == [*range(3, 43)]
    assert vocabulary.numbers(["<unk>", "<UNK>", "", "a", "漢漢", words[9][:-1], " "]).tolist() == [0] * 7
    assert vocabulary.numbers([]).dtype == np.int32
    assert (lm.bos, lm.eos, lm.words, len(vocabulary)) == (1, 2, 43, 43)
    assert murmur(b"") == 0 and murmur(b"<unk>") != 0


WRITTEN = ["data.npz", "lm-0.npz"]


def test_the_store_takes_them_as_it_takes_arpa_files(tmp_path: Path) -> None:
    (tmp_path / "lm.arpa").write_text(SMALL)
    (tmp_path / "grammar").write_text("[X] ||| haus ||| house\n")
    (tmp_path / "in").write_text("haus\n")
    file = tmp_path / "any name"
    write_kenlm(tmp_path / "lm.arpa", file)
    sources = StoreInputs(train=Texts(tmp_path / "in"), grammar=tmp_path / "grammar", lms=(file,))
    folder = tmp_path / "store"

    def made() -> list[str]:
        return build_store(sources, folder)

    assert made() == WRITTEN
    assert made() == []
    assert (folder / "lm-0.npz").stat().st_size < 20_000, "the model stays where it is"
    known = content_digests(sources, folder)
    [(lm, vocabulary)] = open_store(sources, folder).model.lms
    assert lm.order == 3 and vocabulary.numbers(["house"]).tolist() == [3]
    os.utime(file, ns=(1, 1))
    assert made() == [], "the same content, written at another time"
    (tmp_path / "lm.arpa").write_text(SMALL.replace("-0.0625", "-0.5"))
    write_kenlm(tmp_path / "lm.arpa", file)
    assert made() == ["lm-0.npz"]
    assert content_digests(sources, folder) != known
    write_kenlm(tmp_path / "lm.arpa", file, room=4.0)
    expected = r"any name: found \d+ bytes, expected the KenLM binary of \d+ bytes that was there when the store was"
    with pytest.raises(DataError, match=expected):
        open_store(sources, folder)
    file.unlink()
    with pytest.raises(DataError, match="any name: found no such file"):
        open_store(sources, folder)


def test_a_model_without_unk(tmp_path: Path) -> None:
    (tmp_path / "lm.arpa").write_text(SMALL.replace("ngram 1=5", "ngram 1=4").replace("-1.5\t<unk>\n", ""))
    write_kenlm(tmp_path / "lm.arpa", tmp_path / "lm.klm")
    before = (tmp_path / "lm.klm").read_bytes()
    lm, _ = binary(tmp_path / "lm.klm")
    assert entry(lm, np.int64(0)) == (-100.0, 0.0, False, False)
    assert (tmp_path / "lm.klm").read_bytes() == before


@pytest.mark.large
def test_training_is_the_same(tiny: Tiny, tmp_path: Path) -> None:
    write_kenlm(tiny.folder / "lm.arpa", tmp_path / "lm.klm")
    (tmp_path / "cdec.ini").write_text("feature_function=KLanguageModel lm.klm\n")
    runs = {
        "arpa": [],
        "binary": [f"lm.0.file={tmp_path / 'lm.klm'}", f"run.store={tmp_path / 'store'}"],
    }
    for name, overrides in runs.items():
        job = job_inputs.load_job(tiny.job_file(tmp_path / name), overrides)
        train(job, SerialComm())
    one, other = (gzip.decompress((tmp_path / name / "weights.txt.gz").read_bytes()) for name in runs)
    assert one == other and len(one) > 1000
    job_file = tmp_path / "job.toml"
    job_file.write_text(f'[decoder]\nconfig = "cdec.ini"\n[grammar]\nfile = "{tiny.folder / "grammar"}"\n')
    job = job_inputs.load_job(job_file, [])
    build_store(job_inputs.sources(job), tmp_path / "another")
    [(lm, _)] = open_store(job_inputs.sources(job), tmp_path / "another").model.lms
    assert lm.order == 3 and len(lm.node) == 0


HEADER = 108
"""Bytes of the header before the numbers of n-grams."""
CHANGES: dict[str, tuple[tuple[int, bytes], str]] = {
    "rest costs": ((96, b"\1"), r"a KenLM binary \(probing with rest costs\), expected a probing one"),
    "trie": ((96, b"\2"), r"a KenLM binary \(trie\), expected a probing one"),
    "quantised": ((96, b"\3"), r"a KenLM binary \(quantised trie\), expected a probing one"),
    "array": ((96, b"\4"), r"a KenLM binary \(array trie\), expected a probing one"),
    "quantised array": ((96, b"\5"), r"a KenLM binary \(quantised array trie\), expected a probing one"),
    "unknown kind": ((96, b"\6"), "a KenLM binary of kind 6, version 0, order 3, multiplier 1.5, expected kind 0"),
    "version of the kind": ((104, b"\1"), "a KenLM binary of kind 0, version 1, order 3"),
    "order": ((88, b"\1"), "a KenLM binary of kind 0, version 0, order 1"),
    "no multiplier": (
        (92, struct.pack("<f", 0.5)),
        "order 3, multiplier 0.5, expected .* a multiplier from 1 to 1e\\+09",
    ),
    "not a multiplier": ((92, struct.pack("<f", float("nan"))), "multiplier nan"),
    "endless tables": ((92, struct.pack("<f", float("inf"))), "multiplier inf"),
    "no room for tables": ((92, struct.pack("<f", 1e38)), "multiplier 1e\\+38"),
    "huge tables": ((92, struct.pack("<f", 1e8)), r"\d+ bytes, expected \d+ or more: is the file damaged or cut"),
    "another version": ((49, b"4"), r"a KenLM binary \(format version 4\), expected format version 5, or the ARPA"),
    "not finished": ((33, b" incomplete\n".ljust(23, b"\0")), r"a KenLM binary \(incomplete\), expected format"),
    "a 32-bit machine": ((80, struct.pack("<Q", 1 << 32)), "another kind of machine, expected one of a 64-bit"),
    "big-endian": ((60, struct.pack(">f", 1.0)), "a KenLM binary of another kind of machine"),
    "more n-grams": (
        (HEADER + 8, struct.pack("<Q", 300)),
        r"\d+ bytes, expected \d+ or more: is the file damaged or cut",
    ),
    "fewer n-grams": (
        (HEADER + 16, b"\0"),
        "1 3-grams in a table of 1, expected 0 or more, but not all: is the file damaged",
    ),
    "version of the words": ((136, b"\1"), "a table of 5 words, version 1, expected at most 6, version 0"),
    "more words": ((140, b"\7"), "a table of 7 words, version 0, expected at most 6"),
    "fewer words": ((140, b"\4"), "4 words up to number 4 in a table of 7, expected 3: is the file damaged"),
}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    (tmp_path / "lm.arpa").write_text(SMALL)
    write_kenlm(tmp_path / "lm.arpa", tmp_path / "lm.klm")
    return tmp_path / "lm.klm"


def refused(file: Path, data: bytes, message: str) -> None:
    file.write_bytes(data)
    assert is_kenlm(file)
    with pytest.raises(DataError, match=message) as error:
        read_kenlm(file)
    assert str(error.value).startswith(f"{file}: found ") and "\n" not in str(error.value)


@pytest.mark.parametrize("change", CHANGES)
def test_other_files_are_refused(small: Path, change: str) -> None:
    (place, new), message = CHANGES[change]
    data = small.read_bytes()
    refused(small, data[:place] + new + data[place + len(new) :], message)


def test_files_that_were_cut_are_refused(small: Path) -> None:
    data = small.read_bytes()
    for size in range(len(MAGIC) + 1, len(data)):
        refused(small, data[:size], "was it cut|was the file cut|is the file damaged")
    refused(small, data + b"x\0", "6 words written out, expected 5, the first <unk>")
    write_kenlm(small.with_name("lm.arpa"), small, with_words=False)
    whole = small.read_bytes()
    read_kenlm(small)
    refused(small, whole + b"\0", f"{len(whole) + 1} bytes, expected {len(whole)}: is the file damaged or cut")
    refused(small, whole[:-1], f"{len(whole) - 1} bytes, expected {len(whole)}: is the file damaged or cut")


def test_damaged_tables_are_refused(small: Path) -> None:
    data = small.read_bytes()
    words = 144
    unigrams = words + 7 * 12
    middle = unigrams + 6 * 8
    longest = middle + 6 * 16
    assert len(data) == longest + 3 * 12 + len(b"<unk> <s> </s> house the ")

    def with_zeros(begin: int, end: int) -> bytes:
        return data[:begin] + bytes(end - begin) + data[end:]

    refused(small, with_zeros(middle, longest), "0 2-grams in a table of 6, expected 4 or more, but not all: is the")
    refused(small, with_zeros(longest, longest + 36), "0 3-grams in a table of 3, expected 2 or more, but not all")
    refused(small, with_zeros(words, unigrams), "0 words up to number 0 in a table of 7, expected 4")
    used = next(i for i in range(middle, longest, 16) if any(data[i : i + 8]))
    full = data[:middle] + 6 * data[used : used + 16] + data[longest:]
    refused(small, full, "6 2-grams in a table of 6, expected 4 or more, but not all")
    slot = next(i for i in range(words, unigrams, 12) if any(data[i : i + 8])) + 8
    refused(small, data[:slot] + b"\5" + data[slot + 1 :], "4 words up to number 5 in a table of 7, expected 4")
    nan = struct.pack("<f", float("nan"))
    refused(small, data[:unigrams] + nan + data[unigrams + 4 :], "a 1-gram whose probability or backoff is not finite")
    refused(small, data[: used + 12] + nan + data[used + 16 :], "a 2-gram whose probability or backoff is not finite")


def test_models_without_sentence_boundaries_are_refused(small: Path) -> None:
    arpa = small.with_name("lm.arpa")
    for word in ("<s>", "</s>"):
        arpa.write_text(SMALL.replace(word, "a"))
        write_kenlm(arpa, small)
        refused(small, small.read_bytes(), f"no {word} among the 1-grams, expected a model of sentences between")


def test_gzipped_binaries_are_refused(small: Path) -> None:
    data = small.read_bytes()
    small.write_bytes(gzip.compress(data))
    assert not is_kenlm(small)
    with pytest.raises(DataError, match="lm.klm: found a gzipped KenLM binary, expected it unpacked"):
        read_arpa(small)
    small.write_bytes(gzip.compress(data[:96] + b"\2" + data[97:]))
    with pytest.raises(DataError, match=r"lm.klm: found a KenLM binary \(trie\), expected a probing one"):
        read_arpa(small)


def test_missing_files_are_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="lm.klm: found no such file"):
        is_kenlm(tmp_path / "lm.klm")
    with pytest.raises(DataError, match="found a folder"):
        is_kenlm(tmp_path)
