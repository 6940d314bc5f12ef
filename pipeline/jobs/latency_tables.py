"""The queries of the latency job, as SQL over the table `measured`, and its result tables.

Only SQL that DuckDB understands, and Spark after translation. Must never know which engine runs it.
"""

from typing import Final

import pyarrow as pa

from daybook.engine.facts import events, reasons
from daybook.engine.facts.kinds import OF_ENTRIES, names
from daybook.pipeline.jobs.latency_spread import bucket
from daybook.pipeline.schema import TIME_TYPE, listed

ROUTED_TO_DELIVERED: Final = "routed to delivered"
DELIVERED_TO_ACKNOWLEDGED: Final = "delivered to acknowledged"
ROUTED_TO_ACKNOWLEDGED: Final = "routed to acknowledged"
MEASURES: Final = (ROUTED_TO_DELIVERED, DELIVERED_TO_ACKNOWLEDGED, ROUTED_TO_ACKNOWLEDGED)

KINDS: Final = names(OF_ENTRIES)
COLUMNS: Final = (
    "lsn", "time", "kind_id", "reason_id", "queue_id", "message", "consumer", "related",
    "delivery_count", "persistent", "detail",
)  # fmt: skip

ENTRY_EVENTS: Final = f"""
SELECT lsn, time, kind_id, reason_id, message, consumer, related, delivery_count, persistent,
    CASE WHEN queue_id <> 0 THEN queue_id ELSE CAST(each_queue AS BIGINT) END AS queue_id
FROM measured
CROSS JOIN UNNEST(
    CASE WHEN queue_id <> 0 THEN ['0'] ELSE string_split(
        nullif(regexp_extract(detail, '"queues":\\[([0-9,]*)\\]', 1), ''), ','
    ) END
) AS listed(each_queue)
WHERE kind_id IN ({listed(OF_ENTRIES)})
"""
"""The events of entries: one row for each queue of an event; a message that was routed to several
queues has their ids in its detail. The table is read only once, because reading is what costs."""


def _of(kind: int, value: str) -> str:
    return f"CASE WHEN kind_id = {kind} THEN {value} END"


ENTRIES: Final = f"""
SELECT message, queue_id,
    min({_of(events.ROUTED, "time")}) AS routed,
    min({_of(events.DELIVERED, "time")}) AS first_delivered,
    max({_of(events.DELIVERED, "time")}) AS last_delivered,
    max({_of(events.ACKNOWLEDGED, "time")}) AS acknowledged,
    max({_of(events.ACKNOWLEDGED, "consumer")}) AS acknowledger,
    max(CASE WHEN kind_id = {events.ACKNOWLEDGED} AND reason_id = {reasons.AUTOMATIC}
        THEN 1 ELSE 0 END) AS automatic
FROM entry_events GROUP BY message, queue_id
"""


def _latency(measure: str, start: str, end: str, only: str = "true") -> str:
    return f"""
SELECT '{measure}' AS measure, queue_id, acknowledger,
    date_trunc('hour', CASE WHEN routed IS NULL THEN {start} ELSE routed END) AS hour,
    CASE WHEN {end} < {start} THEN 0 ELSE date_diff('microsecond', {start}, {end}) END AS us
FROM spans WHERE {start} IS NOT NULL AND {end} IS NOT NULL AND {only}
"""


LATENCIES: Final = " UNION ALL ".join(
    (
        _latency(ROUTED_TO_DELIVERED, "routed", "first_delivered"),
        # An automatic acknowledgement says nothing about the consumer's speed.
        _latency(DELIVERED_TO_ACKNOWLEDGED, "last_delivered", "acknowledged", "automatic = 0"),
        _latency(ROUTED_TO_ACKNOWLEDGED, "routed", "acknowledged"),
    )
)
"""If a clock was set back, a latency is 0, never negative."""


def histogram(key: str) -> str:
    """Return SQL for histograms of latencies for each measure, queue and one more column."""
    return f"""
SELECT measure, queue_id, {key}, bucket, count(*) AS entries, max(us) AS most
FROM (SELECT measure, queue_id, {key}, us, {bucket("us")} AS bucket FROM latencies) AS bucketed
GROUP BY measure, queue_id, {key}, bucket
"""


HAPPENINGS: Final = """
SELECT queue_id, consumer, kind_id, reason_id, redelivered, count(*) AS events,
    max(delivery_count) AS most_deliveries
FROM (
    SELECT queue_id, consumer, kind_id, reason_id, delivery_count,
        CASE WHEN delivery_count > 1 THEN 1 ELSE 0 END AS redelivered
    FROM entry_events
) AS counted
GROUP BY queue_id, consumer, kind_id, reason_id, redelivered
"""

RESTARTED: Final = f"""
SELECT d.queue_id, count(DISTINCT d.lsn) AS events
FROM (
    SELECT e.queue_id, e.kind_id, e.lsn, e.persistent,
        lead(e.lsn) OVER (PARTITION BY e.message, e.queue_id ORDER BY e.lsn) AS following
    FROM entry_events AS e
    JOIN (
        SELECT message, queue_id FROM entry_events GROUP BY message, queue_id
        HAVING min({_of(events.DELIVERED, "lsn")}) < {{restart}}
            AND (max(delivery_count) > 1 OR max({_of(events.ACKNOWLEDGED, "lsn")}) IS NULL)
    ) AS disturbed ON e.message = disturbed.message AND e.queue_id = disturbed.queue_id
) AS d
JOIN restarts AS r ON r.lsn > d.lsn AND (d.following IS NULL OR r.lsn < d.following)
LEFT JOIN transient_queues AS t ON d.queue_id = t.queue_id
WHERE d.kind_id = {events.DELIVERED}
    AND (d.following IS NOT NULL OR (d.persistent AND t.queue_id IS NULL))
GROUP BY d.queue_id
"""
"""Deliveries that were returned by a restart, which records no event for each of them.

Non-persistent messages, and those in queues that are not durable, are dropped and do not return.
The LSN of the last restart limits the sorted entries to those that a restart may have affected.
"""

POISON: Final = f"""
SELECT message, queue_id, max(delivery_count) AS deliveries,
    sum(CASE WHEN kind_id = {events.RETURNED} THEN 1 ELSE 0 END) AS returns,
    max(CASE WHEN kind_id = {events.DEAD_LETTERED} THEN 1 ELSE 0 END) AS dead_lettered,
    max(CASE WHEN kind_id = {events.DEAD_LETTERED} THEN related ELSE 0 END) AS copy,
    arg_max(consumer, CASE WHEN kind_id = {events.DELIVERED} THEN lsn ELSE 0 END) AS last_consumer,
    max(time) AS last_time
FROM entry_events GROUP BY message, queue_id
HAVING max(delivery_count) >= {{deliveries}}
    OR max(CASE WHEN kind_id = {events.DEAD_LETTERED} THEN 1 ELSE 0 END) = 1
ORDER BY deliveries DESC, message, queue_id LIMIT {{most}}
"""

IN_FLIGHT: Final = f"""
SELECT o.consumer, count(*) AS entries
FROM (
    SELECT message, queue_id, max(lsn) AS last_lsn,
        max({_of(events.DELIVERED, "lsn")}) AS delivered_lsn,
        arg_max(consumer, lsn) AS consumer
    FROM entry_events GROUP BY message, queue_id
) AS o
WHERE o.last_lsn = o.delivered_lsn AND o.last_lsn > {{restart}}
GROUP BY o.consumer
"""
"""Entries in flight at the end; a restart returned earlier ones."""

_SPREAD: Final = (
    ("count", pa.int64()), ("p50_ms", pa.float64()), ("p90_ms", pa.float64()),
    ("p99_ms", pa.float64()), ("max_ms", pa.float64()),
)  # fmt: skip
_TEXT: Final = pa.string()
SCHEMAS: Final = {
    "latency": pa.schema([("measure", _TEXT), *_SPREAD]),
    "latency_by_address": pa.schema([("measure", _TEXT), ("address", _TEXT), *_SPREAD]),
    "latency_by_queue": pa.schema(
        [("measure", _TEXT), ("queue", _TEXT), ("address", _TEXT), *_SPREAD]
    ),
    "latency_by_consumer": pa.schema(
        [
            ("measure", _TEXT), ("queue", _TEXT), ("consumer", pa.int64()), ("peer", _TEXT),
            ("user", _TEXT), *_SPREAD,
        ]
    ),
    "latency_by_hour": pa.schema([("measure", _TEXT), ("hour", TIME_TYPE), *_SPREAD]),
    "histogram": pa.schema(
        [
            ("measure", _TEXT), ("queue", _TEXT), ("address", _TEXT), ("from_us", pa.int64()),
            ("count", pa.int64()),
        ]
    ),
    "hot_spots": pa.schema(
        [
            ("queue", _TEXT), ("address", _TEXT), ("routed", pa.int64()),
            ("delivered", pa.int64()), ("redelivered", pa.int64()),
            ("redelivered_percent", pa.float64()), ("nacked", pa.int64()),
            ("disconnected", pa.int64()), ("restart", pa.int64()),
            ("returned_otherwise", pa.int64()), ("dead_lettered", pa.int64()),
            ("expired", pa.int64()), ("most_deliveries", pa.int64()),
        ]
    ),
    "poison_messages": pa.schema(
        [
            ("message", pa.int64()), ("queue", _TEXT), ("deliveries", pa.int64()),
            ("returns", pa.int64()), ("dead_lettered", pa.bool_()), ("copy", pa.int64()),
            ("last_consumer", pa.int64()), ("last_time", TIME_TYPE), ("body_md5", _TEXT),
            ("body_bytes", pa.int64()),
        ]
    ),
    "poison_bodies": pa.schema(
        [
            ("body_md5", _TEXT), ("body_bytes", pa.int64()), ("messages", pa.int64()),
            ("deliveries", pa.int64()), ("dead_lettered", pa.int64()),
            ("example", pa.int64()),
        ]
    ),
    "slow_consumers": pa.schema(
        [
            ("queue", _TEXT), ("consumer", pa.int64()), ("peer", _TEXT), ("user", _TEXT),
            ("acknowledged", pa.int64()), ("p50_ms", pa.float64()), ("p99_ms", pa.float64()),
            ("queue_p50_ms", pa.float64()), ("times_slower", pa.float64()),
            ("redelivered", pa.int64()), ("in_flight", pa.int64()),
        ]
    ),
}  # fmt: skip
"""The result tables by name; latencies are in milliseconds."""
