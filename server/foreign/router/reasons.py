"""Why attributes and sections of the router's configuration are not taken over.

Must never know how a file is read.
"""

from typing import Final

NETWORK: Final = "only a network of routers has it, and this broker is none"
NETWORK_ROLES: Final = ("inter-router", "edge", "inter-edge")
"""Roles of connections between routers."""

_PATHS: Final = "the router's own files are not used"
_TIMES: Final = f"{NETWORK}: it is a time of its protocol"
_JOURNAL: Final = "the journal has every message (`journal trail`), with no setting"
_POLICY: Final = "rights and limits of policies are not taken over; see [[security-setting]]"
_OPEN: Final = "the broker says nothing but its name and its capabilities in its open"
_FAILOVER: Final = "the broker names no other brokers to its clients"
_WINDOW: Final = "the broker makes windows of sessions by its memory"
_ANNOTATIONS: Final = "the annotations of routers are not added to messages"
_CAPACITY: Final = (
    "250 messages of a sender may be on their way to a direct address, whatever the listener"
)
_FAMILY: Final = "the address of the host says it"
_LOGS: Final = "log lines go to standard error, with the time, and without the place in the source"
_TLS_NUMBERS: Final = "a reload reads certificates again"

LOST: Final[dict[str, dict[str, str]]] = {
    "router": {
        "saslConfigDir": "users are not taken over; add them with `daybook user add`",
    },
    "listener": {
        "failoverUrls": _FAILOVER,
        "openProperties": _OPEN,
        "policyVhost": _POLICY,
        "multiTenant": "names of addresses get no virtual host in front; see [[virtual-host]]",
        "httpRootDir": "the broker serves no web pages",
        "authServicePlugin": "no other service checks logins",
        "linkCapacity": _CAPACITY,
    },
    "connector": {
        "openProperties": _OPEN,
        "policyVhost": f"{_POLICY}, and `user` of a [[connector]]",
        "linkCapacity": _CAPACITY,
    },
    "sslProfile": {
        "uidNameMappingFile": "logins from certificates are not renamed; see certificate-pattern",
    },
    "address": {},
    "autoLink": {},
    "linkRoute": {},
    "log": {},
    "policy": {
        "policyDir": _POLICY,
    },
}
"""Attributes that their users will miss, by section. Virtual hosts of policies are named as a
whole."""

NEEDLESS: Final[dict[str, dict[str, str]]] = {
    "router": {
        **dict.fromkeys(
            (
                "helloIntervalSeconds", "helloMaxAgeSeconds", "raIntervalSeconds",
                "raIntervalFluxSeconds", "remoteLsMaxAgeSeconds", "mobileAddrMaxAge",
            ),
            _TIMES,
        ),
        **dict.fromkeys(("area", "vanId", "dataConnectionCount"), NETWORK),
        **dict.fromkeys(("plogRouterId", "plogSiteId", "dropTcpConnections"), "no TCP is bridged"),
        "workerThreads": "the broker has no pools of threads",
        "debugDumpFile": _PATHS,
        "saslConfigName": _PATHS,
        "timestampFormat": _LOGS,
        "timestampsInUTC": _LOGS,
        "metadata": "it is only for people",
        "allowUnsettledMulticast": "unsettled messages to all receivers are always allowed",
        "allowResumableLinkRoute": "links that come again are resumed where a queue stores",
    },
    "listener": {
        "cost": NETWORK,
        "socketAddressFamily": _FAMILY,
        "maxSessionFrames": _WINDOW,
        "stripAnnotations": _ANNOTATIONS,
        "messageLoggingComponents": _JOURNAL,
    },
    "connector": {
        "socketAddressFamily": _FAMILY,
        "maxSessionFrames": _WINDOW,
        "stripAnnotations": _ANNOTATIONS,
        "messageLoggingComponents": _JOURNAL,
        "failoverUrls": "the router only shows it",
        "allowRedirect": "the broker connects to the URL of its connector, and nowhere else",
        "dataConnectionCount": NETWORK,
    },
    "sslProfile": dict.fromkeys(
        ("version", "oldestValidVersion", "ordinal", "oldestValidOrdinal"), _TLS_NUMBERS
    ),
    "address": {},
    "autoLink": {},
    "linkRoute": {},
    "log": {
        "includeTimestamp": _LOGS,
        "includeSource": _LOGS,
    },
    "policy": {
        "defaultVhost": _POLICY,
        "enableVhostNamePatterns": _POLICY,
    },
}  # fmt: skip
"""Attributes that are not needed, by section."""

UNREAD_LOST: Final = {
    "exchange": "exchanges are not taken over; a [[divert]] copies messages to other addresses",
    "binding": "bindings of exchanges are not taken over; see [[divert]]",
    "console": "there is no web console",
    "fixedAddress": "it is of an old release; write an `address` section",
    "waypoint": "it is of an old release; write `autoLink` sections",
    "linkRoutePattern": "it is of an old release; write `linkRoute` sections",
    "container": "it is of an old release; write a `router` section",
    "authServicePlugin": "no other service checks logins",
    **dict.fromkeys(
        ("httpListener", "httpConnector", "tcpListener", "tcpConnector"),
        "the broker bridges neither HTTP nor TCP",
    ),
}
"""Sections that are not read, and why."""
UNREAD_NEEDLESS: Final = {
    "site": "it is only for people",
    "management": "the broker has its own, `daybook` and `journal`",
}
"""Sections that are not read and not needed, and why."""
