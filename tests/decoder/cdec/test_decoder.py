"""cdec as a decoder, with a fake one in its place: k-best lists, weights, and what happens when it fails."""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake import FakeCdec, Session, bare_model, cdec_decoder, is_alive, sentence
from support.mpi import ROOT

from mpitune.corpus.vocabulary import feature_id
from mpitune.decoder.base import KBest, Sentence
from mpitune.decoder.cdec import process
from mpitune.decoder.cdec.decoder import CdecDecoder
from mpitune.decoder.cdec.process import Timeouts
from mpitune.decoder.cdec.session import rounded
from mpitune.errors import DataError, MachineError

TABLE: dict[str, list[tuple[str, dict[str, float]]]] = {
    "ein haus": [
        ("a house", {"Glue": 1.0, "Late:b": 1.0, "Score": 0.5, "LM": -2.3}),
        ("one house", {"Glue": 2.0, "Score": 1.25, "LM": -3.1}),
        ("a house", {"Glue": 1.0, "Score": 0.75, "LM": -2.2}),
        ("a home", {"Late:a": 3.0, "Late:b": 0.1, "Score": -0.5, "Late:c": 1 / 3}),
        ("", {"LM": -1.7, "Score": 0.0}),
        ("the", {"LM": -9.1, "Score": 2.0**-20}),
    ],
    "zwei häuser": [("two houses", {"Score": 1.0}), ("houses", {"Score": 0.5, "R:X:ä=b": 1.0})],
    "nichts": [],
}
NAMES = ["Score", "LM"]


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeCdec]:
    found = FakeCdec(tmp_path / "fake", TABLE)
    yield found
    found.end()


def decoder_of(fake: FakeCdec, **options: Any) -> CdecDecoder:
    return cdec_decoder(fake.binary, fake.folder.parent / "run", bare_model(NAMES), **options)


def decode(decoder: CdecDecoder, text: str, weights: dict[str, float], number: int = 0, k: int = 4) -> KBest:
    slots = [decoder.features.slot(name) for name in weights]
    dense = np.zeros(len(decoder.features))
    dense[slots] = list(weights.values())
    return decoder.decode(Sentence(number, decoder._words.encode(text.split()), 0), dense, k)


def listed(decoder: CdecDecoder, kbest: KBest) -> list[tuple[str, dict[str, float], float]]:
    """Translations, features by name and scores."""
    found = []
    for j in range(kbest.size):
        row = slice(*kbest.feature_ptr[j : j + 2])
        names = map(decoder.features.name, kbest.feature_index[row].tolist())
        features = dict(zip(names, kbest.feature_value[row].tolist(), strict=True))
        text = " ".join(decoder._words.decode(kbest.translation(j)))
        found.append((text, features, float(kbest.score[j])))
    return found


WEIGHTS = {"Score": 1.0, "LM": 0.5, "Glue": -0.25, "Late:a": 0.125}
BEST = ["a home", "a house", "one house", ""]
"""What "ein haus" is with those weights."""


# K-best lists


def test_lists_are_those_of_the_child(fake: FakeCdec) -> None:
    decoder = decoder_of(fake)
    kbest = decode(decoder, "ein haus", WEIGHTS)
    found = listed(decoder, kbest)
    assert [text for text, _, _ in found] == BEST
    for text, features, score in found:
        given = [{name: v for name, v in row.items() if v} for other, row in TABLE["ein haus"] if other == text]
        assert features in given
        assert score == pytest.approx(sum(WEIGHTS.get(name, 0.0) * v for name, v in features.items()), abs=1e-14)
    assert found[1][1]["Score"] == 0.75, "of two derivations the better one"
    assert kbest.word_ptr.dtype == kbest.feature_ptr.dtype == np.int64
    assert kbest.word.dtype == kbest.feature_index.dtype == np.int32
    assert kbest.score.dtype == kbest.feature_value.dtype == np.float64
    assert decoder.failed == 0 and len(fake.children) == 1


def test_a_translation_may_come_twice_if_asked_for(fake: FakeCdec) -> None:
    decoder = decoder_of(fake, unique=False, kbest=5)
    assert [text for text, _, _ in listed(decoder, decode(decoder, "ein haus", WEIGHTS, k=5))] == [*BEST, "a house"]


@pytest.mark.parametrize("k", [1, 2, 3])
def test_fewer_may_be_asked_for(fake: FakeCdec, k: int) -> None:
    decoder = decoder_of(fake)
    assert [text for text, _, _ in listed(decoder, decode(decoder, "ein haus", WEIGHTS, k=k))] == BEST[:k]
    assert decode(decoder, "ein haus", WEIGHTS, k=4).size == 4
    assert len(fake.children) == 1


def test_there_may_be_fewer_than_asked_for(fake: FakeCdec) -> None:
    decoder = decoder_of(fake)
    assert [row[0] for row in listed(decoder, decode(decoder, "zwei häuser", WEIGHTS))] == ["two houses", "houses"]
    assert listed(decoder, decode(decoder, "nichts", WEIGHTS)) == [("", {}, 0.0)], "no derivation"
    assert [row[0] for row in listed(decoder, decode(decoder, "ein haus", WEIGHTS))] == BEST
    assert (decoder.failed, len(fake.children)) == (0, 1)


def test_a_sentence_without_a_derivation_is_told_of_once(fake: FakeCdec, caplog: pytest.LogCaptureFixture) -> None:
    decoder = decoder_of(fake)
    for _ in range(2):
        decode(decoder, "nichts", WEIGHTS, number=4)
    told = [record.message for record in caplog.records if "derivation" in record.message]
    assert [text.split(": ")[0] for text in told] == ["sentence 5"]
    assert "its translation is empty" in told[0]


def test_an_empty_sentence_is_not_sent(fake: FakeCdec) -> None:
    decoder = decoder_of(fake)
    assert listed(decoder, decode(decoder, "", WEIGHTS)) == [("", {}, 0.0)]
    assert decoder.failed == 0 and fake.children == []


def test_features_are_in_one_order(fake: FakeCdec) -> None:
    """Known ones by slot, those met late by id: not in the order in which this decoder happened to meet them."""
    for first in ("ein haus", "zwei häuser"):
        decoder = decoder_of(fake)
        assert len(decoder.features) == decoder.features.first_dynamic_slot
        decode(decoder, first, {})
        kbest = decode(decoder, "ein haus", {"Late:a": 1.0})
        assert kbest.translation(0).tolist() == decoder._words.encode(["a", "home"]).tolist()
        names = [decoder.features.name(slot) for slot in kbest.feature_index[: kbest.feature_ptr[1]].tolist()]
        assert names == ["Score", *sorted(["Late:a", "Late:b", "Late:c"], key=feature_id)]
        assert sorted(kbest.feature_index[: kbest.feature_ptr[1]].tolist())[0] == 3


def test_unknown_features_are_told_of_once(fake: FakeCdec, caplog: pytest.LogCaptureFixture) -> None:
    decoder = decoder_of(fake)
    for _ in range(2):
        decode(decoder, "zwei häuser", {})
        decode(decoder, "ein haus", {})
    told = [r.message for r in caplog.records if "not known before decoding" in r.message]
    assert len(told) == 1 and "such as R:X:ä=b" in told[0] and "learner.initial_weights" in told[0]
    first = decoder.features.first_dynamic_slot
    assert {decoder.features.name(slot) for slot in range(first, len(decoder.features))} == {
        "R:X:ä=b",
        *("Late:a", "Late:b", "Late:c"),
    }


@pytest.mark.parametrize("value", [2.0**-20, -(2.0**-20), 2.0**30, 1e-6, 12345678.9])
def test_a_lost_nibble_is_found_by_the_score(fake: FakeCdec, tmp_path: Path, value: float) -> None:
    fake = FakeCdec(tmp_path / "other", {"x": [("y", {"ab": value})]})  # 2 + 1 + 8 bytes
    decoder = cdec_decoder(fake.binary, tmp_path / "run", bare_model(["ab"]))
    for weight in (1.0, -300.0, 2.0**40):
        if abs(weight * value) > 1e-3:
            assert listed(decoder, decode(decoder, "x", {"ab": weight}))[0][1] == {"ab": value}
    assert decoder.failed == 0 and len(fake.children) == 1


def test_a_recorded_session_gives_its_translations(session: Session, tmp_path: Path) -> None:
    """The weights of the session in, its translations out; the fake refuses weights that are not the session's."""
    fake = FakeCdec(tmp_path / "fake")
    fake.replays(session)
    model = bare_model(["LanguageModel", "LanguageModel_OOV", *(f"PhraseModel_{n}" for n in range(7))])
    decoder = cdec_decoder(fake.binary, tmp_path / "run", model, kbest=session.kbest)
    weights = dict(session.weights)
    for number, turn in enumerate(session.turns):
        for name, delta in (turn["delta"] or {}).items():
            weights[name] = weights.get(name, 0.0) + delta
        text = turn["sent"].partition(">")[2].removesuffix("</seg>")
        found = listed(decoder, decode(decoder, text, weights, number, session.kbest))
        lines = [line.rstrip("\n").split(" ||| ") for line in turn["received"][1:]]
        assert [text for text, _, _ in found] == ([line[2] for line in lines] or [""])
        assert [f"{score:.6g}" for _, _, score in found] == ([line[4] for line in lines] or ["0"])
    assert decoder.failed == 0 and len(fake.children) == 1


def test_each_sentence_may_have_its_grammar(fake: FakeCdec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fake.keeps_turns()
    model = bare_model(NAMES)
    decoder = cdec_decoder(fake.binary, tmp_path / "run", model, grammars=[Path("a.gz"), Path("b.gz")])
    for number, grammar in enumerate((1, 0)):
        asked = sentence(model, number, "ein haus")._replace(grammar=grammar)
        decoder.decode(asked, np.zeros(len(decoder.features)), 4)
    found = [segment for segment, _ in fake.turns()]
    assert found == [
        f'<seg id="{n}" grammar="{tmp_path}/{name}.gz">ein haus</seg>' for n, name in enumerate(("b", "a"))
    ]


def test_a_lattice_is_refused(fake: FakeCdec) -> None:
    with pytest.raises(DataError, match=r"sentence 8 begins with \"\(\(\('a'\", which cdec reads as a lattice"):
        decode(decoder_of(fake), "((('a' b", {}, number=7)


# Weights


def test_the_child_has_the_weights_rounded(fake: FakeCdec) -> None:
    """Bit for bit, whatever it had before: signs change, weights come and go, by factors of 2^20 and more."""
    fake.keeps_turns()
    decoder = decoder_of(fake)
    random = np.random.default_rng(1)
    names = ["Score", "LM", "Glue", "Late:a", "R:X:ä=b", "odd=#"]
    expected, weights = [], np.zeros(len(names))
    for step in range(60):
        kind = step % 6
        if kind < 2:
            weights = weights + random.normal(size=len(names)) * 2.0**-10
        elif kind == 2:
            weights = -weights
        elif kind == 3:
            weights = weights * np.where(random.random(len(names)) < 0.4, 0.0, 1.0) + 0.1
        elif kind == 4:
            weights = weights * 2.0 ** float(random.integers(-20, 21))
        else:
            weights = random.normal(size=len(names)) * 10.0 ** random.integers(-9, 3, len(names))
        # A child that has just been started is asked with the same weights as one that has seen them all.
        text = "zwei häuser" if step % 2 else "nichts"
        decode(decoder, text, dict(zip(names, weights.tolist(), strict=True)), number=step)
        values = rounded(weights).tolist()
        expected.append({name: value for name, value in zip(names, values, strict=True) if value})
    assert [held for _, held in fake.turns()] == expected
    assert decoder.failed == 0
    assert 1 < len(fake.children) < 30, "a new child only where the sum would be rounded"


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5), st.data())
def test_differences_of_rounded_weights_are_exact(before: list[float], data: st.DataObject) -> None:
    largest = max(map(abs, before))
    factors = st.lists(st.floats(-1, 1), min_size=len(before), max_size=len(before))
    after = np.array(data.draw(factors)) * data.draw(st.floats(largest / 100, largest * 100))
    now, then = rounded(np.array(before)), rounded(after)
    assert np.abs(now - before).max() <= largest * 2.0**-43
    if 2.0**-7 < np.abs(after).max() / (largest or 1.0) < 2.0**7:
        assert (now + (then - now) == then).all()
    assert (rounded(now) == now).all(), "what is rounded stays"


def test_no_weights_and_extreme_ones() -> None:
    assert rounded(np.zeros(0)).shape == (0,)
    assert rounded(np.zeros(3)).tolist() == [0.0] * 3
    for value in (1e308, 5e-324, 1e-310):
        assert rounded(np.array([value, -value, 0.0])).tolist() == pytest.approx([value, -value, 0.0], rel=1e-12)


def test_weights_that_are_no_numbers_do_not_reach_the_child(fake: FakeCdec) -> None:
    fake.keeps_turns()
    decoder = decoder_of(fake)
    decode(decoder, "ein haus", WEIGHTS)
    for value in (np.nan, np.inf):
        assert np.isnan(decode(decoder, "ein haus", {"LM": value}).score).all()
    found = listed(decoder, decode(decoder, "ein haus", WEIGHTS))
    assert [text for text, _, _ in found] == BEST
    assert len(fake.turns()) == 2 and len(fake.children) == 1


# It fails

ONCE = [
    "dies",
    "dies mid-answer",
    "wrong number of lines",
    "not a number",
    "not UTF-8",
    "wrong id",
    "a field too few",
    "not base64",
    "cut base64",
    "a name that is not UTF-8",
    "not a score",
    "wrong score",
    "says too little",
    "hangs",
]
SILENT = Timeouts(start=20.0, first=20.0, sentence=0.5)


def lists(decoder: CdecDecoder, count: int = 3) -> list[Any]:
    """What a few sentences become, with weights that change from one to the next."""
    found = []
    for number in range(count):
        weights = {name: value + number / 8 for name, value in WEIGHTS.items()}
        found.append(listed(decoder, decode(decoder, "ein haus", weights, number)))
    return found


@pytest.mark.parametrize("fault", ONCE)
def test_a_sentence_that_fails_is_tried_again(
    fake: FakeCdec, tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    expected = lists(decoder_of(FakeCdec(tmp_path / "sound" / "fake", TABLE)))
    fake.fails(fault, segment=1, once=True)
    fake.keeps_turns()
    decoder = decoder_of(fake, timeouts=SILENT if fault in ("says too little", "hangs") else Timeouts())
    # The third sentence would run into the short time-out on a slow machine; the second is the first of a new child.
    count = 2 if fault in ("says too little", "hangs") else 3
    assert lists(decoder, count) == expected[:count]
    assert decoder.failed == 0
    assert len(fake.children) == 2 and fake.living() == fake.children[1:]
    segments = [re.sub(r" delta=\S+\"", "", segment) for segment, _ in fake.turns()]
    assert segments == [f'<seg id="{n}">ein haus</seg>' for n in (0, 1, 1, 2)[: count + 1]]
    assert fake.turns()[1][1] == fake.turns()[2][1], "the new child begins with the same weights"
    told = [record.message for record in caplog.records if record.message.startswith("sentence")]
    assert len(told) == 1 and told[0].startswith("sentence 2: ") and told[0].endswith("; retrying once")


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("dies", "ended by signal 9"),
        ("dies mid-answer", "ended with exit code 1; last line of its standard error: 'out of memory'"),
        ("not a number", "answered 'Segmentation fault', expected 4, the number of lines that follow"),
        ("wrong number of lines", "answered '17', expected 4, the number of lines that follow"),
        ("not UTF-8", r"answered b'\xff\xfe0 ||| 2 ||| "),
        ("wrong id", "answered '777 ||| 2 ||| "),
        ("wrong score", "answered a score of "),
    ],
)
def test_how_it_failed_is_told(fake: FakeCdec, caplog: pytest.LogCaptureFixture, fault: str, said: str) -> None:
    fake.fails(fault, once=True)
    decode(decoder_of(fake), "ein haus", WEIGHTS)
    told = [record.message for record in caplog.records if record.message.startswith("sentence")]
    assert told[0].startswith(f"sentence 1: {fake.binary} {said}")


def test_an_output_that_is_closed(
    fake: FakeCdec, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = subprocess.Popen.wait
    short = lambda process, timeout=None: wait(process, timeout and 0.1)  # noqa: E731
    monkeypatch.setattr(subprocess.Popen, "wait", short)
    fake.fails("closes its output", once=True)
    decoder = decoder_of(fake)
    assert [row[0] for row in listed(decoder, decode(decoder, "ein haus", WEIGHTS))] == BEST
    assert any("closed its output" in record.message for record in caplog.records)
    assert decoder.failed == 0 and fake.living() == fake.children[1:]


@pytest.mark.parametrize("fault", ["says too much", "an empty line too much"])
def test_an_answer_that_is_too_long_is_not_the_next_one(fake: FakeCdec, tmp_path: Path, fault: str) -> None:
    expected = lists(decoder_of(FakeCdec(tmp_path / "sound" / "fake", TABLE)), 5)
    fake.fails(fault, segment=1, once=True)
    decoder = decoder_of(fake)
    assert lists(decoder, 5) == expected
    assert decoder.failed == 0


def test_a_sentence_that_fails_twice_is_given_up(fake: FakeCdec, caplog: pytest.LogCaptureFixture) -> None:
    fake.fails("dies mid-answer", text="zwei häuser")
    decoder = decoder_of(fake)
    decode(decoder, "ein haus", WEIGHTS)
    found = listed(decoder, decode(decoder, "zwei häuser", WEIGHTS, number=6))
    assert found == [("", {}, 0.0)] and decoder.failed == 1
    told = [record.message for record in caplog.records if record.message.startswith("sentence 7: ")]
    assert [line.rpartition("; ")[2] for line in told] == ["retrying once", "giving up: its translation is empty"]
    assert [row[0] for row in listed(decoder, decode(decoder, "ein haus", WEIGHTS))] == BEST
    assert len(fake.children) == 3 and fake.living() == fake.children[2:]


def test_five_failures_in_a_row_are_the_machines_fault(fake: FakeCdec, tmp_path: Path) -> None:
    fake.fails("dies mid-answer", text="zwei häuser")
    decoder = decoder_of(fake)
    for _ in range(4):
        decode(decoder, "zwei häuser", WEIGHTS)
    decode(decoder, "ein haus", WEIGHTS)
    for _ in range(4):
        decode(decoder, "zwei häuser", WEIGHTS)
    assert decoder.failed == 8
    with pytest.raises(MachineError) as error:
        decode(decoder, "zwei häuser", WEIGHTS)
    log = tmp_path / "run" / "stderr.log"
    words = "ended with exit code 1; last line of its standard error: 'out of memory'"
    assert str(error.value) == (f"5 sentences in a row failed: {fake.binary} {words}; its standard error is in {log}")
    assert "out of memory\n" in log.read_text()
    assert fake.living() == [] and error.value.exit_code == 4


def test_a_child_that_was_killed_is_replaced(fake: FakeCdec) -> None:
    decoder = decoder_of(fake)
    expected = lists(decoder)
    os.kill(fake.children[0], signal.SIGKILL)
    assert lists(decoder) == expected
    assert decoder.failed == 0 and fake.living() == fake.children[1:]


# It does not start


def test_a_child_that_does_not_start(fake: FakeCdec, tmp_path: Path) -> None:
    fake.fails("never starts")
    with pytest.raises(MachineError) as error:
        decode(decoder_of(fake), "ein haus", WEIGHTS)
    words = "ended with exit code 1; last line of its standard error: 'cannot find my grammar'"
    log = tmp_path / "run" / "stderr.log"
    assert str(error.value) == f"decoder.binary: {fake.binary} {words}; its standard error is in {log}"
    assert error.value.exit_code == 4
    assert len(fake.children) == 1, "it is not tried again"


def test_a_child_that_does_not_start_again(fake: FakeCdec) -> None:
    fake.fails("dies mid-answer", text="zwei häuser", once=True)
    decoder = decoder_of(fake)
    decode(decoder, "ein haus", WEIGHTS)
    fake.binary.unlink()
    with pytest.raises(
        MachineError, match="decoder.binary: .* is neither a program .*; its standard error is in .*stderr.log"
    ):
        decode(decoder, "zwei häuser", WEIGHTS)


def test_a_child_that_hangs_at_its_start(fake: FakeCdec) -> None:
    fake.fails("hangs at its start")
    with pytest.raises(MachineError, match="did not read its first sentence within 0.5 seconds"):
        decode(decoder_of(fake, timeouts=Timeouts(start=0.5)), "ein haus", WEIGHTS)
    assert fake.living() == []


@pytest.mark.parametrize("name", ["no-such-decoder", "/no/such/decoder"])
def test_a_missing_program_is_told(tmp_path: Path, name: str) -> None:
    decoder = cdec_decoder(name, tmp_path / "run", bare_model(NAMES))
    with pytest.raises(MachineError) as error:
        decode(decoder, "ein haus", WEIGHTS)
    assert str(error.value) == f"decoder.binary: {name} is neither a program on the PATH nor an executable file"


def test_what_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"\x7fnot a program")
    (tmp_path / "text").chmod(0o755)
    with pytest.raises(MachineError, match="Exec format error"):
        decode(cdec_decoder(tmp_path / "text", tmp_path / "run", bare_model(NAMES)), "ein haus", WEIGHTS)


def test_a_program_on_the_path(fake: FakeCdec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{fake.folder}{os.pathsep}{os.environ['PATH']}")
    decoder = cdec_decoder("cdec", tmp_path / "run", bare_model(NAMES))
    assert [row[0] for row in listed(decoder, decode(decoder, "ein haus", WEIGHTS))] == BEST
    assert len(fake.children) == 1


# What it says


def test_what_it_says_is_kept_and_cut(fake: FakeCdec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "LOG_LIMIT", 100_000)
    fake.fails("fills its log")
    decoder = decoder_of(fake)
    before = lists(decoder_of(FakeCdec(tmp_path / "sound" / "fake", TABLE)))
    for _ in range(4):
        assert lists(decoder) == before
    log, old = tmp_path / "run" / "stderr.log", tmp_path / "run" / "stderr.old.log"
    said = len("chatter " * 30 * 1024)
    assert log.stat().st_size <= 100_000 + said + 1
    assert 100_000 < old.stat().st_size <= 100_000 + said + len("loading ...\n") + 1
    assert log.read_text().startswith("chatter"), "no hole where it was cut"
    assert decoder.failed == 0 and len(fake.children) == 1


def test_what_several_children_said_is_kept(fake: FakeCdec, tmp_path: Path) -> None:
    fake.fails("dies mid-answer", segment=1, once=True)
    decoder = decoder_of(fake)
    lists(decoder)
    assert (tmp_path / "run" / "stderr.log").read_text() == "loading ...\nout of memory\n\nloading ...\n"


# Its end


def test_it_ends_with_its_decoder(fake: FakeCdec) -> None:
    fake.fails("never ends")
    decoder = decoder_of(fake)
    decode(decoder, "ein haus", WEIGHTS)
    assert len(fake.living()) == 1
    del decoder
    gc.collect()
    assert fake.living() == []


PARENT = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from support.fake import bare_model, cdec_decoder, sentence
import numpy as np
model = bare_model([])
decoder = cdec_decoder(sys.argv[2], Path(sys.argv[3]), model)
decoder.decode(sentence(model, 0, "ein haus"), np.zeros(len(decoder.features)), 4)
how = sys.argv[4]
if how == "exception":
    raise KeyError("a bug")
if how == "_exit":
    os._exit(0)
if how != "end":
    os.kill(os.getpid(), getattr(signal, how))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's end")
@pytest.mark.parametrize("how", ["end", "exception", "_exit", "SIGKILL", "SIGTERM"])
def test_it_ends_with_the_process(fake: FakeCdec, tmp_path: Path, how: str) -> None:
    """Even one that does not look at its input any more."""
    fake.fails("never ends")
    command = [sys.executable, "-c", PARENT, str(ROOT / "tests"), str(fake.binary), str(tmp_path / "run"), how]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command, capture_output=True, cwd=tmp_path, env=environment, timeout=60)
    assert len(fake.children) == 1
    wait_until(lambda: not fake.living())


def wait_until(condition: Any, seconds: float = 60.0) -> None:
    """Return when ``condition`` holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP])
def test_signals_that_stop_a_run_do_not_stop_it(fake: FakeCdec, number: signal.Signals) -> None:
    decoder = decoder_of(fake)
    decode(decoder, "ein haus", WEIGHTS)
    os.kill(fake.children[0], number)
    assert [row[0] for row in listed(decoder, decode(decoder, "ein haus", WEIGHTS))] == BEST
    assert len(fake.children) == 1 and is_alive(fake.children[0])
    assert os.getpgid(fake.children[0]) != os.getpgid(0), "a terminal's Ctrl-C is not for it"
