"""The possible states on disk of the block that was being written when the machine died.

A tail changes an overlay that shows the journal with nothing but zeros behind the block before, and
gives the required result: the block is kept, it is lost, or the start is refused. That follows from
the bytes and the promises alone, without the code of the repair. One sector of 512 bytes is written
whole or not at all.
"""

import random
from collections.abc import Callable
from enum import StrEnum
from typing import Final, NamedTuple

from daybook.journal.blocks.format import RESERVE_NAME, segment_first_lsn
from daybook.journal.disk import Disk
from daybook.journal.segments.segment import open_segment, segment_names
from daybook.paging.tables.layout import LAYOUT
from daybook.tools.drills.crash_points.points import Point
from daybook.tools.drills.disks.overlay import Overlay

SECTOR_BYTES: Final = 512
BEHIND_BYTES_MAX: Final = 4096


class Outcome(StrEnum):
    """The required result of a start with a tail."""

    KEPT = "kept"
    LOST = "lost"
    REFUSED = "refused"


class Scene(NamedTuple):
    """A point on its overlay: the whole block, the disk below, and the seed of this tail."""

    point: Point
    block: bytes
    overlay: Overlay
    disk: Disk
    chance: random.Random

    def put(self, data: bytes) -> Outcome:
        """Write the state of the block on the disk; return the required result."""
        assert len(data) == len(self.block)
        self.overlay.write(self.point.segment, data, self.point.offset)
        return Outcome.KEPT if data == self.block else Outcome.LOST

    def sectors(self) -> list[tuple[int, int]]:
        """Return where the sectors of the disk begin and end within the block."""
        offset, size = self.point.offset, len(self.block)
        begin = offset - offset % SECTOR_BYTES
        return [
            (max(start, offset) - offset, min(start + SECTOR_BYTES, offset + size) - offset)
            for start in range(begin, offset + size, SECTOR_BYTES)
        ]


def show(disk: Disk, point: Point, overlay: Overlay) -> None:
    """Show a journal as it was before the block of a point was begun."""
    names = segment_names(disk)
    for name in names[: names.index(point.segment)]:
        overlay.show(name)
    segment = open_segment(disk, point.segment, LAYOUT)
    size = segment.header.segment_bytes
    segment.close()
    overlay.show_part(point.segment, point.offset, size)
    overlay.make(RESERVE_NAME, size)


def _nothing(scene: Scene) -> Outcome:
    return scene.put(bytes(len(scene.block)))


def _whole(scene: Scene) -> Outcome:
    return scene.put(scene.block)


def _inside(scene: Scene) -> Outcome:
    end = scene.chance.randrange(1, len(scene.block))
    return scene.put(scene.block[:end] + bytes(len(scene.block) - end))


def _garbage(scene: Scene) -> Outcome:
    end = scene.chance.randrange(len(scene.block))
    return scene.put(scene.block[:end] + scene.chance.randbytes(len(scene.block) - end))


def _zeroed(scene: Scene) -> Outcome:
    size = len(scene.block)
    begin = scene.chance.randrange(size)
    end = scene.chance.randrange(begin, size) + 1
    return scene.put(scene.block[:begin] + bytes(end - begin) + scene.block[end:])


def _without(scene: Scene, lost: list[tuple[int, int]]) -> Outcome:
    data = bytearray(scene.block)
    for start, end in lost:
        data[start:end] = bytes(end - start)
    return scene.put(bytes(data))


def _sector(scene: Scene) -> Outcome:
    return _without(scene, [scene.chance.choice(scene.sectors())])


def _reordered(scene: Scene) -> Outcome:
    likely = scene.chance.choice((0.1, 0.5, 0.9))
    sectors = scene.sectors()
    # The beginning comes last, and so is the first to be missing.
    lost = [each for each in sectors[1:] if scene.chance.random() < likely]
    return _without(scene, [sectors[0], *lost])


def _behind(scene: Scene) -> Outcome:
    outcome = scene.put(scene.block)
    end = scene.point.offset + len(scene.block)
    count = min(
        scene.chance.randrange(1, BEHIND_BYTES_MAX),
        scene.overlay.open(scene.point.segment).size() - end,
    )
    scene.overlay.write(scene.point.segment, scene.chance.randbytes(count), end)
    return outcome


def _proven(scene: Scene) -> Outcome:
    return Outcome.REFUSED if _sector(scene) is Outcome.LOST else Outcome.KEPT


def _rotten(scene: Scene) -> Outcome:
    scene.put(scene.block)
    begin, end = scene.point.before * 8, scene.point.offset * 8
    scene.overlay.flip(scene.point.segment, scene.chance.randrange(begin, end))
    return Outcome.REFUSED


def _footer(scene: Scene) -> bytes:
    """Return the bytes behind the last block of a sealed segment."""
    file = scene.disk.open(scene.point.segment)
    try:
        begin = scene.point.offset + len(scene.block)
        return file.pread(file.size() - begin, begin)
    finally:
        file.close()


def _begin_next(scene: Scene) -> None:
    """Write the header of the next segment into the reserve, as sealing a segment begins."""
    names = segment_names(scene.disk)
    following = names[names.index(scene.point.segment) + 1]
    assert segment_first_lsn(following) == scene.point.last_lsn + 1
    segment = open_segment(scene.disk, following, LAYOUT)
    header = segment.file.pread(segment.header.header_bytes, 0)
    segment.close()
    scene.overlay.write(RESERVE_NAME, header, 0)


def _seal(scene: Scene, footer: bytes) -> Outcome:
    outcome = scene.put(scene.block)
    scene.overlay.write(scene.point.segment, footer, scene.point.offset + len(scene.block))
    return outcome


def _sealing(scene: Scene) -> Outcome:
    footer = _footer(scene)
    _begin_next(scene)
    return _seal(scene, footer[: scene.chance.randrange(len(footer))])


def _not_renamed(scene: Scene) -> Outcome:
    footer = _footer(scene)
    _begin_next(scene)
    outcome = _seal(scene, footer)
    if scene.chance.random() < 0.5:
        end = scene.point.offset + len(scene.block) + len(footer)
        scene.overlay.open_for_writing(scene.point.segment).truncate(end)
    return outcome


def _no_successor(scene: Scene) -> Outcome:
    _seal(scene, _footer(scene))
    return Outcome.REFUSED


class Tail(NamedTuple):
    """A kind of tail: its description, its effect, and the points at which it may occur.

    With `is_proven` the checkpoint says that the block was durable.
    """

    about: str
    carry_out: Callable[[Scene], Outcome]
    occurs: Callable[[Point], bool] = lambda point: True
    is_proven: bool = False


TAILS: Final[dict[str, Tail]] = {
    "nothing": Tail("cut at the boundary, or the last block lost though written", _nothing),
    "whole": Tail("the whole block, which was not confirmed to anybody", _whole),
    "inside": Tail("cut inside the block", _inside),
    "garbage": Tail("cut, and garbage behind the cut", _garbage),
    "zeroed": Tail("zeros in the middle of the block", _zeroed),
    "sector": Tail("one sector of 512 bytes lost", _sector),
    "reordered": Tail("later sectors written, the first and some others not", _reordered),
    "behind": Tail("the whole block, and garbage behind it", _behind),
    "proven": Tail(
        "one sector lost of a block that a checkpoint proves", _proven, is_proven=True,
        occurs=lambda point: point.events > 0,
    ),
    "rotten": Tail(
        "a flipped bit in the block before, which this block proves", _rotten,
        occurs=lambda point: point.before > 0,
    ),
    "sealing": Tail(
        "a footer that was being written", _sealing, occurs=lambda point: point.is_last
    ),
    "not-renamed": Tail(
        "a sealed segment whose successor has no name yet", _not_renamed,
        occurs=lambda point: point.is_last,
    ),
    "no-successor": Tail(
        "a sealed segment whose successor is gone", _no_successor,
        occurs=lambda point: point.is_last,
    ),
}  # fmt: skip
