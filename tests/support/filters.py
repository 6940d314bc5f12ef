"""A toy filter language: `name=value` over headers, `not name=value` for the opposite."""

from daybook.engine.content import view_of
from daybook.engine.filters.naming import AddressName
from daybook.engine.message import Message


class Equals:
    def __init__(self, name: str, value: str, wanted: bool) -> None:
        self.name = name
        self.value = value
        self.wanted = wanted

    def matches(self, message: Message) -> bool:
        return (view_of(message).get(self.name) == self.value) is self.wanted


def compile_filter(text: str, name_of: AddressName) -> Equals:
    """Compile a filter; raises ValueError with a sentence."""
    wanted = not text.startswith("not ")
    name, sign, value = text.removeprefix("not ").partition("=")
    if not sign:
        raise ValueError(f"'{text}' has no '='")
    return Equals(name, value, wanted)
