"""What a node and the broker that it started say to each other.

Two processes of one machine, connected by a pair of sockets, and a word of memory that both map:
until when the lease surely holds. The node starts a broker while it follows; the broker says when
it has prepared itself, and waits until the node leads in an epoch. Then it says where its journal
ends once it is open, and again each time that a block is on its disk, perhaps also before the sync;
the node answers how far events may be confirmed. The broker also says what followers acknowledged
over its lanes (ADR 119). What is not taken at once is replaced by what is
newer, so neither side waits for the other, nor keeps more than one message.

Invariants: the broker opens nothing of the data directory before `BrokerEnd.wait` has returned,
writes no block before the node has noted the epoch (`BrokerEnd.begin` returns), confirms nothing
when `may_confirm` is false. The kernel kills the broker when the node's process ends. Must
never know what an event is, nor who else is in the cluster.
"""

import mmap
import os
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from daybook.errors import DaybookError
from daybook.journal.places import BEFORE_ALL, Place
from daybook.journal.writing.lifeline import end_with

ENVIRONMENT: Final = "DAYBOOK_LEADING"
"""The variable that a broker gets from the node that started it; without it, nobody leads it."""

# Kind, epoch, LSN, segment and offset of a place, id of the data directory.
_MESSAGE: Final = Struct("<B7xQQQQ16s")
_NO_ID: Final = bytes(16)
_OPENED: Final = 1
_WROTE: Final = 2
_ALIVE: Final = 3
_LEADS: Final = 4
_DURABLE: Final = 5
_BEAT: Final = 6
_PREPARED: Final = 7
_LEAD: Final = 8
_CLOSED: Final = 9
_WRITING: Final = 10
# And more, for each other node, by its number.
OTHERS_MAX: Final = 64
_ACKED: Final = 16
_FORGET: Final = _ACKED + OTHERS_MAX
_FORGOTTEN: Final = _FORGET + OTHERS_MAX
_WORD_BYTES: Final = mmap.PAGESIZE


class LeadLost(DaybookError):
    """The node has ended, or has another broker: nothing may be written or confirmed any more."""


def boot_time_us() -> int:
    """Return microseconds since this machine started, which go on while it sleeps."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000


class Prepared(NamedTuple):
    """The broker waits for the word to lead."""


class Opened(NamedTuple):
    """The journal is open for writing: it ends at a place, with an event."""

    data_id: bytes
    place: Place
    lsn: int


class Wrote(NamedTuple):
    """Everything up to a place, and to an event, is on the disk of the broker."""

    place: Place
    lsn: int


class Writing(NamedTuple):
    """Everything up to a place is written, and on its way to the disk of the broker."""

    place: Place


class Acked(NamedTuple):
    """Everything up to a place, and to an event, is on the disk of a follower: of that with a
    number among the other nodes, in the order of their names."""

    number: int
    place: Place
    lsn: int


class Forgotten(NamedTuple):
    """What a follower acknowledges over its lane does not count any more; what is written is said,
    and everything up to an event is confirmed."""

    number: int
    lsn: int


class Closed(NamedTuple):
    """The journal is closed: it ends at a place, with an event, and the broker writes no more."""

    place: Place
    lsn: int


class Alive(NamedTuple):
    """The broker has answered a beat."""


Told: TypeAlias = Prepared | Opened | Wrote | Writing | Acked | Forgotten | Alive | Closed


class _End:
    """One end of the pair: messages are whole, and each way keeps one that was not taken yet."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket: Final = connection
        self._unsent: Final[dict[int, bytes]] = {}
        self.watch: Callable[[bool], None] = _ignore_watch
        self._watched = False

    def fileno(self) -> int:
        """Return the descriptor to watch: `receive` when it is readable, `flush` when writable."""
        return self._socket.fileno()

    def _say(
        self, kind: int, epoch: int, lsn: int = 0, place: Place = BEFORE_ALL,
        data_id: bytes = _NO_ID,
    ) -> None:  # fmt: skip
        self._unsent[kind] = _MESSAGE.pack(kind, epoch, lsn, *place, data_id)
        self.flush()

    def flush(self) -> None:
        """Send what was not taken yet. An end that is gone is noticed by `receive`."""
        try:
            while self._unsent:
                kind = next(iter(self._unsent))
                self._socket.send(self._unsent[kind])
                del self._unsent[kind]
        except BlockingIOError:
            pass
        except OSError:
            self._unsent.clear()
        if self._watched != bool(self._unsent):
            self._watched = not self._watched
            self.watch(self._watched)

    def _take(self) -> tuple[int, int, int, Place, bytes] | None:
        """Return the next message; None if there is none now. Raises LeadLost at the end."""
        try:
            packed = self._socket.recv(_MESSAGE.size)
        except BlockingIOError:
            return None
        except OSError as error:
            raise LeadLost(f"the other process is gone: {error}") from error
        if len(packed) != _MESSAGE.size:
            raise LeadLost("the other process is gone")
        kind, epoch, lsn, segment, offset, data_id = _MESSAGE.unpack(packed)
        return kind, epoch, lsn, Place(segment, offset), data_id

    def close(self) -> None:
        """Close this end."""
        self._socket.close()


class BrokerEnd(_End):
    """What the broker has. Its owner sets the callbacks before it watches.

    `on_durable` gets the last event that may be confirmed, if `may_confirm` holds; `on_lost` is
    called once, when nothing may be written or confirmed any more. `on_forget` is called with the
    number of a node whose acknowledgements are not to count any more; before it returns the last
    event that was confirmed, the owner says what is written. `watch(True)` asks the owner to watch
    for room to write, `watch(False)` no longer. `rules` are those by which the node counts.
    """

    def __init__(self, connection: socket.socket, word: int, node: str, rules: str = "") -> None:
        super().__init__(connection)
        self.epoch = 0
        self.node: Final = node
        self.rules: Final = rules
        self._word: Final = memoryview(mmap.mmap(word, _WORD_BYTES, prot=mmap.PROT_READ)).cast("Q")
        os.close(word)
        self.on_durable: Callable[[int], object] = _ignore_lsn
        self.on_lost: Callable[[], None] = _ignore
        self.on_forget: Callable[[int], int] = _nothing_is_confirmed
        self._lost = False

    @classmethod
    def inherited(cls, environment: Mapping[str, str]) -> "BrokerEnd | None":
        """Return the end that the node gave this process; None if no node started it.

        From then on the kernel ends this process with the node. Call it in the main thread, and
        once. Raises LeadLost if the node has ended already.
        """
        given = environment.get(ENVIRONMENT)
        if given is None:
            return None
        parent, descriptor, word, rules, node = given.split(":", 4)
        if not end_with(int(parent)):
            raise LeadLost("the node that started this broker has ended")
        for each in (descriptor, word):
            os.set_inheritable(int(each), False)
        return cls(socket.socket(fileno=int(descriptor)), int(word), node, rules)

    def wait(self) -> None:
        """Say that this broker is prepared, and wait until the node leads: `epoch` is that of its
        lead then. Raises LeadLost."""
        self._socket.setblocking(True)
        self._say(_PREPARED, 0)
        while (said := self._take()) is not None:
            if said[0] == _LEAD:
                self.epoch = said[1]
                break
            self._answer(said)

    @property
    def valid_until(self) -> int:
        """Until when the lease surely holds, in microseconds of `boot_time_us`."""
        return self._word[0]

    def may_confirm(self) -> bool:
        """Return whether the lease surely holds now."""
        return not self._lost and boot_time_us() < self._word[0]

    def begin(self, data_id: bytes, place: Place, lsn: int) -> None:
        """Tell where the journal ends, and wait until its first block may be written. Raises
        LeadLost."""
        self._socket.setblocking(True)
        self._say(_OPENED, self.epoch, lsn, place, data_id)
        while (said := self._take()) is not None and said[0] != _LEADS:
            self._answer(said)
        self._socket.setblocking(False)

    def wrote(self, place: Place, lsn: int) -> None:
        """Tell that everything up to a place, and to an event, is on the disk."""
        self._say(_WROTE, self.epoch, lsn, place)

    def writing(self, place: Place) -> None:
        """Tell that everything up to a place is written; any thread may. It is not said again if
        the node is behind: then `wrote` comes soon enough."""
        with suppress(OSError):
            self._socket.send(_MESSAGE.pack(_WRITING, self.epoch, 0, *place, _NO_ID))

    def acked(self, number: int, place: Place, lsn: int) -> None:
        """Tell what a follower acknowledged, see `Acked`."""
        self._say(_ACKED + number, self.epoch, lsn, place)

    def closed(self, place: Place, lsn: int) -> None:
        """Tell that the journal is closed, and ends there."""
        self._say(_CLOSED, self.epoch, lsn, place)

    def receive(self) -> None:
        """Take what the node said."""
        durable = 0
        try:
            while (said := self._take()) is not None:
                durable = max(durable, self._answer(said))
        except LeadLost:
            if not self._lost:
                self._lost = True
                self.on_lost()
            return
        if durable:
            self.on_durable(durable)

    def _answer(self, said: tuple[int, int, int, Place, bytes]) -> int:
        """Return the last event that may be confirmed, if that is what was said; else 0."""
        kind, _, lsn, _, _ = said
        if kind == _BEAT:
            self._say(_ALIVE, self.epoch)
        elif _FORGET <= kind < _FORGOTTEN:
            confirmed = self.on_forget(kind - _FORGET)
            self._say(kind - _FORGET + _FORGOTTEN, self.epoch, confirmed)
        return lsn if kind == _DURABLE else 0


class NodeEnd(_End):
    """What the node has: `environment` and `descriptors` are for the process that it starts."""

    def __init__(self, node: str, rules: str = "") -> None:
        """`rules` tell by which rules the node counts, without a colon. Raises OSError."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        super().__init__(ours)
        ours.setblocking(False)
        self._theirs: Final = theirs
        self._memory = os.memfd_create("daybook-lease", os.MFD_CLOEXEC)
        os.ftruncate(self._memory, _WORD_BYTES)
        self._word: Final = memoryview(mmap.mmap(self._memory, _WORD_BYTES)).cast("Q")
        self.epoch = 0
        self.descriptors: Final = (theirs.fileno(), self._memory)
        self.environment: Final = {
            ENVIRONMENT: f"{os.getpid()}:{theirs.fileno()}:{self._memory}:{rules}:{node}"
        }

    def started(self) -> None:
        """Note that the process has its descriptors."""
        self._theirs.close()
        if self._memory >= 0:
            os.close(self._memory)
            self._memory = -1

    def close(self) -> None:
        """Close this end, and what is left of the other one."""
        self.started()
        super().close()

    def hold(self, valid_until: int) -> None:
        """Let the broker confirm until then, in microseconds of `boot_time_us`; 0 forbids it."""
        # One store of an aligned word: the broker sees this value or the one before.
        self._word[0] = valid_until

    def lead(self, epoch: int) -> None:
        """Let the broker open the journal, for the lead of an epoch; call it once."""
        assert not self.epoch
        self.epoch = epoch
        self._say(_LEAD, epoch)

    def leads(self) -> None:
        """Tell that the epoch is noted, so that the first block may be written."""
        self._say(_LEADS, self.epoch)

    def durable(self, lsn: int) -> None:
        """Tell up to which event may be confirmed."""
        self._say(_DURABLE, self.epoch, lsn)

    def forget(self, number: int) -> None:
        """Let the broker forget what a follower acknowledged, before that joins; it answers with
        `Forgotten`."""
        self._say(_FORGET + number, self.epoch)

    def beat(self) -> None:
        """Ask the broker whether it is alive; it answers with `Alive`."""
        self._say(_BEAT, self.epoch)

    def receive(self) -> list[Told]:
        """Return what the broker said, of each kind the newest. Raises LeadLost at its end."""
        found: dict[int, Told] = {}
        try:
            while (said := self._take()) is not None:
                kind, epoch, lsn, place, data_id = said
                if epoch == self.epoch:
                    found[kind] = _told(kind, lsn, place, data_id)
        except LeadLost:
            # First what it said before; the next call raises again.
            if not found:
                raise
        return [found[kind] for kind in sorted(found, key=_rank)]


def _rank(kind: int) -> tuple[bool, bool, int]:
    """Order what was said: acknowledgements first, so that nothing is shipped which a follower
    has; last who joins, which needs to know what is written."""
    return kind >= _FORGOTTEN, kind < _ACKED, kind


def _told(kind: int, lsn: int, place: Place, data_id: bytes) -> Told:
    if kind >= _FORGOTTEN:
        return Forgotten(kind - _FORGOTTEN, lsn)
    if kind >= _ACKED:
        return Acked(kind - _ACKED, place, lsn)
    if kind == _OPENED:
        return Opened(data_id, place, lsn)
    if kind == _WROTE:
        return Wrote(place, lsn)
    if kind == _WRITING:
        return Writing(place)
    if kind == _CLOSED:
        return Closed(place, lsn)
    return Prepared() if kind == _PREPARED else Alive()


def _ignore() -> None:
    """The default, until the owner sets another."""


def _ignore_lsn(lsn: int) -> None:
    """The default, until the owner sets another."""


def _nothing_is_confirmed(number: int) -> int:
    """The default, until the owner sets another."""
    return 0


def _ignore_watch(wanted: bool) -> None:
    """The default, until the owner sets another."""
