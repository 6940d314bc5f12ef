"""The error of checkers: a broken promise of the design."""


class Violation(AssertionError):
    """`promise` is its number in the design (P1, P2, ...) or the name of another law."""

    def __init__(self, promise: str, text: str) -> None:
        super().__init__(f"{promise} broken: {text}")
        self.promise = promise
