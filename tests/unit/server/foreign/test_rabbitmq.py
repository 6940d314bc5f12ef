"""The definitions of RabbitMQ: what becomes of each object, and what is named as lost."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.names.names import HOST_LENGTH_MAX, wrong_with_host
from daybook.engine.settings.permissions import Permissions
from daybook.engine.settings.settings import Settings
from daybook.server.configuration.config import Config, ConfigError, load
from daybook.server.configuration.config_text import as_toml
from daybook.server.foreign.findings import Findings
from daybook.server.foreign.importing import foreign_users
from daybook.server.foreign.rabbitmq import Definitions, filter_of, read_definitions

USERS = [
    {"name": "admin", "password_hash": "x", "tags": ["administrator"], "limits": {}},
    {"name": "shop", "password_hash": "y", "tags": "monitoring,policymaker"},
]
EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}


def queue(name: str, vhost: str = "/", **more: Any) -> dict[str, Any]:
    return {"name": name, "vhost": vhost, "durable": True, "auto_delete": False, **more}


def exchange(name: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "vhost": "/", "type": kind, "durable": True, "arguments": {}, **more}


def binding(source: str, target: str, key: str = "", **more: Any) -> dict[str, Any]:
    return {
        "source": source, "vhost": "/", "destination": target, "destination_type": "queue",
        "routing_key": key, "arguments": {}, **more,
    }  # fmt: skip


def path_of(folder: Path, **lists: Any) -> Path:
    path = folder / "definitions.json"
    path.write_text(json.dumps({"rabbit_version": "3.13.7", "vhosts": [{"name": "/"}], **lists}))
    return path


def converted(folder: Path, **lists: Any) -> Config:
    """Load definitions, and the broker.toml that they become; both are the same."""
    path = path_of(folder, **lists)
    findings = Findings()
    source = read_definitions(path, [], findings)
    toml = folder / "broker.toml"
    toml.write_text(as_toml(source, path.name, findings.lost, findings.needless))
    config, again = load(path), load(toml)
    for field in config.__struct_fields__:
        if field not in ("warnings", "foreign"):
            assert getattr(again, field) == getattr(config, field), toml.read_text()
    return config


def settings_of(config: Config, address: str) -> dict[str, Any]:
    found = Settings(config.address_settings, config.wildcards.syntax).explain(address)
    return {row[0]: row[1] for row in found if row[2]}


def test_queues_keep_their_names_and_their_arguments(tmp_path: Path) -> None:
    arguments = {
        "x-message-ttl": 60_000, "x-max-length": 10, "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead", "x-single-active-consumer": True,
        "x-queue-type": "quorum", "x-delivery-limit": 4, "x-expires": 1000,
    }  # fmt: skip
    config = converted(
        tmp_path,
        queues=[
            queue("orders", arguments=arguments),
            queue("dead", durable=False, auto_delete=True),
            queue("full", arguments={"x-max-length": 5, "x-overflow": "reject-publish"}),
            queue("log", arguments={"x-queue-type": "stream", "x-max-age": "7D"}),
        ],
    )
    queues = {each.name: each.definition for each in config.queues}
    assert list(queues) == ["orders", "dead", "full", "log"]
    orders = queues["orders"]
    assert (orders.ring_size, orders.exclusive, orders.durable) == (10, True, True)
    assert (orders.auto_delete, orders.auto_delete_delay) == (True, 1000)
    assert orders.auto_delete_message_count == -1
    assert (queues["dead"].durable, queues["dead"].auto_delete) == (False, True)
    assert queues["log"].non_destructive
    known = settings_of(config, "orders")
    assert known["max-expiry-delay"] == 60_000
    assert known["max-delivery-attempts"] == 5
    assert known["dead-letter-address"] == known["expiry-address"] == "dead"
    full = settings_of(config, "full")
    assert (full["max-size-messages"], full["address-full-policy"]) == (5, "FAIL")
    lost = "\n".join(config.warnings)
    assert (
        "queue 'orders': max-length: messages that are pushed out do not become dead letters"
        in lost
    )
    assert "queue 'log': max-age = '7D' is not supported" in lost
    assert "queue-type: 'quorum'" in "\n".join(config.foreign.needless)


def test_bindings_are_diverts(tmp_path: Path) -> None:
    config = converted(
        tmp_path,
        exchanges=[
            exchange("logs", "fanout"), exchange("shop", "topic"), exchange("by-type", "headers"),
            exchange("late", "x-delayed-message"), exchange("amq.topic", "topic"),
        ],
        queues=[queue("q1"), queue("q2")],
        bindings=[
            binding("", "q1", "q1"),
            binding("logs", "q1", "ignored"),
            binding("shop", "q2", "orders.*.new"),
            binding("amq.topic", "q1", "price.#"),
            binding("by-type", "q2", arguments={"x-match": "any", "kind": "it's", "size": 5}),
            binding("late", "q1", "x"),
            binding("amq.topic", "q2", "#"),
            binding("shop", "logs", "#", destination_type="exchange"),
        ],
    )  # fmt: skip
    found = {
        each.address: (each.forwarding_addresses, each.filter, each.routing_type)
        for each in config.diverts
    }
    assert found == {
        "logs": (("q1",), "", "anycast"),
        "shop.orders.*.new": (("q2",), "", "anycast"),
        "price.#": (("q1",), "", "anycast"),
        "by-type": (("q2",), "kind = 'it''s' OR size = 5", "anycast"),
        "shop.#": (("logs",), "", "multicast"),
    }
    lost = "\n".join(config.warnings)
    assert "exchange 'shop' (topic): clients send to /topic/shop.KEY instead of" in lost
    assert "exchange 'late' of type 'x-delayed-message' is not supported; send with AMQ" in lost
    assert "'#' has messages of queue 'q1', too; rename one of them" in lost
    assert "binding of 'late' to 'q1' by 'x' is not taken over: its exchange is not" in lost


def test_the_strongest_policy_of_a_queue_is_in_force(tmp_path: Path) -> None:
    def policy(
        name: str, pattern: str, priority: int, to: str = "queues", **definition: Any
    ) -> dict[str, Any]:
        return {
            "name": name, "vhost": "/", "pattern": pattern, "apply-to": to,
            "priority": priority, "definition": definition,
        }  # fmt: skip

    config = converted(
        tmp_path,
        queues=[queue("a.one", arguments={"x-message-ttl": 900}), queue("b")],
        policies=[
            policy("weak", ".*", 0, **{"message-ttl": 1, "ha-mode": "all"}),
            policy("strong", "^a\\.", 7, **{"message-ttl": 5000, "max-length": 3}),
            policy("wrong", "(?=x)", 9, **{"max-length": 1}),
            policy("weaker", ".*", -1, **{"message-ttl": 2}),
            policy("quorums", ".*", 10, "quorum_queues", **{"message-ttl": 3}),
            policy("classics", "^b", 1, "classic_queues", **{"max-length": 7}),
        ],
    )
    assert settings_of(config, "a.one")["max-expiry-delay"] == 900
    assert "max-expiry-delay" not in settings_of(config, "b")
    assert [each.definition.ring_size for each in config.queues] == [3, 7]
    lost = "\n".join(config.warnings)
    assert "policy 'wrong': its pattern '(?=x)' is not supported" in lost
    for name in ("strong", "classics"):
        assert f"policy '{name}' holds for the queues of this file" in lost
    for name in ("weak", "weaker", "quorums"):
        assert f"policy '{name}' holds for no queue of this file" in lost


def test_users_come_with_roles_and_rules_and_without_passcodes(tmp_path: Path) -> None:
    lists = {
        "users": USERS,
        "queues": [queue("orders"), queue("payroll")],
        "permissions": [
            {"user": "admin", "vhost": "/", **EVERYTHING},
            {"user": "shop", "vhost": "/", "configure": "", "write": "^orders$", "read": "^ord"},
        ],
    }
    config = converted(tmp_path, **lists)
    rules = Permissions(config.security_settings)
    for address in ("orders", "payroll", "new"):
        assert rules.allows("admin", "send", address)
        assert rules.allows("admin", "manage", address)
    assert rules.allows("shop", "send", "orders")
    assert rules.allows("shop", "consume", "orders")
    assert not rules.allows("shop", "create-address", "orders")
    assert not rules.allows("shop", "manage", "orders")
    for address in ("payroll", "new"):
        assert not rules.allows("shop", "send", address)
        assert not rules.allows("shop", "consume", address)
    assert any("2 users come without passcodes" in each for each in config.warnings)
    users = foreign_users(path_of(tmp_path, **lists), None, Findings())
    assert {name: (user.hash, user.roles) for name, user in users.items()} == {
        "admin": ("", ("administrator",)), "shop": ("", ("monitoring", "policymaker")),
    }  # fmt: skip


def test_virtual_hosts_keep_their_names_for_clients(tmp_path: Path) -> None:
    lists = {
        "vhosts": [{"name": "/"}, {"name": "eu_west"}],
        "users": USERS[:1],
        "permissions": [{"user": "admin", "vhost": "eu_west", **EVERYTHING}],
        "queues": [queue("a"), queue("a", "eu_west", arguments={"x-message-ttl": 5})],
    }
    config = converted(tmp_path, **lists)
    assert [(each.name, each.host_names) for each in config.virtual_hosts] == [
        ("default", ("/",)), ("eu-west", ("eu_west",)),
    ]  # fmt: skip
    assert [each.name for each in config.queues] == ["a", "eu-west::a"]
    assert settings_of(config, "eu-west::a")["max-expiry-delay"] == 5
    assert "max-expiry-delay" not in settings_of(config, "a")
    assert list(config.host_security) == ["eu-west"]
    users = foreign_users(path_of(tmp_path, **lists), None, Findings())
    assert users["admin"].hosts == ("eu-west",)


def test_what_is_besides_is_named(tmp_path: Path) -> None:
    config = converted(
        tmp_path,
        queues=[queue("a b"), queue("ok")],
        parameters=[{"component": "shovel", "name": "s", "vhost": "/", "value": {}}],
        global_parameters=[{"name": "cluster_name", "value": "rabbit@a"}],
    )
    assert [each.name for each in config.queues][-1] == "ok"
    lost = "\n".join(config.warnings)
    assert "parameters: shovel 's' is not taken over" in lost
    assert "cluster_name" in "\n".join(config.foreign.needless)


def test_virtual_hosts_with_letters_that_ours_cannot_have_get_names(tmp_path: Path) -> None:
    """Such a name was looked for without end."""
    path = tmp_path / "definitions.json"
    long = "x" * HOST_LENGTH_MAX
    names = ["/", "café", "caf-é", "é", "default", "host", long, f"{long}y", "a_b", "a.b", "a-b"]
    path.write_text(json.dumps({"vhosts": [{"name": name} for name in names], "queues": []}))
    hosts = Definitions(path, [], Findings()).hosts
    assert list(hosts) == names
    assert hosts["/"] == ""
    others = [hosts[name] for name in names[1:]]
    assert len(set(others)) == len(others)
    assert [each for each in others if wrong_with_host(each) or each == "default"] == []
    assert (hosts["café"], hosts["a-b"], hosts[long]) == ("caf", "a-b-3", long)


def test_very_many_virtual_hosts_of_one_name_take_no_time(tmp_path: Path) -> None:
    path = tmp_path / "definitions.json"
    names = [f"a{chr(0x4E00 + number)}" for number in range(5000)]
    path.write_text(json.dumps({"vhosts": [{"name": name} for name in names], "queues": []}))
    looked = Mock(side_effect=wrong_with_host)
    with patch("daybook.server.foreign.rabbitmq.wrong_with_host", looked):
        hosts = Definitions(path, [], Findings()).hosts
    assert len(set(hosts.values())) == 5000
    assert looked.call_count <= 3 * 5000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not valid JSON"),
        ("{}", "has no queues, exchanges or users"),
        ('{"queues": 1}', "queues must be a list of objects"),
    ],
)
def test_a_file_that_is_none_is_a_problem(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "definitions.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words):
        load(path)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 1 << 70) | st.text(max_size=8) | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
KEYS = st.sampled_from(
    ["name", "vhost", "type", "arguments", "source", "destination", "destination_type", "user",
     "routing_key", "pattern", "definition", "priority", "apply-to", "tags", "configure", "read"]
)  # fmt: skip
OBJECTS = st.lists(st.dictionaries(KEYS, ANYTHING | st.sampled_from(["/", "a", "b"])), max_size=4)


@given(
    st.fixed_dictionaries(
        {name: OBJECTS for name in ("queues", "exchanges", "bindings", "policies", "users",
                                    "permissions", "vhosts")}
    )
)  # fmt: skip
def test_any_definitions_are_read(tmp_path_factory: pytest.TempPathFactory, lists: Any) -> None:
    path = tmp_path_factory.mktemp("any") / "definitions.json"
    path.write_text(json.dumps(lists, allow_nan=False, default=str) if _is_json(lists) else "{}")
    read_definitions(path, [], Findings())


def _is_json(lists: Any) -> bool:
    try:
        json.dumps(lists, allow_nan=False)
    except ValueError:
        return False
    return True


def test_conditions_of_headers() -> None:
    assert filter_of({"x-match": "all", "a": True, "b": None}) == "a = TRUE AND b IS NOT NULL"
    assert filter_of({}) == ""
