"""The broker as a deterministic state machine.

Nothing here reads a clock, a file, a socket or a random number.

Modules:

- `address_counts`: How many messages of an address queues took, and how many none did.
- `administration`: Deciding on the commands of administrators and of the configuration.
- `apply`: `apply`: the only code that changes the logical state, alike live and in every fold.
- `apply_recalls`: What events change when a new queue gets messages of before (`engine.recalling`).
- `apply_topology`: What events change of connections, consumers, addresses, queues, settings and
  diverts.
- `arrival`: A message on its way into many queues, as `engine.arrivals` has it.
- `arrivals`: Messages on their way into very many queues: decided by one event, entered in slices
  (ADR 89).
- `backlog`: The backlog of dispatch: queues that were touched and were not looked at yet.
- `beginning`: When a queue begins to deliver: with so many consumers, or some time after the first
  one.
- `bindings`: Bindings: each routes messages of an address into one queue (ADR 35).
- `broker`: The broker as a deterministic state machine: commands in, events and effects out.
- `browsing`: Browsers: they read the messages of a queue in order, and take none (ADR 50).
- `budget`: The work that the engine may still do before others have their turn (ADR 27).
- `bundles`: Bundles: the consumers of one subscription to several queues, with one credit (ADR 60).
- `bundling`: Deciding about subscriptions to several queues: all of their parts attach, or none
  (ADR 60).
- `carrying`: Recording the work of retention: content written again, and segments removed.
- `changing_settings`: Deciding on changes of address settings, by the configuration and by
  administrators.
- `choosing`: Choosing the consumer of each entry, among those that can take it.
- `chunks`: Deciding about the pieces of large messages, which are journaled before their message.
- `commands`: Commands: what sessions, timers and administrators ask of the broker.
- `compiled_filters`: Compiled filters by their texts: each is parsed once for all that use it, and
  in slices.
- `composite`: Deciding a message for several destinations: it goes to all of them, or to none.
- `connections`: Deciding about connections and about the broker's own start and stop.
- `content`: Reading the content of messages: the registry of formats, and a typed view of headers.
- `core`: What all deciding functions share: the state to read, and `emit`, the only way to change
  it.
- `dead_ends`: The addresses and queues for messages that were not delivered, expired, or found no
  queue.
- `deaths`: How a message died: why, where, when, after how many attempts, at whose hands, and how
  often.
- `definitions`: The definitions of addresses and queues: each attribute is listed once (DESIGN,
  section 12).
- `delivery`: Dispatching: looks at every queue that was touched, and delivers what is ready.
- `departing`: Deciding how a message leaves its queue for a dead letter address or an expiry
  address.
- `details`: The details of events: one struct for each kind that needs more than columns.
- `digest`: The digest of the logical state: equal digests mean equal states.
- `diverts`: Diverts: which of them take messages of an address, and what their copies look like
  (ADR 47).
- `dropping`: Recording that a message that was sent is dropped, and why; and what its flags say.
- `duplicates`: Deciding that a message came before: duplicates are detected by the ids that senders
  set.
- `durable_subscriptions`: Deciding about durable subscriptions: their queues, and what their names
  mean to a client.
- `events`: The one table of events: columns and kinds, with the details of each (`engine.details`).
- `expiry`: Deciding that a message's time has passed, at delivery and by a scan over due entries.
- `expiry_rules`: When a message expires, by what its sender says and the settings of its address
  (seed on expiry, section 2).
- `fading`: Ending histories that no address keeps any more, in slices (`engine.retroactive`).
- `feature_levels`: The feature level that events and states need, by the table in `daybook.levels`
  (ADR 79).
- `filters`: Filters, also called selectors: conditions on messages in the syntax of SQL-92 (JMS
  2.0, 3.8.1).
- `flights`: What is in flight from a queue, in the order of its positions: browsers read it in its
  place.
- `formats`: Formats of content: how the flags of a message name one, and what every codec must
  offer.
- `forwarding`: Deciding about diverts: creating and deleting them, and which of them take a message
  (ADR 47).
- `gap`: A gap: the part of a level of a queue whose entries only the store has.
- `grouping`: By which rule a queue knows its message groups, and what changes with its consumers.
- `groups`: Message groups: which consumer has which group of a queue (ADR 48).
- `handing`: Handing an entry to a consumer: makes one delivery.
- `hashing`: Message groups whose consumers follow from their names: consistent hashing (ADR 62).
- `headers`: Header lines, the first format of content: the canonical block, and its codec.
- `holding`: Deciding about held messages: trying to move them again, or delivering them again (ADR
  25).
- `host_limits`: The limits of a virtual host, as the configuration says them (ADR 58).
- `hosts`: Deciding whether a virtual host may have more, and whether there is one (ADR 58).
- `id_cache`: The ids of messages that an address remembers: the last ones, as many as its
  id-cache-size.
- `in_flight`: Finding deliveries in flight without a walk over all of them. Derived and volatile.
- `invariants`: Invariants of every state that the journal can lead to; checked after a fold, before
  serving.
- `judging`: Asking the filters of an address about a message in slices, before anything is decided
  (ADR 73).
- `kept_names`: Names that no new address or queue may have here, although protocols could spell
  them.
- `kinds`: Sets of kinds of events, each derived from the table in `engine.events`.
- `last_values`: Deciding that a newer message replaces an older one with the same last value key
  (ADR 45).
- `latest`: The newest message for each last value key of a queue, as far as the store does not know
  it.
- `level`: A level: the entries of a queue that are delivered in the order of their positions (ADR
  33).
- `life`: The changes that an event can make to an entry, and to the things that ids stand for.
- `lifetime`: How long queues and addresses stay that nobody uses: which go, and when (ADR 46).
- `lifetime_keys`: The keys of address settings about names: how they come into being by use, and
  how they go.
- `limits`: Deciding what happens when an address, the broker or the disk is full (ADR 10).
- `line`: Connections that wait for room, in line at the address they wait for: first come, first
  served.
- `matching`: Which matches cover an address, the most specific first: of address settings and
  permissions.
- `membership`: Deciding when bundles begin and end, and whose turn it is when their credit returns
  (ADR 60).
- `message`: What a queue contains: a message, which never changes, and an entry, a queue's
  reference to it.
- `misfit`: The error of an event that does not fit the state: a bug of the broker, or damage.
- `move_targets`: Whether messages may be moved into a queue: asked for every move of an
  administrator, by whatever command, about the real target.
- `moving`: Deciding what administrators do with messages of a queue: move, copy, retry, expire,
  remove.
- `names`: The rule for names of addresses and queues, the same for every way to create them.
- `no_local`: Subscriptions that get no messages of their own connection: `no-local`.
- `open_transactions`: The open transactions of all connections: their operations, and the memory
  they take together.
- `origins`: Where a message was before it was this one: dead letters, expired and moved messages,
  and copies that diverts make (ADR 71).
- `outcomes`: What became of a message that was just sent, according to the events decided about it.
- `own_headers`: The headers of messages that the broker alone sets: the one table of them.
- `patterns`: Patterns over names, and a trie that finds the patterns that match a name (ADR 35).
- `pending`: The open batch: events that were decided and applied, and are not yet given to the
  journal.
- `permissions`: Permissions: what a user may do at an address, by its roles and the rule of the
  address (ADR 55).
- `permitting`: Checking that the user of a connection may do what its command asks for
  (`engine.permissions`).
- `placing`: Choosing the queues of a message among those of its address, and putting it there.
- `pools`: The pools that all clients share, and the share that one user or one connection may take.
- `purging`: Queues that keep messages only while they have consumers: what is left goes with the
  last one.
- `queue_defaults`: The attributes that a queue has by the settings of its address unless its
  definition has them.
- `queue_names`: Finding a queue by the name that somebody gives it: QUEUE, or ADDRESS::QUEUE (fully
  qualified).
- `queues`: A queue: entries in their order of delivery, in memory and in the store.
- `quotas`: Deciding whether a client may create more: connections, queues, addresses,
  subscriptions, ids.
- `reasons`: Why the broker decided something: numbers and names of the reasons in events.
- `recall`: The recall of a new queue: how far it is with the messages that were sent before it
  existed.
- `recalling`: Deciding what a new queue gets of the messages that were sent before it existed (ADR
  49).
- `redelivery`: How long a message waits after a failed delivery (seed on redelivery, "Delayed
  Redelivery").
- `refusals`: Refusals: the answers to commands that the broker does not carry out.
- `regrouping`: Deciding that consumers give up message groups because an administrator asked for
  it.
- `residency`: Deciding what leaves memory; residency never changes what is delivered (ADR 7).
- `retaining`: Deciding about retained messages: one of each address, for queues to come (ADR 59).
- `retention_commands`: Commands of retention: content is written again, and segments leave.
- `retroactive`: Deciding about the history that an address keeps for queues to come (ADR 49).
- `retroactive_keys`: The keys of address settings about the history that an address keeps for
  queues to come.
- `rings`: Deciding which messages leave a ring queue: one that holds a fixed number of ready
  messages.
- `routing`: Deciding where a message goes: the queues of an address that get it.
- `rows`: Packing and unpacking rows of events in memory, with ids of any size (ADR 36).
- `scanning`: Reading a level from a position on, without making the entries of the store resident.
- `scheduling`: Deciding that an entry is not delivered before a time, and that this time has come
  (ADR 39).
- `seekers`: Subscriptions with wildcards over queues: which queues they find, now and later (ADR
  60).
- `sequences`: Sequence numbers: consumers that get only messages from a number on (ADR 50).
- `setting_key`: What a key of address settings is, and checks of values that several keys share.
- `setting_keys`: The keys of address settings: name, type, default, meaning, and what values are
  right.
- `settings`: Address settings: the merge of matches by specificity, and the origin of each value.
- `settlements`: How deliveries end, and what each end means for the message: the one table for
  both.
- `settling`: Deciding how a delivery ends: acknowledged, returned, or dead-lettered.
- `showing`: Showing the messages of a non-destructive queue to its consumers (ADR 44).
- `shown`: What consumers were shown and have not settled: volatile, and counted in memory (ADR 44).
- `signing`: Recording what a notary signed of the history (ADR 66).
- `sizes`: The sizes of addresses that do not page, and the memory of all queues.
- `slices`: Work that continues in slices without commands: closing connections, emptying queues,
  recalls.
- `spreading`: Choosing the one anycast queue that gets a message, where an address has several.
- `state`: The logical state of the broker: the queues and messages that the journal describes.
- `subscriptions`: Deciding about consumers: attach, detach, durable and temporary subscriptions.
- `sweeping`: Deleting queues and addresses that nobody uses any more, by a scan in slices (ADR 46).
- `syntax`: The characters of names and patterns: what divides words, and what stands for words.
- `temporary`: Deciding about the end of temporary destinations (ADR 57).
- `temporary_names`: Names of temporary destinations, and who may use them (ADR 57).
- `timers`: Timers: when to look at which entries, and why (ADR 39).
- `times`: About when the messages of histories were sent: marks of the time, with the LSN of each.
- `topology`: Deciding about addresses and queues: creation on demand or by command, rebinding,
  deletion.
- `tours`: What a browser has still to read, beyond its cursors: the state of `engine.browsing`.
- `transactions`: Deciding transactions: buffered until commit, then one indivisible group of
  events.
- `unlisted`: Deciding what becomes of names that the configuration listed once and lists no more
  (ADR 51).
- `unreadable`: Queues whose content cannot be read for now: only these rest, all others are served
  (ADR 21).
- `unrouted`: Deciding about messages that no queue takes: some go to the dead letter address
  instead.
- `updating`: Deciding about changes of queues and addresses that exist.
- `wildcards`: Wildcard addresses: which of them a name matches (ADR 40).
- `window`: How much of a queue comes into memory at a time. Must never know queues.
- `words`: Words of patterns that match part of a word: `I*`, `A*B`, and regular expressions in
  braces.
"""
