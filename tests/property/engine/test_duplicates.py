"""Duplicate detection against a model of lists: what each address holds, and what senders are told.

Senders send with few ids, plainly, in pieces and in transactions; sizes change, ids are cleared,
addresses deleted, and the broker is killed. The model forgets as a list of the last ones does.
After every step what was journaled is folded and compared.
"""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from daybook.engine.commands import Chunk, ClearDuplicateIds, Commit, DeleteAddress, Send
from daybook.engine.facts import reasons
from daybook.engine.refusals import Code, Refusal
from daybook.engine.routing.duplicates import remembered
from tests.support.world import World

ADDRESSES = ("a", "b")
PLACES = {"a": "a", "b": "b", "a::a.second": "a"}
"""Where a send may go, and whose ids count there; the queue need not exist."""

IDS = ("", "1", "2", "3", "4", "5")
SIZES = (0, 1, 2, 3, 20_000)


class Model:
    """Bodies and ids by address, as lists in order."""

    def __init__(self) -> None:
        self.bodies: dict[str, list[bytes]] = {name: [] for name in ADDRESSES}
        self.ids: dict[str, list[str]] = {name: [] for name in ADDRESSES}
        self.sizes = dict.fromkeys(ADDRESSES, 20_000)

    def shrink(self, address: str) -> None:
        excess = len(self.ids[address]) - self.sizes[address]
        del self.ids[address][: max(0, excess)]

    def knows(self, address: str, duplicate_id: str) -> bool:
        return bool(duplicate_id) and duplicate_id in self.ids[address]

    def take(self, place: str, duplicate_id: str, body: bytes) -> None:
        address = PLACES[place]
        if self.knows(address, duplicate_id):
            return
        self.bodies[address].append(body)
        if duplicate_id:
            self.ids[address].append(duplicate_id)
            self.shrink(address)


Sent = tuple[str, str, bytes]


class Duplicates(RuleBasedStateMachine):
    @initialize(persist=st.booleans())
    def begin(self, persist: bool) -> None:
        self.persist = persist
        self.world = World(persist_id_cache=persist)
        self.model = Model()
        self.bodies = 0
        self.connection = 0
        self.open: list[Sent] | None = None
        self.start()

    def start(self) -> None:
        self.connection = self.world.connect()
        self.open = None

    def new_body(self) -> bytes:
        self.bodies += 1
        return b"%d" % self.bodies

    def command(self, place: str, duplicate_id: str, body: bytes) -> Send:
        address, _, queue = place.partition("::")
        return Send(
            self.connection, address, b"", body, queue=queue or None, duplicate_id=duplicate_id
        )

    @rule(place=st.sampled_from(sorted(PLACES)), duplicate_id=st.sampled_from(IDS))
    def send(self, place: str, duplicate_id: str) -> None:
        body = self.new_body()
        lsn = self.world.ok(self.command(place, duplicate_id, body))
        assert lsn <= self.world.broker.lsn
        if self.model.knows(PLACES[place], duplicate_id):
            assert self.world.journal[-1].reason == reasons.DUPLICATE
            assert lsn == self.world.broker.lsn
        self.model.take(place, duplicate_id, body)

    @rule(place=st.sampled_from(sorted(PLACES)), duplicate_id=st.sampled_from(IDS), data=st.data())
    def send_in_pieces(self, place: str, duplicate_id: str, data: Any) -> None:
        """And something may happen between the pieces and the end."""
        address = PLACES[place]
        was_known = self.model.knows(address, duplicate_id)
        command = self.command(place, duplicate_id, b"")
        first = self.world.ok(Chunk(command, b"x"))
        assert (first == 0) == was_known
        between = data.draw(st.sampled_from(("nothing", "clear", "send", "size")))
        if between == "clear":
            self.clear(address)
        elif between == "send":
            self.send(place, duplicate_id)
        elif between == "size":
            self.resize(address, 1)
        command = self.command(place, duplicate_id, b"")
        command.chunks, command.body_bytes = (first,), 1
        answer = self.world.handle(command)
        self.world.turn()
        if was_known and not self.model.knows(address, duplicate_id):
            assert isinstance(answer, Refusal)
            return
        assert isinstance(answer, int)
        self.model.take(place, duplicate_id, b"")

    @rule(
        sends=st.lists(
            st.tuples(st.sampled_from(sorted(PLACES)), st.sampled_from(IDS)),
            min_size=1,
            max_size=4,
        )
    )
    def add_to_transaction(self, sends: list[tuple[str, str]]) -> None:
        if self.open is None:
            self.world.begin(self.connection)
            self.open = []
        for place, duplicate_id in sends:
            body = self.new_body()
            command = self.command(place, duplicate_id, body)
            command.transaction = "t"
            assert self.world.ok(command) == 0
            self.open.append((place, duplicate_id, body))

    def refusal_of(self, sends: list[Sent]) -> Code | None:
        seen: set[tuple[str, str]] = set()
        for place, duplicate_id, _ in sends:
            address = PLACES[place]
            if not duplicate_id or not self.model.sizes[address]:
                continue
            if self.model.knows(address, duplicate_id):
                return Code.DUPLICATE
            if (address, duplicate_id) in seen:
                return Code.INVALID
            seen.add((address, duplicate_id))
        return None

    @rule()
    def commit(self) -> None:
        if self.open is None:
            return
        sends, self.open = self.open, None
        answer = self.world.handle(Commit(self.connection, "t"))
        self.world.turn()
        code = self.refusal_of(sends)
        if code is not None:
            assert isinstance(answer, Refusal)
            assert answer.code is code
            assert self.world.journal[-1].name == "TransactionRolledBack"
            return
        assert isinstance(answer, int), answer
        for each in sends:
            self.model.take(*each)

    @rule(address=st.sampled_from(ADDRESSES), size=st.sampled_from(SIZES))
    def resize(self, address: str, size: int) -> None:
        self.model.sizes[address] = size
        self.world.settings(
            **{name: {"id_cache_size": each} for name, each in self.model.sizes.items()}
        )
        self.model.shrink(address)

    @rule(address=st.sampled_from(ADDRESSES))
    def clear(self, address: str) -> None:
        if address in self.world.state.address_by_name:
            self.world.ok(ClearDuplicateIds(address))
            self.model.ids[address].clear()

    @rule(address=st.sampled_from(ADDRESSES))
    def delete(self, address: str) -> None:
        if address in self.world.state.address_by_name:
            self.world.ok(DeleteAddress(address, force=True))
            self.model.ids[address].clear()
            self.model.bodies[address].clear()

    @rule()
    def kill(self) -> None:
        self.world.restart()
        self.start()
        if not self.persist:
            for ids in self.model.ids.values():
                ids.clear()

    @invariant()
    def it_is_as_the_model_says(self) -> None:
        if not hasattr(self, "model"):
            return
        self.world.follow()
        state = self.world.state
        for name in ADDRESSES:
            address = state.address_by_name.get(name)
            queues = address.queues() if address is not None else []
            found = [body for queue in queues for body in self.world.bodies(queue.name)]
            assert sorted(found) == sorted(self.model.bodies[name])
            known = remembered(address) if address is not None else 0
            assert known == len(self.model.ids[name])

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.check()


TestDuplicates = Duplicates.TestCase
