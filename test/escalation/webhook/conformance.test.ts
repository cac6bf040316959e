// The contract's own suite over the adapter that carries notices to webhooks.

import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { describeAdapter, type Fault, type Harness, type Peer } from "bridgehead/contract/testing";
import { afterAll, beforeAll } from "vitest";
import { webhookAdapter } from "../../../src/escalation/webhook/adapter.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import { type Answering, personAt, policyWith, startReceiver, status } from "../../support/escalation/policy.ts";
import { describeReal, need } from "../../support/machine/debian.ts";
import { certificate, startTcpProxy } from "../../support/machine/network.ts";

/** Of the receivers that run now: the adapter has no configuration of its own. */
const urls = new Set<string>();
const policy = () =>
  policyWith(
    [...urls].map((url) => ({ ...personAt(url), id: url })),
    ["127.0.0.1"],
  );

async function start(): Promise<Peer> {
  const hook = await startReceiver({ secure: true });
  const line = await startTcpProxy(hook.port);
  const url = `https://127.0.0.1:${line.port}/hook`;
  urls.add(url);
  let taken: string[] = [];
  const taking: Answering = (response, { text }) => {
    taken = [...taken, text];
    status(204)(response, { method: "", path: "", headers: {}, text });
  };
  const takingThen =
    (then: Answering): Answering =>
    (response, got) => {
      taken = [...taken, got.text];
      then(response, got);
    };
  const faults: Record<Fault | "none", () => void> = {
    none: () => hook.answer(taking),
    "refuse-connection": () => line.refuse(),
    "refuse-message": () => hook.answer(status(422)),
    later: () => hook.answer((response) => response.writeHead(429, { "retry-after": "7" }).end()),
    "cut-before": () => line.refuse(),
    "cut-after": () => hook.answer(takingThen((response) => response.socket?.destroy())),
    "hang-before": () => line.swallow(),
    "hang-after": () => hook.answer(takingThen(() => undefined)),
    "server-error": () => hook.answer(takingThen(status(502))),
  };
  hook.answer(taking);
  return {
    config: () => ({}),
    fault(fault) {
      line.resume();
      hook.answer(taking);
      faults[fault]();
    },
    laterMs: 7000,
    async stop() {
      urls.delete(url);
      await line.close();
      await hook.close();
    },
    reply: { kind: "notice", to: [{ address: url }] },
    delivered: () => taken,
  };
}

const harness: Harness = {
  start,
  lacks: {
    attachments: "a notice is one document",
    inbound: "nothing is read; what receivers say is in their answers",
    acknowledge: "nothing is read",
    reconcile: "a receiver has no list; it knows a delivery again by its id",
    "server-error": "a receiver knows a delivery again by its id, so it is simply repeated",
    probe: "who is told is not asked before",
    credentials: "each recipient has secrets of their own, and refuses by status",
    http: "nobody calls it",
    socket: "nobody calls it",
    session: "nobody speaks",
  },
};

const missing = await need("openssl", "/usr/bin/openssl");
describeReal("the contract", missing, () => {
  const authorities = getCACertificates("default");
  beforeAll(() => setDefaultCACertificates([...authorities, certificate().cert]));
  afterAll(() => setDefaultCACertificates(authorities));
  describeAdapter(webhookAdapter({ policy, lines: () => new Map(), timing: standardTiming }), harness);
});
