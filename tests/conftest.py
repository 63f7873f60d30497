"""What several tests need."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from support.commands import Cli, Trained
from support.fake import Session, golden_session, own_session
from support.runs import Decodes
from support.tiny import DEVTEST, Tiny

from mpitune.config import plugin_files
from mpitune.corpus.progress import draw_on
from mpitune.exchange.selection import NORMS
from mpitune.grammar.sparse import TEMPLATES, prefixes
from mpitune.learner.methods import METHODS
from mpitune.metrics.tuning_metric import METRICS
from mpitune.registry import Registry
from mpitune.runtime.log import LOG
from mpitune.runtime.signals import StopFlag

# How long an example takes is nobody's promise.
settings.register_profile("mpitune", deadline=None)
settings.load_profile("mpitune")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole runs are slow. They start first, so that the last test to end is short; modules stay together."""

    def folder(item: pytest.Item) -> str:
        return item.path.relative_to(Path(__file__).parent).parts[0]

    first = ["system", "integration"]
    for item in items:
        if folder(item) in first:
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: first.index(folder(item)) if folder(item) in first else len(first))


@pytest.fixture(scope="session", autouse=True)
def fsync_does_not_wait() -> Iterator[None]:
    """Waiting for the disk is most of the time of a run in this process. Tests of fsync replace it; ranks have it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(autouse=True)
def log_as_new() -> Iterator[None]:
    """A run in this process leaves its log open: no test is to find that of another."""
    yield
    for handler in LOG.handlers[:]:
        LOG.removeHandler(handler)
        handler.close()
    draw_on(None)
    LOG.propagate = True
    LOG.setLevel(logging.NOTSET)


@pytest.fixture(autouse=True)
def signals_as_new() -> Iterator[None]:
    """A run in this process that was asked to stop ignores further requests: the next test is not to."""
    before = {number: signal.getsignal(number) for number in StopFlag.SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """What is logged in the test, as ``logged.messages``."""
    caplog.set_level(logging.INFO, LOG.name)
    return caplog


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data and golden files beside the repository; its tests are skipped where it is absent."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not (folder / "golden").is_dir():
        pytest.skip(f"needs the shared data and golden files in {folder}")
    return folder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """A complete task over which a run takes a second."""
    return Tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(params=["own", "golden"])
def session(request: pytest.FixtureRequest) -> Session:
    """A recorded session with cdec: one that lies with the tests, and the one beside the repository."""
    return own_session() if request.param == "own" else golden_session(request.getfixturevalue("shared"))


@pytest.fixture
def own_parts() -> Iterator[None]:
    """Parts that plugins, or the test itself, register are forgotten at its end."""
    registries: list[Registry[Any]] = [TEMPLATES, METRICS, NORMS, METHODS]
    before = [(dict(registry), dict(registry.origins)) for registry in registries]
    yield
    for registry, (parts, origins) in zip(registries, before, strict=True):
        registry._parts, registry.origins = parts, origins
    prefixes.cache_clear()
    plugin_files._executed.clear()


@pytest.fixture
def decodes(monkeypatch: pytest.MonkeyPatch) -> Decodes:
    return Decodes(monkeypatch)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


@pytest.fixture(scope="session")
def trained(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    run = tmp_path_factory.mktemp("cli") / "run"
    tiny.train(run, **DEVTEST)
    source = run.parent / "input"
    source.write_text("\n".join(["das kind hat das haus gesehen", "", "qwertz #1 ||", "heute den ball gekauft", ""]))
    return Trained(tiny.job_file(run, **DEVTEST), run, source)
