"""The pages: what each asks for, and the template that shows it.

Modules:

- `cluster`: The cluster of a broker: which node leads, how far the others are, and a clean
  hand-over.
- `deaths`: Dead letters: the messages of a queue in groups, by why, where and with whom they died.
- `entering`: Logging in and out: by a login of the broker, by a token of a broker elsewhere, or by
  the link that `daybook console` printed for the operator.
- `forms`: Forms: a page for each command that changes something, made of the fields of its request.
- `growth`: How a queue grew in the last hour or day: the numbers of the charts on its page, counted
  from the journal as `journal growth` counts them, as far as that takes a second.
- `integrity`: Integrity: the reports of verifications, audits and drills, how far history is
  signed, anchored and archived, and checks that are begun here.
- `lists`: Lists: a page for each request that reads rows, and the page of one queue, of one
  address.
- `manual`: The documentation of this release, a page of it as text: problems lead to its sections,
  and forms to its pages.
- `messages`: The messages of a queue, and one of them: headers with their types, and the body as
  text, JSON, XML or bytes, a large one by pieces. Bodies are shown, never executed.
- `overview`: The overview of a broker: what is wrong, rates and levels of the last hour, memory,
  disk.
- `past`: The time machine: a moment of the history is chosen, and every page shows the broker as it
  was.
- `queries`: Queries in SQL over the history: a table of the answer, a chart of it, and files; the
  same as `journal sql`.
- `rights`: What a user may do at an address, or at one of its queues, and the rules that say so.
- `stories`: The story of a message: what happened to it, across queues, crashes and copies, as the
  command `journal trail` shows it; and the events of the journal, as `journal inspect` lists them.
"""
