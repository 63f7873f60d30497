"""Synchronous grammars (SCFG rules) and the features of rules.

- `rules`: `RuleReader` reads grammar files into `Rules` and `RuleTypes`, arrays of rules, alignments and scores.
- `line_parser`: `LineParser` parses the lines of a rule table to numbers, and defines their errors.
- `compiled_parser`: `CompiledParser` does the same for blocks of well-formed lines, several times as fast.
- `formats`: the rule tables of cdec, Joshua and Moses; `FORMATS` registers them.
- `grammars`: `Grammars` opens a grammar by its number; `ListedGrammars` are stored as lists of rules.
- `extracted`: `ExtractedGrammars` are stored as one table of rules with counts.
- `sparse`: templates of sparse features; `TEMPLATES` has them by name.
- `templates`: rules as words; `features`, the sparse features that a rule fires.
- `fired`: the same features as hashes of their names, computed by kernels from word numbers.
- `listed`: the features of templates that have no kernel, by rule type.
- `firing_rules`: the rules that fire given features.
- `score_transforms`: `Scoring` transforms the scores of a grammar or replaces them by bins.
- `binning`: `make_bins` puts the values of a score into bins of equal population.
- `cdec_ini`: `read_inifile` and `make_inifile` read and write cdec.ini.
"""
