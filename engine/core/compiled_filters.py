"""Compiled filters by their texts: each is parsed once for all that use it, and in slices.

Parsing the longest filter takes tens of milliseconds, so it stops when the budget is spent; the
command that asks is then answered UNFINISHED, and finds what was parsed when it is given again.
Volatile, and no decision. Must never know who uses a filter.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from daybook.engine.filters import costs
from daybook.engine.filters.compiling import CompiledFilter, Reading, compile_filter
from daybook.engine.filters.naming import AddressName
from daybook.engine.limits.budget import Budget
from daybook.engine.messages.message import Filter
from daybook.engine.refusals import UNFINISHED, Code, Refusal

TOKENS_AT_A_TIME: Final = 16
"""So many words and signs of a filter are read between two looks at the budget."""
TOKEN_UNITS: Final = 3
"""What reading a word or a sign costs, in units of the budget: some 12 microseconds."""
BUILD_SHIFT: Final = 1
"""Making functions of a filter costs one unit for 2 to this power of its characters."""
TEXTS_MAX: Final = 64 * 1024
"""How many characters of filters are remembered; consumers and bindings keep theirs anyway."""
READINGS_MAX: Final = 1000
"""How many filters may be partly parsed; further ones are parsed at once."""
FORGET_US: Final = 60_000_000
"""A filter that nobody asks for any more is forgotten after so many microseconds."""


Compile: TypeAlias = Callable[[str, AddressName], Filter]
"""Turns the text of a filter into a filter, given what finds the name of an address by its id."""


class CompiledFilters:
    """The filters of a broker; reading them is charged to its budget."""

    __slots__ = ("_address_name", "_budget", "_characters", "_compile", "_compiled", "_readings")

    def __init__(self, budget: Budget, compile_at_once: Compile, address_name: AddressName) -> None:
        self._budget: Final = budget
        self._compile: Compile = compile_at_once
        self._address_name: AddressName = address_name
        self._compiled: dict[str, Filter] = {}
        self._characters = 0
        # Filters that are partly parsed, and when each was last asked for.
        self._readings: dict[str, tuple[Reading, int]] = {}

    def replace_compiler(self, compile_at_once: Compile) -> None:
        """Forget all: filters are compiled otherwise from now on."""
        self._compile = compile_at_once
        self._compiled.clear()
        self._readings.clear()
        self._characters = 0

    def now(self, text: str) -> Filter:
        """Return the filter of a text, whatever that takes. Raises ValueError with a sentence."""
        found = self._compiled.get(text)
        return found if found is not None else self._whole(text)

    def get(self, text: str, now: int) -> Filter | None:
        """Return the filter of a text, None if another turn must continue parsing it.

        `now` is in microseconds since 1970.

        Raises ValueError with a sentence about the fault in the text.
        """
        found = self._compiled.get(text)
        if found is not None:
            return found
        if self._compile is not compile_filter:
            return self._whole(text)
        reading = self._reading(text, now)
        if reading is None:
            return self._whole(text)
        while reading.go_on(TOKENS_AT_A_TIME) == TOKENS_AT_A_TIME:
            self._budget.spent += TOKENS_AT_A_TIME * TOKEN_UNITS
            if self._budget.is_spent:
                self._readings[text] = reading, now
                return None
        self._budget.spent += len(text) >> BUILD_SHIFT
        return self._keep(text, reading.compiled(self._address_name))

    def _reading(self, text: str, now: int) -> Reading | None:
        """Return what is parsed of a text, from its beginning if it is new; None if too many are
        parsed."""
        known = self._readings.pop(text, None)
        if known is not None:
            return known[0]
        if len(self._readings) >= READINGS_MAX:
            forgotten = now - FORGET_US
            self._readings = {
                name: each for name, each in self._readings.items() if each[1] > forgotten
            }
        return Reading(text) if len(self._readings) < READINGS_MAX else None

    def _whole(self, text: str) -> Filter:
        self._budget.spent += len(text)
        return self._keep(text, self._compile(text, self._address_name))

    def _keep(self, text: str, compiled: Filter) -> Filter:
        if self._characters + len(text) > TEXTS_MAX:
            self._compiled.clear()
            self._characters = 0
        self._compiled[text] = compiled
        self._characters += len(text)
        return compiled

    def compile(self, text: str, now: int, *, of_topic: bool = False) -> Filter | Refusal | None:
        """Compile the text of a filter, None for the empty one, or return why it is refused.

        UNFINISHED if it is long, and others must have their turn before it is parsed to its end: so
        it must be asked for before anything is decided. A queue that every message of a topic is
        offered to (`of_topic`) has less room for what is known only when a message is routed.
        """
        if not text:
            return None
        try:
            found = self.get(text, now)
        except ValueError as error:
            return Refusal(Code.INVALID, f"the filter is wrong: {error}")
        if found is None:
            return UNFINISHED
        if isinstance(found, CompiledFilter):
            wrong = costs.wrong_with(found.cost, of_topic=of_topic)
            if wrong:
                return Refusal(Code.INVALID, f"the filter is wrong: {wrong}")
        return found
