"""Do the checkers bite where clients speak AMQP? Mistakes are planted in its connections."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from daybook.engine.commands import CloseConnection, Commit, Rollback
from daybook.engine.facts.reasons import STOLEN
from daybook.engine.facts.settlements import ACCEPTED
from daybook.engine.links.links import Ending
from daybook.protocols.amqp.connection import AmqpConnection
from daybook.protocols.amqp.coordinator import Coordinator
from daybook.protocols.amqp.incoming import Incoming
from daybook.protocols.amqp.leaving import front_of, parts_of
from daybook.protocols.amqp.outcomes import ending_of, settlement_of
from daybook.protocols.amqp.outgoing import Outgoing
from daybook.protocols.amqp.sessions import AmqpSession
from daybook.protocols.amqp.wire.performatives import Flow
from tests.simulation.mishaps.hooks import Hooks
from tests.simulation.seeds import AMQP_FROM, RETURNING_FROM, SHORT_FROM
from tests.simulation.test_mutations import is_found
from tests.support.compiled import replaces_parts

Plant = Callable[[pytest.MonkeyPatch], None]
ATTACHING = "daybook.protocols.amqp.attaching"
CONNECTION = "daybook.protocols.amqp.connection"
SUBSCRIPTIONS = "daybook.engine.consumers.subscriptions"
OUTGOING = "daybook.protocols.amqp.outgoing"
SEEDS_MAX = 40
NUMBERS = 8


def answers_what_it_did_not(patch: pytest.MonkeyPatch) -> None:
    """A disposition is lost, and answered"""

    def nothing(
        self: Any, session: AmqpSession, deliveries: list[int], said: Any, now: int
    ) -> None:
        for delivery in deliveries:
            session.settle_sent(delivery, said.state)

    patch.setattr(AmqpConnection, "_settle", nothing)


def accepts_what_is_released(patch: pytest.MonkeyPatch) -> None:
    """Released is taken for accepted"""

    def accepted(state: Any) -> Ending | None:
        ending = ending_of(state)
        return ending and ending._replace(outcome=ACCEPTED)

    patch.setattr(f"{CONNECTION}.ending_of", accepted)


def settles_the_next(patch: pytest.MonkeyPatch) -> None:
    """A disposition settles one delivery more than it says"""
    real = AmqpSession.settled_range

    def settled_range(self: AmqpSession, said: Any, known: Any) -> list[int]:
        last = said.last if said.last is not None else said.first
        return real(self, replace(said, last=last + 1), known)

    patch.setattr(AmqpSession, "settled_range", settled_range)


def numbers_deliveries_again(patch: pytest.MonkeyPatch) -> None:
    """Numbers of deliveries begin again while the old ones are in use"""
    real = AmqpSession.number_delivery
    patch.setattr(AmqpSession, "number_delivery", lambda self: real(self) % NUMBERS)


def accepts_early(patch: pytest.MonkeyPatch) -> None:
    """A message is accepted before it is on the disk"""
    real = Incoming._accept

    def accept(self: Incoming, delivery: int, txn_id: bytes | None, mode: int, lsn: int) -> None:
        real(self, delivery, txn_id, mode, 0)

    patch.setattr(Incoming, "_accept", accept)


def sends_what_was_aborted(patch: pytest.MonkeyPatch) -> None:
    """The pieces of an aborted message are a message"""
    real = Incoming.transfer

    def transfer(self: Incoming, said: Any, payload: bytes, now: int) -> None:
        real(self, replace(said, aborted=False), payload, now)

    patch.setattr(Incoming, "transfer", transfer)


def gives_credit_twice(patch: pytest.MonkeyPatch) -> None:
    """Credit is given twice"""
    real = Outgoing.flow

    def flow(self: Outgoing, said: Flow, now: int) -> None:
        real(self, replace(said, link_credit=2 * (said.link_credit or 0)), now)

    patch.setattr(Outgoing, "flow", flow)


def counts_afresh(patch: pytest.MonkeyPatch) -> None:
    """Each delivery says that it is the first"""
    patch.setattr(
        f"{OUTGOING}.front_of", lambda message, count, marks, now: front_of(message, 1, marks, now)
    )


def leaves_out_the_end(patch: pytest.MonkeyPatch) -> None:
    """A message leaves without what stands behind its body"""

    def without_end(message: Any, front: bytes, prefixes: Any) -> list[bytes]:
        parts = parts_of(message, front, prefixes)
        return parts if message.chunks else parts[:3]

    patch.setattr(f"{OUTGOING}.parts_of", without_end)


def commits_what_failed(patch: pytest.MonkeyPatch) -> None:
    """A discharge that fails is a commit"""
    real = Coordinator._next

    def following(self: Coordinator, message: Any, now: int) -> Any:
        command = real(self, message, now)
        if isinstance(command, Rollback):
            return Commit(command.connection, command.transaction, self.number)
        return command

    patch.setattr(Coordinator, "_next", following)


PLANTED_IN_AMQP: dict[Plant, int] = {
    answers_what_it_did_not: 13,
    accepts_what_is_released: 4,
    settles_the_next: 4,
    numbers_deliveries_again: 11,
    accepts_early: 2,
    sends_what_was_aborted: 15,
    gives_credit_twice: 4,
    counts_afresh: 2,
    leaves_out_the_end: 15,
    commits_what_failed: 4,
}
"""With the seed, from AMQP_FROM on, that is tried first, because it found each once."""


def forgets_what_was_accepted(patch: pytest.MonkeyPatch) -> None:
    """A link that comes again forgets what its client had accepted"""
    patch.setattr(f"{ATTACHING}._resumed", lambda *_: iter(()))


def accepts_what_is_resumed(patch: pytest.MonkeyPatch) -> None:
    """Each delivery that is resumed is accepted"""
    patch.setattr(
        f"{ATTACHING}.settlement_of",
        lambda consumer, message, ending: settlement_of(
            consumer, message, ending._replace(outcome=ACCEPTED)
        ),
    )


def leaves_the_old_link(patch: pytest.MonkeyPatch) -> None:
    """A link that another one took over still gets messages"""
    patch.setattr(f"{SUBSCRIPTIONS}._to_steal", lambda queue: [])


def says_nothing_to_the_old_link(patch: pytest.MonkeyPatch) -> None:
    """A link does not hear that another one took over"""
    real = Outgoing.detached

    def detached(self: Outgoing, reason: int, text: str, gate: int, now: int) -> None:
        if reason == STOLEN:
            self.drop()
        else:
            real(self, reason, text, gate, now)

    patch.setattr(Outgoing, "detached", detached)


def lets_two_in(patch: pytest.MonkeyPatch) -> None:
    """A container that wants one connection gets two"""
    patch.setattr("daybook.engine.consumers.connections._check_only", lambda core, command: None)


PLANTED_IN_RETURNING: dict[Plant, int] = {
    forgets_what_was_accepted: 258,
    accepts_what_is_resumed: 137,
    leaves_the_old_link: 3028,
    says_nothing_to_the_old_link: 37,
    lets_two_in: 102,
}
"""Likewise, from RETURNING_FROM on."""


def leaves_its_end_to_others(patch: pytest.MonkeyPatch) -> None:
    """A connection that is closed in several turns waits for a command that never comes"""

    def closing(connection: int, reason: int, text: str) -> CloseConnection:
        return CloseConnection(connection, reason, text, asks_again=True)

    patch.setattr(f"{CONNECTION}.CloseConnection", closing)


@replaces_parts
def test_a_connection_that_nobody_closes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    leaves_its_end_to_others(monkeypatch)
    assert any(is_found(Hooks(), SHORT_FROM + number) for number in range(SEEDS_MAX))


@replaces_parts
@pytest.mark.parametrize("plant", PLANTED_IN_RETURNING, ids=lambda plant: plant.__name__)
def test_planted_mistake_in_coming_again_is_found(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    numbers = (PLANTED_IN_RETURNING[plant], *range(SEEDS_MAX))
    assert any(is_found(Hooks(), RETURNING_FROM + number) for number in numbers)


@replaces_parts
@pytest.mark.parametrize("plant", PLANTED_IN_AMQP, ids=lambda plant: plant.__name__)
def test_planted_mistake_in_amqp_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    numbers = (PLANTED_IN_AMQP[plant], *range(SEEDS_MAX))
    assert any(is_found(Hooks(), AMQP_FROM + number) for number in numbers)
