"""Configurations of other brokers, read as if they were ours. It must never act on the
configurations that it reads.

Modules:

- `apollo_xml`: The configuration of Apollo, `apollo.xml`, as the source of ours: connectors and
  their `<stomp>`.
- `artemis`: Terms of Artemis that have another name here, and its defaults where ours differ.
- `artemis_logins`: Users and roles beside a broker.xml of Artemis: the files of its login modules.
- `artemis_tls`: The parameters for TLS in the URL of an acceptor of Artemis, as keys of ours.
- `broker_xml`: The configuration of Artemis, `broker.xml`, as the source of ours.
- `findings`: The settings of another broker's configuration that are not taken over, in two groups.
- `importing`: Users of another broker for `daybook user import`, from whichever file they are in.
- `logins`: Users of another broker as they are taken over: login, roles, and a hash if there is
  one.
- `rabbitmq`: The definitions of RabbitMQ, as its management exports them, as the source of ours.
- `rabbitmq_arguments`: Translates arguments of queues and keys of policies of RabbitMQ.
- `rabbitmq_rules`: Permissions of RabbitMQ as rules of ours.
- `reading`: Reading the configuration of another broker, whichever it is. Must never act on it.
- `router`: The configuration of a router, Apache Qpid Dispatch or skupper-router, read as if it
  were ours. It must never act on the configuration.
- `taking_over`: The first start with a configuration of another broker: its users become ours.
- `xml_source`: An XML file as a tree of elements with the line of each, read by a hardened parser.
"""
