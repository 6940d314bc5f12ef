"""Values, performatives and messages of AMQP 1.0 by chance, and proton as another reader."""
