"""The queries of the audit, as SQL over the table `audited`.

Only SQL that DuckDB understands, and Spark after translation. Must never know which engine runs it.
"""

from collections.abc import Iterable
from typing import Final

from daybook.engine.facts import events, reasons
from daybook.engine.facts.kinds import IN_TRANSACTIONS, OF_ENTRIES, OF_TWO_MESSAGES, TOPOLOGY
from daybook.pipeline.views import HAS_DUE


def listed(kinds: Iterable[int]) -> str:
    """Return the numbers of kinds as a list for SQL."""
    return ", ".join(str(kind) for kind in sorted(kinds))


SPAN: Final = "SELECT min(lsn) AS first, max(lsn) AS last, count(*) AS events FROM audited"

EXTENT: Final = """
SELECT min(lsn) AS first, max(lsn) AS last, min(time) AS begins, max(time) AS ends FROM extent
"""

LIVES: Final = f"""
SELECT lsn, kind_id, address_id, queue_id, message, consumer, connection, detail FROM audited
WHERE kind_id IN ({listed({*TOPOLOGY, events.TRANSACTION_COMMITTED})})
    OR (kind_id IN ({listed(IN_TRANSACTIONS)}) AND detail LIKE '%"transaction":%')
ORDER BY lsn
"""
"""Events about queues, consumers, connections and the broker, and those of transactions."""

GAPS: Final = """
SELECT lsn, following FROM (
    SELECT lsn, lead(lsn) OVER (ORDER BY lsn) AS following FROM audited
) AS pairs
WHERE following <> lsn + 1 ORDER BY lsn, following
"""


def entry_events(table: str, columns: str) -> str:
    """Return SQL for the events of entries: one row for each queue of an event.

    A message that was routed to several queues has their ids in its detail. The table, which needs
    `kind_id`, `queue_id` and `detail`, is read only once, because reading is what costs with Spark.
    """
    return f"""
SELECT {columns},
    CASE WHEN queue_id <> 0 THEN queue_id ELSE CAST(each_queue AS BIGINT) END AS queue_id
FROM {table}
CROSS JOIN UNNEST(
    CASE WHEN queue_id <> 0 THEN ['0'] ELSE string_split(
        nullif(regexp_extract(detail, '"queues":\\[([0-9,]*)\\]', 1), ''), ','
    ) END
) AS listed(each_queue)
WHERE kind_id IN ({listed(OF_ENTRIES)})
"""


ENTRY_EVENTS: Final = entry_events(
    "audited",
    "lsn, kind_id, reason_id, message, consumer, connection, delivery_count, persistent, "
    f"kind_id = {events.ROUTED} AND coalesce(detail LIKE '{HAS_DUE}', false) AS scheduled",
)

GROUPS: Final = """
SELECT queue_id, consumer, connection, kind_id, min(lsn) AS first, max(lsn) AS last,
    count(*) AS events
FROM (
    SELECT queue_id, consumer, CASE WHEN consumer = 0 THEN 0 ELSE connection END AS connection,
        kind_id, lsn
    FROM entry_events
) AS of_consumers
GROUP BY queue_id, consumer, connection, kind_id
ORDER BY queue_id, consumer, connection
"""

OUTSIDE: Final = """
SELECT e.lsn, e.message, b.queue_id, b.consumer, b.connection
FROM entry_events AS e
JOIN bounds AS b
    ON e.queue_id = b.queue_id AND e.consumer = b.consumer
    AND CASE WHEN e.consumer = 0 THEN 0 ELSE e.connection END = b.connection
WHERE e.lsn < b.first OR e.lsn > b.last
ORDER BY b.queue_id, b.consumer, b.connection, e.lsn
"""


def _count(kind: int) -> str:
    return f"sum(CASE WHEN kind_id = {kind} THEN 1 ELSE 0 END)"


def _last(kind: int) -> str:
    return f"max(CASE WHEN kind_id = {kind} THEN lsn END)"


ENTRIES: Final = f"""
SELECT message, queue_id, count(*) AS events, min(lsn) AS first_lsn,
    {_count(events.ROUTED)} AS routed, {_count(events.DELIVERED)} AS delivered,
    {_count(events.ACKNOWLEDGED)} AS acknowledged,
    {_last(events.DELIVERED)} AS delivered_lsn, {_last(events.ACKNOWLEDGED)} AS acknowledged_lsn,
    min(CASE WHEN consumer <> 0 THEN consumer END) AS first_consumer,
    max(consumer) AS last_consumer,
    max(delivery_count) AS most, sum(delivery_count) AS all_counts,
    min(CASE WHEN persistent THEN 1 ELSE 0 END) AS persistent,
    max(CASE WHEN scheduled THEN 1 ELSE 0 END) AS scheduled
FROM entry_events GROUP BY message, queue_id
"""


def classes(first_lsn: int, first_restart: int, last_restart: int) -> str:
    """Return SQL that classifies entries; only those of class `judged` need to be judged.

    `done` were routed to be delivered at once, delivered once and acknowledged by that consumer;
    `opening` are older than the span and were delivered and acknowledged in it; `ready` were routed
    and have no other event. Non-persistent entries belong to these classes only if no restart can
    have dropped them. The restarts are LSNs, 0 for none.
    """
    undisturbed = "true"
    if first_restart:
        undisturbed = (
            f"(e.persistent = 1 OR e.acknowledged_lsn < {first_restart} "
            f"OR e.message > {last_restart})"
        )
    acknowledged = (
        "e.delivered = 1 AND e.acknowledged = 1 AND e.delivered_lsn < e.acknowledged_lsn "
        "AND e.first_consumer = e.last_consumer AND e.all_counts = 2 * e.most"
    )
    return f"""
SELECT e.message, e.queue_id,
    CASE
        WHEN e.events = 3 AND e.routed = 1 AND e.first_lsn = e.message AND e.most = 1
            AND e.scheduled = 0 AND {acknowledged} AND {undisturbed} THEN 'done'
        WHEN e.events = 2 AND e.message < {first_lsn}
            AND {acknowledged} AND {undisturbed.replace("e.message", "0")} THEN 'opening'
        WHEN e.events = 1 AND e.routed = 1 AND e.first_lsn = e.message AND g.queue_id IS NULL
            AND (e.persistent = 1 OR e.message > {last_restart}) THEN 'ready'
        ELSE 'judged'
    END AS class
FROM entries AS e LEFT JOIN gone_queues AS g ON e.queue_id = g.queue_id
"""


PLAIN: Final = """
SELECT queue_id, class, count(*) AS entries FROM classes GROUP BY queue_id, class
"""

SUSPECTS: Final = """
SELECT e.lsn, e.kind_id, e.reason_id, e.message, e.queue_id, e.consumer, e.connection,
    e.delivery_count, e.persistent, e.scheduled
FROM entry_events AS e
JOIN classes AS c ON e.message = c.message AND e.queue_id = c.queue_id
WHERE c.class = 'judged'
ORDER BY e.message, e.queue_id, e.lsn
"""

OF_DIVERTS: Final = f"{reasons.DIVERT}, {reasons.HISTORY_ONLY}"
"""The reasons of copies that diverts make; the second one if only a history takes them."""

COPIES: Final = f"""
SELECT copy, origin, sum(departure) AS departures, sum(made) AS copies, min(lsn) AS lsn,
    max(queue_id) AS queue_id
FROM (
    SELECT lsn, queue_id,
        CASE WHEN kind_id = {events.ROUTED} THEN message ELSE related END AS copy,
        CASE WHEN kind_id = {events.ROUTED} THEN related ELSE message END AS origin,
        CASE WHEN kind_id = {events.ROUTED} THEN 0 ELSE 1 END AS departure,
        CASE WHEN kind_id = {events.ROUTED} THEN 1 ELSE 0 END AS made,
        CASE WHEN kind_id = {events.ROUTED} AND reason_id IN ({OF_DIVERTS}) THEN 1 ELSE 0 END
            AS diverted
    FROM audited
    WHERE related <> 0
        AND kind_id IN ({listed(OF_TWO_MESSAGES)})
) AS sides
GROUP BY copy, origin
HAVING (sum(departure) = 0 AND sum(diverted) = 0) OR sum(made) = 0
ORDER BY lsn
"""
"""Copies whose original has no matching event, and originals without their copy. Diverts make
copies of messages that stay where they are."""

DIVERTED: Final = f"""
SELECT c.message AS copy, c.related AS origin, c.lsn AS lsn, c.queue_id AS queue_id
FROM audited AS c LEFT JOIN (
    SELECT DISTINCT message FROM audited WHERE kind_id IN ({listed(IN_TRANSACTIONS)})
) AS o ON c.related = o.message
WHERE c.kind_id = {events.ROUTED} AND c.reason_id IN ({OF_DIVERTS}) AND c.related <> 0
    AND o.message IS NULL
ORDER BY c.lsn
"""
"""Copies that diverts made of a message that no event of the span says was sent."""
