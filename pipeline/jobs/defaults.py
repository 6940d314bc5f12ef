"""What jobs assume when nothing else is said. Imports nothing: `--help` shows it."""

from typing import Final

POISON_DELIVERIES: Final = 3
"""A message that was delivered this often is poison."""
