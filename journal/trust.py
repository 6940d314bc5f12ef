"""How much a block of somebody else's may decompress to.

A broker reads what it wrote itself, and nothing else. The tools read what was handed over: a copy
of a data directory, an archive, Parquet files. There a few kilobytes can claim to be gigabytes,
rightly or not, so the tools refuse what is larger than anything that a broker writes as it comes
configured. Who has larger transactions (`max-transaction-bytes`) says so in the environment.
"""

from typing import ClassVar, Final

VARIABLE: Final = "DAYBOOK_BLOCK_BYTES_MAX"
BYTES_MAX: Final = 512 * 1024 * 1024
"""What the tools take if the environment says nothing: five times the default transaction."""


class _Limit:
    """The limit of this process; None for none."""

    bytes_max: ClassVar[int | None] = None


def limit_blocks(bytes_max: int | None) -> None:
    """Refuse frames that hold more than so many bytes, from now on, in this process."""
    _Limit.bytes_max = bytes_max


def too_large(raw_bytes: int) -> str:
    """What is wrong with a frame or row group of this size; empty if nothing is."""
    limit = _Limit.bytes_max
    if limit is None or raw_bytes <= limit:
        return ""
    return (
        f"it claims to hold {raw_bytes:,} bytes, and more than {limit:,} are not decompressed for "
        f"somebody else; if it is to be trusted, set {VARIABLE}={raw_bytes}"
    )
