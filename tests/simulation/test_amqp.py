"""Clients of AMQP do everything in the simulation, beside those of STOMP."""

from tests.simulation.seeds import AMQP_FROM
from tests.simulation.simulation import Simulation
from tests.simulation.test_simulation import play_until, simulate

WANTED = (
    "AMQP to AMQP", "AMQP to STOMP", "STOMP to AMQP", "STOMP to STOMP",
    "sent", "settled", "posted", "aborted",
    "accepted", "released", "rejected", "modified", "retired",
    "declared", "committed", "rolled back", "coordinator lost",
    "drained", "detached", "closed", "session ended",
)  # fmt: skip
ONCE_FOUND = (
    # A piece of a large message that had to wait was lost; a dynamic node was on another host.
    (AMQP_FROM + 16, 1_400),
    # An answer to a drain overtook deliveries.
    (94000000119, 3_700),
    # A disposition that settles was answered.
    (94000000056, 2_400),
)
"""Seeds that failed before a fault of the broker was corrected, with their steps."""


def test_clients_of_amqp_do_everything() -> None:
    """Together with those of STOMP: messages cross from each protocol to the other."""

    def tell(simulation: Simulation) -> dict[str, int]:
        return {name: simulation.ledger.deeds[name] for name in WANTED}

    # The first ones did all of it once.
    numbers = (3002, 3014, 3005, *range(3000, 3040))
    play_until((AMQP_FROM + each for each in numbers), dict.fromkeys(WANTED, 0), tell)


def test_promises_are_kept_from_seeds_that_once_failed() -> None:
    for seed, steps in ONCE_FOUND:
        simulate(seed, steps)
