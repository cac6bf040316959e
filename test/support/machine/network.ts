// The network of a test: a TCP relay that misbehaves on demand, a DNS server, a certificate, ports, an HTTP server that
// misbehaves.

import { execFileSync } from "node:child_process";
import { randomInt } from "node:crypto";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer as createHttpServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, connect, createServer, type Server as NetServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { notFound } from "../../../src/wire/record.ts";

export interface TcpProxy {
  readonly port: number;
  /** Connections accepted so far. */
  accepted(): number;
  /** Lines that are open now. */
  open(): number;
  /** Resets every open line; new ones still work. */
  cut(): void;
  /** Bytes of present and new lines vanish in both directions without any sign, until `resume`. */
  swallow(): void;
  /** Bytes of present lines wait in both directions, until `release`. */
  hold(): void;
  release(): void;
  /** New connections are reset at once, until `resume`. */
  refuse(): void;
  /** Back to relaying. Lines from which bytes were swallowed stay silent: their bytes are gone. */
  resume(): void;
  /** May change bytes on their way from the server to the client. */
  rewrite(change: ((data: Buffer) => Buffer) | null): void;
  close(): Promise<void>;
}

/** Relays 127.0.0.1:<port> to 127.0.0.1:`target`. */
export async function startTcpProxy(target: number): Promise<TcpProxy> {
  const lines = new Set<{ readonly client: Socket; readonly server: Socket; lost: boolean }>();
  let mode: "relay" | "swallow" | "refuse" = "relay";
  let change: ((data: Buffer) => Buffer) | null = null;
  let accepted = 0;

  const listener = createServer({ allowHalfOpen: false }, (client) => {
    accepted += 1;
    client.on("error", () => {});
    if (mode === "refuse") return void client.resetAndDestroy();
    const server = connect(target, "127.0.0.1");
    server.on("error", () => client.resetAndDestroy());
    const line = { client, server, lost: false };
    lines.add(line);
    const relay = (from: Socket, to: Socket, alter: boolean) => {
      from.on("data", (data) => {
        if (mode === "swallow") line.lost = true;
        if (!line.lost) to.write(alter && change ? change(data) : data);
      });
      from.on("close", () => {
        // The client of a lost line does not hear of its end; it can still be cut.
        if (line.lost && from === server) return;
        lines.delete(line);
        if (!line.lost) to.destroySoon();
      });
    };
    relay(client, server, false);
    relay(server, client, true);
  });
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));

  const cut = () => {
    for (const { client, server } of lines) {
      client.resetAndDestroy();
      server.destroy();
    }
    lines.clear();
  };
  const ends = () => [...lines].flatMap(({ client, server }) => [client, server]);
  return {
    port: (listener.address() as AddressInfo).port,
    hold: () => ends().forEach((end) => end.pause()),
    release: () => ends().forEach((end) => end.resume()),
    accepted: () => accepted,
    open: () => lines.size,
    cut,
    swallow: () => void (mode = "swallow"),
    refuse: () => void (mode = "refuse"),
    resume: () => void (mode = "relay"),
    rewrite: (alter) => void (change = alter),
    close: async () => {
      cut();
      await new Promise((resolve) => listener.close(resolve));
    },
  };
}

// A DNS server on loopback that answers TXT queries from a table (RFC 1035).

/** Returns its address for `sender_auth.dns`. A name that is not in the table does not exist. */
export async function startDns(records: Readonly<Record<string, readonly string[]>>): Promise<string> {
  const server = createSocket("udp4");
  server.on("message", (query, from) => server.send(answerTo(query, records), from.port, from.address));
  server.bind(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return `127.0.0.1:${server.address().port}`;
}

function answerTo(query: Buffer, records: Readonly<Record<string, readonly string[]>>): Buffer {
  const labels: string[] = [];
  let at = 12;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString("latin1", at + 1, at + 1 + length));
    at += length + 1;
  }
  const question = query.subarray(12, at + 5);
  const texts = records[labels.join(".").toLowerCase()] ?? [];
  const header = Buffer.alloc(12);
  query.copy(header, 0, 0, 2);
  header.writeUInt16BE(texts.length > 0 ? 0x8180 : 0x8183, 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(texts.length, 6);
  const answers = texts.map((text) => {
    const bytes = Buffer.from(text);
    const record = Buffer.alloc(12);
    record.writeUInt16BE(0xc00c, 0);
    record.writeUInt16BE(16, 2);
    record.writeUInt16BE(1, 4);
    record.writeUInt32BE(60, 6);
    record.writeUInt16BE(bytes.length + 1, 10);
    return Buffer.concat([record, Buffer.from([bytes.length]), bytes]);
  });
  return Buffer.concat([header, question, ...answers]);
}

// A self-made certificate for 127.0.0.1, made once per process by the openssl command.

/** PEM texts; `cert` is its own CA. */
export interface Certificate {
  readonly key: string;
  readonly cert: string;
}

const made = new Map<number, Certificate>();

/** Valid for `days`; a negative number gives one that has expired. Needs the Debian package `openssl`. */
export function certificate(days = 2): Certificate {
  const known = made.get(days);
  if (known !== undefined) return known;
  const dir = mkdtempSync(join(tmpdir(), "bridgehead-cert-"));
  const [key, cert, request] = [join(dir, "key.pem"), join(dir, "cert.pem"), join(dir, "request.pem")];
  const names = join(dir, "names.cnf");
  writeFileSync(names, "subjectAltName=DNS:localhost,IP:127.0.0.1\n");
  const openssl = (...args: string[]) => execFileSync("openssl", args, { stdio: "ignore" });
  const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  openssl("req", ...curve, "-subj", "/CN=localhost", "-keyout", key, "-out", request);
  // `req -x509` would refuse a validity that has ended.
  const signed = ["-signkey", key, "-days", String(days), "-extfile", names, "-out", cert];
  openssl("x509", "-req", "-in", request, ...signed);
  const pair = { key: readFileSync(key, "utf8"), cert: readFileSync(cert, "utf8") };
  made.set(days, pair);
  rmSync(dir, { recursive: true });
  return pair;
}

// Ports for servers that cannot bind to port 0 or that stop and start again, and waiting for a listener.

// Below the ephemeral ports of the system: a server that stops for a while finds its port free again.
const [lowest, highest, each] = [10_000, 32_500, 250];
let first: Promise<number> | undefined;
let dealt = randomInt(each);

/** A port of 127.0.0.1 without a listener, which is not assigned again. */
export async function freePort(): Promise<number> {
  const start = await (first ??= claimedRange());
  dealt = dealt >= each - 1 ? 1 : dealt + 1;
  const port = start + dealt; // others ask meanwhile
  return (await opened(port))?.close() ? port : freePort();
}

/** Returns the first port of a range that this process alone uses, also when several runs share the machine. The process
 *  listens at that port until it ends, however it dies. */
async function claimedRange(): Promise<number> {
  const ranges = Math.floor((highest - lowest) / each);
  const from = randomInt(ranges);
  for (let n = 0; n < ranges; n++) {
    const start = lowest + ((from + n) % ranges) * each;
    const guard = await opened(start);
    if (guard === null) continue;
    guard.unref();
    return start;
  }
  throw new Error("all ranges of ports are in use");
}

/** Listens at the port; null when it is in use. */
function opened(port: number): Promise<NetServer | null> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(null));
    server.listen(port, "127.0.0.1", () => resolve(server));
  });
}

/** Resolves when the port accepts connections; rejects after `withinMs` or when `failed` says why it never will. */
export async function listening(port: number, withinMs: number, failed: () => string | null): Promise<void> {
  for (const end = Date.now() + withinMs; ; ) {
    if (await accepts(port)) return;
    const reason = failed();
    if (reason !== null) throw new Error(reason);
    if (Date.now() > end) throw new Error(`nothing listens on port ${port} after ${withinMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}

// A scripted HTTP server: each request takes the next fault; the last one repeats.

interface Received {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}
export type Fault = (request: Received, response: ServerResponse, socket: Socket) => void;

export interface FaultServer {
  readonly url: string;
  readonly received: Received[];
  /** How many connections were made so far. */
  connections(): number;
  script(...faults: readonly Fault[]): void;
  close(): Promise<void>;
}

export async function startFaultServer(): Promise<FaultServer> {
  let faults: Fault[] = [];
  const received: Received[] = [];
  const server = bodyServer((body, response, request) => {
    const { method = "", url = "", headers } = request;
    const got = { method, path: url, headers, body };
    received.push(got);
    const fault = faults.length > 1 ? faults.shift() : faults[0];
    (fault ?? status(500))(got, response, request.socket);
  });
  let connections = 0;
  server.on("connection", () => connections++);
  const url = await listen(server);
  return {
    url,
    received,
    connections: () => connections,
    script: (...next) => {
      faults = [...next];
    },
    close: () => closeServer(server),
  };
}

/** An HTTP server whose listener gets the body of each request. */
export const bodyServer = (
  listener: (body: string, response: ServerResponse, request: IncomingMessage) => void,
): Server =>
  createHttpServer((request, response) => {
    let body = "";
    request.setEncoding("utf8");
    request.on("data", (chunk: string) => (body += chunk));
    request.on("end", () => listener(body, response, request));
  });

/** Listens on a free port of 127.0.0.1. Returns the URL of an HTTP server. */
export async function listen(server: NetServer): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Listens until the end of the test. `finished` registers that end: `onTestFinished` of the test, or `afterAll`. */
export async function serve(
  server: Server,
  finished: (close: () => Promise<void>) => void = onTestFinished,
): Promise<string> {
  const url = await listen(server);
  finished(() => closeServer(server));
  return url;
}

export async function closeServer(server: Server): Promise<void> {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
}

/** A JSON answer. */
export const json =
  (body: unknown, code = 200, headers: { [name: string]: string } = {}): Fault =>
  (_request, response) => {
    response.writeHead(code, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
  };

export const status = (code: number, headers: { [name: string]: string } = {}) =>
  json({ status: code, name: "SOME_ERROR", message: "SOME_MESSAGE", details: [] }, code, headers);

/** 404 in the interface's own form. */
export const entityNotFound: Fault = json(notFound, 404);

export const text =
  (body: string, type = "text/html", code = 200): Fault =>
  (_request, response) => {
    response.writeHead(code, { "content-type": type }).end(body);
  };

/** Never answers. */
export const hang: Fault = () => {};

/** Cuts the line with a reset after the whole request was read. */
export const reset: Fault = (_request, _response, socket) => {
  socket.resetAndDestroy();
};

/** Announces more than it sends, then cuts the line. */
export const truncated =
  (body: string, code = 200): Fault =>
  (_request, response, socket) => {
    response.writeHead(code, { "content-type": "application/json", "content-length": body.length + 100 });
    response.write(body, () => socket.destroy());
  };
