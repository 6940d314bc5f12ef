"""Apollo's manual, "Message Selectors"."""

import pytest

from tests.interop.using import connected, sent
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop

SELECTOR = "type = 'car' AND color = 'blue' AND weight > 2500"


def test_only_those_messages_which_match_pass_through(shared_broker: BrokerProcess) -> None:
    """ "a subscription to only receive a subset of the messages sent to a destination" """
    with connected(shared_broker) as wire:
        destination = "/topic/selectors.subset"
        wire.send("SUBSCRIBE", id="sub0", selector=SELECTOR, destination=destination, receipt="s")
        wire.expect("RECEIPT")
        sent(wire, destination, b"light", type="car", color="blue", weight="900")
        sent(wire, destination, b"red", type="car", color="red", weight="3000")
        sent(wire, destination, b"bus", type="bus", color="blue", weight="3000")
        sent(wire, destination, b"none")
        sent(wire, destination, b"match", type="car", color="blue", weight="2501")
        assert wire.expect("MESSAGE").body == b"match"


def test_the_example_of_a_subscribe_frame_works_as_it_stands(shared_broker: BrokerProcess) -> None:
    """ "set the selector header in the STOMP SUBSCRIBE frame to the desired selector" """
    with connected(shared_broker) as wire:
        wire.write(
            b"SUBSCRIBE\nid:sub0\nselector:type = 'car' AND color = 'blue' AND weight > 2500\n"
            b"destination:/topic/foo\nreceipt:s\n\n\0"
        )
        wire.expect("RECEIPT")
        sent(wire, "/topic/foo", b"match", type="car", color="blue", weight="3000")
        assert wire.expect("MESSAGE").headers["subscription"] == "sub0"


@pytest.mark.parametrize(
    ("selector", "headers"),
    [
        ("JMSPriority > 6", {"priority": "7"}),
        ("JMSCorrelationID = 'x7'", {"correlation-id": "x7"}),
        ("JMSType LIKE 'ord%'", {"type": "orders"}),
        ("tenant IN ('a', 'b') AND NOT (n BETWEEN 3 AND 5)", {"tenant": "b", "n": "6"}),
        ("note IS NULL OR note = 'it''s'", {"note": "it's"}),
    ],
)
def test_selectors_have_the_syntax_of_sql_92(
    shared_broker: BrokerProcess, selector: str, headers: dict[str, str]
) -> None:
    """ "Selectors are defined using SQL 92 syntax and typically apply to message headers" """
    with connected(shared_broker) as wire:
        destination = "/topic/selectors.syntax"
        wire.send("SUBSCRIBE", id="s", selector=selector, destination=destination, receipt="s")
        wire.expect("RECEIPT")
        misses = {"tenant": "c", "note": "other", "priority": "1", "correlation-id": "y"}
        sent(wire, destination, b"other", **misses)
        sent(wire, destination, b"match", **headers)
        assert wire.expect("MESSAGE").body == b"match"


def test_a_queue_keeps_what_no_selector_matches(shared_broker: BrokerProcess) -> None:
    """The filter decides what a subscription gets; the others stay for other consumers."""
    with connected(shared_broker) as one, connected(shared_broker) as other:
        destination = "/queue/selectors.kept"
        one.send("SUBSCRIBE", id="s", selector=SELECTOR, destination=destination, receipt="s")
        one.expect("RECEIPT")
        sent(one, destination, b"kept", type="bus")
        other.send("SUBSCRIBE", id="s", destination=destination)
        assert other.expect("MESSAGE").body == b"kept"


def test_a_selector_that_is_wrong_is_an_error(shared_broker: BrokerProcess) -> None:
    with connected(shared_broker) as wire:
        wire.send("SUBSCRIBE", id="s", selector="type = ", destination="/topic/selectors.wrong")
        assert "selector" in wire.expect("ERROR").body.decode() or wire.at_end()
