"""The parts of what deciding functions share: room, work, rights, and direct addresses.

All of it is volatile. Each part is changed by the rules that it belongs to. Must never know an
event or a command.
"""

from collections import Counter
from typing import Final

from daybook.engine.facts.definitions import Distribution
from daybook.engine.limits.waiting_senders import WaitingSenders
from daybook.engine.links.links import DirectLinks
from daybook.engine.queues.consumer import Connection, Consumer
from daybook.engine.queues.entry import NOTHING_PASSED
from daybook.engine.queues.queue import Address, Queue
from daybook.engine.settings.distributions import Distributions
from daybook.engine.settings.known_names import KnownNames
from daybook.engine.settings.permissions import Denial, Permissions
from daybook.engine.settings.setting_keys import BLOCK
from daybook.engine.state.sizes import Sizes


class Room:
    """The limits that are reached, and the consequences for addresses (`engine.core.capacity`).

    The texts say what the broker is short of, as sentences for refused clients; each is empty if it
    is not short of it: `disk_full`; `memory_full` for messages, `objects_full` for queues,
    addresses and ids, `objects_over` even for consumers, `users_short` the last two by user;
    `behind` while the index is too far behind, then `behind_policy` says what becomes of messages,
    and addresses with less than `behind_least` bytes take them anyway. `line` are connections that
    wait for room. `resized` and `opened` are addresses whose state the next dispatch looks at.
    """

    __slots__ = (
        "behind",
        "behind_least",
        "behind_policy",
        "disk_full",
        "is_full",
        "is_over",
        "memory_full",
        "objects_full",
        "objects_over",
        "opened",
        "resized",
        "review_due",
        "sizes",
        "users_short",
        "waiting",
        "was_high",
    )  # fmt: skip

    def __init__(self) -> None:
        self.sizes: Final = Sizes()
        self.waiting: Final = WaitingSenders()
        self.disk_full = ""
        self.memory_full = ""
        self.objects_full = ""
        self.objects_over = ""
        self.users_short: dict[str, tuple[str, str]] = {}
        self.behind = ""
        self.behind_policy = BLOCK
        self.behind_least = 0
        self.is_full = self.is_over = self.was_high = self.review_due = False
        self.resized: dict[int, Address] = {}
        self.opened: dict[int, Address] = {}


class Work:
    """Work that continues in slices, without a command (`engine.consumers.slices`), and scans.

    `closing` and `emptying` are connections and deleted queues, by id, `ending` how many queues of
    an address are being deleted, by its id, since events still name it. `purging` says up to which
    position a queue loses what it has, by its id (`engine.topology.purges`). `more_due` and
    `more_scheduled` say that a scan was cut. `names_to_scan` is what a scan for unused names has
    still to look at: queues, and addresses with a minus. `held_changed` says that an address may
    accept held messages by now, `held_walk` and `held_place` are the queues that a walk over those
    has still to visit, and its place in the last of them, `held_again` is when held messages that
    could not be read are tried again, 0 if there are none, and `unread_due` when those that are due
    are, by their ids. `histories_to_review` have still to be compared with the settings. `stolen`
    are consumers whose subscription another one took over, by their ids, with the reason for their
    clients.
    """

    __slots__ = (
        "closing", "emptying", "ending", "held_again", "held_changed", "held_place", "held_walk",
        "histories_to_review", "more_due", "more_scheduled", "names_to_scan", "purging", "stolen",
        "unread_due",
    )  # fmt: skip

    def __init__(self, *, is_holding: bool) -> None:
        self.closing: dict[int, Closing] = {}
        self.emptying: dict[int, Emptying] = {}
        self.ending: Counter[int] = Counter()
        self.purging: dict[int, int] = {}
        self.more_due = self.more_scheduled = False
        self.names_to_scan: list[int] = []
        self.held_changed = is_holding
        self.held_walk: list[int] = []
        self.held_place = NOTHING_PASSED
        self.held_again = 0
        self.unread_due: dict[int, int] = {}
        self.histories_to_review: list[int] = []
        self.stolen: dict[int, str] = {}


class Rights:
    """What users may do (`engine.core.permission_checks`).

    `permissions` are the rules, None if there are none, `senders` the connections and destinations
    that they allow to send, `denials` refusals that are still to be recorded. `is_forwarding` says
    that copies of diverts are being routed, which need no permission.
    """

    __slots__ = ("denials", "is_forwarding", "permissions", "senders")

    def __init__(self) -> None:
        self.permissions: Permissions | None = None
        self.senders: set[tuple[int, str, str | None]] = set()
        self.denials: list[Denial] = []
        self.is_forwarding = False


class Direct(DirectLinks):
    """Direct addresses (`engine.direct`): those in use with their links, and which names are such.

    `distributions` is the table that says so, and `routes` what it says of names that were asked
    for. `unjournaled` is the last id of a message that has no event.
    """

    __slots__ = ("distributions", "routes", "unjournaled")

    def __init__(self) -> None:
        super().__init__()
        self.distributions = Distributions()
        self.routes: Final[KnownNames[Distribution]] = KnownNames()
        self.unjournaled = 0

    @property
    def is_used(self) -> bool:
        """Whether an address may be a direct one."""
        return self.distributions.is_used or bool(self.addresses)


class Closing:
    """A connection that is being closed. `is_left` says that no further command asks for it.

    `consumers` are those that are still to be detached, the next one last.
    """

    __slots__ = ("connection", "consumers", "is_left", "reason", "text")

    def __init__(self, connection: Connection, reason: int, text: str) -> None:
        self.connection = connection
        self.reason = reason
        self.text = text
        self.is_left = False
        self.consumers: list[Consumer] = []


class Emptying:
    """A queue that was deleted and still holds messages, with the reason and the connection; `text`
    tells consumers that it still has why they end."""

    __slots__ = ("connection", "queue", "reason", "text")

    def __init__(self, queue: Queue, reason: int, connection: int, text: str = "") -> None:
        self.queue = queue
        self.reason = reason
        self.connection = connection
        self.text = text
