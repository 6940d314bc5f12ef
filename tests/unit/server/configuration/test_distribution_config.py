"""Distributions of a configuration are read, and those that contradict anything are refused."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from daybook.engine.facts.definitions import CLOSEST, MULTICAST, UNAVAILABLE, DistributionEntry
from daybook.server.configuration.config import Config, ConfigError, load
from daybook.server.configuration.config_changes import changes, effective
from daybook.tools.daybook import cli

NEWS = '[[address]]\nprefix = "news"\ndistribution = "multicast"\n'
BALANCED_BY_DEFAULT = 'default-distribution = "balanced"\n'


def read(folder: Path, text: str, *overrides: str) -> Config:
    path = folder / "broker.toml"
    path.write_text(text)
    return load(path, overrides)


def problems(folder: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(folder, text)
    return [one.replace(str(folder / "broker.toml"), "FILE") for one in caught.value.problems]


def test_an_address_with_a_prefix_or_a_pattern_is_a_distribution(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        '[[address]]\nprefix = "a"\n'
        '[[address]]\npattern = "b/*/#"\ndistribution = "closest"\npriority = 0\n'
        "enable-fallback = true\n"
        '[[address]]\nname = "orders"\n'
        '[[address]]\nprefix = "orders"\nwaypoint = true\npriority = 9\n'
        '[[address]]\nprefix = "x"\ndistribution = "unavailable"\npriority = -1\n',
        "default-distribution=multicast",
    )
    assert config.distributions == (
        DistributionEntry(prefix="a"),
        DistributionEntry(pattern="b/*/#", distribution=CLOSEST, priority=0, enable_fallback=True),
        DistributionEntry(prefix="orders", waypoint=True, priority=9),
        DistributionEntry(prefix="x", distribution=UNAVAILABLE),
    )
    assert config.broker.default_distribution == MULTICAST
    assert [address.name for address in config.addresses] == ["orders"]


def test_without_any_every_address_is_stored() -> None:
    assert load().distributions == ()
    assert load().broker.default_distribution == "stored"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[[address]]\nprefix = 'a'\npattern = 'b'\n",
            "FILE:3: address: it has a prefix and a pattern; remove one of them",
        ),
        ("[[address]]\nwaypoint = true\n", "FILE:1: address: it has neither prefix nor pattern"),
        ("[[address]]\nprefix = ''\n", "FILE:2: address: it has neither prefix nor pattern, like"),
        ("[[address]]\nprefix = 1\n", "FILE:2: address.prefix is 1; it must be the name of an add"),
        ("[[address]]\npattern = 'a//b'\n", "FILE:2: address: pattern is 'a//b'; it has an empty"),
        (
            "[[address]]\nprefix = 'a'\npriority = 10\n",
            "FILE:3: address.priority is 10; it must be a whole number from -1 to 9",
        ),
        (
            "[[address]]\nprefix = 'a'\ndistribution = 'nearest'\n",
            'FILE:3: address.distribution is "nearest"; it must be one of "balanced", "closest"',
        ),
        (
            "[[address]]\nprefix = 'a'\nwaypoint = true\nenable-fallback = true\n",
            "FILE:4: address: enable-fallback is of no use with waypoint: a queue stores all",
        ),
        (
            "[[address]]\nprefix = 'a'\nwaypoint = true\ndistribution = 'closest'\n",
            "FILE:3: address: waypoint says that a queue of this broker stores the messages",
        ),
        (
            "[[address]]\nprefix = 'a'\ndistribution = 'unavailable'\nenable-fallback = true\n",
            "FILE:4: address: enable-fallback is of no use where the distribution is unavailable",
        ),
        (
            "[[address]]\nprefix = 'a'\n\n[[address]]\nwaypoint = true\npattern = 'a.#'\n",
            "FILE:6: address: pattern 'a.#' is the same pattern as prefix 'a' at FILE:1; remove",
        ),
        (
            "[[address]]\npatern = 'a'\nwaypoint = true\n",
            "FILE:2: unknown key 'address.patern'; did you mean 'address.pattern'?",
        ),
        (
            "[[address]]\nname = 'a'\nwaypoint = true\n",
            "FILE:3: address.waypoint is for an [[address]] with a prefix or a pattern; this one"
            " has a name",
        ),
        (
            "[[address]]\nprefix = 'a'\nrouting-types = ['anycast']\n",
            "FILE:3: address.routing-types is for an [[address]] with a name; this one has a pre",
        ),
        ("default-distribution = 'near'\n", 'FILE:1: default-distribution is "near"; it must be'),
    ],
)
def test_a_wrong_distribution_is_refused_at_its_line(tmp_path: Path, text: str, said: str) -> None:
    found = problems(tmp_path, text)
    assert [one for one in found if one.startswith(said)], found
    assert len(found) == (2 if "patern" in text else 1)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[[queue]]\nname = 'news.q'\naddress = 'a'\n", "FILE:5: queue.name is 'news.q'"),
        ("[[queue]]\nname = 'q'\naddress = 'news'\n", "FILE:6: queue.address is 'news'"),
        ("[[queue]]\nname = 'news'\n", "FILE:5: queue.name is 'news'"),
        ("[[address]]\nname = 'news/eu'\n", "FILE:5: address.name is 'news/eu'"),
        (
            "[[divert]]\nname = 'd'\naddress = 'news'\nforwarding-addresses = ['x']\n",
            "FILE:6: divert.address is 'news'",
        ),
        ("[[address-setting]]\nmatch = 'news'\n", "FILE:5: address-setting.match is 'news'"),
        (
            "[[address-setting]]\nmatch = '(news)'\n"
            "[wildcard-addresses]\nliteral-match-markers = '()'\n",
            "FILE:5: address-setting.match is 'news'",
        ),
        (
            "[[virtual-host]]\nname = 'default'\nhost-names = ['h']\n[[virtual-host]]\n"
            "name = 'eu'\n[[queue]]\nname = 'news'\nvirtual-host = 'eu'\n",
            "FILE:10: queue.name is 'eu::news'",
        ),
    ],
)
def test_a_name_that_needs_to_be_stored_and_is_not_is_refused(
    tmp_path: Path, text: str, place: str
) -> None:
    (found,) = problems(tmp_path, f"{NEWS}{text}")
    assert found == (
        f"{place}, but messages to this address are not stored: its distribution is 'multicast', by"
        " [[address]] with prefix 'news'; store them with waypoint = true in an [[address]], or use"
        " another name"
    )
    read(tmp_path, f"{NEWS.replace('multicast', 'stored')}{text}")
    read(tmp_path, f"{NEWS}enable-fallback = true\n{text}")


def test_config_check_finds_the_contradiction_and_counts_distributions(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(f"{NEWS}[[queue]]\nname = 'news'\n")
    checked = CliRunner().invoke(cli, ["config", "check", str(path)])
    assert checked.exit_code == 2
    assert f"{path}:5: queue.name is 'news', but messages to this address" in checked.output
    path.write_text(NEWS)
    checked = CliRunner().invoke(cli, ["config", "check", str(path)])
    assert checked.output.endswith(
        ", 1 address settings, 1 distributions, 0 connectors, 0 auto-links,"
        " 0 sharded queues, 0 link routes\n"
    )


def test_a_match_with_wildcards_contradicts_no_distribution(tmp_path: Path) -> None:
    read(tmp_path, f"{NEWS}[[address-setting]]\nmatch = 'news.#'\nmax-delivery-attempts = 3\n")


def test_the_default_distribution_may_be_the_contradiction(tmp_path: Path) -> None:
    text = f"{BALANCED_BY_DEFAULT}[[queue]]\nname = 'q'\n"
    (found,) = problems(tmp_path, text)
    assert "its distribution is 'balanced', by broker.default-distribution; store them" in found
    read(tmp_path, f"{text}[[address]]\npattern = 'q'\nwaypoint = true\n")


def test_queues_of_a_broker_xml_may_be_the_contradiction(tmp_path: Path) -> None:
    path = tmp_path / "broker.xml"
    path.write_text(
        '<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><addresses>'
        '<address name="a">\n<anycast><queue name="q"/></anycast></address>'
        "</addresses></core></configuration>"
    )
    load(path)
    with pytest.raises(ConfigError) as caught:
        load(path, ["default-distribution=balanced"])
    said = [one.removeprefix(f"{path}:").partition(", but")[0] for one in caught.value.problems]
    assert said == ["1: address.name is 'a'", "2: queue.name is 'q'", "2: queue.address is 'a'"]


def test_a_reload_puts_distributions_in_force(tmp_path: Path) -> None:
    old = read(tmp_path, NEWS + "[[address]]\npattern = 'x'\n")
    new = read(
        tmp_path,
        BALANCED_BY_DEFAULT + NEWS.replace("multicast", "closest") + "[[address]]\nprefix = 'y'\n",
    )
    applied, needs_restart = changes(old, new)
    assert set(applied) == {
        'broker: default-distribution "stored" -> "balanced"',
        'address with prefix \'news\': distribution "multicast" -> "closest"',
        "address with pattern 'x': removed",
        "address with prefix 'y': added",
    }
    assert needs_restart == []
    running = effective(old, new)
    assert running.distributions == new.distributions


def test_dead_letters_that_nobody_stores_are_a_warning(tmp_path: Path) -> None:
    """The default distribution makes DLQ a direct address, like every other name."""

    def warnings(text: str) -> list[str]:
        return [each for each in read(tmp_path, text).warnings if "dead letters" in each]

    text = BALANCED_BY_DEFAULT + '[[address]]\nprefix = "orders"\nwaypoint = true\n'
    (warning,) = warnings(text)
    assert "DLQ, ExpiryQueue, where messages are not stored" in warning
    assert "write an [[address]] with pattern = 'DLQ' and waypoint = true" in warning
    both = "".join(
        f'[[address]]\npattern = "{name}"\nwaypoint = true\n' for name in ("DLQ", "ExpiryQueue")
    )
    assert not warnings(text + both)
    assert not warnings(text.replace("waypoint = true", ""))
    assert not warnings(text.replace("balanced", "stored"))
