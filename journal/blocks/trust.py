"""The limit on the decompressed size of a block from an untrusted source.

A broker reads only what it wrote itself. The tools also read files from others: a copy of a data
directory, an archive, Parquet files. There a few kilobytes may decompress to gigabytes, so the
tools refuse blocks that are larger than a broker with the default configuration can write. Users
with larger transactions (`max-transaction-bytes`) raise the limit with an environment variable.
"""

from typing import ClassVar, Final

VARIABLE: Final = "DAYBOOK_BLOCK_BYTES_MAX"
BYTES_MAX: Final = 512 * 1024 * 1024
"""The default limit of the tools: five times the default transaction."""


class _Limit:
    """The limit of this process; None for none."""

    bytes_max: ClassVar[int | None] = None


def limit_blocks(bytes_max: int | None) -> None:
    """From now on refuse larger frames in this process; None for no limit."""
    _Limit.bytes_max = bytes_max


def current_limit() -> int | None:
    """Return the limit of this process, for processes that it starts."""
    return _Limit.bytes_max


def too_large(raw_bytes: int) -> str:
    """Return the error text for a frame or row group of this size; "" if it is allowed."""
    limit = _Limit.bytes_max
    if limit is None or raw_bytes <= limit:
        return ""
    return (
        f"it decompresses to {raw_bytes:,} bytes, but the limit for untrusted data is {limit:,}; "
        f"if you trust it, set {VARIABLE}={raw_bytes}"
    )
