"""Translates arguments of queues and keys of policies of RabbitMQ.

Both are the same list under two spellings (`x-max-length`, `max-length`). Must never know a file.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeGuard

import msgspec

_NEEDLESS: Final = dict.fromkeys(
    (
        "queue-mode", "queue-version", "queue-leader-locator", "queue-master-locator",
        "quorum-initial-group-size", "initial-cluster-size", "ha-mode", "ha-params",
        "ha-sync-mode", "ha-promote-on-shutdown", "ha-promote-on-failure", "ha-sync-batch-size",
        "target-group-size", "stream-max-segment-size-bytes", "max-in-memory-length",
        "max-in-memory-bytes",
    ),
    "every queue is journaled, on one node",
)  # fmt: skip
PRIORITY_MAX: Final = 9
TEN_ATTEMPTS: Final = 10


class Meaning(msgspec.Struct):
    """Attributes of a queue, settings of its address, and lost or needless arguments."""

    queue: dict[str, object] = {}
    settings: dict[str, object] = {}
    lost: list[str] = []
    needless: list[str] = []


def merged(arguments: Mapping[str, Any], policy: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments and policy of a queue in one: of two numbers the smaller one is in force,
    else the argument."""
    found = dict(policy)
    for key, value in arguments.items():
        key = key.removeprefix("x-")
        other = found.get(key)
        is_number = _is_number(value) and _is_number(other)
        found[key] = min(value, other) if is_number else value
    return found


def meaning_of(given: Mapping[str, Any], dead_letters: str | None) -> Meaning:
    """Return the meaning of the arguments of a queue.

    `dead_letters` is the address that its dead letter exchange has here, None if it has none.
    """
    found = Meaning()
    for key, value in given.items():
        if key in _NEEDLESS:
            found.needless.append(f"{key}: {_NEEDLESS[key]}")
        elif key not in _KNOWN:
            found.lost.append(f"{key} = {value!r} is not supported")
    _limits(given, found)
    _times(given, found)
    _kind(given, found)
    if "delivery-limit" in given:
        if _is_number(given["delivery-limit"]):
            # The limit does not count the first delivery.
            found.settings["max-delivery-attempts"] = int(given["delivery-limit"]) + 1
        else:
            found.lost.append(f"delivery-limit = {given['delivery-limit']!r} is not a number")
    if "dead-letter-exchange" in given:
        if dead_letters is None:
            found.lost.append(
                "dead-letter-exchange: its address depends on the message; set dead-letter-address"
            )
        else:
            found.settings["dead-letter-address"] = dead_letters
            found.settings["expiry-address"] = dead_letters
    return found


_KNOWN: Final = frozenset(
    {
        "max-length", "max-length-bytes", "overflow", "message-ttl", "expires", "max-priority",
        "queue-type", "single-active-consumer", "delivery-limit", "dead-letter-exchange",
        "dead-letter-routing-key", "dead-letter-strategy",
    }
)  # fmt: skip


def _limits(given: Mapping[str, Any], found: Meaning) -> None:
    count, size = given.get("max-length"), given.get("max-length-bytes")
    if given.get("overflow", "drop-head") != "drop-head":
        for key, value in (("max-size-messages", count), ("max-size-bytes", size)):
            if _is_number(value):
                found.settings[key] = int(value)
                found.settings["address-full-policy"] = "FAIL"
        if given.get("overflow") == "reject-publish-dlx":
            found.lost.append(
                "overflow = 'reject-publish-dlx': senders get an ERROR, no dead letter"
            )
        return
    if _is_number(count):
        found.queue["ring-size"] = int(count)
        if "dead-letter-exchange" in given:
            found.lost.append("max-length: messages that are pushed out do not become dead letters")
    if size is not None:
        found.lost.append(
            f"max-length-bytes = {size!r}: a queue drops its oldest messages by number only"
            " (ring-size); max-size-bytes with address-full-policy limits new messages"
        )


def _times(given: Mapping[str, Any], found: Meaning) -> None:
    if _is_number(given.get("message-ttl")):
        found.settings["max-expiry-delay"] = int(given["message-ttl"])
    if _is_number(given.get("expires")):
        found.queue |= {
            "auto-delete": True,
            "auto-delete-delay": int(given["expires"]),
            "auto-delete-message-count": -1,
        }


def _kind(given: Mapping[str, Any], found: Meaning) -> None:
    kind = given.get("queue-type", "classic")
    if kind in ("classic", "quorum"):
        if "queue-type" in given:
            found.needless.append(f"queue-type: {kind!r}: every queue is journaled, on one node")
    elif kind == "stream":
        found.queue["non-destructive"] = True
        found.lost.append(
            "queue-type = 'stream': the queue is non-destructive, and grows until its messages"
            " expire; subscriptions begin where from-seq says (docs/stomp.md)"
        )
    else:
        found.lost.append(f"queue-type = {kind!r} is not supported")
    if given.get("single-active-consumer") is True:
        found.queue["exclusive"] = True
    highest = given.get("max-priority")
    if _is_number(highest) and highest > PRIORITY_MAX:
        found.lost.append(f"max-priority = {highest}: priorities are 0 to {PRIORITY_MAX}")
    elif highest is not None:
        found.needless.append("max-priority: every queue has priorities")


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
