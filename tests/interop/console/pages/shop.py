"""A broker with a bit of everything, a console that also shows one that does not run and a node of
a cluster, and steady traffic.
"""

import os
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any, Final, NamedTuple

import msgspec

from daybook.history.reports.report import AUDIT, Finding, Report, Table
from daybook.history.reports.report_files import keep
from daybook.journal.data_directory import CONFIRMED, NODE, NODE_SOCKET
from tests.interop.console.conftest import RULES, USERS
from tests.interop.console.using import history_without_broker, trade
from tests.interop.routing.three import auto_link, connector
from tests.interop.security.test_permissions import give_users
from tests.interop.using import connected, daybook, events, publish, subscribed
from tests.interop.wire import Wire
from tests.support.console import Browser, ConsoleProcess
from tests.support.process import BrokerProcess, wait_for
from tests.unit.server.monitoring.test_cluster_health import a_leader, other

DOWN: Final = "down"
NODE_NAME: Final = "node-a"
LONG: Final = "a-long-name." * 12 + "end"
NOBODY_LISTENS: Final = 1
"""A port of another broker that is not there."""
BODIES: Final = {
    "text": b"two pairs of boots, " * 9, "json": b'{"boots": [{"size": 42, "pairs": 2}]}',
    "xml": b'<order id="7"><boots pairs="2">brown</boots></order>', "hex": bytes(range(256)) * 3,
    "large": b'{"note": "' + b"x" * 200_000 + b'"}', "hostile": b"<script>alert(1)</script>\x07",
}  # fmt: skip


class Shop(NamedTuple):
    """The broker, its console, and what the names of pages are made of."""

    broker: BrokerProcess
    console: ConsoleProcess
    names: dict[str, Any]


@contextmanager
def opened(path: Path) -> Iterator[Shop]:
    """Open the shop, with traffic until the end."""
    sections = (
        RULES, connector("elsewhere", NOBODY_LISTENS), auto_link("imported", "in", "elsewhere"),
        '[[sharded-queue]]\nname = "sharded"\nconnectors = ["elsewhere"]\n',
    )  # fmt: skip
    with ExitStack() as stack:
        broker = stack.enter_context(BrokerProcess(path / "shop", config="\n".join(sections)))
        give_users(broker, USERS)
        broker.start()
        _fill(broker)
        # The time machine has a mark for it.
        broker.kill()
        broker.start()
        wires = [stack.enter_context(_logged_in(broker)) for _ in range(2)]
        _attach(*wires)
        stack.enter_context(trade(broker, 2, login="ada", passcode="ada"))
        wait_for(lambda: len(events(broker, "DeadLettered")) > 2, "dead letters")
        daybook(broker, "queue", "retry", "DLQ", "--rate", "1/h")
        report = _keep_report(broker)
        stack.enter_context(_a_node(path / NODE_NAME))
        down = history_without_broker(path)
        places = {"shop": broker.data, DOWN: down, NODE_NAME: path / NODE_NAME}
        config = path / "console.toml"
        config.write_text(
            "".join(f'[[broker]]\nname = "{k}"\ndata = "{v}"\n' for k, v in places.items()), "utf-8"
        )
        console = stack.enter_context(ConsoleProcess(path, "--config", str(config)))
        yield Shop(broker, console, _names(broker, console) | {"report": report})
        assert "Traceback" not in console.log_text()


def _logged_in(broker: BrokerProcess) -> Wire:
    return connected(broker, login="ada", passcode="ada")


def _fill(broker: BrokerProcess) -> None:
    """Give the broker queues of each kind, settings, and messages with each kind of body."""
    with _logged_in(broker) as wire:
        for name, body in BODIES.items():
            about = {"content": name, "customer": 7, "content-length": len(body)}
            publish(wire, "/queue/letters", body, **about)
        publish(wire, f"/queue/{LONG}", b"x", note="<b>" + "n" * 200)
        publish(wire, "/queue/later", b"x", AMQ_SCHEDULED_DELAY="86400000")
        publish(wire, "/queue/grouped", b"x", JMSXGroupID="customer-7")
        publish(wire, "/queue/resting", b"x")
    daybook(
        broker, "settings", "set", "orders.#", "max-delivery-attempts=2", "dead-letter-address=DLQ"
    )
    daybook(broker, "queue", "create", "picky", "--filter", "price > 10 AND region = 'eu'")
    for name, more in (("plain", ()), (LONG[:100], ("--exclusive",))):
        command = ("divert", "create", name, "--address", "letters", *more)
        daybook(broker, *command, "--forwarding-addresses", "copies")
    daybook(broker, "queue", "pause", "resting")


def _attach(consumer: Wire, sender: Wire) -> None:
    """Attach consumers with messages in flight, and leave a transaction open."""
    subscribed(consumer, "/queue/grouped", ack="client-individual")
    subscribed(sender, "/queue/letters", ack="client-individual", credit="1")
    sender.send("BEGIN", transaction="open")
    sender.send("SEND", b"x", destination="/queue/letters", transaction="open")


def _keep_report(broker: BrokerProcess) -> str:
    """Keep a report with a bit of everything; return its name."""
    finding = Finding("w" * 300, "taker", "ADR 4", 4, 4, [2, 3], "daybook drill " + "x" * 200)
    told = Report(
        AUDIT, 1, 2, "ada", "journal audit", False, "1 breach", facts=[("hash", "f" * 64)],
        findings=[finding], finding_count=3, notes=["a note"],
        tables=[Table("Accounts", ["queue", "in"], [["q" * 100, 1]], 2)],
    )  # fmt: skip
    return keep(broker.data, told).name


def _names(broker: BrokerProcess, console: ConsoleProcess) -> dict[str, Any]:
    """Return what the names of pages are made of."""
    browser = Browser(console)
    browser.log_in("ada", "ada", broker="shop")
    letters, dead = (
        list(dict.fromkeys(re.findall(r"message\?queue=\w+&amp;message=(\d+)", shown.text)))
        for shown in (browser.get("/b/shop/messages", queue=each) for each in ("letters", "DLQ"))
    )
    return {
        **dict(zip(BODIES, letters, strict=False)),
        "dead": dead[-1],
        "crash": events(broker, "BrokerStarted")[-1]["lsn"],
        "long": LONG,
    }  # fmt: skip


@contextmanager
def _a_node(data: Path) -> Iterator[None]:
    """Answer like the node of a cluster that leads, and has a follower with a trouble."""
    (data / NODE).mkdir(parents=True)
    (data / NODE / CONFIRMED).touch()
    status = a_leader(arbiter="etcd")
    status["nodes"].append(other("d", trouble="Connection refused"))
    nodes = [
        each | {"address": f"10.0.0.{number}:7000"} for number, each in enumerate(status["nodes"])
    ]
    answer = msgspec.json.encode({"result": status | {"nodes": nodes}}) + b"\n"
    with socket.socket(socket.AF_UNIX) as listener:
        # The path of a socket is limited to 107 bytes.
        folder = os.open(data, os.O_PATH)
        listener.bind(f"/proc/self/fd/{folder}/{NODE_SOCKET}")
        os.close(folder)
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    while connection.recv(1 << 16):
                        connection.sendall(answer)

        Thread(target=serve, daemon=True).start()
        yield
        listener.shutdown(socket.SHUT_RDWR)
