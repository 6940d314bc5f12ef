"""Draining consumers: each gets what there is, and what is left of its credit is taken back.

A consumer drains from the command `Credit` that says so until its answer, the effect `Drained`, or
until a later command calls it off. The answer follows as soon as a look at its queue has ended and
nothing was cut short: it may be that there is nothing, that the queue is paused, or that what is
there is not for this consumer. Only a connection without room lets it wait, because that returns by
itself; one that is sated does not, because its client may settle nothing before the answer.

Invariant: the messages that a consumer got, those that drains took back, and its credit add up to
all credit that it was granted. Volatile, as credit is. Must never know how a queue is looked at.
"""

from daybook.engine.core.core import Core
from daybook.engine.core.credit import take_back
from daybook.engine.effects import Drained
from daybook.engine.queues.consumer import Consumer
from daybook.engine.queues.queue import Queue


def begin(core: Core, consumer: Consumer) -> None:
    """Let a consumer drain."""
    core.draining.setdefault(consumer.queue.id, {})[consumer.id] = consumer


def call_off(core: Core, consumer: Consumer) -> None:
    """Let a consumer drain no more, if it did: its credit stays as it is."""
    draining = core.draining.get(consumer.queue.id)
    if draining is not None and draining.pop(consumer.id, None) is not None and not draining:
        del core.draining[consumer.queue.id]


def answer(core: Core, queue: Queue) -> None:
    """Answer the consumers of a queue that drain, after a complete look at the queue."""
    for consumer in list(core.draining[queue.id].values()):
        if consumer.credit_messages > 0 and consumer.connection.room <= 0:
            continue
        call_off(core, consumer)
        left = take_back(consumer)
        core.effects.append(Drained(consumer, left, consumer.handed + consumer.drained))
