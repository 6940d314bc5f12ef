"""The pages: what each asks for, and the template that shows it.

Modules:

- `deaths`: Dead letters: the messages of a queue in groups, by why, where and with whom they died.
- `entering`: Logging in and out: by a login of the broker, by a token of a broker elsewhere, or by
  the link that `daybook console` printed for the operator.
- `forms`: Forms: a page for each command that changes something, made of the fields of its request.
- `lists`: Lists: a page for each request that reads rows, and the page of one queue, of one
  address.
- `messages`: The messages of a queue, and one of them: headers with their types, and the body as
  text, JSON, or bytes. Bodies are shown, never executed, and their beginning only
  (`views.BODY_BYTES_MAX`).
- `overview`: The overview of a broker: what is wrong, rates and levels of the last hour, memory,
  disk.
- `past`: The time machine: a moment of the history is chosen, and every page shows the broker as it
  was.
- `rights`: What a user may do at an address, or at one of its queues, and the rules that say so.
- `stories`: The story of a message: what happened to it, across queues, crashes and copies, as the
  command `journal trail` shows it; and the events of the journal, as `journal inspect` lists them.
"""
