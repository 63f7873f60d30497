"""cdec itself, where it is on the PATH: what the fake one stands for."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.fake import SHORT, Session, bare_model, cdec_decoder, golden_session, own_session
from support.mpi import mpirun
from support.runs import epoch_weights, files_of, metrics
from support.tiny import DEVTEST, Tiny, write_data

from mpitune.cli.parser import main
from mpitune.corpus.weights import write_weights
from mpitune.decoder.base import Sentence, TranslationModel
from mpitune.decoder.cdec.process import Child
from mpitune.decoder.cdec.protocol import Entry, entry
from mpitune.grammar.cdec_ini import make_inifile

pytestmark = pytest.mark.skipif(shutil.which("cdec") is None, reason="needs cdec on the PATH")

PHRASE_MODEL = [f"PhraseModel_{n}" for n in range(7)]


class Setting:
    """What a session was recorded with."""

    def __init__(self, session: Session, inifile: str, names: list[str]) -> None:
        self.session, self.inifile, self.names = session, inifile, names

    def model(self) -> TranslationModel:
        return bare_model(["Glue", "WordPenalty", "PassThrough", *self.names], ["LanguageModel"])


@pytest.fixture(params=["own", "golden"], scope="module")
def setting(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Setting:
    folder = tmp_path_factory.mktemp("recorded")
    if request.param == "own":
        write_data(folder)
        text = (
            f"formalism=scfg\ngrammar={folder}/grammar\nscfg_max_span_limit=15\ncubepruning_pop_limit=30\n"
            f"feature_function=WordPenalty\nfeature_function=KLanguageModel {folder}/lm.arpa\n"
            "feature_function=RuleIdentityFeatures\n"
        )
        return Setting(own_session(), text, ["Cost", "Lex", "Order", "Rare"])
    shared: Path = request.getfixturevalue("shared")
    text = make_inifile(
        None,
        grammars=[shared / "data" / "nc" / "grammar.gz"],
        language_models=[("LanguageModel", shared / "data" / "nc" / "lm.3.arpa.gz")],
        templates=[],
        pop_limit=200,
        span_limit=15,
    )
    return Setting(golden_session(shared), text, PHRASE_MODEL)


def entries(lines: list[str], number: int) -> list[Entry]:
    return [entry(line.rstrip("\n"), number) for line in lines if line.strip()]


def test_a_recorded_session_again(setting: Setting, tmp_path: Path) -> None:
    """The same lines in, the same answers out: all but the order of the features, and the nibble that it loses."""
    session = setting.session
    (tmp_path / "cdec.ini").write_text(setting.inifile)
    write_weights(tmp_path / "weights", session.weights.items())
    options = ["-c", str(tmp_path / "cdec.ini"), "-w", str(tmp_path / "weights"), "-k", str(session.kbest)]
    child = Child(["cdec", *options, "-r", "--mr_mira_compat"], tmp_path / "log", SHORT._replace(start=300.0))
    for number, turn in enumerate(session.turns):
        received = [child.ask(turn["sent"])]
        received += [child.line() for _ in turn["received"][1:]]
        assert received[0] == turn["received"][0].rstrip("\n")
        found, recorded = entries(received[1:], number), entries(turn["received"][1:], number)
        for mine, theirs in zip(found, recorded, strict=True):
            assert (mine.words, f"{mine.score:.6g}") == (theirs.words, f"{theirs.score:.6g}")
            assert mine.features.keys() == theirs.features.keys()
            for name in mine.features.keys() - {mine.guessed, theirs.guessed}:
                assert mine.features[name] == theirs.features[name], name
    assert number == 4


def test_a_recorded_session_through_the_decoder(setting: Setting, tmp_path: Path) -> None:
    """Its weights are rounded, by less than the scores' digits show."""
    session, model = setting.session, setting.model()
    decoder = cdec_decoder(
        "cdec", tmp_path, model, inifile=setting.inifile, kbest=session.kbest, timeouts=SHORT._replace(start=300.0)
    )
    weights = dict(session.weights)
    for number, turn in enumerate(session.turns):
        for name, delta in (turn["delta"] or {}).items():
            weights[name] = weights.get(name, 0.0) + delta
        slots = [decoder.features.slot(name) for name in weights]
        dense = np.zeros(len(decoder.features))
        dense[slots] = list(weights.values())
        words = turn["sent"].partition(">")[2].removesuffix("</seg>").split()
        kbest = decoder.decode(Sentence(number, model.words.encode(words), 0), dense, session.kbest)
        recorded = entries(turn["received"][1:], number)
        assert kbest.size == max(len(recorded), 1)
        assert recorded or len(kbest.translation(0)) == 0
        for j, theirs in enumerate(recorded):
            row = slice(*kbest.feature_ptr[j : j + 2])
            names = [decoder.features.name(slot).encode() for slot in kbest.feature_index[row].tolist()]
            assert model.words.decode(kbest.translation(j)) == theirs.words
            assert dict(zip(names, kbest.feature_value[row].tolist(), strict=True)) == pytest.approx(
                theirs.features, rel=1e-9
            )
            assert f"{kbest.score[j]:.6g}" == f"{theirs.score:.6g}"
    assert decoder.failed == 0


def tables(**learner: Any) -> dict[str, Any]:
    return {
        "decoder": {"backend": "cdec"},
        "features": {"templates": ["id", "shape"]},
        "learner": {"epochs": 2, **learner},
        **DEVTEST,
    }


@pytest.mark.mpi
@pytest.mark.parametrize("algorithm", ["mix", "itersel"])
def test_training_on_two_ranks(tiny: Tiny, tmp_path: Path, algorithm: str) -> None:
    tiny.train(tmp_path / "one", **tables(algorithm=algorithm))
    done = mpirun(
        2, ["-m", "mpitune", "train", tiny.job_file(tmp_path / "two", **tables(algorithm=algorithm)), "--quiet"]
    )
    assert done.returncode == 0, done.stderr
    assert files_of(tmp_path / "two") == files_of(tmp_path / "one")
    first, last = metrics(tmp_path / "one")
    assert last["gold"] > first["gold"] and last["failed_sentences"] == 0
    assert any(name.startswith("R:X:") for name in epoch_weights(tmp_path / "one", 2))


def test_decoding_as_our_own_decoder_does(tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Weights on which no two translations tie, and a pop limit that neither search comes to."""
    random = np.random.default_rng(3)
    names = ["Glue", "WordPenalty", "PassThrough", "LanguageModel", "LanguageModel_OOV", "Cost", "Lex", "Order", "Rare"]
    weights = dict(zip(names, (random.normal(size=len(names)) / 4).tolist(), strict=True)) | {"LanguageModel": 0.9}
    write_weights(tmp_path / "model.gz", weights.items())
    found = {}
    for backend in ("cdec", "embedded"):
        job = tiny.job_file(tmp_path / backend, **tables() | {"decoder": {"backend": backend, "pop_limit": 1000}})
        command = ["decode", str(job), "--input", str(tiny.folder / "dev.de"), "--weights", str(tmp_path / "model.gz")]
        assert main([*command, "--nbest", "5", "--format", "cdec"]) == 0
        lines = [line.split(" ||| ") for line in capsys.readouterr().out.splitlines()]
        found[backend] = [(line[0], line[1], f"{float(line[3]):.4g}") for line in lines]
    assert found["cdec"] == found["embedded"] and len(found["cdec"]) == 40
