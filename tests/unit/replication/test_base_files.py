"""A node that lacks segments which have left the leader gets the base, and begins its journal
behind it, wherever it is interrupted."""

import hashlib
import random
from collections.abc import Iterator
from contextlib import suppress

import msgspec
import pytest

from daybook.journal.disk import Disk, MemoryDisk, write_all
from daybook.journal.errors import JournalError
from daybook.journal.journal import Journal
from daybook.journal.places import Place
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import first_lsn_of, segment_names
from daybook.paging.snapshots.base import Base, name_of
from daybook.replication import shipping
from daybook.replication.base_files import (
    COMING,
    RENEWAL_NAME,
    described,
    finish_renewal,
    sound_base,
)
from daybook.replication.epochs import Beginning
from daybook.replication.following import Following
from daybook.replication.messages import (
    Ask,
    BasePart,
    Beat,
    Join,
    Offer,
    Refused,
    Said,
    Standing,
    Taken,
)
from daybook.replication.record import RecordFile
from daybook.replication.replica_files import ReplicaFiles
from daybook.replication.shipping import PART_BYTES, Shipment
from tests.simulation.machine.disk import FaultyDisk, PowerCut
from tests.suites.journal_rows import DATA_ID, LAYOUT, SEGMENT_BYTES, make_batch, some_contents

EVENTS = 120
PEER = 1


def content_of_base(lsn: int, size: int) -> bytes:
    return random.Random(lsn).randbytes(size)


class Leader:
    """A leader's disks. Its base has any bytes: nobody here looks into it."""

    def __init__(self, *, base_bytes: int = 3_000_000) -> None:
        self.disk = MemoryDisk()
        self.base = MemoryDisk()
        self.base_bytes = base_bytes
        self.epochs = [Beginning(1, Place(0, 0), "a")]
        self.journal = Journal.create(
            self.disk, LAYOUT, data_id=DATA_ID, segment_bytes=SEGMENT_BYTES
        )
        self.write(EVENTS)

    def write(self, count: int) -> None:
        for _ in range(count):
            lsn = self.journal.next_lsn
            self.journal.append(make_batch(lsn, some_contents(lsn, 1)))

    def remove(self, keep: int) -> int:
        """Let segments leave until so many are there; return the first event that stays."""
        names = segment_names(self.disk)
        for name in names[:-keep]:
            self.disk.remove(name)
        first = first_lsn_of(self.disk)
        self.write_base(first - 1)
        return first

    def write_base(self, lsn: int) -> None:
        content = content_of_base(lsn, self.base_bytes)
        self.base.files = {}
        write_all(self.base.open_for_writing(name_of(lsn)), content, 0)
        told = Base(
            lsn, name_of(lsn), len(content), hashlib.sha256(content).hexdigest(), DATA_ID.hex()
        )
        write_all(self.base.open_for_writing("base.json"), msgspec.json.encode(told), 0)

    def shipment(self, epoch: int) -> Shipment:
        if epoch > self.epochs[-1].epoch:
            self.epochs.append(Beginning(epoch, self.journal.place, "a"))
        return Shipment(
            Ask("cluster", epoch, "leader", True), self.disk, DATA_ID, tuple(self.epochs),
            self.journal.place, self.base,
        )  # fmt: skip


class Follower:
    """A follower's disks, which may lose their power."""

    def __init__(self, seed: int = 0) -> None:
        self.disks = [FaultyDisk(seed + number) for number in range(4)]
        self.start()

    def start(self) -> None:
        journal, base, kept, notes = self.disks
        self.journal, self.base, self.kept = journal, base, kept
        record = RecordFile(notes)
        if not record.record.promised:
            record.promise(1, "before", 0)
        self.following = Following("follower", "cluster", record)
        self.following.files = ReplicaFiles(
            journal, kept, LAYOUT, segment_bytes=SEGMENT_BYTES, base=base
        )

    def lose_power(self) -> None:
        self.disks = [disk.crash() for disk in self.disks]
        self.start()

    @property
    def files(self) -> ReplicaFiles:
        assert self.following.files is not None
        return self.following.files


def talk(leader: Leader, follower: Follower, epoch: int = 2) -> Iterator[Said]:
    """Let a leader give a follower what it lacks; yield what it says, before it arrives."""
    shipment = leader.shipment(epoch)
    waiting: list[Said] = [shipment.ask]
    while waiting:
        said = waiting.pop(0)
        yield said
        answer = follower.following.receive(PEER, said)
        if isinstance(answer, Refused):
            raise AssertionError(answer.why)
        if isinstance(answer, Standing) and not isinstance(said, Ask):
            shipment = leader.shipment(epoch)
        if answer is not None:
            asked = shipment.receive(answer, 0)
            waiting += [asked] if asked is not None else []
        waiting += shipment.pull(leader.journal.place)


def kinds(said: Iterator[Said]) -> set[type[Said]]:
    return {type(each) for each in said}


def lsns(disk: Disk) -> list[int]:
    return [int(event[0]) for block in read_blocks(disk) for event in block.events()]


def is_same(leader: Leader, follower: Follower) -> None:
    first, last = first_lsn_of(leader.disk), leader.journal.durable_lsn
    there = lsns(follower.journal)
    assert there[-1] == last
    assert there[0] <= first
    assert there == list(range(there[0], last + 1))
    assert follower.files.last_hash == leader.journal.last_hash


def has_base(leader: Leader, follower: Follower) -> None:
    assert described(follower.base) == described(leader.base)
    base = sound_base(follower.base)
    assert base is not None
    content = follower.base.open(base.file).pread(base.bytes, 0)
    assert content == content_of_base(base.lsn, base.bytes)
    assert sorted(follower.base.names()) == sorted(["base.json", base.file])


def test_an_empty_follower_gets_the_base_and_what_is_behind_it() -> None:
    leader, follower = Leader(), Follower()
    first = leader.remove(3)
    parts = [each for each in talk(leader, follower) if isinstance(each, BasePart)]
    assert len(parts) == -(-leader.base_bytes // PART_BYTES)
    is_same(leader, follower)
    has_base(leader, follower)
    assert lsns(follower.journal)[0] == first


def test_a_follower_that_was_away_begins_anew() -> None:
    leader, follower = Leader(), Follower()
    assert Offer not in kinds(talk(leader, follower))
    leader.write(200)
    leader.remove(2)
    assert Offer in kinds(talk(leader, follower, 3))
    is_same(leader, follower)
    has_base(leader, follower)
    # All that it had was the leader's too.
    assert follower.kept.names() == []


def test_what_only_the_follower_has_is_kept() -> None:
    leader, follower = Leader(), Follower()
    list(talk(leader, follower))
    follower.files.close()
    own, _ = Journal.open(follower.journal, LAYOUT, segment_bytes=SEGMENT_BYTES)
    fork = own.place
    lsn = own.next_lsn
    own.append(make_batch(lsn, some_contents(lsn, 1)))
    own.close()
    follower.start()
    follower.following.record.set_epochs((Beginning(1, Place(0, 0), "a"), Beginning(7, fork, "b")))
    leader.write(200)
    leader.remove(2)
    assert Offer in kinds(talk(leader, follower, 8))
    is_same(leader, follower)
    assert lsns(follower.kept) == [lsn]


def test_a_follower_that_has_all_that_left_needs_no_base() -> None:
    leader, follower = Leader(), Follower()
    list(talk(leader, follower))
    segments = len(segment_names(leader.disk))
    while len(segment_names(leader.disk)) == segments:
        list(talk(leader, follower))
        leader.write(1)
    assert follower.files.lsn == leader.journal.durable_lsn - 1
    leader.remove(1)
    said = kinds(talk(leader, follower, 4))
    assert Offer not in said
    assert Join in said
    is_same(leader, follower)


def test_a_base_that_has_come_is_not_sent_again() -> None:
    leader, follower = Leader(), Follower()
    leader.remove(3)
    for each in talk(leader, follower):
        if isinstance(each, Join):
            break
    assert not follower.following.may_lead
    follower.lose_power()
    assert not follower.following.may_lead
    assert BasePart not in kinds(talk(leader, follower, 3))
    assert follower.following.may_lead
    is_same(leader, follower)


def test_a_base_that_is_replaced_meanwhile_is_offered_again() -> None:
    leader, follower = Leader(base_bytes=40_000_000), Follower()
    leader.remove(4)
    shipment = leader.shipment(2)
    answer = follower.following.receive(PEER, shipment.ask)
    assert isinstance(answer, Standing)
    assert isinstance(shipment.receive(answer, 0), Offer)
    shipment.receive(Taken(0), 0)
    assert len(list(shipment.pull(leader.journal.place))) == 8
    leader.remove(2)
    shipment.receive(Taken(8 << 20), 0)
    with pytest.raises(JournalError, match="replaced"):
        list(shipment.pull(leader.journal.place))
    leader.base_bytes = 10
    leader.remove(2)
    list(talk(leader, follower, 3))
    is_same(leader, follower)
    has_base(leader, follower)


def test_a_damaged_base_is_refused() -> None:
    leader, follower = Leader(), Follower()
    leader.remove(3)
    [name] = [name for name in leader.base.names() if name.endswith(".mdb")]
    leader.base.files[name][1_500_000] ^= 1
    with pytest.raises(AssertionError, match="SHA-256"):
        list(talk(leader, follower))
    assert segment_names(follower.journal) == []
    assert sound_base(follower.base) is None


def test_segments_leave_a_follower_only_when_it_has_what_is_confirmed() -> None:
    leader, follower = Leader(), Follower()
    list(talk(leader, follower))
    following = follower.following
    last = follower.files.lsn
    following.receive(PEER, Beat(last + 1, first=50))
    assert following.first == 0
    leader.write(1)
    list(talk(leader, follower, 3))
    following.receive(PEER, Beat(last + 1, first=50))
    assert following.first == 50


@pytest.mark.parametrize("was_there", [False, True])
@pytest.mark.parametrize("victim", [0, 1], ids=["journal", "base"])
def test_a_power_cut_anywhere_is_survived(
    victim: int, was_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "PART_BYTES", 2_000)
    for step in range(1, 400):
        leader, follower = Leader(base_bytes=5_000), Follower(seed=step)
        if was_there:
            list(talk(leader, follower))
            leader.write(60)
        leader.remove(2)
        follower.disks[victim].crash_after(step)
        try:
            list(talk(leader, follower, 3))
        except PowerCut:
            follower.lose_power()
        else:
            break
        # Either what was there is there, or the journal is empty behind the new base.
        if follower.files.base:
            assert segment_names(follower.journal) == []
        elif was_there:
            assert segment_names(follower.journal)
        list(talk(leader, follower, 4))
        is_same(leader, follower)
        has_base(leader, follower)
        assert RENEWAL_NAME not in follower.journal.names()
        assert COMING not in follower.base.names()
    assert 5 < step < 399


def test_a_decision_that_is_damaged_is_not_carried_out() -> None:
    disk = MemoryDisk()
    write_all(disk.open_for_writing(RENEWAL_NAME), b"no decision", 0)
    with pytest.raises(JournalError, match="damaged"):
        finish_renewal(disk, MemoryDisk())


@pytest.mark.parametrize("seed", range(40))
def test_a_renewal_that_a_killed_process_decided_is_finished(seed: int) -> None:
    """It was killed before the decision was on the disk, and the next one loses its power."""
    leader, follower = Leader(base_bytes=5_000), Follower(seed=seed)
    list(talk(leader, follower))
    leader.write(60)
    leader.remove(2)
    # No group is marked, which would bring the names to the disk.
    follower.files.close()
    follower.start()
    before = segment_names(follower.journal)
    told = talk(leader, follower, 3)
    while not isinstance(next(told), BasePart):
        pass
    follower.journal.fail_next("sync_directory")
    with pytest.raises(OSError, match="directory"):
        list(told)
    assert RENEWAL_NAME in follower.journal.names()
    for disk in follower.disks:
        disk.survive_kill()
    follower.journal.crash_after(2 + seed % 8)
    with suppress(PowerCut):
        follower.start()
    follower.lose_power()
    assert segment_names(follower.journal) in ([], before)
    list(talk(leader, follower, 4))
    is_same(leader, follower)
    has_base(leader, follower)
