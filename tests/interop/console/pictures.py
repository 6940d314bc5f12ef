"""The pictures of the console in the documentation: `python -m tests.interop.console.pictures`.

Stages two minutes of a small shop, with poison messages, a crash and an operator, and takes the
pictures in a real browser: in `docs/images`, or in the directory of `--into`.
"""

import argparse
import re
import time
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from playwright.sync_api import sync_playwright

from tests.interop.console.conftest import CHROMIUM
from tests.interop.console.test_chromium import Page
from tests.interop.console.using import trade
from tests.interop.using import daybook, events
from tests.meta import tree
from tests.support.console import ConsoleProcess
from tests.support.process import BrokerProcess, wait_for

IMAGES: Final = tree.ROOT / "docs" / "images"
SECONDS: Final = 60.0
"""How long the shop is open before the crash, and after it."""
TALL: Final = {"width": 1280, "height": 940}
WITH_CHARTS: Final = {"width": 1280, "height": 1290}
WITH_MARKS: Final = {"width": 1280, "height": 1000}


def stage(broker: BrokerProcess) -> None:
    """Open the shop, and kill its broker in the middle."""
    daybook(
        broker, "settings", "set", "orders.#", "max-delivery-attempts=2", "dead-letter-address=DLQ"
    )
    with trade(broker):
        time.sleep(SECONDS)
        broker.kill()
    broker.start()


def take(page: Page, path: str, file: Path, size: dict[str, int]) -> None:
    """Take a picture of a page."""
    page.page.set_viewport_size(size)
    page.go(path)
    page.page.wait_for_timeout(1000)
    page.page.screenshot(path=file)


def asked_into() -> Path:
    """Return the directory for the pictures, from the arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.interop.console.pictures",
        description="Stage two minutes of a small shop, and take the pictures of the console.",
    )
    parser.add_argument(
        "--into", metavar="DIR", type=Path, default=IMAGES,
        help="an existing directory, in which pictures of the same names are overwritten"
        " (docs/images)",
    )  # fmt: skip
    into: Path = parser.parse_args().into
    if not into.is_dir():
        parser.error(f"there is no directory {into}")
    return into.absolute()


def main(into: Path) -> None:
    """Stage the shop, and take all pictures."""
    with TemporaryDirectory() as folder, chdir(folder), sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        with (
            # Paths are in the commands that pages show.
            BrokerProcess(Path("files"), data=Path("shop")) as broker,
            ConsoleProcess(Path(), "--data", str(broker.start().data)) as console,
        ):
            page = Page(chromium, console)
            page.go(console.link)
            stage(broker)
            with trade(broker):
                time.sleep(SECONDS)
                wait_for(lambda: events(broker, "DeadLettered"), "dead letters")
                dead = events(broker, "DeadLettered")[-1]["message"]
                take(page, "/b/shop", into / "console-overview.png", WITH_CHARTS)
                take(
                    page,
                    "/b/shop/dead-letters?queue=DLQ&by=error",
                    into / "console-dead-letters.png",
                    TALL,
                )
                take(page, f"/b/shop/story?message={dead}", into / "console-story.png", TALL)
            page.page.get_by_role("button", name=re.compile("theme")).click()
            at = events(broker, "BrokerStarted")[-1]["lsn"]
            take(page, f"/b/shop/past?at={at}", into / "console-time-machine.png", WITH_MARKS)


if __name__ == "__main__":
    main(asked_into())
