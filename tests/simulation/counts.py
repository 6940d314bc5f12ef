"""Counts of a simulated run: a fault that never happens proves nothing."""

import msgspec


class Counts(msgspec.Struct):
    """Counts of a run."""

    steps: int = 0
    power_cuts: int = 0
    kills: int = 0
    failures: int = 0
    disk_full: int = 0
    disk_freed: int = 0
    drained_while_full: int = 0
    failed_recoveries: int = 0
    clean_stops: int = 0
    recoveries: int = 0
    cut_in_recovery: int = 0
    cut_tails: int = 0
    blocked: int = 0


class SwarmCounts(msgspec.Struct):
    """Counts of a run with the features of `tests.simulation.swarm`."""

    clock_steps: int = 0
    refused_logins: int = 0
    orders: int = 0
    permissions: int = 0


class HardCounts(msgspec.Struct):
    """Counts of a run with the faults of `tests.simulation.mishaps.hardships`."""

    indexer_hangs: int = 0
    writer_hangs: int = 0
    refused_opens: int = 0
    damages: int = 0
    refused_starts: int = 0
    damaged_reads: int = 0
    restored: int = 0


class WayCounts(msgspec.Struct):
    """By which way blocks became durable (ADR 41)."""

    near_blocks: int = 0
    late_blocks: int = 0
    near_failures: int = 0
