// The contract's own suite over the adapter with provider telnyx.

import { createHash } from "node:crypto";
import type { Adapter, Channel, HttpRoute, RoutePath } from "bridgehead/contract";
import { describeAdapter, type Fault, type Harness, type Peer, type RequestSample } from "bridgehead/contract/testing";
import sms from "../../../adapters/sms/index.ts";
import { describeReal, need } from "../../support/machine/debian.ts";
import { apiKey, finalized, publicKey, received, startTelnyx, webhook } from "../../support/sms/providers.ts";

const idOf = (text: string) => createHash("md5").update(text).digest("hex");

async function start(): Promise<Peer> {
  const telnyx = await startTelnyx();
  const acknowledged: string[] = [];
  let door: { readonly route: HttpRoute; readonly url: URL } | null = null;
  const faults: Record<Fault | "none", () => void> = {
    none: () => telnyx.fault("none"),
    "refuse-connection": () => telnyx.line.refuse(),
    "refuse-message": () => telnyx.fault({ status: 422, body: { errors: [{ code: "40310", title: "Invalid" }] } }),
    later: () => telnyx.fault({ status: 429, body: { errors: [{ code: "10011" }] }, headers: { "retry-after": "1" } }),
    "cut-before": () => telnyx.line.refuse(),
    "cut-after": () => telnyx.fault("cut-taken"),
    "hang-before": () => telnyx.line.swallow(),
    "hang-after": () => telnyx.fault("hang-taken"),
    "server-error": () => telnyx.fault({ status: 502 }),
  };
  const post = async (body: string): Promise<number> => {
    if (door === null) return 503;
    const response = await door.route.handle(webhook(door.url, body)).catch(() => null);
    return response?.status ?? 503;
  };
  return {
    config: (credentials) => ({
      provider: "telnyx",
      number: "+15550100",
      api_url: telnyx.url,
      ca: telnyx.ca,
      telnyx: {
        api_key: credentials === "right" ? apiKey : "wrong",
        public_keys: [publicKey],
        check: "100ms",
      },
    }),
    fault(fault) {
      telnyx.line.resume();
      if (fault !== "none") telnyx.line.cut();
      faults[fault]();
    },
    stop: () => telnyx.close(),
    attach(adapter: Adapter, channel: Channel) {
      const route = adapter.routes?.find((one): one is HttpRoute => one.kind === "http" && one.path === "/inbound");
      if (route) door = { route, url: channel.url("/inbound") };
      return Promise.resolve();
    },
    say(text) {
      void telnyx.deliver(() => post(received(idOf(text), text))).then(() => acknowledged.push(text));
      return Promise.resolve();
    },
    acknowledged: () => acknowledged,
    reply: { to: [{ address: "+15550177" }] },
    laterMs: 1000,
    delivered: () => telnyx.posted.map(({ text }) => text),
    requests: (url) => (["/inbound", "/inbound-fallback", "/status"] as const).map((path) => sample(url, path)),
  };
}

function sample(url: (path: RoutePath) => URL, path: RoutePath): RequestSample {
  const body = (text: string) => (path === "/status" ? finalized(idOf(text), "delivered") : received(idOf(text), text));
  return {
    path,
    accepts: true,
    good: (text) => webhook(url(path), body(text)),
    forged: (text) => webhook(url(path), body(text), { at: 1_700_000_000 }),
  };
}

const harness: Harness = {
  start,
  lacks: {
    attachments: "texts carry no files of ours",
    backfill: "Telnyx has no list of what it posts",
    history: "Telnyx has no list of what it posts",
    reconcile: "Telnyx has no list of what was sent; webhooks carry our key",
    socket: "texts come as posts",
  },
};

const missing = await need("openssl", "/usr/bin/openssl");
describeReal("the contract", missing, () => describeAdapter(sms, harness));
