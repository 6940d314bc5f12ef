"""How tests start virtual machines of Java: each runs once, and not for long."""

from typing import Final

QUICK: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options for what runs once: a compiler that thinks less is done sooner."""
QUICK_TEXT: Final = " ".join(QUICK)
"""The same for a variable of the environment or a setting."""
