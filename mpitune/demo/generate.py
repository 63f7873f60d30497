"""Generates the data of the demo: a German-English corpus, a grammar extracted from it, and text for an LM.

Sentence pairs are random derivations of the grammar in grammar.txt, nouns.txt and verbs.txt. Some combinations of words
and structures are held out of the training part: each sentence of devtest and test has at least one of them.
"""

from __future__ import annotations

import gzip
import hashlib
import shutil
from collections.abc import Iterator
from itertools import combinations, islice
from pathlib import Path
from random import Random

from mpitune.demo import extraction, lexicon
from mpitune.demo.noise import misaligned
from mpitune.demo.notation import Notation
from mpitune.demo.sentences import Pair, sentence_pair
from mpitune.demo.synchronous import Grammar, TooLarge, Tree

FILES = Path(__file__).parent
"""Folder of the grammar, its words and the weights set by hand."""
START = "start.weights"
"""File of the weights set by hand."""
SIZES = {"bitext": 3000, "train": 3000, "lm": 4000}
"""Sentences of the parts without held-out combinations."""
HELD_OUT_SIZES = {"devtest": 200, "test": 600}
"""Sentences of the parts in which each sentence has a held-out combination."""
LENGTHS = range(5, 26)
"""Words of a source sentence."""
HELD_OUT = 0.06
"""Share of combinations that are held out."""
CLAUSES = frozenset({"CLAUSE", "INVERTED", "FINAL", "QUESTION", "INFINITIVE", "RELATIVE", "THATRELATIVE"})


def read_grammar() -> Grammar:
    """Read the grammar and its words from `FILES`."""
    texts = {
        name: (FILES / f"{name}.txt").read_text(encoding="utf-8").splitlines() for name in ("grammar", "nouns", "verbs")
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
    """Yield the combinations in a derivation: verb and construction, verb and noun, adjective and noun."""
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
    """Test if a relative clause contains another; such sentences are grammatical, but hard to read."""
    relative = tree.rule.category in ("RELATIVE", "THATRELATIVE")
    return (relative and inside) or any(is_nested(child, relative or inside) for child in tree.children)


class Sentences:
    """Draws distinct sentence pairs."""

    def __init__(self, grammar: Grammar, seed: int) -> None:
        self._grammar = grammar
        self._seed = seed
        self._random = Random(f"sentences {seed}")
        self._known: set[tuple[str, ...]] = set()
        self.held_out: list[Pair] = []
        """Pairs with a held-out combination, in the order drawn."""

    def draw(self, number: int) -> list[Pair]:
        """Draw new pairs without held-out combinations."""
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


def generate(folder: Path, seed: int = 1) -> None:
    """Write the data, and the weights set by hand that the demo is compared with; equal seeds give equal bytes."""
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
    shutil.copyfile(FILES / START, folder / START)


def _write(path: Path, lines: Iterator[str] | list[str]) -> None:
    data = "".join(f"{line}\n" for line in lines).encode()
    # Without a time stamp, equal data give equal bytes.
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
