"""Requests of administrators over the control socket, and the views that answer them.

It must never know how a request was transported. Begin with `control`.

Modules:

- `admin_requests`: The table of administration: each request once.
- `admin_rights`: The rights of administrators over the network: the permission that each request
  needs, and where.
- `connections`: Connections, links and consumers for administrators: lists in pages, and closing
  connections.
- `control`: The control socket, over which the command line talks to the broker of a data
  directory.
- `overview`: All objects of a broker at a moment, except messages: all pages of its views.
- `request_rows`: The rows of the table of administration (`server.administration.admin_requests`).
- `views`: Views of a broker's state as plain data, for the control socket and the command line.
"""
