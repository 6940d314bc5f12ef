"""A message on its way into many queues, as `engine.entries.arrivals` has it."""

from daybook.engine.messages.message import Message
from daybook.engine.queues.queue import Queue


class Arrival:
    """A message that Routed put into many queues; `left` are those that it has still to enter, by
    id, and the first one is the last. `due` is as in RoutedDetail."""

    __slots__ = ("due", "left", "lsn", "message")

    def __init__(self, lsn: int, message: Message, queues: list[Queue], due: int) -> None:
        self.lsn = lsn
        self.message = message
        self.due = due
        self.left = {queue.id: queue for queue in reversed(queues)}
        size = message.size
        for queue in queues:
            address = queue.address
            address.arriving_messages += 1
            queue.arriving += 1
            address.arriving_bytes += size

    def note_entered(self, queue: Queue) -> None:
        """Note that the message is in a queue, and not on its way there any more."""
        queue.address.arriving_messages -= 1
        queue.arriving -= 1
        queue.address.arriving_bytes -= self.message.size
