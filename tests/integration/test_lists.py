"""N-best lists of other programs: whole runs over the lists of a tiny task."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.commands import Cli
from support.mpi import mpirun
from support.runs import SENTENCES, TRAIN_JOBS, Decodes, epoch_weights, files_of, kept, metrics
from support.tiny import Tiny
from support.tiny_lists import FORMATS, Hypothesis, TinyLists, tables_of

from mpitune.array_files.csr import row_ends
from mpitune.corpus.feature_table import FeatureTable
from mpitune.decoder.base import KBest, Sentence, empty_translation
from mpitune.decoder.lists.decoder import ListModel
from mpitune.decoder.lists.stream import read_lists
from mpitune.errors import StopRequested
from mpitune.exchange.comm import SerialComm
from mpitune.store.store import Store
from mpitune.training import factory, job_inputs
from mpitune.training.loop import train

METHODS = ["perceptron", "mira", "pro", "mert", "minrisk", "rampion"]


@pytest.fixture(scope="module")
def lists(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> TinyLists:
    return TinyLists(tiny, tmp_path_factory.mktemp("lists"))


def run_job(lists: TinyLists, run: Path, kind: str = "cdec", /, **tables: Any) -> None:
    train(job_inputs.load_job(lists.job_file(run, kind, **tables), []), SerialComm())


def test_translations_get_better_and_the_format_does_not_matter(lists: TinyLists, tmp_path: Path) -> None:
    for kind in FORMATS:
        run_job(lists, tmp_path / kind, kind)
    first, last = metrics(tmp_path / "cdec")
    assert max(first["devtest_bleu"], last["devtest_bleu"]) > first["devtest_bleu_before"] + 5
    for kind in ("moses", "json"):
        assert files_of(tmp_path / kind) == files_of(tmp_path / "cdec")


class InMemory:
    """A decoder of lists that were never in a file, in plain Python."""

    failed = 0

    def __init__(self, model: ListModel, lists: Sequence[Sequence[Hypothesis]]) -> None:
        """``model``: words, and the order of the features, which is that of sums."""
        self.features: FeatureTable = model.feature_table()
        self._words = model.words
        self._lists = lists

    def decode(self, sentence: Sentence, weights: np.ndarray, k: int) -> KBest:
        scored = []
        for entry in {entry.text: entry for entry in reversed(self._lists[sentence.grammar])}.values():
            row = sorted((self.features.slot(name), value) for name, value in entry.features.items())
            score = 0.0
            for slot, value in row:
                score += float(weights[slot]) * value
            scored.append((score, self._words.encode(entry.text.split()), row))
        scored.reverse()
        best = sorted(scored, key=lambda entry: -entry[0])[:k]
        if not best:
            return empty_translation()
        return KBest(
            row_ends([len(words) for _, words, _ in best]),
            np.concatenate([words for _, words, _ in best]),
            np.array([score for score, _, _ in best]),
            row_ends([len(row) for _, _, row in best]),
            np.array([slot for _, _, row in best for slot, _ in row], dtype=np.int32),
            np.array([value for _, _, row in best for _, value in row]),
        )


@pytest.mark.parametrize("method", METHODS)
def test_learners_see_the_lists_as_if_they_had_them_in_memory(
    lists: TinyLists, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    tables = tables_of(method, 1)
    run_job(lists, tmp_path / "files", **tables)

    def in_memory(job: Any, store: Store, *_: Any) -> InMemory:
        assert isinstance(store.model, ListModel)
        return InMemory(store.model, [*lists.lists["train"], *lists.lists["dev"]])

    monkeypatch.setattr(factory, "decoder", in_memory)
    run_job(lists, tmp_path / "memory", **tables)
    assert files_of(tmp_path / "files") == files_of(tmp_path / "memory")
    assert len(epoch_weights(tmp_path / "files", 1)) > 2


@pytest.fixture
def real_lists(request: pytest.FixtureRequest) -> tuple[Path, Path]:
    """Lists of cdec or Moses, with one value a name, and their references; others can be named in the environment."""
    if given := os.environ.get("MPITUNE_LISTS"):
        return Path(given), Path(os.environ["MPITUNE_REFERENCES"])
    shared: Path = request.getfixturevalue("shared")
    return shared / "golden" / "multi30k.kbest.gz", shared / "data" / "multi30k" / "val.en.gz"


@pytest.mark.parametrize("method", ["perceptron", "mira", "pro", "mert"])
def test_lists_of_real_data_give_the_updates_of_lists_in_memory(
    real_lists: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """Lists of Multi30k, whose values need all of the 17 digits that they are written with."""
    entries, references = real_lists
    lists: list[list[Hypothesis]] = []
    for number, read in read_lists([entries]):
        assert number == len(lists)
        rows = [{name: math.pi * value for name, value in entry.features.items()} for entry in read]
        lists.append([Hypothesis(" ".join(entry.words), row) for entry, row in zip(read, rows, strict=True)])
    with open(tmp_path / "lists", "w", encoding="utf-8") as written:
        for i, of_one in enumerate(lists):
            for text, features in of_one:
                row = " ".join(f"{name}={value:.17g}" for name, value in features.items())
                written.write(f"{i} ||| {text} ||| {row}\n")
    data = f'[data]\nlists = ["lists"]\nreferences = ["{references}"]\nlimit = {len(lists)}\n'
    more = f'[decoder]\nbackend = "lists"\n[learner]\nmethod = "{method}"\nepochs = 1\nmert.restarts = 1\n'

    def run(name: str) -> dict[str, bytes]:
        (tmp_path / "job.toml").write_text(f'run = {{dir = "{name}", store = "store"}}\n{data}{more}')
        train(job_inputs.load_job(tmp_path / "job.toml", []), SerialComm())
        return files_of(tmp_path / name)

    files = run("files")
    monkeypatch.setattr(factory, "decoder", lambda job, store, *_: InMemory(store.model, lists))
    assert run("memory") == files
    assert len(epoch_weights(tmp_path / "files", 1)) >= 10


@pytest.mark.mpi
def test_lists_that_hardly_differ_are_learned_from(tmp_path: Path) -> None:
    """Poor translations, as misled weights make: no two have gold scores that differ by PRO's threshold, 0.05."""
    random = np.random.default_rng(1)
    entries, references = [], []
    for i in range(30):
        reference = [f"w{number}" for number in random.integers(0, 200, 80)]
        references.append(" ".join(reference))
        for right in random.permutation([2, 3, 4, 5]):
            text = " ".join([*reference[:right], *["x"] * (100 - right)])
            entries.append(f"{i} ||| {text} ||| Right={right} Noise={random.normal():.3f}\n")
    (tmp_path / "lists").write_text("".join(entries))
    (tmp_path / "references").write_text("\n".join(references) + "\n")
    data = '[data]\nlists = ["lists"]\nreferences = ["references"]\n[decoder]\nbackend = "lists"\n'
    (tmp_path / "job.toml").write_text(f'run = {{dir = "run", store = "store"}}\n{data}[learner]\nalgorithm = "sgd"\n')
    train(job_inputs.load_job(tmp_path / "job.toml", []), SerialComm())
    last = metrics(tmp_path / "run")[-1]
    assert last["pairs"] > 0
    weights = epoch_weights(tmp_path / "run", last["epoch"])
    assert weights["Right"] > 3 * abs(weights["Noise"])


def test_ranks_leave_no_trace(lists: TinyLists, tmp_path: Path) -> None:
    for method in ("perceptron", "pro"):
        tables = tables_of(method)
        run_job(lists, tmp_path / method, **tables)
        job = lists.job_file(tmp_path / f"{method}-2", **tables)
        assert mpirun(2, [TRAIN_JOBS, job]).returncode == 0
        assert files_of(tmp_path / method) == files_of(tmp_path / f"{method}-2")


@pytest.mark.parametrize("method", ["perceptron", "mert"])
def test_a_stopped_run_goes_on_as_if_unbroken(lists: TinyLists, tmp_path: Path, decodes: Decodes, method: str) -> None:
    tables = tables_of(method)
    run_job(lists, tmp_path / "unbroken", **tables)
    decodes.count, decodes.stop_at = 0, (1 + SENTENCES + 10, signal.SIGTERM)
    with pytest.raises(StopRequested):
        run_job(lists, tmp_path / "run", **tables)
    decodes.count, decodes.stop_at = 0, None
    run_job(lists, tmp_path / "run", **tables)
    assert files_of(tmp_path / "run") == files_of(tmp_path / "unbroken")


@pytest.mark.parametrize("method", ["pro", "minrisk"])
def test_batch_methods_learn_from_whole_lists(lists: TinyLists, tmp_path: Path, method: str) -> None:
    """Lists of 30 entries do not change: an epoch that has seen 5 of each would be all."""
    for kbest in (5, 30):
        run_job(lists, tmp_path / f"run-{kbest}", **tables_of(method, 1), decoder={"backend": "lists", "kbest": kbest})
    assert files_of(tmp_path / "run-5") == files_of(tmp_path / "run-30")
    assert metrics(tmp_path / "run-5")[0]["list_entries"] > 5 * SENTENCES
    assert "ignored by this method: decoder.kbest" in (tmp_path / "run-5" / "log.txt").read_text()


def test_reranking_finds_the_translations_of_training(lists: TinyLists, tmp_path: Path, cli: Cli) -> None:
    run_job(lists, tmp_path / "run")
    last = (tmp_path / "run" / "log.txt").read_text().splitlines()[-1]
    job, _, options = last.partition("next, to rerank: mpitune rerank ")[2].partition(" ")
    assert Path(job).resolve() == tmp_path / "run" / "config.toml" and options == "--input LISTS"
    job = lists.job_file(tmp_path / "run")
    for epoch in (1, 2):
        weights = tmp_path / "run" / "weights" / f"epoch-{epoch:04d}.txt.gz"
        for kind in FORMATS:
            done = cli("rerank", job, "--input", lists.folder / f"dev.{kind}", "--weights", weights)
            assert (done.code, done.errors) == (0, "")
            assert done.output.splitlines() == kept(tmp_path / "run", f"epoch-{epoch:04d}")


@pytest.mark.parametrize("kind", FORMATS)
def test_reranked_lists_keep_their_format(lists: TinyLists, tmp_path: Path, cli: Cli, kind: str) -> None:
    (tmp_path / "weights").write_text("LanguageModel 0.5\n")
    output = tmp_path / "out.gz"
    arguments = ["--input", lists.folder / f"dev.{kind}", "--weights", tmp_path / "weights", "--output", output]
    job = lists.job_file(tmp_path / "run")
    assert cli("rerank", job, *arguments, "--nbest", "1000").errors == f"{output}: 8 lists\n"
    found = list(read_lists([output]))
    for (_, entries), hypotheses in zip(found, lists.lists["dev"], strict=True):
        expected = sorted(hypotheses, key=lambda entry: -entry.features.get("LanguageModel", 0.0))
        assert [(" ".join(e.words), e.features) for e in entries] == [*map(tuple, expected)]
    assert cli("rerank", job, *arguments, "--nbest", "3").code == 0
    assert [len(entries) for _, entries in read_lists([output])] == [3] * 8
    [best] = [entry.text for entry in found[0][1][:1]]
    assert f"{0.5 * found[0][1][0].features['LanguageModel']:.9g}" in best


def test_a_stream_is_reranked_list_by_list(lists: TinyLists, tmp_path: Path) -> None:
    (tmp_path / "weights").write_text("LanguageModel 1\n")
    command = [sys.executable, "-m", "mpitune", "rerank", lists.job_file(tmp_path / "run"), "--weights"]
    pipe = subprocess.PIPE
    with subprocess.Popen([*command, tmp_path / "weights"], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin and process.stdout
        process.stdin.write("1 ||| a ||| LanguageModel=-2\n1 ||| b ||| LanguageModel=-1\n2 ||| c ||| \n")
        process.stdin.flush()
        # List 1 is there while list 2 may go on.
        assert [process.stdout.readline() for _ in range(2)] == ["\n", "b\n"]
        process.stdin.write("2 ||| d ||| LanguageModel=1\n4 ||| e ||| \n")
        process.stdin.close()
        assert process.stdout.read() == "d\n\ne\n"
    assert process.returncode == 0


def test_minimum_bayes_risk(lists: TinyLists, tmp_path: Path, cli: Cli) -> None:
    texts = {"the house by the lake": -1, "the house at the lake": -1, "der see": -0.9}
    path = tmp_path / "lists"
    path.write_text("".join(f"0 ||| {text} ||| lm={lm}\n" for text, lm in texts.items()))
    (tmp_path / "weights").write_text("lm 1\n")
    command = ["rerank", lists.job_file(tmp_path / "run"), "--input", path, "--weights", tmp_path / "weights"]
    assert cli(*command).output == "der see\n"
    for metric in ("bleu", "chrf"):
        assert cli(*command, "--mbr", metric).output == "the house by the lake\n"


def test_reranking_with_bad_input(lists: TinyLists, tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "lists").write_text("0 ||| a ||| p=1\n0 ||| a ||| p=x\n")
    (tmp_path / "weights").write_text("lm 1\n")
    job, output = lists.job_file(tmp_path / "run"), tmp_path / "out"
    command = ["rerank", job, "--input", tmp_path / "lists", "--weights", tmp_path / "weights", "--output", output]
    assert cli.refused(3, *command) == f"{tmp_path}/lists:2: found value 'x' of p, expected a number from -1e30 to 1e30"
    assert not output.exists()
    (tmp_path / "lists").write_text("0 ||| a ||| p=1\n")
    assert "none of its features occurs in the lists" in cli(*command).errors
    (tmp_path / "lists").write_text("0 ||| a ||| p=1\n0 ||| b ||| lm=1\n")
    assert cli(*command).errors == f"{output}: 1 list\n", "not in each entry"
    (tmp_path / "weights").write_text("lm 1\nTN:a 1\nTextLength 2\nTN:b 1\n")
    told = "3 of 4 weights do not count: features.templates lacks text-length, target-ngrams: add them"
    assert cli(*command).errors.startswith(f"warning: {tmp_path}/weights: {told}")
    (tmp_path / "weights").write_text("p 1\n")
    (tmp_path / "lists").write_text("1 ||| a ||| p=1\n2 ||| a ||| p=1\n5 ||| a ||| p=1\n")
    assert "warning: 3 of 6 sentences have no list, such as number 0: they have empty lines" in cli(*command).errors
    assert output.read_text() == "\na\na\n\n\na\n"
    (tmp_path / "lists").write_text("0 ||| a ||| p=1\n4000000000 ||| a ||| p=1\n")
    said = cli.refused(3, *command)
    assert said.endswith("lists:2: found number 4000000000 after 0, expected at most 1,000,000 sentences without lists")
    assert output.read_text() == "\na\na\n\n\na\n", "what was there before"
    (tmp_path / "lists").write_text("0 ||| a ||| p=1\n")
    assert cli(*command[:-1], "-").output == "a\n" and not Path("-").exists()
    (tmp_path / "weights").write_text("")
    assert "weights: found no weights: all are 0" in cli(*command).errors


def test_plain_text_with_scores_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    """As neural systems write it: tuned, reranked and evaluated as the same lists of fairseq with its references."""
    monkeypatch.chdir(tmp_path)
    plain, scores, lengths, fairseq, references = [], [], [], [], []
    for i in range(12):
        references.append(f"the {'old ' * (i % 3)}house is small now")
        fairseq += [f"S-{i}\ts{i}", f"T-{i}\t{references[-1]}"]
        for k, text in enumerate([f"the {'old ' * (i % 3)}house", references[-1], "a house is small"]):
            plain.append(text)
            scores.append(f"{-0.1 * k - i}")
            lengths.append(str(len(text.split())))
            fairseq += [f"H-{i}\t{scores[-1]}\t{text}", f"D-{i}\t0\tOther", f"P-{i}\t0 0"]
    given = {"plain": plain, "scores": scores, "lengths": lengths, "fairseq": fairseq, "refs": references}
    for name, rows in given.items():
        Path(name).write_text("".join(f"{row}\n" for row in rows))
    tables = '[decoder]\nbackend = "lists"\n[parallel]\nshards = 1\n[learner]\nepochs = 2\n'
    tables += '[[features.files]]\nname = "length"\nfile = "lengths"\n'
    beside = '[[features.files]]\nname = "score"\nfile = "scores"\n'
    Path("p.toml").write_text(f'[data]\nlists = ["plain"]\nnbest = 3\nreferences = ["refs"]\n{tables}{beside}')
    Path("f.toml").write_text(f'[data]\nlists = ["fairseq"]\nformat = "fairseq"\n{tables}')
    for name in ("p", "f"):
        assert cli("train", f"{name}.toml", "--quiet").code == 0
    assert epoch_weights(Path("runs", "p"), 2) == epoch_weights(Path("runs", "f"), 2)
    best = cli("rerank", "p.toml", "--input", "plain", "--scores", "lengths", "scores").output
    assert best == cli("rerank", "f.toml", "--input", "fairseq", "--scores", "lengths").output
    assert best.splitlines()[:3] == references[:3]
    short = cli("rerank", "f.toml", "--input", "fairseq", "--scores", "lengths", "--sentences", "14")
    assert short.output == f"{best}\n\n"
    assert "warning: 2 of 14 sentences have no list, such as number 12: they have empty lines" in short.errors
    command = ["rerank", "p.toml", "--input", "plain", "--scores", "lengths", "scores", "--output", "out"]
    said = cli.refused(3, *command, "--sentences", "14")
    assert said == "plain: found 12 lists, expected 14, one for each sentence, as they have no numbers"
    evaluated = [
        cli("evaluate", "--json", "--lists", *given).output
        for given in (["plain", "--list-size", "3", "--refs", "refs"], ["fairseq", "--format", "fairseq"])
    ]
    assert evaluated[0].replace("plain", "fairseq") == evaluated[1] and '"oracle": 100' in evaluated[0]
    said = cli.refused(2, "evaluate", "--hyps", "refs", "--refs", "refs", "--join", "bpe")
    assert said == "--format, --list-size, --counts and --join: found without --lists"


def test_scores_of_words_are_not_tuned(tmp_path: Path, cli: Cli) -> None:
    """As marian-scorer writes them, before the features; all hypotheses have one length."""
    texts = [(i, first, i % 3 == 0) for i in range(9) for first in ("the", "a")]
    with open(tmp_path / "lists", "w") as file:
        for i, first, the in texts:
            score = -1.5 + 0.5 * (the == (first == "the"))
            file.write(f"{i} ||| {first} man ||| 0-0 1-1 ||| Words= -1 {score} ||| F0= {score} Score= -1 ||| {score}\n")
    (tmp_path / "refs").write_text("".join(f"{'the' if i % 3 == 0 else 'a'} man\n" for i in range(9)))
    job = tmp_path / "job.toml"
    tables = '[decoder]\nbackend = "lists"\n[learner]\nepochs = 1\n[parallel]\nshards = 1\n'
    job.write_text(f'[data]\nlists = ["lists"]\nreferences = ["refs"]\n{tables}')
    done = cli("train", job)
    told = "lists: features are read from field 5, 'F0= -1.0 Score= -1', and not from field 3, '0-0 1-1' and field 4"
    assert done.code == 0 and done.errors.count(told) == 1
    assert epoch_weights(tmp_path / "runs" / "job", 1).keys() == {"F0"}
    done = cli("rerank", job, "--input", tmp_path / "lists", "--nbest", "1")
    first, *_ = done.output.splitlines()
    assert first.startswith("0 ||| the man ||| 0-0 1-1 ||| Words= -1 -1.0 ||| F0= -1.0 Score= -1 ||| ")
    assert len(first.split(" ||| ")) == 6 and told in done.errors


def test_marks_of_phrases_and_words_of_another_kind_are_told(lists: TinyLists, tmp_path: Path, cli: Cli) -> None:
    """By all commands that read lists, if they have what it takes."""
    (tmp_path / "weights").write_text("lm 1\n")
    marked, foreign, plain = tmp_path / "marked", tmp_path / "foreign", tmp_path / "plain"
    for path, write in ((marked, "{} |{}-{}|"), (foreign, "\u2581{}"), (plain, "{}")):
        rows = []
        for i, line in enumerate((lists.folder / "train.en").read_text().splitlines()):
            words = " ".join(write.format(word, n, n) for n, word in enumerate(line.split()))
            rows += [f"{i} ||| {words} ||| lm= -1 ||| -1\n"] if words else []
        path.write_text("".join(rows))
    job, references = lists.job_file(tmp_path / "run"), lists.folder / "train.en"
    for path, marks, others in ((marked, 1, 1), (foreign, 0, 1), (plain, 0, 0)):
        evaluated = cli("evaluate", "--lists", path, "--refs", references)
        reranked = cli("rerank", job, "--input", path, "--weights", tmp_path / "weights")
        for done, pairs in ((evaluated, others), (reranked, 0)):
            told = [
                done.errors.count(text) for text in ("such as |0-0|, which count as", "in the refer", "references have")
            ]
            assert done.code == 0 and told == [marks, pairs * marks, pairs - pairs * marks], (path, done)


def test_initial_weights_of_templates_that_a_job_over_lists_lacks(lists: TinyLists, tmp_path: Path) -> None:
    (tmp_path / "weights").write_text("LanguageModel 1\nTN:a 1\n")
    tables = {"learner": {"initial_weights": str(tmp_path / "weights"), "epochs": 1}}
    run_job(lists, tmp_path / "run", **tables)
    lacks = "features.templates lacks target-ngrams: add them to translate as the run does that learned them"
    told = f"1 of 2 weights do not count: {lacks}"
    assert told in (tmp_path / "run" / "log.txt").read_text()


def test_lists_are_not_translated(lists: TinyLists, tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "weights").write_text("lm 1\n")
    given = ["--input", lists.folder / "dev.de", "--weights", tmp_path / "weights"]
    for command in ("decode", "local"):
        said = cli.refused(2, command, lists.job_file(tmp_path / "run"), *given)
        assert said.endswith('decoder.backend = "lists" translates nothing; mpitune rerank sorts lists')


def test_features_from_files_are_as_those_of_the_lists(lists: TinyLists, tmp_path: Path, cli: Cli) -> None:
    """A feature moved from the lists to a file; the order of the features, and so of sums, is another."""
    name = "Cost"
    tables: dict[str, Any] = {"run": {"store": str(tmp_path / "store")}, "data": {}, "data__devtest": {}}
    for part, table in (("train", "data"), ("dev", "data__devtest")):
        moved, values = [], []
        for entries in lists.lists[part]:
            moved.append([h._replace(features={n: v for n, v in h.features.items() if n != name}) for h in entries])
            values += [h.features.get(name, 0.0) for h in entries]
        tables[table]["lists"] = [str(lists.write(f"{part}.moved", "cdec", moved))]
        (tmp_path / part).write_text("".join(f"{value!r}\n" for value in values))
    job = lists.job_file(tmp_path / "run", **tables)
    files = f'[[features.files]]\nname = "{name}"\nfile = "{tmp_path}/train"\ndevtest = "{tmp_path}/dev"\n'
    job.write_text(f"{job.read_text()}\n{files}")
    assert cli("train", job, "--quiet").code == 0
    run_job(lists, tmp_path / "whole")
    whole, run = (epoch_weights(tmp_path / of, 1) for of in ("whole", "run"))
    assert whole[name] != 0 and run.keys() == whole.keys()
    assert run == pytest.approx(whole)
    arguments = ["--input", lists.folder / "dev.moved", "--weights", tmp_path / "run" / "weights" / "epoch-0002.txt.gz"]
    done = cli("rerank", job, *arguments, "--scores", tmp_path / "dev")
    assert done.output.splitlines() == kept(tmp_path / "run", "epoch-0002")
    assert (
        cli.refused(2, "rerank", job, *arguments) == "--scores: found 0 files, expected 1 (Cost), as features.files has"
    )
