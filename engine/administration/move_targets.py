"""Whether messages may be moved into a queue: asked for every move of an administrator, by whatever
command, about the real target.

The target has to be on the virtual host of the message, and no queue of the broker itself. Unless
it is the operator of this machine, the administrator needs the right to manage it. The content of a
message never matters. Must never know how a target was chosen.
"""

from daybook.engine.core.core import Core
from daybook.engine.core.permission_checks import actor_may, check_actor
from daybook.engine.core.permission_checks import refusal as permission_missing
from daybook.engine.core.queue_names import find_queue, meant
from daybook.engine.entries.retroactive import refuse_use
from daybook.engine.names.names import host_and_name
from daybook.engine.queues.queue import Queue
from daybook.engine.refusals import Code, Refusal, no_queue
from daybook.engine.settings.permissions import MANAGE, Actor


def named(core: Core, source: Queue, name: str, actor: Actor | None) -> Queue | Refusal:
    """Return the queue of this name, or why messages of another may not be moved there.

    Whether a queue exists is said only to those who may manage it.
    """
    refusal = check_actor_at(core, actor, name)
    if refusal is not None:
        return refusal
    target = find_queue(core.state, name)
    if isinstance(target, Refusal):
        return target
    return _wrong_kind(source, target) or target


def check(core: Core, source: Queue, target: Queue, actor: Actor | None) -> Refusal | None:
    """Return why messages of a queue may not be moved to another one, None if they may."""
    wrong = _wrong_kind(source, target)
    return wrong or check_actor_at(core, actor, target.name)


def check_actor_at(core: Core, actor: Actor | None, name: str) -> Refusal | None:
    """Return why an administrator may not manage the queue of a name, None if it may.

    What is refused is what was named: neither whether it exists nor where it is.
    """
    address, queue_name = meant(core.state, name)
    named = address or queue_name
    known = core.state.queue_by_name.get(queue_name)
    place = known.address.name if known is not None else named
    refusal = check_actor(core, actor, MANAGE, place, queue_name)
    if refusal is None or actor is None or place == named:
        return refusal
    if actor_may(core.state, core.rights.permissions, actor, MANAGE, named, queue_name):
        return no_queue(queue_name)
    return permission_missing(actor.user, MANAGE, named, queue_name)


def check_new(
    core: Core, source: Queue, address: str, queue: str | None, actor: Actor | None
) -> Refusal | None:
    """Return why messages of a queue may not go to an address, or to a queue that does not exist;
    None if they may."""
    if host_and_name(address)[0] != source.address.host:
        return _elsewhere(f"address '{address}'", source)
    return check_actor(core, actor, MANAGE, address, queue)


def _wrong_kind(source: Queue, target: Queue) -> Refusal | None:
    if target.definition.keeps:
        return refuse_use(target)
    if target is source:
        return Refusal(Code.INVALID, f"queue '{target.name}' is the target itself")
    if target.address.host != source.address.host:
        return _elsewhere(f"queue '{target.name}'", source)
    return None


def _elsewhere(what: str, source: Queue) -> Refusal:
    return Refusal(Code.INVALID, f"{what} is on another virtual host than '{source.name}'")
