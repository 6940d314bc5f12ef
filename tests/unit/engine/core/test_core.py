"""`emit` and the open batch: each event is packed and applied at once."""

from daybook.engine.broker import Broker
from daybook.engine.commands import CloseConnection, CreateAddress, OpenConnection, Send
from daybook.engine.core.core import Options
from daybook.engine.facts import events, reasons
from daybook.engine.facts.pending import Pending
from daybook.engine.refusals import Refusal
from daybook.engine.state.state import State
from tests.support.world import World, unpack


def test_a_batch_is_taken_once() -> None:
    broker = Broker(State())
    assert broker.take() is None
    broker.handle(CreateAddress("a"), 5)
    broker.handle(CreateAddress("b"), 7)
    batch = broker.take()
    assert (batch.first_lsn, batch.last_lsn, len(batch.rows), batch.time) == (1, 2, 2, 7)
    assert broker.take() is None
    broker.handle(CreateAddress("c"), 8)
    assert broker.take().first_lsn == 3
    assert broker.lsn == 3


def test_what_a_batch_weighs() -> None:
    broker = Broker(State())
    broker.handle(Send(0, "a", b"k:v\n", b"body"), 1)
    batch = broker.take()
    assert batch.raw_bytes == 72 * 3 + sum(len(b) for heap in batch.heaps for b in heap)
    assert batch.heaps == (batch.details, [b"k:v\n"], [b"body"])
    assert Pending(5).last_lsn == 4


def test_events_have_the_time_that_the_clock_told_even_if_it_went_back() -> None:
    broker = Broker(State())
    for now in (10, 5, 12, 11):
        broker.handle(CreateAddress(f"a{now}"), now)
    assert [event.row[events.TIME] for event in unpack(broker.take())] == [10, 5, 12, 11]


def test_a_broker_goes_on_where_a_journal_ends() -> None:
    broker = Broker(State(), next_lsn=1000)
    assert broker.lsn == 999
    assert broker.handle(OpenConnection("stomp", "peer", "guest"), 1) == 1000


def test_only_what_is_left_out_of_the_journal_is_omitted(world: World) -> None:
    world.send("q", b"1", headers={"a": "b"})
    world.send("q", b"2", headers={"a": "b"}, persistent=False)
    persistent, transient = world.events_named("Routed")
    assert (persistent.headers, persistent.body) == (b"a:b\n", b"1")
    assert (transient.headers, transient.body) == (b"", b"")
    assert world.bodies("q") == [b"1", b"2"]


def test_a_refusal_comes_before_any_event() -> None:
    broker = Broker(State())
    answer = broker.handle(CloseConnection(1, reasons.CLOSED), 1)
    assert isinstance(answer, Refusal)
    assert broker.take() is None


def test_counts_are_persisted_before_delivery_unless_somebody_says_otherwise() -> None:
    assert Options().persist_delivery_count_before_delivery
