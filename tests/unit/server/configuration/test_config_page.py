"""docs/configuration.md has exactly the keys of the tables."""

import re
from pathlib import Path

from daybook.engine.settings.setting_keys import KEYS
from daybook.protocols.registry import OFFERS
from daybook.server.config_keys import options
from daybook.server.config_keys.acceptor_options import COMMON, protocol_options
from daybook.server.config_keys.acceptor_options import TABLES as ACCEPTORS
from daybook.server.configuration.config import show

ROOT = Path(__file__).parents[4]


def rows() -> list[str]:
    """The rows that docs/configuration.md must have, from the tables."""
    made = []
    tables = {f"[{name}]": table for name, table in options.SECTIONS.items()}
    tables["[[acceptor]]"] = tuple(option for option in ACCEPTORS["stomp"] if option.name in COMMON)
    tables |= {f'protocol = "{each}"': protocol_options(OFFERS[each]) for each in OFFERS}
    tables |= {f"[[{name}]]": table for name, table in options.ARRAYS.items() if name != "acceptor"}
    # An [[address]] has keys of its own if it is no name.
    listed = list(tables.items())
    at = [heading for heading, _ in listed].index("[[address]]") + 1
    listed.insert(at, ("[[address]]", options.DISTRIBUTION_TABLE))
    for heading, table in listed:
        made.append(heading)
        for option in table:
            default = "required" if option.required else f"`{show(option.default)}`"
            cells = [f"`{option.name}`", option.kind.name, default]
            cells += ["at once" if option.live else "restart", option.doc]
            made.append(f"| {' | '.join(cells)} |")
    made.append("[[address-setting]]")
    names = {str: "string", int: "number", bool: "true or false", float: "number"}
    for key in KEYS:
        kind = "size" if key.is_size else "duration" if key.is_time else names[key.type]
        cells = [f"`{key.name}`", kind, f"`{show(key.default)}`", "at once", key.doc]
        made.append(f"| {' | '.join(cells)} |")
    return made


def test_the_documentation_has_exactly_the_keys_of_the_tables() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text()
    found = re.findall(
        r"^(?:###? `(\[+[a-z-]+\]+|protocol = .*)`.*|(\| `[a-z-]+` \|.*\|))$", text, re.MULTILINE
    )
    assert [heading or row for heading, row in found] == rows()
