"""Parts that register themselves by name, such as methods and metrics: adding one is adding a file to a package."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import TypeVar

T = TypeVar("T")
P = TypeVar("P")


class Registry(Mapping[str, T]):
    """The parts of one kind by name: the first ones in the order given, then all others alphabetically.

    The modules that register parts are imported at the first look, not before: making a registry takes no time.
    """

    def __init__(self, *places: str, first: Sequence[str] = (), parts: Mapping[str, T] | None = None) -> None:
        """``places``: packages, each of whose modules may register parts; ``first``: names; ``parts``: known ones."""
        self._places, self._parts = places, dict(parts or {})
        self.first = (*first, *self._parts)
        self._loaded = False

    def register(self, name: str) -> Callable[[P], P]:
        """A decorator of the class or function that is the part called ``name``. Raises ValueError for a second one."""

        def add(part: P) -> P:
            if name in self._parts:
                raise ValueError(f"{name} is registered twice")
            self._parts[name] = part  # type: ignore[assignment]  # a class keeps its own type
            return part

        return add

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
