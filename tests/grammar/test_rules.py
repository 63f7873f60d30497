"""Grammar files to arrays."""

from __future__ import annotations

import gzip
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.naive_rules import NaiveReader

from mpitune.corpus import lines
from mpitune.corpus.vocabulary import Vocabulary
from mpitune.errors import DataError
from mpitune.grammar.rules import RuleReader, Rules, is_cyclic, unary_levels

Rows = tuple[Any, ...]


def rows(ptr: np.ndarray, flat: np.ndarray) -> list[Rows]:
    return [
        tuple(tuple(row) if isinstance(row, list) else row for row in flat[begin:end].tolist())
        for begin, end in pairwise(ptr.tolist())
    ]


class Grammar:
    """A grammar read from text, with its rules told in words again."""

    def __init__(self, folder: Path, *contents: str) -> None:
        self.vocabulary = Vocabulary()
        reader = RuleReader(self.vocabulary)
        for i, content in enumerate(contents):
            path = folder / f"g{i}"
            path.write_text(content)
            reader.read(path)
        self.rules: Rules = reader.rules()
        self.grammar_ptr = reader.grammar_ptr.tolist()
        self.categories = reader.categories
        self.score_names = reader.score_names

    def type(self, t: int) -> tuple[str, str, str, list[list[int]]]:
        r = self.rules.types
        side, alignment = r.side[t], r.alignment[t]
        source = r.source[r.source_ptr[side] : r.source_ptr[side + 1]].tolist()
        target_side = r.target_side[t]
        target = r.target[r.target_ptr[target_side] : r.target_ptr[target_side + 1]].tolist()
        return (
            self.categories[r.lhs[side]],
            " ".join(self.vocabulary.words[s] if s >= 0 else f"[{self.categories[-1 - s]}]" for s in source),
            " ".join(self.vocabulary.words[s] if s >= 0 else f"[{-s}]" for s in target),
            r.align[r.align_ptr[alignment] : r.align_ptr[alignment + 1]].tolist(),
        )

    def numbers_of_types(self) -> list[tuple[int, Rows, Rows, Rows]]:
        """Left-hand side, source side, target side and links of each type."""
        r = self.rules.types
        sources, targets = rows(r.source_ptr, r.source), rows(r.target_ptr, r.target)
        links = rows(r.align_ptr, r.align)
        lhs = r.lhs.tolist()
        numbers = zip(r.side.tolist(), r.target_side.tolist(), r.alignment.tolist(), strict=True)
        return [(lhs[side], sources[side], targets[target], links[alignment]) for side, target, alignment in numbers]

    def scores(self, rule: int) -> dict[str, float]:
        number = self.rules.score_row[rule]
        row = slice(self.rules.score_ptr[number], self.rules.score_ptr[number + 1])
        index, value = self.rules.score_index[row].tolist(), self.rules.score_value[row].tolist()
        return {self.score_names[i]: v for i, v in zip(index, value, strict=True)}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("[X] ||| a b ||| c", ("X", "a b", "c", [])),
        ("[X] ||| a ||| ", ("X", "a", "", [])),
        ("[X]\t|||\ta  b |||  c\t", ("X", "a b", "c", [])),
        ("[X] ||| [X,1] a [X,2] ||| [2] b [1]", ("X", "[X] a [X]", "[2] b [1]", [])),
        ("[X] ||| [X,1] a [X,2] ||| [X,2] b [X,1]", ("X", "[X] a [X]", "[2] b [1]", [])),
        ("[X] ||| [NP,2] a [X,1] ||| [1] b [2]", ("X", "[NP] a [X]", "[2] b [1]", [])),
        ("[S] ||| [S,1] [X,2] ||| [1] [2] ||| Glue=1", ("S", "[S] [X]", "[1] [2]", [])),
        ("[NP-SBJ] ||| [X] a ||| [1]", ("NP-SBJ", "[X] a", "[1]", [])),
        ("[X] ||| [ ] [] ||| [ ] [x [1,2", ("X", "[ ] []", "[ ] [x [1,2", [])),
        ("[X] ||| a [X,1] b ||| c [1] ||| ||| 0-0 2-0 1-1", ("X", "a [X] b", "c [1]", [[0, 0], [2, 0], [1, 1]])),
        ("[X] ||| a ||| b ||| |||", ("X", "a", "b", [])),
    ],
)
def test_legal_lines_are_read(tmp_path: Path, line: str, expected: tuple[str, str, str, list[list[int]]]) -> None:
    grammar = Grammar(tmp_path, line + "\n")
    assert grammar.type(0) == expected
    assert grammar.categories[:2] == ["S", "X"]


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("", {}),
        (" ||| ", {}),
        (" ||| 1.5 0 -2", {"PhraseModel_0": 1.5, "PhraseModel_2": -2.0}),
        (" ||| A=1 B=0 C=-2e-3", {"A": 1.0, "C": -0.002}),
        (" ||| A_1=1 2.5", {"A_1": 1.0, "PhraseModel_1": 2.5}),
        (" ||| 1 ||| 0-0", {"PhraseModel_0": 1.0}),
    ],
)
def test_scores_are_read_by_name(tmp_path: Path, field: str, expected: dict[str, float]) -> None:
    assert Grammar(tmp_path, f"[X] ||| a ||| b{field}\n").scores(0) == expected


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("", "found 1 field, expected"),
        ("[X] ||| a", "found 2 fields, expected"),
        ("[X] ||| a ||| b ||| 1 ||| 0-0 ||| x", "found 6 fields, expected"),
        ("X ||| a ||| b", "found left-hand side 'X', expected a category such as"),
        ("[X,1] ||| a ||| b", "found left-hand side"),
        ("[X] ||| ||| b", "found an empty source side"),
        ("[X] ||| [X,1] a [X,2] b [X,3] ||| [1] [2] [3]", "found 3 gaps, expected at most 2"),
        ("[X] ||| [X,1] a [X,1] ||| [1]", "found gap 1 twice"),
        ("[X] ||| [X,1] a [X,3] ||| [1] [3]", "found source gaps numbered 1, 3, expected gaps numbered 1 to 2"),
        ("[X] ||| [X,0] a ||| [0]", "found source gaps numbered 0"),
        (f"[X] ||| [X,{'9' * 20}] a ||| [1]", f"found source gaps numbered {'9' * 20}, expected gaps numbered 1 to 1"),
        (f"[X] ||| [X,0{'9' * 5000}] a ||| [1]", rf"found source gaps numbered {'9' * 57}\.\.\., expected gaps"),
        (
            f"[X] ||| [X,{'9' * 20}] [X,{'8' * 20}] ||| [1]",
            f"found source gaps numbered {'9' * 20}, {'8' * 20}, expected",
        ),
        (f"[X] ||| [X,{'9' * 20}] [X,0{'9' * 20}] ||| [1]", f"found gap {'9' * 20} twice on the source side"),
        ("[X] ||| a ||| b ||| #A=1", "found score name '#A', expected one without blanks and control characters that"),
        ("[X] ||| a ||| b ||| A\x7f=1", r"found score name 'A\\x7f', expected one without blanks"),
        (f"[X] ||| [X,1] a ||| [{'9' * 5000}]", r"found target gap \[9+\], expected one of the source's gaps \(1\)"),
        ("[X] ||| [X,1] a ||| b", "found target gaps none, expected each gap of the source"),
        ("[X] ||| [X,1] a [X,2] ||| [1] b", "found target gaps 1, expected each gap of the source"),
        ("[X] ||| [X,1] a ||| [1] [1]", "found target gaps 1, 1, expected each"),
        ("[X] ||| [X,1] a ||| [2]", r"found target gap \[2\], expected one of the source's gaps \(1\)"),
        ("[X] ||| a ||| [1]", r"found target gap \[1\], expected one of the source's gaps \(it has none\)"),
        ("[X] ||| [NP,1] a ||| [X,1]", r"found target gap \[X,1\], expected \[NP,1\]"),
        ("[X] ||| a ||| b ||| nan", "found score 'nan', expected a number from -1e30 to 1e30"),
        ("[X] ||| a ||| b ||| A=1 B=inf", "found score 'B=inf', expected a number from -1e30 to 1e30"),
        ("[X] ||| a ||| b ||| A=1 B=1e308", "found score 'B=1e308', expected a number from -1e30 to 1e30"),
        ("[X] ||| a ||| b ||| -1.1e30 1", "found score '-1.1e30', expected a number from -1e30 to 1e30"),
        ("[X] ||| a\0 ||| b ||| 1", "found a NUL character"),
        ("[X] ||| a ||| b ||| A=1;B=2", "found a score named 'A=1;B'"),
        ("[X] ||| a ||| b ||| A=", "found score 'A='"),
        ("[X] ||| a ||| b ||| =1", "found a score named ''"),
        ("[X] ||| a ||| b ||| A", "found score 'A'"),
        ("[X] ||| a ||| b ||| 1_0", "found score '1_0'"),
        ("[X] ||| a ||| b ||| A=1 A=1", "found score A twice"),
        ("[X] ||| a ||| b ||| 1 PhraseModel_0=1", "found score PhraseModel_0 twice"),
        ("[X] ||| a ||| b ||| 1 ||| 0-1", "found alignment '0-1', expected i-j with i below 1 and j below 1"),
        ("[X] ||| a ||| b ||| 1 ||| 1-0", "found alignment '1-0'"),
        ("[X] ||| a ||| b ||| 1 ||| 0:0", "found alignment '0:0'"),
        (f"[X] ||| a ||| b ||| 1 ||| 0-{'9' * 5000}", "found alignment '0-999"),
        (f"[X] ||| a ||| {'b ' * 32768}", "found a side of 32768 symbols, expected at most 32767"),
        (f"[X] ||| {'a ' * 32768} ||| b", "found a side of 32768 symbols, expected at most 32767"),
        ("[X] ||| [X,1] ||| [1]", "found a unary rule from X to X that closes a cycle"),
        ("[X] ||| [S,1] ||| [1]", "found a unary rule from X to S that closes a cycle"),
    ],
)
def test_bad_lines_are_refused(tmp_path: Path, line: str, told: str) -> None:
    with pytest.raises(DataError, match=rf"g0:2: {told}"):
        Grammar(tmp_path, f"[X] ||| a ||| b ||| A=1 B=2 ||| 0-0\n{line}\n")


def test_cycles_of_unary_rules(tmp_path: Path) -> None:
    chain = "[X] ||| [Y,1] ||| [1]\n[S] ||| [Y,1] ||| [1]\n[X] ||| [Y,1] ||| a [1]\n[Y] ||| [Z,1] ||| [1]\n"
    assert len(Grammar(tmp_path, chain, chain).rules.types.side) == 4
    closing = "[Z] ||| [X,1] ||| [1]\n"
    with pytest.raises(DataError, match=r"g1:5: found a unary rule from Z to X that closes a cycle"):
        Grammar(tmp_path, "[Z] ||| a ||| a\n", chain + closing)
    # Nor may one arise between the grammars of different sentences.
    with pytest.raises(DataError, match=r"g1:2: found a unary rule from Z to X that closes a cycle"):
        Grammar(tmp_path, chain, f"[X] ||| a ||| a\n{closing}")


@pytest.mark.parametrize("seed", range(30))
def test_the_line_that_closes_a_cycle_is_found_in_any_order(tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    pairs = random.integers(0, 12, (40, 2)).tolist()
    lines = [f"[C{parent}] ||| [C{child},1] ||| [1]" for parent, child in pairs]

    def reached(pair: list[int], before: list[list[int]]) -> set[int]:
        """All categories that the child of ``pair`` derives, itself too."""
        found = {pair[1]}
        for _ in before:
            found |= {child for parent, child in before if parent in found}
        return found

    first = next(n for n, pair in enumerate(pairs) if pair[0] in reached(pair, pairs[:n]))
    cut = int(random.integers(0, first + 1))
    texts = ["".join(f"{line}\n" for line in part) for part in (lines[:cut], lines[cut:])]
    with pytest.raises(DataError, match=rf"g1:{first - cut + 1}: found a unary rule from C{pairs[first][0]} to "):
        Grammar(tmp_path, *texts)


def test_long_chains_of_unary_rules(tmp_path: Path) -> None:
    size = 3000
    chain = [f"[C{n}] ||| [C{n - 1},1] ||| [1]\n" for n in range(1, size)]
    types = Grammar(tmp_path, "".join(chain)).rules.types
    assert len(types.side) == size - 1
    with pytest.raises(DataError, match=rf"g1:2: found a unary rule from C0 to C{size - 1} that closes a cycle"):
        Grammar(tmp_path, "".join(chain), f"{chain[0]}[C0] ||| [C{size - 1},1] ||| [1]\n")


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9))))
def test_levels_of_unary_rules(pairs: list[tuple[int, int]]) -> None:
    rules = [(parent, child) for parent, child in pairs if parent > child]
    left, levels = {category for rule in rules for category in rule}, []
    while left:
        levels.append(sorted(left - {parent for parent, child in rules if child in left}))
        left -= set(levels[-1])
    assert list(unary_levels(rules)) == levels
    assert not is_cyclic(rules)
    assert is_cyclic([*rules, *((child, parent) for parent, child in rules[:1]), (0, 0)])


def test_grammars_share_types_and_keep_all_lines(tmp_path: Path) -> None:
    first = "[X] ||| b ||| u ||| 1 ||| 0-0\n[X] ||| a ||| v ||| 2\n[X] ||| b ||| u ||| 3 ||| 0-0\n"
    second = "[X] ||| b ||| u ||| 4\n[X] ||| b ||| u ||| 5 ||| 0-0\n"
    grammar = Grammar(tmp_path, first, "", second)
    assert grammar.grammar_ptr == [0, 3, 3, 5]
    assert [grammar.type(t) for t in range(3)] == [("X", "b", "u", [[0, 0]]), ("X", "a", "v", []), ("X", "b", "u", [])]
    assert grammar.rules.type.tolist() == [0, 0, 1, 2, 0]
    assert [grammar.scores(i)["PhraseModel_0"] for i in range(5)] == [1, 3, 2, 4, 5]


def test_an_empty_grammar_has_all_its_arrays(tmp_path: Path) -> None:
    grammar = Grammar(tmp_path, "")
    assert grammar.grammar_ptr == [0, 0]
    assert grammar.rules.score_ptr.tolist() == grammar.rules.types.source_ptr.tolist() == [0]
    assert grammar.rules.types.align.shape == (0, 2)


def test_an_empty_grammar_does_not_tell_the_format(tmp_path: Path) -> None:
    grammar = Grammar(tmp_path, "", "haus [X] ||| house [X] ||| 0.5 ||| 0-0\n")
    assert grammar.grammar_ptr == [0, 0, 1] and grammar.type(0) == ("X", "haus", "house", [[0, 0]])


RULE = st.sampled_from(
    [
        "[X] ||| b a ||| b ||| A=1 B=0 ||| 0-0\n",
        "[X] ||| b  a ||| b ||| B=0.5 ||| 0-0\n",
        "[X] ||| b ||| c ||| 1 A=-1e-3\n",
        "[X] ||| [X,1] b ||| c [1] ||| A=2 ||| 1-0\n",
        "[X] ||| [X,1] b ||| c [X,1] ||| A=3 ||| 1-0\n",
        "[X] ||| [X,1] b [NP,2] ||| [2] c [1]\n",
        "[NP] ||| [VP,1] ||| [1]\n",
        "[NP] ||| a |||\n",
        "[S] ||| b ||| c ||| ||| 0-0\n",
    ]
)


@given(st.lists(st.lists(RULE, max_size=8).map("".join), max_size=4))
def test_arrays_are_those_of_the_naive_reader(tmp_path_factory: pytest.TempPathFactory, grammars: list[str]) -> None:
    compare(Grammar(tmp_path_factory.mktemp("g"), *grammars), grammars)


def compare(grammar: Grammar, texts: list[str]) -> None:
    naive = NaiveReader()
    for content in texts:
        naive.read(content)
    expected = naive.rules()
    assert grammar.numbers_of_types() == expected.pop("types")
    assert grammar.grammar_ptr == expected.pop("grammar_ptr")
    for name, values in expected.items():
        assert getattr(grammar.rules, name).tolist() == values, name
    assert grammar.vocabulary.words == list(naive.words)
    assert grammar.categories == list(naive.categories)
    assert grammar.score_names == list(naive.score_names)


@pytest.mark.slow
def test_golden_grammars_are_read_as_by_the_naive_reader(shared: Path, tmp_path: Path) -> None:
    files = sorted((shared / "golden" / "multi30k-grammars").glob("*.gz"))[:3]
    texts = [gzip.decompress(file.read_bytes()).decode() for file in files]
    compare(Grammar(tmp_path, *texts), texts)


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ("[X] ||| a", "found 2 fields"),
        ("[X] ||| a ||| b ||| A=1 A=2", "found score A twice"),
        ("[X] ||| [X,1] ||| [1]", "found a unary rule"),
    ],
)
@pytest.mark.parametrize("block", [1, 300, 1 << 20])
def test_an_error_deep_in_a_file_has_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, bad: str, told: str
) -> None:
    monkeypatch.setattr(lines, "_BLOCK", block)
    sound = [f"[X] ||| a{n} ||| b ||| A=1\n" for n in range(100)]
    later = ["[X] ||| a\n", "[X] ||| [S,1] ||| [1]\n", "[X] ||| a ||| b ||| B=1 B=1\n"]
    with pytest.raises(DataError, match=rf"g1:78: {told}"):
        Grammar(tmp_path, "".join(sound), "".join([*sound[:77], f"{bad}\n", *later, *sound]))


SYMBOL = st.sampled_from(["a", "b", "c", "[X,1]", "[NP,2]"])


@given(
    st.lists(
        st.tuples(st.sampled_from(["X", "NP", "S"]), st.lists(SYMBOL, min_size=1, max_size=4, unique=True)),
        max_size=20,
    )
)
def test_rules_are_sorted_by_source_then_category_then_line(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[str, list[str]]]
) -> None:
    lines = []
    for i, (lhs, source) in enumerate(drawn):
        if "[NP,2]" in source and "[X,1]" not in source:
            continue
        target = " ".join(symbol for symbol in source if symbol[0] == "[")
        lines.append(f"[{lhs}] ||| w {' '.join(source)} ||| {target} ||| Line={i + 1}\n")
    grammar = Grammar(tmp_path_factory.mktemp("g"), "".join(lines))
    types, keys = grammar.rules.types, []
    for rule, side in enumerate(types.side[grammar.rules.type].tolist()):
        source_side = types.source[types.source_ptr[side] : types.source_ptr[side + 1]].tolist()
        keys.append((source_side, int(types.lhs[side]), grammar.scores(rule)["Line"]))
    assert len(keys) == len(lines)
    assert keys == sorted(keys)


def test_arrays_have_the_types_that_kernels_expect(tmp_path: Path) -> None:
    rules = Grammar(tmp_path, "[X] ||| a ||| b ||| 1\n").rules
    arrays = rules.types._asdict() | rules._asdict()
    kinds = {name: array.dtype for name, array in arrays.items() if name != "types"}
    for name in ("side", "lhs", "source", "target_side", "target", "alignment", "type", "score_row", "score_index"):
        assert kinds.pop(name) == np.int32
    assert kinds.pop("align") == np.int16
    assert kinds.pop("score_value") == np.float64
    assert set(kinds.values()) == {np.dtype(np.int64)}


@pytest.mark.slow
def test_the_news_grammar_is_read(shared: Path) -> None:
    vocabulary = Vocabulary()
    reader = RuleReader(vocabulary)
    reader.read(shared / "data" / "nc" / "grammar.gz")
    rules = reader.rules()
    assert len(rules.type) == 72_745
    assert reader.score_names == [f"PhraseModel_{i}" for i in range(7)]
    types = rules.types
    assert len(set(zip(types.side.tolist(), types.target_side.tolist(), strict=True))) == 58_333
    with gzip.open(shared / "data" / "nc" / "grammar.gz", "rt") as file:
        scores = [float(score) for line in file for score in line.split(" ||| ")[3].split()]
    assert sorted(rules.score_value) == sorted(score for score in scores if score)
