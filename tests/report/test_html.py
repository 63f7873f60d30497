"""The report: what it says, that it says it safely, and that it needs nothing but the run folder."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from support.run_folders import BEFORE, CONFIG, REFERENCE, SOURCE, WEIGHTS, after, make_run
from support.tiny import DEVTEST, Tiny

from mpitune.cli.parser import main
from mpitune.errors import DataError
from mpitune.grammar.binning import Bins
from mpitune.grammar.score_transforms import Scoring
from mpitune.metrics.sacrebleu import corpus_bleu, sentence_bleu, signed_bleu
from mpitune.report import plots
from mpitune.report.html import longest_matches, match_spans, select_sentences, write_report
from mpitune.report.readable import feature_in_words
from mpitune.run_folder.layout import RunFolder
from mpitune.run_folder.run_state import write_state
from mpitune.store.store import rules_firing

DRAWN: dict[str, tuple[str, bytes]] = {}


@pytest.fixture(autouse=True)
def plots_are_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most runs here have the same plots, and drawing them is most of the time of a report."""

    def render(plot: plots.Plot) -> tuple[str, bytes]:
        assert isinstance(plot.draw, partial)
        key = repr((plot.draw.func, plot.draw.keywords, plot._replace(draw=repr)))
        if key not in DRAWN:
            DRAWN[key] = plots.render(plot)
        return DRAWN[key]

    monkeypatch.setattr("mpitune.report.html.render", render)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


class Page(HTMLParser):
    """A page that is well-formed: tags balanced, ids unique, links inside it, nothing fetched from elsewhere."""

    VOID = ("meta", "link", "br", "hr", "img", "input", "!doctype")

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.html = path.read_text(encoding="utf-8")
        self.tags: list[str] = []
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.parts: list[str] = []
        self.feed(self.html)
        self.close()
        self.text = " ".join("".join(self.parts).split())
        assert self.open == []
        assert len(set(self.ids)) == len(self.ids)
        assert {link.removeprefix("#") for link in self.links} <= set(self.ids)
        assert not re.search(r"https?://|@import|<script|\bsrc=|url\((?!#)", self.html.partition("<body>")[0])
        assert not {"script", "link", "img", "iframe", "object", "image"} & set(self.tags)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            assert name != "src" and not name.startswith("on")
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "xlink:href"):
                assert value is not None and value.startswith("#")
                self.links.append(value)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.parts.append(data)

    def plot(self, name: str) -> list[str]:
        """The texts of a plot."""
        svg = self.html[self.html.index(f'id="{name}-figure_1"') :].partition("</svg>")[0]
        return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def report(folder: RunFolder) -> Page:
    path = write_report([folder.path])
    assert path == folder.path / "report.html"
    return Page(path)


def test_a_report_has_all_of_a_finished_run(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "myrun")
    page = report(folder)
    references = [[line] for line in REFERENCE]
    before, best = corpus_bleu(BEFORE, references), corpus_bleu(after(3), references)
    assert "myrun" in page.text and "finished, 3 epochs" in page.text
    lead = (
        f"went from {before:.2f} before training to {best:.2f} (+{best - before:.2f}) with the weights of epoch 2 of 3"
    )
    assert f"{lead}, the best on devtest" in page.text
    assert "0.310 → 0.330" in page.text and "1,000 × 3" in page.text and "7.5 s" in page.text
    assert f"{best:.2f}" in page.plot("bleu") and f"before {before:.2f}" in page.plot("bleu")
    assert signed_bleu(BEFORE, references)[1] in page.text
    assert "17 have a higher sentence-level BLEU than before training, 1 a lower one, 12 the same" in page.text
    assert CONFIG.format(algorithm="itersel", epochs=3).strip() in page.html.replace("&#34;", '"')
    assert "Warnings" not in page.text


def test_a_report_of_several_runs_has_all_curves(tmp_path: Path) -> None:
    """The report is the first one's, and has all curves; runs of the same name are told apart by their paths."""
    folders = [make_run(tmp_path / place / "run", devtest=place != "b") for place in ("a", "b", "c")]
    path = write_report([folder.path for folder in folders])
    assert path == folders[0].path / "report.html" and not (folders[1].path / "report.html").exists()
    page = Page(path)
    for folder in folders:
        assert page.text.count(str(folder.path)) > 5
    assert "Runs The plots show all runs" in page.text
    gold = page.html[page.html.index('id="gold-figure_1"') :].partition("</svg>")[0]
    assert [colour for colour in range(6) if f"var(--series-{colour})" in gold] == [0, 1, 2]
    bleu = page.html[page.html.index('id="bleu-figure_1"') :].partition("</svg>")[0]
    assert [colour for colour in range(6) if f"var(--series-{colour})" in bleu] == [0, 2]


def test_the_table_of_runs_names_its_cells_where_there_is_no_room_for_a_head(tmp_path: Path) -> None:
    page = Page(write_report([make_run(tmp_path / name).path for name in ("one", "two")]))
    table = page.html.partition('<table class="runs">')[2].partition("</table>")[0]
    heads = re.findall(r'<th scope="col"[^>]*>(.*?)</th>', table)
    assert heads[0] == "run" and re.findall(r'<td[^>]* data-label="(.*?)"', table) == 2 * heads[1:]
    assert "nowrap" not in re.search(r"\.runs th.*", page.html)[0]  # type: ignore[index]


def test_a_rank_alone_has_no_chart_of_waiting(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    epochs = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    names = ("busy_seconds", "wait_seconds", "timeline")
    folder.write_metrics([epoch | {name: epoch[name][:1] for name in names} for epoch in epochs])
    page = report(folder)
    assert "Throughput" in page.text and "busy" not in page.text and 'id="timeline-figure_1"' not in page.html


def test_translations_are_folded_away(tmp_path: Path) -> None:
    html = report(make_run(tmp_path / "run")).html
    kinds = re.findall(r'<details class="kind">\s*<summary>(.*?) <small>', html)
    assert kinds == ["Largest gains", "Largest losses", "Nearest the median change"]
    assert html.index('<details class="kind">') < html.index('<dl class="sentence card">')


def test_selected_features_without_a_weight_are_explained(tmp_path: Path) -> None:
    """The cut is at 2,000 features, the result has 6."""
    folder = make_run(tmp_path / "run")
    assert (
        "Features6in the result; 1,994 more were selected, with weights that cancel out over shards"
        in report(folder).text
    )
    epochs = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    folder.write_metrics([epoch | {"cancelled_features": 0} for epoch in epochs])
    assert "Features6in the result Training" in report(folder).text
    for epoch in epochs:
        del epoch["cancelled_features"]  # a run of an earlier version
    folder.write_metrics(epochs)
    assert "Features6in the result Training" in report(folder).text


def test_names_of_runs_may_have_any_characters(tmp_path: Path) -> None:
    """A pair of $ would be mathematics to matplotlib; a name that is not UTF-8 cannot stand in the page."""
    names = ["cost$5$", "a$b_{$x", os.fsdecode(b"caf\xe9")]
    page = Page(write_report([make_run(tmp_path / name).path for name in names]))
    assert all(name in page.text for name in (*names[:2], r"caf\udce9"))
    same = [make_run(tmp_path / os.fsdecode(place) / "run").path for place in (b"\xe9", b"\xe8")]
    assert rf"{tmp_path}/\udce9/run" in Page(write_report(same)).text


@pytest.mark.slow
def test_a_report_of_seeds_has_means_with_bands(tmp_path: Path) -> None:
    """Of epochs that all runs have; beside a single run, which has no band."""
    job = tmp_path / "job"
    runs = [make_run(job / f"seed-{seed}", epochs) for seed, epochs in ((1, 3), (2, 4), (10, 3))]
    for run, gold in zip(runs, (0.30, 0.32, 0.40), strict=True):
        edit(run.metrics, '"gold": 0.32', f'"gold": {gold}')
    (job / "seed-11").mkdir()  # in its first epoch
    path = write_report([job])
    page = Page(path)
    assert path == job / "report.html" and (job / "plots" / "gold.png").exists()
    assert "Curves of several seeds are means, with a band of one standard deviation" in page.text
    assert "mean of job ± sd" in page.text and "0.3400 ± 0.0529" in page.text
    assert page.text.index("seed-2") < page.text.index("seed-10")
    gold = page.html[page.html.index('id="gold-figure_1"') :].partition("</svg>")[0]
    assert gold.count('id="gold-FillBetween') == 1 and "var(--series-1)" not in gold
    both = Page(write_report([job, make_run(tmp_path / "other").path]))
    gold = both.html[both.html.index('id="gold-figure_1"') :].partition("</svg>")[0]
    assert gold.count('id="gold-FillBetween') == 1 and "var(--series-1)" in gold
    assert both.text.count("± sd") == 1


def test_column_norms_and_ranks(tmp_path: Path) -> None:
    page = report(make_run(tmp_path / "run"))
    assert "after epoch 2; dotted: the cut, at 2,000 features and λ = 0.001" in page.text
    assert "by column norm normfeature 0.75000 w X → w X wShape_S11000_T11100" in page.text
    # 3 of 5 seconds in each epoch.
    assert "Ranks were busy for 60.0 % of the time" in page.text
    assert page.plot("timeline")[-2:] == ["0", "1"] and "seconds" in page.plot("timeline")


def test_response_curves_of_features_in_bins(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    bins = Bins("Co<nt", np.array([1.0, 2.0]), np.array([1.5, 4.0]), np.array([7, 8]))
    folder.write_scoring(Scoring(bins=(bins,)).as_json())
    folder.write_weights(folder.result, [*WEIGHTS.items(), ("Co<nt_1", -1.0), ("Co<nt_2", 0.5)])
    page = report(folder)
    assert "Features in bins Contribution of a score to the model score" in page.text
    assert "Co<nt 2 bins, 15 rules" in page.text and "value" in page.plot("response-0")
    assert (
        "Co<nt, by bin bars: number of rules in each bin, 7 to 8" in page.text
        and "bin, smallest values first" in page.plot("bins-0")
    )


def test_examples_are_beside_features_that_are_no_rules(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    asked: list[str] = []

    def examples(run: Path, names: Sequence[str]) -> dict[str, list[str]]:
        asked.extend(names)
        return {"RBS:<r>_das": ["das <b> → the <b>"]}

    text = Page(write_report([folder.path], examples)).text
    assert asked == ["RBS:<r>_das", "Shape_S11000_T11100"]
    assert "<r> dasRBS:<r>_das das <b> → the <b>" in text.replace("RBS:<r>_dasdas", "RBS:<r>_das das")


def test_pictures_are_written_beside_the_page(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    report(folder)
    pictures = sorted((folder.path / "plots").iterdir())
    names = ["bleu", "choices", "features", "gold", "lambda", "norms", "picked"]
    names += ["throughput", "timeline", "weight-norm"]
    assert [picture.name for picture in pictures] == [f"{name}.png" for name in names]
    assert all(picture.read_bytes().startswith(b"\x89PNG") for picture in pictures)


def test_pictures_of_an_earlier_report_are_removed(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    report(folder)
    (folder.path / "plots" / "own.png").touch()
    epochs = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    folder.write_metrics([epoch | {"devtest_bleu": None} for epoch in epochs])
    report(folder)
    left = {picture.stem for picture in (folder.path / "plots").iterdir()}
    assert "bleu" not in left and {"gold", "own"} < left


def test_a_dense_start_that_is_the_result(tmp_path: Path) -> None:
    """The table of runs has its score, and the mean of seeds."""
    job = tmp_path / "job"
    for seed in (1, 2):
        folder = make_run(job / f"seed-{seed}")
        epochs = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
        folder.write_metrics([epochs[0] | {"devtest_bleu_dense": 98.0 + seed}, *epochs[1:]])
    page = Page(write_report([job]))
    assert "dense start 99.00 – 6 7.5 s" in page.text and "dense start 100.00 – 6 7.5 s" in page.text
    assert "mean of job ± sd 99.50 ± 0.71 – " in page.text


def test_without_bleu_the_dense_start_is_the_one_result(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", devtest=False)
    epochs = [json.loads(line) | {"devtest_metric": -0.5} for line in folder.metrics.read_text().splitlines()]
    folder.write_metrics(epochs)
    assert "The result has the weights of epoch 1 of 3" in report(folder).text
    folder.write_metrics([epochs[0] | {"devtest_metric_dense": -0.4}, *epochs[1:]])
    text = report(folder).text
    assert "The best epoch is 1 of 3" in text and "The result has the weights of" not in text
    assert "have -0.4000, more than any epoch: they are the result" in text


def test_batch_methods_have_a_report(tmp_path: Path) -> None:
    """They select no columns; without references there is no BLEU."""
    folder = make_run(tmp_path / "run")
    known = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    without = ("column_norms", "best_bleu")
    folder.write_metrics([{key: value for key, value in epoch.items() if key not in without} for epoch in known])
    page = report(folder)
    assert "Sorted column norms" not in page.text and "BLEU while training" not in page.text


@pytest.mark.parametrize("tables", [DEVTEST, {}])
def test_what_a_real_run_leaves(tiny: Tiny, tmp_path: Path, tables: dict[str, Any]) -> None:
    run = tmp_path / "run"
    tiny.train(run, **tables)
    shutil.rmtree(run / "checkpoints")
    page = report(RunFolder(run))
    assert "finished" in page.text and "Largest gains" in page.text
    assert ("Devtest BLEU went from" in page.text) == bool(tables)
    assert "by column norm" in page.text and "The run was made with mpitune " in page.text


def test_examples_come_from_the_store(tiny: Tiny, tmp_path: Path) -> None:
    run = tmp_path / "run"
    job = tiny.train(run, learner={"epochs": 1})
    names = ["Shape_S01110_T01110", "RBS:das_haus", "R:X:haus:home", "RBS:never_there", "LanguageModel"]
    found = rules_firing(job.run.store, job.features.templates, names, 2)
    assert {name: list(map(str, rules)) for name, rules in found.items()} == {
        "Shape_S01110_T01110": [
            "[X] ||| [X,1] hat [X,2] ||| [X,1] has [X,2]",
            "[X] ||| [X,1] hat [X,2] ||| [X,2] has [X,1]",
        ],
        "RBS:das_haus": ["[X] ||| das haus ||| "],
        "R:X:haus:home": ["[X] ||| haus ||| home"],
    }
    assert main(["report", str(run)]) == 0
    assert "X₁ hat X₂ → X₁ has X₂" in Page(run / "report.html").text


def test_everything_written_by_others_is_escaped(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "<i>&amp;'\"")
    evil = "<script>alert(1)</script><img src=x onerror=y> &lt; ' \" </pre></li>"
    edit(folder.path / "config.toml", '"somewhere"', f"'''{evil}'''")
    (folder.path / "log.txt").write_text(f"2026-01-02 03:04:05 [1/2] WARNING {evil}\n")
    folder.write_translations(0, [evil] * 30)
    folder.write_weights(folder.result, [(name.replace(" ", "_"), 1.0) for name in (*WEIGHTS, f"RBS:{evil}")])
    page = report(folder)  # which looks for stray tags
    assert f"dir = '''{evil}'''" in page.text and "<i>&amp;'\"" in page.text
    assert page.text.count(evil) > 10
    assert "R:X:<b>&amp:\"x'y</td>" in page.text


@pytest.mark.slow
def test_the_same_folder_gives_the_same_bytes(tmp_path: Path) -> None:
    """Whatever the user has set for plots, and where matplotlib can keep nothing: then without a word, too."""
    folder = make_run(tmp_path / "run")

    def written() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in [folder.path / "report.html", *folder.path.glob("plots/*")]}

    write_report([folder.path])
    first = written()
    assert len(first) > 5
    write_report([folder.path])
    assert written() == first
    shutil.rmtree(folder.path / "plots")
    (folder.path / "report.html").unlink()
    (tmp_path / "matplotlibrc").write_text("axes.linewidth: 30\ngrid.linestyle: --\nsvg.fonttype: path\n")
    (tmp_path / "home").write_text("not a folder")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MPL", "XDG"))}
    code = "from pathlib import Path; from mpitune.report.html import write_report; write_report([Path('run')])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment | {"HOME": str(tmp_path / "home"), "PYTHONHASHSEED": "77"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("", "")
    assert written() == first


def test_one_epoch_has_ticks_at_whole_epochs(tmp_path: Path) -> None:
    page = report(make_run(tmp_path / "run", epochs=1))
    assert "finished, 1 epoch" in page.text and "epoch 1 of 1" in page.text
    for name, first in {"bleu": 0, "gold": 1, "features": 1, "throughput": 1}.items():
        texts = page.plot(name)
        assert texts[: texts.index("epoch")] == [str(epoch) for epoch in range(first, 6)]


@pytest.mark.slow
def test_the_end_of_an_unfinished_run_is_told(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", epochs=2, planned=9)
    log = folder.path / "log.txt"
    log.write_text("2026-01-02 03:04:05 [0/2] INFO epoch 2: fine\n")
    assert "2 of 9 epochs done: it is still running, or was killed" in report(folder).text
    write_state(folder, "stopped", 9, 2, "stopped by SIGTERM in epoch 3")
    assert "ended after epoch 2 of 9: stopped by SIGTERM in epoch 3" in report(folder).text
    write_state(folder, "running", 9)
    assert "still running, or was killed" in report(folder).text
    folder.write_metrics([])
    with pytest.raises(DataError, match="found no finished epoch, expected at least one"):
        write_report([folder.path])
    (folder.path / "metrics.jsonl").unlink()
    with pytest.raises(DataError, match="found no finished epoch, expected at least one"):
        write_report([folder.path])


def test_without_devtest_the_last_epoch_and_training_sentences_are_shown(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", devtest=False)
    page = report(folder)
    assert "weights of epoch 3 of 3, the last: there is no devtest set to choose on" in page.text
    assert "Devtest BLEU" not in page.text and 'id="bleu-figure_1"' not in page.html
    references = [[line] for line in REFERENCE]
    before, last = corpus_bleu(BEFORE, references), corpus_bleu(after(1), references)
    assert f"its first 30 training sentences, which the weights were learned from (BLEU {before:.2f} → {last:.2f})" in (
        page.text
    )


@pytest.mark.parametrize("name", ["source.txt.gz", "reference-0.txt.gz", "epoch-0000.txt.gz", "epoch-0002.txt.gz"])
def test_without_translations_the_curves_are_shown(tmp_path: Path, name: str) -> None:
    folder = make_run(tmp_path / "run")
    (folder.translations / name).unlink()
    page = report(folder)
    assert f"No translations to show: the run folder holds no translations/{name}" in page.text
    best = corpus_bleu(after(3), [[line] for line in REFERENCE])
    assert f"Devtest BLEU is {best:.2f} with the weights of epoch 2 of 3" in page.text
    assert page.plot("bleu")[:3] == ["1", "2", "3"]


def test_several_references_are_scored_and_shown(tmp_path: Path) -> None:
    """Empty lines stand for references that a sentence lacks."""
    folder = make_run(tmp_path / "run")
    references = [[line, *([f"zweite {i}"] if i % 2 else [])] for i, line in enumerate(REFERENCE)]
    folder.write_watched(SOURCE, references)
    page = report(folder)
    expected, signature = signed_bleu(BEFORE, references)
    assert f"before {expected:.2f}" in page.plot("bleu")
    assert signature in page.text and "nrefs:var" in signature
    assert "zweite 1" in page.text


def test_warnings_are_shown(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    lines = [f"2026-01-02 03:04:{i:02} [{i % 2}/2] WARNING number {i}.\n" for i in range(60)]
    # A killed rank has left half a character.
    (folder.path / "log.txt").write_bytes("".join(lines).encode() + b"2026-01-02 03:06:00 [0/2] INFO \xc3")
    text = report(folder).text
    assert "Warnings (60)" in text and "the last 50 of 60" in text
    assert "number 59." in text and "number 10." in text and "number 9." not in text


def test_features_are_shown_by_template(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    many = {f"RBT:a_w{i}": (-1) ** i * (i + 1) / 100 for i in range(40)}
    folder.write_weights(folder.result, list((WEIGHTS | many).items()))
    text = report(folder).text
    assert "the 15 of largest absolute weight, of 40" in text
    rows = re.findall(r"(−?[\d.]+) ?a w(\d+)", text)
    assert rows == [(f"{'−' * (i % 2)}{(i + 1) / 100:.5f}", str(i)) for i in range(39, 24, -1)]
    assert "das X₁ → the X₁" in text and "<r> das" in text and "w X → w X w" in text
    assert text.index("−0.5000 Glue") < text.index("1.2500 LanguageModel")


@pytest.mark.parametrize(
    ("template", "name", "expected"),
    [
        ("id", "R:X:a_NX_b_NX:N2_c_N1", "a X₁ b X₂ → X₂ c X₁"),
        ("id", "R:S:NS_NX:N1_N2", "S₁ X₂ → S₁ X₂"),
        ("id", "R:X:NATO:NATO", "NATO → NATO"),
        ("id", "R:X:::", None),
        ("id", "R:X::::", ": → :"),
        ("id", "R:X:a_:_b:c", "a : b → c"),
        ("id", "R:X:a:b:c", None),
        ("id", "R:X:NX_::N1_b", "X₁ : → X₁ b"),
        ("id", "R:X:NX_a:N1_:_b", "X₁ a → X₁ : b"),
        ("id", "R:X:NNP_a:N1_b", None),
        ("id", "R:X:a__:b", None),
        ("source-bigram", "RBS:<r>_X", "<r> X"),
        ("target-bigram", "RBT:X1_X2", "X₁ X₂"),
        ("target-bigram", "RBT:a__", None),
        ("shape", "Shape_S11110_T01011", "w X w X → X X w"),
        ("shape", "Shape_of_another", None),
        ("word-pair", "WP:letzter_last", "letzter → last"),
        ("word-pair-all", "WPA:letzter_last", "letzter → last"),
        ("lexicon-pair", "LP:letzter_last", "letzter → last"),
        ("insertion", "INS:a_b_c", None),
        ("target-words", "TB:'s_last", "'s last"),
        ("reordering", "RO:last_-1", "last: distance -1"),
        ("reordering", "RO:_2", None),
        ("fertility", "FERT:new_york_2", "new_york: 2 words"),
        ("fertility", "FERT:letzter", None),
        ("dense", "LanguageModel", None),
    ],
)
def test_readable_names(template: str, name: str, expected: str | None) -> None:
    assert feature_in_words(template, name) == expected


@pytest.mark.parametrize("algorithm", ["sgd", "mix"])
def test_averages_have_their_best_epoch_too(tmp_path: Path, algorithm: str) -> None:
    page = report(make_run(tmp_path / "run", algorithm=algorithm))
    expected = f"the best on devtest ({algorithm}: each epoch's are the average so far)"
    assert f"with the weights of epoch 2 of 3, {expected}" in page.text
    assert re.search(r'<tr class="chosen">\s*<th scope="row">2</th>', page.html)
    assert "The dotted line marks epoch 2, whose weights are the result" in page.text


@pytest.mark.slow
def test_a_run_that_ended_early(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", planned=9)
    assert "3 of 9 epochs done: it is still running, or was killed" in report(folder).text
    write_state(folder, "done", 9, 3, "no better devtest score in 1 epoch")
    text = report(folder).text
    assert "finished early, after epoch 3 of 9: no better devtest score in 1 epoch " in text
    assert "with the weights of epoch 2 of 3, the best on devtest" in text
    folder.status.unlink()
    with pytest.raises(DataError, match=r"status\.json: found no file, expected the state of the run"):
        report(folder)


def test_norms_and_warnings_are_shown_by_epoch(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    known = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    more = {"weight_norm": 0.125, "devtest_length_ratio": 0.987, "warnings": []}
    last = {**known[2], **more, "warnings": ["a <b>", "c"]}
    folder.write_metrics([*({**epoch, **more} for epoch in known[:2]), last])
    lines = ["epoch 2: a <b>", "epoch 3: a <b>", "something else"]
    log = "".join(f"2026-01-02 03:04:05 [0/2] WARNING {line}\n" for line in lines)
    (folder.path / "log.txt").write_text(log)
    page = report(folder)
    assert "Norm of w ‖w‖ of the weights published after each epoch" in page.text and page.plot("weight-norm")[0] == "1"
    rows = [" ".join(re.sub("<[^>]*>", " ", row).split()) for row in re.findall(r"<tr.*?</tr>", page.html, re.DOTALL)]
    [second, third] = [row.split() for row in rows if re.match("[23] .* 1.000 0.987 0.125 ", row)]
    assert (second[-1], third[-1]) == ("–", "2")
    told = page.text.partition("Warnings By epoch. ")[2]
    assert re.match(
        "epoch 3a <b> epoch 3c From the run's log. .{19}epoch 2: a <b> .{19}something else Configuration", told
    )
    assert "Warnings (4)" in page.text


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"epoch": 2,', '"epoch": 3,', "metrics.jsonl:2: found epoch 3, expected epoch 2"),
        ('{"epoch": 2,', '"epoch": 2,', 'metrics.jsonl:2: found \'"epoch": 2, "gold".*expected a JSON object'),
        ('{"epoch": 2', "[1]", "metrics.jsonl:2: found .*expected a JSON object"),
        ('"gold": 0.32', '"gold": NaN', "metrics.jsonl:2: found gold NaN, expected a number as gold"),
        ('"gold": 0.32', '"gold": "high"', 'metrics.jsonl:2: found gold "high", expected a number as gold'),
        ('"gold": 0.32', '"silver": 1', "metrics.jsonl:2: found no gold, expected a number as gold"),
        ('"epoch": 1,', '"epoch": true,', "metrics.jsonl:1: found epoch true, expected a number as epoch"),
        ("[0.5, 1]", "[0.5]", "metrics.jsonl:1: found column_norms .*expected column_norms as a run writes it"),
        ('"99999', '"9x999', "metrics.jsonl:1: found timeline .*expected timeline as a run writes it"),
    ],
)
def test_bad_metrics_are_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    folder = make_run(tmp_path / "run")
    edit(folder.path / "metrics.jsonl", old, new)
    with pytest.raises(DataError, match=message):
        write_report([folder.path])
    assert not (folder.path / "report.html").exists()


def test_other_damage_is_told(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    with pytest.raises(DataError, match=r"found no config.toml, expected a run folder"):
        write_report([tmp_path])
    with pytest.raises(DataError, match=r"found no config.toml, expected a run folder"):
        write_report([folder.path / "config.toml"])
    folder.write_translations(2, after(3)[1:])
    with pytest.raises(DataError, match=r"epoch-0002.txt.gz: found 29 lines, expected 30, as in .*source.txt.gz"):
        write_report([folder.path])
    for name in ("source", "reference-0", "epoch-0000", "epoch-0002"):
        (folder.translations / f"{name}.txt.gz").write_bytes(b"")
    with pytest.raises(DataError, match=r"source.txt.gz: found 0 lines, expected one for each watched sentence"):
        write_report([folder.path])
    edit(folder.path / "config.toml", "method =", "methods =")
    with pytest.raises(DataError, match=r"config.toml: found no learner.method, expected the configuration"):
        write_report([folder.path])
    edit(folder.path / "config.toml", "methods =", "methods = =")
    with pytest.raises(DataError, match=r"config.toml: found no TOML .*, expected the configuration of a run"):
        write_report([folder.path])
    edit(folder.path / "config.toml", "methods = =", "method =")
    folder.result.unlink()
    with pytest.raises(DataError, match=r"found no weights.txt.gz"):
        write_report([folder.path])


def naive_matches(words: Sequence[str], references: Sequence[Sequence[str]]) -> list[int]:
    """For each word, the longest n-gram around it that a reference still has, looking at every one that there is."""

    def ngrams(text: Sequence[str], n: int) -> list[str]:
        return [" ".join(text[i : i + n]) for i in range(len(text) - n + 1)]

    found = []
    for place in range(len(words)):
        longest = 0
        for n in (1, 2, 3, 4):
            for start in range(place - n + 1, place + 1):
                if start >= 0 and start + n <= len(words):
                    ngram = " ".join(words[start : start + n])
                    earlier = ngrams(words, n)[:start].count(ngram)
                    if earlier < max(ngrams(reference, n).count(ngram) for reference in references):
                        longest = n
        found.append(longest)
    return found


def test_matched_ngrams() -> None:
    draw = random.Random(1)
    for _ in range(300):
        words, *references = ([draw.choice("abc") for _ in range(draw.randrange(9))] for _ in range(3))
        assert longest_matches(words, references) == naive_matches(words, references)
        shown = match_spans(words, references)
        assert " ".join(run.text for run in shown) == " ".join(words)
        assert all(one.match != other.match for one, other in zip(shown, shown[1:], strict=False))
    assert longest_matches(list("aabc"), [list("abcd")]) == [1, 3, 3, 3]


def test_matches_are_marked(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    html = report(folder).html
    assert '<mark class="m1">the</mark> haus <mark class="m4">&amp; &lt;b&gt;the&lt;/b&gt; dog' in html


def test_sentences_shown_are_gains_losses_and_typical_ones() -> None:
    draw = random.Random(2)
    for _ in range(100):
        changes = [float(draw.randrange(-9, 20)) for _ in range(draw.randrange(1, 60))]
        kinds = select_sentences(changes)
        gains, losses, typical = (kinds[kind] for kind in ("gains", "losses", "typical"))
        assert [changes[i] for i in gains] == sorted((c for c in changes if c > 0), reverse=True)[:12]
        assert [changes[i] for i in losses] == sorted(c for c in changes if c < 0)[:4]
        assert len({*gains, *losses, *typical}) == len(gains) + len(losses) + len(typical) <= len(changes)
        assert len(typical) == min(4, len(changes) - len(gains) - len(losses))
    assert select_sentences([0.0, 0.0])["typical"] == [0, 1]


def test_sentence_scores_are_sacrebleus() -> None:
    references = [["a b c d e", "a b"], ["x"], ["a b c d"]]
    scores = sentence_bleu(["a b c d e", "x", "q"], references)
    assert scores[:2] == pytest.approx([100, 100]) and scores[2] == 0.0
    expected = BLEU(tokenize="none", effective_order=True).sentence_score("a b x", ["a b c d"]).score
    assert sentence_bleu(["a b x"], [["a b c d"]]) == [expected]


def svg(draw: Callable[..., None], *given: Any, **named: Any) -> str:
    return plots.render(plots.Plot("a", "A", "", lambda axes: draw(axes, *given, **named)))[0]


def texts(draw: Callable[..., None], *given: Any, **named: Any) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg(draw, *given, **named))


def test_plots_have_room_for_noise_and_large_numbers() -> None:
    found = texts(plots.lines, [plots.Series([1, 2], [30.0, 30.001])])
    assert found[5] == "epoch" and float(found[-1]) - float(found[6]) >= 1.0
    large = texts(plots.lines, [plots.Series([1, 2], [0.0, 2e6])], scale="zero")
    assert large[6] == "0" and large[-1] == "2M" and "500,000" in large
    assert "nan" not in svg(plots.lines, [plots.Series([1], [0.0])], scale="zero")
    assert "nan" not in svg(plots.lines, [plots.Series([1], [0.0])])


def test_text_in_plots_has_the_same_size_in_every_card() -> None:
    """A point is a pixel: only a card that is narrower than the plot scales it."""
    for image in (
        svg(plots.lines, [plots.Series([1, 2], [3.0, 4.0])]),
        svg(plots.timeline, [0.0, 1.0], [[1.0], [1.0]], ["0", "1"]),
    ):
        box = re.search(r'<svg [^>]*viewBox="0 0 (\S+) (\S+)" width="(\S+)" height="(\S+)">', image)
        assert box is not None and box.groups()[:2] == box.groups()[2:]
        # Of a phone of 400 pixels, the margins of page and card leave 342.
        assert float(box[1]) < 342


def test_colours_are_those_of_the_page() -> None:
    """In light and in dark mode."""
    image = svg(plots.lines, [plots.Series([1, 2], [3.0, 4.0], 7, "dashed", [0.1, 0.2])], [plots.Mark(1)])
    assert not re.search("#[0-9a-f]{6}", image)
    found = set(re.findall(r"var\(--([a-z0-9-]+)\)", image))
    assert found == {"muted", "rule", "card", "series-1"}


def test_two_epochs_do_not_fill_the_plot() -> None:
    found = texts(plots.lines, [plots.Series([1, 2], [3.0, 4.0])])
    assert found[:6] == ["1", "2", "3", "4", "5", "epoch"]
    found = texts(plots.lines, [plots.Series(range(1, 8), [float(n) for n in range(7)])])
    assert "7" in found and "8" not in found


@pytest.mark.parametrize("values", [[0.001], [0.0011, 0.0012], [1e-9, 1e5], [0.3, 0.9]])
def test_logarithmic_plots_tell_where_they_are(values: list[float]) -> None:
    curve = plots.Series(range(1, len(values) + 1), values)
    for found, label in (
        (texts(plots.lines, [curve], scale="log"), "epoch"),
        (texts(plots.steps, [curve], [], "features"), "features"),
    ):
        numbers = [float(text.replace(",", "")) for text in found[found.index(label) + 1 :]]
        assert len(numbers) > 1, numbers


def test_bands_tell_the_time_and_who() -> None:
    found = texts(plots.timeline, [0.0, 100.0, 7200.0], [[1.0, 0.5], [0.0, 1.0]], ["0", "1"])
    assert found[-2:] == ["0", "1"] and "hours" in found and "2.0" in found


def test_initial_weights_that_no_epoch_is_better_than_are_told(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    folder.write_translations(0, REFERENCE)
    reason = "the best on devtest but for the initial weights"
    assert f"with the weights of epoch 2 of 3, {reason}" in report(folder).text
    epochs = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    folder.write_metrics([epoch | {"devtest_bleu": 0.0} for epoch in epochs])
    assert f"with the weights of epoch 1 of 3, {reason}" in report(folder).text
