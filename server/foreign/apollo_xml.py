"""The configuration of Apollo, `apollo.xml`, as the source of ours: connectors and their `<stomp>`.

Connectors become acceptors, with Apollo's spelling of names. Elements that Daybook does not have,
or keeps elsewhere (stores, logins, rules of access), become a warning with file, line and element,
never silence. Values are checked where those of other files are. Must never act on the
configuration.
"""

import re
from typing import Final

from daybook.engine.names.names import HOST, wrong_with_host
from daybook.server.config_keys.acceptor_options import TABLES
from daybook.server.config_keys.config_source import Block, Given, Source, literal
from daybook.server.foreign.findings import Findings
from daybook.server.foreign.xml_source import Element

_BIND: Final = re.compile(r"(\w+)://(\[[^\]]+\]|[^:/?]*):(\d+)/?(?:\?(.*))?", re.DOTALL)
_SIZE: Final = re.compile(r"(\d+)\s*([KMG])B?", re.IGNORECASE)
_SHIFTS: Final = {"K": 10, "M": 20, "G": 30}
_SCHEMES: Final = ("tcp", "ws")
"""WebSocket is spoken at the port of every acceptor."""
_ENCRYPTED: Final = ("tls", "ssl", "wss")
_PROTOCOLS: Final = ("", "any", "stomp")
_TEXTS: Final = (
    "queue_prefix", "topic_prefix", "path_separator", "destination_separator",
    "any_child_wildcard", "any_descendant_wildcard", "regex_wildcard_start", "regex_wildcard_end",
    "add_user_header", "add_timestamp_header", "add_redeliveries_header",
)  # fmt: skip
_NUMBERS: Final = (
    "buffer_size",
    "max_header_length",
    "max_headers",
    "max_data_length",
    "die_delay",
)
_DEFAULTS: Final = {"percent-encoding": True, "buffer-size": "auto"}
"""The defaults of Apollo."""
_ANY_KIND: Final = "*"
_KINDS: Final = {"*": "*", "user": "user", "group": "role", "role": "role"}


class ApolloReader:
    """Translates the elements of one file, whose root is `ROOT`."""

    ROOT: Final = "broker"

    def __init__(self, name: str, problems: list[str], findings: Findings) -> None:
        self.source: Final = Source()
        self._name: Final = name
        self._problems: Final = problems
        self._findings: Final = findings

    def _where(self, element: Element) -> str:
        return f"{self._name}:{element.line}"

    def _warn(self, element: Element, what: str) -> None:
        self._findings.lose(self._where(element), what)

    def _ignore(self, element: Element, inside: str) -> None:
        self._warn(element, f"<{element.tag}> in {inside} is not converted")

    def _ignore_attributes(self, element: Element, inside: str, *known: str) -> None:
        for key in element.attributes:
            if key not in known:
                self._warn(element, f"{key} of {inside} is not converted")

    def read(self, root: Element) -> None:
        """Translate the whole file."""
        self._ignore_attributes(root, "<broker>")
        hosts = [child for child in root.children if child.tag == "virtual_host"]
        for number, host in enumerate(hosts):
            self._virtual_host(host, host.attributes.get("id", "") if number else HOST)
        for child in root.children:
            if child.tag == "connector":
                self._connector(child)
            elif child.tag not in ("virtual_host", "notes"):
                self._ignore(child, "<broker>")
        if not self.source.arrays["acceptor"]:
            self._warn(root, "no <connector> could be converted; clients need an [[acceptor]]")

    def _virtual_host(self, element: Element, name: str) -> None:
        """Translate a virtual host; the first one is for clients that name none."""
        inside = f"<virtual_host> {element.attributes.get('id', '')!r}"
        wrong = wrong_with_host(name)
        if wrong is not None:
            self._warn(element, f"{inside} is not converted: its id is not a name: {wrong}")
            return
        self._ignore_attributes(element, inside, "id")
        block = Block(self._where(element), {})
        self._put(element, block, "name", name)
        names: list[str] = []
        for child in element.children:
            if child.tag == "host_name":
                names.append(child.value)
            else:
                self._ignore(child, inside)
        if names:
            self._put(element, block, "host-names", names)
        self.source.arrays["virtual-host"].append(block)

    def _connector(self, element: Element) -> None:
        given = element.attributes
        name = given.get("id", "")
        inside = f"<connector> {name!r}"
        self._ignore_attributes(
            element, inside, "id", "bind", "enabled", "protocol", "connection_limit"
        )
        found = _BIND.fullmatch(given.get("bind", "").strip())
        if found is None:
            self._problems.append(
                f"{self._where(element)}: bind of {inside} is {given.get('bind', '')!r}; it must be"
                " like tcp://0.0.0.0:61613"
            )
            return
        block = Block(self._where(element), {})
        self._put(element, block, "name", name)
        self._put(element, block, "listen", f"{found[2] or '0.0.0.0'}:{found[3]}")
        if found[4]:
            self._warn(element, f"?{found[4]} in bind of {inside} is not converted")
        if "connection_limit" in given:
            self._put(element, block, "max-connections", literal(given["connection_limit"]))
        if found[1].lower() in _SCHEMES:
            # The broker warns of it at its start.
            self._put(element, block, "allow-cleartext", True)
        for key, value in _DEFAULTS.items():
            self._put(element, block, key, value)
        for child in element.children:
            if child.tag == "stomp":
                self._stomp(child, block)
            else:
                self._ignore(child, inside)
        self._add(element, block, found[1].lower())

    def _add(self, element: Element, block: Block, scheme: str) -> None:
        """Open the acceptor of a connector, or say why it is not."""
        given = element.attributes
        why = ""
        if given.get("enabled", "true").strip().lower() == "false":
            why = "it is not enabled"
        elif given.get("protocol", "").strip().lower() not in _PROTOCOLS:
            why = f"protocol is {given['protocol']}, and there is STOMP"
        elif scheme in _ENCRYPTED:
            why = (
                f"{scheme}:// needs a certificate in PEM format (certificate and key of an"
                " [[acceptor]] with tls = true), and Apollo has a <key_storage> of Java"
            )
        elif scheme not in _SCHEMES:
            why = f"{scheme}:// is not supported"
        if why:
            name = given.get("id", "")
            self._warn(element, f"<connector> {name!r} is not opened: {why}")
        else:
            self.source.arrays["acceptor"].append(block)

    def _put(self, element: Element, block: Block, key: str, value: object) -> None:
        block.values[key] = Given(value, self._where(element))

    # ---- <stomp>

    def _stomp(self, element: Element, block: Block) -> None:
        known = {option.name for option in TABLES["stomp"]}
        for key, text in element.attributes.items():
            name = key.replace("_", "-")
            if key in _TEXTS and name in known:
                self._put(element, block, name, text)
            elif key in _NUMBERS and name in known:
                self._put(element, block, name, _number(text))
            else:
                self._warn(element, f"{key} of <stomp> is not converted")
        added: list[str] = []
        for child in element.children:
            if child.tag == "add_user_header":
                added += self._added_header(child)
            else:
                self._ignore(child, "<stomp>")
        if added:
            self._put(element, block, "add-user-headers", added)

    def _added_header(self, element: Element) -> list[str]:
        """Return a header with principals of the sender as an acceptor has it; none without one."""
        self._ignore_attributes(element, "<add_user_header>", "kind", "separator")
        kind = element.attributes.get("kind", _ANY_KIND).strip()
        # Apollo has the names of classes of Java, too: org.example.GroupPrincipal.
        plain = kind.rpartition(".")[2].lower().removesuffix("principal") or kind
        if plain not in _KINDS:
            self._warn(element, f"<add_user_header> of kind {kind!r} is not converted")
            return []
        text = f"{element.value};kind={_KINDS[plain]}"
        separator = element.attributes.get("separator")
        return [text if separator is None else f"{text};separator={separator}"]


def _number(text: str) -> object:
    """Return a number or a size, with the letters that Apollo has, as a TOML file would give it."""
    found = _SIZE.fullmatch(text.strip())
    return int(found[1]) << _SHIFTS[found[2].upper()] if found else literal(text.strip())
