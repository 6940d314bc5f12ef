"""HTTP/1.1 for supervisors and monitoring: `GET /live`, `GET /ready` and `GET /metrics`.

- `offer`: the line of the registry: scheme, options, sessions
- `session`: Session, one for each connection: requests in, answers out
- `hosts`: the hosts that it answers to
- `exposition`: the metrics in the format of Prometheus, rendered at most once a second

Peers do not log in, so these three requests are all that they can do.

Modules:

- `exposition`: The metrics in the format of Prometheus: rendered in slices, at most once a second
  for all peers.
- `hosts`: The hosts that a probe answers to: requests for any other name are refused.
- `offer`: The probe's offer to the registry. Must never know where the values of options come from.
- `session`: A session of the probe: requests of HTTP/1.1 in, answers out.
"""
