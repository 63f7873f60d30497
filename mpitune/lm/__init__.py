"""N-gram language models: ARPA files and KenLM binaries read for the decoder, and models estimated from text.

- `ngram_table`: `LanguageModel` and the lookups `child`, `entry` and `find` that decoder kernels call; `LmVocabulary`;
  the hash table for models read from ARPA files.
- `arpa`: `read_arpa` reads an ARPA file into that table; `arpa_lines`: its compiled parser;
  `ngram_adding`: n-grams added to the table.
- `kenlm`: `read_kenlm` checks a KenLM binary, `open_kenlm` maps it into memory; `probing`: lookups in its hash tables.
- `leave_one_out`: models as if a sentence had not been in their texts; `log_scale`: the unit of their scores;
  `seen_text`: a sign that a model has seen a text.
- `kneser_ney`: `estimate` computes an interpolated modified Kneser-Ney model; `numbered_text`: reads words as numbers;
  `ngram_runs`: sorts and counts n-grams; `interpolation`: kernels of smoothing; `arpa_writer`, `table_writer`:
  write the model as text or into that table.
"""
