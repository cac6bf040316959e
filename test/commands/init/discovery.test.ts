// Discovery of mail servers against a name server and a web server on loopback.

import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer } from "node:http";
import { describe, expect, it, onTestFinished } from "vitest";
import {
  discover,
  type Lookup,
  readAutoconfig,
  readServer,
  systemLookup,
} from "../../../src/commands/init/discovery.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import { serve } from "../../support/machine/network.ts";

interface Records {
  readonly [name: string]:
    | { readonly type: "SRV"; readonly port: number; readonly target: string; readonly priority?: number }[]
    | { readonly type: "MX"; readonly target: string }[];
}

const labels = (name: string): Buffer =>
  Buffer.concat([
    ...name
      .split(".")
      .filter(Boolean)
      .map((label) => Buffer.from([label.length, ...Buffer.from(label)])),
    Buffer.from([0]),
  ]);

/** Answers SRV and MX questions (RFC 1035). Returns its address for `setServers`. */
async function startNameServer(records: Records): Promise<string> {
  const socket = createSocket("udp4");
  socket.on("message", (query, from) => {
    let at = 12;
    const name: string[] = [];
    for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
      name.push(query.subarray(at + 1, at + 1 + length).toString());
      at += 1 + length;
    }
    const wanted = query.readUInt16BE(at + 1);
    const found = (records[name.join(".").toLowerCase()] ?? []).filter(
      ({ type }) => (type === "SRV" ? 33 : 15) === wanted,
    );
    const answers = found.map((record) => {
      const target = labels(record.target);
      const data = Buffer.alloc(record.type === "SRV" ? 6 : 2);
      if (record.type === "SRV") {
        data.writeUInt16BE(record.priority ?? 0, 0);
        data.writeUInt16BE(record.port, 4);
      }
      const head = Buffer.from([0xc0, 12, 0, wanted, 0, 1, 0, 0, 0, 60, 0, data.length + target.length]);
      return Buffer.concat([head, data, target]);
    });
    const header = Buffer.from(query.subarray(0, 12));
    header.writeUInt16BE(answers.length > 0 ? 0x8180 : 0x8183, 2);
    header.writeUInt16BE(answers.length, 6);
    header.writeUInt32BE(0, 8);
    socket.send(Buffer.concat([header, query.subarray(12, at + 5), ...answers]), from.port, from.address);
  });
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  onTestFinished(() => void socket.close());
  return `127.0.0.1:${socket.address().port}`;
}

/** The lookup of the command, with a name server and a web server on loopback. The path of a page begins with its host. */
async function localLookup(records: Records, pages: Readonly<Record<string, string>> = {}): Promise<Lookup> {
  const dns = await startNameServer(records);
  const web = createServer((request, response) => {
    const page = pages[(request.url ?? "").split("?")[0] ?? ""];
    response.writeHead(page === undefined ? 404 : 200).end(page);
  });
  const base = await serve(web);
  const real = systemLookup({ signal: new AbortController().signal, timing: standardTiming }, [dns]);
  return { ...real, page: (url) => real.page(`${base}/${url.replace("https://", "")}`) };
}

const autoconfig = (socketType: string) => `<?xml version="1.0"?>
<clientConfig version="1.1"><emailProvider id="shop.test">
  <incomingServer type="pop3"><hostname>pop.shop.test</hostname><port>995</port><socketType>SSL</socketType></incomingServer>
  <incomingServer type="imap">
    <hostname>imap.shop.test</hostname><port>143</port><socketType>${socketType}</socketType>
  </incomingServer>
  <outgoingServer type="smtp"><hostname>smtp.shop.test</hostname><port>465</port><socketType>SSL</socketType></outgoingServer>
</emailProvider></clientConfig>`;

describe("discover", () => {
  it("knows the providers by the domain of the address, without a request", async () => {
    const never: Lookup = {
      srv: () => Promise.reject(new Error("asked")),
      mx: () => Promise.reject(new Error("asked")),
      page: () => Promise.reject(new Error("asked")),
    };
    expect(await discover("ann@GMAIL.com", never)).toMatchObject({
      imap: { host: "imap.gmail.com", port: 993, tls: "implicit" },
      provider: { appPasswords: "https://myaccount.google.com/apppasswords" },
    });
  });

  it("recognizes a provider by the MX records of a customer's domain", async () => {
    const lookup = await localLookup({
      "shop.test": [{ type: "MX", target: "shop-test.mail.protection.outlook.com" }],
    });
    expect(await discover("info@shop.test", lookup)).toMatchObject({
      imap: { host: "outlook.office365.com" },
      provider: { name: "Microsoft 365", oauth: "microsoft", passwords: false },
    });
  });

  it("reads SRV records, prefers implicit TLS and the lowest priority, and ignores the target of a missing service", async () => {
    const lookup = await localLookup({
      "_imaps._tcp.shop.test": [
        { type: "SRV", port: 993, target: "second.shop.test", priority: 20 },
        { type: "SRV", port: 994, target: "first.shop.test", priority: 10 },
      ],
      "_imap._tcp.shop.test": [{ type: "SRV", port: 143, target: "plain.shop.test" }],
      "_submissions._tcp.shop.test": [{ type: "SRV", port: 0, target: "" }],
      "_submission._tcp.shop.test": [{ type: "SRV", port: 587, target: "smtp.shop.test" }],
    });
    expect(await discover("info@shop.test", lookup)).toEqual({
      imap: { host: "first.shop.test", port: 994, tls: "implicit" },
      smtp: { host: "smtp.shop.test", port: 587, tls: "starttls" },
      source: "DNS SRV records of shop.test",
      provider: null,
    });
  });

  it("reads the autoconfiguration file when there are no records", async () => {
    const path = "/autoconfig.shop.test/mail/config-v1.1.xml";
    const lookup = await localLookup({}, { [path]: autoconfig("STARTTLS") });
    expect(await discover("info@shop.test", lookup)).toMatchObject({
      imap: { host: "imap.shop.test", port: 143, tls: "starttls" },
      smtp: { host: "smtp.shop.test", port: 465, tls: "implicit" },
      source: "the autoconfiguration file of shop.test",
    });
  });

  it("returns null when nothing names a server", async () => {
    expect(await discover("info@shop.test", await localLookup({}))).toBeNull();
  });
});

it("ignores servers without TLS, and names that are no host names, in an autoconfiguration file", () => {
  expect(readAutoconfig(autoconfig("plain"))).toBeNull();
  expect(readAutoconfig(autoconfig("SSL").replace("imap.shop.test", "a\u001b[2J b"))).toBeNull();
  expect(readAutoconfig("<incomingServer type='imap'>".repeat(20_000))).toBeNull();
});

it.each([
  ["imap.shop.test", { host: "imap.shop.test", port: 993, tls: "implicit" }],
  ["imap.shop.test:143", { host: "imap.shop.test", port: 143, tls: "starttls" }],
  ["[::1]:1143", { host: "::1", port: 1143, tls: null }],
  ["imap.shop.test:1143/starttls", { host: "imap.shop.test", port: 1143, tls: "starttls" }],
  ["imap.shop.test:993/none", null],
  ["imap.shop.test:70000", null],
  ["https://imap.shop.test", null],
  ["two words", null],
])("reads the server %s", (text, server) => {
  expect(readServer(text, "imap")).toEqual(server);
});
