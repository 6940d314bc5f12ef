"""The error of an event that does not fit the state: a bug of the broker, or damage."""

from daybook.errors import DaybookError


class MismatchError(DaybookError):
    """An event does not fit the state that results from the events before it."""
