"""Deciding that a message came before: duplicates are detected by the ids that senders set.

An address remembers the last ids of the messages that were routed in it (`engine.queues.id_cache`).
A message with one of these ids is not routed again, and its sender sees success; a transaction with
one is refused. Every id of a committed transaction is remembered, even if no queue took its
message: the commit must not be repeated. Messages that the broker creates itself (dead letters,
expiry) are neither checked nor remembered. Must never know how a protocol spells an id.
"""

from typing import Final

from daybook.engine.commands import ClearDuplicateIds
from daybook.engine.core.core import Core
from daybook.engine.facts import details, events, reasons
from daybook.engine.queues.id_cache import IdCache, key_of
from daybook.engine.queues.queue import Address
from daybook.engine.refusals import Code, Refusal

NOTICE_MICROSECONDS: Final = 60_000_000
"""How long duplicates at an address are not reported again after a report."""
ID_SHOWN_MAX: Final = 100


def is_known(address: Address, key: bytes) -> bool:
    """Whether an address remembers the key of an id."""
    ids, volatile = address.ids, address.volatile_ids
    if ids is not None and ids.has(key):
        return True
    return volatile is not None and volatile.has(key)


def remembered(address: Address) -> int:
    """How many ids an address remembers."""
    count = address.ids.count if address.ids is not None else 0
    return count + (address.volatile_ids.count if address.volatile_ids is not None else 0)


def remember(core: Core, address: Address, duplicate_id: str, decided: int) -> int:
    """Remember the id of a message; return the last LSN.

    `decided` is its Routed, or its Dropped in a transaction. Without `persist_id_cache` the id is
    remembered in memory only.
    """
    size = core.state.settings.resolve(address.name).id_cache_size
    if not size:
        return decided
    if not core.options.persist_id_cache:
        if address.volatile_ids is None:
            address.volatile_ids = IdCache()
        address.volatile_ids.add(key_of(duplicate_id), size)
        return decided
    return core.emit(
        events.row(
            events.DUPLICATE_ID_RECORDED, address=address.id, related=decided, time=core.now
        ),
        events.encode_detail(details.DuplicateIdDetail(duplicate_id=duplicate_id)),
    )


def note(core: Core, address: Address, duplicate_id: str) -> None:
    """Count a duplicate that was dropped, and report it, but not each one."""
    address.duplicates += 1
    if core.now >= address.next_notice:
        address.next_notice = core.now + NOTICE_MICROSECONDS
        core.notices.append(
            f"address '{address.name}' dropped a message that it had before, with the duplicate id "
            f"{_shown(duplicate_id)}; it is duplicate number {address.duplicates} since the start"
        )


def refuse(name: str, duplicate_id: str, transaction: str) -> Refusal:
    """Refuse a transaction because its address had one of its messages before."""
    return Refusal(
        Code.DUPLICATE,
        f"transaction '{transaction}' is a duplicate: address '{name}' had a message with the "
        f"duplicate id {_shown(duplicate_id)} before; nothing of this transaction was kept",
    )


def refuse_twice(name: str, duplicate_id: str, transaction: str) -> Refusal:
    """Refuse a transaction because two of its messages to an address have one id.

    Not as a duplicate: a client that gets DUPLICATE assumes that the transaction was committed.
    """
    return Refusal(
        Code.INVALID,
        f"transaction '{transaction}' has two messages with the duplicate id "
        f"{_shown(duplicate_id)} to address '{name}'; each must have an id of its own, or none",
    )


def _shown(duplicate_id: str) -> str:
    cut = duplicate_id[:ID_SHOWN_MAX]
    return repr(cut) if cut == duplicate_id else f"{cut!r} (cut)"


def clear(core: Core, command: ClearDuplicateIds) -> int | Refusal:
    """Make an address forget all ids, at the request of an administrator."""
    address = core.state.address_by_name.get(command.address)
    if address is None:
        return Refusal(Code.NOT_FOUND, f"there is no address '{command.address}'")
    address.volatile_ids = None
    return core.emit(
        events.row(
            events.DUPLICATE_IDS_CLEARED,
            reason=reasons.ADMINISTRATION, address=address.id, time=core.now,
        )
    )  # fmt: skip


def resize(core: Core) -> None:
    """Forget the ids in memory only for which new settings leave no room."""
    for address in core.state.addresses.values():
        if address.volatile_ids is not None:
            size = core.state.settings.resolve(address.name).id_cache_size
            address.volatile_ids.resize(size)
