"""HTTP/1.1 for supervisors and monitoring: `GET /live`, `GET /ready` and `GET /metrics`.

- `offer`: the line of the registry: scheme, options, sessions
- `session`: Session, one a connection: requests in, answers out
- `exposition`: the figures as Prometheus reads them, rendered at most once a second

Peers do not log in, so they can do nothing but ask these three questions.
"""
