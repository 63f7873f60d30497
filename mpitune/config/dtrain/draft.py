"""The job file while it comes about: keys with what they come from, and remarks on the rest."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mpitune.config import schema
from mpitune.config.dtrain.options import DtrainOptions, Setting
from mpitune.config.presets import PRESETS
from mpitune.config.spec import DataKeys, Job, RunKeys
from mpitune.errors import UsageError

_PRESET = "dtrain"
"""What every job starts from."""
_DEFAULTS = {key: value for key, _, value in schema.values(Job(RunKeys(Path(), Path()), DataKeys()))}
_DEFAULTS |= dict(PRESETS[_PRESET].keys)
"""What keys are that a job of that preset does not give, by dotted key."""
_TABLES = ("data", "grammar", "decoder", "learner", "parallel", "select")


class Draft:
    """The options of a file, and the job that is made of them."""

    def __init__(self, path: Path, folder: Path, settings: Mapping[str, Setting], options: DtrainOptions) -> None:
        """Raises UsageError for a value that its option may not have."""
        self._file = path
        self._folder = folder
        self._settings = settings
        self._defaults = {name: option.default for name, option in options.items()}
        self._values = dict(self._defaults)
        for name, (_, text) in settings.items():
            option = options[name]
            try:
                if text is None and not isinstance(option.default, bool):
                    raise ValueError
                self._values[name] = option.parse(text or "")
            except ValueError:
                raise self.wrong(name, option.expected) from None
        self._lacks: list[str] = []
        self._needless: list[str] = []
        self._lines: dict[str, list[str]] = {table: [] for table in _TABLES}
        self._lines["learner"].append(f'preset = "{_PRESET}"  # its authors\' own settings; what differs follows')

    def __getitem__(self, name: str) -> Any:
        """An option's value: that of the file, or dtrain's default."""
        return self._values[name]

    def default(self, name: str) -> Any:
        """dtrain's default of an option."""
        return self._defaults[name]

    def given(self, name: str) -> bool:
        """Whether the file has the option."""
        return name in self._settings

    def path(self, name: str) -> Path:
        """An option's value as a path, taken from the working folder."""
        return self.absolute(self._values[name])

    def absolute(self, name: str) -> Path:
        """The file called ``name``, taken from the working folder."""
        return Path(os.path.abspath(self._folder / name))

    def says(self, name: str) -> str:
        """``name=value``, as in the file, or with dtrain's default."""
        if not self.given(name):
            value = self._values[name]
            return f"{name}={value if isinstance(value, str) else schema.literal(value)}, dtrain's default"
        text = self._settings[name].text
        return name if text is None else f"{name}={text}"

    def wrong(self, name: str, expected: str) -> UsageError:
        """The error that an option of the file is not what it should be."""
        return UsageError(f"{self._file}:{self._settings[name].line}: found {self.says(name)}, expected {expected}")

    def key(self, key: str, value: Any, *names: str, because: str = "", note: str = "") -> None:
        """Give the job's dotted ``key`` a value that comes from the options ``names``, or is there ``because``.

        It is left out where the preset says the same, and options of the file need no key then; and where it follows
        from defaults of dtrain alone and is mpitune's default as well. ``note``: what else there is to be said.
        """
        table, _, name = key.partition(".")
        default = _DEFAULTS.get(key)
        given = [self.says(option) for option in names if self.given(option)]
        if note:
            self.remark(table, note)
        in_preset = key in PRESETS[_PRESET].keys
        if value == default and (in_preset or not (given or because)):
            for option in filter(self.given, names):
                self.needless(option, f"{key} = {schema.literal(value)}, as in the preset")
            return
        reason = because
        if given:
            reason = f"dtrain: {', '.join(given)}"
        elif not because:
            whose = "the preset's" if in_preset else "mpitune's"
            reason = f"dtrain: {self.says(names[0])} ({whose}: {schema.literal(default)})"
        self._lines[table].append(f"{name} = {schema.literal(value)}  # {_printable(reason)}")

    def remark(self, table: str, text: str) -> None:
        """Add a comment to a table of the job."""
        self._lines[table].append(f"# {_printable(text)}")

    def lacks(self, name: str, reason: str) -> None:
        """The option has no counterpart."""
        self._lacks.append(f"# {_printable(f'{self.says(name)}: {reason}')}")

    def needless(self, name: str, reason: str) -> None:
        """The option needs no key."""
        self._needless.append(f"# {_printable(f'{self.says(name)}: {reason}')}")

    def text(self, header: list[str]) -> str:
        """The job file, which begins with comments ``header``."""
        written = [f"# {_printable(line)}" for line in header]
        if self._lacks:
            written += ["#", "# Options without a counterpart:", *self._lacks]
        if self._needless:
            written += ["#", "# Options that need no key:", *self._needless]
        for table, lines in self._lines.items():
            if lines:
                written += ["", f"[{table}]", *lines]
        return "\n".join(written) + "\n"


def _printable(text: str) -> str:
    """``text`` as it may stand in a comment."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
