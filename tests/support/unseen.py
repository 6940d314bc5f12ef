"""What an audit may miss of a forged journal, and why: the list of cells that nothing can cover.

Rows are kinds of events, fields of them (patterns, separated by commas), and why. The first row
that fits a cell counts. A cell in no row must show every forgery.
"""

from typing import Final

TOLERANCE: Final = (
    "Times inside `--clock-tolerance`: clocks are corrected, so an event may have any time there."
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
    "Events that do not depend on each other could have come in either order. Signed marks show "
    "that blocks were exchanged."
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
OPEN: Final = "No rule asks this yet."

UNSEEN: Final[tuple[tuple[str, str, str], ...]] = (
    ("*", "time", TOLERANCE),
    ("Signed SigningKeyChanged", "*", SIGNATURE),
    ("BrokerStopped Checkpoint", "detail.digest,related", DIGEST),
    ("Forked Lost SegmentsRemoved", "*", OUTSIDE),
    ("BrokerStarted", "detail.*", OUTSIDE),
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
    ("Routed Carried ChunkReceived", "headers,body", CONTENT),
    ("*", "missing,twice", ERASED),
    ("*", "swapped", ORDER),
    ("", "blocks swapped", ORDER),
    ("Routed", "priority,flags.*,connection,detail.expires", SENDER),
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
    ("Routed", "detail.origin", OPEN),
    ("Returned", "delivery_count", CHOICE),
    ("Administered", "related", WISH),
    ("Released", "reason", WISH),
    ("BundleOpened Con* Transaction*", "connection", SENDER),
    ("ConnectionClosed ConsumerDetached Returned TransactionRolledBack", "reason", OPEN),
    ("Routed", "reason,related,detail.last_values,detail.unrouted_at", OPEN),
    ("Dropped", "*", OPEN),
    ("DeadLettered Expired Removed Scheduled Due Seen Held PagingStarted", "reason", OPEN),
    ("Removed", "connection,related", OPEN),
    ("Scheduled", "detail.due", OPEN),
    ("Due", "detail.last_value", OPEN),
    ("DuplicateIdRecorded", "*", OPEN),
    ("Diverted", "*", OPEN),
    ("Recalled", "detail.size,detail.last_values", OPEN),
)  # fmt: skip
"""By kinds and fields, why nothing can see a forgery, or some of them."""
