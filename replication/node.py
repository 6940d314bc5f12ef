"""One node of a cluster: when it stands for the lead, leads, and stops.

    following --(a lease)--> standing --(enough answers)--> opening --(`leads`)--> leading

and from each of these back to following, without the lease or the journal. A lead may end by a
hand-over (`handing_over`), before which the broker ends while this node still leads.

Data flow: `tick` and what arrives change the state; what is to be done comes out as actions, which
the owner carries out in order. Times are microseconds of a clock that never goes back, and that
goes on while the process stands still; each node has its own.

The arbiter also keeps the list of nodes that are in sync (`in_sync`). It is read once the lease is
granted, when no older leader can change it any more, and nobody leads who does not know it.

Invariants: a node acts as a leader only before `valid_until`, which is reckoned from before the
lease was asked for, and leaves room for a clock that is slow; it leads only after `Gathering` is
complete in that epoch; the epoch is in its record before its first block. Must never know a socket.
"""

import enum
from collections import deque
from collections.abc import Callable, Collection
from typing import Final, NamedTuple, TypeAlias

from daybook.journal.disk import Disk
from daybook.journal.errors import JournalError
from daybook.journal.places import Place, bytes_between
from daybook.journal.segments.segment import first_lsn_of
from daybook.replication.epochs import Beginning, begun
from daybook.replication.following import Following
from daybook.replication.gathering import Gathering
from daybook.replication.handing_over import (
    HandingOver,
    HandOverRefused,
    check_next,
    next_leader,
)
from daybook.replication.in_sync import InSync, ListOfNodes, Progress, Read
from daybook.replication.lags import NO_LAG, Lag, Lags
from daybook.replication.messages import (
    Ack,
    Answer,
    Ask,
    Beat,
    HandedOver,
    Joined,
    Refused,
    Said,
    Standing,
    Taken,
)
from daybook.replication.quorum import Acks, Quorum, answers_needed
from daybook.replication.shipping import Shipment

LATE: Final = "the lease was not renewed in time"


class Role(enum.Enum):
    """What a node does."""

    FOLLOWING = "following"
    STANDING = "standing"
    OPENING = "opening"
    LEADING = "leading"


class Lease(NamedTuple):
    """The right to lead in an epoch, for so many microseconds from when it was asked for."""

    epoch: int
    microseconds: int


class Acquire(NamedTuple):
    """Ask the arbiter for a lease; the answer is for `granted` or `denied`."""

    asked: int


class Renew(NamedTuple):
    """Ask the arbiter to renew the lease; the answer is for `renewed` or `gone`."""

    epoch: int
    asked: int


class Release(NamedTuple):
    """Give the lease back."""

    epoch: int


class LookUp(NamedTuple):
    """Ask the arbiter which node has the lease; the answer is for `looked_up`."""


class ReadList(NamedTuple):
    """Ask the arbiter for the list of nodes that are in sync; the answer is for `listed`."""

    epoch: int


class WriteList(NamedTuple):
    """Let the arbiter replace that list; if it did, the new one is for `listed`."""

    epoch: int
    wanted: InSync
    """The nodes, and the version that is replaced."""


class Notice(NamedTuple):
    """Tell an operator."""

    text: str


class Send(NamedTuple):
    """Say something to another node."""

    node: str
    said: Said


class Lead(NamedTuple):
    """Open the journal for writing; then call `leads`, before the first block, or `failed`."""

    epoch: int


class Forget(NamedTuple):
    """Let the broker forget what a follower acknowledged over a lane, before that joins; then call
    `forgotten`."""

    node: str


class Stop(NamedTuple):
    """Stop leading at once: confirm nothing any more, close the journal, follow."""

    why: str


class Finish(NamedTuple):
    """Let the broker end by itself within so many microseconds, while this node leads: then call
    `finished`, and `ended`."""

    microseconds: int


Action: TypeAlias = (
    Acquire
    | Renew
    | Release
    | LookUp
    | ReadList
    | WriteList
    | Notice
    | Send
    | Lead
    | Forget
    | Stop
    | Finish
)


STUCK_LAGS: Final = 6
"""After how many times `lag` without an answer a follower keeps no segments any more."""


class Times(NamedTuple):
    """How long things take, in microseconds. `margin` is for clocks that differ; `alone` is how
    long a node leads that too few others follow: perhaps they can reach each other; `lag` after how
    long a follower is not in sync that owes something; `hand_over` is the most that a hand-over may
    take."""

    lease: int = 3_000_000
    margin: int = 400_000
    gather: int = 1_000_000
    beat: int = 500_000
    alone: int = 3_000_000
    lag: int = 10_000_000
    hand_over: int = 10_000_000

    @property
    def renew(self) -> int:
        """After how long a lease is renewed."""
        return self.lease // 3

    @property
    def soon(self) -> int:
        """After how long a node without a leader tries again, at least."""
        return self.lease // 30


class Node:
    """A node. `following` answers others; `actions` are to be carried out by the owner. `chance`
    draws a number between two."""

    def __init__(
        self, name: str, nodes: Collection[str], acks: Acks, following: Following, *,
        times: Times, chance: Callable[[int, int], int],
    ) -> None:  # fmt: skip
        self.name: Final = name
        self.nodes: Final = frozenset(nodes)
        self.following: Final = following
        self.role = Role.FOLLOWING
        self.epoch = 0
        self.valid_until = 0
        self.actions: Final[deque[Action]] = deque()
        self.quorum: Quorum | None = None
        self.shipments: Final[dict[str, Shipment]] = {}
        # Followers that are to join once the broker has forgotten what they acknowledged.
        self._standing: Final[dict[str, Standing]] = {}
        self._acks: Final = acks
        self.progress: Progress | None = None
        self.trouble = ""
        self._list: ListOfNodes | None = None
        self._times: Final = times
        self._chance: Final = chance
        self._next_try = 0
        self._next_renewal = 0
        self._next_beat = 0
        self._next_look = 0
        self._gather_until = 0
        self._followed = 0
        self._gathering: Gathering | None = None
        self.handing_over: HandingOver | None = None
        self.hand_over_trouble = ""
        self._was_led = False
        # Until when this node tries again and again, because the lead was handed over to it.
        self._invited_until = 0
        following.on_promise = self._promised_another

    def tick(self, now: int) -> None:
        """Do what is due."""
        if self.role is Role.FOLLOWING:
            self._look_up(now)
            self._try(now)
            return
        if now >= self.valid_until:
            self._step_down(now, LATE)
        elif self.role is Role.STANDING and now >= self._gather_until:
            self._step_down(now, self._why_not())
        elif self.role is Role.LEADING and now >= self._alone_until(now):
            self._step_down(now, "too few nodes follow")
        elif self.handing_over is not None and now >= self.handing_over.until:
            self._give_up_hand_over(now, self.handing_over)
        else:
            self._keep_up(now)

    def _look_up(self, now: int) -> None:
        """Ask the arbiter who leads, if this node is new, and somebody asked for a promise."""
        following = self.following
        if following.was_asked and now >= self._next_look and not following.record.record.promised:
            self._next_look = now + self._times.beat
            self.actions.append(LookUp())

    def looked_up(self, epoch: int, node: str) -> None:
        """Promise the epoch of the lease to the node that has it: from then on this node knows at
        least as much as it may have promised before it was new."""
        if not self.following.record.record.promised:
            self.following.record.promise(epoch, node, epoch)

    def _why_not(self) -> str:
        gathering = self._gathering
        if gathering is None or gathering.counted is None:
            return "the arbiter did not tell which nodes are in sync"
        missing = ", ".join(gathering.missing)
        if gathering.own.is_whole:
            return f"too few nodes answered: not {missing}"
        return f"this node is new, so it leads only if all nodes answer: {missing} did not"

    def _try(self, now: int) -> None:
        """Ask for the lease when that is due: often while no leader is there."""
        times, is_led = self._times, self.following.is_led
        if self._was_led and not is_led:
            self._next_try = min(self._next_try, now + self._chance(times.soon, 3 * times.soon))
        self._was_led = is_led
        if now < self._next_try or self.following.is_foreign or not self.following.may_lead:
            return
        if now < self._invited_until:
            self._next_try = now + times.soon // 3
        elif is_led:
            self._try_later(now, times.renew)
        else:
            self._next_try = now + self._chance(times.soon, 3 * times.soon)
        self.actions.append(Acquire(now))

    def _alone_until(self, now: int) -> int:
        """Return when this node has led for too long without enough followers."""
        assert self.quorum is not None
        joined = sum(shipment.is_alive for shipment in self.shipments.values())
        # With `all`, those that do not follow are taken off the list.
        if joined >= self.quorum.followers_needed or self._acks is Acks.ALL:
            self._followed = now
        return self._followed + self._times.alone

    def _keep_up(self, now: int) -> None:
        if now >= self._next_renewal:
            self._next_renewal = now + self._times.renew
            self.actions.append(Renew(self.epoch, now))
        if self.role is Role.LEADING:
            assert self.quorum is not None
            self._lags.note(now, self.quorum.local, self._end)
            self._keep_list(now)
        if self.role is not Role.OPENING and now >= self._next_beat:
            self._next_beat = now + self._times.beat
            for node in sorted(self.nodes - {self.name}):
                if self.role is Role.LEADING:
                    self._beat(node, now)
                elif self._gathering is not None and node in self._gathering.missing:
                    self.actions.append(Send(node, self._ask()))

    def _keep_list(self, now: int) -> None:
        """Look which followers keep up, and let the arbiter know."""
        quorum, progress, nodes = self.quorum, self.progress, self._list
        assert quorum is not None
        assert progress is not None
        assert nodes is not None
        joined = {name: each.acked for name, each in self.shipments.items() if each.is_joined}
        progress.look(now, quorum.local, joined)
        reached = {name for name in joined if quorum.has_all(name)}
        step = nodes.step(now, progress, reached, self._times.renew)
        if isinstance(step, InSync):
            self.actions.append(WriteList(self.epoch, step))
        elif step is Read.READ:
            self.actions.append(ReadList(self.epoch))
        quorum.set_in_sync(nodes.counted)
        for name, in_sync in progress.changes(now, nodes.known.nodes or None):
            self.actions.append(Notice(self._said_of(name, in_sync=in_sync)))

    def _said_of(self, name: str, *, in_sync: bool) -> str:
        assert self.progress is not None
        if in_sync:
            return f"'{name}' is in sync again"
        owes = "owes" if self.progress.followers[name].has_joined else "has not joined, and owes"
        text = f"'{name}' is not in sync: it {owes} acknowledgements for too long"
        return f"{text}; events are confirmed without it" if self._acks is Acks.ALL else text

    def _beat(self, node: str, now: int) -> None:
        shipment = self.shipments.get(node)
        if shipment is not None and shipment.is_joined:
            assert self.quorum is not None
            # What has left is read first: all that it needs is confirmed by then.
            first, lag, local = first_lsn_of(self._disk), self.lag(node, now), self.quorum.local
            said = Beat(self.durable(now), local, lag.bytes, lag.microseconds, first)
            self.actions.append(Send(node, said))
        elif shipment is None or shipment.refused is not None:
            # One that has led until now cannot follow at once.
            self.actions.append(Send(node, self._ask()))

    def lag(self, node: str, now: int) -> Lag:
        """Return how far a node that has joined is behind this one, which leads."""
        assert self.quorum is not None
        shipment = self.shipments[node]
        acked, local = shipment.acked or 0, self.quorum.local
        if acked >= local:
            return NO_LAG
        size = bytes_between(self._disk, shipment.acked_place, self._end)
        return Lag(local - acked, size, self._lags.since(acked, now))

    def waiting(self, now: int) -> Lag:
        """Return what is on the disk of this node, which leads, and waits for those of others."""
        assert self.quorum is not None
        durable, local = self.quorum.durable, self.quorum.local
        if durable >= local:
            return NO_LAG
        size = bytes_between(self._disk, self._lags.place(durable), self._end)
        return Lag(local - durable, size, self._lags.since(durable, now))

    def _try_later(self, now: int, microseconds: int) -> None:
        self._next_try = now + self._chance(microseconds, 2 * microseconds)

    # ---- the arbiter

    def granted(self, lease: Lease, asked: int, now: int) -> None:
        """Stand for the lead: a lease was granted that was asked for then."""
        known = self.following.record.record.promised
        if self.role is not Role.FOLLOWING or lease.epoch <= known:
            self.actions.append(Release(lease.epoch))
            return
        self.epoch = lease.epoch
        self._hold(lease, asked)
        self.role = Role.STANDING
        self.following.stand(lease.epoch)
        self._gather_until = now + self._times.gather
        self._next_beat = now + self._times.gather // 5
        needed = answers_needed(self._acks, len(self.nodes))
        self._gathering = Gathering(self.following.standing(), needed, self.nodes)
        self._list = None
        self.actions.append(ReadList(self.epoch))
        for node in sorted(self.nodes - {self.name}):
            self.actions.append(Send(node, self._ask()))
        self._look_at_answers(now)

    def _ask(self) -> Ask:
        return Ask(self.following.cluster, self.epoch, self.name, self.role is Role.STANDING)

    def _hold(self, lease: Lease, asked: int) -> None:
        self.valid_until = asked + lease.microseconds - self._times.margin
        self._next_renewal = asked + self._times.renew

    def renewed(self, lease: Lease, asked: int) -> None:
        """Note that the lease was renewed, which was asked for then."""
        if self.role is not Role.FOLLOWING and lease.epoch == self.epoch:
            self._hold(lease, asked)

    def gone(self, epoch: int, now: int) -> None:
        """Note that the lease is another's."""
        if self.role is not Role.FOLLOWING and epoch == self.epoch:
            self._step_down(now, "the lease is gone")

    def listed(self, epoch: int, found: InSync, now: int) -> None:
        """Take the list of nodes that are in sync, which was read, or written."""
        if self.role is Role.FOLLOWING or epoch != self.epoch:
            return
        if self._list is not None:
            self._list.read(found, now)
            return
        is_kept = self._acks is Acks.ALL
        self._list = ListOfNodes(self.name, self.nodes, found, is_kept=is_kept)
        if self._gathering is not None:
            self._gathering.counted = frozenset(found.nodes) if is_kept else self.nodes
            self._look_at_answers(now)

    # ---- the other nodes

    def connected(self, node: str) -> None:
        """Speak to a node whose connection is new."""
        self.lost(node)
        if self.role is not Role.FOLLOWING:
            self.actions.append(Send(node, self._ask()))

    def lost(self, node: str) -> None:
        """Note that the connection to a node has ended."""
        self.shipments.pop(node, None)
        self._standing.pop(node, None)

    def answered(self, node: str, said: Answer, now: int) -> None:
        """Take what another node answered."""
        if self.role is Role.FOLLOWING:
            return
        if now >= self.valid_until:
            self._step_down(now, LATE)
        elif isinstance(said, Refused) and self._is_promised_elsewhere(said):
            self._step_down(now, f"{node} promised epoch {said.promised} to another node")
        elif self.role is Role.LEADING:
            self._ship(node, said, now)
        elif self._gathering is not None and isinstance(said, Standing):
            self._gathering.answer(said)
            self._look_at_answers(now)

    def acknowledged(self, node: str, said: Ack, now: int) -> None:
        """Take what a follower answered to the broker, over a lane."""
        shipment = self.shipments.get(node)
        if shipment is not None and shipment.is_joined:
            self.answered(node, said, now)

    def _is_promised_elsewhere(self, said: Refused) -> bool:
        """Whether a node cannot follow this one in this epoch. An arbiter that lost its memory may
        grant an epoch again that was promised to another node: only a newer one helps."""
        is_same = said.promised == self.epoch and said.to not in ("", self.name)
        return said.promised > self.epoch or is_same

    def _look_at_answers(self, now: int) -> None:
        gathering = self._gathering
        assert gathering is not None
        if not gathering.is_complete:
            return
        self._gathering = None
        self.following.is_foreign = gathering.is_foreign
        if gathering.obstacle:
            self._step_down(now, gathering.obstacle)
        else:
            self.role = Role.OPENING
            self.actions.append(Lead(self.epoch))

    def leads(
        self, disk: Disk, data_id: bytes, end: Place, now: int, base: Disk | None = None
    ) -> None:
        """Lead from here on: the journal is open, and ends at a place. `base` is the folder of its
        base."""
        assert self.role is Role.OPENING
        record = self.following.record
        record.set_epochs(begun(record.record.epochs, Beginning(self.epoch, end, self.name)))
        record.set_whole()
        self.role, self._followed = Role.LEADING, now
        assert self._list is not None
        self.quorum = Quorum(self._acks, self.nodes, self._list.counted)
        self.progress = Progress(self.nodes - {self.name}, self._times.lag, now)
        self.trouble = ""
        self._disk, self._data_id, self._end, self._base = disk, data_id, end, base
        self._lags = Lags(now, 0, end)
        for node in sorted(self.nodes - {self.name}):
            self.actions.append(Send(node, self._ask()))

    def _ship(self, node: str, said: Answer, now: int) -> None:
        assert self.quorum is not None
        shipment = self.shipments.get(node)
        if isinstance(said, Standing):
            if said.epoch != self.epoch:
                # It is about an earlier lead, whose other answers may follow it: the follower may
                # have more than it says, and less than they say.
                return
            # What came before does not count any more, nor does what the broker heard.
            self.shipments.pop(node, None)
            self.quorum.forget(node)
            self._standing[node] = said
            self.actions.append(Forget(node))
        elif shipment is not None:
            self._take(node, shipment, said, now)

    def forgotten(self, node: str, confirmed: int, now: int) -> None:
        """Let a follower join: what it acknowledged over a lane does not count any more, all that
        is written has been said, and the broker has confirmed everything up to an event."""
        said = self._standing.pop(node, None)
        if said is None or self.role is not Role.LEADING or now >= self.valid_until:
            return
        assert self.quorum is not None
        self.quorum.confirmed(confirmed)
        epochs = self.following.record.record.epochs
        shipment = self.shipments[node] = Shipment(
            self._ask(), self._disk, self._data_id, epochs, self._end, self._base
        )
        self._take(node, shipment, said, now)

    def _take(self, node: str, shipment: Shipment, said: Answer, now: int) -> None:
        assert self.quorum is not None
        try:
            join = shipment.receive(said, now)
        except JournalError as error:
            shipment.refused = Refused(self.epoch, str(error))
            return
        if join is not None:
            self.actions.append(Send(node, join))
        elif isinstance(said, Ack | Joined):
            self.quorum.acknowledged(node, said.lsn)
        if isinstance(said, Ack | Joined | Taken):
            self._send_parts(node, shipment)
            self._look_at_hand_over(now)

    def wrote(self, end: Place, lsn: int) -> None:
        """Note what is on the leader's own disk, and send it."""
        assert self.quorum is not None
        self.quorum.wrote(lsn)
        self.writing(end)

    def writing(self, end: Place) -> None:
        """Send what the leader has written, while it is synced: it counts once `wrote` says so."""
        self._end = max(self._end, end)
        for node, shipment in self.shipments.items():
            self._send_parts(node, shipment)

    def _send_parts(self, node: str, shipment: Shipment) -> None:
        """Send what a follower lacks. Where that has left the journal, it gets nothing any more."""
        try:
            self.actions.extend(Send(node, each) for each in shipment.pull(self._end))
        except JournalError as error:
            shipment.is_joined, shipment.base = False, None
            shipment.refused = Refused(self.epoch, str(error))

    def needed_lsn(self, now: int) -> int:
        """Return the event from which on followers still need the journal; 0 if none needs any. One
        that is stuck must not fill this disk: it gets the base later."""
        since = now - STUCK_LAGS * self._times.lag
        needed = [shipment.needed_lsn(since) for shipment in self.shipments.values()]
        return min(filter(None, needed), default=0)

    def durable(self, now: int) -> int:
        """Return the last event that may be confirmed; 0 if none may."""
        if self.role is not Role.LEADING or now >= self.valid_until:
            return 0
        assert self.quorum is not None
        assert self._list is not None
        return self.quorum.durable if self._list.is_right else 0

    # ---- the lead goes to another node

    def hand_over(self, to: str, now: int) -> None:
        """Let another node lead: the one that is named, "" for the follower that has most. Raises
        HandOverRefused."""
        if self.role is not Role.LEADING:
            known = self.following.record.record.node
            who = f"'{known}' does" if known not in ("", self.name) else "no node is known to"
            raise HandOverRefused(f"'{self.name}' does not lead; {who}")
        assert self.quorum is not None
        if self.handing_over is not None:
            raise HandOverRefused(f"the lead is being handed over to '{self.handing_over.to}'")
        if to == self.name:
            raise HandOverRefused(f"'{to}' leads already")
        if to and to not in self.nodes:
            others = ", ".join(sorted(self.nodes - {self.name}))
            raise HandOverRefused(f"there is no node '{to}'; the others are {others}")
        there = self._able_to_lead()
        to = to or next_leader(there)
        if not to:
            raise HandOverRefused("no other node follows now; see 'daybook cluster status'")
        check_next(to, there, self.quorum.local)
        self._end_lead(to, now)

    def finish(self, now: int) -> bool:
        """End the lead with a hand-over if a node can lead next, else without; return whether the
        broker has to end first."""
        if self.role is not Role.LEADING:
            self.failed("the node stops", now)
            return False
        if self.handing_over is None:
            self._end_lead(next_leader(self._able_to_lead()), now)
        return True

    def _able_to_lead(self) -> dict[str, Shipment]:
        """Return the followers; with `all` only those on the list, because no others may lead."""
        assert self._list is not None
        listed = self._list.known.nodes if self._acks is Acks.ALL else self.nodes
        return {name: each for name, each in self.shipments.items() if name in listed}

    def _end_lead(self, to: str, now: int) -> None:
        self.hand_over_trouble = ""
        self.handing_over = HandingOver(to, now + self._times.hand_over)
        self.actions.append(Finish(self._times.hand_over))

    def finished(self, end: Place, lsn: int, now: int) -> None:
        """Note that the broker has closed the journal, which ends there."""
        if self.role is not Role.LEADING:
            return
        if self.handing_over is None:
            self._step_down(now, "the broker has ended")
            return
        self.handing_over.is_closed = True
        self.wrote(end, lsn)
        self._look_at_hand_over(now)

    def _look_at_hand_over(self, now: int) -> None:
        """Give the lease back when the next leader has everything."""
        handing_over = self.handing_over
        if handing_over is not None and handing_over.is_ready(self.shipments):
            self._leave_to(handing_over.to, now)
            # Not before the next leader has had its time.
            self._next_try = now + self._times.lease

    def _leave_to(self, to: str, now: int) -> None:
        """Give the lease back, and let all followers know who stands next."""
        for node, shipment in sorted(self.shipments.items()):
            if to and shipment.is_joined:
                self.actions.append(Send(node, HandedOver(to)))
        self.handing_over = None
        self._follow(now)

    def _give_up_hand_over(self, now: int, handing_over: HandingOver) -> None:
        """Lead again, in a new epoch, because the next leader did not catch up; the broker, if it
        has not even ended, is stopped."""
        if not handing_over.is_closed:
            self._step_down(now, "the broker did not end in time")
            return
        self.hand_over_trouble = f"'{handing_over.to}' did not catch up in time"
        self._leave_to(self.name, now)
        self.handed_over(self.name, now)

    def handed_over(self, to: str, now: int) -> None:
        """Stand at once if the leader has named this node as the next one; else give it time."""
        if self.role is not Role.FOLLOWING:
            return
        self._was_led = False
        if to == self.name:
            self._next_try, self._invited_until = now, now + self._times.lease
        else:
            self._next_try = now + self._chance(self._times.lease, 2 * self._times.lease)

    # ---- the end of a lead

    def failed(self, why: str, now: int) -> None:
        """Lead no more: the journal cannot be opened, or written."""
        if self.role is not Role.FOLLOWING:
            self._step_down(now, why)

    def ended(self, why: str, now: int) -> None:
        """Note that the broker has ended, which is a failure unless it has closed the journal."""
        if self.handing_over is None or not self.handing_over.is_closed:
            self.failed(why, now)
        # It has said everything, and forgets nothing any more.
        for node in list(self._standing):
            self.forgotten(node, 0, now)

    def _promised_another(self, epoch: int) -> None:
        if self.role is not Role.FOLLOWING:
            self._step_down(self._next_renewal, f"epoch {epoch} was promised to another node")

    def _step_down(self, now: int, why: str) -> None:
        if self.handing_over is not None:
            self.handing_over, self.hand_over_trouble = None, why
        if self.role in (Role.OPENING, Role.LEADING):
            self.actions.append(Stop(why))
        self.trouble = why
        self._follow(now)

    def _follow(self, now: int) -> None:
        self.actions.append(Release(self.epoch))
        self.role = Role.FOLLOWING
        self._gathering = self.quorum = self.progress = self._list = None
        self.shipments.clear()
        self._standing.clear()
        self._try_later(now, 2 * self._times.renew)
