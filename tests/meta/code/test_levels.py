"""Whatever journals say is in the table of feature levels, so older releases refuse it (ADR 79).

`tests/golden/level-1.json` is what the release of level 1 knows; it never changes.
"""

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from daybook.engine.facts import events
from daybook.engine.settings.setting_keys import KEYS
from daybook.journal.blocks import format as journal_format
from daybook.levels import FEATURES, HARMLESS, LEVEL, LEVEL_USED, Feature
from tests.meta.tree import ROOT

FIRST: Final[dict[str, Any]] = json.loads((ROOT / "tests/golden/level-1.json").read_text())
WHAT_TO_DO: Final = "add a row to FEATURES in src/daybook/levels.py with the next level"


def known(part: str) -> set[str]:
    return {*FIRST[part], *(name for each in FEATURES for name in getattr(each, part))}


def fields() -> set[str]:
    return {
        f"{entry.detail.__name__}.{field}"
        for entry in events.EVENT_TYPES
        if entry.detail is not None
        for field in entry.detail.__struct_fields__
    }


def of_new_kinds() -> set[str]:
    """Fields of details whose kinds are all newer: the kinds say the level."""
    old = {e.detail for e in events.EVENT_TYPES if e.detail and e.name in FIRST["kinds"]}
    return {
        f"{entry.detail.__name__}.{field}"
        for entry in events.EVENT_TYPES
        if entry.detail is not None and entry.detail not in old
        for field in entry.detail.__struct_fields__
    }


def missing() -> Iterator[str]:
    kinds = {entry.name for entry in events.EVENT_TYPES}
    yield from sorted(kinds - known("kinds"))
    yield from sorted(fields() - known("fields") - set(HARMLESS) - of_new_kinds())
    yield from sorted({key.name for key in KEYS} - known("settings"))


def test_all_that_journals_say_has_a_level() -> None:
    assert not list(missing()), WHAT_TO_DO


def test_the_table_names_nothing_else() -> None:
    kinds = {entry.name for entry in events.EVENT_TYPES}
    keys = {key.name for key in KEYS}
    for feature in FEATURES:
        assert set(feature.kinds) <= kinds
        assert set(feature.fields) <= fields()
        assert set(feature.settings) <= keys
    assert set(HARMLESS) <= fields()


def test_nothing_is_listed_twice() -> None:
    for part in ("kinds", "fields", "settings"):
        listed = [name for each in FEATURES for name in getattr(each, part)]
        assert len(listed) == len(set(listed))
        assert not set(listed) & set(FIRST[part])


def test_all_flags_have_a_level() -> None:
    flags = FIRST["flags"]
    for feature in FEATURES:
        assert not feature.flags & flags, "two features have one flag"
        flags |= feature.flags
    assert flags == 255


def test_levels_rise_one_by_one_and_each_new_feature_has_its_own() -> None:
    """Level 2 is older than this rule."""
    assert FEATURES[0].level == 1
    for before, after in pairwise(FEATURES):
        assert after.level in (before.level, before.level + 1)
        assert after.level > before.level or after.level == 2, WHAT_TO_DO
    assert FEATURES[-1].level == LEVEL == journal_format.FORMAT_VERSION


def test_a_feature_that_nothing_uses_makes_no_journal_need_it() -> None:
    """It says by which rules a broker decides; a journal that has the rest costs nothing more."""
    assert not Feature(LEVEL + 1, "9.0.0", "another rule").is_used
    assert LEVEL_USED == max(each.level for each in FEATURES[1:] if each.is_used) <= LEVEL
