"""Translations of options that both generations have."""

from __future__ import annotations

from mpitune.config.dtrain.draft import Draft
from mpitune.config.dtrain.options import Translation
from mpitune.errors import DataError
from mpitune.files import exists
from mpitune.grammar.cdec_ini import IniFile, read_inifile

ALWAYS = 1e18
"""Margin that no pair reaches, so that every pair is an update."""
CLIPPING = "dtrain clips only updated features; mpitune clips cumulatively, so the other features follow later."
CLOSE_PAIRS = "In a list without pairs that differ by 0.05, mpitune takes those that differ most."


def to_key(key: str) -> Translation:
    """Translate the option to the job's ``key``, with the same value."""
    return lambda draft, name: draft.set_key(key, draft[name], name)


def unsupported(reason: str) -> Translation:
    """List the option as one without a counterpart, or as needing no key if it has dtrain's default."""

    def remark(draft: Draft, name: str) -> None:
        if draft.given(name) and draft[name] == draft.default(name):
            draft.add_unneeded(name, "dtrain's default, and the behaviour of mpitune")
        elif draft.given(name):
            draft.add_unsupported(name, reason)

    return remark


def unneeded(reason: str) -> Translation:
    """List the option as one that needs no key."""

    def remark(draft: Draft, name: str) -> None:
        if draft.given(name):
            draft.add_unneeded(name, reason)

    return remark


max_pairs = unsupported("mpitune uses all pairs of a list")
threshold = unsupported("mpitune compares all pairs whose gold scores differ")
batch = unsupported("mpitune learns after each sentence; the nearest equivalent is itermix with a shard per sentence")
no_learning = unsupported("training always learns; to translate with given weights: `mpitune decode`")
epoch_weights = unneeded("the run folder contains the weights of each epoch: weights/epoch-N.txt.gz")
print_weights = unneeded("`mpitune weights RUN --find TEXT` shows them")


def sampling(draft: Draft, name: str) -> None:
    """Translate the source of the lists: the k best, or samples of the forest."""
    draft.set_key("decoder.sample", "forest" if draft[name] in (True, "forest") else "none", name)


def with_another(draft: Draft, name: str) -> None:
    """No translation: the translation of another option includes this one."""


def input_file(draft: Draft, key: str, name: str) -> None:
    """Set the job's ``key`` to the file that an option names."""
    if draft[name] == "-":
        draft.add_unsupported(name, f"mpitune reads no standard input: name a file in {key}")
    else:
        path = draft.path(name)
        note = "" if exists(path) else "There is no such file; was dtrain started in another folder?"
        draft.set_key(key, [path] if key == "data.references" else path, name, note=note)


def has_input(draft: Draft) -> bool:
    """True if the file names training data."""
    return draft.given("bitext") or draft.given("input")


def data(draft: Draft, name: str) -> None:
    """Translate bitext, or input and refs, which only 2012 has, to ``[data]``."""
    if draft.given("bitext"):
        for other in ("input", "refs"):
            if draft.given(other):
                raise draft.error(other, "it or bitext, not both")
        input_file(draft, "data.bitext", "bitext")
    elif draft.given("input") != draft.given("refs"):
        raise draft.error("input" if draft.given("input") else "refs", "input and refs together")
    elif draft.given("input"):
        input_file(draft, "data.source", "input")
        input_file(draft, "data.references", "refs")


def limit(draft: Draft, name: str) -> None:
    """Translate to data.limit."""
    if has_input(draft):
        draft.set_key("data.limit", draft[name], name)
    else:
        unsupported("under parallelize.rb it limits the sentences of each shard, data.limit those of all shards")(
            draft, name
        )


def l1(draft: Draft, strength: float, rate: float, *names: str, note: str) -> None:
    """Set learner.l1 to ``strength`` / ``rate``: mpitune multiplies it by the learning rate, dtrain does not."""
    note = f"dtrain subtracts the strength in each step; mpitune multiplies l1 by the learning rate. {note}".rstrip()
    draft.set_key("learner.l1", float(f"{strength / rate:.12g}"), *names, note=note if strength else "")


def result(draft: Draft, passes: str, *names: str, mean: bool) -> None:
    """Translate to learner.algorithm: sgd for the mean over the epochs, itermix with one shard for the last weights.

    ``passes``: the option with the number of epochs; ``names``: the options that select the resulting weights.
    """
    if not has_input(draft):
        _in_shards(draft, passes)
        for name in names:
            if draft.given(name):
                draft.add_unneeded(
                    name, "parallelize.rb mixes the shards' weights; after one pass, mean and last are the same"
                )
        return
    draft.set_key("learner.epochs", draft[passes], passes)
    note = 'parallelize.rb -s Z -e T -l "l2 select_k K" corresponds to algorithm = "itersel", epochs = T, '
    note += 'and [parallel] shards = Z, [select] k = K, norm = "l2".'
    draft.set_key("learner.algorithm", "sgd" if mean else "itermix", *names, note=note)
    if not mean:
        draft.set_key("parallel.shards", 1, because="with one shard itermix returns the weights of the last epoch")


def initial_weights(draft: Draft, name: str) -> None:
    """Translate to learner.initial_weights."""
    if draft.given(name):
        input_file(draft, "learner.initial_weights", name)


def ngram_order(draft: Draft, name: str) -> None:
    """Check the n-gram order of the gold score, which is always 4 in mpitune."""
    if draft[name] != 4:
        draft.add_unsupported(name, "mpitune's gold scores always use n-grams up to order 4")
    elif draft.given(name):
        draft.add_unneeded(name, "always so in mpitune")


def output(draft: Draft, name: str) -> None:
    """List the option as needing no key: the run folder contains the result."""
    if draft.given(name):
        draft.add_unneeded(name, "the result is weights.txt.gz in the run folder (`mpitune weights RUN --export FILE`)")


def _in_shards(draft: Draft, passes: str) -> None:
    """Translate to the job that parallelize.rb runs by default; ``passes``: the option with the number of epochs.

    A file without an input is written for parallelize.rb, which gives each dtrain process the input of its shard.
    """
    draft.remark("data", "The file names no input. Add source and references, or bitext.")
    draft.remark("learner", "Without an input, the file is translated as one for parallelize.rb, which runs shards by")
    draft.remark("learner", 'its defaults, as in the preset: -e 10, -l "l2 select_k 100000".')
    draft.set_key("learner.algorithm", "itersel", because='parallelize.rb: -l "l2 select_k 100000"')
    draft.set_key("learner.epochs", 10, because="parallelize.rb: -e 10; both are its defaults")
    if draft[passes] != 1:
        draft.add_unsupported(passes, "passes over a shard in each epoch of parallelize.rb; always one in mpitune")
    elif draft.given(passes):
        draft.add_unneeded(passes, "one pass over a shard in each epoch of parallelize.rb, as in mpitune")
    draft.remark("parallel", "shards = 8  # parallelize.rb: -s; reshuffle = true for its -z -y")
    draft.remark(
        "select", 'k = K  # parallelize.rb: select_k K; lambda = X for its cut X; norm = "linf" for its linfty'
    )


def decoder(draft: Draft, name: str) -> IniFile | None:
    """Translate to decoder.config and the keys that follow from this cdec.ini; returns it, None if it is unreadable."""
    if not draft.given(name):
        draft.remark("decoder", f"The file has no {name}: add config, or [grammar] and [[lm]].")
        return None
    path = draft.path(name)
    draft.set_key("decoder.config", path, name)
    try:
        ini = read_inifile(path)
    except DataError as error:
        draft.remark("decoder", f"The cdec.ini could not be read: {error}")
        return None
    if any(not file.is_absolute() for file in (*ini.grammars, *(file for _, file in ini.language_models))):
        note = f"{path.name} has paths relative to the working folder: start `mpitune train` in the same folder"
        draft.remark("decoder", note)
    if not ini.grammars:
        draft.set_key("grammar.per_sentence", True, because=f"{path.name} names no grammar: the input's <seg> tags do")
    if unfit := ini.unsupported():
        draft.remark("decoder", f"{path.name} asks for {', '.join(unfit)}: with that, mpitune cannot tune")
    if lacking := ini.unsupported_by_embedded():
        draft.set_key("decoder.backend", "cdec", because=f"the embedded decoder does not have {', '.join(lacking)}")
    elif not ini.language_models:
        because = f"{path.name} has no language model, which the embedded decoder needs"
        draft.set_key("decoder.backend", "cdec", because=because)
    else:
        _embedded(draft, ini, path.name)
    return ini


def _embedded(draft: Draft, ini: IniFile, name: str) -> None:
    """Add keys and remarks for differences between the embedded decoder and the cdec.ini called ``name``."""
    if ini.add_pass_through is None:
        draft.remark("decoder", f"{name} does not set add_pass_through_rules: the embedded decoder always adds them")
    if ignored := ini.ignored_by_embedded():
        draft.remark("decoder", f"{name} has {', '.join(ignored)}, which the embedded decoder ignores")
    if not ini.word_penalty:
        draft.set_key("learner.frozen", ["WordPenalty"], because=f"{name} does not use it, so its weight stays 0")
