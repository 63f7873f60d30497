"""Read a hand-written synchronous grammar: rules with variables, tables of forms, tenses (see grammar.txt)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import compress
from typing import NamedTuple

VARIABLE = re.compile(r"\$([a-z])")
PART = re.compile(r"<[^<>]+>|[^.]+")


class Schema(NamedTuple):
    """A rule with variables, written {x} for $x."""

    line: int
    """Line number in the file; variants of a rule for several tenses share it."""
    lhs: tuple[str, ...]
    """The parts of its category."""
    source: tuple[str, ...]
    target: tuple[str, ...]
    weight: float
    links: tuple[tuple[int, int], ...] | None
    """Positions of aligned symbols, except verbs and punctuation; None for the default alignment."""
    word: str
    """The lexicon word of the rule, or ""."""
    free: tuple[str, ...]
    """The variables that the category does not bind."""


class Notation:
    """The parsed files of a grammar."""

    def __init__(self) -> None:
        self.forms: dict[str, str] = {}
        """Expansion of each <...>."""
        self.values: dict[str, dict[str, float]] = {}
        """The values of each variable, with their weights."""
        # Indexed by the mask of constant parts of the category, then by these parts.
        self._schemas: dict[tuple[bool, ...], dict[tuple[str, ...], list[Schema]]] = {}
        self._tenses: dict[str, dict[str, str]] = {}
        self._lines = 0

    def read(self, lines: Iterable[str]) -> None:
        """Read lines of a grammar."""
        table, columns = "", list[str]()
        for line in lines:
            self._lines += 1
            words = line.split("#")[0].split()
            if not words:
                continue
            if words[0] == "table":
                table, columns = words[1], words[2:]
            elif line.startswith("  "):
                cells = zip(columns, words[1:], strict=True)
                self.forms |= {f"{table}.{words[0]}.{column}": form for column, form in cells if form != "-"}
            elif words[0] == "tense":
                parts = [part.split() for part in line.split("|||")[1:]]
                self._tenses[words[1]] = {part[0]: " ".join(part[1:]) for part in parts}
                self.values["t"] = dict.fromkeys(self._tenses, 1.0)
            elif words[0].startswith("$"):
                pairs = [value.partition(":") for value in words[2:]]
                self.values[words[0][1:]] = {value: float(weight or 1) for value, _, weight in pairs}
            else:
                self._read_rule(line)

    def _read_rule(self, line: str) -> None:
        """Add a rule, once for each tense if the tense is a variable in it."""
        if match := re.search(r"\$([tf])", line):
            for tense in self.values[match[1]]:
                self._add(line.replace(match[0], tense), tense)
        else:
            fixed = re.match(r"\[[A-Z]+\.([a-z]+)\.\$v", line)
            self._add(line, fixed[1] if fixed else "")

    def _add(self, line: str, tense: str) -> None:
        parts_of_verbs = self._tenses.get(tense, {})
        text = VARIABLE.sub(r"{\1}", line)
        fields = [" ".join(parts_of_verbs.get(word, word) for word in field.split()) for field in text.split("|||")]
        lhs, source, target, weight, links, word, *_ = [VARIABLE.sub(r"{\1}", field) for field in [*fields, "", "", ""]]
        parts = tuple(PART.findall(lhs.strip("[]")))
        variables = set(re.findall(r"{(.)}", lhs + source + target))
        bound = {part[1] for part in parts if part[0] == "{"}
        schema = Schema(
            line=self._lines,
            lhs=parts,
            source=tuple(source.split()),
            target=tuple(target.split()),
            weight=float(weight or 1),
            links=tuple((int(i), int(j)) for i, j in re.findall("([0-9]+)-([0-9]+)", links)) if links else None,
            word=word,
            free=tuple(sorted(variables - bound)),
        )
        fixed = tuple(part[0] not in "{<" for part in parts)
        self._schemas.setdefault(fixed, {}).setdefault(tuple(compress(parts, fixed)), []).append(schema)

    def matching(self, category: str) -> list[tuple[Schema, dict[str, str]]]:
        """Return the schemas whose left-hand side unifies with ``category``, with the bindings of their variables."""
        parts = category.split(".")
        return [
            (schema, bound)
            for fixed, schemas in self._schemas.items()
            if len(fixed) == len(parts)
            for schema in schemas.get(tuple(compress(parts, fixed)), ())
            if (bound := _unify(schema.lhs, parts)) is not None
        ]

    def resolved(self, symbols: tuple[str, ...], binding: dict[str, str]) -> tuple[str, ...] | None:
        """Substitute variables and look up forms in ``symbols``; None if a form does not exist."""
        texts = []
        for symbol in symbols:
            text = symbol.format_map(binding)
            while "<" in text:
                # Innermost first, because forms can be nested.
                start = text.rindex("<")
                end = text.index(">", start)
                form = self.forms.get(text[start + 1 : end])
                if form is None:
                    return None
                text = text[:start] + form + text[end + 1 :]
            texts.append(text)
        return tuple(texts)


def _unify(lhs: tuple[str, ...], parts: list[str]) -> dict[str, str] | None:
    """Bind the variables of ``lhs`` so that it equals ``parts``; forms are not looked up yet. None if impossible."""
    binding: dict[str, str] = {}
    for pattern, part in zip(lhs, parts, strict=True):
        if pattern[0] == "{" and binding.setdefault(pattern[1], part) != part:
            return None
    return binding
