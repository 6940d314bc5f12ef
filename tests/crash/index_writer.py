"""Index a data directory batch by batch, and say of each commit what it is: LSN and digest.

Run with the words DATA and BLOCKS by the test of power cuts, below the black box: each commit has
up to so many blocks.
"""

import sys
from contextlib import closing
from pathlib import Path

from daybook.journal.data_directory import DATA_ID, INDEX, JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.segments.reader import read_blocks
from daybook.paging.fold.index import Index
from daybook.paging.tables.layout import LAYOUT


def main(data: Path, at_once: int) -> None:
    """Index everything, one line a commit."""
    data_id = bytes.fromhex((data / DATA_ID).read_text("ascii"))
    blocks = list(read_blocks(RealDisk(data / JOURNAL), LAYOUT))
    with closing(Index(data / INDEX, data_id)) as index:
        print(index.lsn, index.digest())
        for start in range(0, len(blocks), at_once):
            index.advance(blocks[start : start + at_once])
            print(index.lsn, index.digest())


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
