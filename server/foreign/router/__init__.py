"""The configuration of a router, Apache Qpid Dispatch or skupper-router, read as if it were ours.
It must never act on the configuration.

Modules:

- `addresses`: Sections `address`, `autoLink` and `linkRoute` as entries of ours.
- `general`: Sections `router`, `log`, `policy` and `vhost`, and those that nothing is made of.
- `grammar`: The file of Apache Qpid Dispatch and skupper-router, as a list of sections with the
  line of each.
- `notes`: Notes on a file while it is read: faults, lost settings and needless ones, by line.
- `peers`: Sections `listener` and `connector` as acceptors and connectors of ours.
- `profiles`: Sections `sslProfile`, and what they mean for acceptors and connectors.
- `reasons`: Why attributes and sections of the router's configuration are not taken over.
- `router_conf`: The configuration of a router, Apache Qpid Dispatch or skupper-router, as the
  source of ours.
- `schema`: The sections of the router's configuration and their attributes, as its schema has them.
"""
