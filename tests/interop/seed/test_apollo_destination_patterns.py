"""Apollo's manual, "Destination Wildcards": parts of words, regular expressions, and `**` anywhere.

What Daybook adds is here too: `**` before other words, delimiters and braces in expressions.
"""

import pytest

from tests.interop.using import connected, sent
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop

IBM, SUNW, IBM7, BOND = (
    "PRICE.STOCK.NASDAQ.IBM", "PRICE.STOCK.NYSE.SUNW", "PRICE.STOCK.NYSE.IBM7", "PRICE.BOND.I",
)  # fmt: skip
TOPICS = (IBM, SUNW, IBM7, BOND)


def subscribed(wire: Wire, id: str, pattern: str, **headers: str) -> None:
    wire.send("SUBSCRIBE", id=id, destination=f"/topic/{pattern}", receipt="s", **headers)
    wire.expect("RECEIPT")


def publish_all(broker: BrokerProcess, end: str) -> None:
    """Publish every price, and one message that tells consumers that there is no more."""
    with connected(broker) as producer:
        for topic in (*TOPICS, end):
            sent(producer, f"/topic/{topic}", topic.encode())


def received(wire: Wire, end: str) -> list[str]:
    """Return what a subscription to a pattern and one to the end got, in order."""
    got: list[str] = []
    while (body := wire.expect("MESSAGE").body.decode()) != end:
        got.append(body)
    return got


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        # "Any stock price starting with 'I' on any exchange"
        ("PRICE.STOCK.*.I*", (IBM, IBM7)),
        # "Any stock price that ends in a digit on any exchange"
        ("PRICE.STOCK.*.*{[0-9]}", (IBM7,)),
        # "{regex} is used to match a path name against a regular expression": the whole name
        ("PRICE.STOCK.*.{I.*}", (IBM, IBM7)),
        ("PRICE.STOCK.*.{BM}", ()),
        ("PRICE.{STOCK|BOND}.**", TOPICS),
        ("PRICE.STOCK.N{A.*|X}Q.*", (IBM,)),
        ("PRICE.STOCK.*.{[A-Z]{3,4}}", (IBM, SUNW)),
        ("PRICE.STOCK.*.{[^.,]*[0-9]}", (IBM7,)),
        # "** is used to recursively match path names"
        ("PRICE.**", TOPICS),
        ("**.I*", (IBM, IBM7, BOND)),
        ("PRICE.**.I", (BOND,)),
        ("**.NYSE.**", (SUNW, IBM7)),
    ],
)
def test_a_pattern_gets_what_it_matches(
    shared_broker: BrokerProcess, pattern: str, expected: tuple[str, ...]
) -> None:
    with connected(shared_broker) as consumer:
        subscribed(consumer, "p", pattern)
        subscribed(consumer, "e", "END")
        publish_all(shared_broker, "END")
        assert tuple(received(consumer, "END")) == expected


def test_a_regular_expression_takes_time_in_proportion_to_the_name(
    shared_broker: BrokerProcess,
) -> None:
    """Expressions that take other engines exponential time, and names of 4,000 characters."""
    with connected(shared_broker) as consumer, connected(shared_broker) as producer:
        for number, regex in enumerate(("(a*)*b", "(a|aa)+c", "(.*a){20}d")):
            subscribed(consumer, str(number), f"slow.{{{regex}}}")
        for length in (255, 4_000):
            sent(producer, "/topic/slow." + "a" * length, b"x")
        sent(producer, "/topic/slow.aab", b"found")
        assert consumer.expect("MESSAGE").body == b"found"


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        ("a.{[0-9}", "missing ]: [0-9"),
        ("a.{(}", "missing ): ("),
        ("a.{x", "write {REGEX}"),
        ("**.{x}", "a regular expression after '#'"),
        ("a.{}", "an empty regular expression"),
        ("a.{(x)\\\\1}", "invalid escape sequence"),
        ("a.{\\\\pL{900}}", "it is too large"),
        ("a.{" + "x" * 300 + "}", "256 are the most"),
        (".".join(["{x}"] * 17), "with wildcards 16 are the most"),
    ],
)
def test_a_pattern_that_is_wrong_says_where_and_why(
    shared_broker: BrokerProcess, pattern: str, what: str
) -> None:
    with connected(shared_broker) as wire:
        wire.send("SUBSCRIBE", id="s", destination=f"/topic/{pattern}")
        assert what in wire.expect("ERROR").body.decode()
        assert wire.at_end()


@pytest.mark.parametrize("name", ["a.I*", "a.{x}", "a.**.b", "a.*"])
def test_wildcards_can_only_be_used_in_subscribe(shared_broker: BrokerProcess, name: str) -> None:
    """ "Destination wildcards can only be used in a SUBSCRIBE frame." """
    with connected(shared_broker) as wire:
        wire.send("SEND", b"x", destination=f"/topic/{name}")
        assert "wildcards are for SUBSCRIBE" in wire.expect("ERROR").body.decode()


def test_durable_subscriptions_with_patterns_survive_a_kill(broker: BrokerProcess) -> None:
    pattern = "PRICE.*.*.{I.*[0-9]}"
    with connected(broker) as consumer:
        subscribed(consumer, "digits", pattern, persistent="true")
    publish_all(broker, "PRICE.END")
    broker.kill()
    broker.start()
    publish_all(broker, "PRICE.END")
    with connected(broker) as consumer:
        subscribed(consumer, "digits", pattern, persistent="true")
        got = [consumer.expect("MESSAGE") for _ in range(2)]
    assert [frame.body.decode() for frame in got] == [IBM7, IBM7]
    assert {frame.headers["destination"] for frame in got} == {f"/topic/{IBM7}"}
    assert broker.stop() == 0, broker.log_text()


def test_queues_are_found_by_parts_of_words_and_expressions(broker: BrokerProcess) -> None:
    with connected(broker) as consumer, connected(broker) as producer:
        for name in ("work.in", "work.I7", "work.x7", "other.in"):
            sent(producer, f"/queue/{name}", name.encode())
        consumer.send("SUBSCRIBE", id="p", destination="/queue/work.{[0-9I].*}", receipt="s")
        consumer.expect("RECEIPT")
        assert consumer.expect("MESSAGE").body == b"work.I7"
        consumer.send("SUBSCRIBE", id="q", destination="/queue/**.i*", receipt="s")
        found = {consumer.read().body for _ in range(3)}
        assert found == {b"", b"work.in", b"other.in"}
        # A queue that is created later is found, too.
        sent(producer, "/queue/work.I8", b"later")
        assert consumer.expect("MESSAGE").body == b"later"
