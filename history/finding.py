"""Finding messages by what they contain: the value of a header, or the SHA-256 of a body.

Catalogs say which blocks may have such a message; what has no catalog is read. A message whose
content was written again (`Carried`) is found there, too. Must never know how answers are shown.
"""

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol, cast

from daybook.engine.facts import details, events
from daybook.engine.facts.events import BODY_OMITTED, FLAGS, FORMAT, KIND, LARGE, MESSAGE
from daybook.engine.facts.kinds import WITH_CHUNKS
from daybook.engine.queues.queue import StoreError
from daybook.history.catalogs import Catalogs, NotCatalogued
from daybook.history.scan import Event, Picker, kinds_mask
from daybook.journal.blocks.block import Block
from daybook.journal.blocks.format import FooterEntry
from daybook.journal.disk import Disk
from daybook.paging.catalogs.catalog_file import CatalogFile
from daybook.paging.catalogs.catalog_keys import BODIES, body_key, has_header, header_key

PIECE_BYTES: Final = 1 << 20
_MASK: Final = kinds_mask(WITH_CHUNKS)
_SPECIAL: Final = frozenset(b"\\\n\r:")


class Sought(Protocol):
    """What a message must contain."""

    def numbers(self, catalog: CatalogFile) -> set[int]:
        """Return the numbers of the blocks that may have it. Raises Damage, NotCatalogued."""
        ...

    def may_have(self, block: Block, picker: Picker) -> bool:
        """Whether a block may have it."""
        ...

    def is_in(self, event: Event) -> bool:
        """Whether an event has it. Raises StoreError."""
        ...


class WithHeader:
    """A header with a value; of repeated names the first one counts."""

    def __init__(self, name: str, value: str) -> None:
        self._name: Final = name
        self._raw: Final = name.encode("utf-8", "surrogateescape")
        self._value: Final = value.encode("utf-8", "surrogateescape")

    def numbers(self, catalog: CatalogFile) -> set[int]:
        """As `Sought.numbers`."""
        told = catalog.told
        table = told.headers.get(self._name)
        if table is None:
            if told.all_headers and self._name not in told.left_out and _is_text(self._raw):
                return set()
            raise NotCatalogued(f"its catalog does not have the header '{self._name}'")
        return set(catalog.numbers(table, header_key(self._value)))

    def may_have(self, block: Block, picker: Picker) -> bool:
        """As `Sought.may_have`: where headers are lines, the value must be among their bytes."""
        if not _SPECIAL.isdisjoint(self._value):
            return True
        if any(flags & FORMAT for flags in set(block.columns()[FLAGS])):
            return True
        return self._value in picker.headers()

    def is_in(self, event: Event) -> bool:
        """As `Sought.is_in`."""
        return has_header(event.row[FLAGS], event.headers, self._raw, self._value)


class WithBody:
    """A body of this SHA-256, and of so many bytes if that is known."""

    def __init__(self, disk: Disk, sha256: bytes, size: int | None = None) -> None:
        self._disk: Final = disk
        self._sha256: Final = sha256
        self._size: Final = size

    def numbers(self, catalog: CatalogFile) -> set[int]:
        """As `Sought.numbers`."""
        if not catalog.told.all_bodies:
            raise NotCatalogued("the body of a large message was not there for its catalog")
        return set(catalog.numbers(catalog.told.tables[BODIES], body_key(self._sha256)))

    def may_have(self, block: Block, picker: Picker) -> bool:
        """As `Sought.may_have`."""
        return True

    def is_in(self, event: Event) -> bool:
        """As `Sought.is_in`; a large body is read."""
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


class _Asked:
    """What is sought, as a question to catalogs."""

    def __init__(self, sought: Sought) -> None:
        self._sought: Final = sought
        self.version = 0

    def numbers(self, catalog: CatalogFile) -> set[int]:
        """As `BlockQuestion.numbers`."""
        return self._sought.numbers(catalog)

    def may_matter(self, entry: FooterEntry) -> bool:
        """As `BlockQuestion.may_matter`."""
        return bool(entry.kinds & _MASK)


def found_messages(catalogs: Catalogs, sought: Sought) -> Iterator[int]:
    """Yield the messages that contain something, each once, in the order of the journal.

    Raises JournalError and Damage.
    """
    told: set[int] = set()
    for block in catalogs.blocks(_Asked(sought), 1):
        picker = Picker(block)
        positions = picker.positions(0, (), WITH_CHUNKS)
        if not positions or not sought.may_have(block, picker):
            continue
        for position in positions:
            event = picker.event(position, bodies=True)
            message = event.row[MESSAGE]
            is_there = not event.row[FLAGS] & BODY_OMITTED
            if is_there and message not in told and sought.is_in(event):
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
