"""What all deciding functions share: the state to read, and `emit`, the only way to change it.

Invariants: a command is refused before its first `emit`; `emit` packs an event and applies it in
one step, so the journal and the state cannot disagree; time comes with commands, as the clock gave
it.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from struct import error as StructError
from typing import Final

import msgspec

from daybook.engine.core.backlog import Backlog
from daybook.engine.core.compiled_filters import CompiledFilters
from daybook.engine.core.open_transactions import OpenTransactions
from daybook.engine.core.owners import Owners
from daybook.engine.core.parts import Direct, Rights, Room, Work
from daybook.engine.effects import Delivered, Effect
from daybook.engine.facts import details, events
from daybook.engine.facts.events import (
    ACKNOWLEDGED,
    BODY_OMITTED,
    DELIVERED,
    ROUTED,
    ROW_STRUCT,
    Row,
)
from daybook.engine.facts.pending import Pending
from daybook.engine.facts.reasons import SENT
from daybook.engine.facts.rows import BARE_STRUCT, TAKEN_STRUCT, pack_wide
from daybook.engine.filters.compiling import compile_filter
from daybook.engine.filters.naming import AddressName
from daybook.engine.limits.budget import Budget
from daybook.engine.limits.host_limits import NO_HOSTS, HostLimits
from daybook.engine.limits.pools import PatternCharges
from daybook.engine.links.routed import RoutedLinks
from daybook.engine.messages.message import UNREAD, Filter, Message
from daybook.engine.names.names import plain
from daybook.engine.queues.consumer import UNLIMITED, Bundle, Consumer
from daybook.engine.queues.entry import Entry
from daybook.engine.queues.queue import Address, Binding, Queue
from daybook.engine.settings.setting_keys import BLOCK
from daybook.engine.state.address_counts import COUNTED, count
from daybook.engine.state.apply import APPLY, enter_alone, settle, take_off
from daybook.engine.state.diverts import Diverts
from daybook.engine.state.state import State
from daybook.engine.state.wildcard_subscriptions import WildcardSubscriptions
from daybook.engine.state.wildcards import Wildcards
from daybook.levels import LEVEL_MIN

PACK: Final = ROW_STRUCT.pack
PACK_BARE: Final = BARE_STRUCT.pack
PACK_TAKEN: Final = TAKEN_STRUCT.pack
DELIVERY_COUNT_MAX: Final = 65_535
LSNS_RESERVED: Final = 16_384
"""How far after the last durable LSN an event may be whose LSN clients may learn before it is
durable (ADR 23)."""


class Options(msgspec.Struct):
    """Choices that are not part of the journaled state and may change while the broker runs.

    `compile_filter` turns the text of a filter into a `Filter`, given what finds the name of an
    address, and raises ValueError with a sentence if it cannot. `global_max_*` are the
    limits of the broker, 0 or less for none; so is `max_transactions_memory`, the limit of all open
    transactions together, and so are the limits per user. Without `persist_id_cache` the ids of
    messages are remembered in memory only. `lsns_reserved` is how many LSNs a start after a crash
    skips. `hosts` are the virtual hosts that the configuration lists, with their limits.
    `spaces_in_names` says whether a new name may have spaces. `journal_direct` is how much of the
    messages to direct addresses is journaled (`engine.direct.serving`). A message to more than
    `entered_at_once` queues enters them in slices (`engine.entries.arrivals`).
    """

    persist_delivery_count_before_delivery: bool = True
    max_transaction_bytes: int = 100 * 1024 * 1024
    max_transactions_memory: int = 0
    max_open_transactions: int = 1000
    max_connections_per_user: int = 0
    max_queues_per_user: int = 0
    max_transaction_entries: int = 1_000
    compile_filter: Callable[[str, AddressName], Filter] = compile_filter
    global_max_size: int = 0
    global_max_messages: int = 0
    disk_full_policy: str = BLOCK
    persist_id_cache: bool = True
    lsns_reserved: int = LSNS_RESERVED
    hosts: Mapping[str, HostLimits] = NO_HOSTS
    spaces_in_names: bool = True
    journal_direct: str = "decisions"
    entered_at_once: int = 256


class Core:
    """State, open batch, effects and the queues that dispatch must look at.

    `is_checked` says that what is carried out was checked before, so that no limit refuses a part.
    `level` is the feature level of the journal (ADR 79).
    """

    is_checked: bool = False
    level: int = LEVEL_MIN

    def __init__(self, state: State, next_lsn: int, options: Options) -> None:
        self.state = state
        self.options = options
        self.next_lsn = next_lsn
        self.now = 0
        self.pending = Pending(next_lsn)
        self.touched: dict[int, Queue] = {}
        self.later: dict[int, Queue] = {}
        self.backlog = Backlog()
        self.effects: list[Delivered | Effect] = []
        self._last_detail = "", b""
        # How much work may be done in this turn, and what remains (`engine.consumers.slices`).
        self.budget = Budget()
        self.filters = CompiledFilters(self.budget, options.compile_filter, self.address_name)
        self.pattern_charges = PatternCharges()
        self.wildcards = Wildcards(state.addresses.values(), self.budget, self.pattern_charges)
        self.diverts = Diverts(state.diverts, self.budget)
        # Subscriptions to several queues, and those whose credit returned since the last dispatch.
        self.bundles: dict[int, Bundle] = {}
        self.refilled: dict[int, Bundle] = {}
        # Consumers that drain, by queue (`engine.settling.drains`).
        self.draining: dict[int, dict[int, Consumer]] = {}
        self.wildcard_subscriptions = WildcardSubscriptions(self.pattern_charges)
        self.room = Room()
        self.work = Work(is_holding=bool(state.holding))
        self.rights = Rights()
        self.transactions = OpenTransactions()
        self.owners: Final = Owners()
        self.direct: Final = Direct()
        self.routed: Final = RoutedLinks()
        # Open connections by virtual host, user and client id.
        self.client_ids: Final[Counter[tuple[str, str, str]]] = Counter()
        # The limit of deliveries in flight to a connection, in bytes.
        self.unacked_max = UNLIMITED
        self.notices: list[str] = []
        # Queues whose next messages cannot be read: until when they are left alone, and why.
        self.unreadable: dict[int, tuple[int, str]] = {}

    def emit(self, row: Row, detail: bytes = b"", headers: bytes = b"", body: bytes = b"") -> int:
        """Record an event and apply it; return its LSN.

        With the flag BODY_OMITTED headers and body are applied but not recorded.
        """
        lsn = self.next_lsn
        pending = self.pending
        recorded_headers = headers
        recorded_body = body
        if row[events.FLAGS] & events.BODY_OMITTED:
            recorded_headers = recorded_body = b""
        if recorded_headers:
            pending.headers.append(recorded_headers)
        if recorded_body:
            pending.bodies.append(recorded_body)
        if detail:
            pending.details.append(detail)
        lengths = len(detail), len(recorded_headers), len(recorded_body)
        pending.heap_bytes += sum(lengths)
        try:
            pending.rows.append(PACK(*row, *lengths))
        except StructError:
            pending.rows.append(pack_wide(row, *lengths))
        self.next_lsn = lsn + 1
        kind = row[events.KIND]
        APPLY[kind](self.state, lsn, row, detail, headers, body)
        if kind in COUNTED:
            count(self.state, row, detail)
        return lsn

    def emit_decision(
        self, packed: bytes, detail: bytes = b"", headers: bytes = b"", body: bytes = b""
    ) -> None:
        """Record a packed event about a message to a direct address, which changes no state."""
        self.next_lsn += 1
        pending = self.pending
        pending.decisions += 1
        pending.rows.append(packed)
        if detail:
            pending.details.append(detail)
            pending.heap_bytes += len(detail)
        if headers:
            pending.headers.append(headers)
            pending.heap_bytes += len(headers)
        if body:
            pending.bodies.append(body)
            pending.heap_bytes += len(body)

    def emit_of_entry(
        self,
        queue: Queue,
        entry: Entry,
        kind: int,
        reason: int,
        *,
        detail: bytes = b"",
        related: int = 0,
    ) -> int:
        """Emit an event about an entry that is not in flight, and touch its queue.

        Return its LSN.
        """
        message = entry.message
        lsn = self.emit(
            events.row(
                kind,
                reason=reason, delivery_count=entry.delivery_count, address=queue.address.id,
                queue=queue.id, priority=message.priority, flags=message.flags, message=message.id,
                related=related, time=self.now,
            ),
            detail,
        )  # fmt: skip
        self.touch(queue)
        return lsn

    def emit_routed(
        self,
        queue: Queue,
        priority: int,
        flags: int,
        connection: int,
        headers: bytes,
        body: bytes,
        transaction: str | None,
        came_from: str = "",
    ) -> int:
        """Emit the Routed of a message to one queue, with no detail but a transaction, or where it
        came from.

        The same as `emit`, written out because it runs for every message.
        """
        lsn = self.next_lsn
        self.next_lsn = lsn + 1
        address_id = queue.address.id
        headers_bytes = body_bytes = detail_bytes = 0
        pending = self.pending
        if transaction is not None or came_from:
            if transaction is None:
                detail = events.encode_detail(details.RoutedDetail(came_from=came_from))
            else:
                detail = self._transaction_detail(transaction)
            detail_bytes = len(detail)
            if detail:
                pending.details.append(detail)
                pending.heap_bytes += detail_bytes
        if not flags & BODY_OMITTED:
            headers_bytes = len(headers)
            body_bytes = len(body)
            if headers_bytes:
                pending.headers.append(headers)
            if body_bytes:
                pending.bodies.append(body)
            pending.heap_bytes += headers_bytes + body_bytes
        try:
            pending.rows.append(
                PACK(
                    ROUTED, SENT, 0, address_id, queue.id, priority, flags,
                    lsn, 0, connection, 0, self.now, detail_bytes, headers_bytes, body_bytes,
                )
            )  # fmt: skip
        except StructError:
            row = (
                ROUTED, SENT, 0, address_id, queue.id, priority, flags,
                lsn, 0, connection, 0, self.now,
            )  # fmt: skip
            pending.rows.append(pack_wide(row, detail_bytes, headers_bytes, body_bytes))
        message = Message(lsn, address_id, priority, flags, 0, headers, body)
        enter_alone(self.state, lsn, queue, message)
        return lsn

    def _transaction_detail(self, transaction: str) -> bytes:
        """Return the detail of a Routed that has only a transaction; the last one is cached."""
        name, detail = self._last_detail
        if name != transaction:
            detail = events.encode_detail(details.RoutedDetail(transaction=transaction))
            self._last_detail = transaction, detail
        return detail

    def emit_delivered(self, entry: Entry, consumer: Consumer, delivery_count: int) -> int:
        """Emit the Delivered of an entry.

        The same as `emit`, written out because it runs for every message.
        """
        message = entry.message
        queue = consumer.queue
        lsn = self.next_lsn
        self.next_lsn = lsn + 1
        try:
            head = consumer.delivered_head.pack(
                0, delivery_count, queue.address.id, queue.id, message.priority, message.flags
            )
            self.pending.rows.append(PACK_TAKEN(head, message.id, consumer.packed, self.now))
        except StructError:
            row = (
                DELIVERED, 0, delivery_count, queue.address.id, queue.id, message.priority,
                message.flags, message.id, consumer.id, consumer.connection_id, 0, self.now,
            )  # fmt: skip
            self.pending.rows.append(pack_wide(row, 0, 0, 0))
        take_off(lsn, queue, entry, consumer, delivery_count, self.now)
        return lsn

    def emit_acknowledged(self, entry: Entry, consumer: Consumer, reason: int) -> int:
        """Emit the Acknowledged of an entry in flight, as `emit_delivered` does."""
        message = entry.message
        queue = consumer.queue
        lsn = self.next_lsn
        self.next_lsn = lsn + 1
        try:
            head = consumer.acknowledged_head.pack(
                reason, entry.delivery_count, queue.address.id, queue.id, message.priority,
                message.flags,
            )  # fmt: skip
            self.pending.rows.append(PACK_TAKEN(head, message.id, consumer.packed, self.now))
        except StructError:
            row = (
                ACKNOWLEDGED, reason, entry.delivery_count, queue.address.id, queue.id,
                message.priority, message.flags, message.id, consumer.id,
                consumer.connection_id, 0, self.now,
            )  # fmt: skip
            self.pending.rows.append(pack_wide(row, 0, 0, 0))
        settle(lsn, queue, entry)
        return lsn

    def fill(self, message: Message) -> None:
        """Fetch headers and body of a message whose content is not resident."""
        assert self.state.store is not None
        self.state.store.fill([message])

    def origin_of(self, message: Message) -> details.Origin | None:
        """Return where a message was before, None if it is not a copy. Raises StoreError."""
        if message.origin is UNREAD:
            assert self.state.store is not None
            message.origin = self.state.store.origin(message)
        return message.origin

    def touch(self, queue: Queue) -> None:
        """Make the next dispatch look at a queue."""
        self.touched[queue.id] = queue

    def resize(self, address: Address) -> None:
        """Make the next dispatch look at the size of an address."""
        self.room.resized[address.id] = address

    def accepts(
        self, binding: Binding, message: Message, asked: dict[str, bool] | None = None
    ) -> bool:
        """Whether a message may enter the queue of a binding, by its filter if it has one.

        `asked` has what filters say about the message, by their texts, and gets what is asked here.
        """
        if binding.takes_all:
            return True
        if binding.is_shut or (binding.served_only and not binding.queue.consumers):
            return False
        text = binding.filter
        if not text:
            return True
        if asked is not None:
            known = asked.get(text)
            if known is not None:
                return known
        matcher = binding.shared.matcher
        if matcher is None:
            matcher = binding.shared.matcher = self.filters.now(text)
        passes = self.passes(matcher, message)
        if asked is not None:
            asked[text] = passes
        return passes

    def passes(self, matcher: Filter, message: Message) -> bool:
        """Whether a message passes a filter; what asking costs is counted."""
        self.budget.step(matcher.work(message))
        return matcher.matches(message)

    def address_name(self, number: int) -> str | None:
        """Return the name of an address on its host by its id, None if it does not exist."""
        address = self.state.addresses.get(number)
        return plain(address.name) if address is not None else None

    def skip(self, count: int) -> None:
        """Skip LSNs: clients may have learned them before a crash lost them."""
        packed = PACK_BARE(*events.row(events.SKIPPED, time=self.now))
        self.pending.rows.extend([packed] * count)
        self.next_lsn += count

    def early_gate(self, message: Message) -> int:
        """Return what must be durable before clients learn the id of a non-persistent message.

        That is not its own event, but an earlier one, near enough that a start after a crash skips
        its id.
        """
        reserved = self.options.lsns_reserved
        return message.id - reserved if message.id > reserved else 0
