"""The output of commands about a broker at work: each number has its unit."""

import re
import sys
from pathlib import Path

import pytest

from tests.interop.wire import Wire
from tests.support import nursery
from tests.support.process import JOURNAL, BrokerProcess

pytestmark = pytest.mark.interop

COUNTED = {
    "pid", "lsn", "consumers", "addresses", "queues", "messages", "bytes", "ms", "peers",
    "connections", "producers", "refusals", "denials", "bodies", "blocks", "seconds", "restarts",
    "files", "logins", "attempts", "deaths", "times", "priority", "consumer", "connection",
    "message", "sessions", "links", "letters", "microseconds",
}  # fmt: skip
"""Words of headings that say what is counted, or that it is a name."""
OF_MESSAGES = {
    "ready", "held", "scheduled", "in flight", "added", "acknowledged", "dead lettered", "expired",
    "connectors", "connectors down", "routed", "unrouted", "retained", "remembered ids",
    "transactions", "oldest ready", "delivered", "settled", "oldest in flight",
}  # fmt: skip
"""Headings of the lists of queues, addresses and connections name their units."""


def run(program: str, *words: str) -> str:
    command = [str(Path(sys.executable).with_name(program)), *words]
    done = nursery.run(command, capture_output=True, text=True, check=True)
    return done.stdout


def is_said(heading: str) -> bool:
    return heading in OF_MESSAGES or not COUNTED.isdisjoint(heading.split())


def columns(text: str) -> list[tuple[str, str]]:
    """Return each heading of a table with the cell below it in the first row."""
    first, second, *_ = text.splitlines()
    starts = [found.start() for found in re.finditer(r"(?:^|(?<=  ))\S", first)]
    spans = list(zip(starts, [*starts[1:], None], strict=True))
    # Numbers are set to the right, and may begin before their heading.
    return [(first[a:b].strip(), second[max(a - 8, 0) : b].strip()) for a, b in spans]


def test_every_number_says_what_it_counts(broker: BrokerProcess) -> None:
    data = str(broker.data)
    with Wire(broker.port) as wire:
        wire.connect()
        wire.send("SUBSCRIBE", id="work", destination="/queue/other", ack="client", credit="5,0")
        wire.send("SEND", destination="/queue/orders", order="4711", receipt="1", body=b"x")
        wire.send("SEND", destination="/queue/orders", order="4711", receipt="2", body=b"y")
        for _ in range(2):
            wire.expect("RECEIPT")
        status = run("daybook", "status", "--data", data)
        for line in status.partition("\n\n")[0].splitlines()[1:]:
            label, _, value = line.partition("   ")
            if value.strip().replace(",", "").replace(".", "").isdigit() and label != "version":
                assert is_said(label.strip()), f"{line!r} has a number without a unit"
        for words in (
            ("queue", "list"), ("address", "list"), ("connection", "list"), ("consumer", "list"),
            ("queue", "messages", "orders"), ("browse", "orders"),
        ):  # fmt: skip
            for heading, cell in columns(run("daybook", *words, "--data", data)):
                if cell.split()[-1:] and cell.split()[-1].replace(",", "").isdigit():
                    assert is_said(heading), f"{words}: {heading!r} has a number without a unit"
    settings = run("daybook", "settings", "orders", "--data", data)
    for line in settings.splitlines()[1:]:
        _, value, *rest = line.split()
        if value.replace(",", "").isdigit():
            assert rest[0] not in ("default", "match"), f"{line!r} has a number without a unit"
    assert re.search(r"bytes stored as [\d,]+ bytes ", run("journal", "stat", data))


def test_a_trail_says_how_many_messages_there_are(broker: BrokerProcess) -> None:
    with Wire(broker.port) as wire:
        wire.connect()
        for number in range(2):
            wire.send("SEND", destination="/queue/orders", order="4711", receipt=f"{number}")
            wire.expect("RECEIPT")
    command = [JOURNAL, "trail", str(broker.data), "--header", "order=4711"]
    done = nursery.run(command, capture_output=True, text=True, check=True)
    assert "2 messages with the header order=4711" in done.stderr
    limited = nursery.run([*command, "--limit", "1"], capture_output=True, text=True, check=True)
    assert "1 message with the header order=4711, and there are more: see --limit" in limited.stderr
