"""The table of composite types: the number of each descriptor, and what it can be used as.

docs/amqp.md is drawn from it. Must never know a session.
"""

from typing import Final

from daybook.engine.messages.amqp.composites import Composites, composite
from daybook.protocols.amqp.wire import performatives, termini
from daybook.protocols.amqp.wire.kinds import (
    ERROR,
    FRAME,
    LIFETIME,
    OUTCOME,
    SASL_FRAME,
    SOURCE,
    STATE,
    TARGET,
)

FLOW: Final = 0x13
TRANSFER: Final = 0x14
DISPOSITION: Final = 0x15

_BODY: Final = "body"
"""The value of a message to a coordinator."""

COMPOSITES: Final = Composites(
    (
        composite("open", 0x10, performatives.Open, FRAME),
        composite("begin", 0x11, performatives.Begin, FRAME),
        composite("attach", 0x12, performatives.Attach, FRAME),
        composite("flow", FLOW, performatives.Flow, FRAME),
        composite("transfer", TRANSFER, performatives.Transfer, FRAME),
        composite("disposition", DISPOSITION, performatives.Disposition, FRAME),
        composite("detach", 0x16, performatives.Detach, FRAME),
        composite("end", 0x17, performatives.End, FRAME),
        composite("close", 0x18, performatives.Close, FRAME),
        composite("error", 0x1D, performatives.Error, ERROR),
        composite("sasl-mechanisms", 0x40, performatives.SaslMechanisms, SASL_FRAME),
        composite("sasl-init", 0x41, performatives.SaslInit, SASL_FRAME),
        composite("sasl-challenge", 0x42, performatives.SaslChallenge, SASL_FRAME),
        composite("sasl-response", 0x43, performatives.SaslResponse, SASL_FRAME),
        composite("sasl-outcome", 0x44, performatives.SaslOutcome, SASL_FRAME),
        composite("received", 0x23, termini.Received, STATE),
        composite("accepted", 0x24, termini.Accepted, STATE, OUTCOME),
        composite("rejected", 0x25, termini.Rejected, STATE, OUTCOME),
        composite("released", 0x26, termini.Released, STATE, OUTCOME),
        composite("modified", 0x27, termini.Modified, STATE, OUTCOME),
        composite("source", 0x28, termini.Source, SOURCE),
        composite("target", 0x29, termini.Target, TARGET),
        composite("delete-on-close", 0x2B, termini.DeleteOnClose, LIFETIME),
        composite("delete-on-no-links", 0x2C, termini.DeleteOnNoLinks, LIFETIME),
        composite("delete-on-no-messages", 0x2D, termini.DeleteOnNoMessages, LIFETIME),
        composite(
            "delete-on-no-links-or-messages", 0x2E, termini.DeleteOnNoLinksOrMessages, LIFETIME
        ),
        composite("coordinator", 0x30, termini.Coordinator, TARGET),
        composite("declare", 0x31, termini.Declare, _BODY),
        composite("discharge", 0x32, termini.Discharge, _BODY),
        composite("declared", 0x33, termini.Declared, STATE, OUTCOME),
        composite("transactional-state", 0x34, termini.TransactionalState, STATE),
    )
)
