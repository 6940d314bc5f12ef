"""How fast the console answers with very much behind it: `python -m bench.console`.

Modules:

- `beside`: An honest client of a broker, alone and beside browsers that keep the console busy.
- `pages`: The pages that are asked for: each that the console has, in worlds that are large for it.
- `served`: A console that is measured: it shows one data directory, and a browser is logged in
  there. Must never know which pages there are.
- `visitor`: A browser without scripts, as a load: it logs in at a console by the operator's link,
  and times pages. Must never know what a page says.
- `worlds`: Worlds that are as large as a console must bear: many queues, many messages, a long
  history.
"""
