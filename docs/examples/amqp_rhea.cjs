// Three orders through a queue over AMQP 1.0, with rhea.
//
//     npm install rhea
//     node docs/examples/amqp_rhea.cjs 127.0.0.1 5672 orders

const rhea = require("rhea");

const [host, port, address] = process.argv.slice(2);
const ORDERS = 3;
let sent = 0;
let accepted = 0;
let received = 0;

rhea.on("sendable", (context) => {
  while (context.sender.sendable() && sent < ORDERS) {
    sent += 1;
    context.sender.send({
      body: `order ${sent}`,
      durable: true,
      application_properties: { customer: "alice" },
    });
  }
});

// The broker has an order on its disk.
rhea.on("accepted", (context) => {
  accepted += 1;
  console.log(`accepted order ${accepted}`);
  if (accepted === ORDERS) {
    context.connection.open_receiver(address);
  }
});

rhea.on("rejected", (context) => {
  console.error("refused:", context.delivery.remote_state.error);
  process.exit(1);
});

// A message is accepted when its handler returns.
rhea.on("message", (context) => {
  received += 1;
  const { body, application_properties: properties } = context.message;
  console.log(`received ${body} of ${properties.customer}`);
  if (received === ORDERS) {
    context.connection.close();
  }
});

rhea.on("disconnected", (context) => console.error("disconnected", String(context.error ?? "")));

rhea
  .connect({ host, port: Number(port), username: "guest", password: "guest" })
  .open_sender(address);
