"""A second virtual host for worlds and scenarios: the same command, about names on that host."""

from typing import Any, Final

import msgspec

from daybook.engine.commands import Command
from daybook.engine.limits.host_limits import HostLimits
from daybook.engine.names.names import DIVIDER, qualified
from daybook.engine.state.state import State

OTHER: Final = "eu"
HOSTS: Final = {OTHER: HostLimits()}
_NAMES: Final = ("address", "queue", "target", "name")
_HAVE_NO_NAME_THERE: Final = ("DeleteSubscription", "Begin", "Commit", "Rollback")


def moved(state: State, command: Any) -> Any:
    """Return a command about the other host, by a connection of it; the same if there is none."""
    changes: dict[str, Any] = {}
    fields = command.__struct_fields__
    if "sender" in fields and command.sender:
        # It comes by a link of its connection.
        return command
    if "connection" in fields and command.connection in state.connections:
        there = [each.id for each in state.connections.values() if each.host == OTHER]
        if not there or ("chunks" in fields and command.chunks):
            return command
        changes["connection"] = there[command.connection % len(there)]
    for name in _NAMES:
        value = getattr(command, name, None)
        if isinstance(value, str) and value and type(command).__name__ not in _HAVE_NO_NAME_THERE:
            changes[name] = qualified(OTHER, value)
    if getattr(command, "auto_link", None) is not None:
        link = command.auto_link
        changes["auto_link"] = msgspec.structs.replace(link, address=changes["address"])
    if "match" in fields:
        changes["match"] = f"{OTHER}{DIVIDER}{command.match}"
    if "definition" in fields:
        changes["definition"] = _definition(command.definition)
    if "sends" in fields:
        changes["sends"] = [moved(state, each) for each in command.sends]
        changes["connection"] = changes["sends"][0].connection
    if "parts" in fields:
        changes["parts"] = [moved(state, each) for each in command.parts]
        changes["connection"] = changes["parts"][0].connection
    if "command" in fields and isinstance(command.command, Command):
        changes["command"] = moved(state, command.command)
    return msgspec.structs.replace(command, **changes) if changes else command


def _definition(definition: Any) -> Any:
    changes: dict[str, Any] = {
        name: qualified(OTHER, getattr(definition, name))
        for name in ("name", "address")
        if getattr(definition, name, "")
    }
    targets = getattr(definition, "forwarding_addresses", ())
    if targets:
        changes["forwarding_addresses"] = tuple(qualified(OTHER, each) for each in targets)
    return msgspec.structs.replace(definition, **changes)
