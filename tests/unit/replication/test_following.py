"""A node that follows: its promises, and when it counts among those that know enough."""

import pytest
from msgspec.structs import replace

from daybook.journal.blocks.format import NO_HASH
from daybook.journal.journal import Journal
from daybook.journal.places import BEFORE_ALL, Place
from daybook.replication.epochs import Beginning
from daybook.replication.following import EARLY_MAX, Following, NotFollowing
from daybook.replication.messages import (
    Ack,
    Answer,
    Ask,
    Beat,
    Blocks,
    Join,
    Joined,
    Refused,
    Said,
    Standing,
)
from daybook.replication.record import RecordFile
from daybook.replication.replica_files import ReplicaFiles
from daybook.replication.shipping import Shipment
from tests.simulation.machine.disk import FaultyDisk
from tests.suites.journal_rows import LAYOUT, make_batch

DATA_ID = bytes(range(16))


@pytest.fixture
def following() -> Following:
    return restarted(FaultyDisk(1), FaultyDisk(2))


def restarted(disk: FaultyDisk, notes: FaultyDisk) -> Following:
    found = Following("b", "cluster", RecordFile(notes))
    found.files = ReplicaFiles(disk, FaultyDisk(3), LAYOUT, segment_bytes=8192)
    return found


def ask(epoch: int, *, is_standing: bool = True) -> Ask:
    return Ask("cluster", epoch, "a", is_standing)


def a_journal(events: int, data_id: bytes = DATA_ID) -> tuple[FaultyDisk, Journal]:
    disk = FaultyDisk(4)
    journal = Journal.create(disk, LAYOUT, data_id=data_id, segment_bytes=8192)
    for lsn in range(1, events + 1):
        journal.append(make_batch(lsn, [((1, 1, 1, lsn, 0), b"", b"")]))
    return disk, journal


class Leader:
    """A leader that has written events, some of them before its epoch."""

    def __init__(self, epoch: int, events: int, before: int = 0) -> None:
        self.ask = ask(epoch)
        self.disk, journal = a_journal(before)
        begin = journal.place
        for lsn in range(before + 1, events + 1):
            journal.append(make_batch(lsn, [((1, 1, 1, lsn, 0), b"", b"")]))
        self.end, self.data_id = journal.place, journal.data_id
        self.epochs = (Beginning(epoch, begin, "a"),)

    def ship(self, following: Following, standing: Standing) -> list[Answer]:
        """Give a follower everything; return what it answers."""
        shipment = Shipment(self.ask, self.disk, self.data_id, self.epochs, self.end)
        join = shipment.receive(standing, 0)
        assert join is not None
        answers = [told(following, join)]
        shipment.receive(answers[0], 0)
        for said in shipment.pull(self.end):
            answer = following.receive(1, said)
            answers += [answer] if answer is not None else []
        return answers


def told(following: Following, said: Said) -> Answer:
    answer = following.receive(1, said)
    assert answer is not None
    return answer


def stands(following: Following, said: Ask) -> Standing:
    answer = told(following, said)
    assert isinstance(answer, Standing)
    return answer


def test_a_new_node_asks_the_arbiter_before_its_first_promise(following: Following) -> None:
    refused = told(following, ask(4))
    assert refused == Refused(0, "this node is new, and asks the arbiter first who leads")
    assert following.was_asked
    following.record.promise(5, "c", 5)
    assert told(following, ask(4)) == Refused(5, "epoch 5 is promised to 'c'", "c")


def test_a_new_node_counts_once_it_has_what_older_epochs_confirmed(following: Following) -> None:
    following.record.promise(5, "a", 5)
    # Nobody has acknowledged anything in an epoch whose leader still stands.
    standing = stands(following, ask(5))
    assert not standing.is_whole
    answers = Leader(5, 6, before=3).ship(following, standing)
    assert isinstance(answers[0], Joined)
    assert isinstance(answers[-1], Ack)
    assert stands(following, ask(5)).is_whole


@pytest.mark.parametrize("confirmed", [0, 7])
def test_a_node_that_may_have_acknowledged_more_waits(following: Following, confirmed: int) -> None:
    following.record.promise(5, "a", 5)
    Leader(5, 6).ship(following, stands(following, ask(5, is_standing=False)))
    following.receive(1, Beat(confirmed))
    assert not following.record.record.is_whole
    following.receive(1, Beat(6))
    assert following.record.record.is_whole


def test_a_node_that_lost_its_journal_does_not_count() -> None:
    notes = FaultyDisk(2)
    following = restarted(FaultyDisk(1), notes)
    following.record.promise(5, "a", 5)
    leader = Leader(5, 6)
    leader.ship(following, stands(following, ask(5)))
    following = restarted(FaultyDisk(1), notes)
    standing = stands(following, ask(5, is_standing=False))
    assert not standing.is_whole
    told(following, Join(leader.data_id, standing.place, bytes(32), leader.epochs))
    assert not following.record.record.is_whole


def test_a_late_answer_to_a_node_without_a_journal_cuts_nothing_off(following: Following) -> None:
    """It comes on an older connection, when the first segment has begun on a newer one."""
    following.record.promise(5, "a", 5)
    leader = Leader(5, 6)
    standing = stands(following, leader.ask)
    assert standing.place == BEFORE_ALL
    late = Join(leader.data_id, standing.place, NO_HASH, leader.epochs)
    shipment = Shipment(leader.ask, leader.disk, leader.data_id, leader.epochs, leader.end)
    join = shipment.receive(standing, 0)
    assert join is not None
    shipment.receive(told(following, join), 0)
    segment = next(iter(shipment.pull(leader.end)))
    assert following.receive(1, segment) is None
    assert following.files is not None
    begun = following.files.place
    assert begun > BEFORE_ALL
    stands(following, leader.ask)
    refused = told(following, late)
    assert refused == Refused(5, "this node has more of this epoch; ask again", "a")
    assert following.files.place == begun
    assert isinstance(leader.ship(following, stands(following, leader.ask))[-1], Ack)


def test_a_node_that_stands_takes_nothing_of_an_older_leader(following: Following) -> None:
    following.record.promise(5, "a", 5)
    stands(following, ask(5))
    following.stand(6)
    assert told(following, Beat(3)) == Refused(6, "another node leads", "b")
    assert told(following, ask(5)) == Refused(6, "epoch 6 is promised to 'b'", "b")


def test_a_journal_of_another_cluster_is_told(following: Following) -> None:
    disk, journal = a_journal(2, bytes(16))
    journal.close()
    following = restarted(disk, FaultyDisk(2))
    following.record.promise(5, "a", 5)
    [refused] = Leader(5, 6).ship(following, stands(following, ask(5)))
    assert isinstance(refused, Refused)
    assert "this node has the journal of another cluster" in refused.why
    assert following.is_foreign


class Early:
    """A follower that has joined at epoch 5 with one event, and blocks of the leader behind it."""

    def __init__(self, following: Following) -> None:
        self.following = following
        following.record.promise(5, "a", 5)
        leader = Leader(5, 1)
        leader.ship(following, stands(following, ask(5)))
        assert following.files is not None
        begin = following.files.place
        disk, journal = a_journal(1)
        places = []
        for lsn in range(2, 15):
            places.append(journal.place)
            journal.append(make_batch(lsn, [((1, 1, 1, lsn, 0), b"", b"")]))
        assert places[0] == begin
        ends = [*places[1:], journal.place]
        file = disk.open("00000000000000000001.seg")
        self.blocks = [
            Blocks(place, file.pread(end.offset - place.offset, place.offset))
            for place, end in zip(places, ends, strict=True)
        ]
        self.ends = ends

    def lane(self, number: int, peer: int = 1) -> Ack | Refused | None:
        return self.following.receive_early(peer, self.blocks[number])

    def node(self, *numbers: int) -> Answer | None:
        data = b"".join(self.blocks[number].data for number in numbers)
        return self.following.receive(1, Blocks(self.blocks[numbers[0]].place, data))

    def ack(self, number: int) -> Ack:
        return Ack(self.ends[number], number + 2)


@pytest.fixture
def early(following: Following) -> Early:
    return Early(following)


def test_a_block_of_a_lane_is_written_where_it_follows(early: Early) -> None:
    assert early.following.lane_of(5, "a") == 1
    assert early.lane(0) == early.ack(0)
    assert not early.following.took_early
    # It comes from the node, too.
    assert early.node(0) == early.ack(0)
    assert early.node(0, 1) == early.ack(1)
    assert early.lane(1) == early.ack(1)


def test_a_block_that_comes_early_waits_for_those_before_it(early: Early) -> None:
    assert early.lane(2) is None
    assert early.lane(1) is None
    assert early.node(0) == early.ack(2)
    assert early.following.took_early


def test_few_early_blocks_are_kept(early: Early) -> None:
    for number in range(1, 2 + EARLY_MAX):
        assert early.lane(number) is None
    # The first of them made room.
    assert early.node(0) == early.ack(0)
    assert early.node(1) == early.ack(1 + EARLY_MAX)


def test_only_a_lane_of_the_leader_that_was_joined_is_taken(early: Early) -> None:
    for epoch, node in ((4, "a"), (6, "a"), (5, "c")):
        with pytest.raises(NotFollowing, match=f"has not joined '{node}' in epoch {epoch}"):
            early.following.lane_of(epoch, node)
    refused = early.lane(0, peer=2)
    assert isinstance(refused, Refused)
    # Once another node is promised, or the connection is new, nothing of the lane is taken.
    early.following.receive(2, replace(ask(6), node="c"))
    assert isinstance(early.lane(0), Refused)
    with pytest.raises(NotFollowing):
        early.following.lane_of(6, "c")


def test_early_blocks_are_gone_when_a_leader_is_joined_again(early: Early) -> None:
    assert early.lane(1) is None
    files = early.following.files
    assert files is not None
    told(early.following, ask(5, is_standing=False))
    told(early.following, Join(files.data_id, files.place, files.last_hash, ()))
    assert early.node(0) == early.ack(0)


def test_a_damaged_block_of_a_lane_is_refused(early: Early) -> None:
    block = early.blocks[0]
    harmed = replace(block, data=block.data[:-1] + bytes([block.data[-1] ^ 1]))
    refused = early.following.receive_early(1, harmed)
    assert isinstance(refused, Refused)
    assert isinstance(early.lane(0), Refused)
    files = early.following.files
    assert files is not None
    assert files.place == block.place


def test_what_can_wait_is_done_after_the_answer(early: Early) -> None:
    early.lane(0)
    early.following.settle()
    early.following.settle()
    assert early.lane(1) == early.ack(1)
    early.following.files = None
    early.following.settle()


def test_a_block_that_comes_after_its_segment_is_there_already(early: Early) -> None:
    early.lane(0)
    late = replace(early.blocks[1], place=Place(0, 64))
    assert early.following.receive_early(1, late) == early.ack(0)
    assert early.lane(1) == early.ack(1)


def test_nothing_of_its_own_epoch_is_cut_off_a_follower(early: Early) -> None:
    """The node of the leader hears late what went over lanes."""
    following = early.following
    assert isinstance(early.lane(0), Ack)
    assert isinstance(early.lane(1), Ack)
    files = following.files
    assert files is not None
    beginning = following.record.record.epochs[-1]
    place = early.ends[0]
    join = Join(files.data_id, place, files._hash_at(place), (beginning,))
    told(following, ask(5, is_standing=False))
    refused = told(following, join)
    assert refused == Refused(5, "this node has more of this epoch; ask again", "a")
    assert files.place == early.ends[1]
    # A newer leader may lack it.
    standing = told(following, ask(6))
    assert isinstance(standing, Standing)
    assert isinstance(told(following, join), Joined)
    assert files.place == place


def test_what_a_leader_said_before_its_epoch_was_written_cuts_off_nothing(early: Early) -> None:
    """A join can be late, on an older connection: meanwhile the leader counted what came since."""
    following, files = early.following, early.following.files
    assert files is not None
    newest = following.record.record.epochs[-1]._replace(place=early.ends[0])
    join = Join(files.data_id, files.place, files.last_hash, (newest,))
    told(following, ask(5, is_standing=False))
    assert isinstance(told(following, join), Joined)
    assert early.node(0, 1) == early.ack(1)
    told(following, ask(5, is_standing=False))
    refused = told(following, join)
    assert refused == Refused(5, "this node has more of this epoch; ask again", "a")
    assert files.place == early.ends[1]
