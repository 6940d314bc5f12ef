"""The broker as it was: asked while it serves, after kills, from snapshots that it took."""

import json
import re
from typing import Any

import pytest

from tests.interop.using import connected, daybook, queues, sent
from tests.support import nursery
from tests.support.process import JOURNAL, BrokerProcess, wait_for

pytestmark = pytest.mark.interop

CONFIG = """
[journal]
snapshot-every = "16KiB"
"""
FIGURES = ("queue", "messages", "ready", "in_flight", "added", "acknowledged", "consumers")


def journal(broker: BrokerProcess, *words: str) -> list[dict[str, Any]]:
    command = [JOURNAL, *words, "--data", str(broker.data), "--json"]
    done = nursery.run(command, capture_output=True, check=True, text=True)
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


def queues_now(broker: BrokerProcess) -> list[dict[str, Any]]:
    return [{key: row[key] for key in FIGURES} for row in queues(broker).values()]


def queues_at(broker: BrokerProcess, lsn: int) -> list[dict[str, Any]]:
    (told,) = journal(broker, "inspect", "--at", str(lsn))
    return [{key: row[key] for key in FIGURES} for row in told["list_of_queues"]]


def quiet_moment(broker: BrokerProcess) -> tuple[int, list[dict[str, Any]]]:
    """Return an event and the queues as they are after it: nothing was decided meanwhile."""

    def lsn() -> int:
        return int(json.loads(daybook(broker, "status", "--json"))["durable_lsn"])

    while True:
        before, rows, after = lsn(), queues_now(broker), lsn()
        if before == after:
            return after, rows


def test_what_was_shown_then_is_what_is_told_later(tmp_path: Any) -> None:
    with BrokerProcess(tmp_path / "data", config=CONFIG) as broker:
        broker.start()
        remembered: list[tuple[int, list[dict[str, Any]]]] = []
        for number in range(4):
            with connected(broker) as wire, connected(broker) as consumer:
                consumer.send(
                    "SUBSCRIBE", id="s", destination=f"/queue/q{number}", ack="client", receipt="s"
                )
                consumer.expect("RECEIPT")
                for body in range(60):
                    sent(wire, f"/queue/q{number}", b"%d" % body * 200)
                    sent(wire, "/queue/kept", b"%d" % body)
                for _ in range(20):
                    last = consumer.expect("MESSAGE")
                consumer.send("ACK", id=last.headers["ack"], receipt="a")
                while consumer.read().command != "RECEIPT":
                    pass

                remembered.append(quiet_moment(broker))
            broker.kill()
            broker.start()
        folder = broker.data / "snapshots"
        wait_for(lambda: len(list(folder.glob("*.mdb"))) > 2, "snapshots")
        for lsn, rows in remembered:
            assert queues_at(broker, lsn) == rows
        lsn = remembered[1][0]
        queue, *messages = journal(broker, "inspect", "--at", str(lsn), "--queue", "q1")
        assert queue["in_queue"] == 40
        assert len(messages) == 40
        assert all("guest" in row["held_by"] for row in messages)
        (change,) = journal(broker, "diff", str(remembered[0][0]), str(remembered[2][0]))
        assert [row["queue"] for row in change["queues"]["new"]] == ["q1", "q2"]
        assert broker.stop() == 0
        # It is the same when nobody serves, and all snapshots agree with the journal.
        for lsn, rows in remembered:
            assert queues_at(broker, lsn) == rows
        verify = [JOURNAL, "verify", "--index", str(broker.data)]
        done = nursery.run(verify, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
        assert "snapshots: " in done.stdout


def test_what_was_changed_back_is_told_and_who_did_it(tmp_path: Any) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        broker.start()
        daybook(broker, "queue", "create", "kept")
        first, _ = quiet_moment(broker)
        daybook(broker, "queue", "pause", "kept")
        daybook(broker, "queue", "create", "brief")
        daybook(broker, "settings", "set", "kept", "max-delivery-attempts=3")
        daybook(broker, "divert", "create", "d", "--address", "kept",
                "--forwarding-addresses", "x")  # fmt: skip
        daybook(broker, "queue", "resume", "kept")
        daybook(broker, "queue", "delete", "brief")
        with connected(broker) as wire:
            sent(wire, "/queue/kept", b"x")
        daybook(broker, "queue", "priority", "kept", "9")
        last, _ = quiet_moment(broker)
        assert broker.stop() == 0
        (change,) = journal(broker, "diff", str(first), str(last))
        assert [row["divert"] for row in change["diverts"]["new"]] == ["d"]
        assert "brief" not in [row["queue"] for row in change["queues"]["new"]]
        found = [(row["kind"], row["text"].partition(":")[0]) for row in change["changes"]]
        for each in (
            ("QueuePaused", "queue 'kept'"), ("QueueResumed", "queue 'kept'"),
            ("QueueDeleted", "queue 'brief'"), ("DivertCreated", "name 'd', address 'kept'"
             ", forwarding addresses x"), ("SettingsChanged", found[3][1]),
        ):  # fmt: skip
            assert each in found
        setting = change["changes"][3]["text"]
        assert "kept at run time: max-delivery-attempts (not set) -> 3" in setting
        asked = [row for row in change["changes"] if "administrator" in row["text"]]
        assert len(asked) >= 7
        assert all("(uid" in row["by"] for row in asked)
        assert change["more_changes"] is False
        # A moment between the changes of a request and its end.
        lsn = next(row["lsn"] for row in change["changes"] if row["kind"] == "QueuePaused")
        (part,) = journal(broker, "diff", str(first), str(lsn))
        assert [(row["kind"], row["by"]) for row in part["changes"]] == [
            ("QueuePaused", change["changes"][0]["by"])
        ]
        (rest,) = journal(broker, "diff", str(lsn), str(last))
        assert rest["changes"] == change["changes"][1:]
        text = nursery.run(
            [JOURNAL, "diff", str(first), str(last), "--data", str(broker.data)],
            capture_output=True, check=True, text=True,
        ).stdout  # fmt: skip
        assert "QueuePaused" in text
        assert "nothing changed" not in text
        command = [JOURNAL, "inspect", "--kind", "Administered", "--data", str(broker.data)]
        told = nursery.run(command, capture_output=True, check=True, text=True).stdout
        assert "asked: pause queue (queue kept)" in told
        assert '"do"' not in told
        [moved, *_] = journal(broker, "inspect", "--kind", "Moved")
        command = [JOURNAL, "trail", str(moved["message"]), "--data", str(broker.data)]
        told = nursery.run(command, capture_output=True, check=True, text=True).stdout
        [asked] = set(re.findall(rf"\S.* asked for it, by event {moved['lsn'] + 2}", told))
        command = [JOURNAL, "inspect", "--kind", "Moved", "--data", str(broker.data)]
        told = nursery.run(command, capture_output=True, check=True, text=True).stdout
        assert f"; {asked}\n" in told
