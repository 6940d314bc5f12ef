"""The configuration: files and flags become checked, frozen structs.

It must never know a running broker. Begin with `config`, then `options`.

Modules:

- `acceptor_config`: What the configuration says of an acceptor, and the words of its options for
  TLS.
- `acceptor_options`: The tables of keys of an [[acceptor]]: name, type, default, and meaning of
  each.
- `anchor_targets`: Keeping anchors elsewhere: appended to a file, or posted to a URL.
- `config`: The configuration: parses a file and flags into frozen structs, or reports all errors.
- `config_changes`: What a new configuration changes: what is in force at once, and what needs a
  restart.
- `config_source`: Reads a configuration file and flags, without checking the values.
- `config_text`: Writing what a configuration says as the text of a broker.toml.
- `divert_config`: What is wrong with a [[divert]] of a configuration: all of it, and nothing twice.
- `encryption`: Whether the options of an acceptor for TLS go together, and whether it may do
  without TLS.
- `filter_parser`: Loading the parser of filters beside the event loop, so that the first filter is
  as quick as all others: importing it and making its tables takes more than a tenth of a second.
- `host_config`: The virtual hosts of a configuration: [[virtual-host]], and what other tables say
  of them.
- `journal_options`: The table of the configuration keys of [journal]: how history is written, kept
  and found.
- `kinds`: Types of configuration values: their names in the documentation, and their parsers.
- `option`: A row of the tables of configuration keys, and the error for an unknown key.
- `options`: The tables of configuration keys: section, name, type, default, and meaning of each.
- `security_config`: The permissions of a configuration: the rules of [[security-setting]], checked.
- `setting_values`: The values of address settings as people write them: numbers, texts with units,
  TOML.
- `signing_config`: What may be configured about signing; reads nothing but the beginning of the
  key's file.
- `toml_source`: A TOML file with the line of every key, so that errors can point at it.
"""
