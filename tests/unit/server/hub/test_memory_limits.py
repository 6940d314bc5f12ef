"""The meaning of the keys about memory."""

import msgspec
import pytest

from daybook.engine.queues.consumer import UNLIMITED
from daybook.server.configuration.config import ConfigError, load
from daybook.server.hub.memory_limits import engine_options, max_memory, memory_options
from daybook.server.process.machine_memory import available

MIB = 1 << 20


def test_a_part_is_of_the_memory_there_is() -> None:
    assert max_memory("50%") == available() // 2
    assert max_memory(123) == 123


def test_what_is_not_said_follows_from_the_whole() -> None:
    broker = load(overrides=["max-memory=100MiB"]).broker
    assert memory_options(broker).share == 25 * MIB
    options = engine_options(broker, {})
    assert options.max_transactions_memory == 25 * MIB
    assert options.global_max_size == 25 * MIB
    broker = load(
        overrides=["max-memory=100MiB", "max-transactions-memory=1MiB", "global-max-size=2MiB"]
    ).broker
    options = engine_options(broker, {})
    assert (options.max_transactions_memory, options.global_max_size) == (MIB, 2 * MIB)


def test_a_user_has_a_part_of_the_whole() -> None:
    broker = load(overrides=["max-memory=100MiB"]).broker
    assert memory_options(broker).of_user == 25 * MIB
    broker = load(overrides=["max-memory=100MiB", "max-memory-per-user=7MiB"]).broker
    assert memory_options(broker).of_user == 7 * MIB
    broker = load(overrides=["max-memory=100MiB", "max-memory-per-user=0"]).broker
    assert memory_options(broker).of_user == 0


def test_nothing_is_limited_that_was_not_to_be() -> None:
    broker = msgspec.structs.replace(
        load().broker, max_memory=0, max_unacknowledged_bytes=0, global_max_size=0
    )
    assert memory_options(broker).share == UNLIMITED
    assert memory_options(broker).unacked_max == UNLIMITED
    assert engine_options(broker, {}).max_transactions_memory == UNLIMITED
    assert engine_options(broker, {}).global_max_size == 0


@pytest.mark.parametrize("value", ["0%", "101%", "half", "-1", "1.5", "true", "1 %%"])
def test_what_is_neither_a_size_nor_a_part_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match=r'max-memory is .*, or a part from "1%" to "100%"'):
        load(overrides=[f"max-memory={value}"])


def test_parts_are_taken_as_they_are_written() -> None:
    for value in ("1%", "75 %", '"100%"'):
        text = load(overrides=[f"max-memory={value}"]).broker.max_memory
        assert isinstance(text, str)
        assert max_memory(text) <= available()
