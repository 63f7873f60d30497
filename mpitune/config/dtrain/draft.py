"""A job file under construction: keys with their origin, and remarks on options without a key."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mpitune.config import schema
from mpitune.config.dtrain.options import DtrainOptions, Setting
from mpitune.config.presets import PRESETS
from mpitune.config.spec import DataKeys, Job, RunKeys
from mpitune.errors import UsageError, printable
from mpitune.ownership import reads

_PRESET = "dtrain"
"""Preset of every job."""
_DEFAULTS = {key: value for key, _, value in schema.values(Job(RunKeys(Path(), Path()), DataKeys()))}
_DEFAULTS |= dict(PRESETS[_PRESET].keys)
"""By dotted key: value of a key that a job with this preset does not set."""
_TABLES = ("data", "grammar", "decoder", "learner", "parallel", "select")


class Draft:
    """Options of a dtrain file and the job file made from them."""

    def __init__(self, path: Path, folder: Path, settings: Mapping[str, Setting], options: DtrainOptions) -> None:
        """Parse ``settings``. Raises UsageError for an invalid value of an option."""
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
                raise self.error(name, option.expected) from None
        self._unsupported: list[str] = []
        self._unneeded: list[str] = []
        self._lines: dict[str, list[str]] = {table: [] for table in _TABLES}
        self._lines["learner"].append(f'preset = "{_PRESET}"  # settings of dtrain\'s authors; differences follow')

    def __getitem__(self, name: str) -> Any:
        """Value of an option: from the file, or dtrain's default."""
        return self._values[name]

    def default(self, name: str) -> Any:
        """dtrain's default of an option."""
        return self._defaults[name]

    def given(self, name: str) -> bool:
        """True if the file sets the option."""
        return name in self._settings

    def path(self, name: str) -> Path:
        """Absolute path of an option's value, resolved from the working folder."""
        return self.absolute(self._values[name])

    def absolute(self, name: str) -> Path:
        """Absolute path of the file ``name``, resolved from the working folder."""
        path = Path(os.path.abspath(self._folder / name))
        reads([path])
        return path

    def as_written(self, name: str) -> str:
        """``name=value`` as in the file, or with dtrain's default."""
        if not self.given(name):
            value = self._values[name]
            return f"{name}={value if isinstance(value, str) else schema.literal(value)}, dtrain's default"
        text = self._settings[name].text
        return name if text is None else f"{name}={text}"

    def error(self, name: str, expected: str) -> UsageError:
        """Error for an invalid option, with file and line."""
        return UsageError(
            f"{self._file}:{self._settings[name].line}: found {self.as_written(name)}, expected {expected}"
        )

    def set_key(self, key: str, value: Any, *names: str, because: str = "", note: str = "") -> None:
        """Set the job's dotted ``key`` to a value that comes from the options ``names`` or has the reason ``because``.

        The key is left out if the preset has the same value (the options are then listed as needing no key), or if the
        value is mpitune's default and follows from defaults of dtrain only. ``note``: a comment above the key.
        """
        table, _, name = key.partition(".")
        default = _DEFAULTS.get(key)
        given = [self.as_written(option) for option in names if self.given(option)]
        if note:
            self.remark(table, note)
        in_preset = key in PRESETS[_PRESET].keys
        if value == default and (in_preset or not (given or because)):
            for option in filter(self.given, names):
                self.add_unneeded(option, f"{key} = {schema.literal(value)}, as in the preset")
            return
        reason = because
        if given:
            reason = f"dtrain: {', '.join(given)}"
        elif not because:
            whose = "the preset's" if in_preset else "mpitune's"
            reason = f"dtrain: {self.as_written(names[0])} ({whose}: {schema.literal(default)})"
        self._lines[table].append(f"{name} = {schema.literal(value)}  # {printable(reason)}")

    def remark(self, table: str, text: str) -> None:
        """Add a comment to a table of the job."""
        self._lines[table].append(f"# {printable(text)}")

    def add_unsupported(self, name: str, reason: str) -> None:
        """List the option as one without a counterpart."""
        self._unsupported.append(f"# {printable(f'{self.as_written(name)}: {reason}')}")

    def add_unneeded(self, name: str, reason: str) -> None:
        """List the option as one that needs no key."""
        self._unneeded.append(f"# {printable(f'{self.as_written(name)}: {reason}')}")

    def text(self, header: list[str]) -> str:
        """The job file, with the comments ``header`` first."""
        written = [f"# {printable(line)}" for line in header]
        if self._unsupported:
            written += ["#", "# Options without a counterpart:", *self._unsupported]
        if self._unneeded:
            written += ["#", "# Options that need no key:", *self._unneeded]
        for table, lines in self._lines.items():
            if lines:
                written += ["", f"[{table}]", *lines]
        return "\n".join(written) + "\n"
