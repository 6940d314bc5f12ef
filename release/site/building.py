"""Building the site: stage the pages, run the generator (Zensical), and check all links.

Must need no package but the generator, so that `make docs` installs no broker.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from release.site import links, navigation, staging

BUILD: Final = staging.ROOT / "build"
CONFIG: Final = Path(__file__).with_name("zensical.toml")
PLACE: Final = "# The navigation."


def nav(sections: list[navigation.Section]) -> str:
    """Return the navigation in the language of the configuration."""

    def line(entry: navigation.Entry) -> str:
        path = staging.DECISIONS if entry.path == "docs/adr/" else entry.path
        return f'{{ "{entry.title}" = "{path}" }}'

    made = f'  {{ "Daybook" = "{staging.FRONT}" }},\n'
    for section in sections:
        pages = ", ".join(map(line, section.entries))
        made += f'  {{ "{section.title}" = [{pages}] }},\n'
    return f"nav = [\n{made}]"


SHIM: Final = "https://unpkg.com/iframe-worker/shim"
"""What the generator lets pages load so that search works in pages that were opened as files."""


def keep_at_home(site: Path) -> None:
    """Let the pages load from the site what the generator lets them load from elsewhere."""
    (shim,) = (site / "assets" / "vendor").glob("iframe-worker-*.js")
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        here = os.path.relpath(shim, page.parent)
        page.write_text(text.replace(SHIM, here), "utf-8")


def build(folder: Path, root: Path = staging.ROOT) -> Path:
    """Build the site below a folder; return its folder. Raise SystemExit if that fails."""
    staging.Stage(folder / "pages", root).fill()
    config = CONFIG.read_text("utf-8").replace(PLACE, nav(navigation.read(root)))
    (folder / "zensical.toml").write_text(config, "utf-8")
    site = folder / "site"
    shutil.rmtree(site, ignore_errors=True)
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"zensical did not build the site:\n{done.stdout}{done.stderr}")
    keep_at_home(site)
    return site


def main() -> None:
    """Build the site, and refuse one with dead links."""
    site = build(BUILD)
    if found := [*links.broken(site), *links.foreign(site)]:
        raise SystemExit("\n".join(found))
    print(f"{site / 'index.html'}: {len(list(site.rglob('*.html')))} pages")
