"""The record of clients, checked against the broker's promises.

The ledger is kept by the clients alone; the broker is not asked. Bodies are unique: each is sent
once and never again, so a body that was under way at a crash is in doubt, and both outcomes are
right. No client of the workload closes a connection cleanly while it holds a delivery, so every
delivery that a client saw counts.
"""

import threading
from collections.abc import Iterable
from typing import Final


class Miscounted(str):
    """A violation about a delivery count, or the flag that follows from it."""

    __slots__ = ()


class Misordered(str):
    """A violation of the order of first deliveries; a missing flag makes one a first."""

    __slots__ = ()


class Ledger:
    """Shared by all client threads; `violations` must stay empty.

    Those about delivery counts and flags are `Miscounted`.
    """

    def __init__(self) -> None:
        self.lock: Final = threading.Lock()
        self.sent: set[str] = set()
        self.receipted: set[str] = set()
        self.counts: dict[str, int] = {}
        self.settling: set[str] = set()
        self.confirmed: set[str] = set()
        self.aborted: set[str] = set()
        self.groups: list[tuple[str, ...]] = []
        self.dead: dict[str, int] = {}
        self.forwards: dict[str, str] = {}
        self.drained: set[str] = set()
        self.violations: list[str] = []
        self.redelivered = 0
        self.waiting = 0
        self.must_serve = False
        """Whether the broker must keep all connections now."""
        self.unsynced: set[str] | None = None
        """The messages sent since the disk hangs; None while it does not."""

    # ---- reports of producers

    def sending(self, *bodies: str) -> None:
        """These are about to be sent."""
        with self.lock:
            assert self.sent.isdisjoint(bodies), "a body is sent once"
            self.sent.update(bodies)
            if self.unsynced is not None:
                self.unsynced.update(bodies)

    def sending_together(self, bodies: tuple[str, ...]) -> None:
        """These are about to be sent in one transaction: all arrive, or none."""
        self.sending(*bodies)
        with self.lock:
            self.groups.append(bodies)

    def sent_receipted(self, bodies: Iterable[str]) -> None:
        """The broker gave a receipt for these."""
        with self.lock:
            for body in bodies:
                if self.unsynced and body in self.unsynced:
                    self.violations.append(
                        f"{body} had its receipt although no sync had returned since it was sent"
                    )
                self.receipted.add(body)
                self.waiting += ">" not in body

    def given_up(self, bodies: Iterable[str]) -> None:
        """These were sent in a transaction that was then aborted."""
        with self.lock:
            self.aborted.update(bodies)

    # ---- reports of consumers

    def delivered(self, body: str, count: int, is_flagged: bool) -> None:
        """A MESSAGE was read."""
        with self.lock:
            before = self.counts.get(body, 0)
            self.counts[body] = max(before, count)
            self.redelivered += is_flagged
            if body not in self.sent:
                self.violations.append(f"{body} was never sent")
            if body in self.confirmed:
                self.violations.append(f"{body} came back after the receipt for its ACK")
            if body in self.aborted:
                self.violations.append(f"{body} was delivered though its transaction was aborted")
            if before and not is_flagged:
                self.violations.append(Miscounted(f"{body} came again without redelivered:true"))
            if count <= before:
                said = f"{body} had delivery count {before} and now {count}"
                self.violations.append(Miscounted(said))
            if is_flagged != (count > 1):
                said = f"{body}: redelivered={is_flagged} at count {count}"
                self.violations.append(Miscounted(said))

    def acknowledging(self, body: str, output: str = "") -> None:
        """Record that an ACK is about to be written; `output` is sent in the same transaction."""
        with self.lock:
            self.settling.add(body)
            self.forwards[body] = output

    def ack_receipted(self, body: str) -> None:
        """The broker gave a receipt for an ACK."""
        with self.lock:
            self.confirmed.add(body)

    def buried(self, body: str, message: int, *, is_flagged: bool) -> None:
        """A dead letter was read, with this message id."""
        with self.lock:
            if body not in self.sent:
                self.violations.append(f"the dead letter {body} was never sent")
            if body in self.confirmed:
                self.violations.append(f"{body} is a dead letter after the receipt for its ACK")
            if self.dead.get(body, message) != message:
                self.violations.append(f"{body} became a dead letter twice")
            elif body in self.dead and not is_flagged:
                said = f"the dead letter {body} came again without redelivered:true"
                self.violations.append(Miscounted(said))
            self.dead[body] = message

    def disk_hangs(self, *, hangs: bool) -> None:
        """No sync returns that begins from now on; or they return again, from now on."""
        with self.lock:
            self.unsynced = set() if hangs else None

    def dropped(self, name: str) -> None:
        """The connection of a client ended, and the client did not end it."""
        with self.lock:
            if self.must_serve:
                self.violations.append(f"{name}: the broker dropped the connection, and ran on")

    def complain(self, text: str) -> None:
        """Something happened that must not happen."""
        with self.lock:
            self.violations.append(text)

    @property
    def broken(self) -> str:
        """The promise that the violations break: P5 if counts and flags explain all, else P1."""
        kinds = {type(each) for each in self.violations}
        return "P5" if Miscounted in kinds and kinds <= {Miscounted, Misordered} else "P1"

    @property
    def open(self) -> int:
        """About how many bodies wait in the broker for a consumer."""
        return self.waiting - len(self.settling)

    # ---- the end

    def check_drained(self) -> None:
        """Check after draining that every required message arrived, and that transactions were
        atomic.
        """
        arrived = self.counts.keys() | self.dead
        complain = self.violations.append
        for body in sorted(self.receipted - arrived):
            complain(f"{body} had its receipt and was lost")
        unsettled = (self.receipted & arrived) - self.drained - self.settling
        for body in sorted(unsettled - self.dead.keys()):
            complain(f"{body} had its receipt, was never acknowledged, and is gone")
        for group in self.groups:
            missing = [body for body in group if body not in arrived]
            if missing and len(missing) < len(group):
                complain(f"a transaction arrived without {', '.join(missing)}")
        outputs: dict[str, list[str]] = {}
        for body in arrived:
            source, arrow, count = body.partition(">")
            if arrow:
                outputs.setdefault(source, []).append(count)
        for source, counts in outputs.items():
            taken = source in self.drained or source in self.dead
            if counts != [str(self.counts.get(source))] or taken:
                complain(
                    f"{source} was forwarded at {counts} and delivered {self.counts.get(source)}"
                )
        for body, output in self.forwards.items():
            gone = body not in self.drained and body not in self.dead
            if gone and output == f"{body}>{self.counts[body]}" and output not in arrived:
                complain(f"the ACK of {body} was committed without its output {output}")

    def summary(self) -> str:
        """Counts for people."""
        return (
            f"sent {len(self.sent)}, receipted {len(self.receipted)}, delivered "
            f"{len(self.counts)}, acks receipted {len(self.confirmed)}, redelivered "
            f"{self.redelivered}, violations {len(self.violations)}"
        )
