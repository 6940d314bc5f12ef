"""The names of the files and folders of a data directory, each defined here and only here.

Other modules take the names from here; a test finds names that are spelled elsewhere. Must never
know the content of the files.
"""

from typing import Final

LOCK: Final = "lock"
"""Locked by the broker that runs on the directory."""
DATA_ID: Final = "data-id"
"""The id of the journal of this directory."""
LAST_WORDS: Final = "last-words"
"""Why the last broker distrusted the index."""
TAG_KEY: Final = "tag-key"
"""The secret in the tags of deliveries; a new one is made if it is gone."""
RETRIES: Final = "retries.json"
"""The retries that run: the next broker says which of them did not end."""
USERS: Final = "users.toml"
CONTROL_SOCKET: Final = "control.sock"
NODE_SOCKET: Final = "node.sock"
"""The control socket of a node of a cluster, which is there while no broker runs, too."""
CONFIG: Final = "broker.toml"
"""The configuration file that `daybook init` writes and that commands look for."""

JOURNAL: Final = "journal"
"""Folder of the segments."""
SEGMENT_SUFFIX: Final = ".seg"
MANIFEST_SUFFIX: Final = ".json"
"""Suffix of a manifest in an archive, after the name of its segment or snapshot."""

NODE: Final = "node"
"""Folder of what a node of a cluster may never forget: its promise, and its epochs."""
CONFIRMED: Final = "confirmed"
"""The file in that folder that says how far the journal is confirmed."""
CUT: Final = "cut"
"""Folder of what was cut off because a cluster continued without it."""

PINS: Final = "pins"
"""Folder of the pins and leases of readers."""
REPORTS: Final = "reports"
"""Folder of the reports of verifications, audits and drills."""

INDEX: Final = "index"
"""Folder of the tables that follow the journal, and of the clusters."""
INDEX_LOCK: Final = "index-lock"
"""Locked by the indexer that owns the index."""
TABLES: Final = "data.mdb"
TABLES_LOCK: Final = "lock.mdb"
CLUSTERS_DIRECTORY: Final = "clusters"

BASE: Final = "base"
"""Folder of the state before the first segment, once segments have left."""
BASE_DESCRIPTION: Final = "base.json"

SNAPSHOTS: Final = "snapshots"
"""Folder of copies of the tables at earlier events."""
SNAPSHOT_SUFFIX: Final = ".snapshot.zst"
"""Suffix of such a copy in an archive; it has a manifest like a segment."""

CATALOGS: Final = "catalogs"
"""Folder of catalogs: the places of messages in each segment."""
ARCHIVE_CATALOGS: Final = "archive-catalogs"
"""Folder of the catalogs of archived segments, for frequent queries of the archive."""
NOTARY: Final = "notary.json"
"""The last signed statement; the next notary continues from it."""

ARCHIVE: Final = "archive"
"""Default folder of the archive."""

DERIVED: Final = (INDEX, SNAPSHOTS, CATALOGS, ARCHIVE_CATALOGS, LAST_WORDS)
"""Files that are made again from the journal, the base and the archive: the broker must serve
correctly even if they are damaged or deleted while no broker runs.
"""
