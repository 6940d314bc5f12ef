"""Which branches of the product a case reaches, measured by Python's own tracing; slow.

libFuzzer keeps each input that runs something more often than before, which are thousands. The
corpus of the repository needs one input for each branch: `fewest` chooses them.
"""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[3]
MEASURED: Final = tuple(
    f"{place}/" for place in ("daybook/protocols", "daybook/engine", "daybook/server")
)

Branch = tuple[str, int, int]
"""A file, the number of a line, and that of the line before it in the same function."""


def branches(work: Callable[[], object]) -> set[Branch]:
    """Run something; return the branches that it took."""
    found: set[Branch] = set()

    def enter(frame: FrameType, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        if not any(place in name for place in MEASURED):
            return None
        last = 0

        def note(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal last
            if event == "line":
                found.add((name, last, frame.f_lineno))
                last = frame.f_lineno
            return note

        return note

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        work()
    finally:
        sys.settrace(before)
    return found


def fewest(cases: Iterable[bytes], play: Callable[[bytes], object]) -> tuple[list[bytes], int]:
    """Cases that take every branch that one of all cases takes, the small ones first; and how many
    branches these are."""
    taken: set[Branch] = set()
    kept = []
    for case in sorted(set(cases), key=lambda each: (len(each), each)):
        found = branches(lambda case=case: play(case))  # type: ignore[misc]
        if not found <= taken:
            taken |= found
            kept.append(case)
    return kept, len(taken)
