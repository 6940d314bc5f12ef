"""Finding messages by what they contain: the value of a header, or the SHA-256 of a body.

Catalogs say which blocks may have such a message; spans without a catalog are read. A message whose
content was written again (`Carried`) is found there, too. Must never know how answers are shown.
"""

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

from daybook.engine.facts import details, events
from daybook.engine.facts.events import BODY_OMITTED, FLAGS, FORMAT, KIND, LARGE, MESSAGE
from daybook.engine.facts.kinds import WITH_CHUNKS
from daybook.engine.queues.queue import StoreError
from daybook.errors import DaybookError
from daybook.history.catalogs import NotCatalogued
from daybook.history.event_finder import EventFinder
from daybook.history.scan import Event, Picker
from daybook.history.search import Clause, Contents, Search
from daybook.journal.blocks.block import Block
from daybook.journal.disk import Disk
from daybook.paging.catalogs.catalog_file import CatalogFile
from daybook.paging.catalogs.catalog_keys import BODIES, body_key, has_header, header_key

PIECE_BYTES: Final = 1 << 20
_SPECIAL: Final = frozenset(b"\\\n\r:")


class LeftOutError(DaybookError):
    """A part of messages was left out of an export; the text says which."""


class WithHeader:
    """A header with a value; of repeated names the first one counts."""

    is_catalogued = True
    part = "headers"

    def __init__(self, name: str, value: str) -> None:
        self._name: Final = name
        self._raw: Final = name.encode("utf-8", "surrogateescape")
        self._value: Final = value.encode("utf-8", "surrogateescape")

    def numbers(self, catalog: CatalogFile) -> set[int]:
        """As `Contents.numbers`."""
        told = catalog.told
        table = told.headers.get(self._name)
        if table is None:
            if told.all_headers and self._name not in told.left_out and _is_text(self._raw):
                return set()
            raise NotCatalogued(f"its catalog does not have the header '{self._name}'")
        return set(catalog.numbers(table, header_key(self._value)))

    def may_have(self, block: Block, picker: Picker) -> bool:
        """As `Contents.may_have`: where headers are lines, the value must be among their bytes."""
        if not _SPECIAL.isdisjoint(self._value):
            return True
        if any(flags & FORMAT for flags in set(block.columns()[FLAGS])):
            return True
        return self._value in picker.headers()

    def is_in(self, event: Event) -> bool:
        """As `Contents.is_in`."""
        flags = event.row[FLAGS]
        is_there = not flags & BODY_OMITTED
        return is_there and has_header(flags, event.headers, self._raw, self._value)


class WithBody:
    """A body of this SHA-256, and of so many bytes if that is known."""

    is_catalogued = True
    part = "bodies"

    def __init__(self, disk: Disk, sha256: bytes, size: int | None = None) -> None:
        self._disk: Final = disk
        self._sha256: Final = sha256
        self._size: Final = size

    def numbers(self, catalog: CatalogFile) -> set[int]:
        """As `Contents.numbers`."""
        if not catalog.told.all_bodies:
            raise NotCatalogued("the body of a large message was not there for its catalog")
        return set(catalog.numbers(catalog.told.tables[BODIES], body_key(self._sha256)))

    def may_have(self, block: Block, picker: Picker) -> bool:
        """As `Contents.may_have`."""
        return True

    def is_in(self, event: Event) -> bool:
        """As `Contents.is_in`; a large body is read."""
        if event.row[FLAGS] & BODY_OMITTED:
            return False
        if not event.row[FLAGS] & LARGE:
            fits = self._size in (None, event.body_bytes)
            return fits and hashlib.sha256(event.body or b"").digest() == self._sha256
        decoded = events.decode_detail(event.row[KIND], event.detail)
        size = cast("details.RoutedDetail | details.CarriedDetail", decoded).body_bytes
        return self._size in (None, size) and self._large(event) == self._sha256

    def _large(self, event: Event) -> bytes:
        # Slow to import, and rarely needed.
        from daybook.paging.catalogs.catalog_making import chunks_of  # noqa: PLC0415
        from daybook.paging.content.content import ContentReader  # noqa: PLC0415
        from daybook.paging.tables.layout import LAYOUT  # noqa: PLC0415

        digest = hashlib.sha256()
        content = ContentReader(self._disk, LAYOUT, cache_bytes=PIECE_BYTES)
        with suppress(StoreError):
            for piece in chunks_of(content, event.row[KIND], event.detail):
                digest.update(piece)
            return digest.digest()
        return b""


def _is_text(raw: bytes) -> bool:
    """Whether a name can be in a catalog: names that are not text are in none."""
    try:
        return bool(raw.decode()) or not raw
    except UnicodeDecodeError:
        return False


def check_is_there(directory: Path, contents: WithHeader | WithBody) -> None:
    """Check that messages of a data directory have what they are sought by. Raises LeftOutError,
    ExportError and OSError."""
    from daybook.recovery.signing.export_proof import redacted_in  # noqa: PLC0415 (slow to import)

    redacted = redacted_in(directory)
    if contents.part in redacted.parts and not redacted.shown:
        raise LeftOutError(
            f"{contents.part} were left out of this export, so no message is found by them"
        )


def found_messages(
    finder: EventFinder, contents: Contents, from_lsn: int = 1, to_lsn: int | None = None
) -> Iterator[int]:
    """Yield the messages that contain something, each once, in the order of the journal, from one
    event to another.

    Raises JournalError and Damage.
    """
    told: set[int] = set()
    clause = Clause(WITH_CHUNKS, contents=contents)
    for event in finder.find(Search(clause, from_lsn=from_lsn, to_lsn=to_lsn, bodies=True)):
        message = event.row[MESSAGE]
        if message not in told:
            told.add(message)
            yield message


def sha256_of(path: Path) -> tuple[bytes, int]:
    """Return the SHA-256 of a file, and its size. Raises OSError."""
    digest = hashlib.sha256()
    size = 0
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            digest.update(piece)
            size += len(piece)
    return digest.digest(), size
