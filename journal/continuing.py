"""Making a journal that ends with a sealed segment one that a broker can continue.

Segments from an archive end so: a start refuses them, because a sealed segment had a successor.
Here an empty one is added, which carries the hash of the last block. Must never know what a column
means.
"""

from daybook.journal.blocks.format import (
    RESERVE_NAME,
    Damage,
    pack_segment_header,
    segment_header_bytes,
    segment_name,
)
from daybook.journal.disk import Disk, write_all
from daybook.journal.errors import Corruption
from daybook.journal.journal import SEGMENT_BYTES
from daybook.journal.segments.segment import open_segment, segment_names


def continue_journal(disk: Disk, segment_bytes: int = SEGMENT_BYTES) -> int:
    """Add an empty segment behind the last one, which is sealed; return the last LSN.

    When this returns, the segment is durable. Raises Corruption if the last segment is not sealed
    or is damaged, and OSError.
    """
    name = segment_names(disk)[-1]
    segment = open_segment(disk, name)
    try:
        footer = segment.footer()
        header = segment.header
    except Damage as damage:
        raise Corruption(name, 0, segment.header.first_lsn, str(damage)) from damage
    finally:
        segment.close()
    size = max(segment_bytes, segment_header_bytes(len(header.layout), header.level))
    file = disk.open_for_writing(RESERVE_NAME)
    try:
        file.allocate(size)
        packed = pack_segment_header(
            first_lsn=footer.last_lsn + 1,
            data_id=header.data_id,
            previous_hash=footer.last_hash,
            segment_bytes=size,
            layout=header.layout,
            level=header.level,
        )
        write_all(file, packed, 0)
        file.fdatasync()
    finally:
        file.close()
    disk.rename(RESERVE_NAME, segment_name(footer.last_lsn + 1))
    disk.sync_directory()
    return footer.last_lsn
