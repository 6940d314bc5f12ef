"""The brokers under test: how each is started, what its processes take, and the floor.

They must never know what is measured. Begin with `targets`.

Modules:

- `artemis`: Apache ActiveMQ Artemis, as `artemis create` sets up a broker on this machine.
- `floor`: The floor: the barest asyncio broker that parses, group-commits to disk and delivers.
- `memory`: The memory of the processes of a broker, as the kernel counts it.
- `peers`: The peers as Debian packages them, with their defaults: RabbitMQ and ActiveMQ Classic.
- `running`: A broker under test that was started: its endpoint, its processes, and its end.
- `targets`: The brokers under test by name, and how the floor and Daybook are started.
"""
