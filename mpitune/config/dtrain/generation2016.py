"""Options of dtrain as of 2016 in pks/cdec-dtrain, training/dtrain."""

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
from mpitune.config.dtrain.options import DtrainOptions, file, one_of, real, switch, text, whole

_CLOSEST = (
    "With several references of which one has fewer than 4 words: dtrain leaves out the n-gram orders above the length "
    "of the closest reference, mpitune those above the length of the longest."
)
SCORES = {
    "nakov": ("nakov", _CLOSEST),
    "lin": ("bleu+1", _CLOSEST),
    "papineni": (
        "papineni",
        "For references of fewer than 4 words dtrain leaves out the orders that they lack.",
    ),
    "liang": ("liang", ""),
    "chiang": (
        "papineni",
        "dtrain never updates the context of its chiang, so it equals papineni; mpitune's chiang updates it.",
    ),
    "sum": ("sum", ""),
}
"""By score: the gold score with the same formula, and a note on differences."""


def _decoder(draft: Draft, name: str) -> None:
    decoder(draft, name)


def _result(draft: Draft, name: str) -> None:
    result(draft, "iterations", name, mean=draft[name])


def _pairs(draft: Draft, name: str) -> None:
    """Translate structured, cut, pro_sampling and related options, in the order of dtrain's own checks."""
    if draft["structured"]:
        draft.set_key("learner.pairs", "hope-fear", "structured")
        _ignored_with(draft, "structured", "cut", "adjust", "pro_sampling", "all", "margin", "threshold", "max_pairs")
    elif draft["cut"] == 0:
        draft.set_key("learner.pairs", "all", "cut")
        _ignored_with(draft, "cut=0", "adjust", "pro_sampling")
    elif draft["pro_sampling"]:
        note = "Translated as intended: dtrain takes cut as the number of pairs to sample, so its default samples none."
        draft.set_key("learner.pairs", "pro", "pro_sampling", note=f"{note} {CLOSE_PAIRS}")
        _ignored_with(draft, "pro_sampling", "adjust", "all", "margin")
        for option, fixed in (("cut", 5000), ("max_pairs", 50), ("threshold", 0.05)):
            if draft[option] == fixed:
                draft.add_unneeded(option, "always so for pro")
            elif draft.given(option):
                draft.add_unsupported(option, f"always {fixed} for pro")
    else:
        if draft["cut"] > 0.5:
            raise draft.error("cut", "at most 0.5, the half of a list")
        draft.set_key("learner.pairs", "multipartite", because="dtrain's default pairs")
        draft.set_key("learner.share", draft["cut"], "cut")
        if draft["adjust"]:
            draft.set_key("learner.extend_ties", True, "adjust")
        else:
            draft.set_key("learner.extend_ties", False, because="dtrain of 2016 extends ties only with adjust")
    _margin(draft)


def _ignored_with(draft: Draft, other: str, *names: str) -> None:
    """List options that dtrain ignores together with another one; `_switched_off` lists those that are off."""
    for name in names:
        if draft.given(name) and draft[name] is not False:
            draft.add_unneeded(name, f"no effect together with {other}")


def _switched_off(draft: Draft, name: str) -> None:
    """List a switch that is off; if it is on, the translation of another option includes it."""
    if draft.given(name) and not draft[name]:
        draft.add_unneeded(name, "off, the default")


def _margin(draft: Draft) -> None:
    """Translate margin, all, threshold and max_pairs."""
    for name in ("structured", "pro_sampling"):
        if draft[name] and (draft["cut"] > 0 or name == "structured"):
            because = f"dtrain: with {name}, also correctly ordered pairs are updates"
            draft.set_key("learner.margin", ALWAYS, because=because)
            return
    if draft["all"]:
        draft.set_key("learner.margin", ALWAYS, "all")
        _ignored_with(draft, "all", "margin", "threshold")
    else:
        draft.set_key("learner.margin", draft["margin"], "margin")
        threshold(draft, "threshold")
    max_pairs(draft, "max_pairs")


def _gold(draft: Draft, name: str) -> None:
    gold, note = SCORES[draft[name]]
    draft.set_key("learner.gold", gold, name, note=note)


def _learning_rate(draft: Draft, name: str) -> None:
    """Translate learning_rate, adadelta with its decay, and l1_reg."""
    because = "dtrain sums over all pairs of a list, evaluated with the weights that decoded it"
    draft.set_key("learner.order", "sentence", because=because)
    draft.set_key("learner.learning_rate", draft[name], name)
    note = "dtrain's step has the wrong sign and favours worse translations; mpitune's sign is right."
    draft.set_key(
        "learner.rate", "adadelta" if draft["adadelta"] else "constant", "adadelta", note=note * draft["adadelta"]
    )
    if draft["adadelta"]:
        draft.add_unsupported("adadelta_decay", "mpitune's adadelta always uses 0.95")
    else:
        _ignored_with(draft, "adadelta=false", "adadelta_decay")
    l1(draft, draft["l1_reg"], draft[name], "l1_reg", note=CLIPPING)


_ADADELTA_STATE = "mpitune's adadelta starts from zero in each epoch of a shard and has no state files"

OPTIONS: DtrainOptions = {
    "bitext": file(data),
    "stop_after": whole(limit, 0, 1, 2**64 - 1),
    "decoder_conf": file(_decoder),
    "k": whole(to_key("decoder.kbest"), 100, 1, 1_000_000),
    "unique_kbest": switch(to_key("decoder.unique"), True),
    "forest_sample": switch(sampling),
    "average": switch(_result, True),
    "iterations": whole(with_another, 15, 1),
    "score": one_of(_gold, *SCORES),
    "nakov_fix": text(unneeded("no effect in dtrain, which always adds 1, as mpitune does"), "1"),
    "chiang_decay": text(unneeded("no effect in dtrain, see learner.gold; mpitune's chiang always uses 0.9"), "0.9"),
    "N": whole(ngram_order, 4, 1),
    "cut": real(_pairs, 0.1),
    "adjust": switch(_switched_off),
    "structured": switch(_switched_off),
    "pro_sampling": switch(_switched_off),
    "all": switch(_switched_off),
    "margin": real(with_another, 1.0),
    "threshold": real(with_another, 0.0),
    "max_pairs": whole(with_another, None, 0, 2**64 - 1),
    "learning_rate": real(_learning_rate, 0.00001, above=True),
    "adadelta": switch(with_another),
    "adadelta_decay": real(with_another, 0.9),
    "adadelta_input": text(unsupported(_ADADELTA_STATE), ""),
    "adadelta_output": text(unsupported(_ADADELTA_STATE), ""),
    "l1_reg": real(with_another, 0.0),
    "batch": switch(batch),
    "disable_learning": switch(no_learning),
    "input_weights": file(initial_weights),
    "output": text(output, "-"),
    "keep": switch(epoch_weights),
    "print_weights": text(print_weights),
    "output_updates": text(unsupported("mpitune writes no differences of features"), ""),
    "output_raw": text(unsupported("`mpitune decode --nbest K` writes k-best lists, with fixed weights"), ""),
    "conf": text(unneeded("an option of dtrain's command line")),
    "help": switch(unneeded("an option of dtrain's command line")),
}
"""All options of 2016, in the order of their translation."""
