"""Deciding what happens when an address, the broker or the disk is full (ADR 10).

`check` says whether a send must be refused (BLOCK, FAIL), `enter` whether it must be dropped;
`enter` also begins to page when a message meets a full address. `review`, once a turn, begins and
ends paging by the sizes at the end of the turn. Must never know what leaves memory when an address
pages.
"""

from collections.abc import Collection
from typing import Final, NamedTuple, TypeAlias

from daybook.engine.core import hosts, permission_checks
from daybook.engine.core.core import Core
from daybook.engine.facts import details, events, reasons
from daybook.engine.limits.waiting_senders import Sender
from daybook.engine.queues.queue import Address
from daybook.engine.refusals import Code, Refusal
from daybook.engine.settings.expiry_rules import has_rules
from daybook.engine.settings.setting_keys import BLOCK, DROP, FAIL, PAGE
from daybook.engine.settings.settings import AddressSettings
from daybook.engine.state.sizes import size_of

Targets: TypeAlias = dict[str, Address | None]
"""The addresses whose queues messages may enter, by name; None where one does not exist yet."""


class Full(NamedTuple):
    """Why something is full, as a reason of events, and the policy for that case."""

    reason: int
    policy: str


KEYS_OF: Final[dict[int, str]] = {
    reason: reasons.REASONS[reason][0]
    for reason in (
        reasons.MAX_SIZE_BYTES,
        reasons.MAX_SIZE_MESSAGES,
        reasons.PAGE_LIMIT_BYTES,
        reasons.PAGE_LIMIT_MESSAGES,
        reasons.GLOBAL_MAX_SIZE,
        reasons.GLOBAL_MAX_MESSAGES,
    )
}
"""The key of each limit, by the reason in the event."""


OF_BROKER: Final = frozenset((reasons.GLOBAL_MAX_SIZE, reasons.GLOBAL_MAX_MESSAGES))
"""The reasons why the whole broker is full."""
OF_BYTES: Final = frozenset(
    (reasons.MAX_SIZE_BYTES, reasons.PAGE_LIMIT_BYTES, reasons.GLOBAL_MAX_SIZE)
)
"""The reasons that are about bytes; the others are about messages."""
ELSEWHERE_FULL: Final = (
    "an address that the message would be passed on to takes nothing now; try again later"
)
"""Said to a sender that may not know the address."""


# ---- checks of a send


def has_room(core: Core, address: Address) -> bool:
    """Whether a guarded address accepts a message without further checks.

    The result of `check` and `enter` for the usual case: the address has limits, and is below them.
    """
    if core.room.is_full or address.paging or core.room.waiting.first(address.name) is not None:
        return False
    if core.room.behind and _is_blocked(core, address):
        return False
    if core.room.sizes.of_hosts and address.host in core.room.sizes.of_hosts:
        return False
    settings = core.state.settings.resolve(address.name)
    if not settings.has_max_size():
        return False
    queue = address.only_queue
    if queue is not None:
        reason = over_max(settings, queue.bytes, queue.message_count)
    else:
        reason = over_max(settings, *size_of(address))
    if reason:
        return False
    address.dropping = False
    return True


def check(core: Core, sender: Sender, targets: Targets, *, in_turn: bool = True) -> Refusal | None:
    """Return why messages to these addresses are refused now; None if they are not.

    Failed if one of them fails, else blocked as a whole. A sender refused with BLOCKED waits in
    line from then on, until a send of it is not refused. Unless `in_turn`, it does not wait behind
    others: two transactions, each with several addresses, could wait for each other.
    """
    blocked: tuple[str, str] | None = None
    for name, address in targets.items():
        full = _find_full(core, name, address)
        if full is not None and full.policy == FAIL:
            core.room.waiting.leave(sender)
            return Refusal(Code.LIMIT, _for_sender(core, sender[0], full, name, address))
        if blocked is not None:
            continue
        if full is not None and full.policy == BLOCK:
            blocked = name, _sentence(core, full, name, address)
        elif in_turn and core.room.waiting.must_wait(sender, name):
            blocked = name, f"others wait for address '{name}' before this one"
    if blocked is not None:
        if sender[0] in core.state.connections:
            core.room.waiting.stand(sender, blocked[0], core.now)
        return Refusal(Code.BLOCKED, blocked[1])
    core.room.waiting.leave(sender)
    return None


def check_piece(core: Core, sender: Sender, targets: Targets) -> Refusal | None:
    """The same for a piece of a large message, while no messages are accepted at all.

    It cannot be dropped: its message may be accepted when there is room again.
    """
    if core.room.disk_full and core.options.disk_full_policy == DROP:
        return Refusal(Code.LIMIT, core.room.disk_full)
    return check(core, sender, targets)


def enter(core: Core, address: Address) -> int:
    """Prepare for a message that was not refused; return why it must be dropped, 0 if it is not.

    If the address is full and its policy is PAGE, it begins to page.
    """
    settings = core.state.settings.resolve(address.name)
    if not address.paging and settings.address_full_policy == PAGE:
        reason = over_max(settings, *size_of(address)) if settings.has_max_size() else 0
        if reason:
            _start_paging(core, address, reason)
    full = _find_full(core, address.name, address)
    if full is not None and full.policy == DROP:
        _note_drop(core, address, full)
        return full.reason
    address.dropping = False
    _open_if_free(core, address, settings)
    return 0


def next_in_line(core: Core, name: str) -> Sender | None:
    """Return the sender that may send to an address, None if there is no room or nobody waits."""
    first = core.room.waiting.first(name)
    if first is not None:
        full = _find_full(core, name, core.state.address_by_name.get(name))
        if full is not None and full.policy == BLOCK:
            return None
    return first


def explain(core: Core, name: str) -> str:
    """Return what limit of an awaited address is reached; empty if there is room."""
    address = core.state.address_by_name.get(name)
    full = _find_full(core, name, address)
    return _sentence(core, full, name, address) if full is not None else ""


def _find_full(core: Core, name: str, address: Address | None) -> Full | None:
    """Return what is full for a message to an address; None also where the policy is to page.

    Without memory, only blocking producers helps, unless the address says otherwise.
    """
    if core.room.behind and _is_blocked(core, address):
        return Full(reasons.NO_REASON, core.room.behind_policy)
    if core.room.disk_full:
        return Full(reasons.DISK_FULL, core.options.disk_full_policy)
    if core.room.sizes.of_hosts and hosts.is_full(core, name):
        return Full(reasons.HOST_MAX_SIZE, FAIL)
    settings = core.state.settings.resolve(name)
    policy = settings.address_full_policy
    if core.room.memory_full:
        return Full(reasons.GLOBAL_MAX_SIZE, BLOCK if policy == PAGE else policy)
    if settings.has_max_size() or settings.has_page_limit():
        size, messages = size_of(address) if address is not None else (0, 0)
        full = full_by_itself(settings, address, size, messages)
        if full is not None:
            return full
    if policy == PAGE:
        return None
    reason = _over_global(core)
    return Full(reason, policy) if reason else None


def full_by_itself(
    settings: AddressSettings, address: Address | None, size: int, messages: int
) -> Full | None:
    """Return what is full for a message to an address of this size by its own limits; None also
    where the policy is to page."""
    reason = over_max(settings, size, messages)
    policy = settings.address_full_policy
    pages = (address is not None and address.paging) or (reason and policy == PAGE)
    if address is not None and pages and settings.has_page_limit():
        over_limit = _over_page_limit(settings, size, _longest(address))
        if over_limit:
            return Full(over_limit, settings.page_full_policy)
    return Full(reason, policy) if reason and policy != PAGE else None


def measure(core: Core, name: str, address: Address | None, reason: int) -> tuple[int, int]:
    """Return how much there is where something is full for an address, and the limit."""
    if reason == reasons.GLOBAL_MAX_SIZE:
        return core.room.sizes.bytes, core.options.global_max_size
    if reason == reasons.GLOBAL_MAX_MESSAGES:
        return core.room.sizes.messages, core.options.global_max_messages
    size, messages = size_of(address) if address is not None else (0, 0)
    if reason == reasons.PAGE_LIMIT_MESSAGES and address is not None:
        messages = _longest(address)
    settings = core.state.settings.resolve(name)
    limit = int(getattr(settings, KEYS_OF[reason].replace("-", "_")))
    return size if reason in OF_BYTES else messages, limit


def text_of_machine(core: Core, reason: int) -> str:
    """Return what the machine said if it is for that reason that messages are dropped: that disk or
    memory are full."""
    if reason == reasons.DISK_FULL:
        return core.room.disk_full
    return core.room.memory_full if reason == reasons.GLOBAL_MAX_SIZE else ""


def _longest(address: Address) -> int:
    """Return how many messages the longest queue of an address has, with those on their way."""
    return max((queue.message_count + queue.arriving for queue in address.queues()), default=0)


def over_max(settings: AddressSettings, size: int, messages: int) -> int:
    """Return which limit of an address is reached by so much, as a reason of events; 0 for none."""
    if 0 <= settings.max_size_bytes <= size:
        return reasons.MAX_SIZE_BYTES
    if 0 <= settings.max_size_messages <= messages:
        return reasons.MAX_SIZE_MESSAGES
    return 0


def _over_page_limit(settings: AddressSettings, size: int, longest: int) -> int:
    if 0 <= settings.page_limit_bytes <= size:
        return reasons.PAGE_LIMIT_BYTES
    if 0 <= settings.page_limit_messages <= longest:
        return reasons.PAGE_LIMIT_MESSAGES
    return 0


def _over_global(core: Core) -> int:
    if 0 < core.options.global_max_size <= core.room.sizes.bytes:
        return reasons.GLOBAL_MAX_SIZE
    if 0 < core.options.global_max_messages <= core.room.sizes.messages:
        return reasons.GLOBAL_MAX_MESSAGES
    return 0


def _sentence(core: Core, full: Full, name: str, address: Address | None) -> str:
    """Return a sentence for users about what is full: address, size, limit and key."""
    if full.reason == reasons.NO_REASON:
        return core.room.behind
    if full.reason == reasons.DISK_FULL:
        return core.room.disk_full
    if core.room.memory_full:
        return core.room.memory_full
    if full.reason == reasons.HOST_MAX_SIZE:
        return hosts.sentence(core, name)
    key = KEYS_OF[full.reason]
    unit = "bytes" if full.reason in OF_BYTES else "messages"
    used, limit = measure(core, name, address, full.reason)
    if full.reason not in OF_BROKER:
        return (
            f"address '{name}' is full: it holds {used} {unit}, and {key} is {limit}; "
            "try again when some were consumed"
        )
    return (
        f"the broker is full: it holds {used} {unit}, and {key} is {limit}; address '{name}' takes "
        "nothing until some were consumed"
    )


def _for_sender(core: Core, connection: int, full: Full, name: str, address: Address | None) -> str:
    """Return the sentence for the sender, which may not know where diverts pass its message on."""
    peer = core.state.connections.get(connection)
    if peer is None or permission_checks.may_know_address(core, peer.user, name):
        return _sentence(core, full, name, address)
    return ELSEWHERE_FULL


def _note_drop(core: Core, address: Address, full: Full) -> None:
    """Report the drop once, until the address accepts messages again."""
    if not address.dropping:
        address.dropping = True
        why = _sentence(core, full, address.name, address)
        core.notices.append(f"messages to address '{address.name}' are dropped: {why}")


# ---- addresses that need checks


def _open_if_free(core: Core, address: Address, settings: AddressSettings) -> None:
    """Accept messages without checks as long as nothing can be full for them, and no setting
    changes their expiry."""
    needs_checks = settings.has_page_limit() or core.room.is_full or has_rules(settings)
    if core.state.settings.keeps_history and settings.is_retroactive():
        needs_checks = True
    if settings.has_max_size() and not address.paging:
        needs_checks = True
    if core.room.sizes.of_hosts and address.host in core.room.sizes.of_hosts:
        needs_checks = True
    if core.diverts.count and core.diverts.of(address.name):
        needs_checks = True
    if core.room.behind and _is_blocked(core, address):
        needs_checks = True
    if not needs_checks and core.room.waiting.first(address.name) is None:
        address.guard(False)
        core.room.opened[address.id] = address


def _is_closed(core: Core) -> bool:
    """Whether no address accepts messages, whatever its own limits are."""
    return bool(
        core.room.disk_full
        or core.room.memory_full
        or (core.room.behind and not core.room.behind_least)
    )


def _is_blocked(core: Core, address: Address | None) -> bool:
    """Whether the lag of the index blocks senders to an address; None does not exist yet."""
    least = core.room.behind_least
    return not least or (address is not None and len(address.multicast) >= least)


def guard_all(core: Core) -> None:
    """Make every address check its limits again before it accepts a message."""
    core.room.is_full = _is_closed(core) or _over_global(core) != 0
    for address in core.room.opened.values():
        address.guard(True)
    core.room.opened.clear()


def guard(core: Core, address: Address) -> None:
    """Make an address check its limits again before it accepts a message."""
    address.guard(True)
    core.room.opened.pop(address.id, None)


# ---- paging


def review(core: Core, addresses: Collection[Address]) -> None:
    """Begin and end paging, by the sizes at the end of a turn that changed these addresses."""
    for address in addresses:
        if address.paging:
            _stop_if_low(core, address)
        elif address.guarded:
            settings = core.state.settings.resolve(address.name)
            reason = over_max(settings, *size_of(address)) if settings.has_max_size() else 0
            if reason and settings.address_full_policy == PAGE:
                _start_paging(core, address, reason)
    reason = _over_global(core)
    if reason:
        # Addresses that did not help last time cannot help now, unless they changed.
        among = addresses if core.room.is_over else core.state.addresses.values()
        _page_the_largest(core, reason, among)
        reason = _over_global(core)
    core.room.is_over = reason != 0
    was_high = core.room.was_high
    core.room.was_high = not _is_low_globally(core, 0, 0)
    if was_high and not core.room.was_high:
        _stop_what_fits(core)
    if (_is_closed(core) or reason != 0) != core.room.is_full:
        guard_all(core)


def review_all(core: Core) -> None:
    """Look at every address again: settings, options or all sizes may have changed."""
    core.room.sizes.count_all(core.state, core.options.hosts)
    core.room.is_over = False
    guard_all(core)
    review(core, list(core.state.addresses.values()))


def _page_the_largest(core: Core, reason: int, among: Collection[Address]) -> None:
    """Make addresses page, the largest first, until three quarters of the limits are left."""
    candidates = [
        (*size_of(address), -address.id)
        for address in among
        if not address.paging
        and core.state.settings.resolve(address.name).address_full_policy == PAGE
    ]
    candidates.sort(reverse=True)
    for _, messages, number in candidates:
        if messages == 0 or _is_three_quarters(core):
            return
        _start_paging(core, core.state.addresses[-number], reason)


def _is_three_quarters(core: Core) -> bool:
    options = core.options
    return _is_at_most(core.room.sizes.bytes, options.global_max_size, 3, 4) and _is_at_most(
        core.room.sizes.messages, options.global_max_messages, 3, 4
    )


def _is_at_most(value: int, limit: int, numerator: int, denominator: int) -> bool:
    """Whether a value is at most this fraction of a limit of the broker, if there is one."""
    return limit <= 0 or value * denominator <= limit * numerator


def _is_low_globally(core: Core, size: int, messages: int) -> bool:
    """Whether the broker, with this much more, is at half of its limits or less."""
    options = core.options
    return _is_at_most(core.room.sizes.bytes + size, options.global_max_size, 1, 2) and _is_at_most(
        core.room.sizes.messages + messages, options.global_max_messages, 1, 2
    )


def _is_low(settings: AddressSettings, size: int, messages: int) -> bool:
    """Whether an address is at three quarters of its own limits or less. With a limit of 0 it never
    is."""
    return _is_below(size, settings.max_size_bytes) and _is_below(
        messages, settings.max_size_messages
    )


def _is_below(value: int, limit: int) -> bool:
    return limit < 0 or (limit > 0 and 4 * value <= 3 * limit)


def _stop_what_fits(core: Core) -> None:
    """End paging of addresses that this turn did not change, the smallest first."""
    of = core.room.sizes.of_paging
    paging = [(of(each), each.id) for each in core.state.addresses.values() if each.paging]
    for _, number in sorted(paging):
        _stop_if_low(core, core.state.addresses[number])


def _stop_if_low(core: Core, address: Address) -> None:
    # Counted at the queues that a turn touched. All of them are only asked if that is low.
    counted, settings = (
        core.room.sizes.of_paging(address),
        core.state.settings.resolve(address.name),
    )
    if not (_is_low(settings, *counted) and _is_low_globally(core, *counted)):
        return
    size, messages = size_of(address)
    if _is_low(settings, size, messages) and _is_low_globally(core, size, messages):
        _emit_paging(core, events.PAGING_STOPPED, reasons.NO_REASON, address)


def _start_paging(core: Core, address: Address, reason: int) -> None:
    _emit_paging(core, events.PAGING_STARTED, reason, address)


def _emit_paging(core: Core, kind: int, reason: int, address: Address) -> None:
    size, messages = size_of(address)
    core.emit(
        events.row(kind, reason=reason, address=address.id, time=core.now),
        events.encode_detail(details.PagingDetail(bytes=size, messages=messages)),
    )
    core.room.sizes.count_address(address)
    guard(core, address)
