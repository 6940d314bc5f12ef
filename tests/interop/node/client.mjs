// Sends and receives with @stomp/stompjs over WebSocket; prints what happened as one line of JSON.
// Arguments: the URL of the broker, "text" or "binary", how many messages.
import { Client } from "@stomp/stompjs";
import { WebSocket } from "ws";

const [url, kind, count] = process.argv.slice(2);
const seen = { bodies: [], receipts: 0, errors: [], close: 0, subprotocol: "" };
const queue = `/queue/node.${kind}`;

const client = new Client({
  webSocketFactory: () => new WebSocket(url, ["v12.stomp", "v11.stomp", "v10.stomp"]),
  forceBinaryWSFrames: kind === "binary",
  splitLargeFrames: true,
  reconnectDelay: 0,
  heartbeatIncoming: 1000,
  heartbeatOutgoing: 1000,
});

client.onConnect = () => {
  seen.subprotocol = client.webSocket.protocol;
  client.subscribe(queue, (message) => {
    seen.bodies.push(message.body.length > 100 ? message.body.length : message.body);
    message.ack();
    if (seen.bodies.length === Number(count) + 1) {
      client.publish({ destination: queue, headers: { receipt: "last" }, body: "ignored" });
    }
  }, { ack: "client-individual" });
  client.watchForReceipt("last", () => {
    seen.receipts += 1;
    // Nothing is said for longer than the heart-beats: both sides must keep the connection.
    setTimeout(() => client.commit("no-such-transaction"), 3500);
  });
  for (let number = 0; number < Number(count); number += 1) {
    client.publish({ destination: queue, body: `Grüße ${number}` });
  }
  client.publish({ destination: queue, body: "x".repeat(200_000) });
};
client.onStompError = (frame) => seen.errors.push(frame.headers.message);
client.onWebSocketClose = (event) => {
  seen.close = event.code;
  console.log(JSON.stringify(seen));
  process.exit(0);
};
client.onWebSocketError = (event) => seen.errors.push(String(event.message));
client.activate();
setTimeout(() => process.exit(2), 60_000).unref();
