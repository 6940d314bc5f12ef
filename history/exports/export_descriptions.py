"""Checking the files of an export that describe it: the id of the data directory, and the manifest
of each segment. They are not signed, so they must agree with the segments. Only reads.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from daybook.journal.archive.manifest import MANIFEST_BYTES_MAX, decode_manifest, describe
from daybook.journal.blocks.format import DATA_ID_BYTES, Damage, manifest_name
from daybook.journal.data_directory import DATA_ID, JOURNAL, MANIFEST_SUFFIX
from daybook.journal.disk import RealDisk
from daybook.journal.segments.segment import data_id_of, open_segment, segment_names

_DATA_ID_FILE_BYTES: Final = 2 * DATA_ID_BYTES + 1


def wrong_descriptions(path: Path, disk: RealDisk) -> Iterator[str]:
    """Yield the faults of the descriptions of an export whose segments are sound.

    Raises JournalError.
    """
    data_id = data_id_of(disk).hex()
    try:
        found = _beginning(path / DATA_ID, _DATA_ID_FILE_BYTES)
        if found.removesuffix(b"\n") != data_id.encode():
            yield f"{path / DATA_ID} does not have the id of the segments, {data_id}"
    except OSError as error:
        yield f"{path / DATA_ID} cannot be read: {error.strerror}"
    names = segment_names(disk)
    for name in names:
        manifest = path / JOURNAL / manifest_name(name)
        wrong = _wrong_with(manifest, disk, name)
        if wrong:
            yield f"{manifest}: {wrong}"
    known = {manifest_name(name) for name in names}
    for name in sorted(set(disk.names()) - known):
        if name.endswith(MANIFEST_SUFFIX):
            yield f"{path / JOURNAL / name}: its segment is missing"


def _wrong_with(manifest: Path, disk: RealDisk, name: str) -> str:
    """Return how a manifest contradicts its segment, "" if it does not."""
    try:
        given = decode_manifest(_beginning(manifest, MANIFEST_BYTES_MAX), name)
        with (manifest.parent / name).open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        segment = open_segment(disk, name)
        try:
            expected = describe(segment, sha256=sha256, archived_at=0)
        finally:
            segment.close()
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    except (ValueError, Damage) as error:
        return str(error)
    differing = [
        field for field in expected.__struct_fields__
        if getattr(given, field) != getattr(expected, field)
    ]  # fmt: skip
    return f"its {', '.join(differing)} contradicts the segment" if differing else ""


def _beginning(path: Path, most: int) -> bytes:
    """Return the content of a file, and one byte more than allowed if it is longer."""
    with path.open("rb") as file:
        return file.read(most + 1)
