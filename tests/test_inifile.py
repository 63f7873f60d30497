"""cdec.ini."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpitune.errors import DataError
from mpitune.grammar.inifile import read_inifile


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
    assert ini.lacking() == []


def test_what_is_not_said_is_none(tmp_path: Path) -> None:
    ini = read_inifile(write(tmp_path / "cdec.ini", ""))
    assert (ini.formalism, ini.add_pass_through, ini.span_limit, ini.pop_limit) == (None, None, None, None)
    assert (ini.grammars, ini.language_models, ini.templates, ini.word_penalty) == ((), (), (), False)
    assert ini.lacking() == []


def test_what_the_embedded_decoder_lacks_is_named(tmp_path: Path) -> None:
    ini = read_inifile(
        write(
            tmp_path / "cdec.ini",
            "formalism=fst\nintersection_strategy=full\nadd_pass_through_rules=no\ngrammar=a\ngrammar=b\n"
            "feature_function=KLanguageModel a.klm\nfeature_function=KLanguageModel b.klm\n"
            "feature_function=KLanguageModel -x c.klm\nfeature_function=SpanFeatures  f 3\n",
        )
    )
    assert ini.lacking() == [
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
