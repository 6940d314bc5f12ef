"""Running `journal export`: copies a range of history with its proof (ADR 66).

The export is a directory: `journal` has one sealed segment, which every command reads, and
`proof.jsonl` has the data by which `journal verify` proves it elsewhere. Blocks are whole: the
first and the last may have events beyond the range. It is written beside its name and renamed at
the end. Never changes the journal.
"""

import hashlib
import os
import shutil
from base64 import b64encode
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, cast

from daybook.engine.facts import details, events
from daybook.engine.facts.events import ADDRESS, KIND, RELATED, Row
from daybook.engine.facts.kinds import SIGNING
from daybook.engine.facts.rows import pack_wide
from daybook.history.exports.export_keys import changes_of_key
from daybook.journal.archive.manifest import describe, encode_manifest
from daybook.journal.blocks.batch import Batch
from daybook.journal.blocks.block import Block, BlockCodec, EncodedBlock, Summary
from daybook.journal.blocks.format import (
    header_salt,
    manifest_name,
    pack_footer,
    pack_footer_entry,
    pack_segment_header,
    segment_first_lsn,
    segment_name,
)
from daybook.journal.blocks.summaries import summary_of_block
from daybook.journal.data_directory import DATA_ID, JOURNAL
from daybook.journal.disk import Disk, RealDisk
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.repair import footer_entry
from daybook.journal.segments.segment import data_id_of, open_segment, segment_names
from daybook.paging.tables.layout import LAYOUT
from daybook.recovery.signing.export_proof import (
    FORMATS,
    PROOF,
    Covered,
    ExportError,
    Head,
    LeftOut,
    ProofWriter,
    Shown,
    Unsigned,
    joined,
)
from daybook.recovery.signing.file_errors import naming
from daybook.recovery.signing.leaves import (
    BODIES,
    HEADERS,
    blocks_between,
    hash_of,
    leaf_of,
    packed_header,
)
from daybook.recovery.signing.redaction import Redaction
from daybook.recovery.signing.statements import Statement, statement_of

HEAP_OF: Final = {"headers": HEADERS, "bodies": BODIES}


class Exported(NamedTuple):
    """The summary of an export: the events, blocks, and the last event that statements cover."""

    from_lsn: int
    to_lsn: int
    blocks: int
    statements: int
    signed_to: int


def export(
    disk: Disk,
    target: Path,
    from_lsn: int,
    to_lsn: int,
    redacted: Redaction,
    extra: Sequence[Statement],
    *,
    note: Callable[[str], None],
    progress: Callable[[int], None],
) -> Exported:
    """Write an export. `extra` are statements that are not in the journal. `note` is called with
    sentences about missing parts.

    Raises JournalError, ExportError and OSError.
    """
    if target.exists():
        raise ExportError(f"{target} exists already; name a directory that does not")
    if not target.parent.is_dir():
        raise ExportError(
            f"{target.parent} is not a directory, so {target.name} cannot be made in it"
        )
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with naming(target):
            (partial / JOURNAL).mkdir(mode=0o700, parents=True)
            done = _Export(disk, partial, redacted, note, progress).write(from_lsn, to_lsn, extra)
            partial.rename(target)
    except BaseException:
        with suppress(OSError):
            shutil.rmtree(partial)
        raise
    return done


class _Export:
    """One export, being written to a directory."""

    def __init__(
        self,
        disk: Disk,
        path: Path,
        redacted: Redaction,
        note: Callable[[str], None],
        progress: Callable[[int], None],
    ) -> None:
        self._disk = disk
        self._path = path
        self._redacted = sorted(HEAP_OF[each] for each in redacted.parts)
        self._redaction = redacted
        self._note = note
        self._progress = progress
        self._data_id = data_id_of(disk)
        self._codec = BlockCodec(LAYOUT, self._data_id)
        self._next = 0
        self._begun = 0
        self._blocks = 0

    def write(self, from_lsn: int, to_lsn: int, extra: Sequence[Statement]) -> Exported:
        first, last = self._ends(from_lsn, to_lsn)
        self._refuse_source(first.first_lsn)
        changes, self._begun = changes_of_key(self._disk, self._note)
        statements = self._statements(first.first_lsn, last.last_lsn, extra)
        self._next = first.first_lsn
        segment = self._path / JOURNAL / segment_name(first.first_lsn)
        with segment.open("wb") as file:
            self._write_segment(file, first, last)
        with (self._path / PROOF).open("wb") as file:
            self._proof = ProofWriter(file)
            shown = dict(self._redaction.shown)
            self._proof.put(
                Head(
                    FORMATS[-1] if changes or shown else FORMATS[0],
                    self._data_id.hex(), first.first_lsn, last.last_lsn,
                    sorted(self._redaction.parts), shown,
                )
            )  # fmt: skip
            for change in changes:
                self._proof.put(change)
            self._write_proof(statements, last.last_lsn)
            self._proof.end()
        self._write_manifest(segment)
        (self._path / DATA_ID).write_text(self._data_id.hex() + "\n")
        signed_to = min(statements[-1].lsn, last.last_lsn) if statements else 0
        return Exported(first.first_lsn, last.last_lsn, self._blocks, len(statements), signed_to)

    def _ends(self, from_lsn: int, to_lsn: int) -> tuple[Block, Block]:
        """Return the first and the last block of a range; they are known to be durable."""
        found = []
        for lsn in (from_lsn, to_lsn):
            blocks = read_blocks(self._disk, LAYOUT, from_lsn=lsn, to_lsn=lsn)
            found += [block for block in blocks if block.first_lsn <= lsn <= block.last_lsn][:1]
        if len(found) < 2:
            raise ExportError(
                f"the journal has no events {from_lsn} to {to_lsn}; `journal stat` shows its "
                f"events, and --with-archive adds archived ones"
            )
        return found[0], found[1]

    def _refuse_source(self, from_lsn: int) -> None:
        """Raise ExportError if a range begins with segments of the source of a fork: their blocks
        carry its data id."""
        names = segment_names(self._disk)
        starts = [segment_first_lsn(name) or 1 for name in names]
        at = bisect_right(starts, from_lsn) - 1
        theirs = self._owner(names[at])
        if theirs == self._data_id:
            return
        own = next(
            start
            for start, name in zip(starts[at:], names[at:], strict=True)
            if self._owner(name) != theirs
        )
        raise ExportError(
            f"the events before {own} are in segments of the data directory {theirs.hex()}, from "
            f"which this one was forked: export them there, and the rest here with --from {own}"
        )

    def _owner(self, name: str) -> bytes:
        """Return the data id of a segment. Raises JournalError, OSError."""
        with closing(open_segment(self._disk, name)) as segment:
            return segment.header.data_id

    def _statements(
        self, first_lsn: int, last_lsn: int, extra: Sequence[Statement]
    ) -> list[Statement]:
        """Find the statements that cover a range, each with something that no earlier one has."""
        found = dict[int, Statement]()
        for block in read_blocks(self._disk, LAYOUT, from_lsn=first_lsn, heaps=False):
            self._progress(block.header.block_bytes)
            if block.is_mark or SIGNING.isdisjoint(block.columns()[KIND]):
                continue
            found |= {each.lsn: each for each in self._statements_in(block.first_lsn)}
            if max(found, default=0) >= last_lsn:
                break
        found |= {each.lsn: each for each in extra if each.data_id == self._data_id.hex()}
        chosen, covered = list[Statement](), first_lsn - 1
        for each in sorted(found.values(), key=lambda each: each.lsn):
            if each.lsn > covered and each.after < last_lsn and each.contents:
                chosen.append(each)
                covered = each.lsn
        return chosen

    def _statements_in(self, first_lsn: int) -> Iterator[Statement]:
        for block in read_blocks(self._disk, LAYOUT, from_lsn=first_lsn, to_lsn=first_lsn):
            for event in block.events():
                lsn, row, detail, _, _ = cast(tuple[int, Row, bytes, bytes, bytes], event)
                if row[KIND] == events.SIGNED and lsn > self._begun:
                    signed = cast(details.SignedDetail, events.decode_detail(row[KIND], detail))
                    yield statement_of(self._data_id.hex(), row[RELATED], signed)

    def _write_segment(self, file: BinaryIO, first: Block, last: Block) -> None:
        """Write all blocks of the range, unchanged, or encoded again without the redacted parts."""
        last_hash = first.header.previous_hash
        file.write(
            pack_segment_header(
                first_lsn=first.first_lsn,
                data_id=self._data_id,
                previous_hash=last_hash,
                segment_bytes=0,
                layout=LAYOUT.encode(),
                level=last.codec.level,
            )
        )
        entries = bytearray()
        for block in read_blocks(
            self._disk, LAYOUT, from_lsn=first.first_lsn, to_lsn=last.last_lsn
        ):
            self._progress(block.header.block_bytes)
            if block.is_mark and (self._redacted or not self._blocks):
                continue
            self._blocks += block.count > 0
            written = self._without(block, last_hash) if self._redacted else _as_it_is(block)
            summary = summary_of_block(block)
            entries += pack_footer_entry(footer_entry(written, file.tell(), summary))
            file.write(written.data)
            last_hash = written.hash
        file.write(
            pack_footer(
                entries,
                footer_offset=file.tell(),
                last_lsn=last.last_lsn,
                last_hash=last_hash,
                salt=header_salt(self._data_id),
            )
        )

    def _without(self, block: Block, last_hash: bytes) -> EncodedBlock:
        """Encode a block again without its redacted parts."""
        rows, heaps = [], [list[bytes](), list[bytes](), list[bytes]()]
        for event in block.events():
            _, row, *strings = cast(tuple[int, Row, bytes, bytes, bytes], event)
            left_out = self._redacted if self._redaction.of(row[ADDRESS]) else ()
            kept = [b"" if heap in left_out else text for heap, text in enumerate(strings)]
            rows.append(pack_wide(row, len(kept[0]), len(kept[1]), len(kept[2])))
            for heap, text in enumerate(kept):
                if text:
                    heaps[heap].append(text)
        return self._codec.encode(Batch(block.first_lsn, rows, heaps, block.time), last_hash)

    def _write_proof(self, statements: Sequence[Statement], last_lsn: int) -> None:
        for statement in statements:
            # The blocks between two statements, or before the first.
            self._write_unsigned(min(statement.after, last_lsn))
            self._proof.put(Covered(statement))
            for block in blocks_between(self._disk, statement.after, statement.lsn):
                if block.first_lsn < self._next or block.first_lsn > last_lsn:
                    self._proof.put(LeftOut(leaf_of(block).hash().hex()))
                else:
                    self._show(block)
        self._write_unsigned(last_lsn)

    def _write_unsigned(self, to_lsn: int) -> None:
        if self._next > to_lsn:
            return
        self._proof.put(Unsigned())
        for block in blocks_between(self._disk, self._next - 1, to_lsn):
            self._show(block)

    def _show(self, block: Block) -> None:
        """Write the line of a block of the export to the proof."""
        assert block.first_lsn == self._next, "blocks are exported in order, without gaps"
        self._next = block.last_lsn + 1
        self._progress(block.header.block_bytes)
        if not self._redacted:
            self._proof.put(Shown(block.first_lsn))
            return
        addresses = block.columns()[ADDRESS].tolist()
        hashes = {
            heap: joined(
                [
                    hash_of(text)
                    for address, text in zip(addresses, block.strings(heap), strict=True)
                    if text and self._redaction.of(address)
                ]
            )
            for heap in self._redacted
        }
        frame = packed_header(block) + block.rows_frame
        self._proof.put(
            Shown(
                block.first_lsn,
                block.hash.hex(),
                b64encode(frame).decode(),
                hashes.get(HEADERS),
                hashes.get(BODIES),
            )
        )

    def _write_manifest(self, segment: Path) -> None:
        """Write the manifest beside the segment, which says that it is a part of a journal."""
        with segment.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        opened = open_segment(RealDisk(segment.parent), segment.name)
        try:
            manifest = describe(opened, sha256=sha256, archived_at=0)
        finally:
            opened.close()
        (segment.parent / manifest_name(segment.name)).write_bytes(encode_manifest(manifest))


def _as_it_is(block: Block) -> EncodedBlock:
    data = packed_header(block) + block.rows_frame + block.heap_frame
    return EncodedBlock(block.header, data, block.hash, Summary())
