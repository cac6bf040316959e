// A TCP relay that misbehaves on demand: it cuts, it swallows (a half-open line), it refuses.

import { execFileSync } from "node:child_process";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

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
  return {
    port: (listener.address() as AddressInfo).port,
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
