"""The report of a drill: its structs, which are also its JSON, and its page.

It must never know a drill. Begin with `report`.

Modules:

- `output`: The report of a drill: what was asked, where, what was tried, what was found, and what
  could not be tried.
- `page`: The report of a drill as one HTML page that needs nothing else: no scripts, no files, no
  network.
- `plots`: Plots as SVG within a page, without scripts, fonts or files from elsewhere.
- `report`: The structs of a drill's report, which are also its JSON. Fields are only ever added.
"""
