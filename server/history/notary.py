"""The notary: a process of the broker that signs history and keeps anchors of it (ADR 66).

It alone reads the private key. It reads the blocks that it signs from the disk, as anybody would,
so that it signs their real content. Requests come on standard input, answers leave on standard
output; it ends when the broker does. `DATA/notary.json` has the last statement, so that the next
notary continues where this one ended. Fault model: any file may be missing, damaged or unreadable,
a disk or a peer may hang: the broker does not wait.
"""

import os
import stat
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from daybook.engine.facts.details import KeyChangeDetail
from daybook.journal.blocks.block import Block
from daybook.journal.blocks.format import Damage
from daybook.journal.blocks.trust import limit_blocks
from daybook.journal.data_directory import JOURNAL, NOTARY
from daybook.journal.disk import RealDisk
from daybook.journal.errors import JournalError
from daybook.journal.segments.segment import data_id_of, first_lsn_of
from daybook.journal.writing.lifeline import end_with
from daybook.paging.checks.usability import why_not_of
from daybook.recovery.signing.leaves import Contents, blocks_between, leaf_of
from daybook.recovery.signing.signing_keys import PrivateKey, SigningKeyError, load_private
from daybook.recovery.signing.statements import (
    Noted,
    Statement,
    StatementError,
    change_message,
    noted_in,
)
from daybook.server.configuration.anchor_targets import LOG, Place
from daybook.server.history.notary_messages import (
    REQUESTS,
    Anchored,
    Answer,
    Changed,
    Configure,
    Failed,
    Kept,
    Ready,
    Refused,
    Sign,
    Signed,
)

LAST_SECONDS: Final = 3.0
"""How long the last anchors may take after the broker has ended."""
STEP_SECONDS: Final = 0.02
BEHIND_MAX: Final = 10_000_000
"""A statement that is more events behind is not continued: reading them would take too long."""


class Notary:
    """Signs the history of a data directory; `say` sends an answer."""

    def __init__(self, data: Path) -> None:
        self._path: Final = data / NOTARY
        self._disk: Final = RealDisk(data / JOURNAL)
        self._key: PrivateKey | None = None
        self._places: dict[str, Place] = {}
        self._last: Statement | None = None
        self._begun = False
        self._saying: Final = threading.Lock()

    def say(self, answer: Answer) -> None:
        """Send an answer; also called by the threads of places."""
        line = msgspec.json.encode(answer) + b"\n"
        with self._saying, suppress(BrokenPipeError):
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()

    def configure(self, request: Configure) -> None:
        """Use another key and other places."""
        former = self._key
        try:
            self._key = load_private(Path(request.key))
        except SigningKeyError as error:
            self.say(Refused(str(error), former.id if former is not None else ""))
        else:
            if former is not None and former.id != self._key.id:
                self.say(Changed(self._change(former, self._key)))
            self.say(Ready(self._key.id, warnings_about(Path(request.key))))
        for name in set(self._places) - set(request.anchors):
            self._places.pop(name).end()
        for name in request.anchors:
            if name not in self._places and name != LOG:
                self._places[name] = Place(name, self._on_kept)

    def _on_kept(self, place: str, lsn: int, why: str) -> None:
        self.say(Anchored(place, lsn, why))

    def _change(self, former: PrivateKey, key: PrivateKey) -> KeyChangeDetail:
        change = KeyChangeDetail(
            old=former.public.hex(), new=key.public.hex(), time=time.time_ns() // 1000
        )
        message = change_message(data_id_of(self._disk).hex(), change)
        return msgspec.structs.replace(
            change, signature_old=former.sign(message), signature_new=key.sign(message)
        )

    def sign(self, request: Sign) -> bool:
        """Sign history up to an event; return whether it could be."""
        if self._key is None:
            self.say(Failed("there is no key"))
            return False
        try:
            self._begin(request)
            if self._last is not None and self._last.lsn == request.lsn:
                self.say(Signed(self._last))
                return True
            statement = self._statement(request, self._key)
        except (JournalError, Damage, OSError) as error:
            self.say(Failed(str(error)))
            return False
        self._last = statement
        if request.last:
            self._note(Noted(statement, journaled=False))
        self.say(Signed(statement))
        for place in self._places.values():
            place.put(statement)
        return True

    def _begin(self, request: Sign) -> None:
        """Continue where the last notary ended, if the journal still has that."""
        if self._begun:
            return
        self._begun = True
        noted = self._noted()
        if noted is None or not 0 <= request.lsn - noted.statement.lsn <= BEHIND_MAX:
            return
        known = noted.statement
        if known.data_id != data_id_of(self._disk).hex():
            return
        if why_not_of(self._disk, known.lsn, bytes.fromhex(known.block_hash)):
            return
        self._last = known
        if not noted.journaled:
            # Made at the end of the broker before.
            self.say(Signed(known))

    def _statement(self, request: Sign, key: PrivateKey) -> Statement:
        after = self._last.lsn if self._last is not None else request.after
        begin = max(min(after, request.lsn - 1), first_lsn_of(self._disk) - 1)
        contents = Contents()
        block: Block | None = None
        for each in blocks_between(self._disk, begin, request.lsn):
            if block is None:
                after = each.first_lsn - 1
            contents.add(leaf_of(each).hash())
            block = each
        if block is None or block.last_lsn != request.lsn:
            raise Damage(f"no block in the journal ends with event {request.lsn}")
        statement = Statement(
            data_id_of(self._disk).hex(), request.lsn, block.hash.hex(), request.digest,
            time.time_ns() // 1000, key.id, after, contents.hex(),
        )  # fmt: skip
        return msgspec.structs.replace(statement, signature=key.sign(statement.message()))

    def kept(self, request: Kept) -> None:
        """Note that a statement is journaled."""
        if self._last is not None and self._last.lsn == request.lsn:
            self._note(Noted(self._last, journaled=True))

    def _noted(self) -> Noted | None:
        try:
            return noted_in(self._path)
        except (OSError, StatementError):
            return None

    def _note(self, noted: Noted) -> None:
        """Write the file, whole or not at all; the next notary continues from it."""
        partial = self._path.with_suffix(".part")
        try:
            partial.write_bytes(msgspec.json.encode(noted))
            partial.replace(self._path)
        except OSError as error:
            self.say(Failed(f"{self._path} cannot be written: {error.strerror}"))

    def end(self) -> None:
        """Wait for the last anchors, but not for long."""
        give_up = time.monotonic() + LAST_SECONDS
        for place in self._places.values():
            place.end()
        while time.monotonic() < give_up:
            if all(place.is_done() for place in self._places.values()):
                return
            time.sleep(STEP_SECONDS)


def warnings_about(key: Path) -> list[str]:
    """Return warnings about the file of a key."""
    try:
        mode = stat.S_IMODE(key.stat().st_mode)
    except OSError:
        return []
    if mode & 0o077:
        return [f"{key}: others may use the key (mode {mode:04o}); `chmod 600` it"]
    return []


def main(words: list[str]) -> int:
    """Serve the broker that started this process: words are its data directory and its pid."""
    data, parent = words
    if not end_with(int(parent)):
        return 0
    os.umask(0o077)
    limit_blocks(None)
    notary = Notary(Path(data))
    for line in sys.stdin.buffer:
        request = REQUESTS.decode(line)
        if isinstance(request, Configure):
            notary.configure(request)
        elif isinstance(request, Kept):
            notary.kept(request)
        else:
            notary.sign(request)
            if request.last:
                notary.end()
                return 0
    return 0
