"""Read and write cdec.ini, the configuration file of cdec, and check which of its settings are supported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mpitune.corpus.lines import lines
from mpitune.corpus.text import resolve, split_words
from mpitune.errors import DataError, UsageError

TEMPLATES = {
    "RuleIdentityFeatures": "id",
    "RuleSourceBigramFeatures": "source-bigram",
    "RuleTargetBigramFeatures": "target-bigram",
    "RuleShape": "shape",
}
"""Templates by the names that cdec has for them; it does not have the others."""
SPAN_LIMIT = 10
"""cdec's default span limit. Its default pop limit is 200, the same as mpitune's."""
_REPLACED = {"input", "weights", "k_best", "unique_k_best", "mr_mira_compat"}
"""Keys that mpitune sets itself when it runs cdec."""
_REFUSED = {"quiet"} | {f"{key}{n}" for key in ("weights", "feature_function", "intersection_strategy") for n in (2, 3)}
"""Keys that change cdec's output so that mpitune cannot parse it: no output, or scores of a second pass."""
_TRUTH = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


@dataclass(frozen=True)
class IniFile:
    """The settings of a cdec.ini; None for a key that the file does not set."""

    grammars: tuple[Path, ...]
    language_models: tuple[tuple[str, Path], ...]
    """Feature name and file of each."""
    word_penalty: bool
    templates: tuple[str, ...]
    """Sparse feature templates, by their names in job files."""
    other_features: tuple[str, ...]
    """Feature functions with their arguments that only cdec supports."""
    unknown: tuple[tuple[str, str], ...]
    """Other keys with their values, unparsed."""
    formalism: str | None = None
    add_pass_through: bool | None = None
    span_limit: int | None = None
    intersection_strategy: str | None = None
    pop_limit: int | None = None

    def unsupported_by_embedded(self) -> list[str]:
        """List the settings that the embedded decoder does not support; empty if it supports all."""
        names = [name for name, _ in self.language_models]
        unsupported = {
            f"formalism={self.formalism}": self.formalism not in (None, "scfg"),
            f"intersection_strategy={self.intersection_strategy}": self.intersection_strategy
            not in (None, "cube_pruning"),
            "add_pass_through_rules=false": self.add_pass_through is False,
            "more than one grammar": len(self.grammars) > 1,
            "language models of the same name": len(set(names)) < len(names),
        }
        return [setting for setting, found in unsupported.items() if found] + [
            f"feature_function={function}" for function in self.other_features
        ]

    def ignored_by_embedded(self) -> list[str]:
        """List the settings that the embedded decoder knows nothing of."""
        return [f"{key}={value}" for key, value in self.unknown if key not in _REPLACED | {"quiet"}]

    def decoder_only_settings(self) -> list[str]:
        """List the settings for which a job has no key; an external decoder gets them unchanged."""
        lines = [f"{key}={value}" for key, value in self.unknown if key not in _REPLACED]
        lines += [f"intersection_strategy={self.intersection_strategy}"] if self.intersection_strategy else []
        lines += ["add_pass_through_rules=true"] if self.add_pass_through else []
        lines += ["feature_function=WordPenalty"] if self.word_penalty else []
        return lines + [f"feature_function={function}" for function in self.other_features]

    def unsupported(self) -> list[str]:
        """List the settings that mpitune does not support with an external decoder either."""
        other = [f"formalism={self.formalism}"] if self.formalism not in (None, "scfg") else []
        return other + [f"{key}={value}" for key, value in self.unknown if key in _REFUSED]


def make_inifile(
    ini: IniFile | None,
    *,
    grammars: Sequence[Path],
    language_models: Sequence[tuple[str, Path]],
    templates: Sequence[str],
    pop_limit: int,
    span_limit: int,
) -> str:
    """Compose a cdec.ini for an external decoder: the settings given here, and the other settings of ``ini``.

    Without ``ini``, word penalty and pass-through rules are added, as in the embedded decoder. Raises UsageError for a
    path or a name that such a file cannot hold.
    """
    lines = ["formalism=scfg", f"scfg_max_span_limit={span_limit}", f"cubepruning_pop_limit={pop_limit}"]
    lines += [f"grammar={_word(path.absolute())}" for path in grammars]
    functions = [f"KLanguageModel -n {_word(name)} {_word(path.absolute())}" for name, path in language_models]
    functions += [function for function, template in TEMPLATES.items() if template in templates]
    lines += [f"feature_function={function}" for function in functions]
    lines += ini.decoder_only_settings() if ini else ["add_pass_through_rules=true", "feature_function=WordPenalty"]
    return "".join(f"{line}\n" for line in lines)


def _word(text: str | Path) -> str:
    """Return ``text``; raises UsageError unless it is valid as one word of a cdec.ini."""
    text = str(text)
    if not text or any(mark in text for mark in " \t#"):
        raise UsageError(f"found {text!r}, expected a name without blanks and #: cdec.ini cannot hold others")
    return text


def read_inifile(path: Path) -> IniFile:
    """Read a cdec.ini; relative paths in it are looked up in its folder and in the working folder.

    Raises DataError for a line that is not ``key=value``, a value of the wrong kind or a key given twice.
    """
    single: dict[str, Any] = {}
    grammars, functions, unknown = [], [], []
    for number, line in lines(path):
        key, equals, value = (part.strip(" \t") for part in line.partition("#")[0].partition("="))
        if not key and not equals:
            continue
        if not key or not equals:
            raise DataError.at(path, number, found=repr(line), expected="key=value")
        if key == "grammar":
            grammars.append(_file(value, path))
        elif key == "feature_function":
            functions.append(value)
        elif key in _SINGLE:
            name, parse, expected = _SINGLE[key]
            if name in single:
                raise DataError.at(path, number, found=f"a second {key}", expected="one")
            try:
                single[name] = parse(value)
            except (ValueError, KeyError):
                raise DataError.at(path, number, found=f"{key}={value}", expected=expected) from None
        else:
            unknown.append((key, value))
    return IniFile(grammars=tuple(grammars), unknown=tuple(unknown), **_features(functions, path), **single)


def _features(functions: list[str], path: Path) -> dict[str, Any]:
    """Parse the feature functions into the fields of `IniFile` that they fill."""
    models, templates, others = [], [], []
    word_penalty = False
    for function in functions:
        match split_words(function):
            case ["WordPenalty"]:
                word_penalty = True
            case ["KLanguageModel", "-n", name, file]:
                models.append((name, _file(file, path)))
            case ["KLanguageModel", file]:
                models.append(("LanguageModel", _file(file, path)))
            case [name] if name in TEMPLATES:
                templates.append(TEMPLATES[name])
            case _:
                others.append(function)
    return {
        "language_models": tuple(models),
        "word_penalty": word_penalty,
        # A line that is there twice asks for one template.
        "templates": tuple(dict.fromkeys(templates)),
        "other_features": tuple(others),
    }


def _file(name: str, path: Path) -> Path:
    """Resolve the file ``name`` of the ini file ``path``; existence is checked when the file is opened."""
    return resolve(name, beside=path) or path.parent / name


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise ValueError(text)
    return int(text)


_SINGLE: dict[str, tuple[str, Callable[[str], Any], str]] = {
    "formalism": ("formalism", str, "a name"),
    "add_pass_through_rules": ("add_pass_through", _TRUTH.__getitem__, "true or false"),
    "scfg_max_span_limit": ("span_limit", _count, "a number above 0"),
    "intersection_strategy": ("intersection_strategy", str, "a name"),
    "cubepruning_pop_limit": ("pop_limit", _count, "a number above 0"),
}
"""Keys that may occur once: the field of `IniFile`, the parser of the value, and the expected value."""
