"""The cost of filters: `python -m bench.filters`.

Asks each of some filters about a message with five headers, and prints how long an answer takes and
how long it took to compile. One process, no broker. Exits with 1 if a gate does not hold.
"""

import sys
import time
from typing import Final

import click

from daybook.engine.facts.events import PERSISTENT
from daybook.engine.filters.compiling import CompiledFilter, compile_filter
from daybook.engine.messages.headers import build
from daybook.engine.messages.message import Message

GATE_US: Final = 2.0
"""How long one condition may take."""
CONDITIONS: Final = (
    "color = 'blue'", "weight > 2500", "region IN ('eu', 'us')", "color LIKE 'bl%'",
    "AMQPriority > 3", "nothing IS NULL",
)  # fmt: skip
WHOLE: Final = "type = 'car' AND color = 'blue' AND weight > 2500"
HEADERS: Final = {
    "destination": "/topic/cars", "color": "blue", "weight": "2600", "type": "car", "region": "eu",
}  # fmt: skip
ROUNDS: Final = 5


def answer_us(compiled: CompiledFilter, message: Message, times: int) -> float:
    """Return the shortest time for an answer of several rounds, in microseconds."""
    rounds = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(times):
            compiled.matches(message)
        rounds.append(time.process_time() - began)
    return min(rounds) / times * 1e6


def slowest_us(times: int, *, prints: bool = False) -> float:
    """Return how long the slowest of the conditions takes, in microseconds."""
    message = Message(1, 1, 4, PERSISTENT, 0, build(HEADERS.items()), bytes(256))
    slowest = 0.0
    compile_filter("TRUE", lambda number: None)
    for text in (*CONDITIONS, WHOLE):
        began = time.perf_counter()
        compiled = compile_filter(text, lambda number: None)
        took_ms = (time.perf_counter() - began) * 1e3
        assert compiled.matches(message)
        found = answer_us(compiled, message, times)
        slowest = max(slowest, found if text != WHOLE else 0.0)
        if prints:
            click.echo(f"{text:<52} {found:6.2f} us   compiled in {took_ms:.1f} ms")
    return slowest


@click.command(context_settings={"show_default": True})
@click.option("--times", type=click.IntRange(1, 10_000_000), default=50_000)
def main(times: int) -> None:
    """Measure filters. Exit codes: 0 each condition is fast enough, 1 one is not, 2 bad use."""
    sys.exit(0 if slowest_us(times, prints=True) <= GATE_US else 1)


if __name__ == "__main__":
    main()
