"""The contract of every arbiter. Mix in, and give a fixture `world`."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from daybook.replication.arbiters.arbiter import Arbiter, Claim, Holder
from daybook.replication.in_sync import InSync
from daybook.replication.node import Lease


class World(Protocol):
    """An arbiter as several nodes see it, how long its leases last, and its time."""

    microseconds: int

    def arbiter(self) -> Arbiter:
        """Return the arbiter for one more process."""
        ...

    async def sleep(self, leases: float) -> None:
        """Let a part of the time of a lease pass, or several."""
        ...


Worlds = Callable[[], AbstractAsyncContextManager[World]]
Play = Callable[[World, Arbiter, Arbiter], Awaitable[None]]


def play(world: Worlds, scene: Play) -> None:
    """Play a scene with the arbiters of two processes."""

    async def whole() -> None:
        async with world() as made:
            one, two = made.arbiter(), made.arbiter()
            try:
                await scene(made, one, two)
            finally:
                await one.close()
                await two.close()

    asyncio.run(whole())


async def leads(arbiter: Arbiter, above: int = 0) -> Lease:
    """Return the lease that one gets."""
    lease = await arbiter.acquire("a", "tcp://a:1", above)
    assert lease is not None
    return lease


async def runs_out(made: World, arbiter: Arbiter) -> None:
    """Wait until nobody has the lease, which takes about its time."""
    await made.sleep(0.5)
    assert await arbiter.holder() is not None
    await made.sleep(0.6)
    while await arbiter.holder() is not None:
        await made.sleep(0.05)


ONE, TWO = Claim("1", "one", "/data", "a:1"), Claim("2", "two", "/data", "a:1")


class ArbiterSuite:
    def test_a_name_is_used_by_one_node_until_its_claim_ends(self, world: Worlds) -> None:
        async def scene(made: World, one: Arbiter, two: Arbiter) -> None:
            assert (await one.claim("a", ONE)).other is None
            assert (await two.claim("b", TWO)).other is None
            for _ in range(3):
                await made.sleep(0.5)
                assert (await one.claim("a", ONE)).other is None
                assert (await two.claim("a", TWO)).other == ONE
            await made.sleep(1.1)
            while (await two.claim("a", TWO)).other is not None:
                await made.sleep(0.05)
            assert (await one.claim("a", ONE)).other == TWO

        play(world, scene)

    def test_a_process_that_begins_again_has_its_name(self, world: Worlds) -> None:
        async def scene(made: World, one: Arbiter, two: Arbiter) -> None:
            assert (await one.claim("a", ONE)).other is None
            assert (await two.claim("a", ONE)).other is None
            assert (await two.claim("a", ONE)).other is None

        play(world, scene)

    def test_all_processes_see_one_id_of_the_arbiter(self, world: Worlds) -> None:
        async def scene(made: World, one: Arbiter, two: Arbiter) -> None:
            first, second = await asyncio.gather(one.claim("a", ONE), two.claim("b", TWO))
            lease = await leads(one)
            await one.release(lease.epoch)
            found = {first.arbiter, second.arbiter, (await two.claim("b", TWO)).arbiter}
            assert len(found) == 1
            assert found != {""}
            assert one.place == two.place

        play(world, scene)

    def test_the_first_one_gets_it_and_the_others_see_who(self, world: Worlds) -> None:
        async def scene(made: World, one: Arbiter, two: Arbiter) -> None:
            assert await two.holder() is None
            lease = await leads(one)
            assert lease.microseconds == made.microseconds
            assert await two.acquire("b", "tcp://b:1", 0) is None
            assert await one.acquire("a", "tcp://a:1", 0) is None
            expected = Holder("a", "tcp://a:1", lease.epoch)
            assert await two.holder() == await one.holder() == expected

        play(world, scene)

    def test_of_two_who_ask_at_once_one_gets_it(self, world: Worlds) -> None:
        async def scene(made: World, one: Arbiter, two: Arbiter) -> None:
            for _ in range(5):
                leases = await asyncio.gather(
                    one.acquire("a", "tcp://a:1", 0), two.acquire("b", "tcp://b:1", 0)
                )
                (lease,) = filter(None, leases)
                await (one if leases[0] else two).release(lease.epoch)

        play(world, scene)

    def test_calls_of_one_node_may_overlap(self, world: Worlds) -> None:
        """A call never revokes the lease that another one is about to get."""

        async def scene(made: World, one: Arbiter, two: Arbiter) -> None:
            for _ in range(5):
                leases = await asyncio.gather(*(one.acquire("a", "", 0) for _ in range(3)))
                (lease,) = filter(None, leases)
                assert await one.renew(lease.epoch) == lease
                assert await two.acquire("b", "", 0) is None
                _, later = await asyncio.gather(
                    one.release(lease.epoch), one.acquire("a", "", lease.epoch)
                )
                later = later or await leads(one, lease.epoch)
                assert later.epoch > lease.epoch
                assert await one.renew(later.epoch) == later
                await one.release(later.epoch)

        play(world, scene)

    def test_a_lease_that_is_renewed_does_not_run_out(self, world: Worlds) -> None:
        async def scene(made: World, one: Arbiter, two: Arbiter) -> None:
            lease = await leads(one)
            for _ in range(4):
                await made.sleep(0.4)
                assert await one.renew(lease.epoch) == lease
                assert await two.acquire("b", "tcp://b:1", 0) is None

        play(world, scene)

    def test_a_lease_that_is_not_renewed_is_gone_for_ever(self, world: Worlds) -> None:
        async def scene(made: World, one: Arbiter, two: Arbiter) -> None:
            lease = await leads(one)
            await runs_out(made, two)
            assert await one.renew(lease.epoch) is None
            later = await two.acquire("b", "tcp://b:1", 0)
            assert later is not None
            assert later.epoch > lease.epoch
            assert await one.renew(lease.epoch) is None
            await one.release(lease.epoch)
            assert await two.renew(later.epoch) == later

        play(world, scene)

    def test_one_that_is_given_back_is_there_at_once(self, world: Worlds) -> None:
        async def scene(made: World, one: Arbiter, two: Arbiter) -> None:
            lease = await leads(one)
            await one.release(lease.epoch)
            await one.release(lease.epoch)
            assert await one.renew(lease.epoch) is None
            assert await one.holder() is None
            later = await two.acquire("b", "tcp://b:1", 0)
            assert later is not None
            assert later.epoch > lease.epoch

        play(world, scene)

    def test_epochs_continue_behind_one_that_a_node_knows(self, world: Worlds) -> None:
        async def scene(made: World, one: Arbiter, two: Arbiter) -> None:
            lease = await one.acquire("a", "tcp://a:1", 1_000) or await leads(one, 1_000)
            assert lease.epoch > 1_000
            holder = await two.holder()
            assert holder is not None
            assert holder.epoch == lease.epoch
            assert await one.renew(lease.epoch) == lease
            await one.release(lease.epoch)
            assert (await leads(two)).epoch > lease.epoch

        play(world, scene)

    def test_only_who_leads_changes_the_list_that_it_read(self, world: Worlds) -> None:
        async def scene(made: World, one: Arbiter, two: Arbiter) -> None:
            assert await one.in_sync() == InSync((), 0)
            lease = await leads(one)
            first = await one.set_in_sync(lease.epoch, ("a", "b"), 0)
            assert first is not None
            assert await two.in_sync() == first
            assert await two.set_in_sync(lease.epoch + 1, ("b",), first.version) is None
            assert await one.set_in_sync(lease.epoch, ("a",), 0) is None
            second = await one.set_in_sync(lease.epoch, ("a",), first.version)
            assert second is not None
            assert second.version > first.version
            assert await one.in_sync() == InSync(("a",), second.version)
            await one.release(lease.epoch)
            assert await one.set_in_sync(lease.epoch, (), second.version) is None
            later = await leads(two)
            assert await one.set_in_sync(lease.epoch, (), second.version) is None
            third = await two.set_in_sync(later.epoch, ("ä b",), second.version)
            assert third is not None
            assert await one.in_sync() == InSync(("ä b",), third.version)

        play(world, scene)

    def test_the_list_of_a_lease_that_ran_out_stays(self, world: Worlds) -> None:
        async def scene(made: World, one: Arbiter, two: Arbiter) -> None:
            lease = await leads(one)
            kept = await one.set_in_sync(lease.epoch, ("a", "b"), 0)
            assert kept is not None
            await runs_out(made, two)
            assert await one.set_in_sync(lease.epoch, ("a",), kept.version) is None
            assert await two.in_sync() == kept

        play(world, scene)
