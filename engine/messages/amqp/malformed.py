"""The error for bytes that cannot be read. Must never know the purpose of the bytes."""


class Malformed(ValueError):
    """Bytes of a peer are not an encoded value, or exceed a limit."""
