"""The data of the demo: German and English sentences, drawn from a hand-written synchronous grammar.

- `generate`: writes all files, from ``grammar.txt``, ``nouns.txt`` and ``verbs.txt``.
- `notation`, `lexicon`: read the grammar and its words; `synchronous`: draws derivations; `sentences`: their sentences.
- `noise`: errors of word alignment; `extraction`: the rules of the aligned sentences, with scores.
"""
