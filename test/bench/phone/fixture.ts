// The peers of texts and calls, and the subjects that serve them.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { freePort } from "../../support/machine/network.ts";
import { type Preload, type Subject, serviceEnvironment, start } from "../subject.ts";
import type { BarePhoneOptions } from "./bare.ts";
import type { CallsOrder, CallsResult } from "./callers.ts";
import type { PhoneMessage, PhoneOrder } from "./peers.ts";
import { accountSid, authToken, publicUrl } from "./signed-form.ts";
import type { TextsOrder, TextsResult } from "./texters.ts";

export interface PhoneSubject extends Subject {
  /** Webhooks of texts and calls. */
  readonly inbound: string;
  readonly call: string;
}

export interface PhoneFixture {
  baseline(preload?: Preload): Promise<PhoneSubject>;
  /** `instrumented` replaces the built main.js. */
  daemon(preload?: Preload, instrumented?: string): Promise<PhoneSubject>;
  /** Ports of the platform and of the provider. */
  readonly ports: { readonly platform: number; readonly twilio: number };
  texts(order: Omit<TextsOrder, "kind">): Promise<TextsResult>;
  calls(order: Omit<CallsOrder, "kind">): Promise<CallsResult>;
  close(): void;
}

type Ports = Extract<PhoneMessage, { kind: "listening" }>;
const number = "+15550100";

export async function startPhoneFixture(main: string): Promise<PhoneFixture> {
  const peers = fork(fileURLToPath(new URL("./peers.ts", import.meta.url)), { stdio: "inherit" });
  const [ports] = (await once(peers, "message")) as [PhoneMessage];
  if (ports.kind !== "listening") throw new Error("the peers did not report their ports");
  return {
    baseline: (preload) => startBare(ports, preload),
    ports,
    daemon: (preload, instrumented = main) => startDaemon(ports, instrumented, preload),
    texts: (order) => carryOut<TextsResult>(peers, { kind: "texts", ...order }),
    calls: (order) => carryOut<CallsResult>(peers, { kind: "calls", ...order }),
    close: () => peers.disconnect(),
  };
}

async function carryOut<Result>(peers: ChildProcess, order: PhoneOrder): Promise<Result> {
  const over = new AbortController();
  const reported = once(peers, "message", { signal: over.signal }) as Promise<[PhoneMessage]>;
  const died = once(peers, "exit", { signal: over.signal }).then(() => Promise.reject(new Error("the peers ended")));
  peers.send(order);
  try {
    const [message] = await Promise.race([reported, died]);
    if (message.kind !== "done") throw new Error("the peers did not report a result");
    return message.result as Result;
  } finally {
    over.abort();
    died.catch(() => undefined);
  }
}

async function startBare({ platform, twilio }: Ports, preload: Preload | undefined): Promise<PhoneSubject> {
  const port = await freePort();
  const options: BarePhoneOptions = {
    port,
    publicUrl,
    platform: `http://127.0.0.1:${platform}`,
    key: "bench-key",
    twilio: `http://127.0.0.1:${twilio}`,
    accountSid,
    authToken,
    number,
  };
  const script = fileURLToPath(new URL("./bare.ts", import.meta.url));
  const subject = await start({ argv: [script, JSON.stringify(options)], ready: "ready", preload });
  const base = `http://127.0.0.1:${port}`;
  return { ...subject, inbound: `${base}/inbound`, call: `${base}/call` };
}

async function startDaemon(ports: Ports, main: string, preload: Preload | undefined): Promise<PhoneSubject> {
  const port = await freePort();
  const directory = mkdtempSync(join(tmpdir(), "bridgehead-bench-"));
  const config = join(directory, "bridgehead.yaml");
  writeFileSync(config, configuration(ports, port));
  const argv = [main, "run", "--config", config];
  const clean = () => rmSync(directory, { recursive: true, force: true });
  const subject = await start({
    argv,
    ready: '"message":"ready"',
    preload,
    env: serviceEnvironment,
    clean,
  });
  const base = `http://127.0.0.1:${port}/channels`;
  return { ...subject, inbound: `${base}/sms/inbound`, call: `${base}/voice/call` };
}

/** Default settings, except for the limits on replies per person and on the platform's requests. Debouncing is off, since
 *  the baseline has none. */
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
    debounce: 0s
    caps: { sender: [], conversation: [], channel: [] }
  voice:
    adapter: voice
    agent: support
    auth_tokens: ["\${env:BENCH_PASSWORD}"]
    collect: 0ms
http: { listen: "127.0.0.1:${port}", public_url: "${publicUrl}" }
store: sqlite:bench.db
log: { format: json }
`;
