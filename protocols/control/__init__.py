"""Administration over the network: the requests of the control socket, behind a token.

Each line is a JSON object. The first has the token of a user, each further one a request; each is
answered by a line: {"result": ...} or {"error": {"code": ..., "text": ...}}.

Modules:

- `offer`: The offer of the control protocol to the registry. Must never know where values come
  from.
- `session`: A session of an administrator: lines in, one token and then requests out, answers back.
"""
