"""The guard of ADR 5: the rooms are top-level packages, so make sure that they are ours.

Another distribution that ships a package of the same name would otherwise be run instead, silently.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Final

ROOMS: Final = ("journal", "engine", "paging", "recovery", "protocols", "server", "tools")


def foreign_packages() -> list[str]:
    """Name the rooms that do not come from where this module comes from."""
    root = Path(__file__).resolve().parent.parent
    wrong: list[str] = []
    for room in ROOMS:
        spec = find_spec(room)
        origin = spec.origin if spec is not None else None
        if origin is None or Path(origin).resolve().parent.parent != root:
            wrong.append(f"package '{room}' is loaded from {origin}, not from {root}")
    return wrong
