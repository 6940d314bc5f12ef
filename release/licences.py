"""The table of docs/licences.md: every locked package with its licence, and which set needs it.

    python -m release.licences [SITE-PACKAGES ...]

Licences come from the metadata of the installed packages: in this environment, and in the given
folders. A package without a licence is an error: it must not be shipped unseen. Packages that are
never installed on Linux are left out.
"""

import re
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions
from typing import Final, NamedTuple

from packaging.markers import Marker

from release import lockfile
from release.lockfile import Locked

PAGE: Final = lockfile.ROOT / "docs" / "licences.md"
BEGIN: Final = "<!-- licences: drawn by make licences -->"
END: Final = "<!-- end of licences -->"
CLASSIFIER: Final = "License :: "
SHORT: Final = 60
"""A field `License` that is longer is the text of a licence, not its name."""
SPDX: Final = {
    "3-Clause BSD License": "BSD-3-Clause",
    "BSD 2-Clause License": "BSD-2-Clause",
    "BSD License": "BSD-3-Clause",
    "Apache License 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "http://www.apache.org/licenses/LICENSE-2.0": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "MIT License": "MIT",
    "MIT Licence": "MIT",
    "MIT license": "MIT",
    "The MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "PSFL": "PSF-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
"""SPDX names for the licences of older metadata. Those that say BSD have 3 clauses."""
OF_PACKAGE: Final = {"python-dateutil": "Apache-2.0 OR BSD-3-Clause"}
"""Licences of packages whose metadata says that there are two, and not which."""
TEXTS: Final = {
    "Apache-2.0": "Apache License Version 2.0, January 2004",
    "MIT": "Permission is hereby granted, free of charge, to any person obtaining a copy",
}
"""Phrases in the texts of licences, for packages that only have the text."""


class Licence(NamedTuple):
    """A row of the table."""

    package: str
    versions: str
    licence: str
    needed_by: str


def on_linux(pin: Locked) -> bool:
    """Tell whether a pin is ever installed on Linux."""
    if not pin.marker:
        return True
    marker = Marker(pin.marker)
    return any(
        marker.evaluate({
            "sys_platform": "linux", "platform_system": "Linux", "os_name": "posix",
            "python_version": f"3.{minor}", "python_full_version": f"3.{minor}.0",
            "implementation_name": "cpython", "platform_python_implementation": "CPython",
        })
        for minor in range(11, 20)
    )  # fmt: skip


def said(distribution: Distribution) -> str:
    """Return the licence that a package says it has, "" if it says none."""
    metadata = distribution.metadata
    if told := OF_PACKAGE.get(lockfile.normal(metadata["Name"])):
        return told
    if "License-Expression" in metadata:
        return metadata["License-Expression"]
    classified = [
        each.rpartition(" :: ")[2]
        for each in metadata.get_all("Classifier") or ()
        if each.startswith(CLASSIFIER) and each != "License :: OSI Approved"
    ]
    short = metadata["License"].strip() if "License" in metadata else ""
    named = [short] if short and len(short) <= SHORT and "\n" not in short else classified
    if not named:
        text = " ".join(" ".join(_texts(distribution)).split())
        named = [name for name, words in TEXTS.items() if words in text]
    return " AND ".join(sorted({SPDX.get(each, each) for each in named}))


def _texts(distribution: Distribution) -> list[str]:
    """Return the texts of licences that a package has."""
    files = [each for each in distribution.files or () if "licenses" in each.parts]
    return [each.read_text("utf-8") for each in files]


def installed(folders: Iterable[str] = ()) -> dict[str, str]:
    """Return the licences of installed packages by their normal names."""
    found: dict[str, str] = {}
    for each in (*distributions(), *distributions(path=list(folders))):
        found.setdefault(lockfile.normal(each.metadata["Name"]), said(each))
    return found


def needed_by(locked: list[Locked]) -> dict[str, str]:
    """Return for each package the sets that need it: the broker alone, else extras, else groups."""
    project = lockfile.project()
    extras = project["project"]["optional-dependencies"]
    members = {
        name: {
            pin.name
            for pin in lockfile.part(locked, [lockfile.name_of(line) for line in requirements])
        }
        for name, requirements in lockfile.sets(project).items()
        if name != "all"
    }
    found = {}
    for pin in locked:
        having = [name for name, packages in members.items() if pin.name in packages]
        shipped = [name for name in having if name in extras]
        found[pin.name] = (
            lockfile.BROKER if lockfile.BROKER in having else ", ".join(shipped or having)
        )
    return found


def rows(locked: list[Locked], licences: dict[str, str]) -> list[Licence]:
    """Return the rows of the table; raise SystemExit with the packages whose licence is unknown."""
    pins = [pin for pin in locked if on_linux(pin)]
    needed = needed_by(locked)
    names = list(dict.fromkeys(pin.name for pin in pins))
    unknown = [name for name in names if not licences.get(name)]
    if unknown:
        raise SystemExit(f"not installed, or without a licence: {', '.join(unknown)}")
    return [
        Licence(
            name, ", ".join(pin.version for pin in pins if pin.name == name),
            licences[name], needed[name],
        )
        for name in names
    ]  # fmt: skip


def listed() -> list[Licence]:
    """Return the rows that the page has."""
    part = PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    cells = re.findall(r"^\| (?!package |---)(.+) \|$", part, re.MULTILINE)
    return [Licence(*row.split(" | ")) for row in cells]


def drawn(table: list[Licence]) -> str:
    """Return the part of the page."""
    head = ["| package | version | licence | needed by |", "|---|---|---|---|"]
    return "\n".join(["", *head, *(f"| {' | '.join(row)} |" for row in table), ""])


def main() -> None:
    """Redraw the table."""
    page = PAGE.read_text("utf-8")
    before, begin, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    table = drawn(rows(lockfile.read(), installed(sys.argv[1:])))
    PAGE.write_text(before + begin + table + END + after, "utf-8")


if __name__ == "__main__":
    main()
