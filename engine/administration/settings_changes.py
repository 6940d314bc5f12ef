"""Deciding on changes of address settings, by the configuration and by administrators.

There are two layers: the settings of the configuration, replaced as a whole at every start and
reload, and those that administrators set at run time, which stay until they are removed. Where both
have a key of one match, the latter is in force; among matches the most specific one decides,
wherever it comes from.
"""

from collections.abc import Mapping
from typing import Final

from daybook.engine.commands import ChangeSettings, RemoveSettings, SetSettings
from daybook.engine.core import hosts
from daybook.engine.core.capacity import guard_all
from daybook.engine.core.core import Core
from daybook.engine.core.residency import set_window
from daybook.engine.entries import rings
from daybook.engine.facts import details, events, reasons
from daybook.engine.names.syntax import Syntax, syntax_of
from daybook.engine.refusals import Code, Refusal
from daybook.engine.routing.duplicates import resize
from daybook.engine.settings.setting_keys import Matches
from daybook.engine.settings.settings import check_match, copied, merged, problems
from daybook.engine.topology import history_removal

LIVE_MATCHES_MAX: Final = 1000
"""How many matches administrators may set at run time: each change journals all of them."""


def change_settings(core: Core, command: ChangeSettings) -> int | Refusal:
    """Put the settings of the configuration in force, if they differ from the present ones."""
    syntax = syntax_of(command.syntax)
    wrong = problems(command.settings, syntax)
    if wrong:
        return Refusal(Code.INVALID, "; ".join(wrong))
    if command.journal_non_persistent not in ("decisions", "full"):
        return Refusal(
            Code.INVALID,
            f"journal-non-persistent is '{command.journal_non_persistent}'; it must be decisions "
            "or full",
        )
    state = core.state
    live = _fitting(core, syntax)
    if (
        command.settings == state.settings.to_dict()
        and command.syntax == state.settings.syntax.text
        and command.journal_non_persistent == state.journal_non_persistent
        and live == state.settings.live
    ):
        return 0
    for text in problems(merged(command.settings, live), syntax):
        core.notices.append(f"with the settings that were set at run time: {text}")
    detail = details.SettingsDetail(
        settings=command.settings, journal_non_persistent=command.journal_non_persistent,
        syntax=command.syntax, live=live,
    )  # fmt: skip
    return _put_in_force(core, detail, reasons.CONFIGURATION)


def _fitting(core: Core, syntax: Syntax) -> Matches:
    """Return the settings that were set at run time whose matches are right in a syntax."""
    fitting = {}
    for match, values in core.state.settings.live_to_dict().items():
        wrong = check_match(match, syntax)
        if wrong is None:
            fitting[match] = values
        else:
            core.notices.append(f"settings that were set at run time are removed: {wrong}")
    return fitting


def set_settings(core: Core, command: SetSettings) -> int | Refusal:
    """Set keys of a match at run time; 0 says that they had these values."""
    settings = core.state.settings
    live = copied(settings.live)
    if not command.values:
        return Refusal(Code.INVALID, "no key is given")
    unknown = hosts.check_known(core, command.match)
    if unknown is not None:
        return unknown
    if command.match not in live and len(live) >= LIVE_MATCHES_MAX:
        return Refusal(
            Code.LIMIT,
            f"at most {LIVE_MATCHES_MAX:,} matches can be set at run time; remove some, or put "
            "them into the configuration",
        )
    live.setdefault(command.match, {}).update(command.values)
    return _change_live(core, live)


def remove_settings(core: Core, command: RemoveSettings) -> int | Refusal:
    """Remove keys of a match that were set at run time, all of them if none is named."""
    settings = core.state.settings
    live = copied(settings.live)
    values = live.get(command.match)
    missing = [key for key in command.keys if values is None or key not in values]
    if values is None or missing:
        return Refusal(Code.NOT_FOUND, _not_set(settings.to_dict(), command.match, missing))
    for key in command.keys or list(values):
        del values[key]
    if not values:
        del live[command.match]
    return _change_live(core, live)


def _not_set(configured: Mapping[str, Mapping[str, object]], match: str, missing: list[str]) -> str:
    """Say what was not set at run time, and where it was set instead."""
    what = f"{missing[0]} of match '{match}'" if missing else f"match '{match}'"
    values = configured.get(match, {})
    if (missing and missing[0] in values) or (not missing and values):
        return f"{what} was set by the configuration, not at run time; remove it there, and reload"
    return f"{what} was not set at run time"


def _change_live(core: Core, live: Matches) -> int | Refusal:
    settings = core.state.settings
    configured = settings.to_dict()
    wrong = problems(merged(configured, live), settings.syntax)
    before = problems(merged(configured, settings.live), settings.syntax)
    if any(text not in before for text in wrong):
        return Refusal(Code.INVALID, "; ".join(wrong))
    if live == settings.live:
        return 0
    detail = details.SettingsDetail(
        settings=configured, journal_non_persistent=core.state.journal_non_persistent,
        syntax=settings.syntax.text, live=live,
    )  # fmt: skip
    return _put_in_force(core, detail, reasons.ADMINISTRATION)


def _put_in_force(core: Core, detail: details.SettingsDetail, reason: int) -> int:
    had_rings = core.state.settings.has_rings
    lsn = core.emit(
        events.row(events.SETTINGS_CHANGED, reason=reason, time=core.now),
        events.encode_detail(detail),
    )
    guard_all(core)
    resize(core)
    history_removal.review_all(core)
    history_removal.review(core)
    core.room.review_due = True
    core.work.held_changed = True
    if core.state.settings.has_rings and not had_rings:
        rings.do_not_shrink(core)
    for consumer in core.state.consumers.values():
        set_window(core.state, consumer.queue)
    return lsn
