"""Reading the configuration of another broker, whichever it is. Must never act on it."""

from pathlib import Path

from daybook.server.config_keys.config_source import Source
from daybook.server.foreign.broker_xml import read_broker_xml
from daybook.server.foreign.findings import Findings
from daybook.server.foreign.rabbitmq import is_definitions, read_definitions
from daybook.server.foreign.router.grammar import is_router_file
from daybook.server.foreign.router.router_conf import read_router_conf
from daybook.server.foreign.xml_source import is_xml


def read_foreign(path: Path, problems: list[str], findings: Findings) -> Source | None:
    """Read a broker.xml, an apollo.xml, a qdrouterd.conf or definitions of RabbitMQ; None for any
    other file.

    Faults are added to `problems`, settings that are not taken over to `findings`.
    """
    if is_xml(path):
        source = read_broker_xml(path, problems, findings)
        source.is_artemis = True
        return source
    if is_router_file(path):
        return read_router_conf(path, problems, findings)
    return read_definitions(path, problems, findings) if is_definitions(path) else None
