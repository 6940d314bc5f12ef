"""Values with a descriptor that their reader gave no meaning to (part 1, section 1.2).

Must never know a single descriptor.
"""

from typing import Any

import msgspec


class Described(msgspec.Struct, frozen=True):
    """A value, and the descriptor that says what it means: a symbol or an unsigned long, as a rule.

    Both are anything that a reader returns.
    """

    descriptor: Any
    value: Any
