"""The changes of a new configuration: those in force at once, and those that need a restart.

Must never know where a configuration comes from.
"""

from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec

from daybook.engine.settings.distributions import shown_pattern
from daybook.journal.archive.store import without_password
from daybook.server.config_keys import options
from daybook.server.config_keys.acceptor_config import AcceptorConfig
from daybook.server.config_keys.acceptor_options import COMMON, table_of
from daybook.server.config_keys.journal_options import JOURNAL
from daybook.server.config_keys.option import Option
from daybook.server.configuration.config import Config, field_of, key_of, show

UNSET: Final = msgspec.UNSET


def effective(old: Config, new: Config) -> Config:
    """The values in force after a reload: `new` where a key is live, else `old` until a restart."""
    renewed = {acceptor.name: acceptor for acceptor in new.acceptors}
    return Config(
        broker=_renew(old.broker, new.broker, options.BROKER),
        journal=_renew(old.journal, new.journal, JOURNAL),
        acceptors=tuple(
            _renew_acceptor(acceptor, renewed.get(acceptor.name, acceptor))
            for acceptor in old.acceptors
        ),
        address_settings=new.address_settings,
        addresses=new.addresses,
        queues=new.queues,
        diverts=new.diverts,
        wildcards=_renew(old.wildcards, new.wildcards, options.WILDCARDS),
        log=_renew(old.log, new.log, options.LOG),
        console=new.console,
        security_settings=new.security_settings,
        virtual_hosts=new.virtual_hosts,
        host_security=new.host_security,
        distributions=new.distributions,
        connectors=new.connectors,
        auto_links=new.auto_links,
        sharded_queues=new.sharded_queues,
        waypoints=new.waypoints,
        link_routes=new.link_routes,
        replication=old.replication,
    )


Section = TypeVar("Section", bound=msgspec.Struct)


def _renew(old: Section, new: Section, table: Sequence[Option]) -> Section:
    live = [field_of(option.name) for option in table if option.live]
    return msgspec.structs.replace(old, **{name: getattr(new, name) for name in live})


def _renew_acceptor(old: AcceptorConfig, new: AcceptorConfig) -> AcceptorConfig:
    """The values in force of an acceptor: the options of its protocols are live, the protocols are
    not.
    """
    if old.protocol != new.protocol:
        return old
    table = [option for option in table_of(tuple(old.speaks)) if option.name in COMMON]
    return msgspec.structs.replace(_renew(old, new, table), speaks=new.speaks)


def changes(old: Config, new: Config) -> tuple[list[str], list[str]]:
    """The changes of a reload, in words: (those that `effective` puts in force, those that need a
    restart).
    """
    applied = effective(old, new)
    return _differences(old, applied), _differences(applied, new)


def _groups(config: Config) -> dict[str, dict[str, object]]:
    """All values by group (a section or one element of an array) and key."""
    flat: dict[str, dict[str, object]] = {
        "broker": _by_key(config.broker),
        "journal": _by_key(config.journal),
        "wildcard-addresses": _by_key(config.wildcards),
        "log": _by_key(config.log),
        "console": _by_key(config.console),
    }
    for acceptor in config.acceptors:
        common = _by_key(acceptor)
        common["protocol"] = acceptor.protocol
        del common["speaks"]
        flat[f"acceptor {acceptor.name}"] = common | acceptor.options
    flat |= {f"address {address.name}": _by_key(address) for address in config.addresses}
    for entry in config.distributions:
        flat[f"address with {shown_pattern(entry)[1]}"] = _by_key(entry)
    for queue in config.queues:
        flat[f"queue {queue.name}"] = _by_key(queue.definition) | {"address": queue.address}
    flat |= {f"divert {divert.name}": _by_key(divert) for divert in config.diverts}
    for connector in config.connectors:
        common = _by_key(connector)
        del common["options"]
        flat[f"connector {connector.name}"] = common | connector.options
    for each in config.auto_links:
        flat[f"auto-link {each.link.name}"] = _by_key(each) | _by_key(each.link)
    flat |= {f"sharded-queue {queue.name}": _by_key(queue) for queue in config.sharded_queues}
    for route in config.link_routes:
        way = "in" if route.is_in else "out"
        name = f"{way} {route.pattern or route.prefix} to {route.connector or route.container}"
        flat[f"link-route {name}"] = _by_key(route)
    if config.replication is not None:
        own = _by_key(config.replication)
        del own["nodes"]
        flat["replication"] = own | {"listen": str(config.replication.listen)}
        for node, place in config.replication.nodes.items():
            flat[f"replication-node {node}"] = {"address": str(place)}
    for match, granted in config.security_settings.items():
        flat[f"security-setting {match}"] = {name: list(who) for name, who in granted.items()}
    for host, rules in config.host_security.items():
        for match, granted in rules.items():
            lists: dict[str, object] = {name: list(who) for name, who in granted.items()}
            flat[f"security-setting {match} of virtual-host {host}"] = lists
    flat |= {f"virtual-host {host.name}": _by_key(host) for host in config.virtual_hosts}
    for match, values in config.address_settings.items():
        flat[f"address-setting {match}"] = dict(values)
    return flat


def _by_key(section: msgspec.Struct) -> dict[str, object]:
    return {key_of(field): value for field, value in msgspec.structs.asdict(section).items()}


def _shown(key: str, value: object) -> str:
    """A value for the log, without passwords."""
    return show(without_password(str(value)) if key == "archive-directory" else value)


def _differences(old: Config, new: Config) -> list[str]:
    before, after = _groups(old), _groups(new)
    lines = [f"{group}: added" for group in after if group not in before]
    lines += [f"{group}: removed" for group in before if group not in after]
    for group in before:
        if group not in after:
            continue
        for key in {**before[group], **after[group]}:
            values = (before[group].get(key, UNSET), after[group].get(key, UNSET))
            if values[0] != values[1] or type(values[0]) is not type(values[1]):
                was, becomes = (_shown(key, one) if one is not UNSET else "unset" for one in values)
                lines.append(f"{group}: {key} {was} -> {becomes}")
    return lines
