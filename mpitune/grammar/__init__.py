"""Synchronous grammars (SCFG rules) and the features of rules.

- `rules`: `RuleReader` reads grammar files into `Rules`, arrays of rules, alignments and scores.
- `formats`: line parsers for the rule tables of cdec, Joshua and Moses; `FORMATS` registers them.
- `templates`: sparse features of rules; `TEMPLATES` registers the templates, `compile_features` applies them.
- `choices`: the names of templates.
- `score_transforms`: `Scoring` transforms the scores of a grammar or replaces them by bins.
- `binning`: `make_bins` puts the values of a score into bins of equal population.
- `cdec_ini`: `read_inifile` and `make_inifile` read and write cdec.ini.
"""
