// A shop: `orders.cjs send` sends five orders, `orders.cjs work` charges for them, with stompjs.
//
// An order that could not be charged is given back with the reason, and comes again later. With
// `orders.cjs work guests` orders without a customer can be charged, too. The port is the last word.
//
//     npm install @stomp/stompjs ws
//     node docs/examples/orders.cjs send

const { Client } = require("@stomp/stompjs");
const { WebSocket } = require("ws");

const CUSTOMERS = ["ada", "bob", "cyd", null, "eve"];
const IDLE_MS = 6000;

const words = process.argv.slice(2);
const port = /^\d+$/.test(words.at(-1)) ? words.pop() : "61613";

// Why an order cannot be charged, "" if it was.
function charge(order, attempt) {
  if (order.customer === null && !words.includes("guests")) {
    return "no customer";
  }
  if (order.number === 3 && attempt === 1) {
    return "the bank does not answer";
  }
  return "";
}

// Send the orders; the receipt says that an order is on the broker's disk.
async function send() {
  for (const [index, customer] of CUSTOMERS.entries()) {
    const order = { number: index + 1, customer };
    const receipt = `order ${order.number}`;
    const safe = new Promise((resolve) => client.watchForReceipt(receipt, resolve));
    const headers = { order: String(order.number), receipt };
    client.publish({ destination: "/queue/orders", headers, body: JSON.stringify(order) });
    await safe;
    console.log(`${receipt} is safe`);
  }
  client.deactivate();
}

// Charge for orders until none came for a while.
function work() {
  const idle = setTimeout(() => client.deactivate(), IDLE_MS);
  const settle = (message) => {
    idle.refresh();
    const order = JSON.parse(message.body);
    const attempt = Number(message.headers["delivery-count"] ?? 1);
    const error = charge(order, attempt);
    if (error) {
      message.nack({ error });
    } else {
      message.ack();
    }
    console.log(`order ${order.number}, attempt ${attempt}: ${error || "charged"}`);
  };
  client.subscribe("/queue/orders", settle, { ack: "client-individual" });
}

const client = new Client({
  webSocketFactory: () => new WebSocket(`ws://127.0.0.1:${port}/`, ["v12.stomp"]),
  connectHeaders: { login: "guest", passcode: "guest" },
  onConnect: words[0] === "send" ? send : work,
  onStompError: (frame) => console.error(frame.headers.message),
});
client.activate();
