"""dtrain of 2012, as in cdec (redpony/cdec, training/dtrain): the trainer of SRD12."""

from __future__ import annotations

from mpitune.config.dtrain.common import (
    ALWAYS,
    becomes,
    decoder,
    elsewhere,
    initial_weights,
    input_file,
    l1,
    lacks,
    limit,
    needless,
    order_of_ngrams,
    output,
    result,
)
from mpitune.config.dtrain.draft import Draft
from mpitune.config.dtrain.options import DtrainOptions, file, one_of, presence, real, text, whole

SCORERS = {
    "stupid_bleu": ("bleu+1", ""),
    "fixed_stupid_bleu": ("nakov", ""),
    "bleu": ("papineni", "For references of fewer than 4 words dtrain leaves out the orders that they do not have."),
    "smooth_bleu": ("liang", ""),
    "sum_bleu": ("sum", ""),
    "sumexp_bleu": ("sum", "The nearest: dtrain sums exp(p_n), mpitune p_n, with the same weights."),
    "sumwhatever_bleu": ("sum", "The nearest: dtrain sums the 4th roots of p_n, mpitune p_n, with the same weights."),
    "approx_bleu": ("chiang", "dtrain takes the brevity penalty from the sentence, mpitune from its context as well."),
    "lc_bleu": ("liang", "lc_bleu, linear corpus BLEU, has no counterpart: this is mpitune's default."),
}
"""Scorers: the gold score whose formula it is, and where that differs."""


def _data(draft: Draft, name: str) -> None:
    """bitext, or else input and refs."""
    if draft.given("bitext"):
        for other in ("input", "refs"):
            if draft.given(other):
                raise draft.wrong(other, "it or bitext, not both")
        input_file(draft, "data.bitext", "bitext")
    elif draft.given("input") != draft.given("refs"):
        raise draft.wrong("input" if draft.given("input") else "refs", "input and refs together")
    elif draft.given("input"):
        input_file(draft, "data.source", "input")
        input_file(draft, "data.references", "refs")


def _decoder(draft: Draft, name: str) -> None:
    ini = decoder(draft, name)
    weights = [value for key, value in ini.unknown if key == "weights"] if ini else []
    if weights and not draft.given("input_weights"):
        # dtrain starts from whatever weights its decoder has.
        draft.key("learner.initial_weights", draft.absolute(weights[0]), because=f"{draft[name]}: weights={weights[0]}")


def _kbest(draft: Draft, name: str) -> None:
    draft.key("decoder.unique", draft[name] == "uniq", name)


def _result(draft: Draft, name: str) -> None:
    result(draft, "epochs", name, mean=draft[name] == "avg")
    if draft[name] == "best":
        note = (
            "best: the epoch of highest gold in the run's metrics.jsonl; its weights are weights/epoch-N.txt.gz there."
        )
        draft.remark("learner", f"{note} (mpitune itself chooses on [data.devtest], where there is one)")
    elif draft[name] == "VOID":
        draft.remark("learner", "VOID: dtrain throws the weights away, mpitune keeps them.")


def _learning_rate(draft: Draft, name: str) -> None:
    """learning_rate, scale_bleu_diff and pclr."""
    draft.key(
        "learner.order", "sentence", because="dtrain judges all pairs of a list with the weights it was decoded with"
    )
    if draft["scale_bleu_diff"]:
        draft.key("learner.scale_by_gold", True, "scale_bleu_diff")
        draft.key("learner.learning_rate", 1.0, because="dtrain: scale_bleu_diff takes the place of the learning rate")
        if draft.given(name):
            draft.needless(name, "of no effect beside scale_bleu_diff")
    else:
        draft.key("learner.learning_rate", draft[name], name)
    if draft["pclr"] == "simple":
        draft.lacks("pclr", 'a rate of 1 / (updates so far) for each feature; rate = "adagrad" is the nearest')
    else:
        rate = {"no": "constant", "adagrad": "adagrad"}[draft["pclr"]]
        note = "dtrain multiplies by the sum of squares where AdaGrad divides by its root, and keeps it over epochs."
        draft.key("learner.rate", rate, "pclr", note=note if rate == "adagrad" else "")


def _margin(draft: Draft, name: str) -> None:
    if draft[name] > 9998:
        draft.key("learner.margin", ALWAYS, name, note="All pairs are updates, as dtrain has it above 9998.")
    elif draft["pair_sampling"] == "PRO" and not draft[name] and not draft["gamma"]:
        because = "dtrain: with PRO, and no margin or gamma, it never looks whether a pair is ordered rightly"
        draft.key("learner.margin", ALWAYS, because=because)
        if draft.given(name):
            draft.needless(name, "see learner.margin")
    else:
        draft.key("learner.margin", draft[name], name)


def _gamma(draft: Draft, name: str) -> None:
    if draft["pclr"] != "no" and draft[name]:
        draft.needless(name, "of no effect beside pclr")
    else:
        note = "dtrain shrinks the weights after each pair of a list, mpitune by the sum of that."
        draft.key("learner.l2", draft[name], name, note=note if draft[name] else "")


def _pairs(draft: Draft, name: str) -> None:
    """pair_sampling, hi_lo and pair_threshold."""
    if draft[name] == "XYX":
        draft.remark("learner", "dtrain lost the pairs of middle and bottom to an index slip; mpitune has them.")
        draft.key("learner.pairs", "multipartite", name)
        draft.key("learner.share", draft["hi_lo"], "hi_lo")
        draft.key("learner.extend_ties", True, because="dtrain of 2012 always does")
    elif draft.given("hi_lo"):
        draft.needless("hi_lo", "of no effect without pair_sampling=XYX")
    if draft[name] == "all":
        draft.key("learner.pairs", "all", name)
    if draft[name] == "PRO":
        note = "dtrain looks at the first 5000 pairs in the order of gold scores, mpitune draws 5000; both keep 50."
        draft.key("learner.pairs", "pro", name, note=note)
        if draft["pair_threshold"] == 0.05:
            draft.needless("pair_threshold", "so it always is for pro")
        else:
            draft.lacks("pair_threshold", "for pro it is always 0.05")
    else:
        lacks("mpitune compares all whose gold scores differ")(draft, "pair_threshold")


def _gold(draft: Draft, name: str) -> None:
    gold, note = SCORERS[draft[name]]
    draft.key("learner.gold", gold, name, note=note)
    if draft[name] == "approx_bleu":
        lacks("mpitune's chiang keeps 0.9")(draft, "approx_bleu_d")
    elif draft.given("approx_bleu_d"):
        draft.needless("approx_bleu_d", "of no effect without scorer=approx_bleu")


def _l1(draft: Draft, name: str) -> None:
    """l1_reg and l1_reg_strength."""
    strength = "l1_reg_strength"
    if draft[name] == "none":
        draft.key("learner.l1", 0.0, name)
        if draft.given(strength):
            draft.needless(strength, "of no effect without l1_reg")
        return
    if not draft.given(strength):
        raise draft.wrong(name, "l1_reg_strength beside it")
    notes = {
        "cumul": "",
        "clip": "dtrain clips the features that were updated, mpitune cumulatively: the others catch up.",
        "naive": "dtrain subtracts it from features that were updated, also past 0; mpitune clips, cumulatively.",
    }
    rate = 1.0 if draft["scale_bleu_diff"] else draft["learning_rate"]
    l1(draft, draft[strength], rate, name, strength, note=notes[draft[name]])


def _repeat(draft: Draft, name: str) -> None:
    lacks("mpitune learns from each list once")(draft, name)
    lacks("a diagnosis, which also makes dtrain learn from each list twice")(draft, "check")


_ON_COMMAND_LINE = "an option of the command line: `mpitune train --quiet`"

OPTIONS: DtrainOptions = {
    "bitext": file(_data),
    "input": file(elsewhere),
    "refs": file(elsewhere),
    "stop_after": whole(limit, 0),
    "decoder_config": file(_decoder),
    "k": whole(becomes("decoder.kbest"), 100, 1, 1_000_000),
    "filter": one_of(_kbest, "uniq", "not"),
    "sample_from": one_of(lacks("mpitune learns from the k best, not from samples"), "kbest", "forest"),
    "select_weights": one_of(_result, "last", "best", "avg", "VOID"),
    "epochs": whole(elsewhere, 10, 1),
    "scorer": one_of(_gold, "stupid_bleu", *(name for name in SCORERS if name != "stupid_bleu")),
    "approx_bleu_d": real(elsewhere, 0.9),
    "N": whole(order_of_ngrams, 4, 1),
    "pair_sampling": one_of(_pairs, "XYX", "all", "PRO"),
    "hi_lo": real(elsewhere, 0.1, 0.01, 0.5),
    "pair_threshold": real(elsewhere, 0.0),
    "max_pairs": whole(lacks("mpitune takes all pairs of a list"), None),
    "learning_rate": real(_learning_rate, 1.0, above=True),
    "scale_bleu_diff": presence(elsewhere),
    "pclr": one_of(elsewhere, "no", "simple", "adagrad"),
    "loss_margin": real(_margin, 0.0),
    "gamma": real(_gamma, 0.0),
    "l1_reg": one_of(_l1, "none", "naive", "clip", "cumul"),
    "l1_reg_strength": real(elsewhere, None),
    "rescale": presence(lacks("mpitune leaves the length of the weight vector as it is")),
    "batch": presence(lacks("mpitune learns after each sentence; itermix with a shard for each is the nearest")),
    "repeat": whole(_repeat, 1, 1),
    "check": presence(elsewhere),
    "fselect": real(needless("of no effect in dtrain; features are selected by itersel, see [select]"), -1.0, -1.0),
    "noup": presence(lacks("training always learns; to translate with given weights: `mpitune decode`")),
    "input_weights": file(initial_weights),
    "output": text(output, "-"),
    "keep": presence(needless("the run folder keeps those of each epoch: weights/epoch-N.txt.gz")),
    "print_weights": text(needless("`mpitune weights RUN --find TEXT` shows them")),
    "config": text(needless("an option of dtrain's command line")),
    "quiet": presence(needless(_ON_COMMAND_LINE)),
    "verbose": presence(needless("an option of dtrain's command line; `mpitune decode --nbest` shows k-best lists")),
}
"""All its options, in the order in which they are translated."""
