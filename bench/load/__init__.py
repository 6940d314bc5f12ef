"""The load generator: frames, connections, worker processes, and one measurement.

It must never know which broker it loads. Begin with `measurement`.

Modules:

- `amqp`: AMQP 1.0 as the load generator speaks it: one session, one link, frames that are made in
  advance.
- `child`: A process of the benchmark that reads commands line by line, and answers in JSON.
- `frames`: Benchmark messages: building frames in advance and checking bodies afterwards.
- `honest`: An honest client in a separate process: measures its round trips, whatever other clients
  do.
- `measurement`: One measurement: which workers run, when their clock starts, and whether to believe
  them.
- `stomp`: STOMP 1.2 as the load generator speaks it.
- `traffic`: Steady traffic of every kind, and a ledger that is judged by nobody but its clients.
- `wire`: One raw connection of the load generator, in whatever protocol.
- `workers`: The loops of the load generator: each runs in a process of its own.
"""
