"""Names that no new address or queue may have here, although protocols could spell them.

The names are kept for dead letters and expired messages, or have a space, which can be forbidden.

Must never depend on the client that asks.
"""

from daybook.engine.core.core import Core
from daybook.engine.names import names
from daybook.engine.refusals import Code, Refusal


def check_spaces(core: Core, name: str) -> Refusal | None:
    """Refuse a new name with a space if `spaces-in-names` is false."""
    if core.options.spaces_in_names or " " not in name:
        return None
    return Refusal(
        Code.INVALID,
        f"'{name}' has a space, and spaces-in-names is false; choose a name without spaces",
    )


def check_reserved(core: Core, name: str, address_name: str) -> Refusal | None:
    """Refuse the name of a dead letter address or expiry address for a queue on another address."""
    settings = core.state.settings
    if address_name and settings.may_be_cut(name):
        return Refusal(
            Code.NOT_ALLOWED,
            "queue names of this length with a '~' are kept for messages that cannot be delivered;"
            " choose another name",
        )
    target = settings.kept_for(name) if address_name else ""
    if target and target != address_name:
        return Refusal(
            Code.NOT_ALLOWED,
            f"queue '{name}' cannot be created on address '{address_name}': the name is kept for "
            f"messages that cannot be delivered, on address '{target}'; choose another name",
        )
    if not address_name or name == address_name or names.plain(name) not in settings.targets():
        return None
    return Refusal(
        Code.NOT_ALLOWED,
        f"queue '{name}' cannot be created on address '{address_name}': the name is that of a "
        "dead-letter-address or an expiry-address, and kept for the queue there; choose another"
        " name",
    )
