"""The proof of an export: the statements that cover it, and substitutes for the redacted parts (ADR
66).

Each line is one JSON object; the order is that of the journal. The last line has the SHA-256 of all
lines before, so that an accident is found as such. Must never know where the blocks are.
"""

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from daybook.engine.facts.details import KeyChangeDetail
from daybook.errors import DaybookError
from daybook.recovery.signing.redaction import NOTHING, REDACTABLE, Redaction
from daybook.recovery.signing.statements import Statement

FORMATS: Final = (1, 2)
"""Format 2 has changes of the key, or content of some addresses only; an export with neither has
format 1, for earlier releases."""
PROOF: Final = "proof.jsonl"


class ExportError(DaybookError):
    """An export cannot be made or read, or something in it is damaged."""


class Head(
    msgspec.Struct, frozen=True, tag="export", forbid_unknown_fields=True, omit_defaults=True
):
    """The first line: the events of the export, its redacted parts, and the addresses whose
    messages have it all the same, by their ids."""

    format: int
    data_id: str
    from_lsn: int
    to_lsn: int
    redacted: list[str] = []
    shown: dict[int, str] = {}

    def redaction(self) -> Redaction:
        """Return the redacted parts."""
        return Redaction(tuple(self.redacted), tuple(sorted(self.shown.items())))


class Changed(msgspec.Struct, frozen=True, tag="change", forbid_unknown_fields=True):
    """A change of the signing key, wherever in the journal it is. All come before the statements.

    The fields are those of the detail of its event, whose LSN is `lsn`.
    """

    lsn: int
    old: str
    new: str
    time: int
    signature_old: str
    signature_new: str

    def detail(self) -> KeyChangeDetail:
        """Return the detail of the event."""
        return KeyChangeDetail(
            old=self.old, new=self.new, time=self.time,
            signature_old=self.signature_old, signature_new=self.signature_new,
        )  # fmt: skip


class Covered(msgspec.Struct, frozen=True, tag="statement", forbid_unknown_fields=True):
    """This statement covers the next lines, up to the block that ends with its event."""

    statement: Statement


class LeftOut(msgspec.Struct, frozen=True, tag="leaf", forbid_unknown_fields=True):
    """A block that is not in the export, or that was there before: its leaf, in hexadecimal."""

    leaf: str


class Shown(msgspec.Struct, frozen=True, tag="block", forbid_unknown_fields=True):
    """A block of the export, by its first event.

    If parts are left out: the hash of the block as it was, its header and rows frame (base64), and
    the hashes of the strings that are left out, in the order of their events (hexadecimal).
    """

    first_lsn: int
    hash: str = ""
    frame: str = ""
    headers: str | None = None
    bodies: str | None = None


class Unsigned(msgspec.Struct, frozen=True, tag="unsigned", forbid_unknown_fields=True):
    """No statement covers the blocks in the next lines."""


class Tail(msgspec.Struct, frozen=True, tag="end", forbid_unknown_fields=True):
    """The last line: the SHA-256 of all lines before, in hexadecimal."""

    sha256: str


Line = Head | Changed | Covered | LeftOut | Shown | Unsigned | Tail
_DECODER: Final = msgspec.json.Decoder(Line)
HASH_DIGITS: Final = 64


def head_of(directory: Path) -> Head | None:
    """Return the first line of the proof if a directory is an export, else None.

    The rest is not read, so there is no proof. Raises ExportError and OSError.
    """
    path = directory / PROOF
    if not path.exists():
        return None
    with path.open("rb") as file:
        packed = file.readline()
    try:
        line = _DECODER.decode(packed)
    except (msgspec.MsgspecError, ValueError) as error:
        raise ExportError(f"{path}, line 1 is damaged: {error}") from error
    if not isinstance(line, Head):
        raise ExportError(f"{path}, line 1 is damaged: it does not belong there")
    if not set(line.redacted) <= set(REDACTABLE):
        raise ExportError(f"{path}, line 1 is damaged: no export is without {line.redacted}")
    return line


def redacted_in(directory: Path) -> Redaction:
    """Return the redacted parts of an export; none for any other directory.

    Raises ExportError and OSError.
    """
    head = head_of(directory)
    return head.redaction() if head is not None else NOTHING


def range_of(directory: Path) -> str:
    """Return a sentence about an export's missing state, "" for any other directory.

    Raises ExportError and OSError.
    """
    head = head_of(directory)
    if head is None:
        return ""
    return (
        f"this is an export of events {head.from_lsn} to {head.to_lsn}, which has no state to "
        "begin with"
    )


def joined(hashes: list[bytes]) -> str:
    """Return hashes as one text."""
    return b64encode(b"".join(hashes)).decode()


def divided(text: str) -> list[bytes]:
    """Return the hashes in a text. Raises ExportError."""
    try:
        packed = b64decode(text, validate=True)
    except ValueError as error:
        raise ExportError(f"a list of hashes is damaged: {error}") from error
    if len(packed) % 32:
        raise ExportError("a list of hashes is damaged: it ends within a hash")
    return [packed[at : at + 32] for at in range(0, len(packed), 32)]


class ProofWriter:
    """Writes a proof, line by line."""

    def __init__(self, file: BinaryIO) -> None:
        self._file: Final = file
        self._digest: Final = hashlib.sha256()

    def put(self, line: Line) -> None:
        """Write a line. Raises OSError."""
        packed = msgspec.json.encode(line) + b"\n"
        self._digest.update(packed)
        self._file.write(packed)

    def end(self) -> None:
        """Write the last line. Raises OSError."""
        self._file.write(msgspec.json.encode(Tail(self._digest.hexdigest())) + b"\n")


def read_proof(path: Path) -> Iterator[Line]:
    """Yield the lines of a proof but the last one, which is checked. Raises ExportError, OSError.

    No line is trusted before all were read.
    """
    digest = hashlib.sha256()
    may_change = True
    with path.open("rb") as file:
        for number, packed in enumerate(file, 1):
            try:
                line = _DECODER.decode(packed)
            except (msgspec.MsgspecError, ValueError) as error:
                raise ExportError(f"{path}, line {number} is damaged: {error}") from error
            if isinstance(line, Tail):
                if line.sha256 != digest.hexdigest() or file.read(1):
                    raise ExportError(f"{path} is damaged: its SHA-256 is another one")
                return
            is_change = isinstance(line, Changed)
            may_change = number == 1 or (may_change and is_change)
            if (number == 1) != isinstance(line, Head) or (is_change and not may_change):
                raise ExportError(f"{path}, line {number} is damaged: it does not belong there")
            digest.update(packed)
            yield line
    raise ExportError(f"{path} is cut short: its last line is missing")
