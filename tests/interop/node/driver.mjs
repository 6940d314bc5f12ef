// One STOMP client of a library from npm, driven by lines of JSON: what to do comes in, what the
// broker said goes out. Arguments: the library, and its options as JSON.
import { createInterface } from "node:readline";
import { readFileSync } from "node:fs";
import { Client, Versions } from "@stomp/stompjs";
import stompit from "stompit";
import { WebSocket } from "ws";

const [library, given] = process.argv.slice(2);
const options = JSON.parse(given);
const tell = (command, headers = {}, body = Buffer.alloc(0), handle = 0) =>
  process.stdout.write(
    JSON.stringify({ command, headers, body: Buffer.from(body).toString("base64"), handle }) + "\n",
  );
const ca = options.ca ? readFileSync(options.ca) : undefined;
const messages = [];
const kept = (message) => messages.push(message) - 1;

// @stomp/stompjs over WebSocket.
function stompjs() {
  const scheme = ca ? "wss" : "ws";
  const client = new Client({
    webSocketFactory: () =>
      new WebSocket(`${scheme}://localhost:${options.port}/`, ["v12.stomp", "v11.stomp", "v10.stomp"], { ca }),
    stompVersions: new Versions([options.version]),
    connectHeaders: { login: options.login, passcode: options.passcode },
    forceBinaryWSFrames: true,
    reconnectDelay: options.reconnect ? 200 : 0,
    heartbeatIncoming: options.beat,
    heartbeatOutgoing: options.beat,
  });
  const subscriptions = {};
  const subscribe = ({ destination, ...headers }) => {
    subscriptions[headers.id] = client.subscribe(
      destination,
      (message) => tell("MESSAGE", message.headers, message.binaryBody, kept(message)),
      headers,
    );
  };
  const again = [];
  client.onConnect = (frame) => {
    tell("CONNECTED", frame.headers);
    again.forEach(subscribe);
  };
  client.onUnhandledReceipt = (frame) => tell("RECEIPT", frame.headers);
  client.onUnhandledMessage = (message) => tell("MESSAGE", message.headers, message.binaryBody, kept(message));
  client.onStompError = (frame) => tell("ERROR", frame.headers, frame.binaryBody);
  client.onWebSocketClose = () => tell("CLOSED");
  client.activate();
  // The library sends no headers with these, so they are written as it would write them.
  const transact = (command) => (headers) => client._stompHandler._transmit({ command, headers });
  return {
    send: ({ destination, ...headers }, body) => client.publish({ destination, headers, binaryBody: body }),
    subscribe: (headers) => {
      if (options.reconnect) again.push(headers);
      subscribe(headers);
    },
    unsubscribe: (headers) => subscriptions[headers.id].unsubscribe(headers),
    ack: (headers, _, handle) => messages[handle].ack(headers),
    nack: (headers, _, handle) => messages[handle].nack(headers),
    begin: transact("BEGIN"),
    commit: transact("COMMIT"),
    abort: transact("ABORT"),
    disconnect: () => client.deactivate(),
  };
}

// stompit over TCP.
function overTcp() {
  let client;
  const subscriptions = {};
  const failed = (error) =>
    tell(error.isApplicationError?.() ? "ERROR" : "CLOSED", { message: error.message }, error.longMessage ?? "");
  // It destroys the ERROR frame that it reads, which nobody can listen to.
  process.on("uncaughtException", failed);
  stompit.connect(
    {
      host: "localhost",
      port: options.port,
      ssl: ca !== undefined,
      ca,
      connectHeaders: {
        host: "localhost",
        login: options.login,
        passcode: options.passcode,
        "accept-version": options.version,
        "heart-beat": `${options.beat},${options.beat}`,
      },
    },
    (error, connected) => {
      if (error) return failed(error);
      client = connected;
      client.on("error", failed);
      tell("CONNECTED", client.headers);
    },
  );
  const frame = (command) => (headers, body) => {
    const receipt = headers.receipt;
    const wanted = receipt && { onReceipt: () => tell("RECEIPT", { "receipt-id": receipt }) };
    const out = client.sendFrame(command, { ...headers }, wanted);
    out.end(body?.length ? body : undefined);
  };
  return {
    send: (headers, body) => frame("SEND")({ ...headers, "content-length": body.length }, body),
    subscribe: (headers) => {
      const { receipt, ...rest } = headers;
      subscriptions[rest.id] = client.subscribe(rest, (error, message) => {
        if (error) return;
        const parts = [];
        message.on("data", (part) => parts.push(part));
        message.on("end", () => tell("MESSAGE", message.headers, Buffer.concat(parts), kept(message)));
      });
      // The library asks for no receipt of a SUBSCRIBE; that of an empty transaction comes after it.
      if (receipt) {
        frame("BEGIN")({ transaction: "subscribed" });
        frame("ABORT")({ transaction: "subscribed", receipt });
      }
    },
    unsubscribe: (headers) => subscriptions[headers.id].unsubscribe(headers),
    ack: (headers, _, handle) => client.ack(messages[handle], headers),
    nack: (headers, _, handle) => client.nack(messages[handle], headers),
    begin: frame("BEGIN"),
    commit: frame("COMMIT"),
    abort: frame("ABORT"),
    disconnect: () => client.disconnect(() => tell("CLOSED")),
  };
}

const acts = { stompjs, stompit: overTcp }[library]();
createInterface({ input: process.stdin })
  .on("line", (line) => {
    const { act, headers, body, handle } = JSON.parse(line);
    acts[act](headers, Buffer.from(body, "base64"), handle);
  })
  .on("close", () => process.exit(0));
