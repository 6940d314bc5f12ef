"""HTTP/1.1 for supervisors and monitoring: `GET /live`, `GET /ready` and `GET /metrics`.

- `offer`: the line of the registry: scheme, options, sessions
- `session`: Session, one a connection: requests in, answers out
- `exposition`: the figures as Prometheus reads them, rendered at most once a second

Peers do not log in, so they can do nothing but ask these three questions.

Modules:

- `exposition`: The figures as Prometheus reads them: rendered in slices, at most once a second for
  all peers.
- `offer`: The probe as the registry has it. Must never know where the values of options come from.
- `session`: A session of the probe: requests of HTTP/1.1 in, answers out.
"""
