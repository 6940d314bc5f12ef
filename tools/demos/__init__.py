"""The demos: real brokers and clients, kill -9 in the middle, and a proof of the result.

They must never look into a broker. Begin with `demo`.

Modules:

- `demo`: The demo: a real broker, real clients, two kill -9 in the middle, and a table of the
  results.
- `demo_clients`: The clients of the demo: producers and consumers on stomp.py, and their records.
- `demo_proof`: Checks the demo: the records of the clients must be consistent, and agree with the
  journal.
- `pipeline_demo`: The demo of the pipeline: queries the history of a broker that was killed twice,
  in every way.
"""
