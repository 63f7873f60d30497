"""`mpitune local` over a tiny task: what is kept, what is learned from it, what is said."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog
from support.commands import Arguments, Cli
from support.fake import FakeCdec
from support.mpi import ROOT, mpirun
from support.runs import SENTENCES, Decodes, damage, metrics
from support.tiny import DEVTEST, Tiny

from mpitune.array_files import arrays
from mpitune.array_files.arrays import open_arrays
from mpitune.corpus.vocabulary import feature_id
from mpitune.corpus.weights import read_weights
from mpitune.decoder.base import Sentence
from mpitune.decoder.embedded.decoder import EmbeddedDecoder
from mpitune.exchange.comm import SerialComm
from mpitune.learner.local.mbuu import mbuu
from mpitune.metrics import bleu
from mpitune.metrics.sentence_bleu import bleu_plus_one
from mpitune.run_folder import nbest_store
from mpitune.run_folder.model_weights import read_scoring
from mpitune.store.store import open_store
from mpitune.training import factory, job_inputs
from mpitune.training.local import learning, training_lists
from mpitune.training.local import retrieval as searching
from mpitune.training.local.retrieval import Retrieval
from mpitune.training.local.training_lists import training_data
from mpitune.training.local.translation import Translator
from mpitune.training.open_run import InitialModel

SMALL = 5
"""How many sentences' lists are in a file, here: six files. Sentences are searched for in parts, too."""
WEIGHTS = "LanguageModel 0.5\nCost -0.25\nLex -0.5\nOrder -0.125\nGlue -0.0625\n"


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(training_lists, "BLOCK", SMALL)
    monkeypatch.setattr(searching, "AT_ONCE", 3)
    yield


@pytest.fixture(scope="module")
def weights(tiny: Tiny) -> Path:
    (tiny.folder / "global").write_text(WEIGHTS)
    return tiny.folder / "global"


def command(job: Path, weights: Path, source: Path, *settings: str, more: Arguments | None = None) -> Arguments:
    given = [word for setting in settings for word in ("--set", setting)]
    return ["local", job, "--input", source, "--weights", weights, *given, *(more or [])]


def kept_files(run: Path) -> dict[str, bytes]:
    """The arrays of all lists, by file and name."""
    found = {}
    for path in sorted((run / "local").rglob("*.npz")):
        found |= {f"{path.name}/{name}": array.tobytes() for name, array in open_arrays(path).items()}
    return found


FEW: dict[str, Any] = {"decoder": {"kbest": 2}}
"""Lists so short that other weights fire other features."""
SUMMARY = re.compile(
    r"8 sentences, each: \S+ ms retrieval, \S+ ms learning, \S+ ms decoding; "
    r"\|\|w - w_b\|\| (\S+?) on average(?:, duality gap at most (\S+))?$"
)


# What comes out


@pytest.mark.parametrize("method", ["ebuu", "mbuu"])
def test_without_lambda_translations_are_the_global_ones(
    cli: Cli, tiny: Tiny, tmp_path: Path, weights: Path, method: str
) -> None:
    job, source = tiny.job_file(tmp_path / "run"), tiny.folder / "dev.de"
    plain = cli("decode", job, "--input", source, "--weights", weights).output
    asked = f"local.method={method}", "local.k=6"
    done = cli(*command(job, weights, source, *asked, "local.lambda=0"))
    assert (done.code, done.output) == (0, plain)
    said = SUMMARY.match(done.errors.splitlines()[-1])
    assert said and float(said[1]) == 0.0 and (said[2] is not None) == (method == "mbuu")
    # And with lambda they are not.
    done = cli(*command(job, weights, source, *asked, "local.lambda=20"))
    said = SUMMARY.match(done.errors.splitlines()[-1])
    assert done.output != plain and said and float(said[1]) > 0.0
    assert len(done.output.splitlines()) == len(plain.splitlines())


def test_a_sentence_that_is_its_own_neighbour(tiny: Tiny, tmp_path: Path, weights: Path) -> None:
    """K = 1 and a large lambda: its oracle becomes the first of its list, wherever weights can do that."""
    job, given = tiny.job(tmp_path / "run"), read_weights(weights)
    training = training_data(job, SerialComm(), InitialModel(given, None))
    retrieval = Retrieval(SerialComm(), training, 1, job.local.theta)
    separable = 0
    for i in range(training.corpus.size):
        [found] = retrieval.nearest([training.words.decode(training.corpus.sentence(i).words)])
        assert found.distance == pytest.approx([0.0], abs=1e-12) or not len(training.corpus.sentence(i).words)
        same = training.corpus.sentence(int(found.number[0])).words
        assert same.tolist() == training.corpus.sentence(i).words.tolist()
        examples = training.lists.examples(found.number)
        x = np.zeros((len(examples.gold), len(examples.feature)))
        rows = np.repeat(np.arange(len(x)), np.diff(examples.row_ptr))
        x[rows, examples.column] = examples.value
        behind = examples.gold.max() - examples.gold
        # Those that have the oracle's features stay beside it.
        some = x.any(axis=1)
        if not some.any():
            continue
        able = linprog(np.zeros(x.shape[1]), A_ub=x[some], b_ub=-(behind + examples.ahead)[some], bounds=(None, None))
        if able.status != 0:
            continue
        separable += 1
        scores = examples.ahead + x @ mbuu(examples, 1e6).change
        assert scores[some & (behind > 0)].max(initial=-np.inf) < 0.0 == scores[examples.oracle[0]]
    assert separable > 10


def test_a_model_with_features_in_bins(cli: Cli, tiny: Tiny, tmp_path: Path) -> None:
    """The bins are those that the global weights go with, whatever the training data have."""
    bins = {"features__discretize": {"features": ["Cost"], "bins": 4}}
    tiny.train(tmp_path / "global", data={"limit": 6}, learner={"epochs": 1}, **bins)
    job, source = tiny.job_file(tmp_path / "run"), tiny.folder / "dev.de"
    plain = cli("decode", job, "--input", source, "--weights", tmp_path / "global").output
    done = cli(*command(job, tmp_path / "global", source, "local.k=6", "local.lambda=0"))
    assert (done.code, done.output) == (0, plain)
    scoring = read_scoring(tmp_path / "global")
    made_from = nbest_store.lists_made_from(tmp_path / "run" / "local")
    assert scoring and made_from["bins of features.discretize"] == scoring.digest
    fired = set(nbest_store.open_lists(tmp_path / "run" / "local", 0, 0).feature_id.tolist())
    assert fired & {feature_id(name) for name in scoring.bins[0].names} and feature_id("Cost") not in fired


def test_what_is_global_is_left_as_it_was(tiny: Tiny, tmp_path: Path, weights: Path) -> None:
    """A sentence's own weights are forgotten when it is translated, to the bit."""
    job, given = tiny.job(tmp_path / "run", local={"k": 5, "lambda": 5.0}), read_weights(weights)
    training = training_data(job, SerialComm(), InitialModel(given, None))
    retrieval = Retrieval(SerialComm(), training, 5, 0.1)
    decoder = factory.decoder(job, open_store(job_inputs.sources(job), job.run.store), tmp_path, 1)
    translator = Translator(training, learning.learner(job, training), decoder, given)
    seen = []

    def decode(sentence: Sentence, weights: np.ndarray, k: int) -> Any:
        seen.append(weights.copy())
        return EmbeddedDecoder.decode(decoder, sentence, weights, k)

    decoder.decode = decode  # type: ignore[method-assign]
    before = translator._weights.value.copy()
    for i in range(5):
        sentence = training.corpus.sentence(i)
        [found] = retrieval.nearest([training.words.decode(sentence.words)])
        translator.translate(sentence, found)
        assert translator._weights.value.tobytes() == before.tobytes()
    assert all((own != before).any() for own in seen)


def test_features_of_further_rounds_have_their_weights_in_the_translation(
    tiny: Tiny, tmp_path: Path, weights: Path
) -> None:
    """A list of a further round fires features that no rank's first lists have: the decoder gets a slot for them."""
    job, given = tiny.job(tmp_path / "run", local={"k": 2, "rounds": 3, "lambda": 200.0}, **FEW), read_weights(weights)
    training = training_data(job, SerialComm(), InitialModel(given, None))
    retrieval = Retrieval(SerialComm(), training, 2, 0.1)
    decoder = factory.decoder(job, open_store(job_inputs.sources(job), job.run.store), tmp_path, 1)
    learn, learned = learning.learner(job, training), list[learning.Learned]()
    translator = Translator(training, lambda chosen: learned.append(learn(chosen)) or learned[-1], decoder, given)
    first, late, seen = {*decoder.features.ids.tolist()}, set[int](), list[np.ndarray]()

    def decode(sentence: Sentence, weights: np.ndarray, k: int) -> Any:
        seen.append(weights.copy())
        return EmbeddedDecoder.decode(decoder, sentence, weights, k)

    decoder.decode = decode  # type: ignore[method-assign]
    start = {feature_id(name): value for name, value in given.items()}
    for i in range(10):
        sentence = training.corpus.sentence(i)
        [found] = retrieval.nearest([training.words.decode(sentence.words)])
        translator.translate(sentence, found)
        own = dict(zip(learned[-1].ids.tolist(), learned[-1].update.change.tolist(), strict=True))
        expected = {name: start.get(name, 0.0) + own.get(name, 0.0) for name in {*start, *own}}
        slots = decoder.features.find(np.array(list(expected), dtype=np.uint64))
        assert (slots >= 0).all() and seen[-1][slots].tolist() == list(expected.values())
        assert np.count_nonzero(seen[-1]) == np.count_nonzero(list(expected.values()))
        late |= {name for name in own if name not in first and own[name] != 0.0}
    assert late, "features that are in lists of further rounds only"


@pytest.mark.mpi
def test_ranks_leave_no_trace(cli: Cli, tiny: Tiny, tmp_path: Path, weights: Path) -> None:
    asked, source, found = ("local.lambda=20", "local.k=7", "local.rounds=2"), tiny.folder / "dev.de", {}
    for ranks in (1, 2, 3):
        arguments = command(tiny.job_file(tmp_path / f"{ranks}"), weights, source, *asked)
        both: list[Arguments] = [arguments, [*arguments, "--explain", "3"]]
        if ranks == 1:
            said = "".join([cli(*one).output for one in both])
        else:
            done = mpirun(ranks, driver(tmp_path, *both))
            assert done.returncode == 0, done
            said = done.stdout
        found[ranks] = said, kept_files(tmp_path / f"{ranks}")
    assert len(found[1][1]) == 7 * -(-SENTENCES // SMALL)
    assert found[1] == found[2] == found[3]


def driver(folder: Path, *commands: Arguments) -> list[str]:
    """What to start Python with: ``commands`` of mpitune, with small files, few sentences searched for at once.

    After as many sentences as the environment says, the process kills itself.
    """
    (folder / "driver.py").write_text(DRIVER)
    return [str(folder / "driver.py"), *(json.dumps([str(word) for word in one]) for one in commands)]


DRIVER = f"""
import json, os, signal, sys
from mpitune.training.local import retrieval, training_lists
from mpitune.cli.parser import main
from mpitune.decoder.embedded.decoder import EmbeddedDecoder
training_lists.BLOCK, retrieval.AT_ONCE = {SMALL}, 5
decode, left = EmbeddedDecoder.decode, int(os.environ.get("DECODES", 1000))
def counted(*arguments):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return decode(*arguments)
EmbeddedDecoder.decode = counted
sys.exit(max([main(json.loads(one)) for one in sys.argv[1:]]))
"""


# What is kept


def test_a_stopped_run_goes_on_as_if_unbroken(
    cli: Cli, tiny: Tiny, tmp_path: Path, weights: Path, decodes: Decodes
) -> None:
    source, asked = tiny.folder / "dev.de", ("local.lambda=20", "local.k=7")
    whole = cli(*command(tiny.job_file(tmp_path / "unbroken"), weights, source, *asked))
    assert decodes.count == 1 + SENTENCES
    job = tiny.job_file(tmp_path / "run")
    decodes.count, decodes.stop_at = 0, (1 + 2 * SMALL + 3, signal.SIGTERM)
    stopped = cli(*command(job, weights, source, *asked))
    assert (stopped.code, stopped.output) == (75, "")
    assert "stopped by SIGTERM in decoding the training data" in stopped.errors.splitlines()[-1]
    decodes.count, decodes.stop_at = 0, None
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    done = cli(*command(job, weights, source, *asked))
    assert (done.code, done.output) == (0, whole.output)
    # The longest sentences come first: no file that was finished is the last one, of 1.
    assert decodes.count == 1 + SENTENCES - 2 * SMALL
    assert kept_files(tmp_path / "run") == kept_files(tmp_path / "unbroken")
    decodes.count = 0
    assert cli(*command(job, weights, source, *asked)).output == whole.output
    assert decodes.count == 1, "nothing is decoded twice"


def test_a_killed_run_goes_on(cli: Cli, tiny: Tiny, tmp_path: Path, weights: Path, decodes: Decodes) -> None:
    arguments = command(tiny.job_file(tmp_path / "run"), weights, tiny.folder / "dev.de", "local.k=7")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DECODES": str(1 + 3 * SMALL + 1)}
    killed = subprocess.run(
        [sys.executable, *driver(tmp_path, arguments)],
        env=environment,
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert killed.returncode == -signal.SIGKILL
    done = cli(*arguments)
    assert done.code == 0 and decodes.count == 1 + SENTENCES - 3 * SMALL
    other = command(tiny.job_file(tmp_path / "unbroken"), weights, tiny.folder / "dev.de", "local.k=7")
    assert cli(*other).output == done.output
    assert kept_files(tmp_path / "run") == kept_files(tmp_path / "unbroken")


def test_damaged_lists_are_made_again(cli: Cli, tiny: Tiny, tmp_path: Path, weights: Path, decodes: Decodes) -> None:
    arguments = command(tiny.job_file(tmp_path / "run"), weights, tiny.folder / "dev.de")
    first = cli(*arguments)
    kept, (file, *_) = kept_files(tmp_path / "run"), sorted((tmp_path / "run").rglob("shard-*.npz"))
    damage(file)
    decodes.count = 0
    assert cli(*arguments).output == first.output
    assert decodes.count == 1 + SMALL
    assert kept_files(tmp_path / "run") == kept


def test_lists_of_an_older_version_are_made_again(
    cli: Cli, tiny: Tiny, tmp_path: Path, weights: Path, decodes: Decodes
) -> None:
    arguments = command(tiny.job_file(tmp_path / "run"), weights, tiny.folder / "dev.de")
    assert cli(*arguments).code == 0
    local, older = tmp_path / "run" / "local", {"version": arrays.VERSION - 1}
    for path in local.glob("*.lists/*.npz"):
        arrays.write_arrays(path, open_arrays(path), arrays.read_manifest(path) | older)
    former = local / "made-from.json", local / "epoch-0000.lists" / "shard-0000.h5"
    for file in former:
        file.write_text("of another format")
    for expected in (1 + SENTENCES, 1):
        decodes.count = 0
        cli(*arguments)
        assert decodes.count == expected
    assert not any(file.exists() for file in former)


def test_lists_of_another_job_or_other_weights_are_refused(
    cli: Cli, tiny: Tiny, tmp_path: Path, weights: Path, decodes: Decodes
) -> None:
    job, source = tiny.job_file(tmp_path / "run"), tiny.folder / "dev.de"
    assert cli(*command(job, weights, source)).code == 0
    decodes.count = 0
    # What local training does with them, and how others learn, is another matter.
    for setting in ("local.k=3", "local.theta=0.5", "local.method=mbuu", "learner.epochs=7", "run.seed=2"):
        assert cli(*command(job, weights, source, setting)).code == 0, setting
    (other := tmp_path / "other").write_text(WEIGHTS.replace("0.5", "0.75"))
    (same := tmp_path / "same").write_text(f"# the same\n{WEIGHTS}")
    assert cli(*command(job, same, source)).code == 0
    changed = [(command(job, other, source), "weights")]
    changed += [(command(job, weights, source, f"{key}=40"), key) for key in ("decoder.kbest", "decoder.pop_limit")]
    changed += [(command(job, weights, source, "data.limit=20"), "data.limit, files of [data] and [grammar]")]
    for arguments, what in changed:
        done = cli(*arguments, "--set", f"run.store={tmp_path}/store")
        line = done.errors.splitlines()[-1]
        assert (done.code, done.output) == (2, "")
        way = "remove the folder to have them made anew, or name another run.dir"
        assert line == f"mpitune: {tmp_path}/run/local: found lists made with other {what}: {way}"
    assert decodes.count == 6 + 4, "kernels are loaded, and nothing is decoded"


# The job


def test_keys_of_local_have_defaults_and_survive_a_round_trip(tiny: Tiny, tmp_path: Path) -> None:
    plain = tiny.job(tmp_path / "run").local
    assert (plain.method, plain.k, plain.theta, plain.lambda_, plain.alpha) == ("ebuu", 100, 0.1, 0.06, 1.0)
    assert tiny.job(tmp_path / "run", local={"method": "mbuu"}).local.lambda_ == 0.018
    asked = {"method": "mbuu", "k": 3, "theta": 1.0, "lambda": 0.0, "alpha": 2.5}
    job = tiny.job(tmp_path / "run", local=asked)
    assert (job.local.k, job.local.theta, job.local.lambda_, job.local.alpha) == (3, 1.0, 0.0, 2.5)
    (tmp_path / "again.toml").write_text(job.to_toml())
    assert job_inputs.load_job(tmp_path / "again.toml", []).local == job.local


def test_training_does_not_look_at_it(tiny: Tiny, tmp_path: Path) -> None:
    tiny.train(tmp_path / "run")
    tiny.train(tmp_path / "run", resume="must", local={"k": 3})


def test_frozen_weights_stay(cli: Cli, tiny: Tiny, tmp_path: Path, weights: Path) -> None:
    source, moved = tiny.folder / "dev.de", {}
    for frozen in ([], ["Lex", "LanguageModel"]):
        job = tiny.job_file(tmp_path / "run", learner={"frozen": frozen}, features={"templates": []})
        done = cli(*command(job, weights, source, "local.k=5", more=["--explain", "0"]))
        moved[len(frozen)] = {line.split()[1] for line in section(done.output, "weights that have moved most:")}
    assert {"Lex", "LanguageModel"} <= moved[0] and moved[2] and moved[2] == moved[0] - {"Lex", "LanguageModel"}


def test_a_grammar_for_each_sentence(cli: Cli, tiny: Tiny, tmp_path: Path, weights: Path) -> None:
    """The sentences to come have a store, words and features of their own."""
    data = {"source": "own.de", "references": ["own.en"]}
    (tiny.folder / "own.en").write_text("".join((tiny.folder / "train.en").read_text().splitlines(True)[:6]))
    job = tiny.job_file(tmp_path / "run", grammar={"file": None, "per_sentence": True}, data=data)
    lines = (tiny.folder / "own.de").read_text().splitlines()
    source = tiny.folder / "own-input.de"
    source.write_text(f'{lines[4]}\n<seg grammar="own.1" id="1">neu hat den ball gefunden</seg>\n')
    plain = cli("decode", job, "--input", source, "--weights", weights)
    asked = "local.k=3", "local.method=mbuu"
    assert cli(*command(job, weights, source, *asked, "local.lambda=0")).output == plain.output
    done = cli(*command(job, weights, source, *asked, "local.lambda=1", more=["--explain", "0"]))
    nearest = section(done.output, "distance and number of the training sentences retrieved:")
    assert nearest[0] == f"      0.000000  4: {re.sub('<.*?>', '', lines[4])}"
    assert section(done.output, "weights that have moved most:")


@pytest.mark.mpi
def test_features_that_only_cdec_knows_are_learned_on_any_number_of_ranks(
    cli: Cli, tiny: Tiny, tmp_path: Path, weights: Path, fake: FakeCdec
) -> None:
    """Features that only the external decoder knows are learned too, and ranks leave no trace."""
    decoder = {"backend": "cdec", "binary": str(fake.binary), "kbest": 30}
    job, source = tiny.job_file(tmp_path / "run", decoder=decoder), tiny.folder / "dev.de"
    plain = cli("decode", job, "--input", source, "--weights", weights).output
    assert cli(*command(job, weights, source, "local.lambda=0")).output == plain
    asked = "local.k=5", "local.lambda=20"
    alone = cli(*command(job, weights, source, *asked))
    assert alone.code == 0 and alone.output != plain
    explained = cli(*command(job, weights, source, *asked, more=["--explain", "0"])).output
    assert any("  Only:" in line for line in section(explained, "weights that have moved most:"))
    other = tiny.job_file(tmp_path / "other", decoder=decoder)
    done = mpirun(2, driver(tmp_path, command(other, weights, source, *asked)))
    assert (done.returncode, done.stdout) == (0, alone.output)
    assert kept_files(tmp_path / "other") == kept_files(tmp_path / "run")


# What is said


def section(text: str, title: str) -> list[str]:
    """The indented lines under ``title``."""
    after = text.partition(f"\n{title}\n")[2].splitlines()
    end = next((n for n, line in enumerate(after) if not line.startswith(" ")), len(after))
    return after[:end]


def test_explain_shows_what_a_sentence_learned(cli: Cli, tiny: Tiny, tmp_path: Path, weights: Path) -> None:
    source, asked = tiny.folder / "dev.de", ("local.k=4", "local.lambda=20", "local.method=mbuu")
    job = tiny.job_file(tmp_path / "run", features={"templates": []})
    plain = cli("decode", job, "--input", source, "--weights", weights).output.splitlines()
    own = cli(*command(job, weights, source, *asked)).output.splitlines()
    for n in (0, 3):
        done = cli(*command(job, weights, source, *asked, more=["--explain", str(n)]))
        head = done.output.splitlines()
        assert head[:3] == [
            f"sentence {n}: {source.read_text().splitlines()[n]}",
            f"with the global weights: {plain[n]}",
            f"with its own weights: {own[n]}",
        ]
        said = re.fullmatch(r"\|\|w - w_b\|\|: (\S+) \(objective (\S+) after \d+ steps, duality gap (\S+)\)", head[3])
        assert said
        moved = [float(line.split()[0]) for line in section(done.output, "weights that have moved most:")]
        assert np.linalg.norm(moved) == pytest.approx(float(said[1]), rel=1e-4)
        assert float(said[3]) <= 1e-5 * 20 and float(said[2]) >= float(said[1]) ** 2 / 2 - 1e-5
        nearest = section(done.output, "distance and number of the training sentences retrieved:")
        sources = (tiny.folder / "train.de").read_text().splitlines()
        distances = []
        for line in nearest:
            distance, number, text = re.fullmatch(r"\s+(\S+)  (\d+): (.*)", line).groups()  # type: ignore[union-attr]
            assert text == sources[int(number)]
            distances.append(float(distance))
        assert len(distances) == 4 and distances == sorted(distances)
    assert cli(*command(job, weights, source, *asked, more=["--explain", "3", "--output", tmp_path / "x"])).output == ""
    assert (tmp_path / "x").read_text() == done.output


def test_each_option_reaches_retrieval_or_learning(cli: Cli, tiny: Tiny, tmp_path: Path, weights: Path) -> None:
    """What is said of one sentence: the distances, and how far its weights have moved."""

    def told(*changed: str) -> tuple[list[str], str]:
        given = "local.method=ebuu", "local.k=4", "local.lambda=20", "local.theta=0.1", "local.alpha=1", *changed
        done = cli(*command(job, weights, tiny.folder / "dev.de", *given, more=["--explain", "3"]))
        return section(done.output, "distance and number of the training sentences retrieved:"), done.output

    job = tiny.job_file(tmp_path / "run", features={"templates": []})
    distances, usual = told()
    for option, changes_distances in {
        "local.theta=0.9": True,
        "local.k=3": True,
        "local.alpha=8": False,
        "local.lambda=2": False,
        "local.method=mbuu": False,
    }.items():
        others, output = told(option)
        assert output != usual, option
        assert (others != distances) == changes_distances, option


def test_bad_usage_and_missing_files_are_refused(cli: Cli, tiny: Tiny, tmp_path: Path, weights: Path) -> None:
    job, source = tiny.job_file(tmp_path / "run"), tiny.folder / "dev.de"
    usual = command(job, weights, source)
    no_data = tiny.job_file(tmp_path / "none", data=None)
    assert "[data] is missing" in cli.refused(2, *command(no_data, weights, source))
    many = cli(*usual, "--explain", "8")
    assert (many.code, many.output) == (2, "")
    error = f"mpitune: --explain 8: {source} has 8 sentences, the first is number 0"
    assert many.errors.splitlines()[-1] == error, "whether the store was there before or not"
    assert "found no such file or folder" in cli.refused(3, *command(job, tmp_path / "no", source))
    assert f"{tmp_path}/no" in cli.refused(3, *command(job, weights, tmp_path / "no"))
    for setting, found in {
        "local.method=mert": '--set local.method: found "mert", expected one of ebuu, mbuu',
        "local.theta=1.5": "--set local.theta: found 1.5, expected a number of at least 0.0 and at most 1.0",
        "local.lambda=-1": "--set local.lambda: found -1, expected a number of at least 0.0",
        "local.alpha=0": "--set local.alpha: found 0, expected a number above 0.0",
        "local.k=0": "--set local.k: found 0, expected a whole number of at least 1",
        "local.K=1": "--set local.K: unknown key; expected one of method, k, theta, oracle, rounds, lambda, alpha",
    }.items():
        assert cli.refused(2, *command(job, weights, source, setting)).startswith(found)
    assert not (tmp_path / "run").exists(), "nothing is begun"
    with pytest.raises(SystemExit):
        cli(*usual, "--explain", "first")
    (bad := tmp_path / "bad").write_text("LanguageModel much\n")
    assert f"{bad}:1: found" in cli.refused(3, *command(job, bad, source))


def test_a_disk_that_is_full_or_not_ours(cli: Cli, tiny: Tiny, tmp_path: Path, weights: Path) -> None:
    (tmp_path / "run").write_text("a file where the folder should be")
    done = cli(*command(tiny.job_file(tmp_path / "run"), weights, tiny.folder / "dev.de"))
    assert done.code == 2 and done.errors.splitlines()[-1].startswith(
        f"mpitune: {tmp_path}/run/local: cannot be written"
    )


def test_no_sentences_are_no_error(cli: Cli, tiny: Tiny, tmp_path: Path, weights: Path) -> None:
    (empty := tmp_path / "empty").write_text("")
    done = cli(*command(tiny.job_file(tmp_path / "run"), weights, empty))
    assert (done.code, done.output) == (0, "") and "0 sentences" in done.errors.splitlines()[-1]


# Decoding again


def naive_ebuu(lists: list[list[tuple[dict[str, float], float]]], start: dict[str, float], strength: float) -> Any:
    """EBUU's objective at a change of the weights (by name), written out."""

    def objective(change: dict[str, float]) -> float:
        risk = 0.0
        for entries in lists:
            scores = np.array([sum((start.get(f, 0) + change.get(f, 0)) * v for f, v in x.items()) for x, _ in entries])
            p = np.exp(scores - scores.max())
            risk += float(p @ (1 - np.array([gold for _, gold in entries]))) / float(p.sum())
        return sum(v * v for v in change.values()) / 2 + strength * risk / len(lists)

    return objective


def named(decoder: Any, kbest: Any, j: int) -> dict[str, float]:
    row = slice(kbest.feature_ptr[j], kbest.feature_ptr[j + 1])
    slots = kbest.feature_index[row].tolist()
    return dict(zip(map(decoder.features.name, slots), kbest.feature_value[row].tolist(), strict=True))


def test_several_rounds_are_those_of_the_plain_twin(tiny: Tiny, tmp_path: Path, weights: Path) -> None:
    """Each round adds the lists under the weights of the round before; what is learned minimises the objective."""
    strength, rounds, k = 3.0, 3, 4
    job, given = tiny.job(tmp_path / "run", local={"k": k, "rounds": rounds, "lambda": strength}), read_weights(weights)
    training = training_data(job, SerialComm(), InitialModel(given, None))
    [found] = Retrieval(SerialComm(), training, k, 0.1).nearest([["das", "haus"]])
    run, lists, own = training.run, [[] for _ in range(k)], dict(given)
    sizes = []
    for round_ in range(1, rounds + 1):
        at = np.zeros(len(run.features))
        for name, value in own.items():
            at[run.features.slot(name)] = value
        for kept, i in zip(lists, found.number.tolist(), strict=True):
            kbest = run.decoder.decode(training.corpus.sentence(i), at, run.kbest)
            statistics = bleu.statistics(kbest, training.corpus.references(i))
            for j, gold in enumerate(bleu_plus_one(statistics).tolist()):
                entry = named(run.decoder, kbest, j), gold, statistics[j].tolist()
                if entry not in kept:
                    kept.append(entry)
        learned = learning.updated(training, factory.local_update(job), round_, found.number)
        names = [run.features.name(slot) for slot in run.features.find(learned.ids).tolist()]
        change = dict(zip(names, learned.update.change.tolist(), strict=True))
        objective = naive_ebuu([[entry[:2] for entry in kept] for kept in lists], given, strength)
        assert learned.update.objective == pytest.approx(objective(change))
        for name in names:
            up, down = ({**change, name: change[name] + step} for step in (1e-5, -1e-5))
            assert abs(objective(up) - objective(down)) / 2e-5 < 1e-4 * strength
        own = {**given, **{name: given.get(name, 0.0) + value for name, value in change.items()}}
        sizes.append(sum(map(len, lists)))
    assert sizes[0] < sizes[-1], "other weights, other translations"


@pytest.mark.parametrize("method", ["pro", "minrisk", "mert"])
def test_retraining_is_training_on_the_set_and_the_neighbours(
    cli: Cli, tiny: Tiny, tmp_path: Path, weights: Path, method: str
) -> None:
    """The weights are those of `mpitune train` on both texts in one, from the same weights."""
    k = 5
    learner: dict[str, Any] = {"method": method, "learning_rate": None, "epochs": 3, "pro.kept": 5000}
    dense = {"features": {"templates": []}, "learner": learner}
    job = tiny.job(tmp_path / "run", **DEVTEST, **dense, local={"method": "retrain", "k": k})
    given = read_weights(weights)
    training = training_data(job, SerialComm(), InitialModel(given, None))
    assert not training.pools, "no lists of all training data"
    [found] = Retrieval(SerialComm(), training, k, 0.1).nearest([["das", "haus"]])
    learned = learning.learner(job, training)(found.number)
    run, words = training.run, training.words.words
    devtest = run.store.devtest
    assert devtest is not None and learned.update.change.any()
    texts: dict[str, list[str]] = {"source": [], "one": [], "other": []}
    for corpus, i in [(devtest, i) for i in range(devtest.size)] + [(run.corpus, i) for i in found.number.tolist()]:
        # Sentences with one reference have it twice, which counts the same.
        references = (corpus.references(i) * 2)[:2]
        for lines, row in zip(texts.values(), [corpus.sentence(i).words, *references], strict=True):
            lines.append(" ".join(words[word] for word in row))
    for name, lines in texts.items():
        (tiny.folder / f"both.{name}").write_text("".join(f"{line}\n" for line in lines))
    data = {"source": "both.source", "references": ["both.one", "both.other"]}
    dense["learner"] = {**learner, "initial_weights": os.fspath(weights)}
    tiny.train(tmp_path / "train", data=data, **dense, parallel={"shards": 1}, run={"seed": job.run.seed})
    expected = read_weights(tmp_path / "train" / "weights" / "epoch-0003.txt.gz")
    names = [run.features.name(slot) for slot in run.features.find(learned.ids).tolist()]
    change = dict(zip(names, learned.update.change.tolist(), strict=True))
    assert learned.update.objective == metrics(tmp_path / "train")[-1]["objective"]
    for name in {*given, *names, *expected}:
        # The difference of two weights, added to one of them, may miss the other by a bit.
        own = given.get(name, 0.0) + change.get(name, 0.0)
        assert own == pytest.approx(expected.get(name, 0.0), rel=1e-14, abs=1e-15), name


def test_retraining_in_the_command(cli: Cli, tiny: Tiny, tmp_path: Path, weights: Path) -> None:
    source = tiny.folder / "dev.de"
    asked = "local.method=retrain", "local.k=4"
    done = cli(*command(tiny.job_file(tmp_path / "run"), weights, source, *asked))
    assert done.code == 2 and 'local.method = "retrain": expected learner.method to be pro or' in done.errors
    learner = {"method": "minrisk", "learning_rate": None, "epochs": 1}
    done = cli(*command(tiny.job_file(tmp_path / "run", learner=learner), weights, source, *asked))
    assert done.code == 2 and 'local.method = "retrain": expected [data.devtest]' in done.errors
    job = tiny.job_file(tmp_path / "run", **DEVTEST, learner=learner)
    done = cli(*command(job, weights, source, *asked, "learner.metric=ter"))
    assert done.code == 2 and 'local.method = "retrain": expected learner.metric to be "bleu"' in done.errors
    done = cli(*command(job, weights, source, *asked, "decoder.sample=forest"))
    assert done.code == 2 and 'local.method = "retrain": expected decoder.sample to be "none"' in done.errors
    done = cli(*command(job, weights, source, *asked))
    said = SUMMARY.match(done.errors.splitlines()[-1])
    assert done.code == 0 and len(done.output.splitlines()) == 8 and said and float(said[1]) > 0


def test_the_oracle_may_be_the_hope(tiny: Tiny, tmp_path: Path, weights: Path) -> None:
    oracles, given = [], {name: 8 * weight for name, weight in read_weights(weights).items()}
    for oracle in ("LU", "M-C"):
        job = tiny.job(tmp_path / "run", local={"method": "mbuu", "oracle": oracle})
        training = training_data(job, SerialComm(), InitialModel(given, None))
        examples = training.lists.examples(np.arange(training.corpus.size))
        oracles.append(examples.oracle.tolist())
        best = examples.gold + (examples.ahead if oracle == "M-C" else 0.0)
        for j, chosen in enumerate(examples.oracle.tolist()):
            assert best[chosen] == best[examples.list_ptr[j] : examples.list_ptr[j + 1]].max()
    assert oracles[0] != oracles[1]
