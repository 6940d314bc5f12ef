"""Sections `address`, `autoLink` and `linkRoute` as entries of ours.

Must never know how a file is read, nor check what the checks of a configuration find at its line.
"""

from collections.abc import Sequence
from typing import Final

from daybook.engine.facts.definitions import BALANCED, PHASE_MAX, STORED, DistributionEntry
from daybook.engine.settings.distributions import DistributionError, Distributions
from daybook.server.config_keys.config_source import Block
from daybook.server.config_keys.setting_values import DEFAULT_SETTINGS
from daybook.server.foreign.router.grammar import Section
from daybook.server.foreign.router.notes import Notes, Reading
from daybook.server.foreign.router.peers import Peers

_PHASES: Final = ("ingressPhase", "egressPhase")
_WAYPOINT: Final = (0, 1)
_NO_PHASES: Final = (0, 0)


def read_address(section: Section, notes: Notes) -> None:
    """Translate an address: prefix or pattern, distribution, priority, waypoint, fallback."""
    reading = Reading(section, notes)
    for key in ("prefix", "pattern"):
        if key in reading:
            reading.put(key, reading.text(key), key)
    priority = reading.number("priority")
    if priority is not None and priority >= 0:
        # The router takes a priority below 0 for none.
        reading.put("priority", priority, "priority")
    if reading.flag("enableFallback"):
        reading.put("enable-fallback", True, "enableFallback")
    is_waypoint = _is_waypoint(reading)
    distribution = reading.text("distribution", BALANCED)
    reading.end()
    if is_waypoint is None:
        return
    if is_waypoint:
        reading.put("waypoint", True, "waypoint")
        if distribution != BALANCED:
            text = f"distribution {distribution}: a waypoint is balanced between its queues"
            reading.lose("distribution", text)
    else:
        reading.put("distribution", distribution, "distribution")
    notes.source.arrays["address"].append(reading.block)


def _is_waypoint(reading: Reading) -> bool | None:
    """Return whether an address is a waypoint, None if its phases have no equivalent."""
    assumed = _WAYPOINT if reading.flag("waypoint") else _NO_PHASES
    phases = []
    is_right = True
    for key, default in zip(_PHASES, assumed, strict=True):
        phase = reading.number(key)
        phases.append(default if phase is None else phase)
        is_right &= _check_phase(reading, key, phases[-1])
    if not is_right:
        return None
    if tuple(phases) in (_WAYPOINT, _NO_PHASES):
        return tuple(phases) == _WAYPOINT
    reading.lose(
        next(key for key in _PHASES if key in reading),
        f"the address is not taken over: senders would send at phase {phases[0]} and receivers"
        f" receive at phase {phases[1]}; here they are 0 and 0, or 0 and 1 with waypoint",
    )
    return None


def _check_phase(reading: Reading, key: str, phase: int) -> bool:
    """Return whether there is such a phase; refuse it else."""
    is_right = 0 <= phase <= PHASE_MAX
    if not is_right:
        reading.refuse(key, f"{key} is {phase}; it must be from 0 to {PHASE_MAX}")
    return is_right


def read_auto_link(section: Section, peers: Peers, notes: Notes) -> None:
    """Translate an auto-link, whose connector must be there."""
    reading = Reading(section, notes)
    has_peer = _has_peer(reading, peers)
    reading.put("address", reading.text("address"), "address")
    reading.put("direction", reading.text("direction"), "direction")
    if external := reading.text("externalAddress"):
        reading.put("external-address", external, "externalAddress")
    phase = reading.number("phase")
    if phase is not None and _check_phase(reading, "phase", phase):
        reading.put("phase", phase, "phase")
    if reading.flag("fallback"):
        reading.put("fallback", True, "fallback")
    if reading.name:
        reading.put("name", reading.name, "name")
    reading.end()
    if has_peer:
        notes.source.arrays["auto-link"].append(reading.block)


def _has_peer(reading: Reading, peers: Peers) -> bool:
    """Say on whose connections links are; return whether there may be any."""
    connection, container = reading.text("connection"), reading.text("containerId")
    if connection and container:
        reading.refuse("containerId", "it has connection and containerId; remove one of them")
    elif container:
        reading.put("container", container, "containerId")
        return True
    elif not connection:
        text = "it has neither connection nor containerId, so nothing would use it; give one"
        reading.refuse("connection", text)
    elif connection in peers.connectors:
        reading.put("connector", peers.connectors[connection], "connection")
        return True
    elif connection in peers.without_connector:
        why = peers.without_connector[connection]
        reading.lose("connection", f"it is not taken over: {why}")
    else:
        text = f"connection is {connection!r}, and no connector or listener has this name"
        reading.refuse("connection", text)
    return False


def read_link_route(section: Section, peers: Peers, notes: Notes) -> None:
    """Translate a link route, whose connector must be there."""
    reading = Reading(section, notes)
    has_peer = _has_peer(reading, peers)
    for key, ours in (
        ("prefix", "prefix"),
        ("pattern", "pattern"),
        ("direction", "direction"),
        ("addExternalPrefix", "add-external-prefix"),
        ("delExternalPrefix", "remove-external-prefix"),
    ):
        if key in reading:
            reading.put(ours, reading.text(key), key)
    # There is one distribution of links.
    reading.text("distribution")
    reading.end()
    if has_peer:
        notes.source.arrays["link-route"].append(reading.block)


def find_stored_here(notes: Notes) -> None:
    """Note the addresses with a waypoint or a fallback to which no auto-link leads: the router
    would store nothing, and here a queue of this broker does. Dead letters are stored then, too."""
    blocks = notes.source.arrays["address"]
    table = _table_of(blocks)
    if table is None:
        return
    linked: dict[str, set[int]] = {"waypoint": set(), "enable-fallback": set()}
    for each in notes.source.arrays["auto-link"]:
        entry = id(table.find(str(each.values["address"].value)))
        linked["waypoint"].add(entry)
        if "fallback" in each.values:
            linked["enable-fallback"].add(entry)
    stored = [
        block.values[key].where
        for block, entry in zip(blocks, table.entries, strict=True)
        for key, entries in linked.items()
        if key in block.values and id(entry) not in entries
    ]
    lines = [int(where.rpartition(":")[2]) for where in stored]
    for line in lines:
        text = "no autoLink leads to a store for it; here a queue of this broker stores its"
        notes.lose(line, f"address: {text} messages")
    if lines:
        _store_dead_letters(table, lines[0], notes)


def _store_dead_letters(table: Distributions, line: int, notes: Notes) -> None:
    """Store dead letters and expired messages, unless an entry names their addresses."""
    for key in ("dead-letter-address", "expiry-address"):
        name = str(DEFAULT_SETTINGS[key])
        entry = table.find(name)
        if not (entry.prefix or entry.pattern).startswith(name):
            values = {"pattern": name, "distribution": STORED}
            given = {ours: notes.given(value, line) for ours, value in values.items()}
            notes.source.arrays["address"].append(Block(notes.where(line), given))


def _table_of(blocks: Sequence[Block]) -> Distributions | None:
    """Return a table with these entries, None if one is wrong."""
    try:
        return Distributions([_match_of(block) for block in blocks])
    except DistributionError:
        return None


def _match_of(block: Block) -> DistributionEntry:
    """Return an entry with nothing but its prefix or pattern."""
    prefix, pattern = (
        str(block.values[key].value) if key in block.values else "" for key in ("prefix", "pattern")
    )
    return DistributionEntry(prefix, pattern)
