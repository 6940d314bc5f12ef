"""Limits that a simulated run reaches, and when."""

import random

import msgspec

Settings = dict[str, dict[str, str | int | bool | float]]


class Limits(msgspec.Struct):
    """Limits that a run reaches, and when. Nothing is dropped: receipted messages must come."""

    settings: Settings
    disk_full_policy: str
    global_max_messages: int


def draw_limits(chance: random.Random) -> Limits:
    """Draw limits from a source of their own, so that all else of a seed is as it was."""
    settings: Settings = {}
    for match in ("jobs.c", "jobs.d", "split", "news.#"):
        if chance.random() < 0.6:
            policy = chance.choice(("PAGE", "BLOCK", "BLOCK", "FAIL"))
            settings[match] = {"address-full-policy": policy}
            settings[match]["max-size-messages"] = chance.choice((0, 1, 3, 10)) + (policy != "PAGE")
    return Limits(settings, chance.choice(("BLOCK", "FAIL")), chance.choice((0, 0, 5, 40)))
