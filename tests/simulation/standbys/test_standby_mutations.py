"""Each mistake that is planted is found: a promise is broken that the oracle knows."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from daybook.journal.blocks.block import EncodedBlock
from daybook.journal.disk import write_all
from daybook.journal.errors import JournalError
from daybook.journal.journal import Journal
from daybook.journal.places import Place
from daybook.journal.replica import Replica
from daybook.replication import gathering, in_sync, node, quorum
from daybook.replication.following import Following
from daybook.replication.handing_over import HandingOver
from daybook.replication.messages import Ack, Answer, Ask, Beat, Blocks, Join, Joined, Standing
from daybook.replication.quorum import Acks
from daybook.replication.record import RecordFile
from daybook.replication.replica_files import ReplicaFiles
from tests.simulation.standbys.lanes import LeaderLanes
from tests.simulation.standbys.search import play

SEEDS = 40

Patch = pytest.MonkeyPatch


class Mistake(NamedTuple):
    """A mistake, where it is found, and from which seed on."""

    plant: Callable[[Patch], None]
    acks: Acks
    nodes: int
    first: int


MISTAKES: dict[str, Mistake] = {}


def mistake(
    plant: Callable[[Patch], None], acks: Acks = Acks.MAJORITY, nodes: int = 3, first: int = 0
) -> Callable[[Patch], None]:
    MISTAKES[plant.__name__] = Mistake(plant, acks, nodes, first)
    return plant


def of(
    acks: Acks, nodes: int, first: int = 0
) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    return partial(mistake, acks=acks, nodes=nodes, first=first)


@mistake
def followers_acknowledge_before_the_sync(patch: Patch) -> None:
    def put(self: Replica, block: EncodedBlock) -> None:
        assert self._file is not None
        write_all(self._file, block.data, self._offset)

    patch.setattr(Replica, "put", put)


@of(Acks.MAJORITY, 3, 440)
def promises_are_only_in_memory(patch: Patch) -> None:
    def promise(self: RecordFile, epoch: int, name: str, unknown: int = 0) -> None:
        self.record = replace(
            self.record, promised=epoch, node=name, unknown=max(unknown, self.record.unknown)
        )

    patch.setattr(RecordFile, "promise", promise)


@of(Acks.MAJORITY, 3, 91)
def older_leaders_are_followed(patch: Patch) -> None:
    def _promise(self: Following, peer: int, said: Ask) -> Standing:
        if said.epoch > self.record.record.promised:
            self.record.promise(said.epoch, said.node)
        self._peer, self._is_joined = peer, False
        return replace(self.standing(), epoch=said.epoch)

    patch.setattr(Following, "_promise", _promise)


# With followers that must have promised, a leader whose lease is gone gets no acknowledgement.
@of(Acks.NONE, 2)
def a_lease_is_not_looked_at(patch: Patch) -> None:
    def durable(self: node.Node, now: int) -> int:
        return self.quorum.durable if self.quorum is not None else 0

    patch.setattr(node.Node, "durable", durable)


@of(Acks.NONE, 2)
def a_lease_is_reckoned_from_its_answer(patch: Patch) -> None:
    def _hold(self: node.Node, lease: node.Lease, asked: int) -> None:
        self.valid_until = asked + 2 * lease.microseconds
        self._next_renewal = asked + self._times.renew

    patch.setattr(node.Node, "_hold", _hold)


@mistake
def tails_stay(patch: Patch) -> None:
    def continue_from(self: ReplicaFiles, data_id: bytes, place: Place, hashed: bytes) -> bool:
        if self._replica is None:
            return original(self, data_id, place, hashed)
        return False

    original = ReplicaFiles.continue_from
    patch.setattr(ReplicaFiles, "continue_from", continue_from)


@mistake
def one_node_is_enough(patch: Patch) -> None:
    # Candidates still ask as many as they should.
    patch.setattr(quorum.Quorum, "followers_needed", 0)


@mistake
def candidates_ask_nobody(patch: Patch) -> None:
    patch.setattr(node, "answers_needed", lambda acks, nodes: 1)


@mistake
def candidates_lead_though_another_has_more(patch: Patch) -> None:
    patch.setattr(gathering.Gathering, "obstacle", "")


@of(Acks.MAJORITY, 3, 104)
def longer_journals_win_whatever_their_epoch(patch: Patch) -> None:
    patch.setattr(gathering, "freshness", lambda said: said.place)


@of(Acks.MAJORITY, 3, 31)
def epochs_are_noted_before_the_cut(patch: Patch) -> None:
    def _join(self: Following, files: ReplicaFiles, said: Join) -> Joined:
        self.record.set_epochs(said.epochs)
        files.continue_from(said.data_id, said.place, said.hash)
        self._is_joined = True
        return Joined(files.lsn)

    patch.setattr(Following, "_join", _join)


@mistake
def those_that_led_until_now_are_not_asked_again(patch: Patch) -> None:
    def _beat(self: node.Node, name: str, now: int) -> None:
        assert self.quorum is not None
        shipment = self.shipments.get(name)
        if shipment is not None and shipment.is_joined:
            self.actions.append(node.Send(name, Beat(self.quorum.durable)))

    patch.setattr(node.Node, "_beat", _beat)


@mistake
def leaders_note_no_epoch(patch: Patch) -> None:
    patch.setattr(RecordFile, "set_epochs", lambda self, epochs: None)


@mistake
def leaders_confirm_before_their_own_sync(patch: Patch) -> None:
    def put(self: Journal, block: EncodedBlock) -> None:
        assert self._file is not None
        write_all(self._file, block.data, self._offset)
        if isinstance(self, Replica):
            self._file.fdatasync()

    patch.setattr(Journal, "put", put)


@mistake
def nodes_that_lost_their_record_count(patch: Patch) -> None:
    def standing(self: Following) -> Standing:
        return replace(original(self), is_whole=True)

    original = Following.standing
    patch.setattr(Following, "standing", standing)


@of(Acks.NONE, 2)
def empty_nodes_lead(patch: Patch) -> None:
    nodes_that_lost_their_record_count(patch)


@of(Acks.ALL, 3, 20)
def nodes_leave_the_list_before_that_is_written(patch: Patch) -> None:
    def counted(self: in_sync.ListOfNodes) -> frozenset[str]:
        return self._unsure[-1] if self._unsure else original.__get__(self)

    original = in_sync.ListOfNodes.counted
    patch.setattr(in_sync.ListOfNodes, "counted", property(counted))


@of(Acks.ALL, 3)
def nodes_lead_that_are_not_on_the_list(patch: Patch) -> None:
    def is_complete(self: gathering.Gathering) -> bool:
        return self.own.is_whole

    patch.setattr(gathering.Gathering, "is_complete", property(is_complete))


@of(Acks.MAJORITY, 3, 7)
def blocks_are_acknowledged_before_they_follow(patch: Patch) -> None:
    def receive_early(self: Following, peer: int, said: Blocks) -> Answer | None:
        answer = original(self, peer, said)
        return answer if answer is not None else Ack(said.place, 1 << 40)

    original = Following.receive_early
    patch.setattr(Following, "receive_early", receive_early)


@mistake
def followers_join_before_the_broker_has_said_everything(patch: Patch) -> None:
    def forget(self: LeaderLanes, target: str) -> None:
        machine = self._machine
        machine.node.forgotten(target, 0, machine.clock)

    patch.setattr(LeaderLanes, "forget", forget)
    patch.setattr(Following, "_has_more_of", lambda self, files, place: False)


@mistake
def the_lead_is_handed_over_before_the_next_leader_has_all(patch: Patch) -> None:
    patch.setattr(HandingOver, "is_ready", lambda self, shipments: True)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found(name: str, monkeypatch: Patch) -> None:
    plant, acks, nodes, first = MISTAKES[name]
    plant(monkeypatch)
    for seed in range(first, first + SEEDS):
        try:
            play(seed, acks, nodes)
        except (AssertionError, JournalError):
            return
    pytest.fail(f"{SEEDS} seeds did not find it")
