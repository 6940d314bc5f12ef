"""The command that installs what an extra of Daybook brings, wherever Daybook came from.

Daybook is installed from a wheel or a checkout, not from an index under its name, so the command
names the packages themselves. They are read from the metadata of the installation, which has them
from pyproject.toml.
"""

import re
import shlex
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires
from typing import Final

DISTRIBUTION: Final = "daybook-broker"
_REQUIREMENT: Final = re.compile(r"(?P<what>[^;]+?)\s*;.*\bextra == ['\"](?P<extra>[\w-]+)['\"]")
_OWN: Final = re.compile(rf"{DISTRIBUTION}\[(?P<extras>[\w,\s-]+)\]")


def install_command(extra: str) -> str:
    """The shell command that installs an extra into the environment of this process."""
    packages = " ".join(shlex.quote(package) for package in packages_of(extra))
    return f"{shlex.quote(sys.executable)} -m pip install {packages}"


def packages_of(extra: str) -> list[str]:
    """The packages that an extra brings, as requirements for pip, in order."""
    try:
        listed = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        listed = []
    return list(dict.fromkeys(_packages(extra, listed)))


def _packages(extra: str, listed: list[str]) -> Iterator[str]:
    for line in listed:
        found = _REQUIREMENT.match(line)
        if found is None or found["extra"] != extra:
            continue
        own = _OWN.match(found["what"])
        if own is None:
            yield found["what"]
        else:
            for one in own["extras"].split(","):
                yield from _packages(one.strip(), listed)
