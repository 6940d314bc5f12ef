"""Several brokers on loopback, with connectors, link routes and real clients."""
