"""The sections of CHANGELOG.md, and the version and date for the unreleased one.

python -m release.changelog 2026-11-26    # "Unreleased" becomes the version of pyproject.toml
"""

import re
import sys
from datetime import date
from typing import Final

from release import lockfile

PAGE: Final = lockfile.ROOT / "CHANGELOG.md"
UNRELEASED: Final = "## [Unreleased]\n"
SECTION: Final = re.compile(r"^## \[([^\]]+)\](?: - (\d{4}-\d\d-\d\d))?$", re.MULTILINE)


class Refused(Exception):
    """The changelog is invalid; the text gives the remedy."""


def sections(text: str) -> dict[str, tuple[str, str]]:
    """Return the date and the text of each section by its version; a date may be ""."""
    parts = SECTION.split(text)
    return {
        version: (day or "", body.strip())
        for version, day, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=True)
    }


def date_of(version: str) -> str:
    """Return when a version was released, "" if it is not."""
    return sections(PAGE.read_text("utf-8")).get(version, ("", ""))[0]


def check(text: str, version: str) -> str:
    """Return the date of the section of a version; raise Refused if the page is not ready."""
    found = sections(text)
    day, body = found.get(version, ("", ""))
    if not day or not body:
        raise Refused(
            f"CHANGELOG.md has no section [{version}] with a date and entries:"
            f" run `make changelog DATE={date.today()}`, and commit it"
        )
    if found.get("Unreleased", ("", ""))[1]:
        raise Refused(f"CHANGELOG.md has unreleased entries besides [{version}]: move them there")
    return day


def dated(text: str, version: str, day: str) -> str:
    """Return the page with the unreleased entries as a section with a version; raise Refused if
    there are none.
    """
    found = sections(text)
    if version in found:
        raise Refused(f"CHANGELOG.md has a section [{version}] already: set the next version first")
    if not found.get("Unreleased", ("", ""))[1]:
        raise Refused("CHANGELOG.md has nothing unreleased")
    return text.replace(UNRELEASED, f"{UNRELEASED}\n## [{version}] - {day}\n", 1)


def main() -> None:
    """Give the unreleased entries the version of pyproject.toml, and the given date."""
    version = lockfile.project()["project"]["version"]
    try:
        day = date.fromisoformat(sys.argv[1]).isoformat()
        PAGE.write_text(dated(PAGE.read_text("utf-8"), version, day), "utf-8")
    except (ValueError, IndexError):
        raise SystemExit("name the day of the release: make changelog DATE=2026-11-26") from None
    except Refused as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
