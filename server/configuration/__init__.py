"""The configuration: files and flags become checked, frozen structs.

It must never know a running broker. Its keys are those of `server.config_keys`. Begin with
`config`.

Modules:

- `anchor_targets`: Keeping anchors elsewhere: appended to a file, or posted to a URL.
- `auto_link_config`: The auto-links and sharded queues of a configuration, and what follows from
  them for addresses.
- `config`: The configuration: parses a file and flags into frozen structs, or reports all errors.
- `config_changes`: The changes of a new configuration: those in force at once, and those that need
  a restart.
- `config_text`: Writing a configuration as the text of a broker.toml.
- `connector_config`: The connectors of a configuration: each [[connector]], checked.
- `console_section`: Where a console listens, and what proves history to it: the section [console],
  and the rules that hold for every console.
- `distribution_config`: The distributions of a configuration: each [[address]] with a prefix or a
  pattern, and names that something else in the configuration needs to be stored.
- `divert_config`: The faults of a [[divert]] of a configuration: all of them, each once.
- `encryption`: Checks the options of an acceptor for TLS, and whether it may work without TLS.
- `filter_parser`: Loading the parser of filters beside the event loop, so that the first filter is
  as quick as all others: importing it and making its tables takes more than a tenth of a second.
- `host_config`: The virtual hosts of a configuration: [[virtual-host]], and references in other
  tables.
- `link_checks`: Contradictions between links of the configuration and the rest of it.
- `link_route_config`: The link routes of a configuration: each [[link-route]], checked.
- `replication_config`: The standbys of a configuration: [replication] and its
  [[replication-node]]s, checked.
- `security_config`: The permissions of a configuration: the rules of [[security-setting]], checked.
- `signing_config`: The configuration of signing; reads only the beginning of the key's file.
"""
