"""All input and output of the broker.

| module | what it holds |
|---|---|
| `service` | the process: start, serve, reload, stop |
| `hub` | where sessions, engine, outbox and journal writer meet; no asyncio |
| `outbox` | bytes wait here until what they speak of is durable |
| `peer` | one connection as the hub sees it |
| `listeners` | sockets |
| `control` | the control socket for the command line |
| `config`, `options`, `config_source`, `toml_source` | the configuration |
| `users` | logins |
| `logs` | structured logs |
| `entrances` | where the connections of an acceptor lead |
| `onlookers`, `sight`, `figures`, `health` | those who look on, and what they see |
| `version` | which release this is |
"""
