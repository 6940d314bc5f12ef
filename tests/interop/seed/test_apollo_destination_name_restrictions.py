"""Apollo's manual, "Destination Name Restrictions", with `percent-encoding = true`."""

from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.interop.using import daybook, journal, queues, sent
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop

LISTEN = ("stomp://127.0.0.1:0", "stomp://127.0.0.1:0?percent-encoding=true")


@pytest.fixture(scope="module")
def two_spellings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with an acceptor without percent-encoding, and another one with it."""
    with BrokerProcess(tmp_path_factory.mktemp("names") / "data", listen=LISTEN) as broker:
        yield broker.start()
        assert broker.stop() == 0, broker.log_text()


@pytest.fixture
def both(two_spellings: BrokerProcess) -> Iterator[tuple[Wire, Wire]]:
    """Connections to the two acceptors."""
    ports = two_spellings.ports
    with Wire(ports[0]) as plain, Wire(ports[1]) as apollo:
        plain.connect()
        apollo.connect()
        yield plain, apollo


def subscribed(wire: Wire, destination: str) -> None:
    wire.send("SUBSCRIBE", id=destination, destination=destination, receipt="s")
    wire.expect("RECEIPT")


@pytest.mark.parametrize("name", ["abc", "ABC", "019", "a_b", "a-b", "a~b", "a:b", "a(b)", "a b"])
def test_names_are_restricted_to_these_characters(both: tuple[Wire, Wire], name: str) -> None:
    """ "a-z, A-Z, 0-9, _, - %, ~, :, ' ', '(', ')' or ." """
    _, apollo = both
    subscribed(apollo, f"/queue/{name}.x")
    sent(apollo, f"/queue/{name}.x", b"x")
    assert apollo.expect("MESSAGE").body == b"x"


@pytest.mark.parametrize(
    ("encoded", "plain_name", "shown"),
    [
        ("caf%C3%A9", "café", "caf%C3%A9"),
        ("café", "café", "caf%C3%A9"),
        ("a%2Fb", "a/b", "a/b"),
        ("%61b", "ab", "ab"),
        # Characters with a meaning in names stay encoded in the name of the address.
        ("a%2cb", "a%2Cb", "a%2Cb"),
        ("a%2Ab", "a%2Ab", "a%2Ab"),
        ("a%2Eb", "a%2Eb", "a%2Eb"),
        ("a%252cb", "a%2cb", "a%252cb"),
        ("a%252Cb", "a%252Cb", "a%252Cb"),
        ("a b", "a b", "a%20b"),
        ("a%20b", "a b", "a%20b"),
        ("a (b)", "a (b)", "a%20(b)"),
        ("a%0Ab", "a%0Ab", "a%0Ab"),
        # A % that encodes nothing is itself, as at Apollo.
        ("50%25", "50%", "50%25"),
        ("50%", "50%", "50%25"),
        ("%zz", "%zz", "%25zz"),
    ],
)
def test_other_characters_are_utf_8_and_then_url_encoded(
    both: tuple[Wire, Wire], encoded: str, plain_name: str, shown: str
) -> None:
    """ "Any other characters must be UTF-8 and then URL encoded": both ways, at either acceptor."""
    plain, apollo = both
    subscribed(apollo, f"/queue/{encoded}")
    sent(plain, f"/queue/{plain_name}", b"1", **{"reply-to": f"/queue/{plain_name}"})
    frame = apollo.expect("MESSAGE")
    assert frame.headers["destination"] == frame.headers["reply-to"] == f"/queue/{shown}"
    # A client can send to the name that it read.
    sent(apollo, frame.headers["destination"], b"2")
    assert apollo.expect("MESSAGE").body == b"2"
    apollo.send("UNSUBSCRIBE", id=f"/queue/{encoded}", receipt="u")
    apollo.expect("RECEIPT")
    subscribed(plain, f"/queue/{plain_name}")
    reply = {"reply-to": f"/queue/{encoded},/queue/b"}
    sent(apollo, f"/queue/{encoded}", b"3", **reply)
    frame = plain.expect("MESSAGE")
    assert frame.headers["destination"] == f"/queue/{plain_name}"
    assert frame.headers["reply-to"] == f"/queue/{plain_name},/queue/b"


def test_what_is_encoded_twice_is_another_queue(both: tuple[Wire, Wire]) -> None:
    _, apollo = both
    sent(apollo, "/queue/twice%2Cb", b"once")
    sent(apollo, "/queue/twice%252Cb", b"twice")
    for name, body in (("twice%252Cb", b"twice"), ("twice%2Cb", b"once")):
        subscribed(apollo, f"/queue/{name}")
        frame = apollo.expect("MESSAGE")
        assert (frame.body, frame.headers["destination"]) == (body, f"/queue/{name}")


def test_an_encoded_comma_divides_nothing_and_a_plain_one_does(both: tuple[Wire, Wire]) -> None:
    """ "in addition to composite separator ," """
    _, apollo = both
    for name in ("a%2Cb", "a", "b"):
        subscribed(apollo, f"/queue/{name}")
    sent(apollo, "/queue/a%2Cb", b"one")
    assert apollo.expect("MESSAGE").headers["destination"] == "/queue/a%2Cb"
    sent(apollo, "/queue/a,/queue/b", b"two")
    found = {apollo.expect("MESSAGE").headers["destination"] for _ in range(2)}
    assert found == {"/queue/a", "/queue/b"}


def test_an_encoded_wildcard_is_a_character_and_a_plain_one_matches(
    both: tuple[Wire, Wire],
) -> None:
    """ "and the wild card *" """
    _, apollo = both
    subscribed(apollo, "/topic/prices.*")
    subscribed(apollo, "/topic/%C3%A9*.x")
    sent(apollo, "/topic/prices.%2A", b"star")
    assert apollo.expect("MESSAGE").headers["destination"] == "/topic/prices.%2A"
    sent(apollo, "/topic/%C3%A9t%C3%A9.x", b"summer")
    assert apollo.expect("MESSAGE").headers["destination"] == "/topic/%C3%A9t%C3%A9.x"


def test_without_the_option_names_are_what_they_look_like(
    both: tuple[Wire, Wire], two_spellings: BrokerProcess
) -> None:
    """Clients of earlier releases may have such names, so the option is off by default."""
    plain, apollo = both
    for name in ("caf%C3%A9", "50%", "café"):
        subscribed(plain, f"/queue/{name}")
        sent(plain, f"/queue/{name}", name.encode())
        frame = plain.expect("MESSAGE")
        assert frame.headers["destination"] == f"/queue/{name}"
    subscribed(apollo, "/queue/caf%25C3%25A9")
    listed = daybook(two_spellings, "address", "list", "--json")
    assert '"caf%C3%A9"' in listed
    assert '"café"' in listed


NAME = "orders (new) ~1"
PROBED = ("stomp://127.0.0.1:0", "http://127.0.0.1:0")
CONFIG = f"""
[[queue]]
name = "{NAME}"

[[address-setting]]
match = "{NAME}"
max-delivery-attempts = 3
"""


def test_a_name_with_spaces_and_parentheses_is_one_everywhere(tmp_path: Path) -> None:
    """ "' ', '(', ')'": in every version of STOMP, the configuration, commands, metrics, journal"""
    with BrokerProcess(tmp_path / "data", config=CONFIG, listen=PROBED) as broker:
        broker.start()
        for version in ("1.0", "1.1", "1.2"):
            with Wire(broker.port) as wire:
                wire.send("CONNECT", accept_version=version, host="h")
                wire.expect("CONNECTED")
                subscribed(wire, f"/queue/{NAME}")
                sent(wire, f"/queue/{NAME}", version.encode())
                frame = wire.expect("MESSAGE")
                assert (frame.body, frame.headers["destination"]) == (
                    version.encode(), f"/queue/{NAME}",
                )  # fmt: skip
                sent(wire, f"/queue/{NAME} on {version}", b"x")
                subscribed(wire, f"/topic/{NAME}.*")
                sent(wire, f"/topic/{NAME}.part {version[2]}", b"y")
                assert wire.expect("MESSAGE").headers["destination"].endswith(f"part {version[2]}")
        daybook(broker, "queue", "create", f"shop floor::{NAME} desk")
        daybook(broker, "queue", "pause", f"shop floor::{NAME} desk")
        daybook(broker, "settings", "set", f"{NAME}.#", "max-delivery-attempts=2")
        names = queues(broker)
        assert names[f"{NAME} on 1.1"]["messages"] == 1
        assert f"{NAME} desk" in names
        assert "max-delivery-attempts" in daybook(broker, "settings", NAME)
        assert "x" in daybook(broker, "browse", f"{NAME} on 1.2")
        with urlopen(f"http://127.0.0.1:{broker.ports[1]}/metrics", timeout=30) as answer:
            assert f'queue="{NAME} on 1.2"' in answer.read().decode()
        assert broker.stop() == 0, broker.log_text()
        at = ("--at", "60", "--queue", f"{NAME} on 1.0", "--json")
        assert journal(broker, "inspect", *at).strip()
        broker.start()
        with Wire(broker.port) as wire:
            wire.connect()
            subscribed(wire, f"/queue/{NAME} on 1.0")
            assert wire.expect("MESSAGE").body == b"x"


def test_spaces_can_be_forbidden(tmp_path: Path) -> None:
    config = '[broker]\nspaces-in-names = false\n[[acceptor]]\nlisten = "127.0.0.1:0"\n'
    with BrokerProcess(tmp_path / "data", config=config) as broker:
        broker.start()
        with Wire(broker.port) as wire:
            wire.connect()
            wire.send("SEND", b"x", destination="/queue/a b", receipt="r")
            assert "spaces-in-names is false" in wire.expect("ERROR").headers["message"]
