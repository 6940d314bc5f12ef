"""An honest client in a separate process: measures its round trips, whatever other clients do.

A round: SEND with a receipt to a queue of its own, wait for the RECEIPT and for the MESSAGE, ACK
with a receipt, wait for that; `amqp_rounds` has those of AMQP. Measured is the time from the SEND
until both answers have come, in milliseconds. Each message must come once, whole and not flagged as
redelivered. The client is a process, so that an attacker in this process takes no time of its
interpreter; between two rounds it rests, so that it is not a load itself.

It is used by the tests of attacks and by the benchmark of them. Must never know the attack.
"""

import json
import os
import select
import sys
import time
from typing import Final

from bench.load.amqp_rounds import AmqpRounds
from bench.load.child import Child
from bench.load.frames import LoadError
from bench.load.stomp import StompWire
from bench.load.wire import Endpoint

REST_SECONDS: Final = 0.002
STALL_SECONDS: Final = 120.0
BODY: Final = "an honest message "
UNTIL_TOLD: Final = "begin"


class Honest(Child):
    """The owner's handle of the client; `port` is that of an acceptor.

    Every call raises LoadError when the client was harmed: a message lost, doubled or flagged, an
    ERROR frame, a connection that was closed, or two minutes of silence.
    """

    def __init__(
        self,
        port: int,
        *,
        queue: str = "honest",
        login: str = "",
        passcode: str = "",
        protocol: str = "stomp",
    ) -> None:
        """It connects and subscribes on entry; with `amqp` as a guest."""
        super().__init__(
            "the honest client", "bench.load.honest", str(port), queue, login, passcode, protocol
        )

    def measure(self, rounds: int) -> list[float]:
        """Do so many rounds and return how long each took."""
        self.say(str(rounds))
        return self._times()

    def begin(self) -> None:
        """Begin rounds that continue until `end`; there is at least one."""
        self.say(UNTIL_TOLD)

    def end(self) -> list[float]:
        """End the rounds, and return how long each took."""
        self.say("end")
        return self._times()

    def _times(self) -> list[float]:
        times: list[float] = self.answer()["ms"]
        return times


def percentile(durations: list[float], share: float) -> float:
    """Return the duration that `share` (0 to 1) of them do not exceed."""
    ordered = sorted(durations)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


# ---- the process


class _Rounds:
    """The rounds of one connection."""

    def __init__(self, endpoint: Endpoint, queue: str) -> None:
        self._wire: Final = StompWire(endpoint, "honest client", STALL_SECONDS)
        self._queue: Final = queue
        self._number = 0
        self._wire.fence(
            f"SUBSCRIBE\nid:0\ndestination:/queue/{queue}\nack:client-individual\n\n", "subscribed"
        )

    def round(self) -> float:
        """Do one round and return how many milliseconds it took."""
        self._number += 1
        body = f"{BODY}{self._number}"
        begun = time.perf_counter()
        self._wire.put(
            f"SEND\ndestination:/queue/{self._queue}\npersistent:true\nreceipt:s{self._number}\n"
            f"\n{body}\0".encode()
        )
        frames = self._frames(2)
        took = (time.perf_counter() - begun) * 1000
        message = next((frame for frame in frames if frame.startswith("MESSAGE\n")), "")
        receipt = next((frame for frame in frames if frame.startswith("RECEIPT\n")), "")
        if not message.endswith(f"\n\n{body}") or "\nredelivered:true" in message or not receipt:
            raise LoadError(f"round {self._number}: unexpected answers {frames!r}")
        ack = next(line[4:] for line in message.split("\n") if line.startswith("ack:"))
        self._wire.put(f"ACK\nid:{ack}\nreceipt:a{self._number}\n\n\0".encode())
        (settled,) = self._frames(1)
        if f"\nreceipt-id:a{self._number}\n" not in settled:
            raise LoadError(f"round {self._number}: unexpected answer {settled!r}")
        return took

    def _frames(self, count: int) -> list[str]:
        found: list[str] = []
        while len(found) < count:
            data = self._wire.receive(lambda: f"an answer of round {self._number}")
            found += [frame.lstrip("\r\n") for frame in data.decode().split("\0")[:-1]]
        return found


class _Owner:
    """The owner of this process, which sends lines to the standard input."""

    def __init__(self) -> None:
        self._buffer = b""

    def line(self) -> str:
        """Wait for the next line; empty when there are no more."""
        while b"\n" not in self._buffer:
            data = os.read(sys.stdin.fileno(), 4096)
            if not data:
                return ""
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode()

    def rest(self) -> bool:
        """Pause for a moment; return whether a line arrived meanwhile."""
        ready = select.select([sys.stdin], [], [], REST_SECONDS)[0]
        return bool(self._buffer or ready)


def main(arguments: list[str]) -> int:
    """Run the process: each line of the input begins or ends rounds, and is answered by a line."""
    port, queue, login, passcode, protocol = arguments
    owner = _Owner()
    rounds: AmqpRounds | _Rounds
    try:
        if protocol == "amqp":
            rounds = AmqpRounds(int(port), queue)
        else:
            rounds = _Rounds(Endpoint(int(port), login, passcode, "/", "prefetch"), queue)
        print('{"ms": []}', flush=True)
        while line := owner.line():
            found = [rounds.round()]
            if line == UNTIL_TOLD:
                while not owner.rest():
                    found.append(rounds.round())
                owner.line()
            else:
                while len(found) < int(line):
                    time.sleep(REST_SECONDS)
                    found.append(rounds.round())
            print(json.dumps({"ms": found}), flush=True)
    except LoadError as error:
        print(json.dumps({"wrong": str(error)}), flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
