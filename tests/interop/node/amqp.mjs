// A client of AMQP 1.0 over WebSocket with rhea: sends a text, and prints the length of what comes.
//   node amqp.mjs ws://HOST:PORT QUEUE LENGTH
import rhea from "rhea";
import WebSocket from "ws";

const [url, queue, length] = process.argv.slice(2);
const body = "x".repeat(Number(length));
const container = rhea.create_container();
const details = container.websocket_connect(WebSocket)(url, ["amqp"], {});

container.on("connection_open", ({ connection }) => {
  connection.open_receiver(queue);
  connection.open_sender(queue);
});
container.once("sendable", ({ sender }) => sender.send({ body, durable: true }));
container.on("message", ({ message, connection }) => {
  console.log(`${message.body === body ? body.length : "other"} bytes`);
  connection.close();
});
for (const event of ["connection_error", "disconnected", "receiver_error", "sender_error"]) {
  container.on(event, (context) => {
    console.error(event, String(context.error ?? context.connection.error ?? ""));
    process.exit(1);
  });
}
container.connect({ connection_details: details, reconnect: false, username: "anonymous" });
