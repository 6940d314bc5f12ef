"""What a referee (`tests.support.referee`) knows of queues and messages."""

from typing import Any

import msgspec

from daybook.engine.facts import reasons
from daybook.engine.settings.setting_key import NO_LIMIT

READY, IN_FLIGHT, HELD, SCHEDULED = "ready", "in flight", "held", "scheduled"
FAILURES = (reasons.NACK, reasons.DISCONNECTED, reasons.TIMEOUT)


class Foul(AssertionError):
    """An event that no broker may decide, or a state that none may come to rest in."""


class Told(msgspec.Struct):
    """What clients told the broker, and events do not say.

    `claims` are, by body, the earliest delivery and the expiry of a message, in milliseconds since
    1970, 0 for nothing; `refused` the messages that somebody will never take.
    """

    claims: dict[bytes, tuple[int, int]] = {}
    refused: set[int] = set()


class Item(msgspec.Struct):
    """A message in a queue."""

    message: int
    is_persistent: bool
    expires: int
    group: int
    closes: bool
    where: str = READY
    count: int = 0
    consumer: int = 0
    due: int = 0
    not_before: int = 0
    key: str | None = None
    owes_delay: bool = False
    readers: set[int] = set()


class Shelf(msgspec.Struct):
    """A queue: its attributes, what it holds, and what the events so far bind it to."""

    id: int
    address: int
    definition: Any
    items: dict[int, Item] = {}
    consumers: dict[int, Any] = {}
    holder: int = 0
    bound: dict[int, int] = {}
    is_paused: bool = False
    is_deleting: bool = False
    room: int = NO_LIMIT
    begun: bool | None = False
    was_used: bool = False
    must_empty: bool = False
    is_vague: bool = False
    # How many messages left it because it ends.
    ending: int = 0
    # Whether it is still getting messages that were sent before it existed.
    is_recalling: bool = False

    @property
    def is_history(self) -> bool:
        """Whether it keeps what was sent to another address, for queues to come."""
        return bool(self.definition.keeps)

    @property
    def is_held_for_good(self) -> bool:
        """Whether an exclusive consumer gets everything, as long as it stays."""
        return self.holder in self.consumers and self.consumers[self.holder].exclusive

    def find_holder(self) -> None:
        """The first exclusive consumer gets everything; without one nobody does for now."""
        exclusive = (number for number, each in self.consumers.items() if each.exclusive)
        self.holder = next(exclusive, 0)

    def count_of(self, where: str) -> int:
        return sum(item.where == where for item in self.items.values())
