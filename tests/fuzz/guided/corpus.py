"""The corpus of a target: inputs that once reached something new, packed into one file."""

from pathlib import Path
from types import ModuleType
from typing import Final

import msgspec
import zstandard

HERE: Final = Path(__file__).with_name("corpus")


def cases(target: ModuleType, *, kept: bool = True) -> list[bytes]:
    """The seeds of a target, and what is kept for it."""
    file = HERE / f"{target.NAME}.pack"
    seeds = [target.case_of(seed) for seed in range(target.SEEDS)]
    if not (kept and file.exists()):
        return seeds
    plain = zstandard.ZstdDecompressor().decompress(file.read_bytes())
    return seeds + msgspec.msgpack.decode(plain, type=list[bytes])


def planted(plant: str) -> bytes:
    """The case that found a planted mistake."""
    return (HERE / f"{plant}.case").read_bytes()


def keep_planted(plant: str, case: bytes) -> None:
    """Keep the case that found a planted mistake."""
    HERE.mkdir(exist_ok=True)
    (HERE / f"{plant}.case").write_bytes(case)


def keep(target: ModuleType, found: list[bytes]) -> int:
    """Keep these cases and no others; return the size of the file."""
    HERE.mkdir(exist_ok=True)
    plain = msgspec.msgpack.encode(sorted(found, key=lambda case: (len(case), case)))
    packed = zstandard.ZstdCompressor(level=19).compress(plain)
    (HERE / f"{target.NAME}.pack").write_bytes(packed)
    return len(packed)
