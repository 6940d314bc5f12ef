"""Writing a configuration as the text of a broker.toml.

Must never know where the values come from.
"""

from collections.abc import Sequence

from daybook.server.config_keys.config_source import SETTINGS, Block, Source
from daybook.server.configuration.config import show


def as_toml(
    source: Source, name: str, lost: Sequence[str] = (), needless: Sequence[str] = ()
) -> str:
    """Return the text of a broker.toml with these values; `name` is the file they come from.

    Lost and unneeded settings become comments.
    """
    lines = [f"# Converted from {name} by `daybook config convert`."]
    for title, group in (("You lose this:", lost), ("Not needed here:", needless)):
        lines += ["#", f"# {title}"] if group else []
        lines += [f"# - {_on_one_line(each)}" for each in group]
    for section, block in source.sections.items():
        if block.values:
            lines += ["", f"[{section}]", *_pairs(block)]
    arrays = {**source.arrays, SETTINGS: source.settings}
    for array, blocks in arrays.items():
        for block in blocks:
            lines += ["", f"[[{array}]]", *_pairs(block)]
    return "\n".join(lines) + "\n"


def _pairs(block: Block) -> list[str]:
    return [f"{key} = {show(given.value)}" for key, given in block.values.items()]


def _on_one_line(text: str) -> str:
    """Return a text for a comment: text quoted from a file may contain line feeds."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
