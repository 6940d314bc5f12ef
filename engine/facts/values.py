"""The types of values that properties and bodies of messages have, in all formats together.

They are those of AMQP 1.0 (part 1, section 1.6), which has all that MQTT 5 and header lines know:
nothing, booleans, integers, floating point numbers, text, bytes, lists and maps are Python's own;
the others are here. How many bits a number had is not kept: a message that leaves in the format in
which it arrived leaves with the bytes that it had. Must never know a format.
"""

from typing import Final, TypeAlias

import msgspec


class Char(msgspec.Struct, frozen=True):
    """One character."""

    text: str


class Symbol(msgspec.Struct, frozen=True):
    """A name of a protocol's own vocabulary, in ASCII."""

    text: str


class Timestamp(msgspec.Struct, frozen=True):
    """A moment, in milliseconds since 1970."""

    milliseconds: int


class Uuid(msgspec.Struct, frozen=True):
    """A universally unique id of 16 bytes."""

    raw: bytes

    def __str__(self) -> str:
        digits = self.raw.hex()
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


class Decimal(msgspec.Struct, frozen=True):
    """A decimal number of 4, 8 or 16 bytes: binary integer decimals of IEEE 754-2008, 3.5.2."""

    raw: bytes

    def __str__(self) -> str:
        bits, exponent_bits, bias, digits_max = _DECIMALS[len(self.raw)]
        number = int.from_bytes(self.raw)
        minus = "-" * (number >> (bits - 1))
        lead = number >> (bits - 6) & 0b11111
        if lead >= 0b11110:
            return minus + ("Infinity" if lead == 0b11110 else "NaN")
        rest = bits - 1 - exponent_bits
        if lead < 0b11000:
            exponent, coefficient = number >> rest, number & (1 << rest) - 1
        else:
            rest -= 2
            exponent, coefficient = number >> rest, 0b100 << rest | number & (1 << rest) - 1
        # A coefficient that is too long for its width is zero.
        digits = str(coefficient if coefficient < 10**digits_max else 0)
        exponent = (exponent & (1 << exponent_bits) - 1) - bias
        if exponent > 0:
            return f"{minus}{digits}E+{exponent}"
        if exponent < -len(digits) - _ZEROS_MAX:
            return f"{minus}{digits}E{exponent}"
        if not exponent:
            return minus + digits
        digits = digits.rjust(1 - exponent, "0")
        return f"{minus}{digits[:exponent]}.{digits[exponent:]}"


_ZEROS_MAX: Final = 6
_DECIMALS: Final = {4: (32, 8, 101, 7), 8: (64, 10, 398, 16), 16: (128, 14, 6176, 34)}
"""Bits, bits of the exponent, its bias and digits, by the number of bytes."""

Value: TypeAlias = (
    bool | int | float | str | bytes | Char | Symbol | Timestamp | Uuid | Decimal
    | list["Value"] | dict["Value", "Value"] | None
)  # fmt: skip
"""The values of a property or a body; keys of maps are neither lists nor maps."""

Plain: TypeAlias = str | bytes | bool | int | float
"""What filters compare."""

Id: TypeAlias = str | int | bytes | Uuid
"""The id of a message, as its sender gave it; "" for none."""
