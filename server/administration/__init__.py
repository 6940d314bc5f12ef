"""Requests of administrators over the control socket, and the views that answer them.

It must never know how a request was transported. Begin with `control`.

Modules:

- `admin_rights`: What an administrator may do over the network: which permission each request
  needs, and where.
- `connections`: Connections and consumers for administrators: listed in pages, and closed by id,
  user or address.
- `control`: The control socket, over which the command line talks to the broker of a data
  directory.
- `divert_requests`: The requests of the control socket about diverts. Must never know how they are
  transported.
- `group_requests`: The requests of the control socket about message groups.
- `queue_requests`: Requests of administrators that change queues and addresses, and the users
  behind them.
- `rights_requests`: Requests of the control socket about permissions. Must never know how they are
  transported.
- `views`: Views of a broker's state as plain data, for the control socket and the command line.
"""
