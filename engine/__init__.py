"""The broker as a deterministic state machine.

Nothing here reads a clock, a file, a socket or a random number.

Modules:

- `administration`: Deciding what administrators and the configuration ask for.
- `apply`: `apply`: the only code that changes the logical state, the same live and in every fold.
- `bindings`: Bindings: what leads a message from an address into a queue (ADR 35).
- `broker`: The broker as a deterministic state machine: commands in, events and effects out.
- `budget`: How much the engine may still do before others have their turn (ADR 27).
- `carrying`: Recording what retention does: content written again, and segments that left.
- `choosing`: Choosing who gets what: entries in order meet consumers that can take them.
- `commands`: Commands: what sessions, timers and administrators ask of the broker.
- `connections`: Deciding about connections and about the broker's own start and stop.
- `content`: Content of messages, read: the registry of formats, and a typed view of what headers
  say.
- `core`: What all deciding functions share: the state to read, and `emit`, the only way to change
  it.
- `definitions`: What addresses and queues are: their attributes, each listed once (DESIGN, section
  12).
- `delivery`: Dispatching: every queue that was touched is looked at, and who gets what of it is
  chosen.
- `departing`: Deciding how a message leaves its queue for a dead letter address or an expiry
  address.
- `digest`: The digest of the logical state: equal digests mean equal states.
- `duplicates`: Deciding that a message came before: detection of duplicates by the ids that senders
  give.
- `events`: The one table of events: columns, kinds, reasons and details.
- `expiry`: Deciding that a message's time has passed, at delivery and by a scan over what is due.
- `formats`: Formats of content: how the flags of a message name one, and what every codec of one
  offers.
- `gap`: A gap: the part of a level of a queue whose entries only the store has.
- `handing`: Handing an entry to a consumer: what one delivery is, whoever chose it.
- `headers`: Header lines, the first format of content: the canonical block, and the codec of it.
- `holding`: Deciding about messages that are held: to try their way again, or to deliver them again
  (ADR 25).
- `id_cache`: The ids of messages that an address remembers: the last ones, as many as its
  id-cache-size.
- `in_flight`: Finding deliveries in flight without a walk over all of them. Derived and volatile.
- `invariants`: What is true of every state that the journal can lead to; checked after a fold,
  before serving.
- `kinds`: Sets of kinds of events, each derived from the table in `engine.events`.
- `level`: A level: the entries of a queue that are delivered in the order of their positions (ADR
  33).
- `life`: What an event can do to an entry, and to the things that ids stand for: words for the
  table.
- `limits`: Deciding what happens when an address, the broker or the disk is full (ADR 10).
- `line`: Who waits for room, by the address that they wait for: first come, first served.
- `message`: What lies in a queue: a message, which never changes, and an entry, a queue's reference
  to it.
- `names`: What addresses and queues may be called: the one rule, whoever asks for the name.
- `open_transactions`: The open transactions of all connections: what each is to do, and what all
  weigh together.
- `outcomes`: What became of a message that was just sent, as the events say that were decided about
  it.
- `patterns`: Patterns over names, and which of many match a name: found word by word in a trie (ADR
  35).
- `pending`: The open batch: events that were decided and applied, on their way to the journal.
- `queues`: A queue: entries in the order in which they are to be delivered, in memory and out of
  it.
- `quotas`: Deciding what a client may still make: connections, queues, addresses, subscriptions,
  ids.
- `refusals`: Refusals: what the broker answers to a command that it will not carry out.
- `residency`: Deciding what leaves memory: residency never shows in what is delivered (ADR 7).
- `routing`: Deciding where a message goes: the queues of an address, and how it gets there.
- `rows`: Rows of events as bytes in memory, whatever their ids: packed, and taken apart (ADR 36).
- `scanning`: Looking into a level from a position on, without making resident what the store has.
- `scheduling`: Deciding that an entry is not delivered before a time, and that this time has come
  (ADR 39).
- `settings`: Address settings: the table of keys, the merge by specificity, and where a value came
  from.
- `settlements`: How deliveries end, and what each end means for the message: the one table of both.
- `settling`: Deciding how a delivery ends: acknowledged, returned, or dead-lettered.
- `sizes`: How much the addresses hold that do not page, and what all queues have in memory.
- `slices`: What goes on by itself, a slice at a time: connections that end, queues that are being
  emptied.
- `state`: The logical state of the broker: what the journal says the queues are.
- `subscriptions`: Deciding who consumes from what: attach, detach, durable and temporary
  subscriptions.
- `timers`: Timers: which entries are to be looked at when a time comes, and why (ADR 39).
- `topology`: Deciding about addresses and queues: creation on demand or by command, rebinding,
  deletion.
- `transactions`: Deciding transactions: buffered until commit, then one indivisible group of
  events.
- `unreadable`: Queues whose content cannot be read for now: they rest, and all others go on (ADR
  21).
"""
