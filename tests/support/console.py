"""A console as a process, and a browser without scripts: cookies, links, forms over http.client.

`tests/interop/console` also drives a real browser.
"""

import http.client
import os
import re
import signal
import ssl
import subprocess
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple
from urllib.parse import urlencode, urlsplit

from tests.support import nursery
from tests.support.nursery import Nursling
from tests.support.process import DAYBOOK, STOP_SECONDS, wait_for

ANSWER_SECONDS: Final = 60.0
_READY: Final = re.compile(r"^ready (http\S+)$", re.MULTILINE)
_OF_FORMS: Final = re.compile(r"/b/[^/]+/do/")
"""Where a form leads: to its question, to what was done, and back to it."""
_LINK: Final = re.compile(r"^log in as the operator: \S+(/enter/\S+)$", re.MULTILINE)


class ConsoleProcess:
    """`daybook console` on a free port, as a context manager."""

    def __init__(self, folder: Path, *words: str, link: bool = True) -> None:
        self.output: Final = folder / "console.out"
        self.log: Final = folder / "console.log"
        self._words: Final = (*words, "--link" if link else "--no-link")
        self._process: subprocess.Popen[bytes] | Nursling | None = None
        self.url = ""

    def __enter__(self) -> "ConsoleProcess":
        command = [DAYBOOK, "console", "--listen", "http://127.0.0.1:0", *self._words]
        with self.output.open("wb") as output, self.log.open("wb") as log:
            self._process = nursery.popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=log,
                start_new_session=True, env=os.environ | {"PYTHONWARNINGS": "default"},
            )  # fmt: skip
        wait_for(lambda: _READY.search(self.said()) or self.process.poll() is not None, "ready")
        found = _READY.search(self.said())
        assert found, self.log_text()
        self.url = found[1]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(STOP_SECONDS)

    @property
    def process(self) -> "subprocess.Popen[bytes] | Nursling":
        """The process."""
        assert self._process is not None
        return self._process

    def said(self) -> str:
        """Everything on standard output."""
        return self.output.read_text("utf-8")

    def log_text(self) -> str:
        """Everything on standard error."""
        return self.log.read_text("utf-8")

    @property
    def link(self) -> str:
        """The path of the link for the operator."""
        found = wait_for(lambda: _LINK.search(self.said()), "the link")
        return str(found[1])

    def stop(self) -> int:
        """Send SIGTERM; return the exit code."""
        self.process.terminate()
        return self.process.wait(STOP_SECONDS)


class Shown(NamedTuple):
    """An answer: its status, headers, and text."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def words(self) -> str:
        """What people read, without the marks."""
        return " ".join(unescape(re.sub(r"<[^>]*>", " ", self.text)).split())

    @property
    def error(self) -> str:
        """The error that the page shows, "" if it shows none."""
        found = re.search(r'role="alert">([^<]*)<', self.text)
        return unescape(found[1]) if found else ""


class Form(HTMLParser):
    """The fields of the last form of a page that has a CSRF token, with their values."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}
        self.action = ""
        self._area = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a form or field."""
        found = dict(attrs)
        name = found.get("name") or ""
        if tag == "form":
            self.fields, self.action = {}, found.get("action") or ""
        elif tag == "input" and found.get("type") == "checkbox":
            if "checked" in found:
                self.fields[name] = found.get("value") or ""
        elif tag == "input":
            self.fields[name] = found.get("value") or ""
        elif tag == "textarea":
            self._area, self.fields[name] = name, ""
        elif tag == "select":
            self.fields[name] = ""

    def handle_data(self, data: str) -> None:
        """Note the text of a field."""
        if self._area:
            self.fields[self._area] += data

    def handle_endtag(self, tag: str) -> None:
        """End a field."""
        if tag == "textarea":
            self._area = ""


class Browser:
    """Follows links and sends forms, as a person without scripts does."""

    def __init__(self, console: ConsoleProcess, trusting: ssl.SSLContext | None = None) -> None:
        """`trusting` has the authorities that are trusted where the console speaks TLS."""
        self.url: Final = console.url
        self._trusting: Final = trusting
        self._place: Final = urlsplit(console.url)
        self.cookies: dict[str, str] = {}
        self.path = ""

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._place.hostname or "", self._place.port
        if self._trusting is None:
            return http.client.HTTPConnection(host, port, timeout=ANSWER_SECONDS)
        return http.client.HTTPSConnection(
            host, port, timeout=ANSWER_SECONDS, context=self._trusting
        )

    def ask(
        self, method: str, path: str, body: str | None = None, headers: dict[str, str] | None = None
    ) -> Shown:
        """Send one request, and keep the cookies of the answer."""
        connection = self._connect()
        sent = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        if body is not None:
            sent["Content-Type"] = "application/x-www-form-urlencoded"
        connection.request(method, path, body, sent | (headers or {}))
        answer = connection.getresponse()
        text = answer.read().decode("utf-8")
        for cookie in answer.headers.get_all("set-cookie") or []:
            name, _, value = cookie.partition(";")[0].partition("=")
            self.cookies[name] = value.strip('"')
        connection.close()
        self.path = path
        return Shown(answer.status, {k.lower(): v for k, v in answer.headers.items()}, text)

    def get(self, path: str, **query: str | int) -> Shown:
        """Show a page, wherever it leads."""
        path += f"?{urlencode(query)}" if query else ""
        shown = self.ask("GET", path)
        for _ in range(5):
            if "location" not in shown.headers:
                break
            where = urlsplit(shown.headers["location"])
            shown = self.ask("GET", f"{where.path}?{where.query}" if where.query else where.path)
        return shown

    def post(self, path: str, fields: dict[str, str]) -> Shown:
        """Send a form."""
        return self.ask("POST", path, urlencode(fields))

    def submit(self, shown: Shown, **fields: str) -> Shown:
        """Fill in the form of a page, and send it; show the page with the question, or with what it
        did."""
        form = Form(shown.text)
        answer = self.post(form.action, form.fields | fields)
        result = answer.headers.get("location", "")
        return self.get(result) if _OF_FORMS.match(result) else answer

    def log_in(self, login: str, passcode: str, **more: str) -> Shown:
        """Log in."""
        shown = self.submit(self.get("/login"), login=login, passcode=passcode, **more)
        return self.get(shown.headers["location"]) if "location" in shown.headers else shown

    def do(self, path: str, /, **fields: str) -> Shown:
        """Fill in the form of a command, and confirm it."""
        asked = self.submit(self.get(path), **fields)
        assert 'name="confirmed"' in asked.text, asked.words
        return self.submit(asked)
