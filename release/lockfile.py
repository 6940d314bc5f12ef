"""The lock of all dependencies, and the part of it that a set of extras and groups needs.

`requirements.lock` is in the format of pip's requirements files with hashes. Comments name what
requires each package; that is the graph by which the parts are selected. A part can hold more than
is needed, because the graph does not tell extras of packages apart. If it held less, pip would
refuse to install it, because every package must have a hash.

    python -m release.lockfile broker sql    # prints the requirements of the broker with the extra
    `sql`

Must use the standard library alone.
"""

import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
LOCK: Final = ROOT / "requirements.lock"
BROKER: Final = "broker"
"""The set of the broker's own requirements, beside those of extras and of groups."""

PIN = re.compile(r"^([a-z0-9-]+)==([^ ;]+)(?: ; (.+?))? \\$")
HASH = re.compile(r"^    --hash=(sha256:[0-9a-f]{64})(?: \\)?$")
REASON = re.compile(r"^    #(?: via)?(?:\s+(\S+)(?: \(.*\))?)?$")
NAME = re.compile(r"^[A-Za-z0-9._-]+")


class Locked(NamedTuple):
    """One version of one package, for the environments of its marker ("" is all)."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]
    required_by: tuple[str, ...]
    """Names of packages; that of the project for its own requirements."""


class Malformed(Exception):
    """The lock has a line that is none of a lock."""


def project() -> dict[str, Any]:
    """Return pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def normal(name: str) -> str:
    """Return the name of a package as the lock spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def name_of(requirement: str) -> str:
    """Return the normal name of the package that a requirement is about."""
    found = NAME.match(requirement)
    assert found is not None, requirement
    return normal(found.group())


def parse(text: str) -> list[Locked]:
    """Return the pins of a lock; raise Malformed for an invalid line."""
    found: list[Locked] = []
    for number, line in enumerate(text.splitlines(), 1):
        if pin := PIN.match(line):
            found.append(Locked(pin[1], pin[2], pin[3] or "", (), ()))
        elif (one := HASH.match(line)) and found:
            found[-1] = found[-1]._replace(hashes=(*found[-1].hashes, one[1]))
        elif (reason := REASON.match(line)) and found:
            if reason[1]:
                required_by = (*found[-1].required_by, reason[1])
                found[-1] = found[-1]._replace(required_by=required_by)
        elif line and not line.startswith("#"):
            raise Malformed(f"line {number} is not part of a lock: {line}; run `make lock`")
    return found


def read(path: Path = LOCK) -> list[Locked]:
    """Return the pins of the project's lock."""
    return parse(path.read_text("utf-8"))


def sets(of: dict[str, Any]) -> dict[str, list[str]]:
    """Return the requirements of each set by its name: the broker, each extra, each group.

    The includes of a set are replaced by their requirements. An extra includes the broker.
    """
    own = normal(of["project"]["name"])
    extras: dict[str, list[str]] = of["project"]["optional-dependencies"]
    groups: dict[str, list[Any]] = of["dependency-groups"]
    broker: list[str] = of["project"]["dependencies"]

    def of_extra(name: str) -> list[str]:
        found = list(broker)
        for each in extras[name]:
            inner = re.fullmatch(r"([\w.-]+)\[([\w,-]+)\]", each)
            if inner and normal(inner[1]) == own:
                found += [line for one in inner[2].split(",") for line in of_extra(one)]
            else:
                found.append(each)
        return list(dict.fromkeys(found))

    def of_group(name: str) -> list[str]:
        found = [
            line
            for each in groups[name]
            for line in (of_group(each["include-group"]) if isinstance(each, dict) else [each])
        ]
        return list(dict.fromkeys(found))

    made = {name: of_extra(name) for name in extras} | {name: of_group(name) for name in groups}
    return {BROKER: broker, **made}


def requirements(wanted: Iterable[str], of: dict[str, Any]) -> list[str]:
    """Return the requirements of some sets; raise KeyError with the name of an unknown one."""
    known = sets(of)
    return list(dict.fromkeys(line for name in wanted for line in known[name]))


def part(locked: list[Locked], direct: Iterable[str]) -> list[Locked]:
    """Return the pins of these packages and of all that they require, in the order of the lock."""
    needed = {normal(name) for name in direct}
    while True:
        more = {each.name for each in locked if needed & set(each.required_by)} - needed
        if not more:
            return [each for each in locked if each.name in needed]
        needed |= more


def written(locked: Iterable[Locked]) -> str:
    """Return pins as a requirements file for pip."""
    lines = []
    for each in locked:
        marker = f" ; {each.marker}" if each.marker else ""
        hashes = [f"    --hash={one}" for one in each.hashes]
        lines.append(" \\\n".join([f"{each.name}=={each.version}{marker}", *hashes]))
    return "\n".join(lines) + "\n"


def requirements_of(wanted: Iterable[str]) -> list[str]:
    """Return the requirements of some sets of the project; raise SystemExit for an unknown one."""
    try:
        return requirements(wanted, project())
    except KeyError as error:
        known = ", ".join(sets(project()))
        raise SystemExit(f"there is no extra and no group {error}; there are {known}") from None


def selected(direct: Iterable[str]) -> str:
    """Return the requirements file for some requirements of the project."""
    return written(part(read(), map(name_of, direct)))


def main() -> None:
    """Print the requirements file for the named sets, the broker's without a name."""
    print(selected(requirements_of(sys.argv[1:] or [BROKER])), end="")


if __name__ == "__main__":
    main()
