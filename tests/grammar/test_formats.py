"""Rule tables of Joshua and Moses: the same arrays as from cdec's format, and the same training by the job's key."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.tiny import Tiny

from mpitune.cli.parser import main
from mpitune.config.spec import GrammarKeys
from mpitune.corpus.text import split_fields
from mpitune.corpus.vocabulary import Vocabulary
from mpitune.errors import DataError
from mpitune.grammar.formats import FORMATS
from mpitune.grammar.grammars import ListedGrammars
from mpitune.grammar.rules import RuleReader
from mpitune.schema import values

# Scores whose logarithms are -2, -1, 0 and the floor.
P2, P1 = repr(math.exp(-2)), repr(math.exp(-1))
SAME = {
    "cdec": f"""\
[X] ||| das haus ||| the house ||| A=-2 B=-1 Sparse=3 ||| 0-0 1-1
[X] ||| ne [X,1] pas ||| not [1] ||| A=-1 B=-100 ||| 0-0 2-0
[X] ||| [X,1] de [NP,2] ||| [2] 's [1] ||| A=-1 B=-1 Sparse=-0.5 Other=2 ||| 1-1
[X] ||| [X,1] de [NP,2] ||| [1] of [2] ||| A=-2 ||| 1-1
[NP] ||| haus ||| ||| A=-1 B={math.log(2.718)!r}
[X] ||| das haus ||| the house ||| A=-1 B=-1 ||| 0-0 1-1
[S] ||| [NP,1] [X,2] ||| [1] [2] ||| A=-2 B=-2
""",
    "joshua": f"""\
[X] ||| das haus ||| the house ||| 2 1 Sparse=3 ||| 0-0 1-1
[X] ||| ne [X,1] pas ||| not [X,1] ||| 1 100 ||| 0-0 2-0
[X] ||| [X,1] de [NP,2] ||| [NP,2] 's [X,1] ||| Sparse=-0.5 1 Other=2 1 ||| 1-1
[X] ||| [X,1] de [NP,2] ||| [X,1] of [NP,2] ||| 2 0 ||| 1-1
[NP] ||| haus ||| ||| 1 tm_pt_1={math.log(2.718)!r}
[X] ||| das haus ||| the house ||| 1 1 ||| 0-0 1-1
[S] ||| [NP] [X] ||| [NP,1] [X,2] ||| 2 2
""",
    "moses": f"""\
das haus [X] ||| the house [X] ||| {P2} {P1} ||| 0-0 1-1 ||| 9 5 3 ||| Sparse 3
ne [X][X] pas [X] ||| not [X][X] [X] ||| {P1} 0 ||| 0-0 1-1 2-0
[X][X] de [NP][NP] [X] ||| [NP][NP] 's [X][X] [X] ||| {P1} {P1} ||| 0-2 1-1 2-0 ||| ||| Sparse -0.5 Other 2 |||
[X][X] de [NP][NP] [X] ||| [X][X] of [NP][NP] [X] ||| {P2} 1 ||| 2-2 0-0 1-1 ||| 1 1 |||
haus [NP] ||| [NP] ||| {P1} 2.718 ||| ||| 1 1 1 ||| |||
das haus [X] ||| the house [X] ||| {P1} {P1} ||| 0-0 1-1 ||| 1 1 1
[NP][NP] [X][X] [S] ||| [NP][NP] [X][X] [S] ||| {P2} {P2} ||| 0-0 1-1
""",
}
"""One grammar in each format; only the names of the scores differ."""
NAMES = {
    "joshua": {"tm_pt_0": "A", "tm_pt_1": "B", "Sparse": "Sparse", "Other": "Other"},
    "moses": {
        "TranslationModel0_1": "A",
        "TranslationModel0_2": "B",
        "TranslationModel0_Sparse": "Sparse",
        "TranslationModel0_Other": "Other",
    },
}


def read(folder: Path, table_format: str, text: str) -> tuple[RuleReader, Vocabulary]:
    path = folder / table_format
    path.write_text(text)
    words = Vocabulary()
    reader = RuleReader(words, table_format)
    reader.read(path)
    return reader, words


def arrays_of(reader: RuleReader) -> dict[str, np.ndarray]:
    return ListedGrammars(reader.rules(), reader.grammar_ptr).as_arrays()


def test_a_table_of_moses_is_known_by_its_first_line(tmp_path: Path) -> None:
    for shown in ("cdec", "moses"):
        found, expected = (read(tmp_path, chosen, SAME[shown])[0] for chosen in ("auto", shown))
        assert found.score_names == expected.score_names
        ours, theirs = (arrays_of(reader) for reader in (found, expected))
        assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)


def scores(reader: RuleReader, names: dict[str, str] | None = None) -> list[dict[str, float]]:
    """The scores of each rule, under other names where ``names`` has them."""
    rules, called = reader.rules(), [(names or {}).get(name, name) for name in reader.score_names]
    ptr = rules.score_ptr.tolist()
    index, value = rules.score_index.tolist(), rules.score_value.tolist()
    rows = [slice(ptr[row], ptr[row + 1]) for row in rules.score_row.tolist()]
    return [{called[i]: v for i, v in zip(index[row], value[row], strict=True)} for row in rows]


@pytest.mark.parametrize("table_format", ["joshua", "moses"])
def test_one_grammar_in_all_formats(tmp_path: Path, table_format: str) -> None:
    expected, expected_words = read(tmp_path, "cdec", SAME["cdec"])
    found, words = read(tmp_path, table_format, SAME[table_format])
    assert words.words == expected_words.words
    assert found.categories == expected.categories
    ours = arrays_of(found)
    for name, array in arrays_of(expected).items():
        if not name.startswith("rules.score"):
            np.testing.assert_array_equal(ours[name], array, name)
            assert ours[name].dtype == array.dtype
    assert set(found.score_names) == set(NAMES[table_format])
    for of_ours, of_theirs in zip(scores(found, NAMES[table_format]), scores(expected), strict=True):
        assert of_ours == pytest.approx(of_theirs, abs=1e-15)


def test_the_scores_of_joshua(tmp_path: Path) -> None:
    line = "[X] ||| el chico ||| the boy ||| -1 sparse=1 0.25 0 tm_pt_3=2 owner=-3 ||| 0-0 1-1\n"
    found, _ = read(tmp_path, "joshua", line)
    assert scores(found) == [{"tm_pt_0": 1.0, "sparse": 1.0, "tm_pt_1": -0.25, "tm_pt_3": 2.0, "owner": -3.0}]


def test_the_scores_of_moses(tmp_path: Path) -> None:
    line = "do not [X][X] [X] ||| n' [X][X] pas [X] ||| 1 0.5 0 1e-60 2.718 ||| 2-1 ||| x ||| a_b=c 2 0 -0.5\n"
    found, _ = read(tmp_path, "moses", line)
    assert scores(found) == [
        {
            "TranslationModel0_2": math.log(0.5),
            "TranslationModel0_3": -100.0,
            "TranslationModel0_4": -100.0,
            "TranslationModel0_5": math.log(2.718),
            "TranslationModel0_a_b=c": 2.0,
            "TranslationModel0_0": -0.5,
        }
    ]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("[X] ||| a", "found 2 fields, expected [LHS] ||| source"),
        ("a [X] ||| b [X] ||| 1", "found left-hand side 'a [X]', expected a category such as [X] (a table of Moses? "),
        (
            "[X] ||| [X,1] a ||| b [1] ||| 1",
            "found target gap [1], expected a gap such as [X,1], as Joshua writes it (",
        ),
        ("[X] ||| a ||| b [X] ||| 1", "found target gap [X], expected a gap such as [X,1]"),
        ("[X] ||| [X,2] a [X,1] ||| [X,1] [X,2] ||| 1", "found source gap [X,2], expected [X,1]: Joshua's gaps are"),
        ("[X] ||| [X,1] [a,b] ||| [X,1] ||| 1", "found source gap [a,b], expected [X,2]"),
        ("[X] ||| [NP,1] a ||| [X,1] ||| 1", "found target gap [X,1], expected [NP,1]"),
        ("[X] ||| a ||| b ||| A=1 nan", "found score 'nan', expected a number from -1e30 to 1e30"),
        ("[X] ||| a ||| b ||| 1e31", "found score '1e31', expected a number from -1e30 to 1e30"),
        ("[X] ||| a ||| b ||| 1 tm_pt_0=1", "found score tm_pt_0 twice"),
        ("[X] ||| a ||| b ||| 1 ||| 0-1", "found alignment '0-1', expected i-j with i below 1 and j below 1"),
    ],
)
def test_bad_lines_of_joshua(tmp_path: Path, line: str, told: str) -> None:
    refused(tmp_path, "joshua", "[X] ||| a ||| b ||| 1 2", line, told)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("a [X] ||| b [X]", "found 2 fields, expected source [LHS] ||| target [LHS] ||| scores"),
        ("a [X] ||| b [X] ||| 1 1 ||| ||| ||| ||| ||| ", "found 8 fields"),
        (
            "[X] ||| a ||| b ||| 1 1",
            "found source side '[X]', expected words or gaps, then the left-hand side (a table",
        ),
        (
            "das haus ||| the house ||| 1 1 ||| 0-0",
            "found source side 'das haus', expected words or gaps, then the left",
        ),
        ("a [X] ||| ||| 1 1", "found target side ''"),
        ("a [X] ||| b [NP] ||| 1 1", "found left-hand sides [X] and [NP], expected the same on both sides"),
        ("[X][S] [X] ||| [X][S] [X] ||| 1 1 ||| 0-0", "found gap [X][S] on the source side, expected one label"),
        (
            "a [NP][NP] [X] ||| [X][X] [X] ||| 1 1 ||| 1-0",
            "found gaps [NP][NP] and [X][X], linked by 1-0, expected gaps",
        ),
        (
            "a [X,1] [X] ||| b [X] ||| 1 1",
            "found '[X,1]' on the source side, expected a word without brackets, or a gap",
        ),
        ("a [X] ||| b [1] [X] ||| 1 1", "found '[1]' on the target side"),
        ("a [X][X] [X] ||| b [X][X] [X] ||| 1 1", "found alignment '' without the source's gap at 1"),
        ("a [X][X] [X] ||| b [X] ||| 1 1 ||| 0-0", "found alignment '0-0' without the source's gap at 1"),
        ("a [X] ||| b [X][X] [X] ||| 1 1 ||| 0-0", "found alignment '0-0' without the target's gap at 1"),
        ("a [X][X] [X] ||| b [X][X] [X] ||| 1 1 ||| 1-0", "found alignment '1-0', expected each gap linked to one gap"),
        ("a [X][X] [X] ||| b [X][X] [X] ||| 1 1 ||| 1-1 0-1", "found alignment '0-1', expected each gap linked"),
        ("[X][X] [X][X] a [X] ||| [X][X] [X][X] [X] ||| 1 1 ||| 0-0 0-1", "found alignment '0-1', expected each gap"),
        ("a [X] ||| b [X] ||| 1 1 ||| 0-1", "found alignment '0-1', expected i-j with i below 1 and j below 1"),
        ("a [X] ||| b [X] ||| 1 1 ||| 0.5", "found alignment '0.5', expected i-j"),
        ("a [X] ||| b [X] ||| 1", "found 1 score, expected 2, as many as the first rule has"),
        ("a [X] ||| b [X] ||| 1 -0.5", "found score '-0.5', expected a number from 0 to 1e30, as Moses takes its log"),
        ("a [X] ||| b [X] ||| 1e31 1", "found score '1e31', expected a number from 0 to 1e30"),
        (
            "a [X] ||| b [X] ||| 1 1 ||| ||| ||| x 1e31",
            "found sparse score 'x 1e31', expected a name and a number from",
        ),
        ("a [X] ||| b [X] ||| 1 inf", "found score 'inf'"),
        ("a [X] ||| b [X] ||| 1 A=1", "found score 'A=1'"),
        ("a [X] ||| b [X] ||| 1 1 ||| ||| ||| A", "found sparse scores 'A', expected pairs of a name and a value"),
        (
            "a [X] ||| b [X] ||| 1 1 ||| ||| ||| A 1 B nan",
            "found sparse score 'B nan', expected a name and a number from",
        ),
        ("a [X] ||| b [X] ||| 1 1 ||| ||| ||| A 1 A 1", "found score TranslationModel0_A twice"),
        (
            "a [X] ||| b [X] ||| 1 1 ||| ||| ||| ||| {{Tree (X a)}}",
            "found properties '{{Tree (X a)}}', expected a table",
        ),
        ("a [X] ||| b [X] ||| 1 1 ||| ||| ||| ||| x", "found a seventh field 'x', expected at most six"),
        ("[X][X] [X][X] [X][X] [X] ||| [X][X] [X][X] [X][X] [X] ||| 1 1 ||| 0-0 1-1 2-2", "found 3 gaps, expected"),
        ("[X] ||| [X] ||| 1 1", "found source side '[X]'"),
        ("[X][X] [X] ||| [X][X] [X] ||| 1 1 ||| 0-0", "found a unary rule from X to X that closes a cycle"),
    ],
)
def test_bad_lines_of_moses(tmp_path: Path, line: str, told: str) -> None:
    refused(tmp_path, "moses", "a [X] ||| c [X] ||| 1 2", line, told)


@pytest.mark.parametrize("more", ["", " ||| 0-0 ||| 1 1 1", " ||| 0-0 ||| 1 1 1 ||| |||"])
def test_a_table_of_moses_read_as_that_of_cdec(tmp_path: Path, more: str) -> None:
    refused(tmp_path, "cdec", "[X] ||| a ||| c", f"a [X] ||| b [X] ||| 1{more}", "", '? then grammar.format = "moses")')


@pytest.mark.parametrize("more", ["", " ||| 0-0", " ||| 0-0 ||| 4 2 1", " ||| 0-0 ||| 4 2 1 |||", " ||| ||| ||| ||| "])
def test_a_phrase_table_of_moses(tmp_path: Path, more: str) -> None:
    hint = " (a phrase table of Moses? expected a hierarchical one)"
    for source in ("das haus", '" (', "[ [X,1]"):
        for kind in ("cdec", "joshua"):
            refused(tmp_path, kind, "[X] ||| a ||| c", f"{source} ||| the house ||| 0.5 1e-9{more}", "found ", hint)


@pytest.mark.parametrize(
    "line", ["X ||| a ||| b ||| 1", "X ||| a ||| ||| 1", "[X] ||| 3 ||| 3 ||| 1 ||| ||| 1", "a ||| 3"]
)
def test_other_bad_lines_are_no_phrase_table(tmp_path: Path, line: str) -> None:
    with pytest.raises(DataError) as error:
        read(tmp_path, "cdec", line)
    assert "Moses" not in str(error.value)


def refused(folder: Path, table_format: str, good: str, bad: str, told: str, end: str = "") -> None:
    with pytest.raises(DataError) as error:
        read(folder, table_format, f"{good}\n{bad}\n")
    assert str(error.value).startswith(f"{folder / table_format}:2: {told}")
    assert str(error.value).endswith(end)


def test_the_job_has_a_word_for_each_format() -> None:
    choices = GrammarKeys.__dataclass_fields__["format"].metadata["choices"]
    assert choices == ("auto", *FORMATS)
    assert ("grammar.format", str, "auto") in values(GrammarKeys(), "grammar.")


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    """A task whose grammar, and those of its sentences, are Joshua's: the costs are what was called Cost."""
    tiny = Tiny(tmp_path)
    for path in [tmp_path / "grammar", *tmp_path.glob("own.[0-9]")]:
        shutil.copy(path, tmp_path / f"{path.name}.cdec")
        lines = []
        for line in path.read_text().splitlines():
            lhs, source, target, features, *links = split_fields(line)
            given = dict(feature.split("=") for feature in features.split())
            costs = [str(-float(given.pop("Cost"))), *(f"{name}={value}" for name, value in given.items())]
            target = target.replace("[1]", "[X,1]").replace("[2]", "[X,2]")
            lines.append("|||".join([lhs, source, target, f" {' '.join(costs)} ", *links]))
        path.write_text("\n".join(lines) + "\n")
    return tiny


def test_training_and_decoding_through_the_job_key(
    tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own.de.cdec"
    own.write_text((tmp_path / "own.de").read_text().replace('" id', '.cdec" id'))
    outputs = {}
    for table_format, grammar in (("cdec", "grammar.cdec"), ("joshua", "grammar")):
        run = tmp_path / "runs" / table_format
        tiny.train(run, grammar={"file": grammar, "format": table_format})
        assert main(["weights", str(run), "--export", str(run / "exported")]) == 0
        weights = dict(line.split() for line in (run / "exported").read_text().splitlines())
        assert "Cost" in weights or "tm_pt_0" in weights
        weights["Cost"] = weights.pop("tm_pt_0", weights.get("Cost", ""))
        # The grammars of the sentences are in the same format as that of the job.
        texts = [str(tmp_path / "dev.de"), str(own if table_format == "cdec" else tmp_path / "own.de")]
        translations = []
        for text, given in zip(texts, ({"file": grammar}, {"file": None, "per_sentence": True}), strict=True):
            job = tiny.job_file(run, grammar={**given, "format": table_format})
            capsys.readouterr()
            assert main(["decode", str(job), "--input", text, "--nbest", "5", "--format", "cdec"]) == 0
            entries = [split_fields(line) for line in capsys.readouterr().out.splitlines()]
            translations.append([(number, words, score) for number, words, _, score in entries])
        outputs[table_format] = (weights, translations)
    assert outputs["joshua"] == outputs["cdec"]


def test_another_format_makes_the_store_anew(tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = str(tiny.job_file(tmp_path / "run"))
    command = ["prepare", job, "--set", f"run.store={tmp_path}/store"]
    said = []
    for table_format in ("joshua", "joshua", "cdec"):
        capsys.readouterr()
        assert main([*command, "--set", f"grammar.format={table_format}"]) == 0
        said.append("data.npz" in capsys.readouterr().err)
    assert said == [True, False, True]
    assert main([*command, "--set", "grammar.format=moses"]) == 3
    assert 'then grammar.format = "cdec" or "joshua")' in capsys.readouterr().err
    assert main([*command, "--set", "grammar.format=hiero"]) == 2
