"""Requests of administrators over the control socket, and the views that answer them.

It must never know how a request was transported. Begin with `control`.

Modules:

- `acting`: Programs of the operator that act for users, with the users' rights: the console does.
- `admin_requests`: The table of administration: each request once.
- `admin_rights`: The rights of administrators over the network: the permission that each request
  needs, and where.
- `connections`: Connections, links and consumers for administrators: lists in pages, and closing
  connections.
- `control`: The control socket, over which the command line talks to the broker of a data
  directory.
- `deaths`: Deaths of messages, as the broker wrote them into dead letters and expired messages, and
  their groups. Must never know how pages of a queue are asked for.
- `overview`: All objects of a broker at a moment, except messages: all pages of its views.
- `request_rows`: The rows of the table of administration (`server.administration.admin_requests`).
- `units`: The units of numbers that are shown to people.
- `views`: Views of a broker's state as plain data, for the control socket and the command line.
- `ways`: The ways in which requests are sent, for all that show them: the fields that a way takes,
  the sentence about what was done, and the command line that sends the same.
"""
