"""The output of a connection: what its sessions and links write, and what they ask the broker.

Must never know what a frame means.
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any, Final, Protocol, TypeAlias

from daybook.engine.commands import Command
from daybook.engine.refusals import Code, Refusal
from daybook.protocols.amqp.options import AmqpOptions
from daybook.protocols.amqp.wire.frames import FRAME_SIZE_MIN, frame
from daybook.protocols.port import Body, BrokerPort, Caller, Pull

Answered: TypeAlias = Callable[[int | Refusal, int], None]


class Sayer(Protocol):
    """A session, as its connection's output knows it."""

    is_ended: bool

    def flush(self) -> None:
        """Tell the peer what it may know and send now."""
        ...


class Sending(Protocol):
    """A link by which the peer sends, likewise."""

    is_waiting: bool

    @property
    def session(self) -> Sayer:
        """Its session."""
        ...

    @property
    def arriving_chunks(self) -> list[int]:
        """The chunks of the message that arrives."""
        ...

    def refill(self) -> None:
        """Give the peer credit again."""
        ...


class Output:
    """Frames to send once the LSN `gate` is durable, and commands that take several turns.

    `max_frame_size` is that of the peer; `container` is its id, `host` its virtual host, and `user`
    its login. `connector` is the one that opened the connection, empty if the peer did.
    """

    def __init__(self, broker: BrokerPort, options: AmqpOptions, caller: Caller) -> None:
        self.broker: Final = broker
        self.options: Final = options
        self.caller: Final = caller
        self.connection = 0
        self.container = ""
        self.user = ""
        self.connector = ""
        self.host = ""
        self.out: list[bytes] = []
        self.bodies: list[Body] = []
        self.pulls: list[Pull] = []
        self.gate = 0
        # Bytes of messages that arrive, and of deliveries that wait for windows.
        self.input_bytes = 0
        self.unsent_bytes = 0
        # Links that are attached, those that receive among them, and the memory that they take.
        self.attached = 0
        self.receiving = 0
        self.links_bytes = 0
        self.has_more = False
        self.has_unfinished = False
        self.max_frame_size = FRAME_SIZE_MIN
        # Those of addresses, which messages of other protocols have too.
        self.prefixes: Final = options.prefixes
        self.names_users: Final = options.populate_validated_user
        # Whether the peer may attach links.
        self.lets_attach = True
        # Whether links were passed on, whose frames must stay what they are.
        self.is_passing = False
        # Links by their numbers: those that wait for room, whose command is unfinished, and that
        # may need credit.
        self.waiting: Final[dict[int, Sending]] = {}
        self.unfinished: Final[dict[int, Sending]] = {}
        self.thirsty: Final[dict[int, Sending]] = {}
        # Links whose large message arrives, and sessions that have something to say.
        self.large: Final[dict[int, Sending]] = {}
        # Links on which a message has begun and is not whole.
        self.partial: Final[dict[int, Sending]] = {}
        # Coordinators whose commit waits for messages of its transaction.
        self.discharging: Final[dict[int, Sending]] = {}
        self._tables: Final = (
            self.waiting, self.unfinished, self.thirsty, self.large, self.partial,
            self.discharging,
        )  # fmt: skip
        self.dirty: Final[dict[int, Sayer]] = {}
        # Open transactions, with the deliveries that they settled.
        self.transactions: Final[dict[bytes, list[tuple[int, int]]]] = {}
        # Those of which a settled message was refused: they cannot be committed.
        self.doomed: Final[set[bytes]] = set()
        # How many messages of a transaction have begun, and were neither taken nor refused.
        self._work: Final[dict[bytes, int]] = {}
        # Deliveries that transactions settled which were rolled back, to be given back.
        self.give_back: list[tuple[int, int]] = []
        self.txn_count = 0
        self.link_count = 0
        self._kept: Final[deque[Callable[[int], None]]] = deque()

    def count_work(self, txn_id: bytes, step: int) -> None:
        """Count a message of a transaction that begins, or that was taken or refused."""
        count = self._work.get(txn_id, 0) + step
        if count:
            self._work[txn_id] = count
        else:
            del self._work[txn_id]

    def has_work(self, txn_id: bytes) -> bool:
        """Whether messages of a transaction wait in their links."""
        return txn_id in self._work

    def forget_link(self, number: int) -> None:
        """Forget a link that has ended."""
        for table in self._tables:
            table.pop(number, None)

    def forget_all(self) -> None:
        """Forget all links and sessions, and what was kept: the connection ends."""
        for table in self._tables:
            table.clear()
        self.dirty.clear()
        self._work.clear()
        self.give_back.clear()
        self._kept.clear()
        self.input_bytes = self.unsent_bytes = 0

    @property
    def now(self) -> int:
        """The time of what the broker does now, in microseconds."""
        return self.broker.now

    def number_link(self) -> int:
        """Return the number by which the engine knows a new link."""
        self.link_count += 1
        return self.link_count

    def say(self, channel: int, performative: Any, gate: int = 0) -> None:
        """Write a frame that waits for an event."""
        self.out.append(frame(channel, performative))
        if gate > self.gate:
            self.gate = gate

    def ask(self, command: Command, answered: Answered, now: int) -> None:
        """Give the broker a command; `answered` gets the answer, perhaps only in a later turn. No
        other input is processed before."""
        answer = self.broker.handle(command, now)
        if isinstance(answer, Refusal) and answer.code is Code.UNFINISHED:
            self.keep(lambda now: self.ask(command, answered, now))
            return
        answered(answer, now)

    def work(self, steps: Iterator[Command], done: Callable[[int], None], now: int) -> None:
        """Give the broker commands, as many in a turn as the budget allows, and then do something.

        Their answers are of no interest. Nothing else is processed before.
        """
        for command in steps:
            if not self._is_done(command, now):
                self.keep(partial(self._work_again, command, steps, done))
                return
            if self.broker.budget.is_spent:
                self.keep(partial(self.work, steps, done))
                return
        done(now)

    def _work_again(
        self, command: Command, steps: Iterator[Command], done: Callable[[int], None], now: int
    ) -> None:
        self.work(chain((command,), steps), done, now)

    def _is_done(self, command: Command, now: int) -> bool:
        answer = self.broker.handle(command, now)
        if not isinstance(answer, Refusal):
            self.gate = max(self.gate, answer)
            return True
        return answer.code is not Code.UNFINISHED

    def keep(self, rest: Callable[[int], None]) -> None:
        """Keep the rest of what is to be done for the next turn."""
        self._kept.append(rest)
        self.has_more = True

    def resume(self, now: int) -> bool:
        """Do what was kept; return whether nothing is left of it."""
        while self._kept:
            count = len(self._kept)
            self._kept.popleft()(now)
            if len(self._kept) >= count:
                # The rest of it comes first again.
                self._kept.rotate(1)
                return False
        return True
