"""An end of a link that is passed on, and a container, that say nothing."""


class Silent:
    """It takes note, and does nothing."""

    def route_begun(self, *said: object) -> None:
        """Take note."""

    passed = opened = route_ended = route_begun
