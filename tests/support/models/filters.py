"""A toy filter language: `name=value` over headers, `not name=value` for the opposite."""

from daybook.engine.filters.naming import AddressName
from daybook.engine.messages.content import view_of
from daybook.engine.messages.message import Message


class Equals:
    def __init__(self, name: str, value: str, wanted: bool) -> None:
        self.name = name
        self.value = value
        self.wanted = wanted

    def matches(self, message: Message) -> bool:
        return (view_of(message).get(self.name) == self.value) is self.wanted

    def work(self, message: Message) -> int:
        return 1


def compile_filter(text: str, name_of: AddressName) -> Equals:
    """Compile a filter; raises ValueError with a sentence."""
    wanted = not text.startswith("not ")
    name, sign, value = text.removeprefix("not ").partition("=")
    if not sign:
        raise ValueError(f"'{text}' has no '='")
    value = value.strip()
    if value.startswith("'"):
        # As the broker writes it for dead letters.
        value = value[1:-1].replace("''", "'")
    return Equals(name.strip(), value, wanted)
