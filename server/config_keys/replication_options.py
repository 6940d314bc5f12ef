"""The tables of the configuration keys of [replication] and [[replication-node]]: standbys.

Part of `server.config_keys.options`, which explains such tables. Must never know the nodes.
"""

from typing import Final

from daybook.server.config_keys.kinds import (
    GIB,
    NAME,
    PATH_OR_EMPTY,
    TEXTS,
    choice,
    duration,
    size,
    text,
)
from daybook.server.config_keys.option import Option

NO_ACKS: Final = "none"
ONE: Final = "one"
MAJORITY: Final = "majority"
ACKS: Final = (NO_ACKS, ONE, MAJORITY, "all")
ETCD: Final = "etcd"
FILE: Final = "file"
LEASE_MS_MIN: Final = 1_000

_HOST_AND_PORT: Final = r"(?:\[[0-9A-Fa-f:.%\w]+\]|[^\s\[\]:/@?#]+):[0-9]{1,5}"
_ADDRESS: Final = rf"(?:tcp|tls)://{_HOST_AND_PORT}"
_WANTED: Final = 'tls://HOST:PORT, like "tls://one.example.org:61620", or tcp:// on this machine'
_NAME_IN_KEYS: Final = text("a name without spaces and /", r"[^\s/\x00-\x1f\x7f]+")

REPLICATION: Final = (
    Option(
        "cluster",
        _NAME_IN_KEYS,
        None,
        "The name of the cluster, the same on each of its nodes.",
    ),
    Option(
        "node",
        NAME,
        None,
        "The name of this node, one of the `[[replication-node]]`.",
    ),
    Option(
        "listen",
        text(_WANTED, rf"(?:{_ADDRESS})?"),
        "",
        "Where this node listens to the others, like `tls://0.0.0.0:61620`; empty: at its address.",
    ),
    Option(
        "acks",
        choice(*ACKS),
        MAJORITY,
        "How many followers must have an event on their disks before it is confirmed to"
        " clients. none: a machine that burns takes what was confirmed last with it; one: at least"
        " one; majority: so many that with the leader they are more than half of the nodes; all:"
        " every follower that does not lag.",
    ),
    Option(
        "lease",
        duration(LEASE_MS_MIN),
        3_000,
        "How long a leader may lead without hearing from the arbiter: so long nobody is served"
        " after its machine is lost. Etcd counts whole seconds, and at least 2.",
    ),
    Option(
        "lag-max",
        duration(1_000),
        10_000,
        "How long a follower may owe an acknowledgement and still be in sync; it is again when it"
        ' has caught up. With `acks = "all"` events are confirmed without those that are not in'
        " sync; with others that is shown and logged.",
    ),
    Option(
        "cut-max-bytes",
        size(0, 1024 * 1024 * GIB),
        "1GiB",
        "How much disk the tails in the folder `cut` may take that no majority had: the oldest"
        " leave first, and the newest stays; 0: no limit.",
    ),
    Option(
        "cut-max-age",
        duration(0),
        30 * 86_400_000,
        "How long such a tail is kept; 0: until somebody removes it.",
    ),
    Option(
        "arbiter",
        choice(ETCD, FILE),
        ETCD,
        "What decides which node leads. file: for several nodes on one machine, to try it out.",
    ),
    Option(
        "endpoints",
        TEXTS,
        [],
        "The members of etcd (3.4 or newer), like `https://etcd-1.example.org:2379`.",
    ),
    Option(
        "prefix",
        text("the beginning of keys", r"[^\s\x00-\x1f\x7f]+"),
        "daybook",
        "What the keys in etcd begin with; then come / and the name of the cluster.",
    ),
    Option(
        "login",
        text("a login", r"[^\x00-\x1f\x7f]{0,4096}"),
        "",
        "The login of this node at etcd; empty: it has none.",
    ),
    Option(
        "passcode-file",
        PATH_OR_EMPTY,
        "",
        "File whose first line is the passcode at etcd. It is read for each login.",
    ),
    Option(
        "path",
        PATH_OR_EMPTY,
        "",
        "The file of the arbiter `file`, the same for each node.",
    ),
    Option(
        "certificate",
        PATH_OR_EMPTY,
        "",
        "File of the certificate that this node shows to the others, in PEM format. Addresses"
        " other than those of this machine need it.",
    ),
    Option(
        "key",
        PATH_OR_EMPTY,
        "",
        "File of its private key, in PEM format; empty: it is in the file of the certificate.",
    ),
    Option(
        "authority",
        PATH_OR_EMPTY,
        "",
        "File of the authorities whose certificates the other nodes have, in PEM format.",
    ),
    Option(
        "etcd-certificate",
        PATH_OR_EMPTY,
        "",
        "The certificate that this node shows to etcd; empty: `certificate`.",
    ),
    Option(
        "etcd-key",
        PATH_OR_EMPTY,
        "",
        "Its private key; empty: it is in the file of `etcd-certificate`, or `key` if that is"
        " empty.",
    ),
    Option(
        "etcd-authority",
        PATH_OR_EMPTY,
        "",
        "The authorities of the certificates of etcd; empty: `authority`.",
    ),
)

REPLICATION_NODE: Final = (
    Option("name", NAME, None, "The name of the node; no two nodes of a cluster have one name."),
    Option(
        "address",
        text(_WANTED, _ADDRESS),
        None,
        "Where the other nodes reach it: `tls://HOST:PORT`, or `tcp://HOST:PORT` on one machine.",
    ),
)
