"""How much of a queue comes into memory at a time. Must never know queues."""

from typing import Final


class Window:
    """How much of a level comes into memory at a time; one for all queues of a broker.

    Without content for callers that only remove the messages.
    """

    __slots__ = ("bytes", "messages", "with_content")

    def __init__(
        self, messages: int = 1000, size: int = 1024 * 1024, *, with_content: bool = True
    ) -> None:
        self.messages = messages
        self.bytes = size
        self.with_content = with_content


DEFAULT_WINDOW: Final = Window()
"""How much comes into memory at a time until a state sets another window; must not be changed."""
