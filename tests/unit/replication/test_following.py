"""A node that follows: its promises, and when it counts among those that know enough."""

import pytest

from daybook.journal.journal import Journal
from daybook.replication.epochs import Beginning
from daybook.replication.following import Following
from daybook.replication.messages import (
    Ack,
    Answer,
    Ask,
    Beat,
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
