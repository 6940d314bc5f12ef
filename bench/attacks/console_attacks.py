"""Attacks on the console of a broker: by strangers, by slow browsers, and by users with many tabs.

Beside each of them an honest browser asks for a list again and again, and must be answered; and the
console must stay below MEMORY_BYTES_MAX. Otherwise the attack fails, which is an error of the run.
The measurements are written to standard error.
"""

import contextlib
import http.client
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from bench.attacks.scenarios import SECONDS, STALL_SECONDS, Scenario
from bench.load.frames import LoadError
from bench.load.honest import percentile
from daybook.server.process.descriptors import raise_limit

MEMORY_BYTES_MAX: Final = 384 << 20
"""The most memory that the console may take; its work on history is beside that."""
REST_SECONDS: Final = 0.05
THREADS: Final = 5
FORM: Final = {"Content-Type": "application/x-www-form-urlencoded"}


class Console:
    """A console as a process, which ends with this one, and a browser that is logged in there."""

    def __init__(self, data: Path) -> None:
        self._process: Final = subprocess.Popen(
            [
                sys.executable, "-P", "-m", "daybook", "console", "--with-broker", "--no-link",
                "--data", str(data), "--listen", "http://127.0.0.1:0",
            ],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdout is not None
        line = self._process.stdout.readline().decode()
        if not line.startswith("ready "):
            raise LoadError(f"the console said {line!r}")
        self.port: Final = int(line.strip().rpartition(":")[2])
        self.path: Final = f"/b/{data.name}"
        self.cookie = ""
        self.log_in()

    def log_in(self) -> None:
        """Log in as guest."""
        form = {"login": "guest", "passcode": "guest", "broker": self.path[3:], "next": "/"}
        answer = self.ask("POST", "/login", urlencode(form))
        self.cookie = (answer.getheader("set-cookie") or "").partition(";")[0]
        if not self.cookie.startswith("daybook-"):
            raise LoadError(f"guest cannot log in: {answer.status}")

    def ask(self, method: str, path: str, body: str | None = None) -> http.client.HTTPResponse:
        """Send a request on a connection of its own; return the answer, read to its end."""
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=STALL_SECONDS)
        line.request(method, path, body, {"Cookie": self.cookie, **(FORM if body else {})})
        answer = line.getresponse()
        answer.read()
        line.close()
        return answer

    def begun(self, path: str) -> bytes:
        """Return a request of the browser, without its end."""
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nCookie: {self.cookie}\r\n"
        return head.encode()

    def connect(self, stack: contextlib.ExitStack, data: bytes, *, buffer: int = 0) -> None:
        """Open a connection, send, and never read."""
        line = stack.enter_context(socket.socket())
        if buffer:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        line.settimeout(STALL_SECONDS)
        # A console that has enough of it may close it meanwhile.
        with contextlib.suppress(ConnectionError):
            line.connect(("127.0.0.1", self.port))
            line.sendall(data)

    def peak_bytes(self) -> int:
        """Return the most memory that it ever took."""
        text = Path(f"/proc/{self._process.pid}/status").read_text("ascii")
        return int(text.partition("VmHWM:")[2].split()[0]) * 1024


class OnConsole(Scenario):
    """An attack on a console beside the broker."""

    def connect(self) -> Console:
        """Start the console, and be allowed as many connections as it."""
        raise_limit()
        return Console(self.data)

    def harm(self, stack: contextlib.ExitStack, console: Console) -> None:
        """Begin what harms; it ends with the stack."""
        raise NotImplementedError

    def attack(self) -> None:
        """Browse honestly meanwhile."""
        console: Console = self.peer
        took: list[float] = []
        with contextlib.ExitStack() as stack:
            self.harm(stack, console)
            until = time.monotonic() + SECONDS * self.scale
            while time.monotonic() < until or not took:
                begun = time.perf_counter()
                answer = console.ask("GET", f"{console.path}/list/queues")
                took.append((time.perf_counter() - begun) * 1000)
                if answer.status != http.client.OK:
                    raise LoadError(f"the honest browser was answered with {answer.status}")
                time.sleep(REST_SECONDS)
        peak = console.peak_bytes()
        print(
            f"browser: {percentile(took, 0.5):.0f} ms, at most {max(took):.0f} ms;"
            f" console: {peak >> 20} MiB",
            file=sys.stderr,
        )
        if peak > MEMORY_BYTES_MAX:
            raise LoadError(f"the console took {peak >> 20} MiB")


@contextlib.contextmanager
def _again(
    work: Callable[[], object], count: int = THREADS, patience: float = STALL_SECONDS
) -> Iterator[None]:
    """Do something again and again, in several threads; wait so long for the end of the last."""
    is_over = threading.Event()

    def loop() -> None:
        while not is_over.is_set():
            # Refused, closed and slow is what an attacker has to expect.
            with contextlib.suppress(OSError, http.client.HTTPException):
                work()

    threads = [threading.Thread(target=loop, daemon=True) for _ in range(count)]
    for each in threads:
        each.start()
    try:
        yield
    finally:
        is_over.set()
        for each in threads:
            each.join(patience)


class Requests(OnConsole):
    """requests of strangers to the console, as many as it answers"""

    def harm(self, stack: contextlib.ExitStack, console: Console) -> None:
        """Ask for pages of all kinds."""
        for path in ("/login", f"{console.path}/list/queues", "/static/console.css"):
            stack.enter_context(_again(lambda path=path: self._ask(console, path)))  # type: ignore[misc]

    @staticmethod
    def _ask(console: Console, path: str) -> None:
        line = http.client.HTTPConnection("127.0.0.1", console.port, timeout=STALL_SECONDS)
        for _ in range(100):
            line.request("GET", path)
            line.getresponse().read()
        line.close()


class Logins(OnConsole):
    """wrong logins at the console, as many as it answers"""

    def harm(self, stack: contextlib.ExitStack, console: Console) -> None:
        """Guess."""
        form = {"login": "guest", "passcode": "guess", "broker": console.path[3:]}
        stack.enter_context(_again(lambda: console.ask("POST", "/login", urlencode(form))))


class Silent(OnConsole):
    """1,500 connections to the console that send nothing, half a request, huge headers or forms"""

    def harm(self, stack: contextlib.ExitStack, console: Console) -> None:
        """Open them."""
        begun = console.begun("/login")
        post = begun.replace(b"GET", b"POST") + b"Content-Length: 99999999\r\n\r\n"
        kinds = b"", begun, begun + b"X: " + bytes(100_000), post + b"x" * 60_000
        for number in range(1500):
            console.connect(stack, kinds[number % len(kinds)])


class Deaf(OnConsole):
    """300 browsers that ask the console for 20 large files each and read none"""

    def harm(self, stack: contextlib.ExitStack, console: Console) -> None:
        """Ask for all in one go."""
        wanted = console.begun("/static/vendor/htmx-2.0.11.min.js") + b"\r\n"
        for _ in range(300):
            console.connect(stack, wanted * 20, buffer=4096)


class Tabs(OnConsole):
    """1,000 tabs of the overview that renew themselves"""

    def harm(self, stack: contextlib.ExitStack, console: Console) -> None:
        """Open them; more than the console has places for."""
        for _ in range(1000):
            console.connect(stack, console.begun(f"{console.path}/live") + b"\r\n")


class Stories(OnConsole):
    """50 stories of one user at once, again and again"""

    def prepare(self) -> None:
        """Have something to look for."""
        self.fill("/queue/told", 20_000)

    def harm(self, stack: contextlib.ExitStack, console: Console) -> None:
        """Ask; most of them are refused at once."""
        for _ in range(50 // THREADS + 1):
            path = f"{console.path}/events?kind=Acknowledged"
            asked = _again(lambda path=path: console.ask("GET", path), patience=0)  # type: ignore[misc]
            stack.enter_context(asked)


class Queries(OnConsole):
    """queries in SQL that would take days, one after the other until their time is over"""

    def prepare(self) -> None:
        """Have a history."""
        self.fill("/queue/told", 20_000)

    def harm(self, stack: contextlib.ExitStack, console: Console) -> None:
        """Ask for each event beside each other one, thrice."""
        sql = "SELECT sum(a.lsn * b.lsn % 7 + c.lsn) FROM events a, events b, events c"
        path = f"{console.path}/sql?{urlencode({'q': sql})}"
        # A user has one at a time; the end of the console is that of the last.
        stack.enter_context(_again(lambda: console.ask("GET", path), count=1, patience=0))


SCENARIOS: Final[dict[str, type[Scenario]]] = {
    "console-requests": Requests,
    "console-logins": Logins,
    "console-silent": Silent,
    "console-deaf": Deaf,
    "console-tabs": Tabs,
    "console-stories": Stories,
    "console-queries": Queries,
}
