"""The troubles of a cluster, and its metrics, from the status of a node."""

from typing import Any

from daybook.server.monitoring.cluster_figures import CLUSTER, cluster_readings
from daybook.server.monitoring.cluster_health import cluster_troubles, role_for_clients
from daybook.server.monitoring.figures import FAMILIES, process_readings
from daybook.server.monitoring.health import EXIT_WARNING, problems, why_unready


def a_follower(**more: Any) -> dict[str, Any]:
    status = {
        "cluster": "shop", "node": "a", "role": "following", "epoch": 7, "leader": "b",
        "acks": "majority", "lsn": 90, "confirmed_lsn": 100, "lag_events": 10, "lag_bytes": 2000,
        "lag_seconds": 0.5, "silence_seconds": 0.2, "waiting_events": 0, "waiting_bytes": 0,
        "waiting_seconds": 0.0, "lease_seconds": 0.0, "leads": 1, "arbiter_trouble": "",
        "whole": True,
        "cut_tails": 0, "cut_bytes": 0, "cut_removed": 0, "strays": [],
        "index_trouble": "", "why": "", "nodes": [other("b"), other("c")],
    }  # fmt: skip
    return status | more


def other(name: str, **more: Any) -> dict[str, Any]:
    found = {
        "node": name, "joined": False, "in_sync": False, "acknowledged_lsn": None, "behind": None,
        "behind_bytes": None, "behind_seconds": None, "trouble": "",
    }  # fmt: skip
    return found | more


def joined(name: str, **more: Any) -> dict[str, Any]:
    found = {
        "joined": True, "in_sync": True, "acknowledged_lsn": 95, "behind": 5, "behind_bytes": 700,
        "behind_seconds": 0.1,
    }  # fmt: skip
    return other(name, **(found | more))


def a_leader(**more: Any) -> dict[str, Any]:
    found = {
        "role": "leading", "leader": "a", "lease_seconds": 2.5, "lag_events": 0, "lag_bytes": 0,
        "lag_seconds": 0.0, "silence_seconds": None, "nodes": [joined("b"), joined("c")],
    }  # fmt: skip
    return a_follower(**(found | more))


def values(status: dict[str, Any]) -> dict[str, dict[tuple[str, ...], float]]:
    return {each.family.name: dict(each.values) for each in cluster_readings(status)}


def test_a_cluster_that_works_has_no_troubles() -> None:
    assert cluster_troubles(a_follower()) == cluster_troubles(a_leader()) == []
    assert cluster_troubles({}) == []


def test_each_trouble_is_a_sentence_with_who_and_how_much() -> None:
    behind = joined("c", behind_seconds=65.2, behind_bytes=1_234_567)
    lost = other("b", trouble="Connection refused")
    status = a_leader(nodes=[lost, behind], waiting_seconds=11.2, waiting_events=1)
    assert cluster_troubles(status) == [
        "'b' does not follow: Connection refused",
        "'c' is behind by 65 s and 1,234,567 bytes",
        "nothing is confirmed for 11 s: too few followers have the last 1 event (acks = majority)",
    ]
    slow = joined("c", in_sync=False, in_sync_seconds=12.3)
    assert cluster_troubles(a_leader(nodes=[slow])) == ["'c' is not in sync, for 12 s"]
    assert cluster_troubles(a_follower(strays=["'c' asks another arbiter"])) == [
        "'c' asks another arbiter"
    ]
    assert cluster_troubles(a_follower(leader="", arbiter_trouble="no answer")) == [
        "the arbiter does not answer: no answer",
        "no node leads: enough nodes, and the arbiter, must be there",
    ]
    assert cluster_troubles(a_follower(leader="", why="too few nodes answered")) == [
        "no node leads: enough nodes, and the arbiter, must be there; this one does not, because"
        " too few nodes answered"
    ]
    status = a_follower(lag_seconds=31.0, index_trouble="no room")
    assert cluster_troubles(status) == [
        "this node is behind 'b' by 31 s and 2,000 bytes",
        "the index of this node is behind: no room",
    ]


def test_troubles_of_a_cluster_are_warnings_of_its_broker() -> None:
    status = {"cluster": a_leader(nodes=[other("b"), joined("c")])}
    (problem,) = problems(status)
    assert (problem.code, problem.kind) == (EXIT_WARNING, "cluster")
    assert why_unready(status) == ""


def test_clients_are_told_who_leads() -> None:
    assert role_for_clients(a_leader()) == ""
    assert role_for_clients(a_follower()) == "follows b"
    assert role_for_clients(a_follower(leader="")) == "no node leads"
    for role in ("standing", "opening"):
        assert role_for_clients(a_follower(role=role)) == "this node is about to lead"


def test_a_follower_shows_itself_and_a_leader_its_followers() -> None:
    found = values(a_follower(arbiter_trouble="no answer"))
    assert found["daybook_cluster_role"][("shop", "a", "following")] == 1
    assert sum(found["daybook_cluster_role"].values()) == 1
    assert found["daybook_cluster_lag_bytes"] == {(): 2000}
    assert found["daybook_cluster_arbiter_up"] == {(): 0}
    assert found["daybook_cluster_follower_joined"] == {}
    found = values(a_leader(nodes=[joined("b"), other("c")]))
    assert found["daybook_cluster_arbiter_up"] == {(): 1}
    assert found["daybook_cluster_lease_seconds"] == {(): 2.5}
    assert found["daybook_cluster_silence_seconds"] == {(): 0}
    assert found["daybook_cluster_follower_joined"] == {("b",): 1, ("c",): 0}
    assert found["daybook_cluster_follower_lag_seconds"] == {("b",): 0.1}


def test_a_broker_without_a_cluster_has_none_of_these_metrics() -> None:
    assert values({}) == {}


def test_a_node_shows_its_process_and_that_it_is_not_ready() -> None:
    found = {each.family.name: dict(each.values) for each in process_readings(5.0)}
    assert found["daybook_uptime_seconds"] == {(): 5.0}
    assert found["daybook_ready"] == {(): 0}
    assert len(found) == 4
    assert {each.family for each in CLUSTER} <= set(FAMILIES)
