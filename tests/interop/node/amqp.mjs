// A client of AMQP 1.0 over WebSocket with rhea: sends one message and prints what comes back.
//   node amqp.mjs ws://HOST:PORT QUEUE BODY
import rhea from "rhea";
import WebSocket from "ws";

const [url, queue, body] = process.argv.slice(2);
const container = rhea.create_container();
const details = container.websocket_connect(WebSocket)(url, ["amqp"], {});

container.on("connection_open", ({ connection }) => {
  connection.open_receiver(queue);
  connection.open_sender(queue);
});
container.once("sendable", ({ sender }) => sender.send({ body, durable: true }));
container.on("message", ({ message, connection }) => {
  console.log(message.body);
  connection.close();
});
for (const event of ["connection_error", "disconnected", "receiver_error", "sender_error"]) {
  container.on(event, (context) => {
    console.error(event, String(context.error ?? context.connection.error ?? ""));
    process.exit(1);
  });
}
container.connect({ connection_details: details, reconnect: false, username: "anonymous" });
