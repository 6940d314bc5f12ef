"""Decoding: values from bytes, and where values end, without decoding them.

Nothing is allocated for what the bytes only announce: sizes, counts and depths are checked first.
Each step consumes bytes or one of a bounded number of items, so reading always ends. Must never
know what a value is used for.
"""

from typing import Any, Final

from daybook.engine.messages.amqp.constructors import CONSTRUCTORS, DESCRIBED, NULL, width_of
from daybook.engine.messages.amqp.described import Described
from daybook.engine.messages.amqp.malformed import Malformed

DEPTH_MAX: Final = 32
"""How deep values may be in each other."""
ITEMS_MAX: Final = 65_536
"""How many values may be in lists, maps and arrays, all of one reader together."""

_WIDTHS: Final = [width_of(code) for code in range(256)]
_LIST0: Final = 0x45
_VARIABLE, _COMPOUND, _ARRAY = 0xA0, 0xC0, 0xE0
_SHORT: Final = ("a value of {} bytes is announced, and {} are there").format


class Reader:
    """Reads values of some bytes one after the other, from `at` up to `end`.

    Every method raises Malformed; the reader is then of no more use.
    """

    __slots__ = ("at", "data", "depth", "end", "items")

    def __init__(
        self, data: bytes, at: int, end: int, depth: int = DEPTH_MAX, items: int = ITEMS_MAX
    ) -> None:
        """Read bytes; values are at most so deep, and have so many items."""
        self.data: Final = data
        self.at = at
        self.end = end
        self.depth = depth
        self.items = items

    def code(self) -> int:
        """Return the constructor of the next value, without reading it."""
        if self.at >= self.end:
            raise Malformed("the bytes end where a value should begin")
        return self.data[self.at]

    def value(self) -> Any:
        """Read a value: of the types of `engine.facts.values`, and `Described`; arrays are
        lists."""
        code = self.code()
        self.at += 1
        if code == DESCRIBED:
            self._enter(0)
            described = Described(self.value(), self.value())
            self.depth += 1
            return described
        return self._contents(code)

    def uint(self) -> int:
        """Read an unsigned number of 32 bits; -1 for null."""
        code = self.code()
        at = self.at + 1
        if code == 0x52 or code == 0x70:
            self.at = at
            return self._size(1 if code == 0x52 else 4)
        if code != 0x43 and code != NULL:
            raise Malformed(f"a number is expected, not constructor 0x{code:02x}")
        self.at = at
        return 0 if code == 0x43 else -1

    def boolean(self) -> bool:
        """Read a boolean in one byte; null is false."""
        code = self.code()
        if code < NULL or code > 0x42:
            raise Malformed(f"a boolean in one byte is expected, not constructor 0x{code:02x}")
        self.at += 1
        return code == 0x41

    def begin_list(self) -> tuple[int, int]:
        """Read the beginning of a list; return how many items it has, and where they must end."""
        code = self.code()
        self.at += 1
        if code == _LIST0:
            return 0, self.at
        if code != 0xC0 and code != 0xD0:
            raise Malformed(f"a list is expected, not constructor 0x{code:02x}")
        return self._begin_compound(_WIDTHS[code])

    def begin_map(self) -> tuple[int, int]:
        """Read the beginning of a map; return how many keys and values it has, and where they must
        end."""
        code = self.code()
        self.at += 1
        if code != 0xC1 and code != 0xD1:
            raise Malformed(f"a map is expected, not constructor 0x{code:02x}")
        return self._begin_compound(_WIDTHS[code])

    def _enter(self, items: int) -> None:
        self.depth -= 1
        self.items -= items
        if self.depth < 0:
            raise Malformed("values are too deep in each other")
        if self.items < 0:
            raise Malformed("there are too many values")

    def _size(self, width: int) -> int:
        """Read an unsigned number of 1 or 4 bytes."""
        at = self.at
        self.at = after = at + width
        if after > self.end:
            raise Malformed(_SHORT(width, self.end - at))
        data = self.data
        if width == 1:
            return data[at]
        return data[at] << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]

    def _begin_compound(self, width: int) -> tuple[int, int]:
        size = self._size(width)
        stop = self.at + size
        if stop > self.end:
            raise Malformed(_SHORT(size, self.end - self.at))
        if size < width:
            raise Malformed(f"a size of {size} leaves no room for the count")
        return self._size(width), stop

    def _contents(self, code: int) -> Any:
        """Read what is behind a constructor."""
        if code >= _ARRAY:
            return self._array(_WIDTHS[code], code)
        if code >= _COMPOUND:
            return self._compound(code)
        constructor = CONSTRUCTORS.get(code)
        if constructor is None:
            raise Malformed(f"there is no constructor 0x{code:02x}")
        unpack = constructor.unpack
        if unpack is None:
            return []
        size = _WIDTHS[code]
        if code >= _VARIABLE:
            size = self._size(size)
        at = self.at
        self.at = after = at + size
        if after > self.end:
            raise Malformed(_SHORT(size, self.end - at))
        try:
            return unpack(self.data[at:after])
        except ValueError as error:
            raise Malformed(f"no {constructor.label or 'such'} value: {error}") from None

    def _compound(self, code: int) -> Any:
        if code & 0x0F > 1:
            raise Malformed(f"there is no constructor 0x{code:02x}")
        count, stop = self._begin_compound(_WIDTHS[code])
        if count > stop - self.at:
            raise Malformed(f"{count} values are announced in {stop - self.at} bytes")
        self._enter(count)
        outer, self.end = self.end, stop
        values: Any = self._pairs(count) if code & 1 else [self.value() for _ in range(count)]
        self._leave(stop, outer)
        return values

    def _pairs(self, count: int) -> dict[Any, Any]:
        if count & 1:
            raise Malformed(f"a map of {count} values has a key without a value")
        pairs: dict[Any, Any] = {}
        for _ in range(count >> 1):
            key = self.value()
            try:
                if key in pairs:
                    raise Malformed("a map has a key twice")
            except TypeError:
                raise Malformed("the key of a map is a list or a map") from None
            pairs[key] = self.value()
        return pairs

    def _array(self, width: int, code: int) -> list[Any]:
        if code & 0x0F:
            raise Malformed(f"there is no constructor 0x{code:02x}")
        count, stop = self._begin_compound(width)
        outer, self.end = self.end, stop
        descriptors: list[Any] = []
        of = self.code()
        self.at += 1
        while of == DESCRIBED:
            self._enter(0)
            descriptors.append(self.value())
            of = self.code()
            self.at += 1
        if _WIDTHS[of] < 0 or count * _WIDTHS[of] > stop - self.at:
            raise Malformed(f"{count} values 0x{of:02x} are announced in {stop - self.at} bytes")
        self._enter(count)
        values = [self._contents(of) for _ in range(count)]
        self.depth += len(descriptors)
        while descriptors:
            descriptor = descriptors.pop()
            values = [Described(descriptor, value) for value in values]
        self._leave(stop, outer)
        return values

    def _leave(self, stop: int, outer: int) -> None:
        if self.at != stop:
            raise Malformed(f"a size is wrong: {stop - self.at} bytes are left behind the values")
        self.end = outer
        self.depth += 1


def decoded(data: bytes) -> Any:
    """Return the one value that the bytes are; raises Malformed."""
    reader = Reader(data, 0, len(data))
    value = reader.value()
    if reader.at != reader.end:
        raise Malformed(f"{reader.end - reader.at} bytes are left behind a value")
    return value


def end_of(data: bytes, at: int, end: int) -> int:
    """Return where the value that begins at a place ends; raises Malformed.

    Its inside is not looked at, so it may be malformed.
    """
    awaited = 1  # a described value is a descriptor and a value
    while awaited:
        if at >= end:
            raise Malformed("the bytes end where a value should begin")
        code = data[at]
        at += 1
        if code == DESCRIBED:
            awaited += 1
            continue
        size = _WIDTHS[code]
        if size < 0:
            raise Malformed(f"there is no constructor 0x{code:02x}")
        if code >= _VARIABLE:
            at += size
            if at > end:
                raise Malformed(_SHORT(size, end - at + size))
            if size == 1:
                size = data[at - 1]
            else:
                size = data[at - 4] << 24 | data[at - 3] << 16 | data[at - 2] << 8 | data[at - 1]
        at += size
        if at > end:
            raise Malformed(_SHORT(size, end - at + size))
        awaited -= 1
    return at
