"""The data of `make demo`, small: what is said of it holds, and a run over it learns."""

from __future__ import annotations

import gzip
import json
import math
from collections import defaultdict
from pathlib import Path

import pytest
from support.mpi import ROOT

from mpitune.cli.parser import main
from mpitune.corpus.vocabulary import Vocabulary
from mpitune.demo import generate
from mpitune.grammar.rules import RuleReader

pytestmark = pytest.mark.slow

DEMO = ROOT / "mpitune" / "demo"
PARTS = ("bitext", "train", "devtest", "test")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of seed 1, a fifth of their size, with a language model."""
    folder = tmp_path_factory.mktemp("demo")
    write(folder, 1)
    assert main(["lm", "--order", "3", "--input", f"{folder}/lm.en", "--output", f"{folder}/lm.arpa.gz"]) == 0
    return folder


def write(folder: Path, seed: int, part: int = 5) -> None:
    """One ``part``-th of the data."""
    with pytest.MonkeyPatch.context() as patch:
        for sizes in ("SIZES", "HELD_OUT_SIZES"):
            patch.setattr(generate, sizes, {name: n // part for name, n in getattr(generate, sizes).items()})
        generate.generate(folder, seed)


def lines(path: Path) -> list[str]:
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode().splitlines()


def test_a_seed_gives_the_same_bytes_and_another_gives_others(tmp_path: Path) -> None:
    for name, seed in {"first": 1, "again": 1, "other": 2}.items():
        write(tmp_path / name, seed, part=15)
    for path in {*(tmp_path / "first").iterdir()} - {tmp_path / "first" / generate.START}:
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes(), path.name
        assert path.read_bytes() != (tmp_path / "other" / path.name).read_bytes(), path.name


def test_no_sentence_is_in_two_parts(demo: Path) -> None:
    for language in ("de", "en"):
        sentences = [line for part in PARTS for line in lines(demo / f"{part}.{language}")]
        assert len(set(sentences)) == len(sentences) > 1000
    assert not set(lines(demo / "lm.en")) & set(lines(demo / "test.en"))


def test_every_word_of_the_test_set_has_a_rule(demo: Path) -> None:
    known = {rule.split(" ||| ")[1] for rule in lines(demo / "grammar.gz")}
    assert {word for line in lines(demo / "test.de") for word in line.split()} <= known


def test_the_alignment_fits_the_bitext(demo: Path) -> None:
    pairs = zip(*(lines(demo / f"bitext.{end}") for end in ("de", "en", "align")), strict=True)
    linked = words = 0
    for source, target, links in pairs:
        points = [tuple(map(int, link.split("-"))) for link in links.split()]
        assert all(i < len(source.split()) and j < len(target.split()) for i, j in points)
        linked += len({i for i, _ in points})
        words += len(source.split())
    assert 0.7 < linked / words < 1, "some links are lost, as aligners lose them"


def test_the_grammar_is_one_that_mpitune_reads(demo: Path) -> None:
    reader = RuleReader(Vocabulary())
    reader.read(demo / "grammar.gz")
    rules = reader.rules()
    assert len(rules.type) == len(lines(demo / "grammar.gz")) > 1000
    expected = "CountEF EgivenFCoherent IsSingletonF IsSingletonFE MaxLexEgivenF MaxLexFgivenE SampleCountF"
    assert sorted(reader.score_names) == expected.split()


def test_scores_are_those_of_the_counts(demo: Path) -> None:
    """Of rules for single words, counted here the slow way."""
    given: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    seen: dict[str, int] = defaultdict(int)
    pairs = zip(*(lines(demo / f"bitext.{end}") for end in ("de", "en", "align")), strict=True)
    for source, target, links in pairs:
        points = [tuple(map(int, link.split("-"))) for link in links.split()]
        for i, word in enumerate(source.split()):
            if seen[word] == 300:
                continue
            seen[word] += 1
            of_word = [j for a, j in points if a == i]
            # One target word, and nothing else linked to it.
            if len(of_word) == 1 and [a for a, j in points if j == of_word[0]] == [i]:
                given[word][target.split()[of_word[0]]] += 1
    checked = 0
    for line in lines(demo / "grammar.gz"):
        _, source, target, scores, _ = line.split(" ||| ")
        if len(source.split()) == len(target.split()) == 1:
            values = {name: float(value) for name, value in (score.split("=") for score in scores.split())}
            count = given[source][target]
            assert values["CountEF"] == pytest.approx(math.log10(1 + count), abs=1e-5), line
            assert values["SampleCountF"] == pytest.approx(math.log10(1 + seen[source]), abs=1e-5), line
            assert values["EgivenFCoherent"] == pytest.approx(math.log10(seen[source] / count), abs=1e-5), line
            assert values["IsSingletonFE"] == (count == 1)
            checked += 1
    assert checked > 200


ARTICLES = {
    "m": {"der", "den", "dem", "des"},
    "f": {"die", "der"},
    "n": {"das", "dem", "des"},
    "p": {"die", "den", "der"},
}


def test_articles_agree_with_their_nouns(demo: Path) -> None:
    """An article directly before a noun is one that the noun's gender, or its plural, can have."""
    licensed: dict[str, set[str]] = defaultdict(set)
    section = ""
    for line in lines(DEMO / "nouns.txt"):
        if line.startswith("["):
            section = line
        elif section == "[nouns]" and "|" in line and not line.startswith("#"):
            word, gender, *_ = line.split("|")[0].split()
            licensed[word.lower()] |= ARTICLES[gender] | ARTICLES["p"]
    wrong = found = 0
    for part in PARTS:
        for line in lines(demo / f"{part}.de"):
            words = line.split()
            for article, noun in zip(words, words[1:], strict=False):
                if article in {"der", "die", "das", "den", "dem", "des"} and noun in licensed:
                    found += 1
                    wrong += article not in licensed[noun]
    assert found > 500 and wrong == 0


def test_participles_end_their_clauses(demo: Path) -> None:
    """The English side has them, if at all, beside their auxiliary."""
    verbs = [line.split() for line in lines(DEMO / "verbs.txt") if line[:1].islower()]
    participles = {words[3].removeprefix("ist_") for words in verbs if len(words) == 4}
    found = 0
    for part in PARTS:
        for line in lines(demo / f"{part}.de"):
            words = line.split()
            if len(words) > 6 and "," not in words and words[1] in ("hat", "haben"):
                assert words[-2] in participles, line
                found += 1
    assert found > 50


def test_separable_verbs_are_split(demo: Path) -> None:
    """A main clause that ends with a prefix has the rest of its verb before that: "kündigt ... an"."""
    rests: dict[str, set[str]] = defaultdict(set)
    for line in lines(DEMO / "verbs.txt"):
        words = line.split()
        if line[:1].islower() and "|" in words[0] and len(words) == 4:
            rests[words[0].split("|")[0]] |= {form for column in words[1:3] for form in column.split("/")}
    found = 0
    for part in PARTS:
        for line in lines(demo / f"{part}.de"):
            words = line.split()
            if "," not in words and words[-2] in rests:
                # The first letters: the other persons end otherwise.
                stems = {form[:3] for form in rests[words[-2]]}
                assert any(word[:3] in stems for word in words[:-2]), line
                found += 1
    assert found > 20


def test_runs_over_it_learn(demo: Path, tmp_path: Path) -> None:
    """By more than 2 points over the weights of start.weights, whether they begin with them or with none."""
    settings = {
        "data.source": demo / "train.de",
        "data.references": json.dumps([str(demo / "train.en")]),
        "data.devtest.source": demo / "devtest.de",
        "data.devtest.references": json.dumps([str(demo / "devtest.en")]),
        "grammar.file": demo / "grammar.gz",
        "learner.epochs": 2,
    }
    # [[lm]] cannot be set from outside: the job's text with another file.
    job = (ROOT / "mpitune" / "templates" / "demo.toml").read_text(encoding="utf-8")
    assert "data/lm.arpa.gz" in job
    job = job.replace("data/lm.arpa.gz", str(demo / "lm.arpa.gz"))
    (tmp_path / "demo.toml").write_text(job, encoding="utf-8")

    def run(folder: Path, **further: object) -> tuple[float, list[float]]:
        """Devtest BLEU before training, and after each epoch."""
        keys = {**settings, "run.dir": folder, "run.store": tmp_path / "store", **further}
        words = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
        assert main(["train", str(tmp_path / "demo.toml"), "--quiet", *words]) == 0
        before = (folder / "log.txt").read_text(encoding="utf-8").split("before training: devtest BLEU ")[1].split()[0]
        return float(before), [json.loads(line)["devtest_bleu"] for line in lines(folder / "metrics.jsonl")]

    before, after = run(tmp_path / "guess", **{"learner.initial_weights": DEMO / "start.weights"})
    assert max(after) > before + 2
    assert max(run(tmp_path / "none")[1]) > before + 2
