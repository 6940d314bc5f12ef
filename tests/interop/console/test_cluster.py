"""The page Cluster shows what the node answers to users with the right, and hands over the lead."""

import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from daybook.client.control import ControlError, ask
from tests.interop.console.conftest import RULES
from tests.interop.console.test_with_broker import Place
from tests.interop.replication.nodes import FAILOVER_SECONDS, NAMES, ANode, running
from tests.interop.replication.test_failover import all_follow
from tests.interop.replication.test_operations import get
from tests.interop.wire import Wire
from tests.support.console import Browser, ConsoleProcess, Form
from tests.support.process import DAYBOOK, BrokerProcess, wait_for

pytestmark = pytest.mark.interop

ROLES = {"ada": "operators", "rea": "readers", "nil": "others"}


def give_users(folder: Path) -> None:
    """Make the users of each node."""
    for name in NAMES:
        file = folder / name / "users.toml"
        file.parent.mkdir()
        for user, role in ROLES.items():
            command = [DAYBOOK, "user", "add", user, "--users-file", str(file), "--role", role]
            words = [*command, "--passcode-stdin"]
            subprocess.run(words, input=f"{user}\n", text=True, check=True, capture_output=True)


def test_the_cluster_is_shown_and_its_lead_handed_over(tmp_path: Path) -> None:
    give_users(tmp_path)
    with running(tmp_path, rules=RULES) as cluster:
        wait_for(lambda: all_follow(cluster), "the followers", FAILOVER_SECONDS)
        first = cluster.wait_for_leader()
        # It leads before its broker serves, and only that knows who may log in.
        wait_for(lambda: get(cluster, first, "/ready")[0] == 200, "readiness", FAILOVER_SECONDS)
        to = next(name for name in NAMES if name != first.name)
        (beside := tmp_path / "beside").mkdir()
        with ConsoleProcess(beside, "--data", str(first.data)) as console:
            page = f"/b/{first.name}/cluster"
            reader = Browser(console)
            reader.log_in("rea", "rea")
            shown = reader.get(page)
            assert shown.status == 200, shown.words
            assert f"{first.name} leads, and this node has no problem" in shown.words
            assert f"daybook cluster status --data {first.data}" in shown.words
            assert all(f"<td>{name}</td>" in shown.text for name in NAMES)
            assert shown.text.count("<td>following</td>") == len(NAMES) - 1
            assert f'href="{page}"' in reader.get(f"/b/{first.name}").text
            # One who may only look is offered no hand-over, and gets none.
            assert "Let it lead" not in shown.text
            token = reader.get(f"/b/{first.name}").text.partition('name="csrf" value="')[2]
            asked = {"csrf": token.partition('"')[0], "to": to, "confirmed": "yes"}
            refused = reader.post(f"{page}/lead", asked)
            assert refused.status == 403
            assert "'rea' may not hand the lead over; that needs the permission" in refused.words
            nobody = Browser(console)
            nobody.log_in("nil", "nil")
            assert nobody.get(page).status == 403
            assert page not in nobody.get(f"/b/{first.name}").text

            chief = Browser(console)
            chief.log_in("ada", "ada")
            shown = chief.submit(chief.get(page), to="nowhere")
            assert shown.status == 400
            assert "'nowhere' does not follow now; the nodes that do are: " in shown.words
            confirm = chief.submit(chief.get(page), to=to)
            assert f"Let '{to}' lead" in confirm.words
            token = Form(confirm.text).fields
            for once in ("", "x"):
                late = chief.post(f"{page}/lead", token | {"once": once})
                assert late.status == 409
                assert "asked too long ago" in late.words
            done = chief.submit(confirm)
            assert chief.post(f"{page}/lead", token).status == 409
            assert "The lead is being handed over" in done.words

            def is_handed_over() -> bool:
                leader = cluster.leader()
                offered = chief.get(page)
                if "Let it lead" in offered.text:
                    # On a slow machine a hand-over is given up; then it is offered again.
                    again = chief.submit(offered, to=to)
                    if 'name="confirmed"' in again.text:
                        chief.submit(again)
                return leader is not None and leader.name == to

            wait_for(is_handed_over, "the hand-over", FAILOVER_SECONDS, every=3.0)
            assert '"by": "ada"' in first.log.read_text()
            # The node answers while no broker runs here, and says who leads.
            operator = Browser(console)
            operator.get(console.link)
            wait_for(
                lambda: f"the lead was handed over to '{to}'" in operator.get(page).words,
                "the outcome", FAILOVER_SECONDS,
            )  # fmt: skip
            assert "Let it lead" not in operator.get(page).text


def asked(node: ANode) -> dict[str, Any]:
    """Return the status of the broker of a node; empty if there is none."""
    with suppress(ControlError, OSError):
        return ask(node.data, {"do": "status"}, 10.0) or {}
    return {}


def test_the_console_of_a_follower_shows_its_copy_to_users_and_stays_when_it_leads(
    tmp_path: Path,
) -> None:
    give_users(tmp_path)
    section = '[console]\nlisten = "http://127.0.0.1:0"\n'
    with running(tmp_path, rules=RULES + section) as cluster:
        first = cluster.wait_for_leader()
        wait_for(lambda: get(cluster, first, "/ready")[0] == 200, "readiness", FAILOVER_SECONDS)
        wire = Wire(cluster.ports[first.name])
        wire.connect(login="ada", passcode="ada")
        wire.send("SEND", b"1", destination="/queue/orders", receipt="1")
        assert wire.read().headers["receipt-id"] == "1"
        wire.close()
        wait_for(lambda: all_follow(cluster), "the followers", FAILOVER_SECONDS)
        second = next(each for each in cluster.nodes.values() if each is not first)

        def url() -> str:
            return str(second.status().get("console", ""))

        place = Place(wait_for(url, "the console of a follower", FAILOVER_SECONDS))
        reader = Browser(place)  # type: ignore[arg-type]
        assert "login or passcode of 'rea' is wrong" in reader.log_in("rea", "wrong").words
        reader.log_in("rea", "rea")
        page = f"/b/{second.name}"
        wait_for(
            lambda: "orders" in reader.get(f"{page}/list/queues").words, "the queue",
            FAILOVER_SECONDS,
        )  # fmt: skip
        assert reader.get(f"{page}/events").status == 200
        assert f"{first.name} leads" in reader.get(f"{page}/cluster").words
        nobody = Browser(place)  # type: ignore[arg-type]
        nobody.log_in("nil", "nil")
        assert nobody.get(f"{page}/events").status == 403
        pid = second.status()["console_pid"]
        # It is the node's, so the next leader's broker serves the same sessions.
        lead = [DAYBOOK, "lead", "--transfer", second.name, "--data", str(first.data)]
        subprocess.run(lead, check=True, capture_output=True)
        wait_for(lambda: "No problems" in reader.get(page).words, "the broker", FAILOVER_SECONDS)
        assert second.status()["console_pid"] == pid
        wait_for(lambda: asked(second).get("console") == place.url, "the status of the broker")
        assert second.stop() == 0
        assert not Path(f"/proc/{pid}").exists()


def test_a_broker_without_standbys_has_no_such_page(
    broker: BrokerProcess, console: ConsoleProcess
) -> None:
    browser = Browser(console)
    browser.log_in("ada", "ada")
    assert "/b/data/cluster" not in browser.get("/b/data").text
    shown = browser.get("/b/data/cluster")
    assert shown.status == 404
    assert "data is not a node of a cluster on this machine" in shown.words
