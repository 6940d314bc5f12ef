"""The rows of the table of administration (`server.administration.admin_requests`).

A row is the struct that is read from a request's JSON. A row is the single source of a request: its
fields with their spelling on the command line (`Argument`, `Option`), the permission that it needs
and where, its implementation (a command of the engine, or a view of the state), and the commands of
`daybook` that send it, with their output (`Way`). Must never know how a request is transported, nor
which requests there are.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Protocol, TypeAlias

import msgspec

from daybook.engine.commands import Command
from daybook.engine.core.queue_names import meant
from daybook.engine.facts.definitions import Attribute
from daybook.engine.limits.budget import Budget
from daybook.engine.limits.pools import PatternCharges
from daybook.engine.messages.message import Message
from daybook.engine.queues.queue import Address, Queue
from daybook.engine.refusals import Refusal
from daybook.engine.settings.permissions import BROWSE, MANAGE, Actor, Permissions
from daybook.engine.state.state import State
from daybook.engine.state.wildcards import Wildcards
from daybook.protocols.port import MessagingSession
from daybook.server.administration import views
from daybook.server.administration.connections import nobody
from daybook.server.administration.premises import NoPremises, Premises
from daybook.server.process.ordered_lists import KeptOrders
from daybook.server.process.seen import KeptSights, Seen
from daybook.server.process.slices import Slices

Answer: TypeAlias = dict[str, Any]
Fields: TypeAlias = Mapping[str, Any]
"""The fields of a request, by name."""


class Argument(msgspec.Struct, frozen=True):
    """Marks a field that commands take as an argument. An int lies from `least` to `most`; for a
    dict there are arguments KEY=VALUE, one at least."""

    metavar: str = "NAME"
    least: int = 0
    most: int | None = None


class Option(msgspec.Struct, frozen=True):
    """Marks a field that commands take as an option."""

    flag: str
    doc: str
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    is_required: bool = False


class Attributes(msgspec.Struct, frozen=True):
    """Marks a field that commands make from an option for each of `attributes`.

    It is a `definition`, with `more` of its fields; or without one, a dict of the attributes that
    are given, one at least.
    """

    attributes: Sequence[Attribute]
    definition: type[msgspec.Struct] | None = None
    more: dict[str, Argument | Option] = {}


class Table(msgspec.Struct, frozen=True):
    """An answer that is a list, perhaps in pages: its key, and the columns that people see.

    A narrow terminal may omit those in `more`. `named_by` is the column with a full name, which
    says on which virtual host a row is; `host` itself is one, too. `shape` makes a row readable.
    """

    key: str
    columns: tuple[str, ...]
    more: tuple[str, ...] = ()
    named_by: str = ""
    shape: Callable[[Answer], Answer] | None = None


def no_words(answer: Answer) -> tuple[str, ...]:
    """Return that the fields of a request say everything."""
    return ()


class Way(msgspec.Struct, frozen=True):
    """A command of `daybook` that sends a request.

    `done` is the sentence that it prints about a change, with fields in braces, and with what is in
    `COUNTED`; `doc` is its help, else that of the row. `fixed` are fields that the command itself
    says, `fields` those that it takes, if these are not all that are marked. At least one of those
    in `one_of` is given, else `missing` is the error; those in `either` exclude each other.
    `nothing` is the error if no connection was closed, `begun` the sentence about a change that
    goes on after the answer. `written` says why the command is a function of its own; it is empty
    for all commands that are made from this. `words` are further ones of the command for an answer
    of a broker on this machine.
    """

    command: str
    done: str | Callable[[Fields], str] = ""
    doc: str = ""
    table: Table | None = None
    fixed: dict[str, Any] = {}
    fields: tuple[str, ...] | None = None
    one_of: tuple[str, ...] = ()
    missing: str = ""
    either: tuple[str, ...] = ()
    nothing: str = ""
    begun: str = ""
    written: str = ""
    words: Callable[[Answer], tuple[str, ...]] = no_words


COUNTED: Final = {
    "removed": ": it was empty",
    "released": ": none were held",
    "made_ready": ": none were scheduled",
}
"""The fields of answers for the number of changed messages, and the text printed for 0."""

Offset = Annotated[int, msgspec.Meta(ge=0)]
QueueName = Annotated[str, Argument()]
AddressName = Annotated[str, Argument()]
Force = Annotated[bool, Option("--force", "Delete it together with its contents.")]
IfMissing = Annotated[bool, Option("--if-missing", "Succeed if the same exists already.")]


def no_retries() -> list[Answer]:
    """Return no rows: no broker runs."""
    return []


def _known(address: str) -> Refusal | None:
    """Accept the virtual host of an address: without a broker none is configured."""
    return None


class Outgoing(Protocol):
    """The connections that the broker opens, for lists."""

    def rows(self) -> list[Answer]:
        """Return a row for each connector."""
        ...

    def link_rows(self, connector: str = "") -> list[Answer]:
        """Return a row for each auto-link on each of its connections, those of a connector or of
        all."""
        ...

    def shard_rows(self, name: str) -> list[Answer] | None:
        """Return a row for each shard of a sharded queue, that of this broker first; None if it is
        none."""
        ...

    def drain(self, name: str, shard: str, count: int, by: str) -> str:
        """Begin to move so many messages of the shard here to another one, for somebody; return why
        not, "" if it began."""
        ...


class NoOutgoing:
    """There are none: no broker runs."""

    def rows(self) -> list[Answer]:
        """Return no rows."""
        return []

    def link_rows(self, connector: str = "") -> list[Answer]:
        """Return no rows."""
        return []

    def shard_rows(self, name: str) -> list[Answer] | None:
        """Know of no shards."""
        return None

    def drain(self, name: str, shard: str, count: int, by: str) -> str:
        """Move nothing."""
        return "there are no connectors"


class Judge(Protocol):
    """Says which requests somebody may send."""

    def allows(self, request: "Request") -> bool:
        """Return whether a request is allowed."""
        ...

    def allows_somewhere(self, request: "Request") -> bool:
        """Return whether requests of this kind are allowed at any place."""
        ...

    def sees(self, address: str, queue: str | None) -> bool:
        """Return whether they may browse or administer an address, or one of its queues."""
        ...

    def sight(self) -> object:
        """Return something that is equal while they may see the same, None if that is all."""
        ...

    def seen(self) -> list[str]:
        """Return the first matches over the addresses that they may browse or administer."""
        ...


class ViewSource(msgspec.Struct, frozen=True):
    """Where views come from: the state of a running broker, or one that was folded from a journal.

    Only a running broker has the other fields; `rights` are those of the user behind the
    request, None for the operator, and `now` is its time, in microseconds since 1970, 0 without a
    broker.
    """

    state: State
    permissions: Permissions | None = None
    check_host: Callable[[str], Refusal | None] = _known
    blocked: Callable[[str], int] = views.nobody
    beginning: Callable[[Message], bytes] = views.no_beginning
    session_of: Callable[[int], MessagingSession | None] = nobody
    status: Callable[[Answer], Answer] = views.without_broker
    outgoing: Outgoing = NoOutgoing()
    retries: Callable[[], list[Answer]] = no_retries
    premises: Premises = NoPremises()
    rights: "Judge | None" = None
    now: int = 0
    piece: Callable[[Message, int], bytes] = views.no_piece
    kept_orders: KeptOrders | None = None
    kept_sights: KeptSights | None = None
    wildcards: Wildcards | None = None

    @property
    def is_running(self) -> bool:
        """Whether this is about a running broker, and not a state folded from a journal."""
        return self.now > 0

    def may(self, request: "Request") -> bool:
        """Return whether the user behind the request may send another one, too."""
        return self.rights is None or self.rights.allows(request)

    def sight(self) -> object:
        """Return something that is equal while the user behind the request may see the same, None
        if that is all."""
        return self.rights.sight() if self.rights is not None else None

    def seen_queues(self) -> Seen[Queue]:
        """Return the queues that the user may see."""
        rights, sight = self.rights, self.sight()
        if rights is None or sight is None:
            return Seen(self.state.queues)
        return Seen(
            self.state.queues, lambda queue: rights.sees(queue.address.name, queue.name),
            ("queues", sight), self.kept_sights,
        )  # fmt: skip

    def seen_addresses(self) -> Seen[Address]:
        """Return the addresses that the user may see."""
        rights, sight = self.rights, self.sight()
        if rights is None or sight is None:
            return Seen(self.state.addresses)
        return Seen(
            self.state.addresses, lambda address: rights.sees(address.name, None),
            ("addresses", sight), self.kept_sights,
        )  # fmt: skip

    def wildcards_of(self, address: Address) -> tuple[Address, ...]:
        """Return the wildcard addresses whose queues get what is sent to an address."""
        if address.is_wildcard:
            return ()
        known = self.wildcards
        if known is None:
            known = Wildcards(self.state.addresses.values(), Budget(), PatternCharges())
        return known.matching(address.name)


class Request(msgspec.Struct, frozen=True, tag_field="do"):
    """A request of an administrator.

    `manage` where it applies allows it, and so do all permissions that it needs. `named` is the
    permission that a refusal names, if the one that it needs would say what exists.
    `is_about_clients` if without a broker there is nothing that it could be about.
    """

    ways: ClassVar[tuple[Way, ...]] = ()
    named: ClassVar[str] = ""
    is_about_clients: ClassVar[bool] = False

    def needed(self, state: State) -> list[str]:
        """Return the permissions that allow the request, without `manage`."""
        return [MANAGE]

    def place(self, state: State) -> tuple[str, str | None] | None:
        """Return the address, and queue, that the request is about; None for all addresses."""
        return None

    def flaw(self) -> str:
        """Return why no broker carries out what the fields say together, "" if one may."""
        return ""


class Reading(Request, frozen=True):
    """A request that only reads: who may browse all messages of its place may also count them.

    `needs_broker` if only a running broker knows the answer, because no event has it."""

    needs_broker: ClassVar[bool] = False

    def needed(self, state: State) -> list[str]:
        """Return `browse`."""
        return [BROWSE]

    def look(self, source: ViewSource) -> Slices[Answer | Refusal] | Answer | Refusal:
        """Return the answer: at once if it looks at few objects, else in slices."""
        raise NotImplementedError


class Filtered(Reading, frozen=True):
    """A request whose answer has only what the user may see, so that it is for everybody who may
    browse or administer something."""


class Change(Request, frozen=True):
    """A request that becomes a command of the engine.

    `is_idempotent` if the answer may say that it was so already, by the LSN 0.
    """

    is_idempotent: ClassVar[bool] = False

    def settled(self, state: State) -> Answer | Refusal | None:
        """Return the answer if no command is needed for it."""
        return None

    def command(self, through: int, actor: Actor | None) -> Command:
        """Return the command for this request, about what exists up to an LSN; `actor` is the
        administrator whose rights limit it, None for the operator of this machine."""
        raise NotImplementedError


class OnQueue(Request, frozen=True):
    """A request about one queue; one that does not exist is taken to be on its own address."""

    queue: QueueName

    def place(self, state: State) -> tuple[str, str | None]:
        """Return the queue, and its address."""
        address, queue = meant(state, self.queue)
        found = state.queue_by_name.get(queue)
        return (found.address.name if found is not None else address or queue), queue


class OnAddress(Request, frozen=True):
    """A request about one address."""

    address: AddressName

    def place(self, state: State) -> tuple[str, str | None]:
        """Return the address."""
        return self.address, None
