"""The forgeries that an audit may miss, and why: the list of cells that nothing can cover.

Rows are kinds of events, fields of them (patterns, separated by commas), and why. The first row
that fits a cell counts. A cell in no row must show every forgery.
"""

from typing import Final

TOLERANCE: Final = (
    "Times inside `--clock-tolerance`: clocks are corrected, so an event may have any time there. "
    "`journal verify DATA --public-key KEY` finds every time that was changed before a mark."
)
WISH: Final = (
    "What a client, an administrator or the configuration asked for. Nothing else repeats it; it "
    "shows only where a later event contradicts it."
)
WORDS: Final = "Words for the reader, which decide nothing."
SIGNATURE: Final = "`journal verify` checks it, with the keys of the signatures."
DIGEST: Final = "`journal verify` compares it with the state."
OUTSIDE: Final = "It is about files, or another data directory, which the journal does not contain."
REFUSED: Final = "Nothing was done, so nothing before or after it can contradict it."
CONTENT: Final = (
    "Content shows only where something was copied from it, or where a filter reads it. Signatures "
    "show every change."
)
ERASED: Final = (
    "An event that no later one needs: without it the history could have happened. Signatures, and "
    "anchors, show that an event is missing."
)
ORDER: Final = (
    "Events that do not depend on each other could have come in either order. Signatures cover the "
    "order of all blocks: `journal verify DATA --public-key KEY` finds what was exchanged before a "
    "mark."
)
CHOICE: Final = (
    "Volatile: the credit of consumers, whose turn it is, how long a queue or address was unused. "
    "Several values are possible, and each of them is allowed."
)
SENDER: Final = (
    "What the sender said of its message. A message with other facts in every event about it is "
    "another message, and a connection that did nothing else another one, that could have been."
)
UNREADABLE: Final = (
    "The content of the message is not journaled, or left with its segment, so it may be any."
)
MACHINE: Final = (
    "The journal does not record disk and memory of the machine, limits of the whole broker, ids "
    "that are in memory only. The event has the inputs of the decision, and nothing repeats them."
)
PARTING: Final = (
    "A client may end a consumer, a delivery or a transaction itself, just before "
    "its connection ends for another reason. Nothing witnesses the end of one without consumers."
)
SETTLED: Final = (
    "The consumer's words about a message that it was only shown; nothing happens to it."
)
SAID: Final = (
    "The consumer's words about its failure; nothing repeats them if the message stays. "
    "Annotations are state, so a digest shows them, and the copies of the message have them."
)
ANSWERED: Final = (
    "What the receiver said of the message, or whether it got it before it left. Only its sender "
    "hears that."
)

UNSEEN: Final[tuple[tuple[str, str, str], ...]] = (
    ("*", "time", TOLERANCE),
    ("Signed SigningKeyChanged", "*", SIGNATURE),
    ("BrokerStopped Checkpoint", "detail.digest,detail.hurried,related", DIGEST),
    ("Forked Lost SegmentsRemoved", "*", OUTSIDE),
    ("BrokerStarted", "detail.*", OUTSIDE),
    ("Routed Forwarded Dropped Diverted", "detail.came_from", OUTSIDE),
    ("ConnectionRefused PermissionRefused", "*", REFUSED),
    ("ConnectionOpened", "detail.*", WISH),
    ("*", "detail.text", WORDS),
    ("TransactionRolledBack", "detail.transaction", WORDS),
    ("Administered", "detail.*", WISH),
    ("AddressCreated AddressUpdated QueueCreated QueueUpdated SettingsChanged", "detail.*", WISH),
    ("DivertCreated DivertDeleted ConsumerAttached BundleOpened", "detail.*", WISH),
    ("GroupsReset", "detail.*,queue", WISH),
    ("Address* Queue* Divert* Settings*", "reason,connection", WISH),
    ("QueuePaused DuplicateIdsCleared QueueCreated Address*", "queue,address", WISH),
    ("ConsumerAttached", "queue", WISH),
    ("Routed Carried ChunkReceived Forwarded", "headers,body", CONTENT),
    ("*", "missing,twice", ERASED),
    ("*", "swapped", ORDER),
    ("", "blocks swapped", ORDER),
    ("Routed", "priority,flags.*,connection,detail.expires,detail.due", SENDER),
    ("Routed", "detail.chunks,detail.body_bytes", SENDER),
    ("Carried", "*", UNREADABLE),
    ("Seen", "priority,flags.*,message", UNREADABLE),
    ("ChunkReceived", "connection,related", SENDER),
    ("Shown", "message", CHOICE),
    ("PagingStarted PagingStopped", "detail.bytes", UNREADABLE),
    ("RecallStarted", "detail.*", WISH),
    ("TransactionCommitted", "detail.transaction", SENDER),
    ("Acknowledged", "reason", CHOICE),
    ("Acknowledged", "message", WISH),
    ("Returned", "delivery_count", CHOICE),
    ("Returned", "detail.*", SAID),
    ("Routed", "detail.annotations", SAID),
    ("Delivered", "other consumer", CHOICE),
    ("Administered", "related", WISH),
    ("Released", "reason", WISH),
    ("BundleOpened Con* Transaction* LinkAttached Forwarded", "connection", SENDER),
    ("Con* LinkDetached Returned TransactionRolledBack", "reason", PARTING),
    ("Seen", "reason", SETTLED),
    ("Routed", "reason,related,detail.named,detail.unrouted_at", SENDER),
    ("Routed Due", "detail.last_values,detail.last_value", UNREADABLE),
    ("Routed", "dropped", MACHINE),
    ("QueueDeleted", "queue", WISH),
    ("Dropped", "reason", MACHINE),
    ("Dropped", "*", SENDER),
    ("Diverted", "flags.*,detail.basis", SENDER),
    ("PagingStarted", "reason", UNREADABLE),
    ("PagingStarted", "address", CHOICE),
    ("Removed", "reason", CHOICE),
    ("Removed", "message", WISH),
    ("Due", "reason", WISH),
    ("DuplicateIdRecorded", "detail.duplicate_id", SENDER),
    ("Recalled", "detail.history,history", CHOICE),
    ("Routed DuplicateIdRecorded OwnerEnded", "queue,address,connection", SENDER),
    ("Delivered", "reason", WISH),
    ("Seen", "consumer", SETTLED),
    ("LinkAttached DistributionsChanged", "detail.*", WISH),
    ("Forwarded", "priority,flags.*,detail.*,related", SENDER),
    ("Forwarded", "consumer", CHOICE),
    ("ForwardSettled", "reason,detail.*", ANSWERED),
)  # fmt: skip
"""By kinds and fields, why nothing can see a forgery, or some of them."""
