"""Pieces of a router's configuration like those in the manual of Interconnect (chapter 12), and a
file around one.

Each has the addresses that it must give: names, and the distribution that each must have.
"""

from pathlib import Path
from typing import Final

import msgspec

from daybook.engine.facts.definitions import BALANCED, MULTICAST, DistributionEntry


class Link(msgspec.Struct, frozen=True):
    """An auto-link that a piece must give."""

    address: str
    is_out: bool
    phase: int
    is_fallback: bool = False
    external: str = ""


class Piece(msgspec.Struct, frozen=True):
    """Sections, and what must become of them: the entries that names must find, and auto-links."""

    sections: str
    found: dict[str, DistributionEntry]
    links: tuple[Link, ...] = ()


HEAD: Final = """
router {
    mode: standalone
    id: Router.A
}
listener {
    name: clients
    host: 127.0.0.1
    port: 0
    authenticatePeer: no
}
"""
BROKER: Final = """
connector {
    name: my_broker
    host: 127.0.0.1
    port: 5672
    role: route-container
}
"""
_OTHER: Final = DistributionEntry(pattern="#", distribution=BALANCED)
_MULTICAST: Final = DistributionEntry(prefix="my_address", distribution=MULTICAST)
_HIGH: Final = DistributionEntry(prefix="my-high-priority-address", priority=9)
_WAYPOINT: Final = DistributionEntry(prefix="my_queue", waypoint=True)
_FALLBACK: Final = DistributionEntry(prefix="my_address", enable_fallback=True)
_WAYPOINT_SECTION: Final = "address {\n    prefix: my_queue\n    waypoint: yes\n}\n"


def _link(address: str, direction: str, *more: str) -> str:
    lines = [f"address: {address}", "connection: my_broker", f"direction: {direction}", *more]
    return "autoLink {\n" + "".join(f"    {line}\n" for line in lines) + "}\n"


PIECES: Final[dict[str, Piece]] = {
    "12.1.2 address": Piece(
        "address {\n    prefix: my_address\n    distribution: multicast\n}\n",
        {
            "my_address": _MULTICAST, "my_address.1": _MULTICAST, "my_address/1": _MULTICAST,
            "my_address1": _OTHER,
        },
    ),
    "12.1.3 priority": Piece(
        "address {\n    prefix: my-high-priority-address\n    priority: 9\n}\n",
        {"my-high-priority-address": _HIGH, "another": _OTHER},
    ),
    "12.1.4.2 waypoint": Piece(_WAYPOINT_SECTION, {"my_queue": _WAYPOINT}),
    "12.1.4.2 out": Piece(
        _WAYPOINT_SECTION + BROKER + _link("my_queue", "out"),
        {"my_queue": _WAYPOINT},
        (Link("my_queue", is_out=True, phase=0),),
    ),
    "12.1.4.2 in": Piece(
        _WAYPOINT_SECTION
        + BROKER
        + _link("my_queue", "in", "externalAddress: theirs", "name: back"),
        {"my_queue": _WAYPOINT},
        (Link("my_queue", is_out=False, phase=1, external="theirs"),),
    ),
    "12.1.4.3 fallback": Piece(
        "address {\n    prefix: my_address\n    enableFallback: yes\n}\n"
        + BROKER
        + _link("my_address.2", "out", "fallback: yes")
        + _link("my_address.2", "in", "fallback: yes"),
        {"my_address": _FALLBACK, "my_address.2": _FALLBACK},
        (
            Link("my_address.2", is_out=True, phase=0, is_fallback=True),
            Link("my_address.2", is_out=False, phase=0, is_fallback=True),
        ),
    ),
    **{
        f"12.1.5 {pattern}": Piece(
            f"address {{\n    pattern: {pattern}\n    distribution: multicast\n}}\n",
            {
                name: DistributionEntry(pattern=pattern, distribution=MULTICAST)
                if is_match
                else _OTHER
                for name, is_match in names.items()
            },
        )
        for pattern, names in {
            "my/*/address": {"my/x/address": True, "my/address": False},
            "news/*": {
                "news/europe": True, "news/usa": True, "news": False, "news/usa/sports": False,
            },
            "news/#": {
                "news": True, "news/europe": True, "news/usa/sports": True, "europe": False,
                "usa": False,
            },
            "news/europe/#": {
                "news/europe": True, "news/europe/sports": True,
                "news/europe/politics/fr": True, "news/usa": False, "europe": False,
            },
            "news/*/sports": {
                "news/europe/sports": True, "news/usa/sports": True, "news": False,
                "news/europe/fr/sports": False,
            },
        }.items()
    },
}  # fmt: skip


def document(sections: str) -> str:
    """Return a whole file with these sections."""
    return HEAD + sections


def blocks_of(page: str, begins: str) -> list[str]:
    """Return the blocks of code of a page that begin so."""
    parts = (Path(__file__).parents[3] / "docs" / page).read_text().split("\n```")[1::2]
    return [part.partition("\n")[2] + "\n" for part in parts if part.startswith(begins)]
