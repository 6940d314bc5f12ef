"""How the fuzz targets are run: until the time is up or something is found."""

import argparse
import random
import time
from collections.abc import Callable


def search(name: str, check: Callable[[int], str], purpose: str) -> int:
    """Check seeds as the command line says; the exit code says whether something was found."""
    parser = argparse.ArgumentParser(description=purpose.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to search")
    parser.add_argument("--seed", type=int, help="check this one seed only")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        problem = check(arguments.seed)
        print(problem or f"seed {arguments.seed}: fine")
        return 1 if problem else 0
    first = seed = random.SystemRandom().randrange(1 << 48)
    until = time.monotonic() + arguments.seconds
    while time.monotonic() < until:
        problem = check(seed)
        if problem:
            print(f"seed {seed}: {problem}")
            return 1
        seed += 1
    print(f"{name}: {seed - first} streams from seed {first} on, nothing found")
    return 0
