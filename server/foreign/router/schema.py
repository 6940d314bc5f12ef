"""The sections of the router's configuration and their attributes, as its schema has them.

A section or attribute that the router does not know, a value that it does not take, and a missing
attribute are refused, as the router refuses them: it ends its start then. Those of old releases
are known under their new names. Must never know what becomes of a section.
"""

import re
from collections.abc import Callable
from typing import Final

import msgspec

from daybook.server.config_keys.option import unknown
from daybook.server.foreign.router.grammar import Attribute, Section
from daybook.server.foreign.router.reasons import UNREAD_LOST, UNREAD_NEEDLESS

Wrong = Callable[[int, str], None]
"""Notes a fault at a line."""

_PREFIXES: Final = (
    "org.apache.qpid.dispatch.",
    "io.skupper.router.",
    "router.config.",
)
_WORDS: Final = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}")

FAULTY_MAX: Final = 100
"""Sections with faults after which no more are looked for."""

TEXT: Final = "a text"
FLAG: Final = "yes or no"
NUMBER: Final = "a whole number"
MAP: Final = "a map"


class Kind(msgspec.Struct, frozen=True):
    """The type of an attribute: one of those above, or one of `words`."""

    type: str = TEXT
    words: tuple[str, ...] = ()
    required: bool = False


def _of(names: str, kind: str = TEXT) -> dict[str, Kind]:
    return {name: Kind(kind) for name in names.split()}


def _one_of(words: str, *, required: bool = False) -> Kind:
    return Kind(words=tuple(words.split()), required=required)


_NAME: Final = _of("name")
_ROLE: Final = _one_of("normal inter-router route-container edge inter-edge on-demand")
_STRIP: Final = _one_of("in out both no")
_FAMILY: Final = _one_of("IPv4 IPv6")
_DIRECTION: Final = _one_of("in out", required=True)
_DISTRIBUTION: Final = _one_of("multicast closest balanced unavailable")

_ROUTER: Final = {
    **_of(
        "id area debugDumpFile saslConfigDir saslConfigName timestampFormat metadata vanId"
        " dataConnectionCount"
    ),
    **_of(
        "helloIntervalSeconds helloMaxAgeSeconds raIntervalSeconds raIntervalFluxSeconds"
        " remoteLsMaxAgeSeconds mobileAddrMaxAge workerThreads plogRouterId plogSiteId",
        NUMBER,
    ),
    **_of(
        "timestampsInUTC allowUnsettledMulticast allowResumableLinkRoute dropTcpConnections", FLAG
    ),
    "mode": _one_of("standalone interior edge"),
    "defaultDistribution": _DISTRIBUTION,
}
_CONNECTED: Final = {
    **_of("host port sslProfile saslMechanisms messageLoggingComponents policyVhost failoverUrls"),
    **_of("cost maxFrameSize maxSessions maxSessionFrames idleTimeoutSeconds linkCapacity", NUMBER),
    **_of("openProperties", MAP),
    "socketAddressFamily": _FAMILY,
    "role": _ROLE,
    "stripAnnotations": _STRIP,
}
_MATCH: Final = _of("prefix pattern")
_CONTAINER: Final = _of("containerId connection")

SECTIONS: Final[dict[str, dict[str, Kind]]] = {
    "router": _ROUTER,
    "listener": {
        **_CONNECTED,
        **_of("httpRootDir trustedCertsFile authServicePlugin"),
        **_of("initialHandshakeTimeoutSeconds", NUMBER),
        **_of(
            "authenticatePeer requireEncryption requireSsl healthz metrics websockets http"
            " multiTenant",
            FLAG,
        ),
    },
    "connector": {
        **_CONNECTED,
        **_of("saslUsername saslPassword"),
        **_of("allowRedirect verifyHostname", FLAG),
        **_of("dataConnectionCount"),
    },
    "sslProfile": {
        **_of(
            "ciphers protocols caCertFile certFile privateKeyFile password uidFormat"
            " uidNameMappingFile"
        ),
        **_of("version oldestValidVersion ordinal oldestValidOrdinal", NUMBER),
    },
    "address": {
        **_MATCH,
        "distribution": _DISTRIBUTION,
        **_of("priority ingressPhase egressPhase", NUMBER),
        **_of("waypoint enableFallback", FLAG),
    },
    "autoLink": {
        "address": Kind(required=True),
        "direction": _DIRECTION,
        **_CONTAINER,
        **_of("externalAddress"),
        **_of("phase", NUMBER),
        **_of("fallback", FLAG),
    },
    "linkRoute": {
        **_MATCH,
        "direction": _DIRECTION,
        **_CONTAINER,
        **_of("addExternalPrefix delExternalPrefix"),
        "distribution": _one_of("linkBalanced"),
    },
    "log": {
        "module": Kind(required=True),
        **_of("enable outputFile"),
        **_of("includeTimestamp includeSource", FLAG),
    },
    "policy": {
        **_of("policyDir defaultVhost"),
        **_of("maxConnections maxMessageSize", NUMBER),
        **_of("enableVhostPolicy enableVhostNamePatterns", FLAG),
    },
    "vhost": {
        "hostname": Kind(required=True),
        **_of("aliases"),
        **_of("maxConnections maxConnectionsPerUser maxConnectionsPerHost maxMessageSize", NUMBER),
        **_of("allowUnknownUser", FLAG),
        **_of("groups", MAP),
    },
}
"""The sections that are read, with the attributes of each; any of them may have a name."""

UNREAD: Final = (*UNREAD_LOST, *UNREAD_NEEDLESS)

_SINGLE: Final = ("router", "policy")
_OLD: Final[dict[str, dict[str, str]]] = {
    "router": {
        "routerId": "id", "helloInterval": "helloIntervalSeconds",
        "helloMaxAge": "helloMaxAgeSeconds", "raInterval": "raIntervalSeconds",
        "raIntervalFlux": "raIntervalFluxSeconds", "remoteLsMaxAge": "remoteLsMaxAgeSeconds",
        "debugDump": "debugDumpFile", "saslConfigPath": "saslConfigDir",
    },
    "listener": {
        "addr": "host", "protocolFamily": "socketAddressFamily", "httpRoot": "httpRootDir",
        "trustedCerts": "trustedCertsFile", "logMessage": "messageLoggingComponents",
        "failoverList": "failoverUrls", "requirePeerAuth": "authenticatePeer",
    },
    "connector": {
        "addr": "host", "protocolFamily": "socketAddressFamily",
        "verifyHostName": "verifyHostname", "logMessage": "messageLoggingComponents",
    },
    "sslProfile": {
        "certDb": "caCertFile", "keyFile": "privateKeyFile",
        "displayNameFile": "uidNameMappingFile",
    },
    "autoLink": {"addr": "address", "dir": "direction", "externalAddr": "externalAddress"},
    "linkRoute": {"dir": "direction"},
    "log": {
        "timestamp": "includeTimestamp", "source": "includeSource", "output": "outputFile",
    },
    "vhost": {"id": "hostname"},
}  # fmt: skip
"""The names that attributes had in old releases, and have now."""


def checked(sections: list[Section], wrong: Wrong) -> list[Section]:
    """Return the sections that are right, with attributes under their present names and with values
    of their types; faults of the others are noted.
    """
    first: dict[tuple[str, str], Section] = {}
    right = []
    for number, each in enumerate(sections, 1):
        if _is_right(each, first, wrong):
            right.append(each)
        elif number - len(right) >= FAULTY_MAX:
            wrong(each.line, "there may be more faults behind this line")
            break
    return right


def _is_right(section: Section, first: dict[tuple[str, str], Section], wrong: Wrong) -> bool:
    section.name = _plain(section.name)
    if section.name in UNREAD:
        return True
    known = SECTIONS.get(section.name)
    if known is None:
        wrong(section.line, unknown("section", section.name, (*SECTIONS, *UNREAD)))
        return False
    faults = [*_renamed(section), *_faults(section, {**_NAME, **known})]
    faults += _twice(section, first)
    for line, text in faults:
        wrong(line, f"{section.name}: {text}")
    return not faults


def _plain(name: str) -> str:
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name


def _renamed(section: Section) -> list[tuple[int, str]]:
    """Give attributes of old releases their present names; return the faults."""
    faults = []
    renamed: dict[str, Attribute] = {}
    for key, attribute in section.attributes.items():
        name = _OLD.get(section.name, {}).get(key, key)
        if name in renamed:
            text = f"{key} is the same as that of line {renamed[name].line}; remove one of them"
            faults.append((attribute.line, text))
        renamed[name] = attribute
    section.attributes = renamed
    return faults


def _faults(section: Section, known: dict[str, Kind]) -> list[tuple[int, str]]:
    """Turn the values into those of their types; return the faults."""
    faults = []
    for key, attribute in section.attributes.items():
        kind = known.get(key)
        if kind is None:
            faults.append((attribute.line, unknown("attribute", key, tuple(known))))
            continue
        value = _value(attribute.value, kind)
        if value is None:
            must = f"one of {', '.join(kind.words)}" if kind.words else kind.type
            faults.append(
                (attribute.line, f"{key} is {_shown(attribute.value)}; it must be {must}")
            )
            continue
        attribute.value = value
    for key, kind in known.items():
        if kind.required and key not in section.attributes:
            faults.append((section.line, f"{key} is missing"))
    return faults


def _twice(section: Section, first: dict[tuple[str, str], Section]) -> list[tuple[int, str]]:
    """Return the fault of a section that there may be only one of, by its kind or its name."""
    found = section.attributes.get("name")
    name = found.value if found is not None else ""
    if section.name in _SINGLE:
        name = section.name
    if not name or not isinstance(name, str):
        return []
    earlier = first.setdefault((section.name, name), section)
    if earlier is section:
        return []
    line = earlier.line
    if section.name in _SINGLE:
        return [(section.line, f"there is one before, at line {line}; remove one of them")]
    return [(section.line, f"name {name!r} was used before, at line {line}")]


def _value(value: object, kind: Kind) -> object:
    """Return a value as its type has it, None if it is none of that type."""
    if kind.words:
        return value if value in kind.words else None
    if kind.type == MAP:
        return value if isinstance(value, dict) else None
    if kind.type == FLAG:
        if isinstance(value, str):
            return _WORDS.get(value.lower())
        return value if isinstance(value, bool) else None
    if kind.type == NUMBER:
        is_text = isinstance(value, str) and _NUMBER.fullmatch(value)
        return int(str(value)) if is_text else _number(value)
    if isinstance(value, str):
        return value
    number = _number(value)
    return None if number is None else str(number)


def _number(value: object) -> int | None:
    """Return a whole number that is none of absurd length, None for anything else."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if abs(value) < 10**18 else None


def _shown(value: object) -> str:
    if isinstance(value, str):
        return repr(value[:80])
    return str(value) if isinstance(value, bool | float) else f"of type {type(value).__name__}"
