"""The table of events is what everything else is derived from."""

import pytest

from daybook.engine.facts import details, events, reasons


def test_kinds_and_reasons_have_the_numbers_that_journals_hold() -> None:
    """These numbers are on disks: a change here is a change of the format."""
    assert {entry.name: entry.number for entry in events.EVENT_TYPES} == {
        "BrokerStarted": 1, "BrokerStopped": 2, "ConnectionOpened": 3, "ConnectionClosed": 4,
        "ConnectionRefused": 5, "ConsumerAttached": 6, "ConsumerDetached": 7, "AddressCreated": 8,
        "AddressUpdated": 9, "AddressDeleted": 10, "QueueCreated": 11, "QueueUpdated": 12,
        "QueueDeleted": 13, "QueuePaused": 14, "QueueResumed": 15, "SettingsChanged": 16,
        "Routed": 17, "Dropped": 18, "Delivered": 20, "Acknowledged": 21, "Returned": 22,
        "DeadLettered": 23, "Expired": 24, "Removed": 25, "TransactionCommitted": 27,
        "TransactionRolledBack": 28, "PagingStarted": 29, "PagingStopped": 30, "Carried": 32,
        "Checkpoint": 33, "ChunkReceived": 34, "SegmentsRemoved": 35, "DuplicateIdRecorded": 36,
        "DuplicateIdsCleared": 37, "Held": 38, "Released": 39, "Skipped": 40,
        "Scheduled": 41, "Due": 42, "Shown": 50, "Seen": 51, "Administered": 60, "Moved": 61,
        "DivertCreated": 70, "DivertDeleted": 71, "Diverted": 72, "RecallStarted": 80,
        "Recalled": 81, "RecallEnded": 82, "TimeMarked": 83, "DispatchStarted": 90,
        "OwnerEnded": 92, "GroupsReset": 95,
        "PermissionRefused": 100,
        "BundleOpened": 108,
        "BundleClosed": 109, "LinkAttached": 150, "LinkDetached": 151, "Forwarded": 152,
        "ForwardSettled": 153, "DistributionsChanged": 154, "Signed": 110, "SigningKeyChanged": 111,
        "Forked": 113, "Lost": 114,
    }  # fmt: skip
    assert [reasons.REASONS[number][0] for number in range(36)] == [
        "", "sent", "dead-letter", "expiry", "no-binding", "no-matching-filter", "by-consumer",
        "automatic", "nack", "rollback", "closed", "disconnected", "timeout", "protocol-error",
        "shutdown", "restart", "administration", "queue-removed", "no-dead-letter-address",
        "no-expiry-address", "unroutable", "on-demand", "configuration", "authentication", "limit",
        "commit-refused", "subscription", "unused", "max-size-bytes", "max-size-messages",
        "page-limit-bytes", "page-limit-messages", "global-max-size", "global-max-messages",
        "disk-full", "duplicate",
    ]  # fmt: skip


def test_a_row_by_names_puts_each_value_in_its_column() -> None:
    values = {column.name: number for number, column in enumerate(events.COLUMNS, 1)}
    assert events.row(**values) == tuple(range(1, 13))
    positions = (
        events.KIND, events.REASON, events.DELIVERY_COUNT, events.ADDRESS, events.QUEUE,
        events.PRIORITY, events.FLAGS, events.MESSAGE, events.CONSUMER, events.CONNECTION,
        events.RELATED, events.TIME,
    )  # fmt: skip
    assert positions == tuple(range(12))
    assert [column.name for column in events.COLUMNS][events.RELATED] == "related"


@pytest.mark.parametrize("entry", events.EVENT_TYPES, ids=lambda entry: entry.name)
def test_details_have_defaults_for_everything(entry: events.EventType) -> None:
    if entry.detail is None:
        assert events.decode_detail(entry.number, b"") is None
    else:
        assert events.decode_detail(entry.number, b"") == entry.detail()


def test_chunks_are_written_as_steps() -> None:
    for lsns in ((), (7,), (7, 8, 9, 400)):
        detail = details.RoutedDetail(chunks=events.chunk_steps(lsns))
        encoded = events.encode_detail(detail)
        decoded = events.decode_detail(events.ROUTED, encoded)
        assert isinstance(decoded, details.RoutedDetail)
        assert events.chunk_lsns(decoded) == lsns
    assert events.chunk_steps((7, 8, 9, 400)) == (7, 1, 1, 391)


def test_a_kind_that_nobody_knows_has_no_detail() -> None:
    assert events.decode_detail(200, b"anything") is None
