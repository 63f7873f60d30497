from __future__ import annotations

import os
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpitune import schema
from mpitune.config.checks import require_data
from mpitune.config.effective_keys import effective_keys, ignored_keys
from mpitune.config.load import complete_from_cdec_ini, load
from mpitune.config.spec import (
    DataKeys,
    DevTestKeys,
    GrammarKeys,
    Job,
    LearnerKeys,
    LmKeys,
    RunKeys,
    SelectKeys,
    metric_weights,
    tunes_on_bitext,
)
from mpitune.corpus.feature_table import is_feature_name
from mpitune.errors import UsageError
from mpitune.learner.batch.rampion import RampionOptions
from mpitune.learner.methods import METHODS

SMALL = """
[grammar]
file = "grammar.gz"
[[lm]]
file = "lm.arpa"
"""
DATA = """
[data]
source = "in.de"
references = ["ref.en"]
"""
EVERY_DEFAULT = """
[run]
dir = "runs/nc"
seed = 1
store = ""
[data]
source = "nc.de.gz"
references = ["nc.en.gz"]
lists = []
format = "auto"
nbest = 0
counts = ""
join = "none"
tokenize = "none"
limit = 0
[data.devtest]
source = ""
references = []
lists = []
counts = ""
[grammar]
file = "grammar.gz"
per_sentence = false
format = "auto"
source = ""
target = ""
alignment = []
leave_one_out = false
max_translations = 0
[[lm]]
file = "lm.3.arpa.gz"
name = ""
text = []
order = 5
[decoder]
backend = "embedded"
config = ""
binary = "cdec"
pop_limit = 200
rule_margin = 0.0
span_limit = 15
kbest = 100
unique = true
sample = "none"
[decoder.cdec]
start_timeout = 1800.0
first_timeout = 900.0
sentence_timeout = 300.0
[features]
templates = []
lexicon = ""
[features.unlog]
minus_log10 = []
log10_plus_1 = []
minus_ln = []
ln = []
[features.discretize]
features = []
conjunctions = []
bins = 20
overlap = 0
keep = false
regularizer = "none"
beta = 0.1
gamma = 1.0
[learner]
preset = "default"
algorithm = "itersel"
method = "perceptron"
epochs = 10
patience = 3
learning_rate = 0.1
metric = "bleu"
gold = "document"
pairs = "pro"
share = 0.1
extend_ties = false
order = "sentence"
margin = 1.0
margin_by_gold = true
rate = "normalized"
l1 = 0.0
l2 = 0.0
scale_by_gold = false
averaging = "sentence"
dense_start = 2000
lm_leave_one_out = true
initial_weights = ""
frozen = []
tune = "all"
[learner.mira]
oracle = "M-C"
prediction = "M+C"
variant = "1-best"
c = 0.01
cost_scale = 0.0
[learner.pro]
candidates = 5000
threshold = 0.05
kept = 50
c = 500.0
interpolation = 0.1
[learner.mert]
search = "kbest"
directions = 10
restarts = 10
[learner.minrisk]
c = 100.0
[learner.rampion]
loss = 3
cost_scale = 10.0
rounds = 10
passes = 5
step = 0.0001
c = 1.0
[parallel]
shards = 8
reshuffle = true
mixing = "active"
exchange = "auto"
timeout = 600
[select]
k = 100000
norm = "l2"
[local]
method = "ebuu"
k = 100
theta = 0.1
oracle = "LU"
rounds = 1
lambda = 0.06
alpha = 1.0
[plugins]
modules = []
"""
"""The job file of the interface's specification, with the keys that it leaves to us."""


def job(folder: Path, text: str, *overrides: str, name: str = "nc.toml") -> Job:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return load(path, overrides)


def refused(folder: Path, text: str, *overrides: str) -> str:
    """What is said of a job with this text added to a small sound one, without the file's name."""
    with pytest.raises(UsageError) as error:
        job(folder, SMALL + text, *overrides)
    assert "\n" not in str(error.value)
    return str(error.value).removeprefix(f"{folder / 'nc.toml'}: ")


def test_every_key_has_the_default_of_the_specification(tmp_path: Path) -> None:
    every = job(tmp_path, EVERY_DEFAULT)
    least = job(
        tmp_path,
        '[data]\nsource = "nc.de.gz"\nreferences = ["nc.en.gz"]\n[grammar]\nfile = "grammar.gz"\n'
        '[[lm]]\nfile = "lm.3.arpa.gz"\n',
    )
    assert every == least
    assert every.data == DataKeys(source=tmp_path / "nc.de.gz", references=(tmp_path / "nc.en.gz",))
    written = tomllib.loads(EVERY_DEFAULT)
    for key, _, value in schema.values(every):
        place: Any = written
        for name in key.split("."):
            place = place[int(name)] if name.isdecimal() else place.get(name)
        if not isinstance(value, Path | None) and "references" not in key:
            assert (list(value) if isinstance(value, tuple) else value) == place, key


def test_mira_and_rampion_have_the_defaults_of_their_own_papers(tmp_path: Path) -> None:
    """But for what the job says itself, in its file or by --set; what is written down reads back."""
    found = job(tmp_path, SMALL + '[learner]\nmethod = "mira"\nepochs = 10\n', "parallel.shards=8")
    assert (found.learner.algorithm, found.learner.gold, found.decoder.kbest) == ("itermix", "context", 500)
    assert (found.learner.epochs, found.parallel.shards) == (10, 8)
    assert job(tmp_path, found.to_toml(), name="written.toml") == found
    found = job(tmp_path, SMALL, "learner.method=mira", "learner.gold=liang", "decoder.kbest=100")
    assert (found.learner.epochs, found.parallel.shards) == (20, 20)
    assert (found.learner.gold, found.decoder.kbest) == ("liang", 100)
    found = job(tmp_path, SMALL, "learner.method=rampion")
    assert (found.learner.epochs, found.decoder.kbest, found.parallel.shards) == (20, 500, 8)


@pytest.mark.parametrize("method", ["pro", "mert", "minrisk", "rampion"])
def test_batch_methods_have_no_algorithm_and_options_of_their_own(tmp_path: Path, method: str) -> None:
    batch = job(tmp_path, SMALL + f'[learner]\nalgorithm = "sgd"\nmethod = "{method}"\n')
    assert (batch.learner.algorithm, batch.parallel.shards) == ("itermix", 8)
    tables = {key.split(".")[1] for key in effective_keys(batch) if key.count(".") == 2 and key.startswith("learner.")}
    assert tables == {method}


def test_keys_that_nothing_looks_at_are_known(tmp_path: Path) -> None:
    """They make no other job; those at their defaults need no word."""
    text = '[learner]\npreset = "simianer2012"\nmethod = "mira"\nalgorithm = "itermix"\nmargin = 1.0\nl2 = 0.0\n'
    text += "pro.c = 2.0\nmira.c = 2.0\n[select]\nk = 7\n"
    found = job(tmp_path, SMALL + text)
    assert ignored_keys(found) == ["learner.margin", "learner.pro.c", "select.k"]
    assert effective_keys(job(tmp_path, SMALL + text, "learner.margin=2", "select.k=8")) == effective_keys(found)
    plain = job(tmp_path, SMALL + text, "learner.method=perceptron")
    assert set(ignored_keys(plain)) == {"learner.pro.c", "learner.mira.c", "select.k"}
    assert ignored_keys(job(tmp_path, SMALL)) == []


def test_paths_start_at_the_job_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    found = job(tmp_path, SMALL + '[run]\ndir = "../out"\n[decoder]\nconfig = "/abs/cdec.ini"\n')
    assert found.grammar.file == tmp_path / "grammar.gz"
    assert found.lm == (LmKeys(tmp_path / "lm.arpa"),)
    assert found.run == RunKeys(dir=tmp_path.parent / "out", store=tmp_path.parent / "out" / "store")
    assert found.decoder.config == Path("/abs/cdec.ini")
    assert job(tmp_path, SMALL, name="mine.toml").run.dir == tmp_path / "runs" / "mine"
    assert job(tmp_path, SMALL + '[run]\nstore = "common"\n').run.store == tmp_path / "common"


def test_a_job_given_by_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nc.toml").write_text(SMALL)
    monkeypatch.chdir(tmp_path)
    assert load(Path("nc.toml")).grammar.file == tmp_path / "grammar.gz"


def test_environment_variables_in_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = '[data]\nsource = "${CORPORA}/${PAIR}/in"\nreferences = ["$x/ref"]\n'
    monkeypatch.setenv("CORPORA", "/corpora")
    monkeypatch.setenv("PAIR", "de-en")
    data = require_data(job(tmp_path, SMALL + text))
    assert data.source == Path("/corpora/de-en/in") and data.references == (tmp_path / "$x/ref",)
    monkeypatch.delenv("PAIR")
    assert refused(tmp_path, text) == (
        "data.source: the environment variable PAIR is not set (in '${CORPORA}/${PAIR}/in')"
    )
    monkeypatch.setenv("x", "/x")
    said = 'data.references.0: found "$x/ref", expected ${x} for the environment variable, with braces'
    assert refused(tmp_path, text.replace("/${PAIR}", "")) == said


def test_a_path_that_config_toml_cannot_hold(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    (folder / "nc.toml").write_text(SMALL)
    with pytest.raises(UsageError, match=r"run.dir: found .*, expected a path in UTF-8, to be kept in config.toml"):
        load(folder / "nc.toml")
    overrides = ["run.dir=/run", "run.store=/store", "grammar.file=/grammar", "lm.0.file=/lm"]
    assert load(folder / "nc.toml", overrides).run.dir == Path("/run"), "no path in the folder"


@pytest.mark.parametrize(
    ("text", "overrides"),
    [
        (f"x = {'[' * 5000}{']' * 5000}", []),
        (f"x = {'{a=' * 999}1{'}' * 999}", []),
        (f"[z]\n{'a.' * 3000}a = 1", []),
        (f"[{'a.' * 3000}a]", []),
        ("", [f"x={'[' * 5000}{']' * 5000}"]),
        ("", [f"{'a.' * 3000}a=1"]),
    ],
)
def test_tables_and_lists_without_end(tmp_path: Path, text: str, overrides: list[str]) -> None:
    said = "found hundreds of tables or lists inside each other, expected tables and keys as in jobs/example.toml"
    assert refused(tmp_path, text, *overrides) == said


@pytest.mark.parametrize("key", ["learner.epochs", f"lm.{'1' * 5000}.file"])
def test_numbers_of_thousands_of_digits(tmp_path: Path, key: str) -> None:
    assert key[:40] in refused(tmp_path, "", f"{key}={'1' * 5000}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[lerner]\nepochs = 3", "lerner: unknown table; did you mean learner?"),
        ("[learner]\nlearning-rate = 1", "learner.learning-rate: unknown key; did you mean learner.learning_rate?"),
        ("[learner]\nkbest = 9", "learner.kbest: unknown key; did you mean decoder.kbest?"),
        ("[learner.svm]\nc = 1", "learner.svm: unknown table; expected one of preset, algorithm, method, "),
        (
            "[learner.mira]\ncost-scale = 1",
            "learner.mira.cost-scale: unknown key; did you mean learner.mira.c",
        ),
        ('[learner.mira]\noracle = "PB"', 'learner.mira.oracle: found "PB", expected one of M-C, MB, LU'),
        ("[data.devtst]\nlimit = 1", "data.devtst: unknown table; did you mean data.devtest?"),
        ("[parallel]\nqqq = 1", "parallel.qqq: unknown key; expected one of shards, reshuffle, mixing, exchange"),
        ("[select]\nlambda_ = 1.0", "select.lambda_: unknown key; did you mean select.lambda?"),
        ('[[lm]]\nfiel = "x"', "lm.1.fiel: unknown key; did you mean lm.1.file?"),
        ("[[lm]]", "lm.1: found neither file nor text, expected one of them"),
        ("[learner]\nepochs = 3.0", "learner.epochs: found 3.0, expected a whole number"),
        ("[learner]\nepochs = true", "learner.epochs: found true, expected a whole number"),
        ("[learner]\nepochs = 0", "learner.epochs: found 0, expected a whole number of at least 1"),
        ("[learner]\nmargin = nan", "learner.margin: found nan, expected a number of at least 0"),
        ("[learner]\nl1 = inf", "learner.l1: found inf, expected a number of at least 0"),
        (f"[learner]\nl1 = 1{'0' * 400}", "learner.l1: found 1000"),
        ("[learner]\nl1 = inf", "of at least 0.0 and at most 9223372036854775807"),
        ("[learner]\nepochs = 1000000000000000000000", "of at least 1 and at most 9223372036854775807"),
        ("[decoder]\nkbest = 1000001", "found 1000001, expected a whole number of at least 1 and at most 1000000"),
        ('[run]\nstore = "a\\u0000"', 'run.store: found "a\\u0000", expected a path'),
        ("[learner]\nlearning_rate = 0", "learner.learning_rate: found 0, expected a number above 0"),
        ("[learner]\nshare = 0.6", "learner.share: found 0.6, expected a number above 0.0 and at most 0.5"),
        (
            '[learner]\ngold = "bleu"',
            'learner.gold: found "bleu", expected one of document, liang, bleu+1, nakov, papineni, sum',
        ),
        ("[learner]\nextend_ties = 1", "learner.extend_ties: found 1, expected true or false"),
        ("[learner]\nfrozen = [1]", "learner.frozen.0: found 1, expected a string"),
        ('[learner]\nfrozen = ["Glue", "#x"]', "learner.frozen: found feature name '#x', expected one without blanks"),
        ('[features]\ntemplates = "id"', 'features.templates: found "id", expected a list of strings'),
        ('[features]\ntemplates = ["ids"]', 'features.templates.0: found "ids", expected one of id, source-bigram'),
        ('[features]\ntemplates = ["id", "id"]', 'features.templates: found ["id", "id"], expected each name once'),
        ("[run]\ndir = 1979-05-27", "run.dir: found 1979-05-27, expected a path (a string)"),
        ("[run]\nseed = -1", "run.seed: found -1, expected a whole number of at least 0"),
        ("[select]\nk = 1\nlambda = 0.5", "found both select.k and select.lambda, expected one of them"),
        ('[data]\nreferences = ["r"]', "found neither of data.source and data.bitext, expected one of them"),
        ('[data]\nsource = "s"\nbitext = "b"', "found both of data.source and data.bitext, expected one of them"),
        ('[data]\nsource = "s"', "data.references: found none, expected one or more files beside data.source"),
        ('[data]\nbitext = "b"\nreferences = ["r"]', "data.references: found beside data.bitext"),
        (DATA + '[data.devtest]\nsource = "d"', "data.devtest: expected both source and references, or neither"),
        ("[learner]\nepochs = 3\nepochs = 4", "not a TOML file: Cannot overwrite a value"),
    ],
)
def test_what_is_refused_and_how(tmp_path: Path, text: str, said: str) -> None:
    assert said in refused(tmp_path, text)


LISTS = '[data]\nlists = ["l"]\nreferences = ["r"]\n[decoder]\nbackend = "lists"\n'


FILE = '[[features.files]]\nname = "lm"\nfile = "f"\n'


def test_lists_need_references_alone(tmp_path: Path) -> None:
    path = tmp_path / "nc.toml"
    path.write_text(LISTS)
    read = load(path)
    assert read.data is not None and read.data.lists == (tmp_path / "l",) and read.data.source is None
    assert "decoder.pop_limit" not in effective_keys(read) and "decoder.kbest" in effective_keys(read)


def test_a_job_over_lists_is_written_as_it_was_read(tmp_path: Path) -> None:
    path = tmp_path / "nc.toml"
    path.write_text(LISTS + FILE + FILE.replace("lm", "tm").replace('"f"', '"g"\ndevtest = "h"'))
    read = load(path)
    assert [(of.name, of.file, of.devtest) for of in read.features.files] == [
        ("lm", tmp_path / "f", None),
        ("tm", tmp_path / "g", tmp_path / "h"),
    ]
    (tmp_path / "again.toml").write_text(read.to_toml())
    assert load(tmp_path / "again.toml") == read


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[grammar]\nfile = "g"', '[grammar]: found beside decoder.backend = "lists": lists have all features'),
        ('[[lm]]\nfile = "l"', '[[lm]]: found beside decoder.backend = "lists"'),
        (
            '[features]\ntemplates = ["id"]',
            'features.templates: found id, which decoder.backend = "lists" does not have',
        ),
        ('[features]\ntemplates = ["lexicon-pair"]', 'features.lexicon: expected beside the template "lexicon-pair"'),
        ('[features]\nlexicon = "x"', 'features.lexicon: expected beside the template "lexicon-pair"'),
        (
            '[features]\ntemplates = ["lexicon-pair"]\nlexicon = "x"',
            'data.source: found none, as the template "lexicon-pair" needs',
        ),
        ('[learner.metric]\nbleu = 1\nchrf = 1\n[data.devtest]\nlists = ["d"]', "data.devtest.references: found none"),
        ('[features.unlog]\nln = ["a"]', 'features.unlog: found beside decoder.backend = "lists"'),
        (f"{FILE}{FILE}", "features.files: found lm twice, expected each feature once"),
        (f'{FILE}[data.devtest]\nlists = ["d"]', "features.files: found no devtest for lm, as data.devtest needs"),
        ('[data.devtest]\nlists = ["d"]', "data.devtest.references: found none, expected one or more files"),
        ('[data.devtest]\nreferences = ["d"]', "data.devtest.lists: found none, expected one or more files"),
        (
            '[learner]\nmethod = "mert"\nmert.search = "hypergraph"',
            'learner.mert.search = "hypergraph": lists have no hypergraphs',
        ),
    ],
)
def test_what_lists_do_not_have_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "nc.toml"
    path.write_text(LISTS + text)
    with pytest.raises(UsageError) as error:
        load(path)
    assert str(error.value).startswith(f"{path}: {said}")


def test_lists_beside_a_decoder_are_refused(tmp_path: Path) -> None:
    data = '[data]\nsource = "s"\nreferences = ["r"]\n'
    said = 'data.lists: found beside another decoder, expected decoder.backend = "lists"'
    assert refused(tmp_path, f'{data}lists = ["l"]') == said
    assert refused(tmp_path, f'{data}join = "bpe"') == said.replace("lists", "join", 1)
    said = 'data.tokenize: found "13a" beside another decoder, whose words are those of its rules, expected'
    assert refused(tmp_path, data, "data.tokenize=13a").startswith(said)
    said = 'features.files: found beside another decoder than decoder.backend = "lists"'
    assert refused(tmp_path, data + FILE) == said


def test_a_value_where_a_table_belongs(tmp_path: Path) -> None:
    for text, said in (
        ("learner = 3", "learner: found 3, expected a table"),
        ("run = 3", "run: found 3, expected a table"),
        ('lm = "lm.arpa"', 'lm: found "lm.arpa", expected [[lm]]'),
        ('[lm]\nfile = "lm.arpa"', "lm: found a table, expected [[lm]]"),
        ('lm = ["lm.arpa"]', 'lm.0: found "lm.arpa", expected a table'),
        ("lm = [{file = 3}]", "lm.0.file: found 3, expected a path (a string)"),
    ):
        with pytest.raises(UsageError) as error:
            job(tmp_path, text)
        assert str(error.value) == f"{tmp_path / 'nc.toml'}: {said}"


def test_one_grammar_and_an_lm_are_needed(tmp_path: Path) -> None:
    told = "grammar.folder: expected grammar.per_sentence = true beside it"
    assert refused(tmp_path, "", "grammar.folder=grammars") == told
    assert refused(tmp_path, "", "grammar.file=").startswith(
        "found neither [data] nor a grammar, expected one of grammar.file, "
    )
    assert refused(tmp_path, "", "grammar.per_sentence=true").startswith(
        "found grammar.file and grammar.per_sentence, expected one of "
    )
    assert refused(tmp_path, "", "lm=[]") == "found no language model, expected one or more [[lm]] tables"
    assert job(tmp_path, SMALL, "grammar.file=", "grammar.per_sentence=true").grammar.per_sentence


def test_only_train_needs_data(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nc.toml: \[data\] is missing"):
        require_data(job(tmp_path, SMALL))
    assert require_data(job(tmp_path, SMALL + DATA)).limit == 0
    devtest = '[data.devtest]\nsource = "d"\nreferences = ["e", "f"]\n'
    assert require_data(job(tmp_path, SMALL + DATA + devtest)).devtest == DevTestKeys(
        tmp_path / "d", (tmp_path / "e", tmp_path / "f")
    )


def test_hypergraphs_are_searched_for_bleu_only(tmp_path: Path) -> None:
    asked = "learner.method=mert", "learner.mert.search=hypergraph", "learner.metric=ter"
    told = 'learner.metric: found "ter", expected "bleu", as mert.search = "hypergraph"'
    assert refused(tmp_path, "", *asked) == told
    told = 'learner.metric: found a table, expected "bleu", as mert.search = "hypergraph"'
    assert refused(tmp_path, "", *asked[:2], "learner.metric={bleu=2}") == told
    assert job(tmp_path, SMALL, *asked, "learner.mert.search=kbest").learner.metric == "ter"
    assert job(tmp_path, SMALL, *asked[:2], "learner.metric={bleu=1}").learner.metric == "bleu"


def test_what_is_set_is_named_wherever_the_error_is_in_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r'^--set features.templates.0: found "ids", expected one of'):
        job(tmp_path, SMALL, 'features.templates=["ids"]')


def test_loss_2_of_rampion_needs_weights_to_begin_with(tmp_path: Path) -> None:
    asked = "learner.method=rampion", "learner.rampion.loss=2"
    assert refused(tmp_path, "", *asked).startswith("learner.rampion.loss: found 2 without learner.initial_weights")
    assert job(tmp_path, SMALL, *asked, "learner.initial_weights=w").learner.own == RampionOptions(loss=2)


def test_the_metric_is_a_name_or_several_with_weights(tmp_path: Path) -> None:
    both = job(tmp_path, SMALL, "learner.metric={ter = 1, chrf = -0.5}")
    assert both.learner.metric == {"ter": 1.0, "chrf": -0.5} == metric_weights(both)
    written = tmp_path / "config.toml"
    written.write_text(both.to_toml())
    assert load(written, []).learner == both.learner
    assert metric_weights(job(tmp_path, SMALL)) == {"bleu": 1.0}
    assert effective_keys(both)["learner.metric"] == both.learner.metric
    assert "learner.gold" in effective_keys(job(tmp_path, SMALL)).keys() - effective_keys(both).keys()
    said = "learner.metric: found wer = -1.0, expected more than 0: less wer is better anyway"
    assert refused(tmp_path, "", "learner.metric={bleu = 1, wer = -1}") == said
    old = "--set learner.mert.metric: unknown key; did you mean learner.metric?"
    assert refused(tmp_path, "", "learner.mert.metric=bleu") == old
    expected = "expected a name, or a table of names and numbers"
    assert refused(tmp_path, "", "learner.metric=3") == f"--set learner.metric: found 3, {expected}"
    for weight in ("0", "nan", '"a"'):
        said = refused(tmp_path, "", f"learner.metric={{bleu = {weight}}}")
        assert said.endswith(f"learner.metric.bleu: found {weight}, expected a number other than 0")
    told = 'learner.metric: found "comet", expected bleu, ter, chrf, cer'
    assert refused(tmp_path, "", "learner.metric={bleu = 1, comet = 1}").startswith(told)


def test_what_cdec_does_not_have_is_refused_by_name(tmp_path: Path) -> None:
    templates = 'features.templates=["id", "insertion", "word-pair"]'
    told = "features.templates: cdec does not have insertion, word-pair"
    assert refused(tmp_path, "", templates, "decoder.backend=cdec") == told
    assert job(tmp_path, SMALL, templates).features.templates == ("id", "insertion", "word-pair")
    hypergraph = "learner.mert.search=hypergraph"
    told = 'learner.mert.search = "hypergraph": cdec returns no hypergraphs'
    assert refused(tmp_path, "", "learner.method=mert", hypergraph, "decoder.backend=cdec") == told
    assert job(tmp_path, SMALL, hypergraph, "decoder.backend=cdec").learner.method == "perceptron"


def test_a_bitext_to_extract_from_is_named_whole(tmp_path: Path) -> None:
    told = "grammar.source: expected grammar.target beside it"
    assert refused(tmp_path, "", "grammar.file=", "grammar.source=a") == told
    for key in ("alignment=a", "target=b", "leave_one_out=true", "max_translations=20"):
        assert refused(tmp_path, "", f"grammar.{key}").endswith("expected source beside it")
    whole = (
        "grammar.file=",
        "grammar.source=a",
        "grammar.target=b",
        "grammar.alignment=c",
        "grammar.leave_one_out=true",
    )
    found = job(tmp_path, SMALL, *whole).grammar
    assert (found.source, found.alignment, found.leave_one_out) == (tmp_path / "a", (tmp_path / "c",), True)
    for value, expected in (('["c", "d"]', (tmp_path / "c", tmp_path / "d")), ("[]", ()), ('""', ())):
        assert job(tmp_path, SMALL, *whole, f"grammar.alignment={value}").grammar.alignment == expected
    assert refused(tmp_path, "", *whole, "decoder.backend=cdec").startswith("grammar.source: cdec needs grammar files")


BITEXT = '[data]\nsource = "f"\nreferences = ["e"]\n'
"""A whole job."""


def test_a_bitext_is_enough(tmp_path: Path) -> None:
    found = job(tmp_path, BITEXT)
    assert found.lm == (LmKeys(None, order=5),) and found.grammar == GrammarKeys() and tunes_on_bitext(found)
    assert job(tmp_path, found.to_toml()) == found
    assert tunes_on_bitext(job(tmp_path, '[data]\nbitext = "fe"\n[grammar]\nalignment = "a"'))
    assert job(tmp_path, f'{BITEXT}[[lm]]\norder = 3\n[[lm]]\ntext = ["a", "b"]').lm == (
        LmKeys(None, order=3),
        LmKeys(None, text=(tmp_path / "a", tmp_path / "b")),
    )
    # The bitext may be another one.
    other = f'{BITEXT}[grammar]\nsource = "f2"\ntarget = "e2"\n'
    for text in (other, f"{other}leave_one_out = true"):
        assert job(tmp_path, text).lm == (LmKeys(),) and not tunes_on_bitext(job(tmp_path, text))
    for more, told in (
        ("", "found no language model, expected one or more [[lm]] tables"),
        ("[[lm]]", "lm.0: found neither file nor text, expected one of them"),
    ):
        with pytest.raises(UsageError, match=re.escape(told)):
            job(tmp_path, f'{BITEXT}[grammar]\nfile = "g"\n{more}')


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("#lm", "lm.0.name: found '#lm', expected a word that does not begin with #"),
        ("a b", "lm.0.name: found 'a b', expected a word"),
        (r"lm\nGlue", r"lm.0.name: found 'lm\nGlue', expected a word"),
        (r"lm\r", r"lm.0.name: found 'lm\r', expected a word"),
        ("a=b", "lm.0.name: found 'a=b', expected a word"),
        ("R:X:der:the", "lm.0.name: found 'R:X:der:the', expected another beginning"),
        ("WordPenalty", "lm.0.name: found WordPenalty, which is a feature of the decoder"),
        ("lm_OOV", "lm.0.name: found lm_OOV, which is a feature of the decoder"),
        ("lm", "found two language models called lm, expected a name for each"),
    ],
)
def test_names_of_language_models_are_those_of_features(tmp_path: Path, name: str, told: str) -> None:
    """Weights files would hold them as comments or not at all, or two features would share a weight."""
    with pytest.raises(UsageError, match=re.escape(told)):
        job(tmp_path, f'{BITEXT}[[lm]]\nname = "{name}"\n[[lm]]\nname = "lm"\n')
    other = "other" if name == "lm" else name.strip("#")
    if re.fullmatch("[a-z]+", other):
        assert job(tmp_path, f'{BITEXT}[[lm]]\nname = "{other}"').lm[0].name == other


def test_names_of_features_in_files(tmp_path: Path) -> None:
    lists = '[data]\nlists = ["l"]\nreferences = ["r"]\n[decoder]\nbackend = "lists"\n'
    for name in ("", "a b", "LP:x"):
        with pytest.raises(UsageError, match=f"features.files.0.name: found '{name}', expected"):
            job(tmp_path, f'{lists}[[features.files]]\nname = "{name}"\nfile = "f"\n')


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f'{BITEXT}[grammar]\ntarget = "e"', "found target, expected source beside it"),
        (
            BITEXT.replace('["e"]', '["e", "e2"]'),
            "data.references: found 2 files, expected one file: without",
        ),
        ('[decoder]\nbackend = "embedded"', "found neither [data] nor a grammar, expected one of grammar.file"),
        (f'{BITEXT}[decoder]\nbackend = "cdec"', "found no grammar, expected one of grammar.file"),
    ],
)
def test_what_a_bitext_alone_does_not_allow(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UsageError, match=re.escape(told)):
        job(tmp_path, text)


def test_a_job_with_models_of_its_own_is_the_same_as_before(tmp_path: Path) -> None:
    """Runs that began before models could be estimated go on."""
    found = effective_keys(job(tmp_path, SMALL + DATA))
    assert not {key for key in found if key.startswith("lm.")} - {"lm.0.name"}


def test_a_job_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.toml", tmp_path):
        with pytest.raises(UsageError, match="expected a readable job file"):
            load(path)
    with pytest.raises(UsageError, match="/dev/zero: found more than 16 MB"):
        load(Path("/dev/zero"))
    (tmp_path / "latin.toml").write_bytes(b'[run]\ndir = "\xe9"\n')
    with pytest.raises(UsageError, match="latin.toml:2: found bytes that are not UTF-8 .*, expected UTF-8"):
        load(tmp_path / "latin.toml")


def test_the_job_of_a_run_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("")
    with pytest.raises(UsageError, match=f"expected a readable job file; {tmp_path}/config.toml is one$"):
        load(tmp_path)


def test_a_byte_order_mark_is_no_part_of_the_job(tmp_path: Path) -> None:
    assert job(tmp_path, "\ufeff" + SMALL) == job(tmp_path, SMALL)


def test_overrides_replace_keys_and_the_last_one_counts(tmp_path: Path) -> None:
    found = job(
        tmp_path,
        SMALL + "[learner]\nepochs = 3\n",
        "learner.epochs=5",
        "learner.rate=adagrad",
        'features.templates=["id", "shape"]',
        "learner.l1 = 1e-3",
        "lm.0.file=other lm.arpa",
        "lm.1.file=second.arpa",
        "data.bitext=b",
        "learner.epochs=6",
    )
    assert found.learner == LearnerKeys(epochs=6, rate="adagrad", l1=0.001)
    assert found.features.templates == ("id", "shape")
    assert found.lm == (LmKeys(tmp_path / "other lm.arpa"), LmKeys(tmp_path / "second.arpa"))
    assert require_data(found).bitext == tmp_path / "b"
    assert {"learner.epochs", "learner.l1", "lm", "data.bitext"} <= found.explicit
    assert job(tmp_path, '[grammar]\nfile = "g"\n', "lm.0.file=l").lm == (LmKeys(tmp_path / "l"),)


def test_an_override_is_named_where_it_is_wrong(tmp_path: Path) -> None:
    said = "--set learner.epoch: unknown key; did you mean learner.epochs?"
    assert refused(tmp_path, "", "learner.epoch=5") == said
    assert refused(tmp_path, "", "learner.epochs=x") == '--set learner.epochs: found "x", expected a whole number'
    assert refused(tmp_path, "", "learner.epochs") == "--set learner.epochs: expected table.key=value"
    assert refused(tmp_path, "", "lerner.epochs=1") == "--set lerner: unknown table; did you mean learner?"
    assert refused(tmp_path, "", "data.devtst.source=x").startswith("--set data.devtst: unknown table; did you mean")
    assert refused(tmp_path, "[lerner]\n", "lerner.epochs=1") == "lerner: unknown table; did you mean learner?"
    for text in ("learner..epochs=1", ".=1", "=1", "epochs."):
        assert refused(tmp_path, "", text) == f"--set {text}: expected table.key=value"
    assert refused(tmp_path, "", "lm.7.file=x") == "--set lm.7.file: no such key"
    assert refused(tmp_path, "[learner]\nepochs = 1\n", "learner.epochs.x=1") == "--set learner.epochs.x: no such key"
    assert refused(tmp_path, "", "learner.gold=1\nx = 2").startswith("--set learner.gold: found")


def test_an_override_takes_the_place_of_its_rival(tmp_path: Path) -> None:
    assert job(tmp_path, SMALL + "[select]\nk = 5\n", "select.lambda=0.5").select == SelectKeys(k=None, lambda_=0.5)
    assert job(tmp_path, SMALL + "[select]\nlambda = 5\n", "select.k=7").select == SelectKeys(k=7)
    assert "both" in refused(tmp_path, "", "select.k=7", "select.lambda=0.5")


def test_sgd_has_one_shard(tmp_path: Path) -> None:
    assert job(tmp_path, SMALL, "learner.algorithm=sgd").parallel.shards == 1
    assert job(tmp_path, SMALL, "learner.algorithm=sgd", "parallel.shards=5").parallel.shards == 1
    assert job(tmp_path, SMALL, "learner.algorithm=mix").parallel.shards == 8


def test_a_cdec_ini_completes_the_job(tmp_path: Path) -> None:
    ini = tmp_path / "cdec" / "cdec.ini"
    values = {
        "grammar.file": "g.gz",
        "lm": [{"file": "lm.arpa"}, {"file": "/lm2.arpa"}],
        "decoder.pop_limit": 30,
        "decoder.span_limit": 20,
    }
    text = '[grammar]\nfile = ""\n[decoder]\nconfig = "cdec/cdec.ini"\nspan_limit = 15\n'
    found = complete_from_cdec_ini(job(tmp_path, text), values, ini)
    assert found.grammar.file == ini.parent / "g.gz"
    assert found.lm == (LmKeys(ini.parent / "lm.arpa"), LmKeys(Path("/lm2.arpa")))
    assert (found.decoder.pop_limit, found.decoder.span_limit) == (30, 15)
    assert found.decoder.config == ini and found.file == tmp_path / "nc.toml"
    assert (
        complete_from_cdec_ini(job(tmp_path, found.to_toml(), name="again.toml"), {"decoder.pop_limit": 9}, ini)
        == found
    )

    own = job(tmp_path, SMALL.replace("file =", "per_sentence = true #", 1), "decoder.config=cdec/cdec.ini")
    kept = complete_from_cdec_ini(own, values, ini)
    assert kept.grammar == own.grammar and kept.lm == own.lm and kept.decoder.span_limit == 20

    with pytest.raises(UsageError, match="nc.toml: found neither .data. nor a grammar"):
        complete_from_cdec_ini(job(tmp_path, text), {}, ini)
    with pytest.raises(UsageError, match="cdec.ini: decoder.pop_limit: found 0"):
        complete_from_cdec_ini(job(tmp_path, text), values | {"decoder.pop_limit": 0}, ini)


def test_identity_is_what_the_result_depends_on(tmp_path: Path) -> None:
    text = SMALL + DATA + '[learner]\npreset = "simianer2012"\n'
    same = effective_keys(job(tmp_path, text))
    elsewhere = ("run.dir=a", "run.store=b", "learner.epochs=3", "parallel.exchange=allgather", "grammar.file=x")
    assert effective_keys(job(tmp_path, text, *elsewhere, "data.source=y")) == same
    for override in ("run.seed=2", "select.k=3", "learner.share=0.2", "parallel.shards=3", "decoder.kbest=9"):
        assert effective_keys(job(tmp_path, text, override)) != same
    assert same["learner.gold"] == "liang" and same["data.limit"] == 0 and same["select.lambda"] is None
    assert not {key for key, value in same.items() if isinstance(value, Path)} | {"data.references"} & same.keys()


def test_every_key_counts_somewhere_but_those_written_out_here(tmp_path: Path) -> None:
    """A run that goes on with another value of a key that counts is refused."""
    bins = '[features.discretize]\nfeatures = ["A"]\nregularizer = "monotone"\n'
    changes = [f'[learner]\nmethod = "{method}"\n' for method in METHODS]
    changes += ['[learner]\ngold = "context"\nmethod = "mira"\n', f'[features.unlog]\nln = ["A"]\n{bins}']
    every, counting = set[str](), set[str]()
    for change in changes:
        found = job(tmp_path, SMALL + DATA + change)
        every |= {key for key, kind, _ in schema.values(found) if kind is not Path and not key.startswith("local.")}
        counting |= effective_keys(found).keys()
    timeouts = {f"decoder.cdec.{name}_timeout" for name in ("start", "first", "sentence")}
    goes_on = {"learner.epochs", "learner.patience", "learner.preset", "parallel.exchange", "parallel.timeout"}
    counting |= effective_keys(job(tmp_path, LISTS, "data.tokenize=13a")).keys()
    # Of the others, the content counts: the model that is estimated, what is left out of it, and the lists as read.
    content = {"lm.0.order", "learner.lm_leave_one_out", "data.format", "data.nbest", "data.join"}
    assert every - counting == timeouts | goes_on | {"decoder.binary"} | content


texts = st.text(st.characters(exclude_categories=["Cs"]))
paths = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/$\0"), min_size=1).map(
    lambda name: Path("/", name)
)


@given(
    dir=paths,
    frozen=st.lists(texts.filter(is_feature_name)).map(tuple),
    rate=st.floats(1e-300, 1e18),
    lambda_=st.none() | st.floats(0, 1e18),
    lms=st.lists(paths.map(LmKeys), min_size=1).map(tuple),
    devtest=st.none() | st.builds(DevTestKeys, paths, st.tuples(paths)),
)
def test_the_effective_configuration_reads_back_to_the_same_job(
    tmp_path_factory: pytest.TempPathFactory,
    dir: Path,
    frozen: tuple[str, ...],
    rate: float,
    lambda_: float | None,
    lms: tuple[LmKeys, ...],
    devtest: DevTestKeys | None,
) -> None:
    folder = tmp_path_factory.getbasetemp()
    least = job(folder, SMALL)
    made = replace(
        least,
        run=RunKeys(dir, dir / "store", 2**63 - 1),
        lm=lms,
        data=DataKeys(source=Path("/s"), references=(Path("/a"), Path("/b")), devtest=devtest),
        learner=replace(least.learner, frozen=frozen, learning_rate=rate),
        select=SelectKeys(k=100000 if lambda_ is None else None, lambda_=lambda_),
    )
    assert job(folder, made.to_toml()) == made
