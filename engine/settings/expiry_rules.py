"""When a message expires, by what its sender says and the settings of its address (seed on expiry,
section 2).

Pure functions; the event `Routed` says when a message expires, so a fold computes nothing here.
"""

from daybook.engine.settings.settings import AddressSettings


def has_rules(settings: AddressSettings) -> bool:
    """Whether the settings can change when a message expires."""
    return (
        settings.no_expiry
        or settings.expiry_delay >= 0
        or settings.min_expiry_delay >= 0
        or settings.max_expiry_delay >= 0
    )


def expires_of(settings: AddressSettings, expires: int, now_ms: int) -> int:
    """Return when a message expires, in milliseconds since 1970, 0 for never.

    `expires` is what its sender says. An expiry-delay is for messages that would never expire, and
    overrides the smallest and largest delay.
    """
    if settings.no_expiry:
        return 0
    if settings.expiry_delay >= 0:
        return expires or now_ms + settings.expiry_delay
    least, most = settings.min_expiry_delay, settings.max_expiry_delay
    if not expires:
        delay = most if most >= 0 else least
        return now_ms + delay if delay >= 0 else 0
    if most >= 0:
        expires = min(expires, now_ms + most)
    return max(expires, now_ms + least) if least >= 0 else expires
