"""dtrain of 2016, as in pks/cdec-dtrain, training/dtrain."""

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
from mpitune.config.dtrain.options import DtrainOptions, file, one_of, real, switch, text, whole

_CLOSEST = (
    "Of several references of which one has fewer than 4 words: dtrain leaves out the orders that the closest one is "
    "too short for, mpitune those that all are."
)
SCORES = {
    "nakov": ("nakov", _CLOSEST),
    "lin": ("bleu+1", _CLOSEST),
    "papineni": (
        "papineni",
        "For references of fewer than 4 words dtrain leaves out the orders that they do not have.",
    ),
    "liang": ("liang", ""),
    "chiang": ("papineni", "dtrain never fills the context of its chiang (so it is papineni); mpitune's chiang does."),
    "sum": ("sum", ""),
}
"""Scores: the gold score whose formula it is, and where that differs."""


def _data(draft: Draft, name: str) -> None:
    if draft.given(name):
        input_file(draft, "data.bitext", name)


def _decoder(draft: Draft, name: str) -> None:
    decoder(draft, name)


def _result(draft: Draft, name: str) -> None:
    result(draft, "iterations", name, mean=draft[name])


def _pairs(draft: Draft, name: str) -> None:
    """structured, cut, pro_sampling and what belongs to them, in the order in which dtrain asks for them."""
    if draft["structured"]:
        draft.key("learner.pairs", "hope-fear", "structured")
        _unasked(draft, "structured", "cut", "adjust", "pro_sampling", "all", "margin", "threshold", "max_pairs")
    elif draft["cut"] == 0:
        draft.key("learner.pairs", "all", "cut")
        _unasked(draft, "cut=0", "adjust", "pro_sampling")
    elif draft["pro_sampling"]:
        note = "As it was meant: in dtrain cut is the number of pairs to draw, so that with its default it draws none."
        draft.key("learner.pairs", "pro", "pro_sampling", note=note)
        _unasked(draft, "pro_sampling", "adjust", "all", "margin")
        for option, fixed in (("cut", 5000), ("max_pairs", 50), ("threshold", 0.05)):
            if draft[option] == fixed:
                draft.needless(option, "so it always is for pro")
            elif draft.given(option):
                draft.lacks(option, f"for pro it is always {fixed}")
    else:
        if draft["cut"] > 0.5:
            raise draft.wrong("cut", "at most 0.5, the half of a list")
        draft.key("learner.pairs", "multipartite", because="dtrain's way, unless another is asked for")
        draft.key("learner.share", draft["cut"], "cut")
        if draft["adjust"]:
            draft.key("learner.extend_ties", True, "adjust")
        else:
            draft.key("learner.extend_ties", False, because="dtrain of 2016 does so with adjust only")
    _margin(draft)


def _unasked(draft: Draft, beside: str, *names: str) -> None:
    """dtrain does not look at the options ``names`` beside another one; those that are off are told by `_off`."""
    for name in names:
        if draft.given(name) and draft[name] is not False:
            draft.needless(name, f"of no effect beside {beside}")


def _off(draft: Draft, name: str) -> None:
    """Tells of a switch that is off; what it becomes where it is on is told elsewhere."""
    if draft.given(name) and not draft[name]:
        draft.needless(name, "off, as by default")


def _margin(draft: Draft) -> None:
    """margin, all, threshold and max_pairs."""
    for name in ("structured", "pro_sampling"):
        if draft[name] and (draft["cut"] > 0 or name == "structured"):
            draft.key("learner.margin", ALWAYS, because=f"dtrain: {name} never looks whether a pair is ordered rightly")
            return
    if draft["all"]:
        draft.key("learner.margin", ALWAYS, "all")
        _unasked(draft, "all", "margin", "threshold")
    else:
        draft.key("learner.margin", draft["margin"], "margin")
        lacks("mpitune compares all whose gold scores differ")(draft, "threshold")
    lacks("mpitune takes all pairs of a list")(draft, "max_pairs")


def _gold(draft: Draft, name: str) -> None:
    gold, note = SCORES[draft[name]]
    draft.key("learner.gold", gold, name, note=note)


def _learning_rate(draft: Draft, name: str) -> None:
    """learning_rate, adadelta with its decay, l1_reg."""
    because = "dtrain sums over all pairs of a list, judged with the weights it was decoded with"
    draft.key("learner.order", "sentence", because=because)
    draft.key("learner.learning_rate", draft[name], name)
    note = "dtrain's step has the wrong sign and leads away from the better translations; mpitune's does not."
    draft.key(
        "learner.rate", "adadelta" if draft["adadelta"] else "constant", "adadelta", note=note * draft["adadelta"]
    )
    if draft["adadelta"]:
        draft.lacks("adadelta_decay", "mpitune's adadelta keeps 0.95")
    else:
        _unasked(draft, "adadelta=false", "adadelta_decay")
    note = "dtrain clips the features that were updated, mpitune cumulatively: the others catch up."
    l1(draft, draft["l1_reg"], draft[name], "l1_reg", note=note)


_NEW_IN_EACH_EPOCH = "mpitune's adadelta begins anew in each epoch of a shard, and reads and writes no state"

OPTIONS: DtrainOptions = {
    "bitext": file(_data),
    "stop_after": whole(limit, 0, 1, 2**64 - 1),
    "decoder_conf": file(_decoder),
    "k": whole(becomes("decoder.kbest"), 100, 1, 1_000_000),
    "unique_kbest": switch(becomes("decoder.unique"), True),
    "forest_sample": switch(lacks("mpitune learns from the k best, not from samples")),
    "average": switch(_result, True),
    "iterations": whole(elsewhere, 15, 1),
    "score": one_of(_gold, *SCORES),
    "nakov_fix": text(needless("of no effect in dtrain: it always adds 1, as mpitune does"), "1"),
    "chiang_decay": text(needless("of no effect in dtrain, see learner.gold; mpitune's chiang keeps 0.9"), "0.9"),
    "N": whole(order_of_ngrams, 4, 1),
    "cut": real(_pairs, 0.1),
    "adjust": switch(_off),
    "structured": switch(_off),
    "pro_sampling": switch(_off),
    "all": switch(_off),
    "margin": real(elsewhere, 1.0),
    "threshold": real(elsewhere, 0.0),
    "max_pairs": whole(elsewhere, None, 0, 2**64 - 1),
    "learning_rate": real(_learning_rate, 0.00001, above=True),
    "adadelta": switch(elsewhere),
    "adadelta_decay": real(elsewhere, 0.9),
    "adadelta_input": text(lacks(_NEW_IN_EACH_EPOCH), ""),
    "adadelta_output": text(lacks(_NEW_IN_EACH_EPOCH), ""),
    "l1_reg": real(elsewhere, 0.0),
    "batch": switch(lacks("mpitune learns after each sentence; itermix with a shard for each is the nearest")),
    "disable_learning": switch(lacks("training always learns; to translate with given weights: `mpitune decode`")),
    "input_weights": file(initial_weights),
    "output": text(output, "-"),
    "keep": switch(needless("the run folder keeps those of each epoch: weights/epoch-N.txt.gz")),
    "print_weights": text(needless("`mpitune weights RUN --find TEXT` shows them")),
    "output_updates": text(lacks("mpitune writes no differences of features"), ""),
    "output_raw": text(lacks("`mpitune decode --nbest K` writes k-best lists, of weights that stay as they are"), ""),
    "conf": text(needless("an option of dtrain's command line")),
    "help": switch(needless("an option of dtrain's command line")),
}
"""All its options, in the order in which they are translated."""
