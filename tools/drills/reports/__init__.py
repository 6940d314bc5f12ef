"""The report of a drill: its structs, which are also its JSON, and its page.

It must never know a drill. Begin with `report`.

Modules:

- `output`: The report of a drill: command, machine, cases tried, findings, and cases that could not
  be tried.
- `page`: The report of a drill as one HTML page without scripts, other files or network.
- `plots`: Plots as SVG within a page, without scripts, fonts or files from elsewhere.
- `report`: The structs of a drill's report, which are also its JSON. Fields are only ever added.
"""
