"""Translation from Python: that of the command, with weights that can be exchanged, and word alignments."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import patch

import pytest
from support.commands import Cli
from support.tiny import Tiny

import mpitune


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


@pytest.fixture
def run(tiny: Tiny, tmp_path: Path) -> mpitune.Run:
    tiny.train(tmp_path / "run")
    return mpitune.Run(tmp_path / "run")


def test_translations_and_lists_are_those_of_the_command(
    tiny: Tiny, cli: Cli, run: mpitune.Run, tmp_path: Path
) -> None:
    text, config = tiny.folder / "train.de", run.folder / "config.toml"
    lists = ("--nbest", 5, "--format", "json", "--output", tmp_path / "lists")
    assert cli("decode", config, "--input", text, "--output", tmp_path / "out").code == 0
    assert cli("decode", config, "--input", text, *lists).code == 0
    decoder = run.decoder()
    assert decoder.translate(_lines(text)) == _lines(tmp_path / "out")
    found = [(i, each) for i, line in enumerate(_lines(text)) for each in decoder.nbest(line, 5)]
    expected = [json.loads(line) for line in _lines(tmp_path / "lists")]
    assert [(i, each.text) for i, each in found] == [(entry["id"], entry["text"]) for entry in expected]
    for (_, each), entry in zip(found, expected, strict=True):
        assert each.score == pytest.approx(entry["score"]) and each.features == pytest.approx(entry["features"])
        assert run.weights.score(each.features) == pytest.approx(each.score)


def test_lists_of_many_sentences(tiny: Tiny, run: mpitune.Run) -> None:
    """The decoder is opened once for all of them."""
    lines = _lines(tiny.folder / "train.de")[:3]
    with run.decoder() as decoder, patch.object(decoder, "_open", wraps=decoder._open) as opened:
        lists = mpitune.NBest(enumerate(decoder.nbest_lists(lines, 5)))
        assert opened.call_count == 1
        assert [[each.text for each in of] for _, of in lists] == [
            [each.text for each in decoder.nbest(line, 5)] for line in lines
        ]


def test_other_weights(run: mpitune.Run) -> None:
    sentence = "die frau hat das buch gelesen"
    decoder = run.decoder()
    best = decoder.nbest(sentence, 1)[0]
    decoder.weights = -run.weights
    worst = decoder.nbest(sentence, 1)[0]
    assert best.text != worst.text and run.weights.score(worst.features) < best.score
    decoder.weights = run.weights
    assert decoder.translate([sentence]) == [best.text] == mpitune.Decoder(run.config, run.folder).translate([sentence])


def test_alignments_are_those_of_the_rules(run: mpitune.Run) -> None:
    with run.decoder() as decoder:
        for hypothesis in decoder.nbest("der mann hat das haus gesehen", 20):
            source, target = ["der", "mann", "hat", "das", "haus", "gesehen"], hypothesis.text.split()
            linked = {(source[i], target[j]) for i, j in hypothesis.alignment}
            assert ("mann", "man") in linked or "man" not in target
            assert ("haus", "house") in linked or "house" not in target
            assert hypothesis.alignment == sorted(set(hypothesis.alignment))
        assert decoder.translate(["", "xyzzy"]) == ["", "xyzzy"]
        [unknown] = decoder.nbest("xyzzy", 1)
        assert unknown.alignment == [(0, 0)]


def test_derivations_and_forests(run: mpitune.Run) -> None:
    decoder, sentence = run.decoder(), "heute das buch gekauft"
    text = decoder.explain(sentence, 2)
    assert text.startswith(f"sentence 0: {sentence}\n") and "translation 2:" in text
    graph = json.loads(decoder.forest(sentence, 1).as_json(0))
    assert graph["source"] == sentence.split() and len(graph["derivations"]) == 1


def test_grammars_of_sentences(tiny: Tiny, run: mpitune.Run) -> None:
    """They are made anew for new sentences, not for those of the last call."""
    bitext = {"source": "train.de", "target": "train.en", "alignment": []}
    links = "".join(
        " ".join(f"{i}-{min(i, len(b.split()) - 1)}" for i in range(len(a.split())) if b.split()) + "\n"
        for a, b in zip(_lines(tiny.folder / "train.de"), _lines(tiny.folder / "train.en"), strict=True)
    )
    (tiny.folder / "links").write_text(links)
    job = mpitune.Job(tiny.job_file(run.folder / "other", grammar={"file": None, **bitext, "alignment": ["links"]}))
    decoder = mpitune.Decoder(job, run.weights)
    first = decoder.translate(["das haus", "der ball"])
    opened = decoder._opened
    assert decoder.translate(["der ball", "das haus", "der ball"]) == [first[1], first[0], first[1]]
    assert decoder._opened is opened
    assert decoder.translate(["das buch"]) != [""] and decoder._opened is not opened


def test_what_no_decoder_can_do(tiny: Tiny, run: mpitune.Run, tmp_path: Path) -> None:
    with pytest.raises(mpitune.UsageError, match="sentence 1: found a line end in 'a\\\\nb', expected one line"):
        run.decoder().translate(["a", "a\nb"])
    with pytest.raises(mpitune.DataError, match="^sentence 1: found the separator [|]{3}, expected a sentence alone"):
        run.decoder().translate(["a", "a ||| b", "a"])
    with pytest.raises(mpitune.DataError, match="found no such file or folder"):
        mpitune.Decoder(run.config, tmp_path / "absent")
    with pytest.raises(mpitune.UsageError, match="expected one of mpitune's own decoder"):
        mpitune.Hypothesis("a").alignment  # noqa: B018
