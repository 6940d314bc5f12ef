"""The configuration of Artemis, `broker.xml`, as the source of ours.

Common settings are translated by the tables of keys (`engine.settings.setting_keys`,
`engine.facts.definitions`, `server.config_keys.options`): a key of the same name works as soon as
it exists here. A setting that Daybook does not have becomes a finding with file, line and element.
Values are checked where those of other files are. Must never act on the configuration.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from daybook.engine.settings.permissions import PERMISSIONS
from daybook.engine.settings.setting_keys import BY_NAME
from daybook.engine.settings.settings import check_value
from daybook.protocols.registry import OFFERS
from daybook.server.config_keys.acceptor_options import TOLD_APART, table_of
from daybook.server.config_keys.config_source import (
    Block,
    Given,
    Source,
    literal,
    protocols_of,
    speaking,
)
from daybook.server.config_keys.options import BROKER, QUEUE_TABLE
from daybook.server.foreign import artemis_tls
from daybook.server.foreign.apollo_xml import ApolloReader
from daybook.server.foreign.artemis import (
    BASE_SETTINGS,
    CORE_ALIASES,
    EXPECTED,
    NEEDLESS,
    NEEDLESS_PARAMETERS,
    NEEDLESS_SETTINGS,
    NO_NAMES,
    ON,
    PARAMETERS,
    PERMISSION_TYPES,
    QUEUE_ALIASES,
    SETTING_ALIASES,
)
from daybook.server.foreign.artemis_logins import LOGIN, USERS, named, read_logins
from daybook.server.foreign.findings import Findings
from daybook.server.foreign.logins import note_users
from daybook.server.foreign.xml_source import Element, XmlError, read_xml

_SIZE: Final = re.compile(r"(-?\d+)\s*([KMG])(?:i?B)?", re.IGNORECASE)
_URL: Final = re.compile(r"(\w+)://(\[[^\]]+\]|[^:/?]*):(\d+)/?(?:\?(.*))?", re.DOTALL)
_CAPITAL: Final = re.compile("[A-Z]")
_BROKER_KEYS: Final = {option.name: option for option in BROKER}
_QUEUE_KEYS: Final = {option.name: option for option in QUEUE_TABLE}
_DEFAULT_MATCH: Final = "#"
ROLES_NAMED_MAX: Final = 5
_ANYCAST_PREFIX: Final = "anycastPrefix"
_MULTICAST_PREFIX: Final = "multicastPrefix"
_PREFIXES: Final = (_ANYCAST_PREFIX, _MULTICAST_PREFIX)
_SPOKEN: Final = " and ".join(OFFERS[each].name for each in TOLD_APART)


class _Reader:
    """Translates the elements of one file."""

    def __init__(self, name: str, problems: list[str], findings: Findings) -> None:
        self.source: Final = Source()
        self._name: Final = name
        self._problems: Final = problems
        self._findings: Final = findings
        self._base: Final[dict[str, Given]] = {}
        self._is_secured = True

    # ---- places and messages

    def where(self, element: Element) -> str:
        return f"{self._name}:{element.line}"

    def warn(self, element: Element, what: str) -> None:
        self._findings.lose(self.where(element), what)

    def spare(self, element: Element, what: str) -> None:
        self._findings.spare(self.where(element), what)

    def ignore(self, element: Element, inside: str = "", why: str = "") -> None:
        """Note an element that is not supported; `why` says why it is not needed, if so."""
        if why:
            self.spare(element, f"<{element.tag}>: {why}")
            return
        place = f" in {inside}" if inside else ""
        self.warn(element, f"<{element.tag}>{place} is not supported and is ignored")

    def look(self, element: Element, *attributes: str, is_list: bool = False) -> None:
        """Warn of unread attributes, elements and texts inside an element: a list has no text, and
        every other element no elements.
        """
        for key in element.attributes:
            if key not in attributes:
                self.warn(element, f"{key} of <{element.tag}> is not supported and is ignored")
        if is_list and element.value:
            self.warn(element, f"the text {element.value[:40]!r} in <{element.tag}> is ignored")
        for child in () if is_list else element.children:
            self.ignore(child, f"<{element.tag}>")

    def put(self, element: Element, block: Block, key: str, given: Given) -> None:
        """Note a value; warn if there was one already."""
        if key in block.values:
            self.warn(element, f"<{element.tag}> is there twice, and the last one counts")
        block.values[key] = given

    def given(self, element: Element, text: str, *, as_text: bool, is_size: bool = False) -> Given:
        """Return a value as a TOML file would give it."""
        text = text.strip()
        found = _SIZE.fullmatch(text) if is_size else None
        if found is not None:
            text = str(int(found[1]) << {"K": 10, "M": 20, "G": 30}[found[2].upper()])
        value = text if as_text else literal(text.lower() if _is_flag(text) else text)
        return Given(value, self.where(element))

    # ---- the file

    def read(self, root: Element) -> None:
        """Translate the whole file."""
        if root.tag != "configuration":
            self._problems.append(
                f"{self.where(root)}: <{root.tag}> is not the root of a broker.xml; it must be"
                " <configuration>"
            )
            return
        self.look(root, is_list=True)
        cores = [child for child in root.children if child.tag == "core"]
        for child in root.children:
            if child.tag != "core":
                self.ignore(child)
        if not cores:
            self._problems.append(f"{self.where(root)}: there is no <core> in <configuration>")
        for core in cores:
            self.look(core, is_list=True)
            for child in core.children:
                self.core(child)
        self.add_base(root)
        if not self._is_secured:
            self.source.arrays["security-setting"].clear()

    def core(self, element: Element) -> None:
        """Translate an element of <core>."""
        lists = {
            "acceptors": ("acceptor", self.acceptor),
            "addresses": ("address", self.address),
            "address-settings": ("address-setting", self.setting),
            "diverts": ("divert", self.divert),
            "security-settings": ("security-setting", self.security),
        }
        if element.tag in lists:
            tag, translate = lists[element.tag]
            self.look(element, is_list=True)
            for child in element.children:
                if child.tag == tag:
                    translate(child)
                else:
                    self.ignore(child, f"<{element.tag}>")
            return
        single = dict(lists.values())
        if element.tag in single:
            # Manuals leave the list around an element out.
            single[element.tag](element)
        elif element.tag == "wildcard-addresses":
            self.wildcards(element)
        elif element.tag == "literal-match-markers":
            self.look(element)
            block = self.source.sections["wildcard-addresses"]
            self.put(element, block, element.tag, Given(element.value, self.where(element)))
        elif element.tag == "security-enabled":
            self.look(element)
            self._is_secured = element.value.lower() != "false"
            if not self._is_secured:
                self.warn(
                    element,
                    "security-enabled is false: <security-settings> are not in force; users log in"
                    " all the same",
                )
        elif element.tag == "id-cache-size":
            self.look(element)
            self._base[element.tag] = self.given(element, element.text, as_text=False)
        else:
            self.broker_key(element)

    def expected(self, element: Element) -> None:
        """Note an element that should be true."""
        needless, lost = EXPECTED[element.tag]
        if element.value.lower() != ON:
            self.warn(element, lost)
        elif needless:
            self.spare(element, f"<{element.tag}>: {needless}")

    def broker_key(self, element: Element) -> None:
        if element.tag in EXPECTED:
            self.expected(element)
            return
        option = _BROKER_KEYS.get(CORE_ALIASES.get(element.tag, element.tag))
        if option is None or option.name in ("data-directory", "users-file"):
            self.ignore(element, why=NEEDLESS.get(element.tag, ""))
            return
        if element.tag == "name" and element.value in NO_NAMES:
            self.spare(element, f"<name>: {element.value!r} names no broker; it is called daybook")
            return
        self.look(element)
        is_size = option.kind.name.startswith("size")
        value = self.given(element, element.text, as_text=option.kind.text, is_size=is_size)
        self.put(element, self.source.sections["broker"], option.name, value)

    def wildcards(self, element: Element) -> None:
        block = self.source.sections["wildcard-addresses"]
        self.look(element, is_list=True)
        block.where = self.where(element)
        keys = ("enabled", "routing-enabled", "delimiter", "any-words", "single-word")
        for child in element.children:
            if child.tag in keys:
                self.look(child)
                as_text = not child.tag.endswith("enabled")
                value = self.given(child, child.text, as_text=as_text)
                self.put(child, block, child.tag, value)
            else:
                self.ignore(child, "<wildcard-addresses>")

    # ---- acceptors

    def acceptor(self, element: Element) -> None:
        self.look(element, "name")
        found = _URL.fullmatch(element.value)
        name = element.attributes.get("name", "")
        if found is None:
            self._problems.append(
                f"{self.where(element)}: acceptor {name!r} is {element.value!r}; it must be like"
                " tcp://0.0.0.0:61613?protocols=STOMP"
            )
            return
        pairs = [pair.partition("=") for pair in re.split(r"[;&]", found[4] or "") if pair]
        parameters = {key.strip(): value.strip() for key, _, value in pairs}
        block = Block(self.where(element), {})
        block.values["name"] = Given(name, block.where)
        if spoken := _spoken(parameters):
            block.values |= speaking(spoken, block.where)
        block.values["listen"] = Given(f"{found[2] or '0.0.0.0'}:{found[3]}", block.where)
        encryption = artemis_tls.Translated(parameters)
        for key, value in encryption.values.items():
            block.values[key] = Given(value, block.where)
        for lost in encryption.lost:
            self.warn(element, f"<acceptor> {name!r}: {lost}")
        why = self.why_closed(found[1], parameters) or encryption.why_closed
        for key, value in parameters.items():
            if key not in artemis_tls.PARAMETERS and not (why and key not in _PREFIXES):
                self.parameter(element, block, key, value)
        if why:
            self.warn(element, f"<acceptor> {name!r} is not opened: {why}")
            # Clients that come by another acceptor find its prefixes there.
            self.source.spare.append(block)
        else:
            self.source.arrays["acceptor"].append(block)

    def why_closed(self, scheme: str, parameters: dict[str, str]) -> str:
        """Return why an acceptor cannot be opened, empty if it can."""
        if scheme != "tcp":
            return f"{scheme}:// is not supported"
        if _spoken(parameters):
            return ""
        return (
            f"of its protocols ({parameters['protocols']}) none is supported; Daybook speaks"
            f" {_SPOKEN}"
        )

    def parameter(self, element: Element, block: Block, key: str, value: str) -> None:
        """Translate a parameter of the URL of an acceptor."""
        if key == "protocols":
            named = [each.strip() for each in value.split(",") if each.strip()]
            others = [each for each in named if each.lower() not in TOLD_APART]
            if others:
                shown = element.attributes.get("name", "")
                listed = ", ".join(others)
                self.warn(
                    element,
                    f"<acceptor> {shown!r}: clients of {listed} cannot connect; Daybook speaks"
                    f" {_SPOKEN}",
                )
            return
        if key in _PREFIXES:
            prefixes: list[str] = [each.strip() for each in value.split(",") if each.strip()]
            # Both are prefixes of STOMP from the start, with a meaning of their own.
            own = {"/queue/": _ANYCAST_PREFIX, "/topic/": _MULTICAST_PREFIX}
            is_stomp = protocols_of(block) == ("stomp",)
            of_others = ("",) if is_stomp else ("", key)
            kept = [each for each in prefixes if own.get(each, "") in of_others]
            block.values[PARAMETERS[key]] = Given(kept, block.where)
            return
        name = PARAMETERS.get(key)
        protocols = protocols_of(block)
        # Parameters begin with their protocol, if they have one.
        is_meant = not key.startswith(TOLD_APART) or key.startswith(protocols)
        known = table_of(protocols) if is_meant else ()
        if name is None or not any(option.name == name for option in known):
            if key in NEEDLESS_PARAMETERS:
                self.spare(element, f"<acceptor>: {key}: {NEEDLESS_PARAMETERS[key]}")
            else:
                what = f"the parameter {key} is not supported and is ignored"
                self.warn(element, f"<acceptor>: {what}")
            return
        if int(value) > 0 if value.lstrip("-").isdigit() else True:
            given = self.given(element, value, as_text=False, is_size=True)
            if block.values.get(name, given) != given:
                self.warn(element, f"<acceptor>: {key}: {name} was set before; this value counts")
            block.values[name] = given

    # ---- addresses and queues

    def address(self, element: Element) -> None:
        name = element.attributes.get("name", "")
        block = Block(self.where(element), {"name": Given(name, self.where(element))})
        types: list[str] = []
        self.look(element, "name", is_list=True)
        for child in element.children:
            if child.tag not in ("anycast", "multicast"):
                self.ignore(child, f"address {name!r}")
                continue
            types.append(child.tag)
            self.look(child, is_list=True)
            for queue in child.children:
                if queue.tag == "queue":
                    self.queue(queue, name, child.tag)
                else:
                    self.ignore(queue, f"address {name!r}")
        if types:
            block.values["routing-types"] = Given(types, block.where)
        self.source.arrays["address"].append(block)

    def queue(self, element: Element, address: str, routing_type: str) -> None:
        where = self.where(element)
        name = element.attributes.get("name", "")
        block = Block(where, {"name": Given(name, where), "address": Given(address, where)})
        block.values["routing-type"] = Given(routing_type, where)
        for key, text in element.attributes.items():
            if key != "name":
                self.queue_key(element, block, key, text)
        self.look(element, *element.attributes, is_list=True)
        for child in element.children:
            self.look(child, *(("string",) if child.tag == "filter" else ()))
            text = child.attributes.get("string", child.text)
            self.queue_key(child, block, child.tag, text)
        self.source.arrays["queue"].append(block)

    def queue_key(self, element: Element, block: Block, key: str, text: str) -> None:
        option = _QUEUE_KEYS.get(QUEUE_ALIASES.get(key, key))
        if option is None or option.name in block.values:
            queue = str(block.values["name"].value)
            self.warn(element, f"{key} of queue {queue!r} is not supported and is ignored")
            return
        block.values[option.name] = self.given(element, text, as_text=option.kind.text)

    # ---- address settings

    def setting(self, element: Element) -> None:
        match = element.attributes.get("match", "")
        block = Block(self.where(element), {"match": Given(match, self.where(element))})
        self.look(element, "match", is_list=True)
        for child in element.children:
            key = SETTING_ALIASES.get(child.tag, child.tag)
            row = BY_NAME.get(key)
            if row is None:
                why = NEEDLESS_SETTINGS.get(child.tag, "")
                self.ignore(child, f"address-setting {match!r}", why)
                continue
            self.look(child)
            given = self.given(child, child.text, as_text=row.type is str, is_size=row.is_size)
            self.put(child, block, key, Given(_as_spelled(key, given.value), given.where))
        self.source.settings.append(block)

    def add_base(self, root: Element) -> None:
        """Give every address the defaults of Artemis where ours differ."""
        base = {key: Given(value, self.where(root)) for key, value in BASE_SETTINGS.items()}
        base |= self._base
        for block in self.source.settings:
            if block.values["match"].value == _DEFAULT_MATCH:
                block.values = block.values | {
                    key: value for key, value in base.items() if key not in block.values
                }
                return
        match = {"match": Given(_DEFAULT_MATCH, self.where(root))}
        self.source.settings.insert(0, Block(self.where(root), match | base))

    # ---- permissions

    def security(self, element: Element) -> None:
        """Translate a rule of permissions; roles are those of `daybook user`."""
        match = element.attributes.get("match", "")
        block = Block(self.where(element), {"match": Given(match, self.where(element))})
        inside = f"security-setting {match!r}"
        for child in element.children:
            if child.tag != "permission":
                self.ignore(child, inside)
                continue
            kind = child.attributes.get("type", "")
            name = PERMISSION_TYPES.get(kind) or _CAPITAL.sub(lambda at: f"-{at[0].lower()}", kind)
            if name not in PERMISSIONS:
                self.warn(
                    child, f"the permission {kind!r} in {inside} is not supported and is ignored"
                )
                continue
            before = block.values.get(name)
            roles = list(before.value) if before and isinstance(before.value, list) else []
            given = child.attributes.get("roles", "").split(",")
            roles += [each.strip() for each in given if each.strip()]
            block.values[name] = Given(roles, self.where(child))
        self.source.arrays["security-setting"].append(block)

    def logins(self, folder: Path) -> None:
        """Look at the users beside the file: the first start takes them over."""
        found = read_logins(folder, self._findings)
        note_users(found.users, self._findings)
        self._findings.note_users(folder, len(found.users))
        if found.guest_roles is not None:
            broker = self.source.sections["broker"]
            broker.values.setdefault("allow-guest", Given(True, str(folder / LOGIN)))
            self._findings.lose(
                str(folder / LOGIN),
                "clients that give no login (GuestLoginModule) are let in from this machine only,"
                f" as guest with {named(found.guest_roles)}",
            )
        blocks = self.source.arrays["security-setting"]
        if blocks and not found.users:
            roles = {
                str(role)
                for block in blocks
                for given in block.values.values()
                for role in (given.value if isinstance(given.value, list) else ())
            }
            options = "".join(f" --role {role}" for role in sorted(roles)[:ROLES_NAMED_MAX])
            self._findings.lose(
                self._name,
                f"there are no users beside it ({USERS}); add each with"
                f" `daybook user add LOGIN{options}`",
            )

    # ---- diverts

    def divert(self, element: Element) -> None:
        where = self.where(element)
        name = element.attributes.get("name", "")
        block = Block(where, {"name": Given(name, where)})
        self.look(element, "name", is_list=True)
        for child in element.children:
            if child.tag in ("transformer", "transformer-class-name"):
                self.transformer(child, block, name)
                continue
            found = self.of_divert(child)
            if found is None:
                self.ignore(child, f"divert {name!r}")
            else:
                self.look(child, *(("string",) if child.tag == "filter" else ()))
                key, value = found
                self.put(child, block, key, Given(value, self.where(child)))
        self.source.arrays["divert"].append(block)

    def of_divert(self, child: Element) -> tuple[str, object] | None:
        """Return the key and the value of an element of a divert, None if it has no key here."""
        if child.tag == "address":
            return "address", child.value
        if child.tag == "forwarding-address":
            targets = [each.strip() for each in child.value.split(",") if each.strip()]
            return "forwarding-addresses", targets
        if child.tag == "exclusive":
            return "exclusive", self.given(child, child.text, as_text=False).value
        if child.tag == "filter":
            return "filter", child.attributes.get("string", child.value)
        if child.tag == "routing-type":
            return "routing-type", child.value.lower()
        return None

    def transformer(self, element: Element, block: Block, divert: str) -> None:
        """Translate the one transformer that Artemis comes with, which only adds properties."""
        names = [child.value for child in element.children if child.tag == "class-name"]
        if element.tag == "transformer-class-name":
            names = [element.value]
        if not names or not names[0].endswith(".AddHeadersTransformer"):
            shown = names[0] if names else "a transformer"
            self.warn(
                element, f"{shown} of divert {divert!r} is code of Java: its copies stay unchanged"
            )
            return
        self.look(element, is_list=element.tag == "transformer")
        pairs: list[str] = []
        for child in element.children:
            if child.tag == "property":
                self.look(child, "key", "value")
                given = child.attributes
                pairs.append(f"{given.get('key', '')}={given.get('value', child.value)}")
            elif child.tag != "class-name":
                self.ignore(child, f"the transformer of divert {divert!r}")
        self.put(element, block, "add-properties", Given(pairs, self.where(element)))


def _spoken(parameters: Mapping[str, str]) -> list[str]:
    """Return the protocols of an acceptor that are spoken here; all of them if it names none."""
    named = [each.strip().lower() for each in parameters.get("protocols", "").split(",")]
    return [each for each in (TOLD_APART if named == [""] else named) if each in TOLD_APART]


def _is_flag(text: str) -> bool:
    return text.lower() in ("true", "false")


def _as_spelled(key: str, value: object) -> object:
    """Return a word in upper or lower case, whichever the key has."""
    if not isinstance(value, str) or check_value(key, value) is None:
        return value
    for spelled in (value.upper(), value.lower()):
        if check_value(key, spelled) is None:
            return spelled
    return value


def read_broker_xml(path: Path, problems: list[str], findings: Findings) -> Source:
    """Read a broker.xml of Artemis with the logins beside it, or an apollo.xml.

    Faults are added to `problems`, settings that are not taken over to `findings`.
    """
    reader = _Reader(str(path), problems, findings)
    try:
        root = read_xml(path, keeps_placeholders_of=ApolloReader.ROOT)
    except XmlError as error:
        problems.append(str(error))
        return reader.source
    if root.tag == ApolloReader.ROOT:
        apollo = ApolloReader(str(path), problems, findings)
        apollo.read(root)
        return apollo.source
    reader.read(root)
    reader.logins(path.parent)
    return reader.source
