"""The command that installs the packages of one of Daybook's extras.

Daybook is installed from a wheel or a checkout, not by its name from a package index, so the
command names the packages themselves. They are read from the metadata of the installation, which
come from pyproject.toml.
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
    """Return the shell command that installs an extra into the environment of this process."""
    packages = " ".join(shlex.quote(package) for package in packages_of(extra))
    return f"{shlex.quote(sys.executable)} -m pip install {packages}"


def packages_of(extra: str) -> list[str]:
    """Return the packages of an extra, as requirements for pip, in order."""
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
