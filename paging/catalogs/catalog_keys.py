"""The keys of catalogs, which stand for headers, bodies and ids (ADR 64).

Keys are short, so different things may share one; the events decide. Readers that compare events
with a question use the same functions, so a catalog and a scan give the same result.
Must never know how a catalog is stored.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from crc32c import crc32c

from daybook.engine.facts import life
from daybook.engine.facts.events import (
    ADDRESS,
    BY_NUMBER,
    CONNECTION,
    CONSUMER,
    FORMAT,
    KIND,
    QUEUE,
    Row,
)
from daybook.engine.facts.formats import LINES
from daybook.engine.facts.kinds import TOPOLOGY
from daybook.engine.messages.content import View, is_known
from daybook.engine.messages.headers import unescape

MESSAGES: Final = "messages"
BODIES: Final = "bodies"
SUBJECT_COLUMNS: Final = {
    life.ADDRESS: ADDRESS, life.QUEUE: QUEUE, life.CONNECTION: CONNECTION, life.CONSUMER: CONSUMER,
}  # fmt: skip
"""The columns with the ids of the things that begin, change and end; the broker has none."""
SUBJECTS: Final = (*SUBJECT_COLUMNS, life.BROKER)
_SUBJECTS_OF_KINDS: Final = {kind: BY_NUMBER[kind].subject for kind in TOPOLOGY}


def subject_of(row: Row) -> tuple[str, int] | None:
    """Return which thing an event begins, changes or ends, with its id; None if it does not."""
    subject = _SUBJECTS_OF_KINDS.get(row[KIND])
    if subject is None:
        return None
    column = SUBJECT_COLUMNS.get(subject)
    return subject, row[column] if column is not None else 0


def subjects_at(
    columns: Sequence[memoryview], positions: Iterable[int]
) -> Iterator[tuple[int, tuple[str, int]]]:
    """Yield the things that events of a block begin, change or end, as `subject_of` does, of those
    at some positions; without reading rows, because a broker may have made very many things."""
    kinds = columns[KIND].tolist()
    ids = {subject: columns[column].tolist() for subject, column in SUBJECT_COLUMNS.items()}
    for at in positions:
        subject = _SUBJECTS_OF_KINDS.get(kinds[at])
        if subject is not None:
            yield at, (subject, ids[subject][at] if subject in ids else 0)


def header_lines(flags: int, headers: bytes) -> list[bytes]:
    """Return the header lines of an event; none if this version does not know their format."""
    if flags & FORMAT == LINES:
        return headers.split(b"\n")
    if not is_known(flags):
        return []
    return View(flags, headers).lines().split(b"\n")


def pair_of(line: bytes) -> tuple[bytes, bytes] | None:
    """Return name and value of a header line without escapes; None if it is none."""
    name, colon, value = line.partition(b":")
    if not colon:
        return None
    if b"\\" not in line:
        return name, value
    try:
        return unescape(name), unescape(value)
    except ValueError:
        return None


def has_header(flags: int, headers: bytes, name: bytes, value: bytes) -> bool:
    """Whether an event has a header of this value; of repeated names the first one counts."""
    for line in header_lines(flags, headers):
        pair = pair_of(line)
        if pair is not None and pair[0] == name:
            return pair[1] == value
    return False


def header_key(value: bytes) -> int:
    """Return the key of the value of a header, in the table of its name."""
    return int(crc32c(value))


def body_key(sha256: bytes) -> int:
    """Return the key of a body, from its SHA-256."""
    return int.from_bytes(sha256[:4], "big")
