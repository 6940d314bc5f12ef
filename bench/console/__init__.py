"""How fast the console answers with very much behind it: `python -m bench.console`.

Modules:

- `visitor`: A browser without scripts, as a load: it logs in at a console by the operator's link,
  and times pages. Must never know what a page says.
- `worlds`: Worlds that are as large as a console must bear: many queues, many messages, a long
  history.
"""
