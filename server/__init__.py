"""All input and output of the broker.

Modules:

- `acceptor_options`: The tables of keys of an [[acceptor]]: name, type, default, and meaning of
  each.
- `admission`: Who may connect: how many sockets there are, from where, and how many have not logged
  in.
- `blocked`: Peers whose command waits for room at a full address: not read, and let go on in order.
- `config`: The configuration: a file and flags become frozen structs, or an error that says what is
  right.
- `config_source`: What a configuration file and flags say, before anybody asks whether it is right.
- `connections`: Connections as administrators see them: listed by pages, and closed by number, user
  or address.
- `control`: The control socket: how the command line talks to the broker that runs on a data
  directory.
- `deadlines`: When sessions want to be called next: a heap of deadlines, without those of peers
  that have gone.
- `descriptors`: Descriptors of the broker's process: how many there are, and how many of them are
  for files.
- `disk_space`: How full the disk of the data directory is, and whether that is too full.
- `disk_watch`: Watching the disk of the data directory: is it full, by its limits or because no
  segment fits?
- `door`: The door of the broker: all that stands between a peer that connects and a user's
  connection.
- `ending`: The end of a broker: what was decided becomes durable, if that is still possible, and
  all ends.
- `entrances`: Where the connections of an acceptor lead: to the hub, or to those who look on.
- `error_frames`: Logging the ERROR frames that end connections: who got which, without drowning the
  log.
- `figures`: The figures of a broker: what each is called, what it means, and where it is read.
- `guard`: The guard: a thread that takes the signals of a serving broker, and that nothing can hold
  up.
- `hangups`: Noticing that peers are gone of whom nothing is read.
- `health`: What is wrong with a broker, and whether that keeps it from taking messages.
- `hub`: The hub: where sessions, engine, outbox and journal writer meet. No asyncio, no sockets, no
  threads.
- `hub_options`: What the configuration says to the hub. Must never know which hub, or when.
- `indexing`: Keeping an indexer running beside the broker, and telling the hub how far it is (ADR
  8).
- `journaling`: The data directory of a broker, from before its event loop to after it.
- `keeping`: What the hub needs of those who keep the journal: who writes it, and who reads chunks
  back.
- `kinds`: Types of configuration values: what they are called, and how what was written is
  understood.
- `leaving`: Carrying out the steps of a round of retention, while clients are served.
- `listeners`: Listening sockets and connections: the asyncio shell around the hub.
- `logins`: Logins: who is let in at once, who waits for a passcode to be hashed, and who may not
  even wait.
- `logs`: Structured logs on standard error: for people on a terminal, JSON lines otherwise.
- `machine_memory`: How much memory there is: that of the machine, or less where a control group
  allows less.
- `memory`: The account of memory: everything that grows with what clients do, and what is done
  about it.
- `memory_limits`: What the configuration says about memory, as the limits of the account and of the
  engine.
- `notifying`: Telling systemd how the broker is: ready, stopping, alive (`sd_notify(3)`,
  `Type=notify`).
- `onlookers`: Those who look on: connections of protocols that see the broker and decide nothing
  (ADR 30).
- `option`: A row of the tables of configuration keys, and what to say of a key that is in none.
- `options`: The tables of configuration keys: section, name, type, default, and meaning of each.
- `outbox`: The outbox: bytes wait here until what they speak of is durable (promise P1).
- `peer`: A peer: one connection, its session, its transport, and what is on the way between them.
- `ports`: What is said to the hub and by it: options and notices.
- `refusals`: What the journal keeps of peers that were not let in: little, whatever they send and
  how often.
- `retention`: Retention: history leaves the live set by whole segments, and nothing that is queued
  with it.
- `service`: The broker as a process: start, serve, reload, stop.
- `sight`: What the server shows those who look on: whether it lives, whether it is ready, and
  figures.
- `slow_consumers`: Consumers that are slower than the settings of their address want them: found,
  told of, ended.
- `supervision`: Supervision of background work: nothing that the server does by itself ends in
  silence.
- `tally`: Counting what strangers can cause often: the first of a kind is told, the others are
  counted.
- `toml_source`: A TOML file with the line of every key, so that errors can point at it.
- `turns`: Turns: who goes on in the next one, how much each may do in it, and how long they take
  (ADR 27).
- `unindexed`: What is journaled and not indexed yet, and what senders meet because of it.
- `users`: Who may log in: logins with salted, slow hashes of their passcodes, in a file.
- `version`: The version of this release, as the distribution says.
- `views`: What can be seen of a broker's state, as plain data: for the control socket and the
  command line.
"""
