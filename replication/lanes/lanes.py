"""The lanes of a broker: opened again and again, and used for its small blocks (ADR 119).

Everything is done in the loop of the broker, but for dialling, which has a thread. What nodes say
over lanes is worth as much as what they say to the leader's node. Must never know the journal's
writer, nor when a lease ends.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from daybook.journal.places import Place
from daybook.replication.lanes.counting import Counting
from daybook.replication.lanes.lane import Lane, dial, in_thread
from daybook.replication.lanes.order import LaneOrder, behind
from daybook.replication.leading import BrokerEnd
from daybook.replication.links import LinkRefused, Security
from daybook.replication.messages import Ack, Blocks
from daybook.replication.runner import Settings
from daybook.replication.wire import LANE_BYTES_MAX, LANE_VERSION, Hello, WireDamage, pack

TELL_SECONDS: Final = 0.05
STEADY_SECONDS: Final = 5.0
"""A lane that was open for less is opened again after longer and longer pauses."""


def _send(lanes: list[Lane], place: Place, data: bytes) -> None:
    frame, end = b"".join(pack(Blocks(place, data))), behind(place, data)
    for lane in lanes:
        lane.send(frame, end)


class Lanes:
    """The lanes of the lead that a broker has. `on_durable` gets what counts, until it has
    confirmed that. `security` returns the files of the certificate that is in force."""

    def __init__(
        self, settings: Settings, end: BrokerEnd, loop: asyncio.AbstractEventLoop,
        on_durable: Callable[[int], bool], security: Callable[[], Security | None],
    ) -> None:  # fmt: skip
        self.counting: Final = Counting(settings.acks, settings.nodes)
        self.trouble: Final[dict[str, str]] = {}
        self.blocks = 0
        self._durable = 0
        self._settings: Final = settings
        self._security: Final = security
        self._end: Final = end
        self._loop: Final = loop
        self._on_durable: Final = on_durable
        self._open: Final = LaneOrder(self.counting.needed, _send, loop.call_later)
        # These, and those that no follower has taken yet.
        self._dialled: Final[dict[str, Lane]] = {}
        self._numbers: Final = {each: place for place, each in enumerate(settings.others)}
        self._hello: Final = Hello(LANE_VERSION, settings.cluster, settings.name, lead=end.epoch)
        self._telling: asyncio.TimerHandle | None = None
        self._tasks: Final[list[asyncio.Task[None]]] = []

    def start(self) -> None:
        """Open the lanes, if they are of use."""
        if self.counting.needed:
            self._tasks.extend(self._loop.create_task(self._keep(each)) for each in self._numbers)

    # ---- blocks

    def takes(self, place: Place, size: int) -> bool:
        """Return whether a block, which is about to be written at a place, can go to enough
        followers."""
        return size <= LANE_BYTES_MAX and self.counting.may_send(place, len(self._open))

    def send(self, place: Place, data: bytes) -> None:
        """Send a block while it is written at a place."""
        self._open.send(place, data)
        self.blocks += 1
        self.counting.sent(behind(place, data))

    def written(self, place: Place) -> None:
        """Let the node ship what is written here and went over no lane; any thread may call it."""
        self._end.writing(place)

    def wrote(self, place: Place, lsn: int) -> None:
        """Note what is on this disk."""
        if self.counting.wrote(place, lsn, len(self._open)):
            self.tell()
        else:
            self._tell_soon()
        self._count()

    def confirmed(self, lsn: int) -> None:
        """Note that the node counts events as durable."""
        self.counting.is_trusted = True
        self._count(lsn)

    def _acked(self, node: str, ack: Ack) -> None:
        self.counting.acked(node, ack)
        self._count()
        self._open.acked(node, ack.place)
        self._tell_soon()

    def _count(self, confirmed: int = 0) -> None:
        durable = max(confirmed, self.counting.durable)
        if durable > self._durable and self._on_durable(durable):
            self._durable = durable

    def tell(self) -> None:
        """Let the node know everything."""
        self._say(everything=True)

    def forget(self, number: int) -> int:
        """End the lane to a node that is about to join, say what is written, and return what was
        confirmed."""
        node = self._settings.others[number]
        if node in self._dialled:
            self._dialled[node].end("the follower joins again")
        self.counting.lost(node)
        self.tell()
        return self._durable

    def _tell_soon(self) -> None:
        if self._telling is None:
            self._telling = self._loop.call_later(TELL_SECONDS, self._tell_in_time)

    def _tell_in_time(self) -> None:
        self._telling = None
        self._say(everything=False)
        if self.counting.is_behind:
            self._tell_soon()

    def _say(self, *, everything: bool) -> None:
        acks, end = self.counting.tell(everything=everything)
        for node, ack in acks.items():
            self._end.acked(self._numbers[node], ack.place, ack.lsn)
        if end is not None:
            self._end.wrote(*end)

    # ---- connections

    async def _keep(self, node: str) -> None:
        """Connect to a follower again and again: it takes a lane once it has joined."""
        patience = self._settings.patience
        pause = patience.first_retry
        while True:
            try:
                lane = self._dialled[node] = await self._dial(node)
            except (OSError, LinkRefused, WireDamage) as error:
                self.trouble[node] = str(error)
            else:
                try:
                    while not lane.ended.done():
                        lane.ask(patience.silence)
                        await asyncio.wait([lane.ended], timeout=patience.beat)
                finally:
                    lane.end("the broker ends")
                if lane.was_open and self._loop.time() - lane.begun > STEADY_SECONDS:
                    pause = patience.first_retry
            await asyncio.sleep(pause)
            pause = min(2 * pause, patience.last_retry)

    async def _dial(self, node: str) -> Lane:
        address, seconds = self._settings.nodes[node], self._settings.patience.hello
        work = partial(dial, node, address, self._hello, self._security(), seconds)
        dialled = await in_thread(self._loop, work)
        lane = Lane(
            dialled, self._loop, on_open=lambda: self._opened(node, lane),
            on_ack=partial(self._acked, node), on_end=partial(self._ended, node),
        )  # fmt: skip
        return lane

    def _opened(self, node: str, lane: Lane) -> None:
        self._open.add(node, lane)
        self.trouble[node] = ""

    def _ended(self, node: str, why: str) -> None:
        self.trouble[node] = why
        self._dialled.pop(node, None)
        if self._open.remove(node):
            self.counting.lost(node)

    def close(self) -> None:
        """End all lanes."""
        for task in self._tasks:
            task.cancel()
        self._open.close()
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None

    def status(self) -> dict[str, Any]:
        """Return which lanes are open, why others are not, and how many blocks went over them."""
        names = sorted(self._open.names)
        closed = {node: why for node, why in sorted(self.trouble.items()) if node not in names}
        return {"open": names, "closed": closed, "blocks": self.blocks}
