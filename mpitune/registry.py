"""Parts that register themselves by name, such as methods and metrics: adding one is adding a file to a package.

Parts of one's own are in files outside of it, plugins, whose faults are told as those of the user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import NamedTuple, TypeVar

T = TypeVar("T")
P = TypeVar("P")


class Origin(NamedTuple):
    """The file of a part that does not come with mpitune, and a digest of its text."""

    file: str
    """Its file; of a script, the name of its module."""
    digest: str
    """Of its text, on which results depend."""


class Registry(Mapping[str, T]):
    """The parts of one kind by name: the first ones in the order given, then all others alphabetically.

    The modules that register parts are imported at the first look, not before: making a registry takes no time.
    """

    def __init__(self, *places: str, first: Sequence[str] = (), parts: Mapping[str, T] | None = None) -> None:
        """``places``: packages, each of whose modules may register parts; ``first``: names; ``parts``: known ones."""
        self._places, self._parts = places, dict(parts or {})
        self.first = (*first, *self._parts)
        self.origins: dict[str, Origin] = {}
        """Of the parts that do not come with mpitune, by name."""
        self._loaded = False

    def register(self, name: str, origin: Origin | None = None) -> Callable[[P], P]:
        """A decorator of the class or function that is the part called ``name``. Raises ValueError for a second one."""

        def add(part: P) -> P:
            if name in self._parts:
                raise ValueError(f"{name} is registered twice")
            self._parts[name] = part  # type: ignore[assignment]  # a class keeps its own type
            if origin is not None:
                self.origins[name] = origin
            return part

        return add

    def drop(self, file: str, name: str | None = None) -> None:
        """Forget the parts that come from ``file``; or that called ``name``, if it does."""
        for each in [each for each, origin in self.origins.items() if origin.file == file and name in (None, each)]:
            del self._parts[each], self.origins[each]

    def __getitem__(self, name: str) -> T:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        names = self._all()
        first = [name for name in self.first if name in names]
        return iter([*first, *sorted(names.keys() - {*first})])

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> dict[str, T]:
        if not self._loaded:
            for place in self._places:
                for found in iter_modules(import_module(place).__path__):
                    import_module(f"{place}.{found.name}")
            # Not before: an import that has failed fails again, rather than leave parts out.
            self._loaded = True
        return self._parts
