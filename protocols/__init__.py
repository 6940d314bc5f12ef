"""One folder for each protocol: sans-IO sessions turn bytes into commands and effects into bytes.

- `port`: the interfaces between a protocol, the server and the engine
- `registry`: the protocols by the scheme of their acceptors
- `stomp`: STOMP 1.0, 1.1 and 1.2
- `amqp`: AMQP 1.0
- `probe`: HTTP for supervisors and monitoring: `/live`, `/ready`, `/metrics`

No protocol imports another, and none knows sockets, clocks or files.

Modules:

- `amqp`: AMQP 1.0: connections, sessions and links, without input and output.
- `control`: Administration over the network: the requests of the control socket, behind a token.
- `port`: The interfaces between the server and its protocols.
- `probe`: HTTP/1.1 for supervisors and monitoring: `GET /live`, `GET /ready` and `GET /metrics`.
- `registry`: The registry: the protocols by the scheme of their acceptors. Adding one is a line
  here.
- `stomp`: STOMP 1.0, 1.1 and 1.2: sessions without input and output.
"""
