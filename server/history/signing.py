"""The broker's side of its notary: statements to sign, and signed ones (ADR 66).

The broker never waits for the notary, a separate process: a statement is asked for after a
checkpoint, and journaled when it comes. Fault model: the notary may die, then another is started
after a pause; it may hang, then it is killed; its key may be unreadable, then the one before stays
in use, and status and log say so. Must never know a key, nor how anything is signed.
"""

import asyncio
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from daybook.engine.administration.signatures import RecordKeyChange, RecordSignature
from daybook.engine.commands import Command
from daybook.engine.refusals import Refusal
from daybook.paging.tables.child_processes import child_command
from daybook.recovery.signing.statements import Statement, key_id
from daybook.server.configuration.anchor_targets import LOG, shown
from daybook.server.configuration.config import JournalConfig
from daybook.server.history.notary_messages import (
    ANSWERS,
    Anchored,
    Answer,
    Changed,
    Configure,
    Failed,
    Kept,
    Ready,
    Refused,
    Request,
    Sign,
    Signed,
)
from daybook.server.hub.hub import Hub
from daybook.server.process import logs

RESTART_SECONDS: Final = 1.0
RESTART_SECONDS_MAX: Final = 60.0
ANSWER_SECONDS: Final = 120.0
"""How long the notary may owe an answer; the first statement may have much to read."""
TICK_SECONDS: Final = 1.0
FINISH_SECONDS: Final = 5.0
STEP_SECONDS: Final = 0.02
READ_BYTES: Final = 65_536

Answered: TypeAlias = Callable[[int | Refusal], None]

log = logs.logger("signing")


class Signing:
    """The notary of a broker.

    `record` journals a command that does not count as news, and calls back when it is durable.
    """

    def __init__(
        self,
        hub: Hub,
        path: Path,
        loop: asyncio.AbstractEventLoop,
        config: Callable[[], JournalConfig],
        record: Callable[[Command, Answered], None],
        *,
        after: int,
    ) -> None:
        """`after` is the last event before this start, behind which a first statement begins."""
        self._hub: Final = hub
        self._path: Final = path
        self._loop: Final = loop
        self._config: Final = config
        self._record: Final = record
        self._after: Final = after
        self._process: subprocess.Popen[bytes] | None = None
        self._ending: list[subprocess.Popen[bytes]] = []
        self._received = b""
        self._configured: Configure | None = None
        self._wanted: Sign | None = None
        self._asked_at = 0.0
        self._wait = RESTART_SECONDS
        self._next_start = 0.0
        self._key = ""
        self._signed_lsn = 0
        self._trouble = ""
        self._refused = ""
        self._anchored: dict[str, int] = {}
        self._anchor_troubles: dict[str, str] = {}

    # ---- called by the service, in the loop

    def checkpointed(self, lsn: int, digest: str) -> None:
        """Ask for a statement about history up to a checkpoint."""
        if self._config().signing_key:
            self._wanted = Sign(lsn, digest, self._after)
            self.tick()

    def tick(self) -> None:
        """Start, configure, ask and judge the notary, if there is a key; call it every second."""
        self._ending = [each for each in self._ending if each.poll() is None]
        config = self._config()
        if not config.signing_key:
            self.drop()
            self._trouble = self._refused = self._key = ""
            return
        now = time.monotonic()
        if self._process is None:
            if now < self._next_start:
                return
            self._start(now)
        self._configure(config, again=False)
        if self._asked_at and now - self._asked_at > ANSWER_SECONDS:
            self._ended("it does not answer and was killed")
        elif self._wanted is not None and not self._asked_at:
            wanted, self._wanted = self._wanted, None
            self._asked_at = now
            self._send(wanted)

    def reload(self) -> None:
        """Use the key and the places of the configuration, and read the key again."""
        if self._process is not None and self._config().signing_key:
            self._configure(self._config(), again=True)
        self.tick()

    async def finish(self, seconds: float) -> None:
        """Let the end of a broker be signed and anchored, if that is quick; then end the notary."""
        process = self._process
        if process is not None and self._hub.failure is None:
            self._send(Sign(self._hub.broker.lsn, "", self._after, last=True))
            give_up = time.monotonic() + min(FINISH_SECONDS, seconds)
            while process.poll() is None and time.monotonic() < give_up:
                await asyncio.sleep(STEP_SECONDS)
            if process.poll() is None:
                log.warning("the end of the journal was not signed and anchored in time")
        self.drop()

    def status(self) -> dict[str, Any]:
        """For `daybook status`, health and metrics."""
        wanted = [place for place in self._config().anchors if self._config().signing_key]
        return {
            "signing_key": self._key,
            "signed_lsn": self._signed_lsn,
            "signing_trouble": self._refused or self._trouble,
            "anchored_lsn": min((self._anchored.get(each, 0) for each in wanted), default=0),
            "anchor_trouble": "; ".join(
                f"{shown(place)}: {why}" for place, why in self._anchor_troubles.items() if why
            ),
        }

    # ---- the process

    def _start(self, now: float) -> None:
        self._next_start = now + self._wait
        self._wait = min(2 * self._wait, RESTART_SECONDS_MAX)
        words = [str(self._path.absolute()), str(os.getpid())]
        try:
            process = subprocess.Popen(
                child_command("daybook.server.history.notary", *words),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            self._in_trouble(f"the notary cannot be started: {error.strerror}")
            return
        assert process.stdin is not None
        assert process.stdout is not None
        os.set_blocking(process.stdin.fileno(), False)
        os.set_blocking(process.stdout.fileno(), False)
        self._process = process
        self._received = b""
        self._configured = None
        self._asked_at = 0.0
        self._loop.add_reader(process.stdout.fileno(), self._receive)

    def _configure(self, config: JournalConfig, *, again: bool) -> None:
        wanted = Configure(config.signing_key, list(config.anchors))
        if self._process is not None and (again or self._configured != wanted):
            self._configured = wanted
            for former in set(self._anchor_troubles) - set(wanted.anchors):
                del self._anchor_troubles[former]
            self._send(wanted)

    def _send(self, request: Request) -> None:
        if self._process is None:
            return
        assert self._process.stdin is not None
        line = msgspec.json.encode(request) + b"\n"
        try:
            # A pipe takes a short line whole or not at all.
            os.write(self._process.stdin.fileno(), line)
        except BlockingIOError:
            self._ended("it does not read requests")
        except OSError:
            # The receiving side notices its end.
            return

    def _receive(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            data = os.read(self._process.stdout.fileno(), READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._ended("it ended")
            return
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            try:
                answer = ANSWERS.decode(line)
            except (msgspec.MsgspecError, ValueError):
                self._ended("its message is invalid")
                return
            self._heard(answer)

    def drop(self) -> None:
        """End the notary without a word."""
        process, self._process = self._process, None
        self._asked_at = 0.0
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        self._loop.remove_reader(process.stdout.fileno())
        process.kill()
        process.stdin.close()
        process.stdout.close()
        # It may wait for a disk that hangs, for which the broker must not wait.
        self._ending.append(process)

    def _ended(self, why: str) -> None:
        self.drop()
        if not self._hub.stopping:
            self._in_trouble(f"the notary failed: {why}; it is started again")

    def _in_trouble(self, text: str) -> None:
        if text != self._trouble:
            log.error("history is not being signed; the broker continues", why=text)
        self._trouble = text

    # ---- messages of the notary

    def _heard(self, answer: Answer) -> None:
        if isinstance(answer, Ready):
            self._key, self._refused = answer.key, ""
            logs.warn_all(log, answer.warnings)
        elif isinstance(answer, Refused):
            self._key = answer.key
            kept = f"the key {answer.key} stays in use" if answer.key else "history is not signed"
            self._refused = f"{answer.why}; {kept}"
            log.error("the signing key cannot be used", why=self._refused)
        elif isinstance(answer, Failed):
            self._asked_at = 0.0
            self._in_trouble(answer.why)
        elif isinstance(answer, Anchored):
            self._note_anchor(answer)
        elif isinstance(answer, Signed) and self._hub.stopping:
            self._show(answer.statement)
        elif self._hub.failure is None and not self._hub.stopping:
            self._journal(answer)

    def _journal(self, answer: Signed | Changed) -> None:
        if isinstance(answer, Changed):
            self._record(RecordKeyChange(answer.change), lambda _: None)
            log.info("the signing key was changed", key=key_id(bytes.fromhex(answer.change.new)))
            return
        statement = answer.statement
        self._asked_at = 0.0
        self._wait = RESTART_SECONDS
        self._trouble = ""

        def journaled(answer: int | Refusal) -> None:
            if not isinstance(answer, Refusal):
                self._signed_lsn = max(self._signed_lsn, statement.lsn)
                self._send(Kept(statement.lsn))

        self._record(RecordSignature(statement.lsn, statement.detail()), journaled)
        self._show(statement)

    def _show(self, statement: Statement) -> None:
        """Write an anchor to the log, if it is a place for anchors."""
        if LOG in self._config().anchors:
            log.info("anchor", **msgspec.to_builtins(statement))
            self._anchored[LOG] = statement.lsn

    def _note_anchor(self, answer: Anchored) -> None:
        before = self._anchor_troubles.get(answer.place, "")
        self._anchor_troubles[answer.place] = answer.why
        if not answer.why:
            self._anchored[answer.place] = max(answer.lsn, self._anchored.get(answer.place, 0))
        if answer.why and answer.why != before:
            log.error("an anchor could not be kept", place=shown(answer.place), why=answer.why)
        elif before and not answer.why:
            log.info("anchors are kept again", place=shown(answer.place), lsn=answer.lsn)
