"""The data of `make demo`: a German-English corpus, a grammar read off it, and text for a language model.

    python jobs/demo/generate.py FOLDER [--seed N]

Sentence pairs are random derivations of the grammar in grammar.txt, nouns.txt and verbs.txt. Some ways of combining
words and structures are kept out of the training part: each sentence of devtest and test has at least one of these.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
from collections.abc import Iterator
from itertools import combinations, islice
from pathlib import Path
from random import Random

import extraction
import lexicon
from noise import misaligned
from notation import Notation
from sentences import Pair, sentence_pair
from synchronous import Grammar, TooLarge, Tree

SIZES = {"bitext": 3000, "train": 3000, "lm": 4000}
"""Sentences of the parts without a combination that is held out ..."""
HELD_OUT_SIZES = {"devtest": 200, "test": 600}
"""... and with one."""
LENGTHS = range(5, 26)
"""Words of a source sentence."""
HELD_OUT = 0.06
"""How many of all combinations the training part must do without."""
CLAUSES = frozenset({"CLAUSE", "INVERTED", "FINAL", "QUESTION", "INFINITIVE", "RELATIVE", "THATRELATIVE"})


def read_grammar() -> Grammar:
    """The grammar with its words, from the files beside this one."""
    folder = Path(__file__).parent
    texts = {
        name: (folder / f"{name}.txt").read_text(encoding="utf-8").splitlines()
        for name in ("grammar", "nouns", "verbs")
    }
    nouns, verbs = lexicon.sections(texts["nouns"]), lexicon.sections(texts["verbs"])
    notation = Notation()
    notation.read(texts["grammar"])
    noun_rules = list(lexicon.nouns(nouns["nouns"]))
    words = lexicon.Verbs(nouns["sorts"], verbs["english"])
    words.read(verbs["verbs"])
    sorts = sorted({rule.split("]")[0].rpartition(".")[2] for rule in noun_rules})
    for sort in sorts:
        words.relative(sort)
    notation.forms |= words.forms
    notation.values |= {"v": words.shares, "s": dict.fromkeys(sorts, 1.0)}
    endings = {key: form for key, form in notation.forms.items() if key.split(".")[0] in ("weak", "mixed", "strong")}
    for rules in (noun_rules, lexicon.adjectives(nouns["adjectives"], endings), words.rules, nouns["words"]):
        notation.read(rules)
    return Grammar(notation)


def combinations_in(tree: Tree, governor: str = "") -> Iterator[tuple[str, str]]:
    """What meets in a derivation: a verb and its construction, a verb and a noun, an adjective and its noun."""
    rule = tree.rule
    if rule.category in CLAUSES and rule.verb:
        yield str(rule.line), rule.verb
    governor = rule.verb or governor
    if rule.word:
        yield governor, rule.word
    yield from combinations((child.rule.word for child in tree.children if child.rule.word), 2)
    for child in tree.children:
        yield from combinations_in(child, governor)


def is_nested(tree: Tree, inside: bool = False) -> bool:
    """Whether a relative clause stands inside another: grammatical, but nothing that one reads with pleasure."""
    relative = tree.rule.category in ("RELATIVE", "THATRELATIVE")
    return (relative and inside) or any(is_nested(child, relative or inside) for child in tree.children)


class Sentences:
    """Draws sentence pairs; none comes twice."""

    def __init__(self, grammar: Grammar, seed: int) -> None:
        self._grammar = grammar
        self._seed = seed
        self._random = Random(f"sentences {seed}")
        self._known: set[tuple[str, ...]] = set()
        self.held_out: list[Pair] = []
        """The pairs with a combination that is held out, as met."""

    def draw(self, number: int) -> list[Pair]:
        """New pairs without such a combination."""
        pairs: list[Pair] = []
        while len(pairs) < number:
            try:
                tree = self._grammar.draw("S", self._random)
            except TooLarge:
                continue
            if is_nested(tree):
                continue
            pair = sentence_pair(tree)
            sides = {tuple(pair.source), tuple(pair.target)}
            if len(pair.source) in LENGTHS and not sides & self._known:
                self._known |= sides
                (self.held_out if any(map(self._is_held_out, combinations_in(tree))) else pairs).append(pair)
        return pairs

    def _is_held_out(self, combination: tuple[str, str]) -> bool:
        key = f"{self._seed} {combination[0]} {combination[1]}".encode()
        return int.from_bytes(hashlib.blake2b(key, digest_size=4).digest(), "big") < HELD_OUT * 2**32


def generate(folder: Path, seed: int) -> None:
    """Write the data of a seed: the same bytes each time."""
    sentences = Sentences(read_grammar(), seed)
    parts = {name: sentences.draw(number) for name, number in SIZES.items()}
    parts["bitext"] = misaligned(parts["bitext"], Random(f"alignment {seed}"))
    rules = extraction.extract(parts["bitext"])
    known = {rule.split(" ||| ")[1] for rule in rules}
    rest = iter(pair for pair in sentences.held_out if known.issuperset(pair.source))
    parts |= {name: list(islice(rest, number)) for name, number in HELD_OUT_SIZES.items()}

    folder.mkdir(parents=True, exist_ok=True)
    for name, pairs in parts.items():
        _write(folder / f"{name}.en", (" ".join(pair.target) for pair in pairs))
        if name != "lm":
            _write(folder / f"{name}.de", (" ".join(pair.source) for pair in pairs))
    links = (" ".join(f"{i}-{j}" for i, j in sorted(pair.links)) for pair in parts["bitext"])
    _write(folder / "bitext.align", links)
    _write(folder / "grammar.gz", rules)


def _write(path: Path, lines: Iterator[str] | list[str]) -> None:
    data = "".join(f"{line}\n" for line in lines).encode()
    # No time stamp: equal data, equal bytes.
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def main() -> None:
    """Read the command line and generate."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="where the files go")
    parser.add_argument("--seed", type=int, default=1, help="other data for each (default: 1)")
    options = parser.parse_args()
    generate(options.folder, options.seed)


if __name__ == "__main__":
    main()
