"""Options of dtrain as of 2012 in cdec (redpony/cdec, training/dtrain), used by Simianer, Riezler, Dyer, ACL 2012."""

from __future__ import annotations

from mpitune.config.dtrain.common import (
    ALWAYS,
    CLIPPING,
    CLOSE_PAIRS,
    batch,
    data,
    decoder,
    epoch_weights,
    initial_weights,
    l1,
    limit,
    max_pairs,
    ngram_order,
    no_learning,
    output,
    print_weights,
    result,
    sampling,
    threshold,
    to_key,
    unneeded,
    unsupported,
    with_another,
)
from mpitune.config.dtrain.draft import Draft
from mpitune.config.dtrain.options import DtrainOptions, file, one_of, presence, real, text, whole

SCORERS = {
    "stupid_bleu": ("bleu+1", ""),
    "fixed_stupid_bleu": ("nakov", ""),
    "bleu": ("papineni", "For references of fewer than 4 words dtrain leaves out the orders that they lack."),
    "smooth_bleu": ("liang", ""),
    "sum_bleu": ("sum", ""),
    "sumexp_bleu": ("sum", "Nearest equivalent: dtrain sums exp(p_n), mpitune p_n, with the same weights."),
    "sumwhatever_bleu": (
        "sum",
        "Nearest equivalent: dtrain sums the 4th roots of p_n, mpitune p_n, with the same weights.",
    ),
    "approx_bleu": ("chiang", "dtrain computes the brevity penalty of the sentence alone, mpitune with its context."),
    "lc_bleu": ("liang", "lc_bleu, linear corpus BLEU, has no counterpart: liang is used instead."),
}
"""By scorer: the gold score with the same formula, and a note on differences."""


def _decoder(draft: Draft, name: str) -> None:
    ini = decoder(draft, name)
    weights = [value for key, value in ini.unknown if key == "weights"] if ini else []
    if weights and not draft.given("input_weights"):
        # dtrain starts from the weights of its decoder.
        because = f"{draft[name]}: weights={weights[0]}"
        draft.set_key("learner.initial_weights", draft.absolute(weights[0]), because=because)


def _kbest(draft: Draft, name: str) -> None:
    draft.set_key("decoder.unique", draft[name] == "uniq", name)


def _result(draft: Draft, name: str) -> None:
    result(draft, "epochs", name, mean=draft[name] == "avg")
    if draft[name] == "best":
        note = "best: take weights/epoch-N.txt.gz of the epoch with the highest gold in the run's metrics.jsonl."
        draft.remark("learner", f"{note} (mpitune itself chooses by [data.devtest], if there is one)")
    elif draft[name] == "VOID":
        draft.remark("learner", "VOID: dtrain discards the weights, mpitune writes them.")


def _learning_rate(draft: Draft, name: str) -> None:
    """Translate learning_rate, scale_bleu_diff and pclr."""
    because = "dtrain evaluates all pairs of a list with the weights that decoded it"
    draft.set_key("learner.order", "sentence", because=because)
    if draft["scale_bleu_diff"]:
        draft.set_key("learner.scale_by_gold", True, "scale_bleu_diff")
        draft.set_key("learner.learning_rate", 1.0, because="dtrain: scale_bleu_diff replaces the learning rate")
        if draft.given(name):
            draft.add_unneeded(name, "no effect together with scale_bleu_diff")
    else:
        draft.set_key("learner.learning_rate", draft[name], name)
    if draft["pclr"] == "simple":
        reason = 'a rate of 1 / (updates so far) for each feature; the nearest equivalent is rate = "adagrad"'
        draft.add_unsupported("pclr", reason)
    else:
        rate = {"no": "constant", "adagrad": "adagrad"}[draft["pclr"]]
        note = "dtrain multiplies by the sum of squares, AdaGrad divides by its root; dtrain does not reset the sum."
        draft.set_key("learner.rate", rate, "pclr", note=note if rate == "adagrad" else "")


def _margin(draft: Draft, name: str) -> None:
    if draft[name] > 9998:
        draft.set_key("learner.margin", ALWAYS, name, note="Every pair is an update, as in dtrain above 9998.")
    elif draft["pair_sampling"] == "PRO" and not draft[name] and not draft["gamma"]:
        because = "dtrain: with PRO, without margin and gamma, also correctly ordered pairs are updates"
        draft.set_key("learner.margin", ALWAYS, because=because)
        if draft.given(name):
            draft.add_unneeded(name, "see learner.margin")
    else:
        draft.set_key("learner.margin", draft[name], name)


def _gamma(draft: Draft, name: str) -> None:
    if draft["pclr"] != "no" and draft[name]:
        draft.add_unneeded(name, "no effect together with pclr")
    else:
        note = "dtrain shrinks the weights after each pair of a list, mpitune once per list, by the sum."
        draft.set_key("learner.l2", draft[name], name, note=note if draft[name] else "")


def _pairs(draft: Draft, name: str) -> None:
    """Translate pair_sampling, hi_lo and pair_threshold."""
    if draft[name] == "XYX":
        draft.remark("learner", "dtrain omits the pairs of middle and bottom by an index error; mpitune includes them.")
        draft.set_key("learner.pairs", "multipartite", name)
        draft.set_key("learner.share", draft["hi_lo"], "hi_lo")
        draft.set_key("learner.extend_ties", True, because="dtrain of 2012 always extends ties")
    elif draft.given("hi_lo"):
        draft.add_unneeded("hi_lo", "no effect without pair_sampling=XYX")
    if draft[name] == "all":
        draft.set_key("learner.pairs", "all", name)
    if draft[name] == "PRO":
        note = "dtrain considers the first 5000 pairs by gold score, mpitune samples 5000; both keep 50."
        draft.set_key("learner.pairs", "pro", name, note=f"{note} {CLOSE_PAIRS}")
        if draft["pair_threshold"] == 0.05:
            draft.add_unneeded("pair_threshold", "always so for pro")
        else:
            draft.add_unsupported("pair_threshold", "always 0.05 for pro")
    else:
        threshold(draft, "pair_threshold")


def _gold(draft: Draft, name: str) -> None:
    gold, note = SCORERS[draft[name]]
    draft.set_key("learner.gold", gold, name, note=note)
    if draft[name] == "approx_bleu":
        unsupported("mpitune's chiang always uses 0.9")(draft, "approx_bleu_d")
    elif draft.given("approx_bleu_d"):
        draft.add_unneeded("approx_bleu_d", "no effect without scorer=approx_bleu")


def _l1(draft: Draft, name: str) -> None:
    """Translate l1_reg and l1_reg_strength."""
    strength = "l1_reg_strength"
    if draft[name] == "none":
        draft.set_key("learner.l1", 0.0, name)
        if draft.given(strength):
            draft.add_unneeded(strength, "no effect without l1_reg")
        return
    if not draft.given(strength):
        raise draft.error(name, "l1_reg_strength beside it")
    notes = {
        "cumul": "",
        "clip": CLIPPING,
        "naive": "dtrain subtracts it from updated features, also past 0; mpitune clips at 0, cumulatively.",
    }
    rate = 1.0 if draft["scale_bleu_diff"] else draft["learning_rate"]
    l1(draft, draft[strength], rate, name, strength, note=notes[draft[name]])


def _repeat(draft: Draft, name: str) -> None:
    unsupported("mpitune learns from each list once")(draft, name)
    unsupported("a diagnostic option, with which dtrain learns from each list twice")(draft, "check")


_ON_COMMAND_LINE = "an option of the command line: `mpitune train --quiet`"

OPTIONS: DtrainOptions = {
    "bitext": file(data),
    "input": file(with_another),
    "refs": file(with_another),
    "stop_after": whole(limit, 0),
    "decoder_config": file(_decoder),
    "k": whole(to_key("decoder.kbest"), 100, 1, 1_000_000),
    "filter": one_of(_kbest, "uniq", "not"),
    "sample_from": one_of(sampling, "kbest", "forest"),
    "select_weights": one_of(_result, "last", "best", "avg", "VOID"),
    "epochs": whole(with_another, 10, 1),
    "scorer": one_of(_gold, "stupid_bleu", *(name for name in SCORERS if name != "stupid_bleu")),
    "approx_bleu_d": real(with_another, 0.9),
    "N": whole(ngram_order, 4, 1),
    "pair_sampling": one_of(_pairs, "XYX", "all", "PRO"),
    "hi_lo": real(with_another, 0.1, 0.01, 0.5),
    "pair_threshold": real(with_another, 0.0),
    "max_pairs": whole(max_pairs, None),
    "learning_rate": real(_learning_rate, 1.0, above=True),
    "scale_bleu_diff": presence(with_another),
    "pclr": one_of(with_another, "no", "simple", "adagrad"),
    "loss_margin": real(_margin, 0.0),
    "gamma": real(_gamma, 0.0),
    "l1_reg": one_of(_l1, "none", "naive", "clip", "cumul"),
    "l1_reg_strength": real(with_another, None),
    "rescale": presence(unsupported("mpitune does not rescale the weight vector")),
    "batch": presence(batch),
    "repeat": whole(_repeat, 1, 1),
    "check": presence(with_another),
    "fselect": real(unneeded("no effect in dtrain; itersel selects features, see [select]"), -1.0, -1.0),
    "noup": presence(no_learning),
    "input_weights": file(initial_weights),
    "output": text(output, "-"),
    "keep": presence(epoch_weights),
    "print_weights": text(print_weights),
    "config": text(unneeded("an option of dtrain's command line")),
    "quiet": presence(unneeded(_ON_COMMAND_LINE)),
    "verbose": presence(unneeded("an option of dtrain's command line; `mpitune decode --nbest` shows k-best lists")),
}
"""All options of 2012, in the order of their translation."""
