"""What options of both generations become."""

from __future__ import annotations

from mpitune.config.dtrain.draft import Draft
from mpitune.config.dtrain.options import Meaning
from mpitune.errors import DataError
from mpitune.grammar.cdec_ini import IniFile, read_inifile

ALWAYS = 1e18
"""A margin that no pair reaches, so that every pair is an update."""


def becomes(key: str) -> Meaning:
    """The option is the job's ``key``."""
    return lambda draft, name: draft.key(key, draft[name], name)


def lacks(reason: str) -> Meaning:
    """The option has no counterpart; at dtrain's default it needs none."""

    def remark(draft: Draft, name: str) -> None:
        if draft.given(name) and draft[name] == draft.default(name):
            draft.needless(name, "dtrain's default, and what mpitune does")
        elif draft.given(name):
            draft.lacks(name, reason)

    return remark


def needless(reason: str) -> Meaning:
    """The option needs no key."""

    def remark(draft: Draft, name: str) -> None:
        if draft.given(name):
            draft.needless(name, reason)

    return remark


def elsewhere(draft: Draft, name: str) -> None:
    """The option is dealt with by that of another one."""


def input_file(draft: Draft, key: str, name: str) -> None:
    """The job's ``key`` is the file that an option names."""
    if draft[name] == "-":
        draft.lacks(name, f"mpitune reads no standard input: name a file in {key}")
    else:
        path = draft.path(name)
        note = "" if path.exists() else "There is no such file; was dtrain started in another folder?"
        draft.key(key, [path] if key == "data.references" else path, name, note=note)


def has_input(draft: Draft) -> bool:
    """Whether the file names what is learned from."""
    return draft.given("bitext") or draft.given("input")


def limit(draft: Draft, name: str) -> None:
    """Becomes data.limit."""
    if has_input(draft):
        draft.key("data.limit", draft[name], name)
    else:
        lacks("under parallelize.rb it counts sentences of each shard, while data.limit counts those of all")(
            draft, name
        )


def l1(draft: Draft, strength: float, rate: float, *names: str, note: str) -> None:
    """Becomes learner.l1, which is multiplied by the learning rate ``rate`` where dtrain's ``strength`` is not."""
    note = f"dtrain's strength is what a step subtracts; mpitune's is multiplied by the learning rate. {note}".rstrip()
    draft.key("learner.l1", float(f"{strength / rate:.12g}"), *names, note=note if strength else "")


def result(draft: Draft, passes: str, *names: str, mean: bool) -> None:
    """Becomes learner.algorithm: sgd returns the mean over the epochs, itermix with one shard the last epoch's weights.

    ``passes``: the option that is called epochs here; ``names``: those that tell which weights are the result.
    """
    if not has_input(draft):
        _in_shards(draft, passes)
        for name in names:
            if draft.given(name):
                draft.needless(
                    name, "parallelize.rb mixes what the shards write; mean and last are the same after a pass"
                )
        return
    draft.key("learner.epochs", draft[passes], passes)
    note = 'parallelize.rb -s Z -e T -l "l2 select_k K" is: algorithm = "itersel", epochs = T, '
    note += 'and [parallel] shards = Z, [select] k = K, norm = "l2".'
    draft.key("learner.algorithm", "sgd" if mean else "itermix", *names, note=note)
    if not mean:
        draft.key("parallel.shards", 1, because="with one shard itermix returns the weights of the last epoch")


def initial_weights(draft: Draft, name: str) -> None:
    """Becomes learner.initial_weights."""
    if draft.given(name):
        input_file(draft, "learner.initial_weights", name)


def order_of_ngrams(draft: Draft, name: str) -> None:
    """Gold scores have one order only."""
    if draft[name] != 4:
        draft.lacks(name, "mpitune's gold scores count n-grams up to order 4, no more and no fewer")
    elif draft.given(name):
        draft.needless(name, "so it always is in mpitune")


def output(draft: Draft, name: str) -> None:
    """The result has a place of its own."""
    if draft.given(name):
        draft.needless(name, "the result is weights.txt.gz in the run folder (`mpitune weights RUN --export FILE`)")


def _in_shards(draft: Draft, passes: str) -> None:
    """The job that parallelize.rb makes of a file, by its defaults; ``passes``: the option that is called epochs here.

    A file that names no input is made for it: it gives each dtrain the input of its shard.
    """
    draft.remark("data", "The file names no input. Add source and references, or bitext.")
    draft.remark("learner", "Without an input the file is taken for one that parallelize.rb runs in shards, with its")
    draft.remark("learner", 'defaults, which the preset has: -e 10, -l "l2 select_k 100000".')
    draft.key("learner.algorithm", "itersel", because='parallelize.rb: -l "l2 select_k 100000"')
    draft.key("learner.epochs", 10, because="parallelize.rb: -e 10; its defaults both")
    if draft[passes] != 1:
        draft.lacks(passes, "passes over a shard in each epoch of parallelize.rb; in mpitune it is one")
    elif draft.given(passes):
        draft.needless(passes, "a pass over a shard in each epoch of parallelize.rb, and so it is in mpitune")
    draft.remark("parallel", "shards = 8  # parallelize.rb: -s; reshuffle = true for its -z -y")
    draft.remark(
        "select", 'k = K  # parallelize.rb: select_k K; lambda = X for its cut X; norm = "linf" for its linfty'
    )


def decoder(draft: Draft, name: str) -> IniFile | None:
    """Becomes decoder.config, with what follows from the cdec.ini that it names; returns that, where it is there."""
    if not draft.given(name):
        draft.remark("decoder", f"The file has no {name}: add config, or [grammar] and [[lm]].")
        return None
    path = draft.path(name)
    draft.key("decoder.config", path, name)
    try:
        ini = read_inifile(path)
    except DataError as error:
        draft.remark("decoder", f"What it asks for is not known: {error}")
        return None
    if any(not file.is_absolute() for file in (*ini.grammars, *(file for _, file in ini.language_models))):
        draft.remark("decoder", f"{path.name} has paths from the working folder: start `mpitune train` in the same one")
    if not ini.grammars:
        draft.key("grammar.per_sentence", True, because=f"{path.name} names no grammar: the input's <seg> tags do")
    if unfit := ini.unsupported():
        draft.remark("decoder", f"{path.name} asks for {', '.join(unfit)}: with that, mpitune cannot tune")
    if lacking := ini.unsupported_by_embedded():
        draft.key("decoder.backend", "cdec", because=f"the embedded decoder does not have {', '.join(lacking)}")
    elif not ini.language_models:
        draft.key("decoder.backend", "cdec", because=f"{path.name} has no language model, which the embedded one needs")
    else:
        _embedded(draft, ini, path.name)
    return ini


def _embedded(draft: Draft, ini: IniFile, name: str) -> None:
    """What the embedded decoder does otherwise than a cdec.ini called ``name`` asks for."""
    if ini.add_pass_through is None:
        draft.remark("decoder", f"{name} does not ask for add_pass_through_rules: the embedded decoder has them always")
    if not ini.word_penalty:
        draft.key("learner.frozen", ["WordPenalty"], because=f"{name} does not have it: so its weight stays 0")
