"""Sessions on the real engine, without a disk: the server's part in ten lines."""

from daybook.engine.broker import Broker
from daybook.engine.state.state import State
from daybook.protocols.port import Caller
from daybook.protocols.stomp.session import Session
from daybook.protocols.stomp.wire.options import StompOptions
from tests.unit.protocols.stomp.fakes import NOW


class Exchange:
    """A broker and the connections to it; all that is decided counts as durable at once."""

    def __init__(self, options: StompOptions | None = None) -> None:
        self.broker = Broker(State(), 1)
        self.options = options or StompOptions()

    def client(self, version: str | None = "1.2", client_id: str = "") -> "Client":
        return Client(self, version, client_id)


class Client:
    """A connected peer of an exchange. `gate` is what its last answer had to wait for."""

    def __init__(self, exchange: Exchange, version: str | None, client_id: str = "") -> None:
        self.exchange = exchange
        self.session = Session(exchange.broker, exchange.options, Caller("peer"), "daybook/0")
        self.gate = 0
        head = "" if version is None else f"accept-version:{version}\nhost:h\n"
        head += f"client-id:{client_id}\n" if client_id else ""
        self.session.receive(f"CONNECT\n{head}heart-beat:0,0\n\n\0".encode(), NOW)
        self.session.authenticated("user", "", NOW)
        self.session.admitted("", NOW)
        self.connected = self.read()

    def send(self, text: str, body: bytes = b"") -> list[bytes]:
        """Send a frame, let the broker deliver, and read the frames that come back."""
        return self.send_raw(text.encode() + b"\n\n" + body + b"\0")

    def send_raw(self, data: bytes) -> list[bytes]:
        self.session.gate = 0
        self.session.receive(data, NOW)
        return self.read()

    def read(self) -> list[bytes]:
        broker = self.exchange.broker
        broker.dispatch(NOW)
        for effect in broker.effects:
            if isinstance(effect, tuple):
                consumer, *delivery = effect
                consumer.receiver.deliver(*delivery)
            else:
                effect.hand_to(effect.consumer.receiver, NOW)
        broker.effects.clear()
        frames = b"".join(self.session.out).split(b"\0")
        self.session.out.clear()
        self.gate = self.session.gate
        assert self.gate <= broker.lsn
        return [frame for frame in frames if frame]
