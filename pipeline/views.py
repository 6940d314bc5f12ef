"""The views over `events`: the fate of entries, messages, deliveries and queues, in SQL (ADR 14).

Each view scans `events` once. Events of whole queues, and restarts, come from a separate small
table, `milestones`: a restart ends deliveries and messages without an event for each, so the views
must apply it (`engine.state.apply.broker_started`). The views show only the history that exists: a
message whose `Routed` event left is missing, and events that a selection excludes do not count.
Must never know which engine runs them.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from daybook.engine.facts import life
from daybook.engine.facts.events import BY_NUMBER
from daybook.engine.facts.kinds import (
    ENDING_A_DELIVERY,
    ENTERING,
    FROM_ASIDE,
    LEAVING,
    LIVES,
    OF_ENTRIES,
    OF_TWO_MESSAGES,
    SETTING_ASIDE,
    about,
    changing,
    names,
    outcome,
)
from daybook.pipeline.engines import Engine, History
from daybook.pipeline.planning import make_plan
from daybook.pipeline.schema import ALL_COLUMNS
from daybook.pipeline.selection import EVERYTHING, Selection

EVENTS: Final = "events"
MILESTONES: Final = "milestones"

MILESTONE_COLUMNS: Final = (
    "lsn", "time", "kind", "reason", "address", "queue", "connection", "address_id", "queue_id",
    "detail",
)  # fmt: skip
"""The columns of `milestones`, which are columns of `events`."""
MILESTONE_KINDS: Final = names(about(life.BROKER, life.ADDRESS, life.QUEUE))

_LAST_LSN: Final = (1 << 63) - 1
_SETTLING: Final = names(LEAVING)
"""Kinds of events with which an entry leaves its queue."""
_OF_ENTRIES: Final = names(OF_ENTRIES)
_ENTERING: Final = names(ENTERING)
_AFTER_ROUTED: Final = names(OF_ENTRIES - ENTERING)
_ASIDE: Final = names(SETTING_ASIDE | FROM_ASIDE)
_SET_ASIDE: Final = f"WHEN aside_kind = 'Routed' THEN '{life.ON_SCHEDULE}' " + " ".join(
    f"WHEN aside_kind = '{BY_NUMBER[kind].name}' THEN '{LIVES[kind].after}'"
    for kind in sorted(SETTING_ASIDE)
)
"""Where an entry is that no event took out again."""
HAS_DUE: Final = '%"due":%'
"""Finds in the details of Routed what was set aside when it entered; no text in them has it, since
quotes are escaped there."""
_QUEUED: Final = (life.READY, *life.ASIDE, life.IN_FLIGHT)
_MADE_INTO_OTHERS: Final = names(LEAVING & OF_TWO_MESSAGES)
_QUEUE_NAMING: Final = names(changing({life.QUEUE}, {life.BEGINS, life.CHANGES}))


class ViewColumn(msgspec.Struct, frozen=True):
    """A column of a view and its meaning."""

    name: str
    doc: str


class View(msgspec.Struct, frozen=True):
    """A view: its description, its SQL, and what it needs of `events`.

    `uses` are the tables and views in the SQL, including `events` and `milestones`; `needs` and
    `kinds` are the columns and kinds of `events` that it requires.
    """

    name: str
    doc: str
    sql: str
    columns: tuple[ViewColumn, ...]
    uses: tuple[str, ...]
    needs: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()


def _listed(words: Iterable[str]) -> str:
    return ", ".join(f"'{word}'" for word in words)


def _outcomes(column: str, kinds: Iterable[int]) -> str:
    """Return branches of a CASE that name the outcome of the kind in a column."""
    return " ".join(
        f"WHEN {column} = '{BY_NUMBER[kind].name}' THEN '{outcome(kind)}'" for kind in sorted(kinds)
    )


def _columns(table: str) -> tuple[ViewColumn, ...]:
    """Parse lines of name and meaning into columns."""
    rows = (line.split(None, 1) for line in table.strip().splitlines())
    return tuple(ViewColumn(name, doc) for name, doc in rows)


# A queue may be deleted and created again with the same name, and one that is not durable ends with
# its broker without an event. So queues are distinguished by the LSN of their creation.
_RESTARTS: Final = """restarts AS (
  SELECT array_agg(lsn) AS lsns, max(lsn) AS last_lsn
  FROM milestones WHERE kind = 'BrokerStarted'
)"""
_MADE: Final = f"""made AS (
  SELECT queue, queue_id, address, lsn AS created_lsn, time AS created_at, detail,
    coalesce(json_extract_string(detail, '$.durable'), 'true') = 'true' AS durable,
    coalesce(lead(lsn) OVER (PARTITION BY queue ORDER BY lsn), {_LAST_LSN}) AS until_lsn
  FROM milestones WHERE kind = 'QueueCreated'
)"""


def _entries(contents: bool) -> str:
    """Return SQL for one row for each message and queue; `contents` adds fields of Routed."""
    touched = ", flags, body_bytes, headers_bytes" if contents else ""
    gathered = _CONTENTS if contents else ""
    placed = ", headers_bytes, body_bytes, expires_at" if contents else ""
    return f"""
WITH {_RESTARTS},
{_MADE},
touched AS (
  SELECT lsn, time, kind, reason, address, message, consumer, connection, related, priority,
    persistent, queue_id, detail, unnest(queues) AS queue{touched}
  FROM events WHERE kind IN ({_listed(_OF_ENTRIES)})
),
gathered AS (
  SELECT message, queue,
    max(queue_id) AS seen_id,
    min(lsn) FILTER (WHERE kind IN ({_listed(_ENTERING)})) AS routed_lsn,
    min(time) FILTER (WHERE kind IN ({_listed(_ENTERING)})) AS routed_at,
    min(address) FILTER (WHERE kind IN ({_listed(_ENTERING)})) AS address,
    min(priority) AS priority,
    bool_and(persistent) AS persistent,
    min(connection) FILTER (WHERE kind = 'Routed') AS sender,
    min(related) FILTER (WHERE kind = 'Routed') AS made_from,
    count(*) FILTER (WHERE kind = 'Delivered') AS deliveries,
    count(*) FILTER (WHERE kind = 'Returned') AS returns,
    min(time) FILTER (WHERE kind = 'Delivered') AS first_delivered_at,
    max(time) FILTER (WHERE kind = 'Delivered') AS last_delivered_at,
    max(lsn) FILTER (WHERE kind = 'Delivered') AS delivered_lsn,
    max(lsn) FILTER (WHERE kind = 'Returned') AS returned_lsn,
    coalesce(max_by(kind, lsn) FILTER (WHERE kind IN ({_listed(_ASIDE)})),
      max(kind) FILTER (WHERE kind = 'Routed' AND detail LIKE '{HAS_DUE}')) AS aside_kind,
    min(kind) FILTER (WHERE kind IN ({_listed(_SETTLING)})) AS end_kind,
    min(reason) FILTER (WHERE kind IN ({_listed(_SETTLING)})) AS end_reason,
    min(lsn) FILTER (WHERE kind IN ({_listed(_SETTLING)})) AS end_lsn,
    min(time) FILTER (WHERE kind IN ({_listed(_SETTLING)})) AS end_at,
    max(related) FILTER (WHERE kind IN ({_listed(_MADE_INTO_OTHERS)})) AS successor{gathered}
  FROM touched GROUP BY message, queue
),
placed AS (
  SELECT gathered.*, made.queue_id AS made_id, made.created_lsn,
    CASE WHEN end_lsn IS NULL AND restarts.last_lsn > routed_lsn
      AND (NOT persistent OR NOT coalesce(durable, true))
      THEN list_min(list_filter(restarts.lsns, lambda started: started > routed_lsn))
      END AS dropped_lsn,
    coalesce(delivered_lsn, 0) > greatest(coalesce(returned_lsn, 0), coalesce(restarts.last_lsn, 0))
      AS is_out
  FROM gathered CROSS JOIN restarts
  LEFT JOIN made ON gathered.queue = made.queue
    AND gathered.routed_lsn >= made.created_lsn AND gathered.routed_lsn < made.until_lsn
)
SELECT message, placed.queue, coalesce(made_id, nullif(seen_id, 0)) AS queue_id, placed.address,
  routed_at, priority, persistent, sender, made_from, deliveries, returns, first_delivered_at,
  last_delivered_at,
  CASE {_outcomes("end_kind", LEAVING)}
    WHEN dropped_lsn IS NOT NULL THEN 'dropped'
    WHEN is_out THEN 'in flight' {_SET_ASIDE} ELSE 'ready' END AS state,
  CASE WHEN dropped_lsn IS NOT NULL THEN 'restart' ELSE end_reason END AS reason,
  coalesce(end_lsn, dropped_lsn) AS ended_lsn,
  coalesce(end_at, milestones.time) AS ended_at,
  coalesce(successor, 0) AS went_on_as,
  created_lsn AS queue_created_lsn{placed}
FROM placed LEFT JOIN milestones ON milestones.lsn = dropped_lsn
WHERE routed_lsn IS NOT NULL"""


_CONTENTS: Final = """,
    max(headers_bytes) FILTER (WHERE kind = 'Routed') AS headers_bytes,
    max(CASE WHEN (flags & 4) <> 0
      THEN CAST(json_extract_string(detail, '$.body_bytes') AS BIGINT) ELSE body_bytes END)
      FILTER (WHERE kind = 'Routed') AS body_bytes,
    max(CAST(epoch_ms(CAST(json_extract_string(detail, '$.expires') AS BIGINT)) AS TIMESTAMPTZ))
      FILTER (WHERE kind = 'Routed') AS expires_at"""

_MESSAGES: Final = f"""
WITH each_entry AS ({_entries(contents=True)}
)
SELECT message, min(routed_at) AS routed_at, min(address) AS address,
  list_sort(array_agg(queue)) AS queues, min(priority) AS priority,
  bool_and(persistent) AS persistent, min(sender) AS sender, min(made_from) AS made_from,
  min(headers_bytes) AS headers_bytes, min(body_bytes) AS body_bytes,
  min(expires_at) AS expires_at,
  CAST(sum(deliveries) AS BIGINT) AS deliveries,
  min(first_delivered_at) AS first_delivered_at, max(last_delivered_at) AS last_delivered_at,
  max(ended_at) FILTER (WHERE state = 'acknowledged') AS last_acknowledged_at,
  CASE WHEN bool_or(state = 'in flight') THEN 'in flight' WHEN bool_or(state = 'ready') THEN 'ready'
    WHEN min(state) = max(state) THEN min(state) ELSE 'mixed' END AS state,
  count(*) FILTER (WHERE state IN ({_listed(_QUEUED)})) AS queued,
  count(*) FILTER (WHERE state = 'acknowledged') AS acknowledged,
  count(*) FILTER (WHERE state = 'dead-lettered') AS dead_lettered,
  count(*) FILTER (WHERE state = 'expired') AS expired,
  count(*) FILTER (WHERE state IN ('removed', 'moved')) AS removed,
  count(*) FILTER (WHERE state = 'dropped') AS dropped
FROM each_entry GROUP BY message"""

_DELIVERIES: Final = f"""
WITH {_RESTARTS},
followed AS (
  SELECT lsn, time, kind, address, queue, queue_id, message, consumer, connection, delivery_count,
    priority, persistent,
    lead(kind) OVER (PARTITION BY message, queue ORDER BY lsn) AS next_kind,
    lead(reason) OVER (PARTITION BY message, queue ORDER BY lsn) AS next_reason,
    lead(lsn) OVER (PARTITION BY message, queue ORDER BY lsn) AS next_lsn,
    lead(time) OVER (PARTITION BY message, queue ORDER BY lsn) AS next_time
  FROM events WHERE kind IN ({_listed(_AFTER_ROUTED)})
),
delivered AS (
  SELECT followed.*,
    CASE WHEN restarts.last_lsn > lsn
      AND coalesce(next_kind, '') NOT IN ({_listed(names(ENDING_A_DELIVERY))})
      THEN list_min(list_filter(restarts.lsns, lambda started: started > lsn))
      END AS restart_lsn
  FROM followed CROSS JOIN restarts WHERE kind = 'Delivered'
),
judged AS (
  SELECT delivered.*,
    restart_lsn IS NOT NULL AND restart_lsn < coalesce(next_lsn, {_LAST_LSN}) AS cut_off
  FROM delivered
),
ended AS (
  SELECT judged.*,
    CASE WHEN cut_off THEN restart_lsn ELSE next_lsn END AS ended_lsn,
    CASE WHEN cut_off THEN milestones.time ELSE next_time END AS ended_at
  FROM judged LEFT JOIN milestones ON milestones.lsn = restart_lsn
)
SELECT lsn AS delivered_lsn, time AS delivered_at, message, queue, queue_id, address, consumer,
  connection, delivery_count, priority, persistent,
  CASE WHEN cut_off THEN 'returned at restart'
    WHEN next_kind IS NULL THEN 'in flight'
    {_outcomes("next_kind", LEAVING | ENDING_A_DELIVERY)} ELSE 'unknown' END AS outcome,
  CASE WHEN cut_off THEN 'restart' ELSE next_reason END AS reason,
  ended_lsn, ended_at,
  CAST(date_diff('microsecond', time, ended_at) AS DOUBLE) / 1000.0 AS duration_ms
FROM ended"""

_QUEUES: Final = f"""
WITH {_RESTARTS},
{_MADE},
latest AS (
  SELECT queue_id,
    max_by(address, lsn) FILTER (WHERE kind IN ({_listed(_QUEUE_NAMING)})) AS address,
    max_by(detail, lsn) FILTER (WHERE kind IN ({_listed(_QUEUE_NAMING)})) AS detail,
    min(lsn) FILTER (WHERE kind = 'QueueDeleted') AS deleted_lsn,
    min(time) FILTER (WHERE kind = 'QueueDeleted') AS deleted_at,
    max(lsn) FILTER (WHERE kind = 'QueuePaused') AS paused_lsn,
    max(lsn) FILTER (WHERE kind = 'QueueResumed') AS resumed_lsn
  FROM milestones WHERE queue_id > 0 GROUP BY queue_id
),
told AS (
  SELECT made.queue_id, made.queue, coalesce(latest.address, made.address) AS address, durable,
    coalesce(json_extract_string(latest.detail, '$.routing_type'), 'anycast') AS routing_type,
    coalesce(json_extract_string(latest.detail, '$.filter'), '') AS filter,
    coalesce(paused_lsn, 0) > coalesce(resumed_lsn, 0) AS paused,
    created_lsn, created_at, deleted_lsn, deleted_at,
    CASE WHEN NOT durable AND deleted_lsn IS NULL AND restarts.last_lsn > created_lsn
      THEN list_min(list_filter(restarts.lsns, lambda started: started > created_lsn))
      END AS gone_lsn
  FROM made LEFT JOIN latest ON latest.queue_id = made.queue_id CROSS JOIN restarts
),
counted AS (
  SELECT queue, queue_created_lsn, min(queue_id) AS seen_id, min(address) AS seen_address,
    count(*) AS routed,
    CAST(sum(deliveries) AS BIGINT) AS delivered,
    CAST(sum(returns) AS BIGINT) AS returned,
    count(*) FILTER (WHERE state = 'acknowledged') AS acknowledged,
    count(*) FILTER (WHERE state = 'dead-lettered') AS dead_lettered,
    count(*) FILTER (WHERE state = 'expired') AS expired,
    count(*) FILTER (WHERE state IN ('removed', 'moved')) AS removed,
    count(*) FILTER (WHERE state = 'dropped') AS dropped,
    count(*) FILTER (WHERE state = 'ready') AS ready,
    count(*) FILTER (WHERE state = 'in flight') AS in_flight,
    count(*) FILTER (WHERE state = 'held') AS held,
    count(*) FILTER (WHERE state = 'scheduled') AS scheduled
  FROM entries GROUP BY queue, queue_created_lsn
)
SELECT coalesce(told.queue_id, seen_id) AS queue_id, coalesce(told.queue, counted.queue) AS queue,
  coalesce(told.address, seen_address) AS address, routing_type, filter, durable, paused,
  created_lsn, created_at, coalesce(deleted_lsn, gone_lsn) AS deleted_lsn,
  coalesce(deleted_at, milestones.time) AS deleted_at,
  coalesce(routed, 0) AS routed, coalesce(delivered, 0) AS delivered,
  coalesce(acknowledged, 0) AS acknowledged, coalesce(returned, 0) AS returned,
  coalesce(dead_lettered, 0) AS dead_lettered, coalesce(expired, 0) AS expired,
  coalesce(removed, 0) AS removed, coalesce(dropped, 0) AS dropped,
  coalesce(ready, 0) AS ready, coalesce(held, 0) AS held, coalesce(scheduled, 0) AS scheduled,
  coalesce(in_flight, 0) AS in_flight,
  coalesce(ready, 0) + coalesce(held, 0) + coalesce(scheduled, 0) + coalesce(in_flight, 0)
    AS messages
FROM told FULL JOIN counted
  ON counted.queue = told.queue AND counted.queue_created_lsn = told.created_lsn
LEFT JOIN milestones ON milestones.lsn = gone_lsn"""

_ENTRY_NEEDS: Final = (
    "lsn", "time", "kind", "reason", "address", "queues", "message", "consumer", "connection",
    "related", "priority", "persistent", "queue_id", "detail",
)  # fmt: skip

ENTRIES: Final = View(
    "entries",
    "one row for each message and queue that it was routed to: its fate there",
    _entries(contents=False),
    _columns("""
message             id of the message: the LSN of its Routed event
queue               name of the queue
queue_id            id of the queue, null if it was created before history begins
address             name of the address that the message was sent to
routed_at           when it was routed
priority            priority of the message, 0 to 9
persistent          whether it outlives a restart
sender              id of the connection that sent it, 0 for none
made_from           message that it was made from (dead letter, expiry), 0 for none
deliveries          how often it was delivered from this queue
returns             how often it was returned to this queue by an event
first_delivered_at  when it was delivered first, null for never
last_delivered_at   when it was delivered last
state               ready, held, scheduled, in flight, dropped, or how it left: acknowledged, ...
reason              why it left the queue
ended_lsn           event with which it left the queue, null if it is still there
ended_at            when that was
went_on_as          message that was made of it (dead letter, expiry), 0 for none
queue_created_lsn   event that created the queue, null if that was before history begins
"""),
    (EVENTS, MILESTONES),
    _ENTRY_NEEDS,
    _OF_ENTRIES,
)
MESSAGES: Final = View(
    "messages",
    "one row for each message that was routed, over all its queues",
    _MESSAGES,
    _columns("""
message               id of the message: the LSN of its Routed event, which has headers and body
routed_at             when it was routed
address               name of the address that it was sent to
queues                names of the queues that it was routed to
priority              priority, 0 to 9
persistent            whether it outlives a restart
sender                id of the connection that sent it, 0 for none
made_from             message that it was made from (dead letter, expiry), 0 for none
headers_bytes         length of its headers as they are journaled
body_bytes            length of its body, also of a large message
expires_at            when its time is over, null for never
deliveries            how often it was delivered, from all queues
first_delivered_at    when it was delivered first, null for never
last_delivered_at     when it was delivered last
last_acknowledged_at  when it was acknowledged last, null for never
state                 in flight or ready if so in any queue, else how it left; mixed if not alike
queued                in how many queues it still is
acknowledged          in how many queues it was acknowledged
dead_lettered         in how many queues it was dead-lettered
expired               in how many queues it expired
removed               from how many queues it was removed, or moved to another
dropped               from how many queues it was dropped at a restart
"""),
    (EVENTS, MILESTONES),
    (*_ENTRY_NEEDS, "flags", "headers_bytes", "body_bytes"),
    _OF_ENTRIES,
)
DELIVERIES: Final = View(
    "deliveries",
    "one row for each attempt to hand a message to a consumer, and how it ended",
    _DELIVERIES,
    _columns("""
delivered_lsn   the Delivered event
delivered_at    when it was delivered
message         id of the message
queue           name of the queue
queue_id        id of the queue
address         name of the queue's address
consumer        id of the consumer: the LSN of its ConsumerAttached event
connection      id of the consumer's connection
delivery_count  attempts to deliver the message from this queue, this one included
priority        priority of the message
persistent      whether the message outlives a restart
outcome         how it ended: a state of entries, returned, or returned at restart
reason          why it ended so, as the event says
ended_lsn       event that ended it, null while it is in flight
ended_at        when it ended
duration_ms     milliseconds from delivery to end
"""),
    (EVENTS, MILESTONES),
    (
        "lsn", "time", "kind", "reason", "address", "queue", "queue_id", "message", "consumer",
        "connection", "delivery_count", "priority", "persistent",
    ),
    _AFTER_ROUTED,
)  # fmt: skip
QUEUES: Final = View(
    "queues",
    "one row for each queue that there ever was, with what went through it",
    _QUEUES,
    _columns("""
queue_id       id of the queue
queue          its name; a queue that was made again has a row for each time
address        name of the address that it is bound to
routing_type   anycast or multicast
filter         what it takes, empty for everything
durable        whether it outlives a restart
paused         whether nothing is delivered from it
created_lsn    event that made it, null if that was before history begins
created_at     when that was
deleted_lsn    event with which it went, null if it is there
deleted_at     when that was
routed         messages that were routed to it
delivered      deliveries from it
acknowledged   messages that were acknowledged
returned       deliveries that were returned, but for those that a restart returned
dead_lettered  messages that were dead-lettered
expired        messages that expired
removed        messages that were removed or moved by an administrator, or removed with the queue
dropped        messages that were dropped at a restart
ready          messages that are ready now
held           messages that are held now, because they had nowhere to go
scheduled      messages that are not delivered before a time
in_flight      messages that are in flight now
messages       all of these together
"""),
    (EVENTS, MILESTONES, "entries"),
    _ENTRY_NEEDS,
    _OF_ENTRIES,
)

VIEWS: Final = (ENTRIES, MESSAGES, DELIVERIES, QUEUES)
"""All views; each refers only to those before it."""
BY_NAME: Final = {view.name: view for view in VIEWS}


def needed(names: Iterable[str]) -> tuple[View, ...]:
    """Return these views and those that they refer to, in the order in which to define them."""
    wanted: set[str] = set(names)
    for view in reversed(VIEWS):
        if view.name in wanted:
            wanted.update(view.uses)
    return tuple(view for view in VIEWS if view.name in wanted)


def prepare(
    engine: Engine, history: History, names: Iterable[str], selection: Selection = EVERYTHING
) -> None:
    """Load what these views need as `events` and `milestones`, and define the views.

    Only span, addresses and messages of the selection are used. Select queues in queries over the
    views, because the state of a message depends on all its queues. Raises as `Engine.load` does.
    """
    views = needed(names)
    columns = [name for name in ALL_COLUMNS if any(name in view.needs for view in views)]
    kinds = [name for name in _OF_ENTRIES if any(name in view.kinds for view in views)]
    span = msgspec.structs.replace(
        selection, kinds=tuple(kinds), queues=(), to_lsn=_end(history, selection)
    )
    engine.load(EVENTS, history, columns, span)
    engine.load(MILESTONES, history, MILESTONE_COLUMNS, milestones_of(span))
    for view in views:
        engine.define(view.name, view.sql)


def milestones_of(span: Selection) -> Selection:
    """Return the selection of milestones for events of a span: all up to its end."""
    return Selection(kinds=MILESTONE_KINDS, to_lsn=span.to_lsn, until=span.until)


def _end(history: History, selection: Selection) -> int | None:
    """Return the current last LSN, so that two tables show the same history."""
    if selection.to_lsn is not None or not (history.source.directory or history.source.archive):
        return selection.to_lsn
    return make_plan(history.source, Selection(from_lsn=_LAST_LSN), names=False).last_lsn
