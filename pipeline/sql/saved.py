"""Saved queries: those of docs/forensics.md, for a span of time that is asked about."""

from datetime import datetime, timedelta
from typing import Final, NamedTuple

BEFORE: Final = timedelta(minutes=61)
"""How much earlier a cause may be than what is asked about: an hour, and a bit."""
DAY: Final = timedelta(hours=23)
"""How much earlier a day begins than its last hour."""


NO_CHART: Final = "none"

HAS_TEXT: Final = """\
(contains(CAST(body AS VARCHAR), 'text to find')
           OR contains(try(decode(body)), 'text to find'))"""
"""Whether an event has a text in its body, for a line of conditions that begins with AND."""


class Saved(NamedTuple):
    """A query in words and in SQL, which has marks for the moments. `chart` is NO_CHART where one
    would say nothing: an axis of message ids has no meaning."""

    question: str
    template: str
    chart: str = ""

    def sql(self, since: datetime, until: datetime, only: str = "") -> str:
        """Return the query about a span of time; `until` is not in it. Moments are whole minutes
        in UTC. `only` is one more condition on the messages that a query joins."""
        last = (until - timedelta(minutes=1)).replace(minute=0)
        return self.template.format(
            before=_minute(since - BEFORE), since=_minute(since), until=_minute(until), only=only,
            day=_minute(last - DAY), has_text=HAS_TEXT,
        ).strip()  # fmt: skip


def _minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"


SAVED: Final = (
    Saved(
        "How many messages came and went each minute?",
        """
SELECT date_trunc('minute', time) AS minute, count(*) FILTER (WHERE kind = 'Routed') AS routed,
       count(*) FILTER (WHERE kind = 'Delivered') AS delivered,
       count(*) FILTER (WHERE kind = 'Acknowledged') AS acknowledged
FROM events WHERE kind IN ('Routed', 'Delivered', 'Acknowledged')
      AND time >= '{since}' AND time < '{until}'
GROUP BY ALL ORDER BY minute
""",
    ),
    Saved(
        "How many messages came for each queue and hour of a day?",
        """
SELECT date_trunc('hour', time) AS hour, queue, count(*) AS messages
FROM (SELECT time, unnest(queues) AS queue FROM events WHERE kind = 'Routed'
      AND time >= '{day}' AND time < '{until}')
GROUP BY ALL ORDER BY hour, queue
""",
    ),
    Saved(
        "Which addresses got the most messages?",
        """
SELECT address, count(*) AS messages, CAST(sum(body_bytes) AS BIGINT) AS bytes
FROM events WHERE kind = 'Routed' AND time >= '{since}' AND time < '{until}'
GROUP BY ALL ORDER BY messages DESC, address LIMIT 20
""",
    ),
    Saved(
        "How long did consumers take, by queue?",
        """
SELECT d.queue, count(*) AS messages, median(date_diff('ms', d.time, a.time)) AS median_ms,
       max(date_diff('ms', d.time, a.time)) AS longest_ms
FROM (SELECT message, queue, delivery_count, time FROM events WHERE kind = 'Delivered'
      AND time >= '{since}' AND time < '{until}') d
JOIN (SELECT message, queue, delivery_count, time FROM events WHERE kind = 'Acknowledged'
      AND time >= '{since}' AND time < '{until}') a
ON a.message = d.message AND a.queue = d.queue AND a.delivery_count = d.delivery_count
GROUP BY ALL ORDER BY longest_ms DESC, queue LIMIT 20
""",
    ),
    Saved(
        "What failed that hour, by queue and reason?",
        """
SELECT d.queue, coalesce(r.reason, nullif(d.reason, ''), 'not known') AS reason,
       count(*) AS dead_letters, min(d.time) AS first, max(d.time) AS last
FROM (SELECT queue, reason, related, time FROM events WHERE kind = 'DeadLettered'
      AND time >= '{since}' AND time < '{until}') d
LEFT JOIN (SELECT lsn, detail->'origin'->'deaths'->0->>'reason' AS reason
           FROM events WHERE kind = 'Routed' AND time >= '{since}' AND time < '{until}') r
ON r.lsn = d.related
GROUP BY ALL ORDER BY dead_letters DESC, queue, reason LIMIT 100
""",
    ),
    Saved(
        "Which messages were handed out twice, and why?",
        """
SELECT d.message, d.queue, d.deliveries, d.attempts, d.last,
       concat_ws(', ', r.why, CASE WHEN coalesce(r.returns, 0) < d.deliveries - 1
                              THEN 'the broker died' END) AS why
FROM (SELECT message, queue, greatest(count(*), max(delivery_count)) AS deliveries,
             max(delivery_count) AS attempts, max(time) AS last
      FROM events WHERE kind = 'Delivered' AND time >= '{since}' AND time < '{until}'
      GROUP BY ALL HAVING count(*) > 1 OR max(delivery_count) > 1) d
LEFT JOIN (SELECT message, queue, count(*) AS returns,
                  string_agg(DISTINCT reason, ', ' ORDER BY reason) AS why
           FROM events WHERE kind = 'Returned' AND time >= '{before}' AND time < '{until}'
           GROUP BY ALL) r
ON r.message = d.message AND r.queue = d.queue
ORDER BY coalesce(r.returns, 0) >= d.deliveries - 1, d.deliveries DESC, d.message LIMIT 100
""",
        NO_CHART,
    ),
    Saved(
        "Which messages had the most attempts?",
        """
SELECT message, queue, max(delivery_count) AS attempts, min(time) AS again, max(time) AS last
FROM events WHERE kind = 'Delivered' AND delivery_count > 1
      AND time >= '{since}' AND time < '{until}'
GROUP BY ALL ORDER BY attempts DESC, message LIMIT 100
""",
        NO_CHART,
    ),
    Saved(
        "What expired that hour, and from which producer?",
        """
SELECT c.login AS producer, count(*) AS expired
FROM (SELECT message FROM events WHERE kind = 'Expired'
      AND time >= '{since}' AND time < '{until}') x
JOIN (SELECT message, connection FROM events WHERE kind = 'Routed'{only}
      AND time >= '{before}' AND time < '{until}') m USING (message)
JOIN (SELECT lsn, detail->>'user' AS login FROM events WHERE kind = 'ConnectionOpened') c
ON c.lsn = m.connection
GROUP BY ALL ORDER BY expired DESC
""",
    ),
    Saved(
        "Which consumer rejects most?",
        """
SELECT c.login AS consumer, count(*) AS rejected
FROM (SELECT connection FROM events WHERE kind = 'Returned' AND reason = 'nack'
      AND time >= '{since}' AND time < '{until}') r
JOIN (SELECT lsn, detail->>'user' AS login FROM events WHERE kind = 'ConnectionOpened') c
ON c.lsn = r.connection
GROUP BY ALL ORDER BY rejected DESC
""",
    ),
    Saved(
        "Which messages have this text in their body?",
        """
SELECT message, address, time
FROM (SELECT lsn FROM events WHERE kind IN ('Routed', 'ChunkReceived')
      AND time >= '{since}' AND time < '{until}'
      AND {has_text}) f
JOIN (SELECT lsn AS part, message, address, time FROM events WHERE kind = 'Routed'
      AND time >= '{since}' AND time < '{until}'
      UNION ALL
      SELECT sum(step) OVER (PARTITION BY message ORDER BY place) AS part, message, address, time
      FROM (SELECT message, address, time, unnest(chunks) AS step,
                   generate_subscripts(chunks, 1) AS place
            FROM (SELECT message, address, time, CAST(detail->'chunks' AS BIGINT[]) AS chunks
                  FROM events WHERE kind = 'Routed' AND time >= '{since}' AND time < '{until}'))) m
ON m.part = f.lsn
GROUP BY ALL ORDER BY message LIMIT 100
""",
        NO_CHART,
    ),
    Saved(
        "How many events of each kind were there?",
        """
SELECT kind, count(*) AS events
FROM events WHERE kind <> 'Skipped' AND time >= '{since}' AND time < '{until}'
GROUP BY ALL ORDER BY events DESC, kind
""",
    ),
)
"""The queries, in the order in which they are offered."""
