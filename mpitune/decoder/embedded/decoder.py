"""`EmbeddedDecoder`: SCFG parsing, cube pruning with n-gram language models, lazy k-best extraction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np

from mpitune.array_files.grow import grow_to
from mpitune.decoder.base import Hypergraph, KBest, PackedForest, Sentence, TranslationModel, empty_translation
from mpitune.decoder.embedded import automaton, chart, cube, explain, kbest, matched, packed, readout, sample, trie
from mpitune.decoder.embedded.arena import Arena
from mpitune.decoder.embedded.forest import Forest
from mpitune.grammar import fired
from mpitune.grammar.rules import GOAL, PHRASE, Rules, RuleTypes, unary_levels
from mpitune.grammar.score_transforms import Scoring
from mpitune.grammar.sparse import Rule
from mpitune.grammar.templates import GLUE, features, pass_through
from mpitune.lm.leave_one_out import LeftOut, without
from mpitune.lm.ngram_table import UNKNOWN

LM_STATES = 1 << 16
"""Initial capacity of an automaton for halves of LM states; doubled if a sentence needs more."""
TRANSITIONS = 1 << 13
"""Initial number of cached LM transitions, for at most as many rules in a sentence: 256 kB, which fit a cache."""
MOST_TRANSITIONS = 1 << 20
"""The most cached LM transitions: 32 MB."""


class EmbeddedDecoder:
    """Decodes with Numba kernels; see `ForestDecoder` for its methods."""

    def __init__(
        self,
        model: TranslationModel,
        *,
        pop_limit: int = 200,
        rule_margin: float = 0.0,
        span_limit: int = 15,
        unique: bool = True,
    ) -> None:
        """``pop_limit``: candidates popped for each vertex in cube pruning; ``rule_margin``: what LM context may add to
        the estimate of a candidate, in log10 probability, 0: none is estimated (`cube`); ``span_limit``: the most
        source words that a rule of a category other than S covers; ``unique``: a k-best list contains each translation
        once.
        """
        self._model = model
        self._pop_limit = pop_limit
        self._rule_margin = rule_margin
        self._span_limit = span_limit
        self._unique = unique
        dense = model.dense_features()
        self.features = model.feature_table()
        self.failed = 0
        self._lm_slot = np.array([dense.index(name) for name in model.lm_names], dtype=np.int32)
        self._score_slot = np.array([dense.index(name) for name in model.score_names], dtype=np.int32)
        scoring = model.scoring or Scoring()
        self._word_penalty_slot = -1 if scoring.replaces("WordPenalty") else dense.index("WordPenalty")
        self._speller = fired.Speller(model.templates, model.grammars.types, model.categories, model.words.words)
        self._templates = fired.in_order(model.templates)
        self._glue = [self._fixed_row(GLUE[0], []), self._fixed_row(GLUE[1], ["Glue"])]
        self._of_pass_through = ["PassThrough", *scoring.of_pass_through()]
        self._pass_through: dict[int, tuple[list[int], list[float]]] = {}
        self._lm_word = np.zeros((len(model.lms), 0), dtype=np.int32)
        self._category_order = _category_order(model.grammars.types, len(model.categories))
        self._grammar = -1
        self._rules: Rules
        self._spelling: fired.Spelling
        self._phrases: tuple[trie.Trie, np.ndarray]
        self._goals: tuple[trie.Trie, np.ndarray]
        self._stamp = 1
        self._space = {"vertices": 1 << 10, "edges": 1 << 13, "items": 1 << 13, "groups": 1 << 11}
        self._scratch = readout.new_scratch(0, 0)
        self._arena = Arena()
        self._lm_states, self._transitions = LM_STATES, TRANSITIONS
        self._automata: tuple[automaton.Automaton, ...] = ()

    def decode(self, sentence: Sentence, weights: np.ndarray, k: int) -> KBest:
        """At most ``k`` translations of ``sentence`` under ``weights`` (float64 by slot of `features`).

        A sentence of no words has one translation, of no words.
        """
        if len(sentence.words) == 0:
            return empty_translation()
        parsed, rules, forest = self._search(sentence, weights)
        found = kbest.best_derivations(self._arena, forest, rules, k, self._unique)
        return self._extract_kbest(sentence, weights, parsed, rules, forest, *found)

    def sample(self, sentence: Sentence, weights: np.ndarray, k: int, random: np.random.Generator) -> KBest:
        """Translations of ``k`` derivations sampled from the forest of `decode`, with probability ~ exp(score)."""
        if len(sentence.words) == 0:
            return empty_translation()
        parsed, rules, forest = self._search(sentence, weights)
        found = sample.sampled_derivations(self._arena, forest, rules, k, self._unique, random)
        return self._extract_kbest(sentence, weights, parsed, rules, forest, *found)

    def decode_all(self, sentence: Sentence, weights: np.ndarray, k: int) -> tuple[KBest, PackedForest]:
        """The result of `decode`, and the forest that it is extracted from."""
        if len(sentence.words) == 0:
            return empty_translation(), packed.empty_forest(self._lm_slot)
        parsed, rules, forest = self._search(sentence, weights)
        found = kbest.best_derivations(self._arena, forest, rules, k, self._unique)
        listed = self._extract_kbest(sentence, weights, parsed, rules, forest, *found)
        part = packed.reachable(forest)
        self._give_slots(sentence, parsed, rules, part.rule[1:])
        return listed, packed.pack(forest, rules, part, self._lm_slot)

    def _extract_kbest(
        self,
        sentence: Sentence,
        weights: np.ndarray,
        parsed: chart.Chart,
        rules: matched.MatchedRules,
        forest: Forest,
        found: np.ndarray,
        derivations: kbest.Derivations,
    ) -> KBest:
        """The translations of ``found``, int32 indices of ``derivations`` of ``forest``."""
        self._give_slots(sentence, parsed, rules, readout.rules_without_slots(forest, rules, derivations, found))
        slots, depth = len(self.features), len(sentence.words) * len(self._category_order) + 1
        if len(self._scratch.total) < slots or len(self._scratch.stack) < depth + 2:
            # With room for features of the next sentences.
            self._scratch = readout.new_scratch(slots + slots // 4, depth)
        order = readout.SlotOrder(self.features.first_dynamic_slot, self.features.dynamic_ids)
        return readout.extract_kbest(forest, rules, derivations, found, self._lm_slot, weights, order, self._scratch)

    def _give_slots(
        self, sentence: Sentence, parsed: chart.Chart, rules: matched.MatchedRules, numbers: np.ndarray
    ) -> None:
        """Name those features of the rules ``numbers`` (int32) of ``rules`` that are new, and give them slots."""
        source = self._model.words.decode(sentence.words)
        names, places = list[str](), list[np.ndarray]()
        for number in numbers.tolist():
            begin, end = rules.features.ptr[number : number + 2].tolist()
            column = rules.features.column[begin:end]
            if column.min(initial=0) > matched.NO_SLOT:
                continue
            rule, _ = explain.rule_of(self._model, self._rules, source, parsed, rules, number)
            sparse = np.flatnonzero((column == matched.NO_SLOT) | (column >= self.features.first_dynamic_slot))
            new = np.flatnonzero(column[sparse] == matched.NO_SLOT)
            of_rule = features(self._templates, rule)
            names += [of_rule[i][0] for i in new.tolist()]
            places.append(begin + sparse[new])
        if names:
            rules.features.column[np.concatenate(places)] = self.features.slots(names)

    def forest(self, sentence: Sentence, weights: np.ndarray, k: int = 0) -> Hypergraph:
        """The hypergraph that `decode` extracts its list from, with the derivations of the ``k`` best entries."""
        if len(sentence.words) == 0:
            return explain.empty_hypergraph(self._lm_slot, k)
        parsed, rules, forest = self._search(sentence, weights)
        self._give_slots(sentence, parsed, rules, packed.reachable(forest).rule[1:])
        found = kbest.best_derivations(self._arena, forest, rules, k, self._unique)
        source = self._model.words.decode(sentence.words)
        return explain.hypergraph(
            self._model, self._rules, source, parsed, rules, forest, found, self._lm_slot, weights
        )

    def _search(self, sentence: Sentence, weights: np.ndarray) -> tuple[chart.Chart, matched.MatchedRules, Forest]:
        """The forest of ``sentence`` without LMs, its rules, and the forest with LMs."""
        self._arena.reset()
        if sentence.grammar != self._grammar:
            self._open_grammar(sentence.grammar)
        weights = grow_to(weights, self.features.first_dynamic_slot)
        parsed = self._parse(sentence)
        with self._without(sentence.left_out):
            rules = matched.match(self._arena, parsed, self._rule_sources(sentence), weights)
            return parsed, rules, self._add_lms(parsed, rules, weights[self._lm_slot])

    @contextmanager
    def _without(self, left_out: Sequence[LeftOut]) -> Iterator[None]:
        """Within the block, a sentence is ``left_out`` of the LMs."""
        if not left_out:
            yield
            return
        self._update_lm_words()
        lm_word = self._lm_word
        unknown = [
            np.isin(numbers, left.node[np.isneginf(left.prob)]) for numbers, left in zip(lm_word, left_out, strict=True)
        ]
        with ExitStack() as stack:
            for (lm, _), left in zip(self._model.lms, left_out, strict=True):
                stack.enter_context(without(lm, left))
            # Transitions of other sentences do not hold for this one, nor those of this one for others.
            self._automata, self._lm_word = (), np.where(np.stack(unknown), np.int32(UNKNOWN), lm_word)
            try:
                yield
            finally:
                self._automata, self._lm_word = (), lm_word

    def _add_lms(self, parsed: chart.Chart, rules: matched.MatchedRules, lm_weight: np.ndarray) -> Forest:
        """The forest with LMs; ``lm_weight``: float64 [LMs]. Automata out of space are replaced, larger if needed."""
        wanted = self._transitions
        while wanted < min(len(rules.score), MOST_TRANSITIONS):
            wanted *= 2
        is_new = wanted > self._transitions or any(map(automaton.is_half_full, self._automata))
        self._transitions = wanted
        # Created at the first sentence: in the constructor, every rank would compile kernels for them.
        if is_new or len(self._automata) < len(self._model.lms):
            self._replace_automata()
        mark = self._arena.mark()
        while True:
            forest = cube.search(
                self._arena, parsed, rules, self._automata, lm_weight, self._pop_limit, self._rule_margin
            )
            if forest is not None:
                return forest
            # Full of states of earlier sentences, or too small for this one. Twice the space costs less than to search
            # again so often.
            self._arena.release(mark)
            self._lm_states *= 2
            self._replace_automata()

    def _replace_automata(self) -> None:
        """Replace the automata by empty ones."""
        self._automata = tuple(
            automaton.new_automaton(lm, self._lm_states, self._transitions) for lm, _ in self._model.lms
        )

    def _parse(self, sentence: Sentence) -> chart.Chart:
        """The forest without LMs. Space is doubled until the sentence fits."""
        n, mark = len(sentence.words), self._arena.mark()
        while True:
            space = self._space
            result = chart.new_chart(
                self._arena, n, len(self._category_order), space["vertices"], space["edges"], space["groups"] + n
            )
            context = chart.ParseContext(
                words=sentence.words,
                span_limit=self._span_limit,
                category_order=self._category_order,
                phrases=chart.MatchedGrammar(
                    self._phrases[0], chart.new_items(self._arena, n, space["items"]), self._phrases[1]
                ),
                goals=chart.MatchedGrammar(
                    self._goals[0], chart.new_items(self._arena, n, space["items"]), self._goals[1]
                ),
                stamp=self._stamp,
            )
            complete = chart.parse(context, result)
            self._stamp += len(result.group_rule)
            if complete:
                return result
            self._arena.release(mark)
            self._space = {name: 2 * size for name, size in space.items()}

    def _open_grammar(self, grammar: int) -> None:
        """Parse the next sentences with ``grammar``, an index in the store."""
        self._rules = self._model.grammars.open(grammar)
        self._spelling = self._speller.of(self._rules.type)
        phrases = trie.build(self._rules, goal=False)
        goals = trie.build(self._rules, goal=True)
        self._phrases = phrases, np.zeros(len(phrases.lhs), dtype=np.int64)
        self._goals = goals, np.zeros(len(goals.lhs), dtype=np.int64)
        self._grammar = grammar

    def _rule_sources(self, sentence: Sentence) -> matched.RuleSources:
        """The sentence, its grammar and the features of its rules, as `matched.match` reads them."""
        self._update_lm_words()
        for word in sentence.words.tolist():
            if word not in self._pass_through:
                rule = pass_through(self._model.words.words[word])
                self._pass_through[word] = self._fixed_row(rule, self._of_pass_through)
        rows = self._glue + [self._pass_through[word] for word in sentence.words.tolist()]
        return matched.RuleSources(
            words=sentence.words,
            rules=self._rules,
            spelling=self._spelling,
            known=self.features.hashes,
            first_known=self.features.first_dynamic_slot,
            fixed=matched.Rows(
                np.cumsum([0] + [len(row[0]) for row in rows], dtype=np.int64),
                np.array([slot for row in rows for slot in row[0]], dtype=np.int32),
                np.array([value for row in rows for value in row[1]], dtype=np.float64),
            ),
            score_slot=self._score_slot,
            word_penalty_slot=self._word_penalty_slot,
            lm_word=self._lm_word,
            oov_slot=self._lm_slot + np.int32(1),
        )

    def _fixed_row(self, rule: Rule, dense: Sequence[str]) -> tuple[list[int], list[float]]:
        """Slots and values of the features of a rule that no grammar contains; ``dense``: its dense indicators."""
        row = [(name, 1.0) for name in dense]
        row += features(self._templates, rule)
        return [self.features.slot(name) for name, _ in row], [value for _, value in row]

    def _update_lm_words(self) -> None:
        """Look up new words of the vocabulary in the LMs."""
        known = self._lm_word.shape[1]
        new = self._model.words.words[known:]
        if new:
            numbers = [vocabulary.numbers(new) for _, vocabulary in self._model.lms]
            self._lm_word = np.ascontiguousarray(np.concatenate([self._lm_word, np.stack(numbers)], axis=1))


def _category_order(types: RuleTypes, categories: int) -> np.ndarray:
    """int32 [categories]: every category after those that unary rules rewrite as it (grammar readers reject cycles)."""
    unary = np.flatnonzero(np.diff(types.source_ptr) == 1)
    first = types.source[types.source_ptr[unary]]
    below = {(int(lhs), -1 - int(gap)) for lhs, gap in zip(types.lhs[unary], first, strict=True) if gap < 0}
    below.add((GOAL, PHRASE))
    level = np.zeros(categories, dtype=np.int64)
    for number, members in enumerate(unary_levels(below)):
        level[members] = number
    return np.argsort(level, kind="stable").astype(np.int32)
