"""Signed statements about history, and changes of the key that signs them: their bytes and files
(ADR 66).

A statement is signed as a text of one line for each field, in a fixed order. As an anchor it
is one line of JSON. Fault model: a file of anchors may be missing, torn or damaged; a line that
cannot be read is an error in words, never passed over, and the others count. Must never know
how anything is signed.
"""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from daybook.engine.facts.details import KeyChangeDetail, SignedDetail
from daybook.errors import DaybookError

_STATEMENT: Final = "daybook statement 1"
_CHANGE: Final = "daybook change of key 1"
KEY_ID_DIGITS: Final = 16
LINE_BYTES_MAX: Final = 16_384
_HEX: Final = re.compile(r"(?:[0-9a-f]{2})*")


class StatementError(DaybookError):
    """A file of anchors cannot be read, or does not contain statements."""


class Statement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The signed text: history up to the event `lsn`, the last of a block with this hash.

    `contents` covers the leaves of the blocks behind event `after`. `signature` is "" in an anchor
    of an unsigned journal. Hashes are hexadecimal, times microseconds since 1970 UTC.
    """

    data_id: str
    lsn: int
    block_hash: str
    state_digest: str = ""
    time: int = 0
    key: str = ""
    after: int = 0
    contents: str = ""
    signature: str = ""

    def message(self) -> bytes:
        """Return the bytes that are signed."""
        fields = (
            _STATEMENT, self.data_id, self.lsn, self.block_hash, self.state_digest, self.time,
            self.key, self.after, self.contents,
        )  # fmt: skip
        return "".join(f"{field}\n" for field in fields).encode()

    def detail(self) -> SignedDetail:
        """Return the detail of the event that records it."""
        return SignedDetail(
            block_hash=self.block_hash, state_digest=self.state_digest, time=self.time,
            key=self.key, after=self.after, contents=self.contents, signature=self.signature,
        )  # fmt: skip

    @property
    def is_unsigned(self) -> bool:
        """Whether it does not claim to be signed: then it identifies the block, not its author."""
        return not self.key and not self.signature

    def line(self) -> bytes:
        """Return it as an anchor."""
        return msgspec.json.encode(self) + b"\n"


class Noted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file of the notary: the last statement, and whether it is in the journal."""

    statement: Statement
    journaled: bool


def noted_in(path: Path) -> Noted | None:
    """Read the file of a notary; None if there is none. Raises StatementError, OSError."""
    try:
        noted = msgspec.json.decode(path.read_bytes(), type=Noted)
        return msgspec.structs.replace(noted, statement=parse(noted.statement.line()))
    except FileNotFoundError:
        return None
    except (msgspec.MsgspecError, ValueError, StatementError) as error:
        raise StatementError(f"{path} is damaged: {error}") from error


def statement_of(data_id: str, lsn: int, detail: SignedDetail) -> Statement:
    """Return the statement that an event of a journal records."""
    return Statement(
        data_id, lsn, detail.block_hash, detail.state_digest, detail.time, detail.key,
        detail.after, detail.contents, detail.signature,
    )  # fmt: skip


def change_message(data_id: str, change: KeyChangeDetail) -> bytes:
    """Return the bytes that both keys sign when one replaces the other."""
    fields = _CHANGE, data_id, change.old, change.new, change.time
    return "".join(f"{field}\n" for field in fields).encode()


def key_id(public: bytes) -> str:
    """Return the id of a public key, given as its 32 bytes."""
    return hashlib.sha256(public).hexdigest()[:KEY_ID_DIGITS]


def parse(line: bytes) -> Statement:
    """Read an anchor. Raises StatementError."""
    try:
        found = msgspec.json.decode(line, type=Statement)
    except (msgspec.MsgspecError, ValueError) as error:
        raise StatementError(f"this is not an anchor: {error}") from error
    texts = found.data_id, found.block_hash, found.key, found.contents, found.signature
    if not all(map(_HEX.fullmatch, texts)) or "\n" in found.state_digest:
        raise StatementError("this is not an anchor: a hash in it is not hexadecimal")
    return found


def read_anchors(path: Path) -> Iterator[Statement | StatementError]:
    """Yield the anchors in a file, in its order, and an error for each line that is none.

    Raises StatementError if the file has no line at all, and OSError.
    """
    with path.open("rb") as file:
        number, is_empty = 0, True
        while line := file.readline(LINE_BYTES_MAX):
            number += 1
            if not line.strip():
                continue
            is_empty = False
            try:
                found: Statement | StatementError = parse(line)
            except StatementError as error:
                found = StatementError(f"{path}, line {number}: {error}")
            yield found
            while not line.endswith(b"\n") and line:
                # The rest of a line that is too long.
                line = file.readline(LINE_BYTES_MAX)
    if is_empty:
        raise StatementError(f"{path}: the file is empty, so it proves nothing")
