"""Inflect the demo's German and English nouns, adjectives and verbs into rules and forms of its grammar."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

SUBJECTS = {"m": "3", "f": "3", "n": "3", "p": "pl", "w": "pl", "i": "1"}
"""Gender of the subject (grammar.txt) to form of the verb."""
PREPOSITIONS = frozenset(
    ["mit", "über", "vor", "für", "gegen", "auf", "an", "in", "nach", "zu", "bei", "von", "um", "unter"]
)


def sections(lines: Iterable[str]) -> dict[str, list[str]]:
    """Split lines into sections by their headings; comments and empty lines are dropped."""
    parts: dict[str, list[str]] = {}
    name = ""
    for line in lines:
        if match := re.fullmatch(r"\[([a-z]+)\]", line.strip()):
            name = match[1]
        elif line.strip() and not line.startswith("#"):
            parts.setdefault(name, []).append(line.rstrip())
    return parts


def share(rank: int) -> str:
    """Return the weight of the word at position ``rank`` (from 0) of its section."""
    return f"{(rank + 1) ** -0.5:.4f}"


# ------------------------------------------------------------------------------------------------------------- nouns


def nouns(lines: list[str]) -> Iterator[str]:
    """Yield rules [NOUN.case.gender.sort]; BARE: no English article; MASS: article optional; COUNT: has a plural."""
    ranks: dict[str, int] = {}
    for line in lines:
        german, english, sorts = (part.strip() for part in line.split("|"))
        word, gender, *endings = german.split()
        singular, _, plurals = english.lstrip("~").partition("/")
        if gender == "p":
            forms, plural = _plurals(word, singular), "-"
        else:
            genitive, plural = endings if gender != "f" else ["-", *endings]
            forms = [(case, gender, form, singular) for case, form in _singular(word, gender, genitive).items()]
            if plural not in ("0", "mass"):
                forms += _plurals(_inflected(word, plural), plurals or _plural(singular))
        categories = ["BARE"] if english.startswith("~") else ["MASS"] if plural == "mass" else ["NOUN"]
        categories += ["COUNT"] if plural not in ("0", "mass") else []
        for sort in sorts.split():
            rank = ranks[sort] = ranks.get(sort, -1) + 1
            for category in categories:
                for case, g, form, meaning in forms:
                    word_of = f"{word}/{singular}"
                    yield f"[{category}.{case}.{g}.{sort}] ||| {form} ||| {meaning} ||| {share(rank)} ||| ||| {word_of}"


def _plurals(word: str, meaning: str) -> list[tuple[str, str, str, str]]:
    dative = word if word[-1] in "ns" else word + "n"
    return [(case, "p", dative if case == "dat" else word, meaning) for case in ("nom", "acc", "dat", "gen")]


def _inflected(word: str, ending: str) -> str:
    return word + ending[1:] if ending.startswith("-") else ending


def _singular(word: str, gender: str, genitive: str) -> dict[str, str]:
    """Inflect a noun by case; weak nouns ("des präsidenten") have one ending in all cases but the nominative."""
    owner = _inflected(word, genitive)
    other = owner if gender == "m" and genitive in ("-n", "-en") else word
    return {"nom": word, "acc": other, "dat": other, "gen": owner}


def _plural(word: str) -> str:
    if re.search(r"[^aeiou]y$", word):
        return word[:-1] + "ies"
    return word + ("es" if re.search(r"(s|x|ch|sh)$", word) else "s")


def adjectives(lines: list[str], endings: dict[str, str]) -> Iterator[str]:
    """Yield adjective rules: [A.declension.case.gender.sort], and [PRED.sort] for predicative use."""
    for rank, line in enumerate(lines):
        german, english, sorts = (part.strip() for part in line.split("|"))
        stem, _, alone = german.replace(")", "").partition(" (")
        meaning = english.lstrip("^")
        for sort in sorts.split():
            for place, ending in endings.items():
                yield f"[A.{place}.{sort}] ||| {stem}{ending} ||| {meaning} ||| {share(rank)} ||| ||| {stem}/{meaning}"
            if not english.startswith("^"):
                yield f"[PRED.{sort}] ||| {alone or stem} ||| {meaning} ||| {share(rank)} ||| ||| {stem}/{meaning}"


# ------------------------------------------------------------------------------------------------------------- verbs


class Verbs:
    """Forms of the verbs, and rules for the arguments of each of their meanings."""

    def __init__(self, sorts: list[str], irregular: list[str]) -> None:
        named = dict(line.split(":", 1) for line in sorts)
        self._persons = frozenset(named["persons"].split())
        self._life = frozenset(named["life"].split())
        self._irregular = {words[0]: words[1:] for words in map(str.split, irregular)}
        self.forms: dict[str, str] = {}
        self.rules: list[str] = []
        self.shares: dict[str, float] = {}
        for key in ("person_owning", "owning"):
            self.forms |= {f"{key}.{thing}": sort for thing, sort in (pair.split(":") for pair in named[key].split())}

    def relative(self, sort: str) -> None:
        """Register the pronouns for nouns of a sort: "who" and "him", or "that" and "it"."""
        person = sort in self._persons
        self.forms |= {f"relative.{sort}": "who" if person else "that", f"pronoun.{sort}": "who" if person else "that"}

    def read(self, lines: list[str]) -> None:
        """Read the lines of verbs and of their meanings."""
        german: dict[str, str] = {}
        verb = ""
        for line in lines:
            if not line.startswith(" "):
                german, verb = _german(line.split()), line.split()[0].replace("|", "")
                continue
            subjects, _, frame = line.strip().partition(":")
            source, target, *flags = (part.strip() for part in frame.split("|"))
            for subject in subjects.split():
                self._meaning(f"{verb}/{target.split()[0]}/{subject}", german, subject, source, target, flags)

    def _meaning(
        self, name: str, german: dict[str, str], subject: str, source: str, target: str, flags: list[str]
    ) -> None:
        if name in self.shares:
            name += "/2"
        self.shares[name] = float(share(len(self.shares) // 2))
        english, *arguments = target.split()
        self._put(name, {**german, **self._english(english.replace("_", " "))})
        self._put(name, {"subject": subject, "register": "life" if subject in self._life else "news"})
        self._put(name, {} if "unwilled" in flags else {"on_purpose": ""})
        self._put(name, {"gern": ""} if "gern" in flags else {})
        kind = "org" if subject not in self._persons else "pol" if subject == "pol" else "ppl"
        source = re.sub(r"\[(OWN[^,]*),", rf"[\1.$h.{kind},", source)
        before, bracket, after = source.partition("_ ")
        if bracket:
            inside = [word for word in arguments if word in before.split() or f",{word[1:]}" in before]
            self.rules.append(f"[PREARGS.{name}.$h] ||| {before} ||| {' '.join(inside)}")
            rest = " ".join(word for word in arguments if word not in inside)
            renumbered = re.sub(r"([,\[])[0-9]\]", r"\g<1>1]", f"{after} ||| {rest}")
            self.rules.append(f"[POST.{name}.$h] ||| {renumbered}")
            return
        self.rules.append(f"[ARGS.{name}.$h] ||| {source} ||| {' '.join(arguments)}")
        if not source or source.split()[0] in PREPOSITIONS or source.startswith("[PRED"):
            self.rules.append(f"[PREP.{name}.$h] ||| {source} ||| {' '.join(arguments)}")
        lone = re.fullmatch(r"\[[A-Z]+\.(acc|dat)\.([a-z_]+)[^\]]*\]", source)
        if lone and arguments == ["[1]"]:
            self._put(name, {"case": lone[1], "object": lone[2]})
            if lone[1] == "acc":
                self._put(name, {"accusative": lone[2]})
                if subject not in self._life:
                    self._passive(name, german, lone[2], subject)

    def _put(self, verb: str, forms: dict[str, str]) -> None:
        for key, form in forms.items():
            first, *rest = key.split(".")
            self.forms[".".join([first, verb, *rest])] = form

    def _passive(self, active: str, german: dict[str, str], subject: str, by: str) -> None:
        """Add the passive: "wird gesenkt", "is lowered"."""
        name = active + "/passive"
        self.shares[name] = 0.3 * self.shares[active]
        part = german["part"]
        forms = {
            "pre": part,
            "part": f"{part} +worden",
            "inf": f"{part} +werden",
        }
        participle = self.forms[f"pp.{active}"]
        forms |= {"base": f"+be {participle}", "pp": f"+been {participle}", "rest": participle}
        for h in SUBJECTS:
            forms |= {f"sich.{h}": "", f"fin.{h}": f"<aux.wird.{h}>", f"pret.{h}": f"<aux.wurde.{h}>"}
            forms |= {f"final.{h}": f"{part} <aux.wird.{h}>", f"finalpret.{h}": f"{part} <aux.wurde.{h}>"}
            forms |= {f"hat.{h}": f"<aux.ist.{h}>", f"hatte.{h}": f"<aux.war.{h}>"}
            forms |= {f"s.{h}": f"<aux.is.{h}> {participle}", f"past.{h}": f"<aux.was.{h}> {participle}"}
            forms |= {f"do.{h}": f"<aux.is.{h}>", f"did.{h}": f"<aux.was.{h}>"}
        self._put(name, {**forms, "subject": subject, "register": "news"})
        self.rules += [
            f"[ARGS.{name}.$h] ||| ||| ||| 3",
            f"[ARGS.{name}.$h] ||| von [THE.dat.{by},1] ||| by [1]",
            f"[PREP.{name}.$h] ||| |||",
        ]

    def _english(self, phrase: str) -> dict[str, str]:
        verb, _, particles = phrase.partition(" ")
        past, participle = self._irregular.get(verb, (_past(verb), _past(verb)))
        if verb == "be":
            ending = f" {particles}"
            finite = {f"{key}.{h}": f"<be.{row}.{h}>" for h in SUBJECTS for key, row in (("s", "is"), ("past", "was"))}
            finite = {key: form + ending for key, form in finite.items()}
            split = {f"{key}.{h}": f"<be.{row}.{h}>" for h in SUBJECTS for key, row in (("do", "is"), ("did", "was"))}
            return {**finite, **split, "base": phrase, "pp": "been" + ending, "rest": particles}
        forms = {"base": phrase, "rest": phrase, "pp": f"{participle} {particles}"}
        third = {"go": "goes", "do": "does", "have": "has"}.get(verb, _plural(verb))
        for h, person in SUBJECTS.items():
            forms[f"s.{h}"] = f"{third if person == '3' else verb} {particles}"
            forms[f"past.{h}"] = f"{past} {particles}"
            forms |= {f"do.{h}": f"<aux.does.{h}>", f"did.{h}": "+did"}
        return forms


def _past(verb: str) -> str:
    if re.search(r"[^aeiou]y$", verb):
        return verb[:-1] + "ied"
    return verb + ("d" if verb.endswith("e") else "ed")


def _german(words: list[str]) -> dict[str, str]:
    """Derive all forms of a verb from its principal parts."""
    infinitive, present, preterite, participle = words
    prefix, _, stem = infinitive.rpartition("|")
    reflexive, prefix = prefix == "sich", "" if prefix == "sich" else prefix
    third, plural, first = present.split("/") if "/" in present else (present, stem, "")
    past, past_plural = preterite.split("/")[:2] if "/" in preterite else (preterite, "")
    finite = {"3": third, "pl": plural, "1": first or (stem[:-1] if stem.endswith("en") else stem[:-1] + "e")}
    preterites = {"3": past, "pl": past_plural or past + ("n" if past.endswith("e") else "en"), "1": past}
    aux, _, participle = participle.rpartition("_")
    forms = {"pre": prefix}
    if participle != "-":
        zu = f"{prefix}zu{stem}" if prefix else f"+zu {stem}"
        forms |= {"part": participle, "inf": prefix + stem, "zu": zu}
    for h, person in SUBJECTS.items():
        forms |= {f"fin.{h}": finite[person], f"final.{h}": prefix + finite[person]}
        forms |= {f"pret.{h}": preterites[person], f"finalpret.{h}": prefix + preterites[person]}
        forms |= {f"hat.{h}": f"<aux.{aux or 'hat'}.{h}>", f"hatte.{h}": f"<aux.{'war' if aux else 'hatte'}.{h}>"}
        forms[f"sich.{h}"] = {"i": "mich", "w": "uns"}.get(h, "sich") if reflexive else ""
    return forms
