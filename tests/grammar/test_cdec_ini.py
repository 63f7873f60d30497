"""cdec.ini."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mpitune.errors import DataError, UsageError
from mpitune.grammar.cdec_ini import IniFile, make_inifile, read_inifile


def write(path: Path, content: str) -> Path:
    path.write_text(content)
    return path


def test_all_that_the_embedded_decoder_understands(tmp_path: Path) -> None:
    write(tmp_path / "lm.arpa", "")
    ini = read_inifile(
        write(
            tmp_path / "cdec.ini",
            """# a comment
formalism=scfg
grammar=grammar.gz
add_pass_through_rules=true
 scfg_max_span_limit = 15   # here too
intersection_strategy=cube_pruning
cubepruning_pop_limit=200

feature_function=WordPenalty
feature_function=KLanguageModel lm.arpa
feature_function=KLanguageModel -n Big /lm/big.klm
feature_function=RuleIdentityFeatures
feature_function=RuleSourceBigramFeatures
feature_function=RuleTargetBigramFeatures
feature_function=RuleShape
density_prune=100
""",
        )
    )
    assert ini.formalism == "scfg"
    assert ini.grammars == (tmp_path / "grammar.gz",)
    assert ini.add_pass_through is True
    assert (ini.span_limit, ini.pop_limit) == (15, 200)
    assert ini.word_penalty
    assert ini.language_models == (("LanguageModel", tmp_path / "lm.arpa"), ("Big", Path("/lm/big.klm")))
    assert ini.templates == ("id", "source-bigram", "target-bigram", "shape")
    assert ini.unknown == (("density_prune", "100"),)
    assert ini.unsupported_by_embedded() == []


def test_a_template_that_is_there_twice_counts_once(tmp_path: Path) -> None:
    text = "feature_function=RuleShape\nfeature_function=RuleIdentityFeatures\nfeature_function=RuleShape\n"
    assert read_inifile(write(tmp_path / "cdec.ini", text)).templates == ("shape", "id")


def test_what_is_not_said_is_none(tmp_path: Path) -> None:
    ini = read_inifile(write(tmp_path / "cdec.ini", ""))
    assert (ini.formalism, ini.add_pass_through, ini.span_limit, ini.pop_limit) == (None, None, None, None)
    assert (ini.grammars, ini.language_models, ini.templates, ini.word_penalty) == ((), (), (), False)
    assert ini.unsupported_by_embedded() == []


def test_what_the_embedded_decoder_lacks_is_named(tmp_path: Path) -> None:
    ini = read_inifile(
        write(
            tmp_path / "cdec.ini",
            "formalism=fst\nintersection_strategy=full\nadd_pass_through_rules=no\ngrammar=a\ngrammar=b\n"
            "feature_function=KLanguageModel a.klm\nfeature_function=KLanguageModel b.klm\n"
            "feature_function=KLanguageModel -x c.klm\nfeature_function=SpanFeatures  f 3\n",
        )
    )
    assert ini.unsupported_by_embedded() == [
        "formalism=fst",
        "intersection_strategy=full",
        "add_pass_through_rules=false",
        "more than one grammar",
        "language models of the same name",
        "feature_function=KLanguageModel -x c.klm",
        "feature_function=SpanFeatures  f 3",
    ]


def test_paths_lie_beside_the_file_or_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conf").mkdir()
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "g", "")
    ini = read_inifile(write(tmp_path / "conf" / "cdec.ini", "grammar=g\nfeature_function=KLanguageModel missing\n"))
    assert ini.grammars == (Path("g"),)
    assert ini.language_models == (("LanguageModel", tmp_path / "conf" / "missing"),)


@pytest.mark.parametrize(
    "line",
    [
        "formalism",
        "=scfg",
        "scfg_max_span_limit=fifteen",
        "scfg_max_span_limit=0",
        "cubepruning_pop_limit=-1",
        "add_pass_through_rules=perhaps",
        "formalism=fst",
    ],
)
def test_bad_lines_are_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(DataError, match=r"cdec.ini:2: found .*, expected "):
        read_inifile(write(tmp_path / "cdec.ini", f"formalism=scfg\n{line}\n"))


# For an external decoder

WHOLE = """formalism=scfg
grammar=grammar.gz
add_pass_through_rules=true
scfg_max_span_limit=12
intersection_strategy=cube_pruning
cubepruning_pop_limit=100
feature_function=WordPenalty
feature_function=KLanguageModel lm.arpa
feature_function=RuleIdentityFeatures
feature_function=SpanFeatures  f 3
feature_function=KLanguageModel -x c.klm
goal=TOP
density_prune=100
"""


def for_job(ini: IniFile | None, folder: Path, **changed: Any) -> list[str]:
    """The lines of the file made of ``ini`` and of a job's settings."""
    settings: dict[str, Any] = {
        "grammars": [folder / "g.gz"],
        "language_models": [("LanguageModel", folder / "lm.arpa")],
        "templates": ["shape", "id"],
        "pop_limit": 200,
        "span_limit": 15,
    }
    return make_inifile(ini, **settings | changed).splitlines()


def test_a_job_without_a_file_gives_all_lines(tmp_path: Path) -> None:
    assert for_job(None, tmp_path) == [
        "formalism=scfg",
        "scfg_max_span_limit=15",
        "cubepruning_pop_limit=200",
        f"grammar={tmp_path}/g.gz",
        f"feature_function=KLanguageModel -n LanguageModel {tmp_path}/lm.arpa",
        "feature_function=RuleIdentityFeatures",
        "feature_function=RuleShape",
        "add_pass_through_rules=true",
        "feature_function=WordPenalty",
    ]
    assert for_job(None, tmp_path, grammars=[], language_models=[], templates=[], pop_limit=7, span_limit=3) == [
        "formalism=scfg",
        "scfg_max_span_limit=3",
        "cubepruning_pop_limit=7",
        "add_pass_through_rules=true",
        "feature_function=WordPenalty",
    ]


def test_paths_are_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = for_job(None, tmp_path, grammars=[Path("a"), Path("b")], language_models=[("Big", Path("c"))])
    assert [line for line in lines if str(tmp_path) in line] == [
        f"grammar={tmp_path}/a",
        f"grammar={tmp_path}/b",
        f"feature_function=KLanguageModel -n Big {tmp_path}/c",
    ]


def test_what_no_job_says_is_kept(tmp_path: Path) -> None:
    ini = read_inifile(write(tmp_path / "cdec.ini", WHOLE))
    alone = [
        "goal=TOP",
        "density_prune=100",
        "intersection_strategy=cube_pruning",
        "add_pass_through_rules=true",
        "feature_function=WordPenalty",
        "feature_function=SpanFeatures  f 3",
        "feature_function=KLanguageModel -x c.klm",
    ]
    assert ini.unsupported() == []
    assert ini.decoder_only_settings() == alone
    assert for_job(ini, tmp_path)[7:] == alone, "grammar, language model, templates and limits are the job's"
    assert for_job(ini, tmp_path)[:7] == for_job(None, tmp_path)[:7]


def test_what_is_made_can_be_read_and_says_the_same(tmp_path: Path) -> None:
    ini = read_inifile(write(tmp_path / "cdec.ini", WHOLE))
    for given in (ini, None):
        text = "".join(f"{line}\n" for line in for_job(given, tmp_path))
        made = read_inifile(write(tmp_path / "made.ini", text))
        assert made.grammars == (tmp_path / "g.gz",)
        assert made.language_models == (("LanguageModel", tmp_path / "lm.arpa"),)
        assert (made.templates, made.span_limit, made.pop_limit) == (("id", "shape"), 15, 200)
        assert made.word_penalty and made.add_pass_through
        assert made.unsupported() == []
    assert made.unsupported_by_embedded() == [], "what a job alone asks for is what the embedded decoder has"


@pytest.mark.parametrize("line", ["", "add_pass_through_rules=false"])
def test_what_a_file_does_not_ask_for_is_not_added(tmp_path: Path, line: str) -> None:
    ini = read_inifile(write(tmp_path / "cdec.ini", f"formalism=scfg\n{line}\n"))
    assert ini.decoder_only_settings() == []
    assert not [text for text in for_job(ini, tmp_path) if "WordPenalty" in text or "pass_through" in text]


def test_keys_that_mpitune_gives_itself_are_dropped(tmp_path: Path) -> None:
    text = "input=text\nweights=w\nk_best=7\nunique_k_best=true\nmr_mira_compat=1\ngoal=S\n"
    ini = read_inifile(write(tmp_path / "cdec.ini", text))
    assert ini.decoder_only_settings() == ini.ignored_by_embedded() == ["goal=S"]


def test_what_mpitune_cannot_tune(tmp_path: Path) -> None:
    text = "formalism=fst\nquiet=true\nfeature_function2=Foo\nweights3=w\nintersection_strategy2=full\ngoal=S\n"
    ini = read_inifile(write(tmp_path / "cdec.ini", text))
    assert ini.unsupported() == [
        "formalism=fst",
        "quiet=true",
        "feature_function2=Foo",
        "weights3=w",
        "intersection_strategy2=full",
    ]
    several = "grammar=a\ngrammar=b\nintersection_strategy=full\nfeature_function=Foo\nadd_pass_through_rules=no\n"
    other = read_inifile(write(tmp_path / "other.ini", several))
    assert other.unsupported() == [] and len(other.unsupported_by_embedded()) == 4, "what only our own decoder lacks"


@pytest.mark.parametrize(
    "changed",
    [
        {"grammars": [Path("/my files/g")]},
        {"grammars": [Path("/g#1")]},
        {"language_models": [("LanguageModel", Path("/my\tlm"))]},
        {"language_models": [("Language Model", Path("/lm"))]},
        {"language_models": [("", Path("/lm"))]},
    ],
)
def test_what_such_a_file_cannot_hold_is_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="expected a name without blanks and #: cdec.ini cannot hold others"):
        for_job(None, tmp_path, **changed)
