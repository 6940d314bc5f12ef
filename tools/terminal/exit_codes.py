"""The exit codes of the command lines. Those of `daybook health` are in
`server.monitoring.health`."""

from typing import Final

EXIT_WRONG: Final = 1
"""Something other than the usage is wrong, or a check found something."""
EXIT_BAD_USE: Final = 2
EXIT_DERIVED: Final = 6
"""The journal is intact, and files that are derived from it are damaged."""
EXIT_INTERRUPTED: Final = 130
"""The exit code in shells of a command that SIGINT ended (128 + 2)."""
