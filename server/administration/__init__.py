"""Requests of administrators over the control socket, and the views that answer them.

It must never know how a request was transported. Begin with `control`.

Modules:

- `acting`: Programs of the operator that act for users, with the users' rights: the console does.
- `admin_requests`: The table of administration: each request once.
- `admin_rights`: The rights of administrators over the network: the permission that each request
  needs, and where.
- `bodies`: The forms in which a body is shown: text, JSON and XML in order, and bytes.
- `broker_requests`: The rows of the table of administration about a broker as a whole: its virtual
  hosts, acceptors, sessions, transactions, users, roles and rights.
- `broker_views`: Views of a broker as a whole: virtual hosts, users and roles, in pages and in
  slices.
- `connections`: Connections, sessions, links, consumers and transactions for administrators: lists
  in pages, and closing connections.
- `control`: The control socket, over which the command line talks to the broker of a data
  directory.
- `deaths`: Deaths of messages, as the broker wrote them into dead letters and expired messages, and
  their groups. Reads the state in slices, without changing it. Must never know the asker.
- `message_counts`: How many messages of a queue an action would concern, counted as the action
  walks.
- `message_requests`: Requests about the messages of a queue: how many there are, and what
  administrators do with them.
- `overview`: All objects of a broker at a moment, except messages: all pages of its views.
- `premises`: The parts of a running broker beside its state: virtual hosts of its configuration,
  acceptors, users.
- `request_rows`: The rows of the table of administration (`server.administration.admin_requests`).
- `retries`: Retries with a limit of rate: messages of a queue go back to where they came from, a
  few at a time.
- `unfinished_retries`: The file that names the retries that run: a broker that starts after a crash
  says by it which did not end.
- `units`: How values are shown to people, in the console and on the command line, with their units.
- `views`: Views of a broker's state as plain data, for the control socket and the command line.
- `walks`: Reading the messages of a queue in order, from any place on, in slices.
- `ways`: The ways in which requests are sent, for all that show them: the fields that a way takes,
  the sentence about what was done, and the command line that sends the same.
"""
