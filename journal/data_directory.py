"""What the files and folders of a data directory are called: each name stands here, and only here.

Every room that may know where something is takes its name from this module; a test finds names that
are spelled elsewhere. Must never know what is in the files.
"""

from typing import Final

LOCK: Final = "lock"
"""Held by the broker that serves."""
DATA_ID: Final = "data-id"
"""Says that there was a journal here, and which one."""
LAST_WORDS: Final = "last-words"
"""Why the broker before distrusted the index."""
USERS: Final = "users.toml"
CONTROL_SOCKET: Final = "control.sock"
CONFIG: Final = "broker.toml"
"""A configuration file, where `daybook init` puts it and commands look for it."""

JOURNAL: Final = "journal"
"""Folder of the segments."""
SEGMENT_SUFFIX: Final = ".seg"
MANIFEST_SUFFIX: Final = ".json"
"""Behind the name of a segment in an archive: what the archive says of it."""

PINS: Final = "pins"
"""Folder of the pins and leases of readers."""

INDEX: Final = "index"
"""Folder of the tables that follow the journal, and of the clusters."""
INDEX_LOCK: Final = "index-lock"
"""Held by the indexer that owns the index."""
TABLES: Final = "data.mdb"
TABLES_LOCK: Final = "lock.mdb"
CLUSTERS_DIRECTORY: Final = "clusters"

BASE: Final = "base"
"""Folder of the state before the first segment, once segments have left."""
BASE_DESCRIPTION: Final = "base.json"

ARCHIVE: Final = "archive"
"""Folder of the archive, where nobody named a place for it."""
