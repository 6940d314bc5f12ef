"""An index is proven by itself, against the journal and the fold, also while it is written."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

import pytest
from click.testing import CliRunner

from daybook.history.verification.index_verification import copied_index
from daybook.history.verification.verification import Verdict, verify_data
from daybook.paging.content import cluster_writer
from daybook.paging.content.clusters import write_cluster
from daybook.paging.indexer.ownership import owning_index
from daybook.paging.tables.checked import Transaction
from daybook.paging.tables.tables import (
    BLOCK_VALUE,
    BLOCKS,
    CARRIED,
    TIMERS,
    Tables,
    open_for_writing,
)
from daybook.tools.journal_cli import cli
from daybook.tools.terminal.exit_codes import EXIT_DERIVED, EXIT_WRONG
from tests.support.compiled import replaces_parts
from tests.support.scenario import play
from tests.support.stored.retention_world import RetentionWorld
from tests.support.stored.stored_rows import flip
from tests.support.stored.written_index import DATA_ID
from tests.support.world import World

pytestmark = replaces_parts
"""Its clusters are smaller than any of the product."""


@pytest.fixture
def retention(tmp_path: Path) -> Iterator[RetentionWorld]:
    """A directory that segments have left, with some of everything."""
    world = World()
    small = patch.multiple(cluster_writer, CLUSTER_BYTES_MIN=500, SPARSE=0)
    with closing(RetentionWorld(tmp_path / "data", world)) as made, small:
        world.connect()
        for number in range(6):
            world.send(
                "orders",
                b"%d" % number * 50,
                expires=1_900_000_000_000 + number,
                routing_type="anycast",
            )
        play(world, [(0, 0, 6, 13)] * 2, made.write)
        assert made.round(2)
        for number in range(90):
            world.send(f"mixed.{number % 3}", b"%d" % number * 50, routing_type="anycast")
        made.write()
        world.attach(world.connect(), "orders", credit_messages=2, credit_bytes=0)
        made.write()
        assert list((made.data / "index" / "clusters").iterdir())
        yield made


def proven(retention: RetentionWorld) -> Verdict:
    with copied_index(retention.data) as index:
        return verify_data(
            retention.disk, lambda _: None, base=retention.data / "base", index=index
        )


def test_a_sound_index_is_proven(retention: RetentionWorld) -> None:
    verdict = proven(retention)
    assert verdict.ok, verdict.wrong
    assert verdict.index_lsn == len(retention.world.journal)


def test_also_while_it_is_written(retention: RetentionWorld) -> None:
    owned = owning_index(retention.data, pytest.fail)
    with owned, closing(open_for_writing(retention.data / "index", DATA_ID)):
        verdict = proven(retention)
    assert verdict.ok, verdict.wrong
    assert verdict.index_lsn == len(retention.world.journal)


def test_an_index_that_lags_is_compared_where_it_is(retention: RetentionWorld) -> None:
    lsn = len(retention.world.journal)
    retention.world.send("orders", b"later")
    retention.world.turn()
    retention.write_journal()
    verdict = proven(retention)
    assert verdict.ok, verdict.wrong
    assert verdict.index_lsn == lsn


def flip_a_bit(tables: Tables, txn: Transaction) -> None:
    (key, _), *_ = txn.rows(tables.db(TIMERS))
    flip(txn, tables.db(TIMERS), key, 5)


def swap_contents(tables: Tables, txn: Transaction) -> None:
    (one, first), (other, second), *_ = txn.rows(tables.db(CARRIED))
    txn.put(one, second, db=tables.db(CARRIED))
    txn.put(other, first, db=tables.db(CARRIED))


def lose_content(tables: Tables, txn: Transaction) -> None:
    (key, _), *_ = txn.rows(tables.db(CARRIED))
    txn.delete(key, db=tables.db(CARRIED))


def move_a_block(tables: Tables, txn: Transaction) -> None:
    *_, (key, value) = txn.rows(tables.db(BLOCKS))
    segment, offset, *rest = BLOCK_VALUE.unpack(value)
    txn.put(key, BLOCK_VALUE.pack(segment, offset + 8, *rest), db=tables.db(BLOCKS))


def go_ahead(tables: Tables, txn: Transaction) -> None:
    for key, _ in list(txn.rows(tables.db(BLOCKS))):
        txn.delete(key, db=tables.db(BLOCKS))
    tables.set_position(txn, 9999, b"h" * 16, 1)


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (flip_a_bit, "the crc of a row of table 'expiring' does not fit"),
        (swap_contents, "is not the content of"),
        (lose_content, "table 'carried' has"),
        (move_a_block, "table 'blocks' has"),
        (go_ahead, "the index knows of event 9999.*the end of the journal is missing"),
    ],
)
def test_what_is_wrong_is_told(
    retention: RetentionWorld, spoil: Callable[[Tables, Transaction], None], what: str
) -> None:
    with closing(open_for_writing(retention.data / "index", DATA_ID)) as tables:
        tables.write(lambda txn: spoil(tables, txn))
    verdict = proven(retention)
    assert not verdict.ok
    assert verdict.index_lsn is None or "table" in what
    done = CliRunner().invoke(cli, ["verify", str(retention.data), "--index"])
    # An index that is ahead proves that the journal lost its end.
    is_of_journal = spoil is go_ahead
    assert done.exit_code == (EXIT_WRONG if is_of_journal else EXIT_DERIVED)
    assert verdict.is_journal_ok != is_of_journal
    for told in ((verdict.wrong or verdict.derived)[0], done.output):
        assert re.search(what, told), told


def test_a_cluster_with_other_content_is_told(retention: RetentionWorld) -> None:
    """Written whole, with its crcs: nothing but the journal can tell."""

    def lie(disk, data_id, first, last, content):  # type: ignore[no-untyped-def]
        strings = [text[:-1] + b"X" for text in content.strings]
        return write_cluster(disk, data_id, first, last, content._replace(strings=strings))

    with (
        patch.object(cluster_writer, "write_cluster", lie),
        patch.multiple(cluster_writer, CLUSTER_BYTES_MIN=500, SPARSE=0),
    ):
        for number in range(90):
            retention.world.send(f"mixed.{number % 3}", b"%d" % number * 50, routing_type="anycast")
        retention.write()
    verdict = proven(retention)
    assert "contains something that the journal does not" in verdict.derived[0]


def test_the_command_says_where_the_index_is(retention: RetentionWorld) -> None:
    done = CliRunner().invoke(cli, ["verify", str(retention.data), "--index"])
    assert done.exit_code == 0, done.output
    last = len(retention.world.journal)
    assert f"the index at event {last} agrees with the journal" in done.output
    for file in (retention.data / "index").glob("*.mdb"):
        file.unlink()
    done = CliRunner().invoke(cli, ["verify", str(retention.data), "--index"])
    assert done.exit_code == EXIT_DERIVED
    assert "there is no index in" in done.output
