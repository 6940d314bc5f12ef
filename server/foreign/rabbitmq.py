"""The definitions of RabbitMQ, as its management exports them, as the source of ours.

A queue becomes an address and a queue of its name. An exchange has no object here: its messages go
to the address `EXCHANGE.KEY`, or `EXCHANGE` where keys do not matter, and each binding is a divert
from there to a queue. Policies are resolved for the queues that the file lists. Users come without
passcodes. Settings that cannot be taken over are findings. Must never act on the definitions.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import re2

from daybook.engine.names.names import (
    HOST_LENGTH_MAX,
    wrong_with,
    wrong_with_host,
    wrong_with_wildcards,
)
from daybook.engine.names.patterns import PatternTrie, overlap, path_of
from daybook.engine.names.syntax import DEFAULT as SYNTAX
from daybook.server.config_keys.config_source import Block, Given, Source
from daybook.server.foreign.findings import Findings
from daybook.server.foreign.logins import ForeignUser
from daybook.server.foreign.rabbitmq_arguments import Meaning, meaning_of, merged
from daybook.server.foreign.rabbitmq_rules import compiled_pattern, rules_on

BYTES_MAX: Final = 64 * 1024 * 1024
TOPIC: Final = "amq.topic"
"""The exchange that `/topic/KEY` of RabbitMQ means: its keys are addresses."""
DEFAULT_EXCHANGE: Final = ""
_HOST_BASE_MAX: Final = HOST_LENGTH_MAX - 8
"""The part kept of the name of a virtual host that gets a number."""
_KINDS: Final = ("direct", "fanout", "topic", "headers")
_BY_KEY: Final = ("direct", "topic")
_LISTS: Final = ("queues", "exchanges", "bindings", "policies", "users", "vhosts", "permissions")
_IGNORED: Final = ("parameters", "global_parameters", "topic_permissions", "operator_policies")
_NEEDLESS: Final = ("cluster_name", "internal_cluster_id")
_TYPES: Final = {"classic_queues": "classic", "quorum_queues": "quorum", "streams": "stream"}
"""Which type of queue a policy is for, by its `apply-to`; any other is for all queues."""


class Definitions:
    """The file, with each object by its virtual host."""

    def __init__(self, path: Path, problems: list[str], findings: Findings) -> None:
        self.where: Final = str(path)
        self.findings: Final = findings
        data = _read(path, problems)
        self.lists: Final[dict[str, list[dict[str, Any]]]] = {}
        for name in (*_LISTS, *_IGNORED):
            found = data.get(name, [])
            if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
                problems.append(f"{path}: {name} must be a list of objects")
                found = []
            self.lists[name] = found
        self.hosts: Final = self._hosts()

    def _hosts(self) -> dict[str, str]:
        """Return our virtual host of each of theirs, "" for the default one."""
        names = [_text(each, "name") for each in self.lists["vhosts"]]
        for name in _LISTS[:4]:
            names += [_text(each, "vhost", "/") for each in self.lists[name]]
        names = list(dict.fromkeys(names)) or ["/"]
        first = "/" if "/" in names else names[0]
        found = {first: ""}
        taken = {"default"}
        numbers: Counter[str] = Counter()
        for name in names:
            if name == first:
                continue
            ours = _host_like(name)
            base = ours[:_HOST_BASE_MAX]
            while ours in taken:
                numbers[base] += 1
                ours = f"{base}-{numbers[base] + 1}"
            taken.add(ours)
            found[name] = ours
        return found

    def of(self, name: str, host: str) -> list[dict[str, Any]]:
        """Return the objects of a list that are on a virtual host."""
        return [each for each in self.lists[name] if _text(each, "vhost", "/") == host]

    def users(self) -> list[ForeignUser]:
        """Return the users with their tags as roles, and the hosts that they may use."""
        found = []
        for each in self.lists["users"]:
            name, tags = _text(each, "name"), each.get("tags", [])
            listed = tags.split(",") if isinstance(tags, str) else tags
            roles = [str(tag) for tag in listed] if isinstance(listed, list) else []
            allowed = [
                self.hosts.get(_text(one, "vhost", "/"), "") or "default"
                for one in self.lists["permissions"]
                if _text(one, "user") == name
            ]
            hosts = allowed if len(self.hosts) > 1 else []
            found.append(
                ForeignUser(name, self.where, "", [role.strip() for role in roles if role], hosts)
            )
        return found


def is_definitions(path: Path) -> bool:
    """Whether a file is JSON, by its name or its first character."""
    if path.suffix.lower() == ".json":
        return True
    try:
        with path.open("rb") as file:
            return file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
    except OSError:
        return False


def _host_like(name: str) -> str:
    """Return a name of a virtual host that looks like one of theirs."""
    fits = "".join("-" if wrong_with_host(each) else each for each in name)
    return fits.strip("-")[:HOST_LENGTH_MAX] or "host"


def read_definitions(path: Path, problems: list[str], findings: Findings) -> Source:
    """Read a file of definitions."""
    definitions = Definitions(path, problems, findings)
    source = Source()
    for host in definitions.hosts:
        _Host(definitions, source, host).read()
    _note_others(definitions)
    return source


class _Policy(msgspec.Struct, frozen=True):
    """A policy for queues: their names, their type (`apply-to`), and its settings for them."""

    name: str
    pattern: Any
    place: str
    given: Mapping[str, Any]

    def holds_for(self, queue: Mapping[str, Any]) -> bool:
        """Whether it is for a queue, if no stronger one is."""
        wanted = _TYPES.get(self.place)
        has_type = _arguments(queue).get("x-queue-type", "classic") == wanted
        return (wanted is None or has_type) and bool(self.pattern.search(_text(queue, "name")))


def _policy_of(queue: Mapping[str, Any], policies: list[_Policy]) -> _Policy | None:
    """Return the one policy that decides for a queue: the first one that is for it."""
    return next((each for each in policies if each.holds_for(queue)), None)


class _Host:
    """Translates the objects of one virtual host."""

    def __init__(self, definitions: Definitions, source: Source, host: str) -> None:
        self._definitions: Final = definitions
        self._source: Final = source
        self._findings: Final = definitions.findings
        self._host: Final = host
        self._ours: Final = definitions.hosts[host]
        self._where: Final = definitions.where
        self._kinds: Final = {
            _text(each, "name"): _text(each, "type") for each in definitions.of("exchanges", host)
        } | {DEFAULT_EXCHANGE: "direct", TOPIC: "topic"}
        self._queues: Final[dict[str, None]] = {}
        self._targets: Final[dict[str, None]] = {}
        # By address of a binding: a queue whose messages also pass there.
        self._mixed: dict[str, str] = {}

    def read(self) -> None:
        """Translate everything."""
        if len(self._definitions.hosts) > 1:
            values = {"name": self._ours or "default"}
            block = self._block("virtual-host", values, is_on_host=False)
            block.values["host-names"] = Given([self._host], self._where)
        for exchange in self._definitions.of("exchanges", self._host):
            self._exchange(exchange)
        policies = self._policies()
        for queue in self._definitions.of("queues", self._host):
            self._queue(queue, policies)
        self._find_mixed()
        for number, binding in enumerate(self._definitions.of("bindings", self._host)):
            self._binding(binding, number)
        permissions = self._definitions.of("permissions", self._host)
        names = [*self._queues, *self._targets]
        managers = [user.login for user in self._definitions.users() if _manages(user)]
        for rule in rules_on(permissions, names, managers, self._lose):
            match = str(rule.pop("match"))
            self._block("security-setting", {"match": match, **rule})

    def _lose(self, what: str) -> None:
        on = f" on {self._host!r}" if len(self._definitions.hosts) > 1 else ""
        self._findings.lose(self._where, what + on)

    def _spare(self, what: str) -> None:
        self._findings.spare(self._where, what)

    def _block(self, array: str, values: Mapping[str, object], *, is_on_host: bool = True) -> Block:
        block = Block(self._where, {key: Given(each, self._where) for key, each in values.items()})
        if self._ours and is_on_host:
            block.values["virtual-host"] = Given(self._ours, self._where)
        blocks = self._source.settings if array == "address-setting" else self._source.arrays[array]
        blocks.append(block)
        return block

    # ---- exchanges

    def _exchange(self, exchange: Mapping[str, Any]) -> None:
        name, kind = _text(exchange, "name"), _text(exchange, "type")
        if name.startswith("amq.") or name == DEFAULT_EXCHANGE:
            return
        if kind not in _KINDS:
            self._lose(
                f"exchange {name!r} of type {kind!r} is not supported{_INSTEAD.get(kind, '')}"
            )
            return
        place = f"{name}.KEY" if kind in _BY_KEY else name
        self._lose(
            f"exchange {name!r} ({kind}): clients send to /topic/{place} instead of"
            f" /exchange/{name}{'/KEY' if kind in _BY_KEY else ''}"
        )
        if exchange.get("internal"):
            self._lose(f"exchange {name!r} is internal: do not grant `send` at {place}")
        for key, value in _arguments(exchange).items():
            self._lose(f"{key} = {value!r} of exchange {name!r} is not supported")

    def _address(self, exchange: str, key: str) -> str | None:
        """Return the address that stands for an exchange and a key, None if there is none."""
        kind = self._kinds.get(exchange)
        if kind not in _KINDS:
            return None
        if kind not in _BY_KEY:
            return exchange
        if exchange in (DEFAULT_EXCHANGE, TOPIC):
            return key
        return f"{exchange}.{key}" if key else None

    # ---- queues

    def _policies(self) -> list[_Policy]:
        """Return the policies for queues, the strongest first."""
        found: list[_Policy] = []
        for policy in sorted(
            self._definitions.of("policies", self._host), key=lambda each: -_priority(each)
        ):
            name, pattern = _text(policy, "name"), _text(policy, "pattern")
            given, place = policy.get("definition"), _text(policy, "apply-to", "all")
            if place == "exchanges" or not isinstance(given, dict):
                self._lose(f"policy {name!r} for exchanges is not taken over")
                continue
            try:
                found.append(_Policy(name, compiled_pattern(pattern), place, given))
            except re2.error as error:
                self._lose(f"policy {name!r}: its pattern {pattern!r} is not supported: {error}")
        queues = self._definitions.of("queues", self._host)
        decides = {each.name for queue in queues if (each := _policy_of(queue, found))}
        for one in found:
            holds = (
                "holds for the queues of this file"
                if one.name in decides
                else "holds for no queue of this file: a stronger policy does, or none matches"
            )
            self._lose(
                f"policy {one.name!r} {holds}; for queues to come write an [[address-setting]]"
                " with a match"
            )
        return found

    def _queue(self, queue: Mapping[str, Any], policies: list[_Policy]) -> None:
        name = _text(queue, "name")
        wrong = wrong_with(name)
        if wrong:
            self._lose(f"queue {name!r} is not taken over: {wrong}")
            return
        self._queues[name] = None
        policy = _policy_of(queue, policies)
        given = merged(_arguments(queue), policy.given if policy is not None else {})
        key = given.get("dead-letter-routing-key", name)
        dead_letters = self._address(str(given.get("dead-letter-exchange", "")), str(key))
        meaning = meaning_of(given, dead_letters)
        self._note(name, meaning)
        self._block("address", {"name": name, "routing-types": ["anycast"]})
        values = {"name": name, "address": name, "routing-type": "anycast"}
        rest: dict[str, object] = {}
        if queue.get("durable") is False:
            rest["durable"] = False
        if queue.get("auto_delete") is True:
            rest["auto-delete"] = True
        self._block("queue", {**values, **rest, **meaning.queue})
        if meaning.settings:
            self._block("address-setting", {"match": name, **meaning.settings})

    def _note(self, name: str, meaning: Meaning) -> None:
        for what in meaning.lost:
            self._lose(f"queue {name!r}: {what}")
        for what in meaning.needless:
            self._spare(f"queue {name!r}: {what}")

    # ---- bindings

    def _binding(self, binding: Mapping[str, Any], number: int) -> None:
        source, target = _text(binding, "source"), _text(binding, "destination")
        key = _text(binding, "routing_key")
        shown = f"binding of {source!r} to {target!r} by {key!r}"
        if source == DEFAULT_EXCHANGE:
            return
        address = self._address(source, key)
        if _text(binding, "destination_type") == "exchange":
            if self._kinds.get(target) in _BY_KEY:
                self._lose(f"{shown} is not taken over: keys are lost on the way to an exchange")
                return
            to = self._address(target, "")
        else:
            to = target if target in self._queues else None
        wrong = self._wrong_with(address, to)
        if wrong:
            self._lose(f"{shown} is not taken over: {wrong}")
            return
        assert address is not None
        assert to is not None
        self._targets[address] = None
        values: dict[str, object] = {
            "name": f"rabbitmq-{number + 1}{'-' + self._ours if self._ours else ''}",
            "address": address,
            "forwarding-addresses": [to],
            "routing-type": "anycast" if to in self._queues else "multicast",
        }
        if self._kinds.get(source) == "headers":
            values["filter"] = filter_of(_arguments(binding))
        if address not in self._queues and not SYNTAX.is_pattern(address):
            self._block("address", {"name": address, "routing-types": ["multicast"]})
        self._block("divert", values)

    def _find_mixed(self) -> None:
        """Find queues whose own messages a binding would take, too."""
        patterns: PatternTrie[str] = PatternTrie(SYNTAX)
        for binding in self._definitions.of("bindings", self._host):
            key = _text(binding, "routing_key")
            address = self._address(_text(binding, "source"), key)
            if address and not wrong_with_wildcards(address) and binding.get("source"):
                patterns.add(address, address)
        for queue in self._queues:
            for address in patterns.matching(queue):
                self._mixed.setdefault(address, queue)

    def _wrong_with(self, address: str | None, to: str | None) -> str | None:
        if address is None:
            return "its exchange is not taken over, or the key is empty"
        if to is None:
            return "its target is not taken over"
        wrong = wrong_with_wildcards(address) or wrong_with_wildcards(to)
        if wrong:
            return wrong
        queue = self._mixed.get(address)
        if queue is not None:
            return f"{address!r} has messages of queue {queue!r}, too; rename one of them"
        path = path_of(address, SYNTAX)
        return (
            f"{address!r} has messages of {to!r}, too"
            if overlap(path, path_of(to, SYNTAX))
            else None
        )


_INSTEAD: Final = {
    "x-delayed-message": "; send with AMQ_SCHEDULED_DELAY instead",
    "x-consistent-hash": "; queues have group-hashing instead",
}


def filter_of(arguments: Mapping[str, Any]) -> str:
    """Return the condition of a binding to an exchange of type headers."""
    parts = [
        f"{key} = {_literal(value)}" if value is not None else f"{key} IS NOT NULL"
        for key, value in arguments.items()
        if not key.startswith("x-")
    ]
    joined = " OR " if str(arguments.get("x-match", "all")).startswith("any") else " AND "
    return joined.join(parts)


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        return str(value)
    return "'" + str(value).replace("'", "''") + "'"


def _manages(user: ForeignUser) -> bool:
    return "administrator" in user.roles


def _note_others(definitions: Definitions) -> None:
    """Note the parts of the file besides queues, exchanges and users."""
    findings, where = definitions.findings, definitions.where
    if definitions.lists["users"]:
        findings.lose(
            where,
            f"{len(definitions.lists['users'])} users come without passcodes: add them with"
            f" `daybook user import {where}`, and give each one with `daybook user passwd LOGIN`",
        )
    for name in _IGNORED:
        for each in definitions.lists[name]:
            shown = _text(each, "name") or _text(each, "user")
            if shown in _NEEDLESS:
                findings.spare(where, f"{name}: {shown}")
            else:
                component = _text(each, "component")
                what = f"{component} {shown!r}" if component else repr(shown)
                findings.lose(where, f"{name}: {what} is not taken over")


def _read(path: Path, problems: list[str]) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(BYTES_MAX + 1)
    except OSError as error:
        problems.append(f"{path}: cannot be read: {error.strerror}")
        return {}
    if len(data) > BYTES_MAX:
        problems.append(f"{path}: is longer than {BYTES_MAX:,} bytes")
        return {}
    try:
        found = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problems.append(f"{path}: is not valid JSON: {error}")
        return {}
    if not isinstance(found, dict) or not any(name in found for name in _LISTS):
        problems.append(
            f"{path}: has no queues, exchanges or users; it must be an export of the management "
            f"of RabbitMQ (`rabbitmqctl export_definitions FILE`)"
        )
        return {}
    return found


def _text(each: Mapping[str, Any], key: str, default: str = "") -> str:
    value = each.get(key, default)
    return value if isinstance(value, str) else default


def _arguments(each: Mapping[str, Any]) -> dict[str, Any]:
    found = each.get("arguments")
    return dict(found) if isinstance(found, dict) else {}


def _priority(policy: Mapping[str, Any]) -> float:
    value = policy.get("priority", 0)
    return value if isinstance(value, int | float) else 0
