"""The requests of the control socket about diverts. Must never know how they are transported."""

from typing import Any

import msgspec

from daybook.engine.commands import Command, CreateDivert, DeleteDivert
from daybook.engine.definitions import DivertDefinition
from daybook.engine.state import State


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


def diverts(state: State) -> dict[str, Any]:
    """All diverts in order of their names."""
    rows = []
    for name in sorted(state.diverts):
        definition = state.diverts[name]
        row = {
            field: getattr(definition, field)
            for field in definition.__struct_fields__
            if field not in ("name", "syntax")
        }
        rows.append({"divert": name, **row})
    return {"diverts": rows}
