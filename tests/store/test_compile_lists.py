"""Lists compiled into a store: warnings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from mpitune.store.compile_lists import compile_lists
from mpitune.store.inputs import StoreInputs, Texts


@contextmanager
def no_progress(label: str, count: int) -> Iterator[Any]:
    yield Mock()


def test_features_of_another_scale_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for value in (900, 1100):
        entries = [f"0 ||| {n} ||| lm=-1 tm=1 length={value}" for n in range(3)]
        (tmp_path / "lists").write_text("".join(f"{entry}\n" for entry in entries))
        (tmp_path / "references").write_text("a\n")
        texts = Texts(None, (tmp_path / "references",), lists=(tmp_path / "lists",))
        caplog.clear()
        compile_lists(StoreInputs(train=texts), tmp_path, no_progress)
        assert ("values of length are 1100 times as large as those of other features" in caplog.text) == (value > 1000)
