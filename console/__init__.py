"""A console in a browser: the broker, its queues and its past (ADR 112).

A process of its own, which shows what requests of administration and the library of history
answer. It computes nothing, and holds no rule about rights: the broker judges each request.

Modules:

- `app`: The application: its routes, what holds for all of them, and what lives as long as it does.
- `brokers`: The brokers that a console shows: requests of administration, sent with the rights of a
  user.
- `charts`: The chart of an answer to a query: which column is the axis, which ones are drawn, and
  why there is none.
- `connections`: The connections of browsers: accepts them, and bounds their number and their time.
- `console`: Everything that lives as long as a console does: brokers, sessions, samples, and
  workers.
- `console_config`: What a console is told when it starts: where it listens, and which brokers it
  shows.
- `files`: The files of the console that everybody may have: scripts, styles, and the icon.
- `hosts`: The names by which browsers may ask for the console.
- `jobs`: Work on history, in processes of its own with limits of time and memory.
- `menu`: The menu of a broker: its pages in groups, those that who looks may see, and that have
  something to show.
- `pages`: The pages: what each asks for, and the template that shows it.
- `rendering`: Templates, and how values are shown: everything is escaped, and nothing is trusted
  (ADR 112).
- `samples`: The figures of a broker over the last hour, sampled by the console.
- `serving`: Serves a console: the socket, its certificate, and the end.
- `sessions`: The sessions of browsers: who logged in where, for how long.
- `visits`: A visit: one request of a browser, with the session, the broker and the moment that it
  is about.
"""
