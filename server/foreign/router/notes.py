"""Notes on a file while it is read: faults, lost settings and needless ones, by line.

Must never know the meaning of a section.
"""

from typing import Final

from daybook.server.config_keys.config_source import Block, Given, Source
from daybook.server.foreign.findings import Findings
from daybook.server.foreign.router.grammar import Section
from daybook.server.foreign.router.reasons import LOST, NEEDLESS


class Notes:
    """The source that a file becomes, and the notes on it; `name` is that of the file."""

    def __init__(self, name: str, problems: list[str], findings: Findings) -> None:
        self.source: Final = Source()
        self._name: Final = name
        self._problems: Final = problems
        self._findings: Final = findings
        self._lost: Final[list[tuple[int, str]]] = []
        self._needless: Final[list[tuple[int, str]]] = []

    def where(self, line: int) -> str:
        """Return a place in the file."""
        return f"{self._name}:{line}"

    def refuse(self, line: int, text: str) -> None:
        """Note a fault."""
        self._problems.append(f"{self.where(line)}: {text}")

    def lose(self, line: int, text: str) -> None:
        """Note something that is not there any more."""
        self._lost.append((line, text))

    def spare(self, line: int, text: str) -> None:
        """Note a setting that is not needed here."""
        self._needless.append((line, text))

    def end(self) -> None:
        """Hand the findings over, by their lines."""
        for line, text in sorted(self._lost):
            self._findings.lose(self.where(line), text)
        for line, text in sorted(self._needless):
            self._findings.spare(self.where(line), text)

    def given(self, value: object, line: int) -> Given:
        """Return a value as the source has it."""
        return Given(value, self.where(line))


class Reading:
    """A section while it is read: each attribute that was looked at is known to have been."""

    def __init__(self, section: Section, notes: Notes) -> None:
        self.section: Final = section
        self.notes: Final = notes
        self.block: Final = Block(notes.where(section.line), {})
        self._seen: Final = {"name"}

    def __contains__(self, key: str) -> bool:
        return key in self.section.attributes

    @property
    def line(self) -> int:
        """The line of the section."""
        return self.section.line

    @property
    def name(self) -> str:
        """Its name, without white space; "" without one."""
        return "-".join(self.text("name").split())

    def line_of(self, key: str) -> int:
        """Return the line of an attribute, or of the section without it."""
        found = self.section.attributes.get(key)
        return self.line if found is None else found.line

    def text(self, key: str, default: str = "") -> str:
        """Return the text of an attribute."""
        value = self._value(key)
        return value if isinstance(value, str) else default

    def number(self, key: str) -> int | None:
        """Return the number of an attribute, None without it."""
        value = self._value(key)
        return value if isinstance(value, int) else None

    def flag(self, key: str, *, default: bool = False) -> bool:
        """Return whether an attribute is yes."""
        value = self._value(key)
        return value if isinstance(value, bool) else default

    def put(self, key: str, value: object, attribute: str = "") -> None:
        """Give a key of ours a value, which stands at the line of an attribute."""
        self.block.values[key] = self.notes.given(value, self.line_of(attribute))

    def lose(self, key: str, text: str) -> None:
        """Note a lost attribute, or part of one."""
        self.notes.lose(self.line_of(key), f"{self.section.name}: {text}")

    def spare(self, key: str, text: str) -> None:
        """Note a needless attribute."""
        self.notes.spare(self.line_of(key), f"{self.section.name}: {text}")

    def refuse(self, key: str, text: str) -> None:
        """Note a fault of an attribute."""
        self.notes.refuse(self.line_of(key), f"{self.section.name}: {text}")

    def end(self) -> None:
        """Note the attributes that nobody has looked at."""
        for key in self.section.attributes.keys() - self._seen:
            why = LOST[self.section.name].get(key)
            if why is not None:
                self.lose(key, f"{key}: {why}")
            else:
                self.spare(key, f"{key}: {NEEDLESS[self.section.name][key]}")

    def _value(self, key: str) -> object:
        self._seen.add(key)
        found = self.section.attributes.get(key)
        return None if found is None else found.value
