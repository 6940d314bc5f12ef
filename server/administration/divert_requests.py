"""The requests of the control socket about diverts. Must never know how they are transported."""

from typing import Any

import msgspec

from daybook.engine.commands import Command, CreateDivert, DeleteDivert
from daybook.engine.facts.definitions import DivertDefinition
from daybook.engine.state.state import State
from daybook.server.process.slices import Slices, at_once, rows_of


class Diverts(msgspec.Struct, frozen=True, tag="diverts", tag_field="do"):
    """Request all diverts."""


class DivertCreation(msgspec.Struct, frozen=True, tag="create-divert", tag_field="do"):
    """Create a divert; with `replace` another of this name may exist."""

    definition: DivertDefinition
    replace: bool = False
    if_missing: bool = False

    def is_done(self, state: State) -> bool:
        """Return whether existing is allowed and the divert exists as requested."""
        found = state.diverts.get(self.definition.name)
        if not self.if_missing or found is None:
            return False
        found = msgspec.structs.replace(found, syntax="", configuration_managed=False)
        return found == self.definition

    def command(self) -> Command:
        """Return the command for this request."""
        return CreateDivert(self.definition, self.replace)


class DivertDeletion(msgspec.Struct, frozen=True, tag="delete-divert", tag_field="do"):
    """Delete a divert."""

    divert: str

    def command(self) -> Command:
        """Return the command for this request."""
        return DeleteDivert(self.divert)


def listing_diverts(state: State) -> Slices[dict[str, Any]]:
    """All diverts in order of their names."""
    there = state.diverts
    rows = yield from rows_of(
        sorted(there), lambda name: _divert(there[name]) if name in there else {}
    )
    return {"diverts": rows}


def diverts(state: State) -> dict[str, Any]:
    """All diverts, at once."""
    return at_once(listing_diverts(state))


def _divert(definition: DivertDefinition) -> dict[str, Any]:
    row = {
        field: getattr(definition, field)
        for field in definition.__struct_fields__
        if field not in ("name", "syntax")
    }
    return {"divert": definition.name, **row}
