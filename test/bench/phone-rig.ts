// What texts and calls run against, and the two contestants that take them.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { BarePhoneOptions } from "./bare-phone.ts";
import type { CallsOrder, CallsResult } from "./callers.ts";
import { type Contestant, start } from "./contestant.ts";
import type { PhoneMessage, PhoneOrder } from "./phone-peers.ts";
import { accountSid, authToken } from "./signed-form.ts";
import type { TextsOrder, TextsResult } from "./texters.ts";

export interface PhoneContestant extends Contestant {
  /** Where texts and calls are announced. */
  readonly inbound: string;
  readonly call: string;
}

export interface PhoneRig {
  bare(): Promise<PhoneContestant>;
  ours(): Promise<PhoneContestant>;
  texts(order: Omit<TextsOrder, "kind">): Promise<TextsResult>;
  calls(order: Omit<CallsOrder, "kind">): Promise<CallsResult>;
  close(): void;
}

type Ports = Extract<PhoneMessage, { kind: "listening" }>;
const number = "+15550100";

export async function startPhoneRig(): Promise<PhoneRig> {
  const peers = fork(fileURLToPath(new URL("./phone-peers.ts", import.meta.url)), { stdio: "inherit" });
  const [ports] = (await once(peers, "message")) as [PhoneMessage];
  if (ports.kind !== "listening") throw new Error("the peers did not say where they listen");
  return {
    bare: () => startBare(ports),
    ours: () => startOurs(ports),
    texts: (order) => carryOut<TextsResult>(peers, { kind: "texts", ...order }),
    calls: (order) => carryOut<CallsResult>(peers, { kind: "calls", ...order }),
    close: () => peers.disconnect(),
  };
}

async function carryOut<Result>(peers: ChildProcess, order: PhoneOrder): Promise<Result> {
  const over = new AbortController();
  const told = once(peers, "message", { signal: over.signal }) as Promise<[PhoneMessage]>;
  const died = once(peers, "exit", { signal: over.signal }).then(() =>
    Promise.reject(new Error("the peers ended")),
  );
  peers.send(order);
  try {
    const [message] = await Promise.race([told, died]);
    if (message.kind !== "done") throw new Error("the peers did not say how it went");
    return message.result as Result;
  } finally {
    over.abort();
    died.catch(() => undefined);
  }
}

async function startBare({ platform, twilio }: Ports): Promise<PhoneContestant> {
  const port = await freePort();
  const options: BarePhoneOptions = {
    port,
    platform: `http://127.0.0.1:${platform}`,
    key: "bench-key",
    twilio: `http://127.0.0.1:${twilio}`,
    accountSid,
    authToken,
    number,
  };
  const script = fileURLToPath(new URL("./bare-phone.ts", import.meta.url));
  const contestant = await start("bare", [script, JSON.stringify(options)], "ready", () => {});
  const base = `http://127.0.0.1:${port}`;
  return { ...contestant, inbound: `${base}/inbound`, call: `${base}/call` };
}

async function startOurs(ports: Ports): Promise<PhoneContestant> {
  const port = await freePort();
  const directory = mkdtempSync(join(tmpdir(), "bridgehead-bench-"));
  const config = join(directory, "bridgehead.yaml");
  writeFileSync(config, configuration(ports, port));
  const main = fileURLToPath(new URL("../../src/main.ts", import.meta.url));
  const argv = ["--conditions=source", main, "run", "--config", config];
  const clean = () => rmSync(directory, { recursive: true, force: true });
  const contestant = await start("ours", argv, '"message":"ready"', clean);
  const base = `http://127.0.0.1:${port}/channels`;
  return { ...contestant, inbound: `${base}/sms/inbound`, call: `${base}/voice/call` };
}

/** Durable as always; only what protects people and platforms from too much is raised, and no time is spent waiting for
 *  more words, which the bare one does not do either. */
const configuration = ({ platform, twilio }: Ports, port: number): string => `platform:
  url: http://127.0.0.1:${platform}
  rate: { requests: 1000000, per: 1s }
agents:
  support: { key: "\${env:BENCH_KEY}" }
channels:
  sms:
    adapter: sms
    agent: support
    account_sid: ${accountSid}
    auth_tokens: ["\${env:BENCH_PASSWORD}"]
    number: "${number}"
    api_url: http://127.0.0.1:${twilio}
    join: 0s
    concurrency: 64
    caps: { sender: [], conversation: [], channel: [] }
  voice:
    adapter: voice
    agent: support
    auth_tokens: ["\${env:BENCH_PASSWORD}"]
    collect: 0ms
http: { listen: "127.0.0.1:${port}", public_url: "https://127.0.0.1:${port}" }
store: sqlite:bench.db
log: { format: json }
`;

/** Twilio is told the address beforehand, so the port is chosen beforehand: one nobody has just now. */
/** A port of 127.0.0.1 that nobody listens at just now. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
