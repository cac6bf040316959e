// The contract's own suite over this adapter, with the sandbox's Twilio as its peer: behind TLS and a relay, so that the
// line can break before a request has left.

import { createHash } from "node:crypto";
import { connect, type Socket } from "node:net";
import { createServer } from "node:tls";
import type { RoutePath } from "bridgehead/contract";
import { describeAdapter, type Fault, type Harness, type Peer, type RequestSample } from "bridgehead/contract/testing";
import sms from "../../../../adapters/sms/index.ts";
import { describeReal, need } from "../../../support/machine/debian.ts";
import { certificate, listen, startTcpProxy } from "../../../support/machine/network.ts";
import { person, settings, signed, startApi, statusForm, textForm } from "../../../support/sms/providers.ts";

/** Ends TLS in front of a server on 127.0.0.1. */
async function startTls(target: number) {
  const { key, cert } = certificate();
  const lines = new Set<Socket>();
  const server = createServer({ key, cert }, (line) => {
    const inner = connect(target, "127.0.0.1");
    line.on("error", () => inner.destroy());
    inner.on("error", () => line.destroy());
    inner.on("close", () => line.destroy());
    line.pipe(inner).pipe(line);
  });
  server.on("connection", (line: Socket) => lines.add(line.once("close", () => lines.delete(line))));
  server.on("tlsClientError", () => {});
  await listen(server);
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("not listening");
  const close = async () => {
    const closed = new Promise((done) => server.close(done));
    for (const line of lines) line.destroy();
    await closed;
  };
  return { port: address.port, ca: cert, close };
}

async function start(): Promise<Peer> {
  const api = await startApi();
  const tls = await startTls(Number(new URL(api.url).port));
  const line = await startTcpProxy(tls.port);
  const faults: Record<Fault | "none", () => void> = {
    none: () => {},
    "refuse-connection": () => line.refuse(),
    "refuse-message": () => api.fault({ code: 21614 }),
    later: () => api.fault({ code: 20429, status: 429, retryAfter: 1 }),
    "cut-before": () => line.refuse(),
    "cut-after": () => api.fault("cut-stored"),
    "hang-before": () => line.swallow(),
    "hang-after": () => api.fault("hang-stored"),
    "server-error": () => api.fault({ status: 502 }),
  };
  return {
    config: (credentials) =>
      settings(`https://127.0.0.1:${line.port}`, {
        ca: tls.ca,
        ...(credentials === "right" ? {} : { auth_tokens: ["wrong"] }),
      }),
    fault(fault) {
      api.heal();
      line.resume();
      if (fault !== "none") line.cut();
      faults[fault]();
    },
    async stop() {
      await line.close();
      await tls.close();
      await api.close();
    },
    say: async (text) => void (await api.receive({ from: person, body: text, webhook: false })),
    reply: { to: [{ address: person }] },
    laterMs: 1000,
    delivered: () => api.sent.map(({ body }) => body),
    requests: (url) =>
      (["/inbound", "/inbound-fallback", "/status"] as const).map((path) =>
        sample(url, path, (text) => api.inbound.find(({ body }) => body === text)?.sid),
      ),
  };
}

/** `sidOf`: the id of a text that the API lists. */
function sample(
  url: (path: RoutePath) => URL,
  path: RoutePath,
  sidOf: (text: string) => string | undefined,
): RequestSample {
  const form = (text: string) => {
    const sid = sidOf(text) ?? `SM${createHash("md5").update(text).digest("hex")}`;
    return path === "/status" ? statusForm(sid, "delivered") : textForm(sid, text);
  };
  return {
    path,
    accepts: true,
    good: (text) => signed(url(path), form(text)),
    forged: (text) => signed(url(path), form(text), { key: "another key" }),
  };
}

const harness: Harness = {
  start,
  lacks: {
    attachments: "texts carry no files of ours",
    acknowledge: "the answer to a webhook is the acknowledgement; the list of messages knows none",
    socket: "texts come as posts",
  },
  quietMs: 300,
};

const missing = await need("openssl", "/usr/bin/openssl");
describeReal("the contract", missing, () => describeAdapter(sms, harness));
