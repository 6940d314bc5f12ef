"""Verifies an export: that it is unchanged, and how it is proven to be a part of a history (ADR
66).

The segment is checked as any; then the proof is followed beside it. A leaf comes from the blocks of
the export, or where parts are left out from the original header and rows, which must agree with the
parts that are there, and from the hashes of those that are not. Only reads.
"""

from base64 import b64decode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from daybook.engine.facts.details import KeyChangeDetail
from daybook.engine.facts.events import ADDRESS
from daybook.history.exports.export_descriptions import wrong_descriptions
from daybook.history.verification.signature_proof import Anchors
from daybook.history.verification.trusted_keys import ANCHORS, SIGNATURES, TrustedKeys
from daybook.history.verification.verify_work import skipped_in
from daybook.journal.blocks.block import Block, BlockCodec
from daybook.journal.blocks.format import BLOCK_HEADER_BYTES, Damage, frame_crc, unpack_block_header
from daybook.journal.disk import RealDisk
from daybook.journal.errors import JournalError
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import data_id_of
from daybook.journal.segments.verify import Report, verify
from daybook.paging.tables.layout import LAYOUT
from daybook.recovery.signing.export_proof import (
    FORMATS,
    PROOF,
    Changed,
    Covered,
    ExportError,
    Head,
    LeftOut,
    Shown,
    Unsigned,
    divided,
    read_proof,
)
from daybook.recovery.signing.leaves import (
    BODIES,
    DETAILS,
    HEADERS,
    Contents,
    Leaf,
    hash_of,
    hash_of_all,
    leaf_of,
    string_hashes,
)
from daybook.recovery.signing.redaction import NOTHING, REDACTABLE, Redaction
from daybook.recovery.signing.statements import Statement


class ExportVerdict(msgspec.Struct):
    """The result. `proven` are ranges of events that a signature or an anchor proves.

    `shown` are the addresses, by their ids, without redactions. `keys` are the ids of all
    keys that were trusted in the end. `anchors` match a block;
    `anchors_unsigned` of them are unsigned, and the signatures of `anchors_unchecked` were not
    checked, because no key was given. `anchors_redacted` match blocks that have parts left out,
    which an anchor cannot prove; `anchors_outside` are about other events,
    `anchors_of_others` of other data directories. `wrong` are
    contradictions; `unproven` is set if keys or anchors were given and there are events that they
    do not prove.
    """

    report: Report
    redacted: list[str] = []
    shown: dict[int, str] = {}
    statements: int = 0
    anchors: int = 0
    anchors_unsigned: int = 0
    anchors_unchecked: int = 0
    anchors_redacted: int = 0
    anchors_outside: int = 0
    anchors_of_others: int = 0
    keys: list[str] = []
    proven: list[tuple[int, int]] = []
    wrong: list[str] = []
    unproven: bool = False

    @property
    def ok(self) -> bool:
        """Whether there are no faults."""
        return self.report.ok and not self.wrong and not self.unproven


def is_export(path: Path) -> bool:
    """Return whether a directory is an export."""
    return (path / PROOF).exists()


def verify_export(
    path: Path, disk: RealDisk, keys: Sequence[bytes], anchors: Anchors
) -> ExportVerdict:
    """Verify an export. Raises JournalError and OSError; damage is in the verdict."""
    skipped = 0

    def see(block: Block) -> None:
        nonlocal skipped
        skipped += 0 if block.is_mark else skipped_in(block)

    report = verify(disk, observe=see)
    report.events -= skipped
    verdict = ExportVerdict(report, wrong=[*anchors.wrong], anchors_of_others=anchors.of_others)
    if not verdict.report.ok:
        return verdict
    if verdict.report.tail is not None or not verdict.report.archived:
        # The end of a journal may be torn, but an export was whole once.
        verdict.wrong.append("the end of its segment is damaged, or its manifest is missing")
        return verdict
    verdict.wrong += wrong_descriptions(path, disk)
    check = _Check(verdict, disk, keys, anchors)
    try:
        check.run(path / PROOF)
    except (ExportError, Damage, JournalError, ValueError) as error:
        verdict.wrong.append(str(error))
        verdict.proven = []
    if keys or anchors:
        first, last = verdict.report.first_lsn, verdict.report.last_lsn
        verdict.unproven = verdict.proven != [(first, last)]
    return verdict


class _Check:
    """The walk along the proof, and the blocks of the export beside it."""

    def __init__(
        self,
        verdict: ExportVerdict,
        disk: RealDisk,
        keys: Sequence[bytes],
        anchors: Anchors,
    ) -> None:
        self._verdict: Final = verdict
        self._data_id: Final = data_id_of(disk)
        self._codec: Final = BlockCodec(LAYOUT, self._data_id)
        self._keys: Final = TrustedKeys(keys)
        self._given: Final = anchors
        self._anchors: Final[dict[int, list[Statement]]] = {}
        self._outside: Final[list[Statement]] = []
        self._blocks: Final[Iterator[Block]] = (
            block for block in read_blocks(disk, LAYOUT) if block.count
        )
        self._redaction: Redaction = NOTHING
        self._statement: Statement | None = None
        self._contents = Contents()
        self._shown: list[tuple[int, int, bytes]] = []
        self._ends: list[tuple[int, int]] = []

    def run(self, proof: Path) -> None:
        """Follow the proof. Raises ExportError, Damage."""
        lines = read_proof(proof)
        head = next(lines)
        assert isinstance(head, Head)
        self._begin(head)
        changes: list[tuple[str, KeyChangeDetail]] = []
        for line in lines:
            if isinstance(line, Changed):
                changes.append((f"event {line.lsn}", line.detail()))
                continue
            if changes:
                self._verdict.wrong += self._keys.link(self._data_id.hex(), changes)
                changes = []
            if isinstance(line, Shown):
                self._show(line)
            elif isinstance(line, LeftOut):
                self._contents.add(bytes.fromhex(line.leaf))
            elif isinstance(line, Covered | Unsigned):
                self._conclude()
                self._statement = line.statement if isinstance(line, Covered) else None
        self._conclude()
        if next(self._blocks, None) is not None:
            raise ExportError("the proof does not mention all blocks of the export")
        self._verdict.proven = _merged(self._ends)
        self._verdict.keys = self._keys.ids
        self._verdict.anchors_outside = len(self._outside)
        for each in self._outside:
            if self._keys.has(each) and not self._keys.has_signed(each):
                self._not_signed(each)
        self._verdict.wrong += self._keys.unknown()
        self._verdict.wrong += [
            f"the anchor of event {lsn}: no block of the export ends there"
            for lsn in sorted(self._anchors)
        ]

    def _begin(self, head: Head) -> None:
        report = self._verdict.report
        self._verdict.redacted = head.redacted
        self._verdict.shown = head.shown
        self._redaction = head.redaction()
        if head.format not in FORMATS:
            raise ExportError(
                f"the export has format {head.format}, this release reads {FORMATS[0]} to "
                f"{FORMATS[-1]}: use the release that wrote it, or a later one"
            )
        if not set(head.redacted) <= set(REDACTABLE):
            raise ExportError("the proof says that something unknown is left out")
        if head.data_id != self._data_id.hex():
            raise ExportError("proof and segment are of different data directories")
        if (head.from_lsn, head.to_lsn) != (report.first_lsn, report.last_lsn):
            raise ExportError(
                f"the proof is of events {head.from_lsn} to {head.to_lsn}, and the export has "
                f"{report.first_lsn} to {report.last_lsn}"
            )
        self._verdict.wrong += self._given.foreign(head.data_id)
        for each in self._given.statements:
            if each.data_id != head.data_id:
                continue
            if head.from_lsn <= each.lsn <= head.to_lsn:
                self._anchors.setdefault(each.lsn, []).append(each)
            else:
                self._outside.append(each)

    def _show(self, line: Shown) -> None:
        block = next(self._blocks, None)
        if block is None or block.first_lsn != line.first_lsn:
            raise ExportError(f"the export has no block that begins with event {line.first_lsn}")
        leaf = self._leaf(line, block) if self._verdict.redacted else leaf_of(block)
        self._contents.add(leaf.hash())
        self._shown.append((block.first_lsn, block.last_lsn, leaf.block_hash))

    def _leaf(self, line: Shown, block: Block) -> Leaf:
        """Return the leaf of a block that has parts left out, after a comparison with the rest."""
        where = f"the block with event {block.first_lsn}"
        try:
            frame, block_hash = b64decode(line.frame, validate=True), bytes.fromhex(line.hash)
        except ValueError as error:
            raise ExportError(f"{where}: its proof is damaged: {error}") from error
        packed, rows = frame[:BLOCK_HEADER_BYTES], frame[BLOCK_HEADER_BYTES:]
        header = unpack_block_header(packed, self._codec.salt)
        if (header.first_lsn, header.event_count) != (block.first_lsn, block.count):
            raise ExportError(f"{where}: its proof is of other events")
        if frame_crc(rows) != header.rows_crc:
            raise ExportError(f"{where}: the rows in its proof are damaged")
        original = [column.tolist() for column in self._codec.columns(header, rows)]
        present = [column.tolist() for column in block.columns()]
        lists = {}
        lengths = len(original) - self._codec.heap_count
        for name, heap, given in (
            ("headers", HEADERS, line.headers), ("bodies", BODIES, line.bodies),
        ):  # fmt: skip
            if (given is not None) != (name in self._verdict.redacted):
                raise ExportError(f"{where}: the proof does not account for its {name}")
            if given is None:
                lists[heap] = list(string_hashes(block, heap))
                continue
            try:
                lists[heap] = self._hashes(block, heap, original[lengths + heap], divided(given))
            except ExportError as error:
                raise ExportError(f"{where}, {name}: {error}") from error
            present[lengths + heap] = original[lengths + heap]
        if original != present:
            raise ExportError(f"{where}: its events are not those that were signed")
        return Leaf(
            block_hash, hash_of(frame), hash_of(block.heaps()[DETAILS]),
            hash_of_all(lists[HEADERS]), hash_of_all(lists[BODIES]),
        )  # fmt: skip

    def _hashes(
        self, block: Block, heap: int, lengths: Sequence[int], given: Sequence[bytes]
    ) -> list[bytes]:
        """Return the hashes of the strings that a heap had: of those that are left out as given.

        Every string of a shown address must be there, and no other. Raises ExportError.
        """
        hashes, rest = [], iter(given)
        addresses = block.columns()[ADDRESS].tolist()
        for address, text, length in zip(addresses, block.strings(heap), lengths, strict=True):
            if not self._redaction.of(address):
                if len(text) != length:
                    raise ExportError(f"some messages of address {address} are missing here")
                hashes += [hash_of(text)] if length else []
            elif text:
                raise ExportError("something should not be here")
            elif length:
                hashes += [each for each in (next(rest, b""),) if each]
        if len(hashes) != sum(map(bool, lengths)) or next(rest, None) is not None:
            raise ExportError("there are not as many hashes as were left out")
        return hashes

    def _conclude(self) -> None:
        """Judge the blocks since the last statement began."""
        shown, self._shown = self._shown, []
        contents, self._contents = self._contents.hex(), Contents()
        statement = self._statement
        proven_to = 0
        if statement is not None and self._is_signed(statement, contents):
            self._ends += [(first, last) for first, last, _ in shown]
            proven_to = max((last for _, last, _ in shown), default=0)
        for _, last, block_hash in shown:
            for anchor in self._anchors.pop(last, ()):
                if self._matches(anchor, block_hash):
                    proven_to = max(proven_to, last)
        if proven_to and not self._verdict.redacted:
            # The chain proves everything before a proven block.
            self._ends.append((self._verdict.report.first_lsn, proven_to))

    def _is_signed(self, statement: Statement, contents: str) -> bool:
        """Return whether a given key has signed these contents; notes faults."""
        wrong = ""
        if statement.data_id != self._data_id.hex():
            wrong = "it is of another data directory"
        elif statement.contents != contents:
            wrong = "the events are not those that were signed"
        elif self._keys:
            if not self._keys.knows(statement, SIGNATURES):
                return False
            if not self._keys.has_signed(statement):
                wrong = "the signature does not match"
        if wrong:
            self._verdict.wrong.append(f"the signature up to event {statement.lsn}: {wrong}")
            return False
        self._verdict.statements += bool(self._keys)
        return bool(self._keys)

    def _not_signed(self, anchor: Statement) -> None:
        self._verdict.wrong.append(
            f"the anchor of event {anchor.lsn}: the signature does not match"
        )

    def _matches(self, anchor: Statement, block_hash: bytes) -> bool:
        """Return whether an anchor proves a block; notes its faults."""
        verdict = self._verdict
        if anchor.block_hash != block_hash.hex():
            verdict.wrong.append(f"the anchor of event {anchor.lsn} is of another history")
            return False
        if self._keys and not anchor.is_unsigned:
            if not self._keys.knows(anchor, ANCHORS):
                return False
            if not self._keys.has_signed(anchor):
                self._not_signed(anchor)
                return False
        if verdict.redacted:
            # The hash of a block cannot be computed without its redacted parts.
            verdict.anchors_redacted += 1
            return False
        verdict.anchors += 1
        verdict.anchors_unsigned += anchor.is_unsigned
        verdict.anchors_unchecked += not (anchor.is_unsigned or self._keys)
        return True


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges of events, joined where they meet."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(merged[-1][1], last)
        else:
            merged.append((first, last))
    return merged
