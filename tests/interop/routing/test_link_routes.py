"""Link routes through one broker to another: transactions, filters, subscriptions, and an end."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from proton import Message
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import Container, Copy, DurableSubscription, Selector
from proton.utils import LinkDetached

from tests.interop.connectors.using import wait_until
from tests.interop.routing.three import Client, a_broker, connector, port_of, running
from tests.interop.using import audited, queues
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop

ROUTES: Final = "".join(
    f'[[link-route]]\nprefix = "{prefix}"\ndirection = "{way}"\nconnector = "b"\n'
    for prefix, way in (("far", "in"), ("far", "out"), ("$coordinator", "in"))
)
Pair = tuple[BrokerProcess, BrokerProcess]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    b = a_broker(tmp_path, "b", '[[address]]\nname = "far.news"\nrouting-types = ["multicast"]\n')
    a = a_broker(tmp_path, "a", connector("b", port_of(b)) + ROUTES)
    with running(b, a):
        wait_until(a, "open", "b")
        yield a, b


class _Transaction(MessagingHandler, TransactionHandler):  # type: ignore[misc]
    """Sends two messages in a transaction, and commits it or rolls it back."""

    def __init__(self, port: int, *, commits: bool) -> None:
        super().__init__()
        self.port = port
        self.commits = commits
        self.ended = ""
        self.transaction: Any = None

    def on_start(self, event: Any) -> None:
        self.connection = event.container.connect(
            f"127.0.0.1:{self.port}", allowed_mechs="ANONYMOUS", reconnect=False
        )
        self.sender = event.container.create_sender(self.connection, "far.tx")
        event.container.declare_transaction(self.connection, handler=self)

    def on_transaction_declared(self, event: Any) -> None:
        self.transaction = event.transaction
        for body in ("one", "two"):
            self.transaction.send(self.sender, Message(body=body))
        if self.commits:
            self.transaction.commit()
        else:
            self.transaction.abort()

    def on_transaction_committed(self, event: Any) -> None:
        self._end("committed")

    def on_transaction_aborted(self, event: Any) -> None:
        self._end("aborted")

    def _end(self, how: str) -> None:
        self.ended = how
        self.connection.close()


@pytest.mark.parametrize(
    ("commits", "ended", "count"), [(True, "committed", 2), (False, "aborted", 0)]
)
def test_transactions_are_those_of_the_far_broker(
    pair: Pair, commits: bool, ended: str, count: int
) -> None:
    a, b = pair
    handler = _Transaction(a.port, commits=commits)
    Container(handler).run()
    assert handler.ended == ended
    assert queues(b).get("far.tx", {"ready": 0})["ready"] == count
    assert "far.tx" not in queues(a)
    audited(a)
    audited(b)


def test_browsing_selectors_and_subscriptions_pass(pair: Pair) -> None:
    a, b = pair
    with Client(a, "reader") as client:
        connection = client.connection
        sender = connection.create_sender("far.q")
        for colour in ("red", "blue"):
            sender.send(Message(body=colour, properties={"colour": colour}))
        browser = connection.create_receiver("far.q", credit=5, options=Copy())
        assert [browser.receive(10).body for _ in range(2)] == ["red", "blue"]
        browser.close()
        blue = connection.create_receiver("far.q", credit=5, options=Selector("colour = 'blue'"))
        assert client.take(blue) == "blue"
        blue.close()
        assert queues(b)["far.q"]["ready"] == 1
        first = connection.create_receiver("far.news", name="sub", options=DurableSubscription())
        first.link.detach()
        client.flush()
    with Client(a) as client:
        client.connection.create_sender("far.news").send(Message(body="meanwhile"))
    with Client(a, "reader") as client:
        again = client.connection.create_receiver(
            "far.news", name="sub", credit=5, options=DurableSubscription()
        )
        assert client.take(again) == "meanwhile"


def test_a_far_broker_that_is_killed_detaches_the_link_only(pair: Pair) -> None:
    a, b = pair
    with Client(a) as client:
        sender = client.connection.create_sender("far.q")
        sender.send(Message(body="before", durable=True))
        near = client.connection.create_sender("near")
        b.kill()
        link = sender.link
        client.connection.wait(lambda: link.remote_condition is not None, msg="the detach")
        assert link.remote_condition.name == "amqp:link:detach-forced"
        near.send(Message(body="still here"))
        wait_until(a, "waiting", "b")
        with pytest.raises(LinkDetached, match="not-found"):
            client.connection.create_sender("far.other")
        b.start()
        wait_until(a, "open", "b")
        link.detach()
        client.flush()
        client.connection.create_sender("far.q", name="new").send(
            Message(body="after", durable=True)
        )
        assert client.take_all("far.q", 2) == ["before", "after"]
        assert client.take_all("near", 1) == ["still here"]
    audited(a)
    audited(b)
