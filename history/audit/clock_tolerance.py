"""How far times may go back in an audit by default. Must import nothing slow: `--help` shows it."""

from typing import Final

CLOCK_TOLERANCE: Final = 1_000_000
"""In microseconds."""
