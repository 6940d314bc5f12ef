"""Errors whose text says what, where, and what would be right: people get the text alone."""

from typing import Final

from daybook.engine.apply import MisfitError
from daybook.engine.queues import StoreError
from daybook.journal.errors import JournalError
from daybook.journal.format import Damage
from daybook.paging.base import BaseDamaged
from daybook.paging.tables import IndexDamaged, IndexUnwritable
from daybook.recovery.directory import RecoveryError
from daybook.recovery.fold import FoldError
from daybook.server.users import UsersError

SENTENCES: Final = (
    JournalError, Damage, RecoveryError, FoldError, MisfitError, UsersError, BaseDamaged,
    IndexDamaged, IndexUnwritable, StoreError,
)  # fmt: skip
