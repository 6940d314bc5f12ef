"""The arbiter of a configuration.

Must never decide anything about standbys.
"""

from pathlib import Path

from daybook.journal.extras import install_command
from daybook.replication.arbiters.arbiter import Arbiter
from daybook.replication.arbiters.lease_file import FileArbiter
from daybook.server.config_keys.replication_options import FILE
from daybook.server.configuration.config import ConfigError
from daybook.server.configuration.replication_config import ReplicationConfig


def arbiter_of(config: ReplicationConfig) -> Arbiter:
    """Return the arbiter, none of whose calls takes longer than a third of the lease. Raises
    ConfigError if a package is missing."""
    microseconds = config.lease * 1_000
    seconds = config.lease / 3_000
    if config.arbiter == FILE:
        return FileArbiter(Path(config.path), microseconds, seconds)
    try:
        # An extra, slow to import, and for this arbiter alone.
        from daybook.replication.arbiters.etcd import EtcdArbiter  # noqa: PLC0415
        from daybook.replication.arbiters.etcd_gateway import Gateway, Members  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("daybook"):
            raise
        text = f'replication.arbiter is "{config.arbiter}", which needs {error.name}'
        raise ConfigError([f"{text}; install it with: {install_command('replication')}"]) from None
    members = Members(
        config.endpoints, config.login, config.passcode_file, config.etcd_authority,
        config.etcd_certificate, config.etcd_key,
    )  # fmt: skip
    return EtcdArbiter(Gateway(members, seconds), config.prefix, config.cluster, microseconds)
