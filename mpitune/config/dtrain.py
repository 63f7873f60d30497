"""Conversion of dtrain's configuration files to job files.

dtrain is the C++ trainer of Simianer, Riezler, Dyer, ACL 2012. An option becomes what it does in dtrain's source code,
which may differ from its name. `_TABLE` has the options of cdec's training/dtrain as of 2012 and of pks/cdec-dtrain as
of 2016, in the order of translation: ``YEAR NAME VALUES DEFAULT, ignored IF; IF``, and below it ``IF -> OUTCOME`` for
each case, of which the first counts that holds, with the outcomes after ``&``. A single case is in the line of the
option; options that have the same cases precede them together.

The words of an IF must all hold: ``OPTION`` (given, and not as false, no or none), ``OPTION=VALUE``, ``OPTION>NUMBER``,
negated with ``!``. An OUTCOME is one of

- ``KEY [= VALUE] [by REASON] [# NOTE]``: a key of the job, with the option's value or another; NOTE is written above it
- ``! REASON``: no counterpart, unless the value is dtrain's default; ``!! REASON``: the default has none either
- ``error EXPECTED``; ``@NAME``, a method of `_Job`; or else the reason for which the option needs no key
"""

from __future__ import annotations

import difflib
import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from mpitune import schema
from mpitune.config.presets import PRESETS
from mpitune.config.spec import DataKeys, Job, RunKeys
from mpitune.corpus.lines import lines
from mpitune.corpus.text import parse_number
from mpitune.errors import DataError, UsageError, printable
from mpitune.files import exists
from mpitune.grammar.cdec_ini import read_inifile
from mpitune.ownership import reads

_L1 = {
    "cumul": "",
    "naive": " dtrain subtracts it from updated features, also past 0; mpitune clips at 0, cumulatively.",
    "clip": " dtrain clips only updated features; mpitune clips cumulatively, so the other features follow later.",
}
_CLOSE = "In a list without pairs that differ by 0.05, mpitune takes those that differ most."
_CLOSEST = """With several references of which one has fewer than 4 words: dtrain leaves out the n-gram orders above \
the length of the closest reference, mpitune those above the length of the longest."""
_SHORT = "For references of fewer than 4 words dtrain leaves out the orders that they lack."
_TABLE = f"""
both bitext file -> data.bitext
2012 input file
  input bitext -> error it or bitext, not both
  input !refs -> error input and refs together
  -> data.source
2012 refs file
  refs bitext -> error it or bitext, not both
  refs !input -> error input and refs together
  -> data.references
2012 stop_after 0..4294967295 0
2016 stop_after 1..18446744073709551615
  !bitext !input -> ! under parallelize.rb it limits the sentences of each shard, data.limit those of all shards
  -> data.limit
2012 decoder_config file
2016 decoder_conf file -> @decoder
both k 1..1000000 100 -> decoder.kbest
2012 filter uniq|not uniq
  filter=uniq -> decoder.unique = true
  -> decoder.unique = false
2016 unique_kbest switch true -> decoder.unique
2012 sample_from kbest|forest kbest
2016 forest_sample switch false
  sample_from=forest -> decoder.sample
  forest_sample -> decoder.sample = "forest"
  -> decoder.sample = "none"
2012 epochs 1..4294967295 10
2016 iterations 1..4294967295 15 -> @passes
2012 select_weights last|best|avg|VOID last
2016 average switch true -> @result
2012 scorer stupid_bleu|fixed_stupid_bleu|bleu|smooth_bleu|sum_bleu|sumexp_bleu|sumwhatever_bleu|approx_bleu|lc_bleu \
stupid_bleu
  scorer=stupid_bleu -> learner.gold = "bleu+1"
  scorer=fixed_stupid_bleu -> learner.gold = "nakov"
  scorer=bleu -> learner.gold = "papineni" # {_SHORT}
  scorer=smooth_bleu -> learner.gold = "liang"
  scorer=sum_bleu -> learner.gold = "sum"
  scorer=sumexp_bleu -> learner.gold = "sum" # Nearest equivalent: dtrain sums exp(p_n), mpitune p_n, \
with the same weights.
  scorer=sumwhatever_bleu -> learner.gold = "sum" # Nearest equivalent: dtrain sums the 4th roots of p_n, mpitune p_n, \
with the same weights.
  scorer=approx_bleu -> learner.gold = "chiang" # dtrain computes the brevity penalty of the sentence alone, \
mpitune with its context.
  -> learner.gold = "liang" # lc_bleu, linear corpus BLEU, has no counterpart: liang is used instead.
2012 approx_bleu_d 0..1e18 0.9, ignored !scorer=approx_bleu -> ! mpitune's chiang always uses 0.9
2016 score nakov|lin|papineni|liang|chiang|sum nakov
  score=lin -> learner.gold = "bleu+1" # {_CLOSEST}
  score=nakov -> learner.gold # {_CLOSEST}
  score=papineni -> learner.gold # {_SHORT}
  score=chiang -> learner.gold = "papineni" # dtrain never updates the context of its chiang, so it equals papineni; \
mpitune's chiang updates it.
  -> learner.gold
2016 nakov_fix text -> no effect in dtrain, which always adds 1, as mpitune does
2016 chiang_decay text -> no effect in dtrain, see learner.gold; mpitune's chiang always uses 0.9
both N 1..4294967295 4
  N=4 -> always so in mpitune
  -> ! mpitune's gold scores always use n-grams up to order 4
2012 pair_sampling XYX|all|PRO XYX
  pair_sampling=XYX -> learner.pairs = "multipartite" # dtrain omits the pairs of middle and bottom by an index error; \
mpitune includes them.
  pair_sampling=all -> learner.pairs
  -> learner.pairs = "pro" # dtrain considers the first 5000 pairs by gold score, mpitune samples 5000; both keep 50. \
{_CLOSE}
2012 hi_lo 0.01..0.5 0.1, ignored !pair_sampling=XYX -> learner.share
2016 cut 0..1e18 0.1, ignored structured
  cut=0 -> learner.pairs = "all"
  pro_sampling cut=5000 -> always so for pro
  pro_sampling cut -> !! always 5000 for pro
  !pro_sampling cut>0.5 -> error at most 0.5, the half of a list
  !pro_sampling -> learner.share
2016 adjust switch false, ignored structured; cut=0; pro_sampling
  adjust -> learner.extend_ties
  !structured !cut=0 !pro_sampling -> learner.extend_ties = false by dtrain of 2016 extends ties only with adjust
  & off, the default
  -> off, the default
2016 structured switch false
  structured -> learner.pairs = "hope-fear"
  & learner.margin = 1e18 by dtrain: with structured, also correctly ordered pairs are updates
  -> off, the default
2016 pro_sampling switch false, ignored structured; cut=0
  pro_sampling -> learner.pairs = "pro" # Translated as intended: dtrain takes cut as the number of pairs to sample, \
so its default samples none. {_CLOSE}
  & learner.margin = 1e18 by dtrain: with pro_sampling, also correctly ordered pairs are updates
  -> off, the default
2016 all switch false, ignored structured; pro_sampling !cut=0
  all -> learner.margin = 1e18
  -> off, the default
2016 margin 0..1e18 1, ignored structured; pro_sampling !cut=0; all -> learner.margin
2012 pair_threshold 0..1e18 0
2016 threshold 0..1e18 0, ignored structured; all !pro_sampling; all cut=0
  pair_sampling=PRO pair_threshold=0.05 -> always so for pro
  pair_sampling=PRO -> !! always 0.05 for pro
  pro_sampling !cut=0 threshold=0.05 -> always so for pro
  pro_sampling !cut=0 threshold -> !! always 0.05 for pro
  -> ! mpitune compares all pairs whose gold scores differ
2012 max_pairs 0..4294967295
2016 max_pairs 0..18446744073709551615, ignored structured
  pro_sampling !cut=0 max_pairs=50 -> always so for pro
  pro_sampling !cut=0 max_pairs -> !! always 50 for pro
  -> ! mpitune uses all pairs of a list
2012 scale_bleu_diff switch false
  scale_bleu_diff -> learner.scale_by_gold
  & learner.learning_rate = 1.0 by dtrain: scale_bleu_diff replaces the learning rate
2012 learning_rate >0..1e18 1, ignored scale_bleu_diff -> learner.learning_rate
2016 learning_rate >0..1e18 0.00001 -> learner.learning_rate
2012 pclr no|simple|adagrad no
  pclr=simple -> ! a rate of 1 / (updates so far) for each feature; the nearest equivalent is rate = "adagrad"
  pclr=adagrad -> learner.rate # dtrain multiplies by the sum of squares, AdaGrad divides by its root; dtrain does not \
reset the sum.
  -> learner.rate = "constant"
2012 loss_margin 0..1e18 0
  loss_margin>9998 -> learner.margin = 1e18 # Every pair is an update, as in dtrain above 9998.
  pair_sampling=PRO loss_margin=0 gamma=0 -> learner.margin = 1e18 by dtrain: with PRO, without margin and gamma, \
also correctly ordered pairs are updates
  & see learner.margin
  -> learner.margin
2012 gamma 0..1e18 0, ignored pclr gamma>0
  gamma>0 -> learner.l2 # dtrain shrinks the weights after each pair of a list, mpitune once per list, by the sum.
  -> learner.l2
2016 adadelta switch false
  adadelta -> learner.rate = "adadelta" # dtrain's step has the wrong sign and favours worse translations; mpitune's \
sign is right.
  -> learner.rate = "constant"
2016 adadelta_decay 0..1e18 0.9, ignored adadelta=false -> !! mpitune's adadelta always uses 0.95
2016 adadelta_input text
2016 adadelta_output text -> ! mpitune's adadelta starts from zero in each epoch of a shard and has no state files
2012 l1_reg none|naive|clip|cumul none
  !l1_reg -> learner.l1 = 0.0
  !l1_reg_strength -> error l1_reg_strength beside it
2012 l1_reg_strength 0..1e18, ignored !l1_reg
2016 l1_reg 0..1e18 0 -> @l1
2012 rescale switch false -> ! mpitune does not rescale the weight vector
both batch switch false -> ! mpitune learns after each sentence; the nearest equivalent is itermix with a shard per \
sentence
2012 repeat 1..4294967295 1 -> ! mpitune learns from each list once
2012 check switch false -> ! a diagnostic option, with which dtrain learns from each list twice
2012 fselect -1..1e18 -1 -> no effect in dtrain; itersel selects features, see [select]
2012 noup switch false
2016 disable_learning switch false -> ! training always learns; to translate with given weights: `mpitune decode`
both input_weights file -> learner.initial_weights
both output text -> the result is weights.txt.gz in the run folder (`mpitune weights RUN --export FILE`)
both keep switch false -> the run folder contains the weights of each epoch: weights/epoch-N.txt.gz
both print_weights text -> `mpitune weights RUN --find TEXT` shows them
2016 output_updates text -> ! mpitune writes no differences of features
2016 output_raw text -> ! `mpitune decode --nbest K` writes k-best lists, with fixed weights
2012 config text
2016 conf text
2016 help switch false -> an option of dtrain's command line
2012 quiet switch false -> an option of the command line: `mpitune train --quiet`
2012 verbose switch false -> an option of dtrain's command line; `mpitune decode --nbest` shows k-best lists
"""
_SHARDS = (
    ("data", "The file names no input. Add source and references, or bitext."),
    ("learner", "Without an input, the file is translated as one for parallelize.rb, which runs shards by"),
    ("learner", 'its defaults, as in the preset: -e 10, -l "l2 select_k 100000".'),
    ("parallel", "shards = 8  # parallelize.rb: -s; reshuffle = true for its -z -y"),
    ("select", 'k = K  # parallelize.rb: select_k K; lambda = X for its cut X; norm = "linf" for its linfty'),
)
"""By table: comments on a file without an input."""
_SELECTION = """parallelize.rb -s Z -e T -l "l2 select_k K" corresponds to algorithm = "itersel", epochs = T, \
and [parallel] shards = Z, [select] k = K, norm = "l2"."""
_RESULTS = {
    "best": "best: take weights/epoch-N.txt.gz of the epoch with the highest gold in the run's metrics.jsonl. "
    "(mpitune itself chooses by [data.devtest], if there is one)",
    "VOID": "VOID: dtrain discards the weights, mpitune writes them.",
}
"""By value of select_weights: comments."""
_HEAD = re.compile(r"(\w+) (\w+) ([^\s,]+)(?: ([^\s,]+))?(?:, ignored (.*?))?((?: -> .*)?)")
_KEY = re.compile(r"(\w+\.\w+)(?: = (\S+))?(?: by (.+?))?(?: # (.+))?")
_WITHOUT, _NEEDLESS = "# Options without a counterpart:", "# Options that need no key:"
_SECTIONS = (_WITHOUT, _NEEDLESS, "[data]", "[grammar]", "[decoder]", "[learner]", "[parallel]", "[select]")
_PRESET = PRESETS["dtrain"].keys
_DEFAULTS = {key: value for key, _, value in schema.values(Job(RunKeys(Path(), Path()), DataKeys()))} | dict(_PRESET)
_OF_CDEC_INI = {"formalism", "grammar", "feature_function", "add_pass_through_rules", "scfg_max_span_limit"}
_OF_CDEC_INI |= {"intersection_strategy", "cubepruning_pop_limit"}
_TRUTH = dict.fromkeys(("on", "yes", "1", "true", ""), True) | dict.fromkeys(("off", "no", "0", "false"), False)


class Option(NamedTuple):
    """An option of `_TABLE`: its values, dtrain's default, when dtrain ignores it, and what it becomes."""

    kind: str
    default: Any
    ignored: list[str]
    cases: list[tuple[str, list[str]]]


def _parse(kind: str, text: str | None) -> Any:
    """The value of an option, whose text is None without ``=``. Raises ValueError, with the values that are valid."""
    if kind == "switch" and (text or "").lower() in _TRUTH:
        return _TRUTH[(text or "").lower()]
    if (kind == "file" and text) or (kind == "text" and text is not None) or text in kind.split("|"):
        return text
    least, between, most = kind.partition("..")
    if not between:
        named = {"file": "a file's name", "text": "a text", "switch": "true or false"}
        raise ValueError(named.get(kind, f"one of {kind.replace('|', ', ')}"))
    above, lowest, highest = least.startswith(">"), float(least.lstrip(">")), float(most)
    with suppress(ValueError):
        if most.isdigit() and text and text.isascii() and text.isdigit() and int(least) <= int(text) <= int(most):
            return int(text)
        number = parse_number(text or "")
        if not most.isdigit() and lowest <= number <= highest and not (above and number == lowest):
            return number
    if most.isdigit():
        raise ValueError(f"a whole number from {least} to {most}")
    raise ValueError(f"a number {'above' if above else 'from'} {lowest:g} to {highest:g}")


def _read_table() -> dict[int, dict[str, Option]]:
    generations: dict[int, dict[str, Option]] = {2012: {}, 2016: {}}
    cases: list[tuple[str, list[str]]] = []
    for line in _TABLE.strip().splitlines():
        if head := _HEAD.fullmatch(line):
            year, name, kind, default, ignored, line = head.groups("")
            # Options without a case between them share those that follow.
            cases = [] if cases else cases
            value = _parse(kind, default) if default or kind == "text" else None
            for each in generations if year == "both" else [int(year)]:
                generations[each][name] = Option(kind, value, ignored.split("; ") if ignored else [], cases)
        condition, arrow, outcome = line.partition("-> ")
        if arrow:
            cases.append((condition, [outcome]))
        elif line:
            cases[-1][1].append(line.removeprefix("  & "))
    return generations


GENERATIONS = _read_table()
"""By year: the options of dtrain, by name."""


def import_job(path: Path, folder: Path) -> str:
    """Convert the dtrain configuration ``path`` to a job file (TOML), with a comment on each option.

    Relative paths in it start from ``folder``, the working folder, as in dtrain; paths in the job are absolute. Raises
    UsageError for an unknown option, a wrong value or options of both generations, and DataError if the file cannot be
    read.
    """
    job = _Job(path, folder)
    for name in job.options:
        job.translate(name)
    return job.text()


class _Job:
    """The options of a dtrain file, and the job file that they become."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.path, self.folder = path, folder
        self.given: dict[str, tuple[int, str | None]] = {}
        """Line and text of the options in the file; the text is None for a name without ``=``."""
        self.year, self.evidence = max(GENERATIONS), ""
        """The generation, and the first option that only this one has."""
        self.sections: dict[str, list[str]] = {title: [] for title in _SECTIONS}
        self.sections["[learner]"] += ['preset = "dtrain"  # settings of dtrain\'s authors; differences follow']
        for number, line in lines(path):
            name, equals, text = (part.strip() for part in line.partition("#")[0].partition("="))
            if name or equals:
                self._check_name(name, number, line)
                self.given[name] = number, text if equals else None
        self.options = GENERATIONS[self.year]
        self.values = {name: option.default for name, option in self.options.items()}
        for name, (_, given) in self.given.items():
            kind = self.options[name].kind
            try:
                self.values[name] = _parse(kind, given)
            except ValueError as error:
                raise self._error(name, str(error)) from None
            if kind == "switch" and self.year == 2012:
                self.values[name] = True  # dtrain of 2012 checks only its presence

    def _check_name(self, name: str, number: int, line: str) -> None:
        """Raise UsageError unless ``line`` may set the option ``name``; note which generation has it."""
        years = [year for year, options in GENERATIONS.items() if name in options]
        found, expected = name, ""
        if not name or name.startswith("["):
            found, expected = repr(line), "name=value"
        elif name in _OF_CDEC_INI:
            expected = "an option of dtrain: is this the cdec.ini, which dtrain's file names?"
        elif name in self.given:
            found, expected = f"a second {name}", f"one (line {self.given[name][0]})"
        elif not years:
            near = difflib.get_close_matches(name, {each for options in GENERATIONS.values() for each in options}, n=1)
            found, expected = repr(name), "an option of dtrain" + "".join(f"; did you mean {each}?" for each in near)
        elif self.evidence and self.year not in years:
            found = f"{name}, an option of dtrain as of {years[0]}"
            expected = f"options of {self.year} only, as {self.evidence} in line {self.given[self.evidence][0]} is"
        if expected:
            raise UsageError(f"{self.path}:{number}: found {found}, expected {expected}")
        if len(years) == 1 and not self.evidence:
            self.year, self.evidence = years[0], name

    def _holds(self, condition: str) -> bool:
        """True if all words of an IF of the table hold."""

        def true(word: str) -> bool:
            name, operator, text = (*re.split("([=>])", word), "", "")[:3]
            value = self.values.get(name)
            if operator == ">":
                return value is not None and value > float(text)
            if operator:
                return value is not None and bool(value == _parse(self.options[name].kind, text))
            return name in self.given and value not in ("no", "none") and value is not False

        return all(true(word.lstrip("!")) != word.startswith("!") for word in condition.split())

    def translate(self, name: str) -> None:
        """Add what an option becomes."""
        value, (kind, default, ignored, cases) = self.values[name], self.options[name]
        if value is not False and (condition := next(filter(self._holds, ignored), "")):
            relation = "without" if condition.startswith("!") else "together with"
            return self._needless(name, f"no effect {relation} {condition.split()[0].lstrip('!')}")
        for outcome in next((outcomes for condition, outcomes in cases if self._holds(condition)), []):
            mark, _, reason = outcome.partition(" ")
            if mark == "error":
                raise self._error(name, reason)
            if mark.startswith("@"):
                getattr(self, f"_{mark[1:]}")(name)
            elif mark == "!!" or (mark == "!" and value != default):
                self._without(name, reason)
            elif mark == "!":
                self._needless(name, "dtrain's default, and the behaviour of mpitune")
            elif not (match := _KEY.fullmatch(outcome)):
                self._needless(name, outcome)
            elif kind == "file":
                self._file(name, match[1])
            elif value is not None:
                key, written, by, note = match.groups("")
                self._set(key, json.loads(written) if written else value, *[] if by else [name], by=by, note=note)

    def _as_written(self, name: str) -> str:
        """``name=value`` as in the file, or with dtrain's default."""
        value = self.values[name]
        if name not in self.given:
            return f"{name}={value if isinstance(value, str) else schema.literal(value)}, dtrain's default"
        return name if (text := self.given[name][1]) is None else f"{name}={text}"

    def _error(self, name: str, expected: str) -> UsageError:
        return UsageError(f"{self.path}:{self.given[name][0]}: found {self._as_written(name)}, expected {expected}")

    def _remark(self, table: str, text: str) -> None:
        self.sections[f"[{table}]"].append(f"# {printable(text)}")

    def _without(self, name: str, reason: str) -> None:
        self.sections[_WITHOUT].append(f"# {printable(f'{self._as_written(name)}: {reason}')}")

    def _needless(self, name: str, reason: str) -> None:
        if name in self.given:
            self.sections[_NEEDLESS].append(f"# {printable(f'{self._as_written(name)}: {reason}')}")

    def _set(self, key: str, value: Any, *names: str, by: str = "", note: str = "") -> None:
        """Set a key to a value that comes from the options ``names``, or has the reason ``by``.

        A key that is as in the preset, or as in mpitune by dtrain's defaults only, is left out.
        """
        table, _, last = key.partition(".")
        given = [name for name in names if name in self.given]
        if note:
            self._remark(table, note)
        if value == _DEFAULTS.get(key) and (key in _PRESET or not (given or by)):
            for name in given:
                self._needless(name, f"{key} = {schema.literal(value)}, as in the preset")
            return
        if given:
            by = f"dtrain: {', '.join(map(self._as_written, given))}"
        elif not by:
            whose = "the preset's" if key in _PRESET else "mpitune's"
            by = f"dtrain: {self._as_written(names[0])} ({whose}: {schema.literal(_DEFAULTS.get(key))})"
        self.sections[f"[{table}]"].append(f"{last} = {schema.literal(value)}  # {printable(by)}")

    def _absolute(self, name: str) -> Path:
        path = Path(os.path.abspath(self.folder / name))
        reads([path])
        return path

    def _file(self, name: str, key: str) -> None:
        if self.values[name] == "-":
            self._without(name, f"mpitune reads no standard input: name a file in {key}")
        elif name in self.given:
            path = self._absolute(self.values[name])
            note = "" if exists(path) else "There is no such file; was dtrain started in another folder?"
            self._set(key, [path] if key == "data.references" else path, name, note=note)

    def _passes(self, name: str) -> None:
        """A file without an input is for parallelize.rb, which gives each dtrain process the input of its shard."""
        if not self._holds("!bitext !input"):
            return self._set("learner.epochs", self.values[name], name)
        for table, remark in _SHARDS:
            self._remark(table, remark)
        if self.values[name] == 1:
            self._needless(name, "one pass over a shard in each epoch of parallelize.rb, as in mpitune")
        else:
            self._without(name, "passes over a shard in each epoch of parallelize.rb; always one in mpitune")

    def _result(self, name: str) -> None:
        """The mean over the epochs is the result of sgd, the last weights are those of itermix with one shard."""
        mean = self.values[name] in (True, "avg")
        if self._holds("!bitext !input"):
            self._needless(name, "parallelize.rb mixes the shards' weights; after one pass, mean and last are the same")
        else:
            self._set("learner.algorithm", "sgd" if mean else "itermix", name, note=_SELECTION)
            if not mean:
                self._set("parallel.shards", 1, by="with one shard itermix returns the weights of the last epoch")
        if self.values[name] in _RESULTS:
            self._remark("learner", _RESULTS[self.values[name]])

    def _l1(self, name: str) -> None:
        """Divide the strength by the learning rate, by which mpitune multiplies l1 and dtrain does not."""
        strength, of_2012 = self.values[name], self.year == 2012
        rate = 1.0 if self._holds("scale_bleu_diff") else self.values["learning_rate"]
        note = "dtrain subtracts the strength in each step; mpitune multiplies l1 by the learning rate."
        note += _L1[self.values["l1_reg"] if of_2012 else "clip"]
        names = ["l1_reg", name] if of_2012 else [name]
        self._set("learner.l1", float(f"{strength / rate:.12g}"), *names, note=note if strength else "")

    def _decoder(self, name: str) -> None:
        """Set decoder.config, and the keys that follow from this cdec.ini."""
        if name not in self.given:
            return self._remark("decoder", f"The file has no {name}: add config, or [grammar] and [[lm]].")
        path = self._absolute(self.values[name])
        self._set("decoder.config", path, name)
        try:
            ini = read_inifile(path)
        except DataError as error:
            return self._remark("decoder", f"The cdec.ini could not be read: {error}")
        if any(not file.is_absolute() for file in (*ini.grammars, *(model for _, model in ini.language_models))):
            note = "has paths relative to the working folder: start `mpitune train` in the same folder"
            self._remark("decoder", f"{path.name} {note}")
        if not ini.grammars:
            self._set("grammar.per_sentence", True, by=f"{path.name} names no grammar: the input's <seg> tags do")
        if unfit := ini.unsupported():
            self._remark("decoder", f"{path.name} asks for {', '.join(unfit)}: with that, mpitune cannot tune")
        if lacking := ini.unsupported_by_embedded():
            self._set("decoder.backend", "cdec", by=f"the embedded decoder does not have {', '.join(lacking)}")
        elif not ini.language_models:
            by = f"{path.name} has no language model, which the embedded decoder needs"
            self._set("decoder.backend", "cdec", by=by)
        else:
            if ini.add_pass_through is None:
                note = "does not set add_pass_through_rules: the embedded decoder always adds them"
                self._remark("decoder", f"{path.name} {note}")
            if ignored := ini.ignored_by_embedded():
                self._remark("decoder", f"{path.name} has {', '.join(ignored)}, which the embedded decoder ignores")
            if not ini.word_penalty:
                by = f"{path.name} does not use it, so its weight stays 0"
                self._set("learner.frozen", ["WordPenalty"], by=by)
        weights = [value for key, value in ini.unknown if key == "weights"]
        if weights and self.year == 2012 and "input_weights" not in self.given:
            # dtrain of 2012 starts from the weights of its decoder.
            by = f"{self.values[name]}: weights={weights[0]}"
            self._set("learner.initial_weights", self._absolute(weights[0]), by=by)

    def text(self) -> str:
        """The job file."""
        reason = "no option distinguishes 2016 from 2012"
        if self.evidence:
            reason = f"according to {self.evidence} in line {self.given[self.evidence][0]}"
        header = (
            f"From {self.path.absolute()}: a configuration of dtrain as of {self.year} ({reason}).",
            f"Relative paths were resolved from the working folder, as in dtrain: {self.folder.absolute()}",
            "dtrain processes the sentences in the order of the file, mpitune in a random order drawn from run.seed.",
        )
        written = [f"# {printable(line)}" for line in header]
        for title, content in self.sections.items():
            if content:
                written += ["#" if title.startswith("#") else "", title, *content]
        return "\n".join(written) + "\n"
