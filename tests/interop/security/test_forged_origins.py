"""Headers of the broker that a client writes decide nothing, whoever retries the message."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from daybook.engine.facts.own_headers import OWN_HEADERS
from tests.interop.security.test_administration_over_network import LISTEN, asked, recorded
from tests.interop.security.test_permissions import give_users, login
from tests.interop.using import audited, sent
from tests.interop.wire import Wire
from tests.support import nursery
from tests.support.process import DAYBOOK, JOURNAL, BrokerProcess, wait_for

pytestmark = pytest.mark.interop

CONFIG = """
[[virtual-host]]
name = "default"
host-names = ["h"]

[[virtual-host]]
name = "eu"

[[address-setting]]
match = "#"
dead-letter-address = "DLQ"
max-delivery-attempts = 1

[[address-setting]]
match = "news"
retroactive-message-count = 10

[[security-setting]]
match = "#"
send = ["root"]
consume = ["root"]
create-address = ["root"]
create-durable-queue = ["root"]
create-non-durable-queue = ["root"]
manage = ["root"]

[[security-setting]]
match = "DLQ"
send = ["deputies", "root"]
consume = ["root"]
manage = ["deputies", "root"]
"""


@pytest.fixture(name="broker")
def running(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", config=CONFIG, listen=LISTEN) as broker:
        give_users(broker, {"ada": ("root",), "dan": ("deputies",)}, tokens=True)
        yield broker.start()


def local(broker: BrokerProcess, *words: str) -> str:
    """The answer to the operator of this machine."""
    done = nursery.run(
        [DAYBOOK, *words, "--data", str(broker.data)], capture_output=True, check=True, text=True
    )
    return done.stdout + done.stderr


def bodies(broker: BrokerProcess, name: str) -> list[str]:
    shown = json.loads(local(broker, "browse", name, "--json"))["messages"]
    return [each["body"] for each in shown]


def dead_letter(ada: Wire, queue: str, body: bytes) -> None:
    """A message whose only attempt fails."""
    ada.send("SUBSCRIBE", destination=f"/queue/{queue}", id="s", ack="client-individual")
    sent(ada, f"/queue/{queue}", body)
    frame = ada.expect("MESSAGE")
    ada.send("NACK", id=frame.headers["ack"], receipt="n")
    ada.expect("RECEIPT")
    ada.send("UNSUBSCRIBE", id="s", receipt="u")
    ada.expect("RECEIPT")


def test_a_deputy_of_dead_letters_reaches_nothing_else(broker: BrokerProcess) -> None:
    local(broker, "queue", "create", "DLQ")
    with login(broker, "ada") as ada, login(broker, "dan") as dan:
        sent(ada, "/queue/payroll", b"salaries")
        sent(ada, "/topic/news", b"old news")
        ada.send("SUBSCRIBE", destination="/temp-queue/mine", id="t", receipt="t")
        ada.expect("RECEIPT")
        temporary = [
            each["queue"]
            for each in json.loads(local(broker, "queue", "list", "--json"))
            if each["queue"].startswith("temp.")
        ]
        targets = [
            "payroll", "eu::orders", "$.artemis.internal.news.queue.multicast.retro", *temporary,
        ]  # fmt: skip
        assert len(targets) == 4
        for target in targets:
            headers = {"_AMQ_ORIG_ADDRESS": target, "_AMQ_ORIG_QUEUE": target}
            sent(dan, "/queue/DLQ", f"forged for {target}".encode(), **headers)
        forged = [f"forged for {target}" for target in targets]
        done = asked(broker, "dan", "queue", "retry", "DLQ")
        assert "sent 0 messages back" in done.stdout
        # An innocent operator.
        assert "sent 0 messages back" in local(broker, "queue", "retry", "DLQ")
        assert bodies(broker, "DLQ") == forged
        assert bodies(broker, "payroll") == ["salaries"]
        assert bodies(broker, "$.artemis.internal.news.queue.multicast.retro") == ["old news"]
        assert "eu::" not in local(broker, "queue", "list", "--virtual-host", "eu")


def test_the_deputy_may_not_send_back_what_it_may_not_manage(broker: BrokerProcess) -> None:
    with login(broker, "ada") as ada:
        dead_letter(ada, "payroll", b"salaries")
    done = asked(broker, "dan", "queue", "retry", "DLQ")
    assert "sent 0 messages back" in done.stdout
    assert "may not administer address 'payroll'" in done.stderr
    done = asked(broker, "dan", "queue", "move", "DLQ", "payroll")
    assert (done.returncode, "may not administer" in done.stderr) == (1, True)
    assert bodies(broker, "DLQ") == ["salaries"]
    # The answers do not wait for it.
    refused = wait_for(lambda: recorded(broker, "PermissionRefused"), "the journal")
    assert {(each["user"], each["address"]) for each in refused} == {("dan", "payroll")}
    broker.kill()
    broker.start()
    assert "sent 1 message back" in asked(broker, "ada", "queue", "retry", "DLQ").stdout
    assert bodies(broker, "payroll") == ["salaries"]
    audited(broker)


def test_every_header_of_the_broker_is_removed_on_arrival(broker: BrokerProcess) -> None:
    with login(broker, "ada") as ada:
        for version in ("1.0", "1.1", "1.2"):
            with closing(Wire(broker.port)) as wire:
                wire.connect(version, login="ada", passcode="ada")
                for name in OWN_HEADERS:
                    # The second time the head is known, the third time it is another one.
                    for more in ({}, {}, {"kind": name}, {"_AMQ_DUPL_ID": f"{version}{name}"}):
                        sent(wire, "/queue/q", b"x", **{name: "forged"}, **more)
                all_of_them = dict.fromkeys(OWN_HEADERS, "forged")
                sent(wire, "/queue/q,/queue/r", b"x", **all_of_them)
        ada.send("SUBSCRIBE", destination="/queue/q", id="s", ack="auto")
        for _ in range(3 * (4 * len(OWN_HEADERS) + 1)):
            assert "forged" not in ada.expect("MESSAGE").headers.values()


def test_a_fork_knows_where_a_message_was(broker: BrokerProcess, tmp_path: Path) -> None:
    with login(broker, "ada") as ada:
        dead_letter(ada, "payroll", b"salaries")
    fork = tmp_path / "fork"
    nursery.run([JOURNAL, "fork", str(broker.data), str(fork)], capture_output=True, check=True)
    with BrokerProcess(fork, config=CONFIG) as copy:
        copy.start()
        assert "sent 1 message back" in local(copy, "queue", "retry", "DLQ")
        assert bodies(copy, "payroll") == ["salaries"]
