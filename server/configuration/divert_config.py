"""The faults of a [[divert]] of a configuration: all of them, each once.

Must never know other diverts.
"""

from collections.abc import Iterator

from daybook.engine.facts.definitions import DivertDefinition
from daybook.engine.names.syntax import Syntax
from daybook.engine.routing.divert_decisions import faults_of
from daybook.server.config_keys.config_source import Block


def new_faults(block: Block, divert: DivertDefinition, syntax: Syntax) -> Iterator[str]:
    """Yield the faults of a divert, without the fields whose values were refused before."""
    for field, text in faults_of(divert, syntax):
        given = block.values.get(field.replace("_", "-"))
        is_missing = given is None and field != "forwarding_addresses"
        was_refused = given is not None and given.value != [] and not getattr(divert, field)
        if not is_missing and not was_refused:
            yield text
