"""The report of a run: one self-contained HTML file, and its plots as PNG.

- `html`: `write_report`; renders the template ``report.html.j2``; the only module to import jinja2.
- `charts`: the sections of plots, from the metrics of one or more runs.
- `plots`: plots as SVG and PNG; the only module to import matplotlib.
- `readable`: features, rules and derivations as text, hypergraphs as JSON; also for ``mpitune decode``.
"""
