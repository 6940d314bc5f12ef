"""Requests of administrators that change queues and addresses, and the users behind them.

Each becomes a command of the engine; `server.administration.control` reads and answers them. Must
never know the socket, except whom it belongs to.
"""

import pwd
import socket
from struct import Struct
from typing import Annotated, Any, Final

import msgspec

from daybook.engine.commands import (
    ActOnMessages,
    Administer,
    Command,
    PauseAddress,
    RemoveSettings,
    ResumeAddress,
    SetSettings,
    UpdateAddress,
    UpdateQueue,
)
from daybook.engine.settings.permissions import Actor
from daybook.server.configuration.setting_values import from_text

_CREDENTIALS: Final = Struct("3i")
"""What Linux knows of a peer: process, user and group."""


class Asker(msgspec.Struct, frozen=True):
    """The user behind a request, the request as it came, and whose rights limit it: `actor` is None
    for the operator of this machine."""

    by: str
    request: str
    actor: Actor | None = None

    def command(self, command: Command) -> Administer:
        """Return a command that records its user."""
        return Administer(self.by, self.request, command)


def user_of(descriptor: int) -> str:
    """Return the user of the process at the other end of a unix socket: `name (uid 0)`."""
    with socket.fromfd(descriptor, socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        found = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(found)
    try:
        return f"{pwd.getpwuid(user).pw_name} (uid {user})"
    except KeyError:
        # A container may have users without names.
        return f"uid {user}"


class QueueUpdate(msgspec.Struct, frozen=True, tag="update-queue", tag_field="do"):
    """Change attributes of a queue, by field."""

    queue: str
    changes: dict[str, bool | int | str]

    def command(self) -> Command:
        """Return the command for this request."""
        return UpdateQueue(self.queue, self.changes)


class AddressUpdate(msgspec.Struct, frozen=True, tag="update-address", tag_field="do"):
    """Give an address other routing types."""

    address: str
    routing_types: tuple[str, ...]

    def command(self) -> Command:
        """Return the command for this request."""
        return UpdateAddress(self.address, self.routing_types)


class AddressPause(msgspec.Struct, frozen=True, tag="pause-address", tag_field="do"):
    """Stop the deliveries of all queues of an address."""

    address: str

    def command(self) -> Command:
        """Return the command for this request."""
        return PauseAddress(self.address)


class AddressResumption(msgspec.Struct, frozen=True, tag="resume-address", tag_field="do"):
    """Resume the deliveries of the queues of an address."""

    address: str

    def command(self) -> Command:
        """Return the command for this request."""
        return ResumeAddress(self.address)


class SettingsChange(msgspec.Struct, frozen=True, tag="set-settings", tag_field="do"):
    """Set keys of a match; the values are texts, as on a command line."""

    match: str
    values: dict[str, str]

    def command(self) -> Command:
        """Return the command for this request; the engine refuses wrong values."""
        values: dict[str, Any] = {key: from_text(key, text) for key, text in self.values.items()}
        return SetSettings(self.match, values)


class SettingsRemoval(msgspec.Struct, frozen=True, tag="remove-settings", tag_field="do"):
    """Remove keys of a match that were set at run time, without keys all of them."""

    match: str
    keys: tuple[str, ...] = ()

    def command(self) -> Command:
        """Return the command for this request."""
        return RemoveSettings(self.match, self.keys)


class MessagesAction(msgspec.Struct, frozen=True, tag="act-on-messages", tag_field="do"):
    """Do something with messages of a queue: all of them, those that a filter chooses, or one."""

    queue: str
    action: str
    filter: str = ""
    message: Annotated[int, msgspec.Meta(ge=0)] = 0
    target: str = ""
    priority: int = -1

    def command(self, through: int, actor: Actor | None = None) -> ActOnMessages:
        """Return the command for the messages that came up to an LSN."""
        return ActOnMessages(
            self.queue, self.action, self.filter, self.message, self.target, self.priority, through,
            actor=actor,
        )  # fmt: skip


Changing = (
    SettingsChange
    | SettingsRemoval
    | QueueUpdate
    | AddressUpdate
    | AddressPause
    | AddressResumption
)
"""Requests that are carried out at once."""
