"""Sections `router`, `log`, `policy` and `vhost`, and those that nothing is made of.

Must never know how a file is read.
"""

import re
from collections.abc import Sequence
from typing import Final

from daybook.engine.facts.definitions import BALANCED
from daybook.server.foreign.router.grammar import Section
from daybook.server.foreign.router.notes import Notes, Reading
from daybook.server.foreign.router.reasons import NETWORK, UNREAD_LOST, UNREAD_NEEDLESS

_STANDALONE: Final = "standalone"
_DEFAULT: Final = "DEFAULT"
_LEVELS: Final = {
    "trace": "debug", "debug": "debug", "info": "info", "notice": "info",
    "warning": "warning", "error": "error", "critical": "error", "none": "error",
}  # fmt: skip
"""Levels of log lines there, the least important first, and here."""
_STREAMS: Final = ("stderr", "")


def read_router(section: Section, notes: Notes) -> None:
    """Translate the router: its id, and the distribution of addresses that nothing matches."""
    reading = Reading(section, notes)
    broker = notes.source.sections["broker"]
    if "id" in reading:
        broker.values["name"] = notes.given(reading.text("id"), reading.line_of("id"))
    mode = reading.text("mode", _STANDALONE)
    if mode != _STANDALONE:
        reading.lose("mode", f"mode {mode}: {NETWORK}; connect to a router by a connector")
    broker.values["default-distribution"] = notes.given(
        reading.text("defaultDistribution", BALANCED), reading.line_of("defaultDistribution")
    )
    reading.end()


def read_log(section: Section, notes: Notes) -> None:
    """Translate the level of all modules; others have no level of their own."""
    reading = Reading(section, notes)
    module, enabled = reading.text("module"), reading.text("enable")
    words = [each for each in re.split(r"[,\s]+", enabled.lower().replace("+", "")) if each]
    known = [each for each in _LEVELS if each in words]
    if len(known) < len(set(words)):
        text = f"enable is {enabled!r}; it must be of {', '.join(_LEVELS)}"
        reading.refuse("enable", text)
    elif module != _DEFAULT:
        reading.spare("module", f"module {module}: the log has one level")
    elif known:
        level = notes.given(_LEVELS[known[0]], reading.line_of("enable"))
        notes.source.sections["log"].values["level"] = level
    if (output := reading.text("outputFile")) not in _STREAMS:
        reading.lose("outputFile", f"outputFile {output}: log lines go to standard error")
    reading.end()


def read_policy(section: Section, notes: Notes) -> None:
    """Translate the limits for all connections."""
    reading = Reading(section, notes)
    broker = notes.source.sections["broker"]
    if (most := reading.number("maxConnections")) is not None:
        broker.values["max-connections"] = notes.given(most, reading.line_of("maxConnections"))
    if bytes_max := reading.number("maxMessageSize"):
        for block in notes.source.arrays["acceptor"]:
            given = notes.given(bytes_max, reading.line_of("maxMessageSize"))
            block.values["max-message-size"] = given
    if reading.flag("enableVhostPolicy"):
        text = "rights and limits of policies are not taken over; see [[security-setting]]"
        reading.lose("enableVhostPolicy", f"enableVhostPolicy: {text}")
    reading.end()


def read_vhost(section: Section, notes: Notes, *, is_in_force: bool) -> None:
    """Name a policy for a virtual host."""
    name = Reading(section, notes).text("hostname")
    if is_in_force:
        text = "its users, groups and limits are not taken over; see [[security-setting]]"
        notes.lose(section.line, f"vhost {name!r}: {text}")
    else:
        notes.spare(section.line, f"vhost {name!r}: policies are not in force")


def is_policy_in_force(sections: Sequence[Section]) -> bool:
    """Return whether policies for virtual hosts are in force."""
    return any(
        each.name == "policy" and each.attributes["enableVhostPolicy"].value is True
        for each in sections
        if "enableVhostPolicy" in each.attributes
    )


def read_other(section: Section, notes: Notes) -> None:
    """Name a section that nothing is made of."""
    if section.name in UNREAD_LOST:
        notes.lose(section.line, f"{section.name}: {UNREAD_LOST[section.name]}")
    else:
        notes.spare(section.line, f"{section.name}: {UNREAD_NEEDLESS[section.name]}")
