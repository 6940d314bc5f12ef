"""A client that looks at a broker under a hardship, when its disk hangs or is full.

It has three connections: a quiet one that only listens to heart-beats, one that sends messages, and
one that uses up space with subscriptions. It asks the administration, too. Each wait is for an
event, and has a limit that a busy machine does not reach. Must never know the hardship.
"""

import random
import string
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from daybook.client import stomp
from daybook.client.control import ControlError, ask
from daybook.client.endpoint import Endpoint
from daybook.errors import DaybookError
from daybook.tools.drills.clients.client import LOGIN, Gone, Receipt, Refused, StompClient, padded
from daybook.tools.drills.clients.ledger import Ledger
from daybook.tools.drills.clients.workload import ORDERS, SPACE

BEAT_MS: Final = 200
ANSWER_SECONDS: Final = 30.0
"""A broker that does not answer for so long does not answer."""
HEADER_BYTES: Final = 10 * 1024
FILTER_BYTES: Final = 4000
"""The length of a filter of random letters, which no compression makes much shorter."""
SPACE_BYTES: Final = FILTER_BYTES // 2
"""The least size of the event of such a subscription."""
POLL_SECONDS: Final = 0.02


class Wrong(DaybookError):
    """The drill cannot continue; the text says which promise is broken, and how."""

    def __init__(self, promise: str, what: str) -> None:
        self.promise: Final = promise
        super().__init__(what)


class Witness:
    """A context manager; `name` begins the bodies of its messages."""

    def __init__(self, data: Path, port: int, ledger: Ledger, name: str) -> None:
        """Connect. Raises Wrong."""
        self._data: Final = data
        self._ledger: Final = ledger
        self._name: Final = name
        self._chance: Final = random.Random(name)
        self._serial = 0
        self._waiting: Final[dict[str, bool]] = {}
        """Receipts that are awaited, and whether each is of a message."""
        with ExitStack() as undoing:
            try:
                self._quiet: Final = stomp.StompClient(
                    Endpoint("127.0.0.1", port, LOGIN, LOGIN), heart_beat_ms=BEAT_MS
                )
                undoing.callback(self._quiet.__exit__)
                self._sender: Final = StompClient(port)
                undoing.callback(self._sender.cut)
                self._filler: Final = StompClient(port)
                undoing.callback(self._filler.cut)
            except (stomp.StompError, Gone) as error:
                raise Wrong("P8", f"a client cannot connect: {error}") from error
            self._closing: Final = undoing.pop_all()

    def __enter__(self) -> "Witness":
        return self

    def __exit__(self, *failure: object) -> None:
        self._closing.close()

    def send(self, length: int = 0) -> None:
        """Send a message that asks for a receipt. Raises Wrong."""
        self._serial += 1
        body = f"{self._name}-{self._serial}"
        self._ledger.sending(body)
        self._waiting[body] = True
        try:
            self._sender.send(ORDERS, padded(body, length), body)
        except Gone as gone:
            raise Wrong("P8", "the broker dropped the connection of a producer") from gone

    def use_space(self) -> None:
        """Subscribe to a long unused name, which takes space in the journal. Raises Wrong."""
        self._serial += 1
        name = f"{self._name}-{self._serial}"
        words = "".join(self._chance.choices(string.ascii_letters + string.digits, k=FILTER_BYTES))
        self._waiting[name] = False
        try:
            self._filler.subscribe(SPACE, name, 1, f"drill = '{words}'", name)
        except Gone as gone:
            raise Wrong("P8", "the broker dropped the connection of a consumer") from gone

    def answers(self) -> int:
        """Read all input; return the number of receipts. Raises Wrong."""
        count = 0
        for client in (self._sender, self._filler):
            try:
                while (heard := client.receive(0)) is not None:
                    if isinstance(heard, Receipt):
                        count += 1
                        if self._waiting.pop(heard.id):
                            self._ledger.sent_receipted([heard.id])
                    elif isinstance(heard, Refused):
                        raise Wrong("P8", f"the broker refused: {heard.text}")
            except Gone as gone:
                raise Wrong("P8", "the broker dropped a connection, and ran on") from gone
        return count

    @property
    def waits(self) -> int:
        """How many receipts are awaited."""
        return len(self._waiting)

    def look(self, when: str) -> dict[str, Any]:
        """See that the administration answers and heart-beats come; return the status.

        `when` ends the sentence about a fault. Raises Wrong.
        """
        try:
            status = ask(self._data, {"do": "status"}, ANSWER_SECONDS)
        except ControlError as error:
            raise Wrong("P8", f"the administration does not answer {when}: {error}") from error
        if status is None:
            raise Wrong("P8", f"the administration is gone {when}")
        since = time.monotonic()
        while time.monotonic() - self._quiet.silence <= since:
            if time.monotonic() - since > ANSWER_SECONDS:
                raise Wrong("P8", f"no heart-beat comes {when}")
            try:
                self._quiet.frame(POLL_SECONDS)
            except stomp.StompError as error:
                raise Wrong("P8", f"the broker dropped a quiet connection {when}") from error
        return status

    def await_answers(self, when: str) -> None:
        """Wait until every answer is there. Raises Wrong."""
        since = time.monotonic()
        while self._waiting:
            if self.answers():
                since = time.monotonic()
            elif time.monotonic() - since > ANSWER_SECONDS:
                raise Wrong("P8", f"{len(self._waiting)} answers do not come {when}")
            else:
                time.sleep(POLL_SECONDS)
