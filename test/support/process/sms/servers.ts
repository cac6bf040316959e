// The servers around a daemon for texts and calls: a platform with its model, and a phone account for each setup. They run
// in the test's own process and survive every kill of the daemon.

import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Phone } from "../../../../src/sandbox/phone.ts";
import { SmsApi } from "../../../../src/sandbox/sms-api.ts";
import { type PlatformReader, platformReader } from "../../daemon/platform.ts";
import { freePort } from "../../machine/network.ts";
import { startPlatformOf } from "../../platform/platform.ts";
import { startDaemon } from "../daemon.ts";
import { type Served, startModel } from "../mail/servers.ts";

export interface SmsTestServers {
  readonly platformUrl: string;
  readonly asked: PlatformReader;
  /** A store whose daemon has begun to look for missed texts: what comes from now on is answered. */
  readonly begun: string;
  close(): Promise<void>;
}

const agentKeys = { prompt: "prompt-key-1", late: "late-key-2" };
type Agent = keyof typeof agentKeys;
/** What the agent `late` waits before its answers go out: a STOP must come sooner, on a slow machine too. */
const lateSeconds = 15;
const account = "AC0123456789abcdef0123456789abcdef";
export const ourNumber = "+12025550100";
export const publicUrl = "https://bridge.example.com";
const token = "auth-token";

export async function startSmsServers(): Promise<SmsTestServers> {
  const folder = mkdtempSync(join(tmpdir(), "bridgehead-lines-"));
  const model = await startModel();
  const platformFile = join(folder, "platform.db");
  const platform = await startPlatformOf(agentsFile(model), { file: platformFile, durability: "normal" });
  const servers = {
    platformUrl: platform.url,
    asked: platformReader(() => platformFile),
    begun: join(folder, "begun.db"),
    async close() {
      await platform.close();
      await model.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
  const setup = await openSmsSetup(servers, { fresh: true });
  await useOnce(setup);
  // It was closed in order: the file is the whole store.
  copyFileSync(setup.store, servers.begun);
  await setup.close();
  return servers;
}

/** Starts and stops a daemon on the store. */
async function useOnce({ config, env }: Pick<SmsSetup, "config" | "env">): Promise<void> {
  const daemon = startDaemon({ config, env });
  if (!(await daemon.ready)) throw new Error(`the daemon did not start\n${daemon.complaints.join("\n")}`);
  await daemon.stop();
}

export interface SmsSetupOptions {
  readonly agent?: Agent;
  /** Default: a store that a daemon has used before. */
  readonly fresh?: boolean;
  /** Default: none. */
  readonly debounce?: string;
  /** The number that calls are transferred to. Default: none. */
  readonly transfer?: string;
  /** URL of an empty PostgreSQL schema for the store; by default it is a SQLite file. */
  readonly postgres?: string;
}

/** One phone account with its people, and the folder of the daemon that serves it. */
export interface SmsSetup {
  readonly servers: SmsTestServers;
  readonly api: SmsApi;
  readonly phone: Phone;
  /** Whether texts in quick succession are one question. */
  readonly joined: boolean;
  readonly config: string;
  /** SQLite file, or URL of the PostgreSQL schema. */
  readonly store: string;
  readonly env: Readonly<Record<string, string>>;
  close(): Promise<void>;
}

export async function openSmsSetup(servers: SmsTestServers, options: SmsSetupOptions = {}): Promise<SmsSetup> {
  const folder = mkdtempSync(join(tmpdir(), "bridgehead-place-"));
  // Every process of the daemon listens at the same address.
  const port = await freePort();
  const via = `http://127.0.0.1:${port}`;
  const api = await SmsApi.start({
    accountSid: account,
    authToken: token,
    number: ourNumber,
    webhooks: { inbound: `${publicUrl}/channels/sms/inbound#rc=2&rp=all`, via },
  });
  const phone = new Phone({ accountSid: account, authToken: token, via, pace: 0.01, patience: 30_000 });
  const config = join(folder, "bridgehead.yaml");
  writeFileSync(config, configFile(servers.platformUrl, api.url, port, options));
  const store = options.postgres ?? join(folder, "bridgehead.db");
  const env = { AGENT_KEY: agentKeys[options.agent ?? "prompt"], TWILIO_TOKEN: token };
  if (options.postgres !== undefined) await useOnce({ config, env });
  else if (!options.fresh) copyFileSync(servers.begun, store);
  return {
    servers,
    api,
    phone,
    joined: options.debounce !== undefined,
    config,
    store,
    env,
    async close() {
      await phone.close();
      await api.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function agentsFile(model: Served): string {
  const agent = (name: Agent, delay: number) => `
  ${name}:
    key: ${agentKeys[name]}
    model: { url: "${model.url}/v1", name: echo }
    skills:
      sms: { phoneNumber: "${ourNumber}", responseDelaySeconds: ${delay} }
      voice: { status: active }`;
  return `organization: { name: Acme }\nagents:${agent("prompt", 0)}${agent("late", lateSeconds)}\n`;
}

function configFile(platform: string, api: string, port: number, options: SmsSetupOptions): string {
  const phoneAccount = `account_sid: ${account}, auth_tokens: ["\${env:TWILIO_TOKEN}"], api_url: "${api}", number: "${ourNumber}"`;
  const transfer = options.transfer === undefined ? "" : `transfer: { dial: ["${options.transfer}"] }, `;
  return `
platform: { url: "${platform}", timeout: 20s, absent_after: 1s, rate: { requests: 100000, per: 60s } }
agents: { support: { key: "\${env:AGENT_KEY}" } }
channels:
  sms: { adapter: sms, agent: support, provider: twilio, ${phoneAccount}, debounce: ${options.debounce ?? "0s"}, caps: { sender: [], conversation: [], channel: [] }, backfill: { every: 1h, overlap: 1h, after: 1ms } }
  voice: { adapter: voice, agent: support, dialect: twilio, ${phoneAccount}, collect: 50ms, speaking_rate: 40, greeting: Hello, ${transfer}fillers: { first: 60s, second: 70s } }
http: { listen: "127.0.0.1:${port}", admin_listen: "127.0.0.1:0", public_url: "${publicUrl}" }
console: { enabled: false }
store: ${JSON.stringify(options.postgres ?? "sqlite:bridgehead.db")}
log: { level: debug, format: json }
`;
}
