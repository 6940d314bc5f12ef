"""The vocabulary of the configuration: its keys, the kinds of their values, and how files are read.

It must never know what a configuration as a whole may say, nor other brokers' configurations. Begin
with `options`, then `config_source`.

Modules:

- `acceptor_config`: An acceptor in the configuration, and the values of its options for TLS.
- `acceptor_options`: The tables of keys of an [[acceptor]]: name, type, default, and meaning of
  each.
- `config_source`: Reads a configuration file and flags, without checking the values.
- `connector_options`: The tables of keys of [[connector]], [[auto-link]], [[sharded-queue]] and
  [[link-route]]: connections that the broker opens, and links that it attaches by itself, or passes
  on.
- `journal_options`: The table of the configuration keys of [journal]: how history is written, kept
  and found.
- `kinds`: Types of configuration values: their names in the documentation, and their parsers.
- `option`: A row of the tables of configuration keys, and the error for an unknown key.
- `options`: The tables of configuration keys: section, name, type, default, and meaning of each.
- `replication_options`: The tables of the configuration keys of [replication] and
  [[replication-node]]: standbys.
- `setting_values`: The values of address settings as people write them: numbers, texts with units,
  TOML; and those of addresses without any.
- `toml_source`: A TOML file with the line of every key, so that errors can point at it.
"""
