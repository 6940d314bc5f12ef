"""Answers about names, remembered up to a number of names and of characters: peers choose names.

Must never know what is asked about a name.
"""

from typing import Final, Generic, TypeVar

NAMES_MAX: Final = 10_000
CHARACTERS_MAX: Final = 1 << 20

Answer = TypeVar("Answer")


class KnownNames(Generic[Answer]):
    """The answers by name. When they are too many, all are forgotten."""

    __slots__ = ("_answers", "_characters")

    def __init__(self) -> None:
        self._answers: Final[dict[str, Answer]] = {}
        self._characters = 0

    def get(self, name: str) -> Answer | None:
        """Return the answer for a name, None if it is not known."""
        return self._answers.get(name)

    def remember(self, name: str, answer: Answer) -> None:
        """Remember the answer for one more name."""
        is_full = len(self._answers) >= NAMES_MAX
        if is_full or self._characters + len(name) > CHARACTERS_MAX:
            self.clear()
        self._answers[name] = answer
        self._characters += len(name)

    def clear(self) -> None:
        """Forget all."""
        self._answers.clear()
        self._characters = 0
