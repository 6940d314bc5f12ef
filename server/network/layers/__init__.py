"""The layers between a socket and a session: TLS and WebSocket. A plain connection has neither.

Modules:

- `certificates`: The certificate of an acceptor, a console, a connector or a node of a cluster, and
  what its peers must show: files in, a TLS context out.
- `client_names`: The holder, and the login, of a certificate that a client has shown.
- `der`: Reading certificates in DER: the elements of ASN.1, and the holder of a certificate.
- `handshakes`: The handshakes of TLS, a few in each turn of the event loop.
- `shell`: TLS of a connection, with the socket below and the session above it.
- `tls`: TLS of one connection, between its socket and the layer above: bytes in, bytes out.
- `websocket`: WebSocket of a connection (RFC 6455), with the socket or TLS below and the session
  above it.
"""
