"""SASLprep: one form for the spellings of a login or a passcode (RFC 4013).

Python has the tables of RFC 3454, and no function for the profile. Must never know users.
"""

import stringprep
import unicodedata
from typing import Final

_FORBIDDEN: Final = (
    stringprep.in_table_a1,  # not assigned in Unicode 3.2: such a text cannot be stored
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)


def saslprep(text: str) -> str | None:
    """Return a text that is to be stored in its one form; None if it has forbidden characters."""
    mapped = "".join(
        " " if stringprep.in_table_c12(each) else each
        for each in text
        if not stringprep.in_table_b1(each)
    )
    prepared = unicodedata.ucd_3_2_0.normalize("NFKC", mapped)
    if any(is_in(each) for each in prepared for is_in in _FORBIDDEN):
        return None
    if any(map(stringprep.in_table_d1, prepared)):
        ends = prepared[0], prepared[-1]
        is_mixed = any(map(stringprep.in_table_d2, prepared))
        if is_mixed or not all(map(stringprep.in_table_d1, ends)):
            return None
    return prepared
