"""Many patterns compared with a long name at once: each place in each pattern is a bit of a number.

Time is the number of tokens of the name, times that of all patterns divided by the width of a
machine's number: patterns and names that were made to agree gain nothing by it. Must never know
what a pattern is for.
"""

from collections.abc import Sequence
from typing import Final

ONE: Final = "*"
ANY: Final = "#"


class PatternBits:
    """Patterns in their normal form (`engine.settings.distributions.normal_form`).

    The bit of a place says that so many tokens of its pattern are behind it. Those behind a `#` may
    stay there for another token of the name, and those before it need none.
    """

    __slots__ = ("_after", "_any", "_first", "_last", "_one", "_width")

    def __init__(self, patterns: Sequence[tuple[str, ...]]) -> None:
        # The places behind each token but wildcards.
        self._after: Final[dict[str, list[int]]] = {}
        # The pattern whose last place that is.
        self._last: Final[dict[int, int]] = {}
        first: list[int] = []
        wild: dict[str, list[int]] = {ONE: [], ANY: []}
        place = 0
        for number, pattern in enumerate(patterns):
            first.append(place)
            for token in pattern:
                place += 1
                places = wild.get(token)
                (places if places is not None else self._after.setdefault(token, [])).append(place)
            self._last[place] = number
            place += 1
        self._width: Final = place + 1
        self._first: Final = self._bits(first)
        self._one: Final = self._bits(wild[ONE])
        self._any: Final = self._bits(wild[ANY])

    def _bits(self, places: Sequence[int]) -> int:
        found = bytearray(self._width + 7 >> 3)
        for place in places:
            found[place >> 3] |= 1 << (place & 7)
        return int.from_bytes(found, "little")

    def find(self, tokens: Sequence[str]) -> int:
        """Return the number of the pattern that fits the tokens of a name best, -1 for none."""
        behind = {each: self._bits(self._after.get(each, ())) for each in set(tokens)}
        ends = self._ends(tokens, behind)
        here, at = self._first & ends[0], 0
        while here:
            if at == len(tokens):
                found = self._ended(here)
                if found >= 0:
                    return found
            else:
                token = behind[tokens[at]]
                following = here << 1 & token & ends[at + 1] or here << 1 & self._one & ends[at + 1]
                if following:
                    here, at = following, at + 1
                    continue
            following = here << 1 & self._any & ends[at]
            if following:
                here = following
                continue
            at += 1
            here &= self._any & ends[at]
        return -1

    def _ends(self, tokens: Sequence[str], behind: dict[str, int]) -> list[int]:
        """Return, for each token of a name and its end, the places from which patterns fit the
        rest."""
        step = self._before_any(self._bits(list(self._last)))
        ends = [step]
        for token in reversed(tokens):
            taken = step & (behind[token] | self._one)
            step = self._before_any(taken >> 1 | step & self._any)
            ends.append(step)
        ends.reverse()
        return ends

    def _before_any(self, places: int) -> int:
        return places | (places & self._any) >> 1

    def _ended(self, places: int) -> int:
        """Return the pattern that ends at one of these places, -1 if none does."""
        while places:
            lowest = places & -places
            found = self._last.get(lowest.bit_length() - 1, -1)
            if found >= 0:
                return found
            places ^= lowest
        return -1
