"""The tags of deliveries: the id of the message, and a proof that the broker gave it to this link.

A link that comes again says by its tags what it has done with its deliveries (part 2, 2.6.13). Ids
of messages can be guessed, and a link with an invented tag would settle deliveries of others. The
proof is a code from a key of the broker, which outlives restarts, and from all that makes a link
the same one: the user, the container, its name and its address. So the broker remembers nothing of
links that are gone. Must never know which messages exist.
"""

import hmac
from hashlib import blake2b
from typing import Any, Final

ID_BYTES: Final = 8
PROOF_BYTES: Final = 8
TAG_BYTES: Final = ID_BYTES + PROOF_BYTES
_SHIFT: Final = 3
_BLOCK: Final = (1 << _SHIFT) - 1
"""Proofs of 8 ids that follow each other are made at once: all that one digest has room for. More
would be cheaper for a long queue, but the ids of messages to many queues are far apart."""
_PROOFS_BYTES: Final = PROOF_BYTES << _SHIFT


class Tags:
    """The tags of the deliveries of a link. `identity` are the texts that make it the same one.

    Without a secret no tag is known again.
    """

    __slots__ = ("_block", "_is_secret", "_keyed", "_proofs")

    def __init__(self, secret: bytes, *identity: str) -> None:
        found = blake2b(key=secret, digest_size=32)
        for text in identity:
            data = text.encode("utf-8", "surrogatepass")
            found.update(len(data).to_bytes(8, "big") + data)
        self._is_secret: Final = bool(secret)
        self._keyed: Final = blake2b(key=found.digest(), digest_size=_PROOFS_BYTES)
        self._block = -1
        self._proofs = b""

    def proof(self, message: int) -> bytes:
        """Return the proof for a message."""
        block = message >> _SHIFT
        if block != self._block:
            self._block = block
            digest = self._keyed.copy()
            digest.update(block.to_bytes(8, "big"))
            self._proofs = digest.digest()
        at = (message & _BLOCK) * PROOF_BYTES
        return self._proofs[at : at + PROOF_BYTES]

    def tag(self, message: int) -> bytes:
        """Return the tag of a delivery of a message."""
        return message.to_bytes(ID_BYTES, "big") + self.proof(message)

    def message(self, tag: Any) -> int:
        """Return the message of a tag that this link was given; 0 if it was not."""
        if not (self._is_secret and isinstance(tag, bytes) and len(tag) == TAG_BYTES):
            return 0
        message = int.from_bytes(tag[:ID_BYTES], "big")
        return message if hmac.compare_digest(tag[ID_BYTES:], self.proof(message)) else 0
