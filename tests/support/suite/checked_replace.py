"""`msgspec.structs.replace` for tests: it checks what it is given against the types of the fields.

The type checker sees `**changes: Any`, and msgspec checks nothing, but compiled code does: a tuple
in a field for a list ended the compiled broker.
"""

from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

_S = TypeVar("_S", bound=msgspec.Struct)
_replace = msgspec.structs.replace


def checked_replace(struct: _S, /, **changes: Any) -> _S:
    """Replace fields; raises TypeError where a value is of another type than its field."""
    hints = _hints(type(struct))
    for name, value in changes.items():
        if name in hints and not _fits(value, hints[name]):
            raise TypeError(f"{type(struct).__name__}.{name} is {hints[name]}, not {value!r}")
    return _replace(struct, **changes)


@cache
def _hints(struct: type[msgspec.Struct]) -> dict[str, Any]:
    try:
        return get_type_hints(struct)
    except NameError:
        # It has types that only the type checker knows.
        return {}


def _fits(value: Any, hint: Any) -> bool:
    origin = get_origin(hint)
    if origin is Union or type(hint).__name__ == "UnionType":
        return any(_fits(value, each) for each in get_args(hint))
    kind = origin or hint
    if kind is None:
        return value is None
    if kind is float:
        return isinstance(value, int | float)
    is_class = isinstance(kind, type) and not getattr(kind, "_is_protocol", False)
    return kind is Any or not is_class or isinstance(value, kind)
