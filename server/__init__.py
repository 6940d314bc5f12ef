"""All input and output of the broker.

Modules:

- `acceptor_config`: What the configuration says of an acceptor, and the words of its options for
  TLS.
- `acceptor_options`: The tables of keys of an [[acceptor]]: name, type, default, and meaning of
  each.
- `admin_rights`: What an administrator may do over the network: which permission each request
  needs, and where.
- `administering`: Requests of administrators that change queues and addresses, and the users behind
  them.
- `administrators`: Administrators: connections of Administering protocols, whose requests are those
  of the control socket.
- `admission`: Limits on connections: in total, for each address, and for connections without a
  login.
- `anchoring`: Keeping anchors elsewhere: appended to a file, or posted to a URL.
- `blocked`: Blocked peers: their command waits for space at a full address. They resume in order.
- `config`: The configuration: parses a file and flags into frozen structs, or reports all errors.
- `config_changes`: What a new configuration changes: what is in force at once, and what needs a
  restart.
- `config_source`: Reads a configuration file and flags, without checking the values.
- `config_text`: Writing what a configuration says as the text of a broker.toml.
- `configured`: What a configuration asks the engine for: the commands that put it in force, in
  order.
- `configuring`: Putting a configuration in force: its commands, one after the other, each durable
  before the next.
- `connections`: Connections and consumers for administrators: listed in pages, and closed by id,
  user or address.
- `control`: The control socket, over which the command line talks to the broker of a data
  directory.
- `deadlines`: The deadlines of sessions: a heap that also bounds its obsolete entries.
- `denials`: Records in the journal what users were refused for want of a permission, within limits.
- `descriptors`: The file descriptors of the broker: how many there are, and how many are reserved
  for files.
- `disk_space`: How full the disk of the data directory is, and whether that is too full.
- `disk_watch`: Watching the disk of the data directory: is it full, by its limits or because no
  segment fits?
- `divert_config`: What is wrong with a [[divert]] of a configuration: all of it, and nothing twice.
- `divert_requests`: The requests of the control socket about diverts. Must never know how they are
  transported.
- `door`: The checks between a new socket and the connection of a user.
- `encryption`: Whether the options of an acceptor for TLS go together, and whether it may do
  without TLS.
- `ending`: The stop of a broker: all decided events become durable, if that is still possible.
- `entrances`: Connects an acceptor to the hub, to onlookers, or to administrators.
- `error_frames`: Logs what ends connections, ERROR frames for example, with a limit on the number
  of lines.
- `figures`: The metrics of a broker: name, meaning, and how each is read.
- `filter_parser`: Loading the parser of filters beside the event loop, so that the first filter is
  as quick as all others: importing it and making its tables takes more than a tenth of a second.
- `foreign`: Configurations of other brokers, read as if they were ours. Nothing here acts on what
  it reads.
- `group_requests`: The requests of the control socket about message groups.
- `guard`: The guard: a thread that handles the signals of a broker even when its event loop hangs.
- `hangups`: Detects closed connections of peers from which nothing is read.
- `health`: The problems of a broker, and whether they prevent it from accepting messages.
- `heap`: Giving memory back to the system when what took it is gone.
- `host_config`: The virtual hosts of a configuration: [[virtual-host]], and what other tables say
  of them.
- `hub`: The hub: where sessions, engine, outbox and journal writer meet. No asyncio, no sockets, no
  threads.
- `hub_options`: Converts the configuration to options of the hub and of all sessions. Must never
  know a hub.
- `in_turns`: Doing work on many objects with turns of the event loop between its slices
  (`server.slicing`).
- `indexing`: Keeps an indexer running beside the broker, and reports its progress to the hub (ADR
  8).
- `journal_options`: The table of the configuration keys of [journal]: how history is written, kept
  and found.
- `journaling`: The data directory of a broker, from before its event loop to after it.
- `keeping`: What the hub needs of the journal: a writer, and a reader of chunks.
- `kinds`: Types of configuration values: their names in the documentation, and their parsers.
- `layers`: What lies between a socket and a session: TLS and WebSocket. A plain connection has
  neither.
- `leaving`: Executes the steps of a round of retention, while clients are served.
- `listeners`: Listening sockets: accepts connections within the limits, or refuses them with a
  reason.
- `logins`: Logins: accepted at once, queued for hashing the passcode, or refused.
- `logs`: Structured logs on standard error: for people on a terminal, JSON lines otherwise.
- `machine_memory`: The available memory: that of the machine, or less if a control group has a
  lower limit.
- `memory`: The memory account: memory that clients can make grow, and its limits.
- `memory_limits`: Converts the configuration of memory to the limits of the account and of the
  engine.
- `notary`: The notary: a process of the broker that signs history and keeps anchors of it (ADR 66).
- `notary_messages`: What the broker and its notary say to each other: one JSON object on each line.
- `notifying`: Notifies systemd that the broker is ready, stopping, alive (`sd_notify(3)`,
  `Type=notify`).
- `onlookers`: Onlookers: connections of Watching protocols, which read figures and decide nothing
  (ADR 30).
- `option`: A row of the tables of configuration keys, and the error for an unknown key.
- `options`: The tables of configuration keys: section, name, type, default, and meaning of each.
- `outbox`: The outbox: output waits here until the events that it reports are durable (promise P1).
- `pacing`: When the index is to advance: rarely while nothing waits for it, at once when something
  does.
- `passcode_hashes`: Hashes of passcodes: Argon2 for new ones, and PBKDF2 as other brokers have made
  them.
- `paused_queues`: Paused queues in which messages wait: how many there are, and the names of some.
- `peer`: A peer: one connection, its session, its transport, and the bytes between them.
- `peer_socket`: One socket of a peer: its transport, and the layers between the socket and the
  session.
- `peers`: What all connections beside the hub's have in common: those of administrators and of
  onlookers.
- `pools`: The pools that the server guards: those of connections that no user has, and of records.
- `ports`: The hub's options and notices.
- `pulse`: How often the periodic work of a broker is done: less often where nothing happens.
- `refusals`: Records refused logins in the journal, with a limit on their number and content.
- `retention`: Retention: whole segments leave the live set; queued messages stay.
- `rights`: Puts the permissions of the configuration in force for the users of a broker.
- `rights_requests`: Requests of the control socket about permissions. Must never know how they are
  transported.
- `security_config`: The permissions of a configuration: the rules of [[security-setting]], checked.
- `service`: The broker as a process: start, serve, reload, stop.
- `setting_values`: The values of address settings as people write them: numbers, texts with units,
  TOML.
- `shares`: The memory that each user holds, by kind, and which users hold more than their share.
- `sight`: What the server shows to Watching protocols: whether it is live and ready, and its
  metrics.
- `signing`: The notary of a broker, from the broker's side: what is to be signed, and what was (ADR
  66).
- `signing_config`: What may be configured about signing; reads nothing but the beginning of the
  key's file.
- `slicing`: Work on many objects in slices, between which a running broker has turns.
- `slow_consumers`: Slow consumers, by the settings of their address: detects, reports and
  disconnects them.
- `supervision`: Supervision of background work, so that no failure of it goes unnoticed.
- `tally`: Limits reports that strangers can cause: the first of a kind is reported, others are
  counted.
- `toml_source`: A TOML file with the line of every key, so that errors can point at it.
- `turn_lengths`: How much work a turn may have: less while a client that asks for little waits for
  others.
- `turns`: Turns: which peers continue in the next one, how much work each may do, and turn times
  (ADR 27).
- `unindexed`: The bytes that are journaled but not indexed yet, and their limit.
- `users`: Who may log in: logins with salted, slow hashes of their passcodes, and their roles, in a
  file.
- `users_file`: The users file: what is known of each user, read and replaced as a whole.
- `version`: The version of this release, as the distribution says.
- `views`: Views of a broker's state as plain data, for the control socket and the command line.
"""
