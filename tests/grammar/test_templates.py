"""Sparse templates."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from mpitune.corpus.text import read_sentences
from mpitune.corpus.vocabulary import Vocabulary
from mpitune.corpus.weights import read_weights
from mpitune.errors import UsageError
from mpitune.grammar.rules import RuleReader
from mpitune.grammar.sparse import Gap, Rule, template_names
from mpitune.grammar.templates import GLUE, all_names, as_symbols, features, pass_through

TEMPLATES = template_names(of_lists=False)

X1, X2 = Gap("X", 1), Gap("X", 2)
PAPER = ["id", "source-bigram", "shape"]


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        (
            Rule("X", [X1, "letzter", X2], [X1, "'s", "last", X2]),
            [
                "R:X:NX_letzter_NX:N1_'s_last_N2",
                *("RBS:<r>_X", "RBS:X_letzter", "RBS:letzter_X", "RBS:X_</r>"),
                *("RBT:<r>_X1", "RBT:X1_'s", "RBT:'s_last", "RBT:last_X2", "RBT:X2_</r>"),
                "Shape_S01110_T01110",
            ],
        ),
        (
            Rule("X", [Gap("NP", 1), Gap("VP", 2)], [Gap("VP", 2), "a", Gap("NP", 1)]),
            [
                "R:X:NNP_NVP:N2_a_N1",
                *("RBS:<r>_NP", "RBS:NP_VP", "RBS:VP_</r>"),
                *("RBT:<r>_VP2", "RBT:VP2_a", "RBT:a_NP1", "RBT:NP1_</r>"),
                "Shape_S01010_T01110",
            ],
        ),
        (pass_through("w"), ["R:X:w:w", "RBS:<r>_w", "RBS:w_</r>", "RBT:<r>_w", "RBT:w_</r>", "Shape_S10000_T10000"]),
        (GLUE[0], ["R:S:NX:N1", "RBS:<r>_X", "RBS:X_</r>", "RBT:<r>_X1", "RBT:X1_</r>", "Shape_S01000_T01000"]),
        (
            GLUE[1],
            [
                "R:S:NS_NX:N1_N2",
                *("RBS:<r>_S", "RBS:S_X", "RBS:X_</r>"),
                *("RBT:<r>_S1", "RBT:S1_X2", "RBT:X2_</r>"),
                "Shape_S01010_T01010",
            ],
        ),
        (Rule("X", ["a"], []), ["R:X:a:", "RBS:<r>_a", "RBS:a_</r>", "RBT:<r>_</r>", "Shape_S10000_T00000"]),
        (Rule("X", ["\x1b"], ["a\r\x7f"]), ["R:X:_:a__", "RBS:<r>__", "RBS:__</r>", "RBT:<r>_a__", "RBT:a___</r>"]),
        (Rule("X", ["=;"], ["a=b"]), ["R:X:__:a_b", "RBS:<r>___", "RBS:___</r>", "RBT:<r>_a_b", "RBT:a_b_</r>"]),
    ],
)
def test_features_have_the_names_of_the_reference(rule: Rule, names: list[str]) -> None:
    chosen = TEMPLATES[: 4 if names[-1].startswith("Shape") else 3]
    assert features(chosen, rule) == [(name, 1.0) for name in names]


WORDS = ["word-pair", "insertion", "target-words"]


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        (
            Rule("X", ["a", X1, "b"], ["c", "d", X1, "e", "f"], [(0, 1), (2, 1), (1, 2), (2, 4)]),
            [
                *("WP:a_d", "WP:b_d", "WP:b_f"),
                *("INS:a_c", "INS:b_c", "INS:a_e", "INS:b_e"),
                *("TB:c_d", "TB:e_f"),
            ],
        ),
        (Rule("X", ["a"], ["b", X1, "c"], [(0, 0)]), ["WP:a_b", "INS:a_c"]),
        (Rule("X", ["a", X1], ["b", "c", X1]), ["TB:b_c"]),
        (Rule("X", [X1], ["=", X1], [(0, 1)]), []),
        (Rule("X", ["=a"], [";"], [(0, 0)]), ["WP:_a__"]),
        (pass_through("w"), ["WP:w_w"]),
        (GLUE[0], []),
        (GLUE[1], []),
    ],
)
def test_aligned_words_make_pairs(rule: Rule, names: list[str]) -> None:
    """Two links of a word are two pairs; a word linked to a gap is not inserted; no alignment, no pairs."""
    assert features(WORDS, rule) == [(name, 1.0) for name in names]


def test_all_words_make_pairs() -> None:
    """Gaps aside, and whatever the alignment says."""
    words = Rule("X", ["a", X1, "b", "a"], ["c", X1, "d"], [(0, 0)])
    counts = {"WPA:a_c": 2.0, "WPA:a_d": 2.0, "WPA:b_c": 1.0, "WPA:b_d": 1.0}
    assert dict(features(["word-pair-all"], words)) == counts
    assert features(["word-pair-all"], Rule("X", ["=a"], [";"])) == [("WPA:_a__", 1.0)]
    assert features(["word-pair-all"], pass_through("w")) == [("WPA:w_w", 1.0)]
    for empty in (GLUE[1], Rule("X", ["a"], []), Rule("X", ["a", X1], [X1])):
        assert features(["word-pair-all"], empty) == []


def test_pairs_and_insertions_are_counted() -> None:
    rule = Rule("X", ["a", "b", "a"], ["c", "d", "c", "d", "c"], [(0, 0), (2, 2)])
    assert dict(features(WORDS, rule)) == {
        "WP:a_c": 2.0,
        "INS:a_d": 4.0,
        "INS:b_d": 2.0,
        "INS:a_c": 2.0,
        "INS:b_c": 1.0,
        "TB:c_d": 2.0,
        "TB:d_c": 2.0,
    }


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        # In the order of the source; the adjective after its noun.
        (Rule("X", ["a", X1, "b"], ["c", X1, "d"], [(0, 0), (2, 2)]), ["RO:c_1", "RO:X_1", "RO:d_1", "RO:</r>_1"]),
        (Rule("X", ["a", "b"], ["c", "d"], [(0, 1), (1, 0)]), ["RO:c_2", "RO:d_-1", "RO:</r>_2"]),
        (Rule("X", [X1, "a", X2], [X2, X1], []), ["RO:X_3", "RO:X_-2", "RO:</r>_3"]),
        # The first of several source words comes after the last one before it; words without a link are skipped.
        (
            Rule("X", ["a", "b", "c", "d"], ["e", "f", "g"], [(3, 0), (1, 0), (2, 2), (3, 2)]),
            ["RO:e_2", "RO:g_-1", "RO:</r>_1"],
        ),
        (Rule("X", ["a"], ["b", "c", "d"], [(0, 0), (0, 2)]), ["RO:b_1", "RO:d_0", "RO:</r>_1"]),
        # Larger distances are 3.
        (Rule("X", [*"abcdef"], ["g", "h"], [(5, 0), (0, 1)]), ["RO:g_3", "RO:h_-3", "RO:</r>_3"]),
        (Rule("X", ["a", "b"], ["=", ";"], [(0, 0), (1, 1)]), ["RO:__1", "RO:__1", "RO:</r>_1"]),
        (Rule("X", ["a"], ["b"]), ["RO:</r>_2"]),
        (pass_through("w"), ["RO:w_1", "RO:</r>_1"]),
        (GLUE[1], ["RO:S_1", "RO:X_1", "RO:</r>_1"]),
    ],
)
def test_distances_of_the_sources_of_target_symbols(rule: Rule, names: list[str]) -> None:
    assert features(["reordering"], rule) == [(name, float(n)) for name, n in Counter(names).items()]


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        (
            Rule("X", ["a", X1, "b", "c"], ["d", X1, "e"], [(0, 0), (0, 2), (2, 2), (1, 1)]),
            ["FERT:a_2", "FERT:b_1", "FERT:c_0"],
        ),
        # Links to a gap do not count, four as three.
        (Rule("X", ["a", X1], [X1, "b"], [(0, 0)]), ["FERT:a_0"]),
        (Rule("X", ["a", "b"], [*"cdef"], [(0, 0), (0, 1), (0, 2), (0, 3)]), ["FERT:a_3", "FERT:b_0"]),
        (Rule("X", ["a", "=", "a"], ["b"], [(0, 0), (2, 0)]), ["FERT:a_1", "FERT:__0", "FERT:a_1"]),
        (Rule("X", ["a"], ["b"]), []),
        (pass_through("w"), ["FERT:w_1"]),
        (GLUE[1], []),
    ],
)
def test_numbers_of_linked_target_words(rule: Rule, names: list[str]) -> None:
    assert features(["fertility"], rule) == [(name, float(n)) for name, n in Counter(names).items()]


@pytest.mark.parametrize(
    ("side", "shape"),
    [
        (["w"], "10000"),
        ([X1, "w"], "01100"),
        (["w", X1], "11000"),
        ([X1, X2], "01010"),
        ([X2, "w", X1], "01110"),
        (["v", "w", X1, "v", "w", X2, "v", "w"], "11111"),
        ([X1, X2, "w"], "01011"),
        ([], "00000"),
    ],
)
def test_shapes_of_sides(side: list[str | Gap], shape: str) -> None:
    assert features(["shape"], Rule("X", ["w"], side)) == [(f"Shape_S10000_T{shape}", 1.0)]


def test_counts_add() -> None:
    counted = dict(features(["source-bigram", "target-bigram"], Rule("X", ["a", "b", "a", "b"], ["=", ";", "="])))
    assert counted["RBS:a_b"] == 2.0
    assert counted["RBT:___"] == 2.0


def test_an_unknown_template_is_refused() -> None:
    with pytest.raises(UsageError, match="'shapes', expected any of id, source-bigram, target-bigram, shape"):
        features(["id", "shapes"], GLUE[0])


def test_all_names_are_those_of_each_rule(tmp_path: Path) -> None:
    (tmp_path / "g").write_text(
        "[X] ||| a [NP,2] a [X,1] ||| b = [1] [2]\n[NP] ||| a a a ||| \n[X] ||| a ||| a\n"
        "[X] ||| a [X,1] a ||| b [1] c = ||| Cost=1 ||| 0-0 2-2 2-0\n"
    )
    vocabulary = Vocabulary()
    reader = RuleReader(vocabulary)
    reader.read(tmp_path / "g")
    arguments = (reader.rules().types, reader.categories, vocabulary.words)
    rules = [
        Rule("X", ["a", Gap("NP", 1), "a", Gap("X", 2)], ["b", "=", Gap("X", 2), Gap("NP", 1)]),
        Rule("NP", ["a", "a", "a"], []),
        Rule("X", ["a"], ["a"]),
        Rule("X", ["a", X1, "a"], ["b", X1, "c", "="], [(0, 0), (2, 2), (2, 0)]),
    ]
    fired = [name for rule in (*rules, *GLUE) for name, _ in features(TEMPLATES, rule)]
    assert set(all_names(TEMPLATES, *arguments)) == set(fired)
    assert list(all_names([], *arguments)) == []


class News(NamedTuple):
    """The features of the rules of the news data."""

    rows: list[dict[str, float]]
    names: set[str]


@pytest.fixture(scope="module")
def news(shared: Path) -> News:
    vocabulary = Vocabulary()
    reader = RuleReader(vocabulary)
    reader.read(shared / "data" / "nc" / "grammar.gz")
    types, categories = reader.rules().types, reader.categories
    rules = [as_symbols(types, number, categories, vocabulary.words) for number in range(len(types.side))]
    sources = [word for sentence in read_sentences(shared / "data" / "nc" / "nc.de.gz")[:50] for word in sentence.words]
    rows = [dict(features(PAPER, rule)) for rule in (*rules, *GLUE, *map(pass_through, sources))]
    return News(rows, {name for row in rows for name in row})


@pytest.mark.slow
def test_names_and_counts_are_those_of_the_reference_decoder(shared: Path, news: News) -> None:
    """Each golden derivation tells its rules by their ids; their other features must add up to the golden ones."""
    fires = {next(name for name in row if name.startswith("R:")): row for row in news.rows}
    entries = 0
    with gzip.open(shared / "golden" / "nc-sparse.kbest.gz", "rt") as file:
        for line in file:
            scores = dict(score.rsplit("=", 1) for score in line.split(" ||| ")[2].split())
            golden = {name: float(v) for name, v in scores.items() if name.startswith(("R:", "RBS:", "Shape_"))}
            assert golden.keys() <= news.names
            sums: Counter[str] = Counter()
            for name in golden:
                if name.startswith("R:"):
                    row = fires.get(name) or dict(features(PAPER, pass_through(name.split(":")[2])))
                    assert name in row
                    for fired, count in row.items():
                        sums[fired] += int(count * golden[name])
            assert sums == golden
            entries += 1
    assert entries > 4000


def test_the_golden_weights_name_known_features(shared: Path, news: News) -> None:
    weights = read_weights(shared / "golden" / "nc-sparse.weights")
    sparse = {name for name in weights if name.startswith(("R:", "RBS:"))}
    assert sparse
    assert sparse <= news.names
