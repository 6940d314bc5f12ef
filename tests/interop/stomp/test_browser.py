"""STOMP over WebSocket with clients for browsers: @stomp/stompjs in Node.js, and in Chromium."""

import functools
import http.server
import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

from tests.interop.wire import Wire
from tests.meta import tree
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


@pytest.mark.parametrize("kind", ["text", "binary"])
def test_stompjs_in_node(shared_broker: BrokerProcess, packages: Path, kind: str) -> None:
    url = f"ws://127.0.0.1:{shared_broker.port}/"
    command = ["node", "client.mjs", url, kind, "50"]
    done = subprocess.run(
        command, cwd=packages, capture_output=True, check=True, timeout=90, text=True
    )
    seen = json.loads(done.stdout)
    assert seen["subprotocol"] == "v12.stomp"
    assert seen["bodies"][:51] == [*(f"Grüße {number}" for number in range(50)), 200_000]
    assert seen["receipts"] == 1
    (error,) = seen["errors"]
    assert "no-such-transaction" in error
    assert seen["close"] == 1008


# ---- a browser


class Page:
    """A page in Chromium, driven by its protocol for developers."""

    def __init__(self, web: ClientConnection) -> None:
        self._web = web
        self._serial = 0

    def ask(self, method: str, **parameters: Any) -> Any:
        """Give a command, and return its result."""
        self._serial += 1
        self._web.send(json.dumps({"id": self._serial, "method": method, "params": parameters}))
        while (answer := json.loads(self._web.recv(60))).get("id") != self._serial:
            pass
        return answer["result"]

    def run(self, script: str) -> Any:
        """Run a script in the page, and return its value."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True)
        return answer["result"].get("value")

    def text(self, selector: str) -> str:
        """Return the text of an element."""
        return str(self.run(f"document.querySelector({selector!r})?.textContent ?? ''"))

    def fill(self, form: str, **fields: str) -> None:
        """Fill in a form, and send it."""
        for name, value in fields.items():
            self.run(f"document.forms.{form}.elements.{name}.value = {json.dumps(value)}")
        self.run(f"document.forms.{form}.requestSubmit()")


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """An empty page in a browser of its own."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip(f"no browser is installed (one of {', '.join(BROWSERS)})")
    profile = tmp_path / "profile"
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank",
    ]  # fmt: skip
    silent = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=silent, stderr=silent, start_new_session=True) as process:
        try:
            file = profile / "DevToolsActivePort"
            wait_for(lambda: file.exists() and len(file.read_text().split()) > 1, "the browser")
            port, path = file.read_text().split()
            with connect(f"ws://127.0.0.1:{port}{path}", compression=None) as web:
                targets = Page(web).ask("Target.getTargets")["targetInfos"]
            (target,) = [one["targetId"] for one in targets if one["type"] == "page"]
            url = f"ws://127.0.0.1:{port}/devtools/page/{target}"
            with connect(url, compression=None, max_size=None) as web:
                yield Page(web)
        finally:
            # The installed file may be a script that starts the browser.
            os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def site(packages: Path) -> Iterator[str]:
    """The example of the documentation on a server, with the library beside it."""
    folder = packages / "site"
    folder.mkdir(exist_ok=True)
    bundle = packages / "node_modules" / "@stomp" / "stompjs" / "bundles" / "stomp.umd.min.js"
    shutil.copy(bundle, folder)
    shutil.copy(tree.ROOT / "docs" / "examples" / "browser.html", folder)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_example_in_a_browser(tmp_path: Path, site: str, page: Page) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        broker.start()
        url = f"ws://127.0.0.1:{broker.port}/"
        page.ask("Page.navigate", url=f"{site}/browser.html")
        wait_for(lambda: page.text("#state") == "not connected", "the page")
        # A page that is not listed does not get in, whatever it knows.
        page.fill("login", url=url)
        wait_for(lambda: "invalid Origin" in broker.log_text(), "the refusal")
        broker.settings[:] = [f'acceptor.websocket-origins=["{site}"]']
        broker.stop()
        broker.start()
        url = f"ws://127.0.0.1:{broker.port}/"
        page.fill("login", url=url, login="joe", passcode="wrong")
        wait_for(lambda: "'joe' is wrong" in page.text("#state"), "the reason")
        page.fill("login", url=url, login="guest", passcode="guest")
        wait_for(lambda: page.text("#state") == "connected", "the login")
        page.fill("say", text="<b>Grüße</b>")
        wait_for(lambda: page.text("#heard") == "<b>Grüße</b>", "its own message")
        with Wire(broker.port) as wire:
            wire.connect()
            wire.send("SEND", b"from a program", destination="/topic/chat", receipt="r")
            wire.expect("RECEIPT")
        wait_for(lambda: page.text("#heard").endswith("from a program"), "a message of others")
        assert broker.stop() == 0
        wait_for(lambda: "trying again" in page.text("#state"), "the end")
