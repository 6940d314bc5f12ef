"""The configuration of a router, Apache Qpid Dispatch or skupper-router, as the source of ours.

A contradiction is refused with its line, also where the router only writes a log line. What only a
network of routers has, or has no equivalent here, is a finding. Values are checked where those of
other files are. Must never act on the configuration.
"""

from pathlib import Path

from daybook.server.config_keys.config_source import Source
from daybook.server.foreign.findings import Findings
from daybook.server.foreign.router.addresses import (
    find_stored_here,
    read_address,
    read_auto_link,
    read_link_route,
)
from daybook.server.foreign.router.general import (
    is_policy_in_force,
    read_log,
    read_other,
    read_policy,
    read_router,
    read_vhost,
)
from daybook.server.foreign.router.grammar import RouterFileError, Section, read_sections
from daybook.server.foreign.router.notes import Notes
from daybook.server.foreign.router.peers import Peers
from daybook.server.foreign.router.profiles import Profiles
from daybook.server.foreign.router.schema import UNREAD, checked


def read_router_conf(path: Path, problems: list[str], findings: Findings) -> Source:
    """Read a file; faults are added to `problems`, and what is not taken over to `findings`."""
    notes = Notes(str(path), problems, findings)
    try:
        sections = checked(read_sections(path), notes.refuse)
    except RouterFileError as error:
        problems.append(str(error))
        return notes.source
    _Sections(sections, notes).read()
    return notes.source


class _Sections:
    """The sections of a file, which are right one by one."""

    def __init__(self, sections: list[Section], notes: Notes) -> None:
        self._sections = sections
        self._notes = notes

    def of(self, name: str) -> list[Section]:
        """Return the sections of a name, in the order of the file."""
        return [each for each in self._sections if each.name == name]

    def read(self) -> None:
        """Translate all sections; those that others name come first."""
        notes = self._notes
        for section in self.of("router") or [Section("router", 1)]:
            read_router(section, notes)
        profiles = Profiles(self.of("sslProfile"), notes)
        peers = Peers(profiles, notes)
        for section in self.of("listener"):
            peers.read_listener(section)
        for section in self.of("connector"):
            peers.read_connector(section)
        peers.end()
        profiles.end()
        for section in self.of("address"):
            read_address(section, notes)
        for section in self.of("autoLink"):
            read_auto_link(section, peers, notes)
        find_stored_here(notes)
        for section in self.of("linkRoute"):
            read_link_route(section, peers, notes)
        for section in self.of("log"):
            read_log(section, notes)
        for section in self.of("policy"):
            read_policy(section, notes)
        is_in_force = is_policy_in_force(self._sections)
        for section in self.of("vhost"):
            read_vhost(section, notes, is_in_force=is_in_force)
        for section in self._sections:
            if section.name in UNREAD:
                read_other(section, notes)
        notes.end()
