"""Answering leaders and candidates: promises, and blocks that are written.

A promise is on disk before it is said, and blocks are on disk before they are acknowledged. Once an
epoch is promised, nothing of an older one is taken. A block that comes over a lane before those in
front of it is kept for a moment (ADR 119). Must never know a socket.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from daybook.errors import DaybookError
from daybook.journal.blocks.format import Damage
from daybook.journal.places import BEFORE_ALL, Place
from daybook.replication.base_files import BaseFault
from daybook.replication.messages import (
    Ack,
    Answer,
    Ask,
    BasePart,
    Beat,
    Blocks,
    HandedOver,
    Join,
    Joined,
    Offer,
    Refused,
    Said,
    Segment,
    Standing,
    Taken,
)
from daybook.replication.record import RecordFile
from daybook.replication.replica_files import OtherHistory, ReplicaFiles

_A = TypeVar("_A")

EARLY_MAX: Final = 8
"""How many blocks that came early are kept."""


class NotFollowing(DaybookError):
    """What was said is refused."""


class Following:
    """A node, as those see it that lead or stand. `files` is None while it leads itself; `beat` is
    what a leader said last of itself. Segments before the event `first` may leave.

        self.on_cut: Callable[[int], None] = _ignore
        self.on_handed_over: Callable[[str], None] = lambda to: None
    """

    def __init__(self, name: str, cluster: str, record: RecordFile) -> None:
        self.name: Final = name
        self.cluster: Final = cluster
        self.record: Final = record
        self.files: ReplicaFiles | None = None
        self.confirmed = 0
        self.beat = Beat(0)
        self.heard = False
        # Whether somebody asked for a promise while this node was new.
        self.was_asked = False
        # Whether the journal of this node is another one than that of the cluster.
        self.is_foreign = False
        # What a beat says has left is kept here until this node may do the same.
        self.first = 0
        self._leaving: Beat | None = None
        self.on_promise: Callable[[int], None] = _ignore
        self.on_cut: Callable[[int], None] = _ignore
        self.on_handed_over: Callable[[str], None] = lambda to: None
        # The newest connection of the node to which the newest epoch is promised, and whether it
        # has joined.
        self._peer = 0
        self._is_joined = False
        # Blocks that came over a lane, by their places, and whether one of them was written since.
        self._early: Final[dict[Place, bytes]] = {}
        self.took_early = False

    @property
    def is_led(self) -> bool:
        """Whether a leader is there, which this node has joined."""
        return self._is_joined and self.record.record.node != self.name

    def receive(self, peer: int, said: Said) -> Answer | None:
        """Return the answer to what came over a connection. Raises JournalError and OSError, after
        which this node cannot follow."""
        return self._or_refused(partial(self._answer, peer, said))

    def receive_early(self, peer: int, said: Blocks) -> Ack | Refused | None:
        """Return the answer to blocks that came over a lane; None if those before them have not
        come yet. Raises as `receive`."""
        return self._or_refused(partial(self._take_early, peer, said))

    def _or_refused(self, answer: Callable[[], _A]) -> _A | Refused:
        try:
            return answer()
        except NotFollowing as error:
            why = str(error)
        except (OtherHistory, BaseFault, Damage) as error:
            self._is_joined = False
            why = str(error)
        known = self.record.record
        return Refused(known.promised, why, known.node)

    def _answer(self, peer: int, said: Said) -> Answer | None:
        if isinstance(said, Ask):
            return self._promise(peer, said)
        files = self.files
        if peer != self._peer or files is None:
            raise NotFollowing("another node leads")
        self.heard = True
        if isinstance(said, Join):
            return self._join(files, said)
        if isinstance(said, Offer | BasePart):
            return self._take_base(files, said)
        if not self._is_joined:
            raise NotFollowing("this node has not joined")
        if isinstance(said, Segment):
            files.begin_segment(said.header)
            return None
        if isinstance(said, Blocks):
            files.append(said.place, said.data)
            return self._written(files)
        if isinstance(said, HandedOver):
            self.on_handed_over(said.to)
            return None
        assert isinstance(said, Beat)
        self._hear(files, said)
        return None

    def _written(self, files: ReplicaFiles) -> Ack:
        """Write what came early and follows, too; return what is on disk then."""
        while self._early:
            blocks = self._early.pop(files.place, None)
            if blocks is None:
                break
            files.append(files.place, blocks)
            self.took_early = True
        self._look_whether_whole(files)
        return Ack(files.place, files.lsn)

    def lane_of(self, epoch: int, node: str) -> int:
        """Return the connection to which a lane of a leader's broker belongs. Raises
        NotFollowing."""
        # Before the rest, which the thread of the disk changes first.
        peer, known = self._peer, self.record.record
        if (epoch, node) != (known.promised, known.node) or not self._is_joined:
            raise NotFollowing(f"'{self.name}' has not joined '{node}' in epoch {epoch}")
        return peer

    def _take_early(self, peer: int, said: Blocks) -> Ack | None:
        files = self.files
        if peer != self._peer or files is None or not self._is_joined:
            raise NotFollowing("another node leads, or has not been joined again")
        if said.place.segment < files.place.segment:
            # It came late, and the node has brought it.
            return Ack(files.place, files.lsn)
        if said.place > files.place:
            if len(self._early) == EARLY_MAX:
                # The node ships it.
                del self._early[min(self._early)]
            self._early[said.place] = said.data
            return None
        files.append(said.place, said.data)
        return self._written(files)

    def settle(self) -> None:
        """Do what could wait until blocks were acknowledged. Raises Damage."""
        if self.files is not None:
            self.files.settle()

    def _hear(self, files: ReplicaFiles, said: Beat) -> None:
        """Note how far events are confirmed: a node that has all of them is whole from now on."""
        self.beat = said
        self.confirmed = max(self.confirmed, said.confirmed)
        if said.confirmed and files.lsn >= said.confirmed:
            self.record.set_whole()
        if self._leaving is None and said.confirmed:
            self._leaving = said
        if self._leaving is not None and self._leaving.confirmed <= files.lsn:
            # This node has all that was confirmed when those segments had left.
            self.first, self._leaving = self._leaving.first, None

    def _take_base(self, files: ReplicaFiles, said: Offer | BasePart) -> Taken | Standing:
        self._is_joined = False
        if isinstance(said, Offer):
            files.begin_base(said.data_id, said.place, said.description)
            return Taken(0)
        if not files.append_base(said.offset, said.data):
            return Taken(files.taken)
        # What this node has is about to leave: it counts again when it has caught up.
        self.record.set_lost()
        files.begin_anew()
        return self.standing()

    def _look_whether_whole(self, files: ReplicaFiles) -> None:
        """Note that this node has what older epochs confirmed, and knows what it did in this one.
        That is before it acknowledges anything."""
        record = self.record.record
        if record.is_whole or record.unknown >= record.promised or not files.data_id:
            return
        if record.epochs and record.epochs[-1].place <= files.place:
            self.record.set_whole()

    def _promise(self, peer: int, said: Ask) -> Standing:
        known = self.record.record
        if said.cluster != self.cluster:
            raise NotFollowing(f"this node is of the cluster '{self.cluster}'")
        if not known.promised:
            # Perhaps it has lost its directory, and promised somebody a newer epoch before.
            self.was_asked = True
            raise NotFollowing("this node is new, and asks the arbiter first who leads")
        if (said.epoch, said.node) != (known.promised, known.node):
            if said.epoch <= known.promised:
                raise NotFollowing(f"epoch {known.promised} is promised to '{known.node}'")
            unknown = 0 if said.is_standing or known.is_whole else said.epoch
            self.record.promise(said.epoch, said.node, unknown)
            self.on_promise(said.epoch)
        elif said.is_standing and known.unknown == said.epoch:
            self.record.set_unknown(said.epoch - 1)
        self._peer, self._is_joined = peer, False
        return self.standing()

    def stand(self, epoch: int) -> None:
        """Promise an epoch to this node itself: nothing of an older leader is taken any more.
        Raises OSError."""
        self.record.promise(epoch, self.name)
        self._peer, self._is_joined = 0, False

    def standing(self) -> Standing:
        """Return how far this node is. Raises NotFollowing."""
        files = self.files
        if files is None:
            raise NotFollowing("this node has led until now; ask again")
        record = self.record.record
        return Standing(
            self.name, record.promised, files.data_id, record.epochs, files.place, files.lsn,
            record.is_whole and files.data_id != b"",
            files.base,
        )  # fmt: skip

    def _join(self, files: ReplicaFiles, said: Join) -> Joined:
        self._is_joined = False
        self._early.clear()
        if not files.data_id:
            # What this node had is lost: it counts again when it has caught up.
            self.record.set_lost()
        elif files.data_id != said.data_id:
            self.is_foreign = not self.record.record.is_whole
        elif self._has_more_of(files, said.place):
            raise NotFollowing("this node has more of this epoch; ask again")
        self.first, self._leaving = 0, None
        was_cut = files.continue_from(said.data_id, said.place, said.hash)
        # Not before the cut: the epochs of the leader are those of the journal only behind it.
        self.record.set_epochs(said.epochs)
        self._look_whether_whole(files)
        if was_cut:
            self.on_cut(files.lsn)
        self._is_joined = True
        return Joined(files.lsn)

    def _has_more_of(self, files: ReplicaFiles, place: Place) -> bool:
        """Whether this node has joined the leader in this very epoch, with events behind a place.

        They are the leader's, so it may have counted them as confirmed by this node. Either its
        node has not heard of them yet, or what it said is late, from an older connection.
        """
        record = self.record.record
        if place == BEFORE_ALL:
            # So a node is answered that has no journal, and this one has one by now.
            return True
        if not record.epochs or place >= files.place:
            return False
        newest = record.epochs[-1]
        if (newest.epoch, newest.node) != (record.promised, record.node):
            return False
        return files.lsn_at(place) < files.lsn

    @property
    def may_lead(self) -> bool:
        """Whether a broker could open the journal; True without files."""
        return self.files is None or self.files.is_whole

    def lost(self, peer: int) -> None:
        """Note that a connection has ended."""
        if peer == self._peer:
            self._peer, self._is_joined = 0, False


def _ignore(epoch: int) -> None:
    """The default, until the owner sets another."""
