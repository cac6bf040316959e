// The server of the line protocol, and the harness that shows it to the conformance suite.

import { randomInt } from "node:crypto";
import { once } from "node:events";
import net from "node:net";
import { createInterface } from "node:readline";
import type { Fault, Harness, Peer } from "bridgehead/contract/testing";

interface Request {
  readonly op: string;
  readonly token?: string;
  readonly after?: number;
  readonly seq?: number;
  readonly key?: string;
  readonly text?: string;
  readonly files?: readonly { readonly name: string; readonly base64: string }[];
}

export const lineHarness: Harness = {
  start: startLinePeer,
  lacks: {
    capacity: "every send opens a connection of its own",
    http: "the protocol has no web side",
    socket: "the protocol has no web side",
  },
  quietMs: 150,
};

/** A server on a free port with the right token "open sesame". */
async function startLinePeer(): Promise<Peer> {
  const inbox: { readonly seq: number; readonly text: string; readonly at: number }[] = [];
  const acked = new Set<number>();
  const outbox: Required<Pick<Request, "key" | "text" | "files">>[] = [];
  const open = new Set<net.Socket>();
  const readers = new Set<() => void>();
  let fault: Fault | "none" = "none";
  // "refuse-connection" gives the port up for a while and must get it back.
  const port = await choosePort();

  const take = (request: Request, socket: net.Socket, answer: (line: object) => void) => {
    if (fault === "refuse-message") return answer({ op: "never" });
    if (fault === "later") return answer({ op: "later", ms: 1500 });
    outbox.push({ key: request.key ?? "", text: request.text ?? "", files: request.files ?? [] });
    if (fault === "cut-after") return socket.destroy();
    if (fault === "server-error") return answer({ op: "broken" });
    if (fault !== "hang-after") answer({ op: "taken", id: `m${outbox.length}` });
  };
  const serve = (socket: net.Socket) => {
    open.add(socket);
    socket.on("error", () => undefined);
    if (fault === "cut-before") socket.destroy();
    const answer = (line: object) => void socket.write(`${JSON.stringify(line)}\n`);
    let known = false;
    let position = Number.POSITIVE_INFINITY;
    const feed = () => {
      for (const { seq, text, at } of inbox.filter((one) => one.seq > position)) {
        answer({ op: "message", seq, from: "ann", text, at });
        position = seq;
      }
    };
    readers.add(feed);
    socket.on("close", () => {
      open.delete(socket);
      readers.delete(feed);
    });
    const lines = createInterface({ input: socket });
    lines.on("error", () => undefined); // the socket's, once more
    lines.on("line", (line) => {
      if (fault === "hang-before") return;
      // Another client, whose server had this port before.
      if (!line.startsWith("{")) return void socket.destroy();
      const request = JSON.parse(line) as Request;
      if (request.op === "login") known = request.token === "open sesame";
      if (request.op === "login" || !known) return answer({ op: known ? "welcome" : "denied" });
      if (request.op === "send") return take(request, socket, answer);
      if (request.op === "ack") acked.add(request.seq ?? 0);
      if (request.op === "look") {
        const at = outbox.findIndex((one) => one.key === request.key);
        answer(at < 0 ? { op: "missing" } : { op: "found", id: `m${at + 1}` });
      }
      if (request.op === "read") {
        position = request.after ?? 0;
        feed();
      }
    });
  };

  let server = net.createServer(serve);
  const listen = async () => {
    server = net.createServer(serve).listen(port, "127.0.0.1");
    await once(server, "listening");
  };
  const close = async () => {
    const closed = new Promise((resolve) => server.close(resolve));
    for (const socket of open) socket.destroy();
    await closed;
  };
  await listen();

  return {
    config: (credentials) => ({
      server: { host: "127.0.0.1", port },
      token: credentials === "right" ? "open sesame" : "open barley",
    }),
    async fault(next) {
      if (next === "refuse-connection") await close();
      else if (fault === "refuse-connection") await listen();
      fault = next;
    },
    stop: close,
    async say(text) {
      inbox.push({ seq: inbox.length + 1, text, at: Date.now() });
      for (const feed of readers) feed();
    },
    acknowledged: () => inbox.filter((one) => acked.has(one.seq)).map((one) => one.text),
    laterMs: 1500,
    reply: { to: [{ address: "ann" }] },
    delivered: () => outbox.map((one) => one.text),
    files: (text) =>
      outbox
        .filter((one) => one.text.includes(text))
        .flatMap(({ key }) => outbox.filter((part) => part.key.startsWith(key)))
        .flatMap(({ files }) => files)
        .map(({ name, base64 }) => ({ name, bytes: Buffer.from(base64, "base64") })),
  };
}

// Ports below the ephemeral range, each used once: no other process takes one while its server is stopped.
const [lowest, many] = [3000, 7000];
let dealt = randomInt(many);

/** Returns an unused port of 127.0.0.1. */
async function choosePort(): Promise<number> {
  dealt = (dealt + 1) % many;
  const port = lowest + dealt; // others ask meanwhile
  const server = net.createServer();
  const isFree = new Promise<boolean>((resolve) => {
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
  return (await isFree) ? port : choosePort();
}
