"""The report of a run: one self-contained HTML file, and its plots as PNG.

- `html`: `write_report`; renders the template ``report.html.j2``; the only module to import jinja2.
- `charts`: the sections of plots, from the metrics of one or more runs: `SECTIONS`.
- `plots`: plots as SVG and PNG; the only module to import matplotlib.
- `response_curves`: value of a score to the model, for scores in bins.
- `diff`: comparison of two translations of the same sentences.
- `rule_names`: feature names in readable form.
- `derivations`: derivations as text and hypergraphs as JSON, for ``mpitune decode --explain`` and ``--forest``.
"""
