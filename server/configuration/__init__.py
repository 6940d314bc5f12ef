"""The configuration: files and flags become checked, frozen structs.

It must never know a running broker. Its keys are those of `server.config_keys`. Begin with
`config`.

Modules:

- `anchor_targets`: Keeping anchors elsewhere: appended to a file, or posted to a URL.
- `config`: The configuration: parses a file and flags into frozen structs, or reports all errors.
- `config_changes`: What a new configuration changes: what is in force at once, and what needs a
  restart.
- `config_text`: Writing what a configuration says as the text of a broker.toml.
- `divert_config`: What is wrong with a [[divert]] of a configuration: all of it, and nothing twice.
- `encryption`: Whether the options of an acceptor for TLS go together, and whether it may do
  without TLS.
- `filter_parser`: Loading the parser of filters beside the event loop, so that the first filter is
  as quick as all others: importing it and making its tables takes more than a tenth of a second.
- `host_config`: The virtual hosts of a configuration: [[virtual-host]], and what other tables say
  of them.
- `security_config`: The permissions of a configuration: the rules of [[security-setting]], checked.
- `signing_config`: What may be configured about signing; reads nothing but the beginning of the
  key's file.
"""
