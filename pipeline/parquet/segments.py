"""The segments of a history, also those that only a Parquet archive has, as a Disk (ADR 92).

So the library of history reads every history alike. A segment of the archive is restored into a
temporary file when it is opened, and proven meanwhile (`pipeline.proving`): bit for bit, or by the
digests of its blocks if another version of zstd compressed them. Fault model: as
`journal.archive.store`; a segment that is damaged is an ArchiveError. Must never know what the
events are read for.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final

from daybook.journal.archive.disk import JoinedDisk, SpooledDisk
from daybook.journal.disk import Disk
from daybook.pipeline.engines import History
from daybook.pipeline.parquet.archive import ParquetArchive
from daybook.pipeline.parquet.reading import check_same
from daybook.pipeline.proving import as_it_was

KEPT: Final = 4
"""So many restored segments are kept: events refer to content in earlier ones."""


@contextmanager
def segments_of(history: History) -> Iterator[Disk]:
    """Yield all segments of a history, the live ones as they are.

    Raises SelectionError if it names nothing, NoJournal, and ArchiveError for archives that lack
    something, or that are of another data directory.
    """
    history.check()
    source = history.source
    if not history.parquet:
        yield source.disk()
        return
    archive = ParquetArchive(history.parquet)
    segments = archive.segments()
    by_name = {each.segment: each for each in segments}
    names = archive.name_tables()
    remade: set[str] = set()

    def pieces(name: str) -> Iterator[bytes]:
        return as_it_was(archive, by_name[name], names, remade)

    with closing(SpooledDisk(list(by_name), pieces, KEPT, remade)) as archived:
        if source.directory or source.archive:
            check_same(source, archive, segments)
            yield JoinedDisk(archived, source.disk(), archive_first=False)
        else:
            yield archived
