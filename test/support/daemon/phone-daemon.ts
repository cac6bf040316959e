// A daemon for texts and calls with its servers, for one test: a phone account with people behind it, the embedded platform with a front
// that may fail, and between them the daemon: its composition root and its real listener.

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Clock, LogFields } from "bridgehead/contract";
import { expect } from "vitest";
import { type App, startApp } from "../../../src/app.ts";
import { loadAdapter } from "../../../src/channels/loader.ts";
import { type ChannelReport, reportChannels } from "../../../src/channels/readiness.ts";
import { type Config, loadConfig } from "../../../src/config/index.ts";
import { systemClock } from "../../../src/ops/clock.ts";
import { type Dialing, Phone, type PhoneCall, type PhoneOptions } from "../../../src/sandbox/phone.ts";
import { type PersonText, type ReceivedText, SmsApi } from "../../../src/sandbox/sms-api.ts";
import type { SmsMessage } from "../../../src/sandbox/sms-records.ts";
import { postSigned } from "../../../src/sandbox/twilio-webhooks.ts";
import { eventually } from "../clock.ts";
import { startTestListener } from "../http/listener.ts";
import { startPlatformOf } from "../platform/platform.ts";
import type { Finished, Logged, Row } from "./mail-daemon.ts";
import {
  type Echo,
  type PlatformProxy,
  platformReader,
  type Question,
  startEcho,
  startPlatformProxy,
} from "./platform.ts";

type Block = { readonly [key: string]: unknown };

export interface PhoneDaemonOptions {
  /** Keys of the channels' blocks, over the defaults below. */
  readonly sms?: Block;
  readonly voice?: Block;
  /** Further channels, whole. */
  readonly channels?: { readonly [id: string]: Block };
  /** Of the agent's skills. */
  readonly smsSkill?: Block;
  readonly emailSkill?: Block;
  /** Its other skills, as the platform's file has them. */
  readonly skills?: Block;
  /** Without it no responder is notified. */
  readonly escalation?: Block;
  readonly platform?: Block;
  readonly clock?: Clock;
  readonly phone?: Partial<PhoneOptions>;
  readonly env?: Readonly<Record<string, string>>;
  /** The agent's model. Default: it answers at once. */
  readonly model?: Echo;
  /** The test starts it. */
  readonly stopped?: boolean;
  /** As the configuration has it. Default: a file of its own. */
  readonly store?: string;
}

/** A running daemon. */
export interface LinesNode {
  readonly app: App;
  /** Where it listens. */
  readonly url: string;
  stop(drainMs?: number): Promise<void>;
}

export interface PhoneDaemon {
  readonly api: SmsApi;
  readonly proxy: PlatformProxy;
  readonly model: Echo;
  readonly log: readonly Logged[];
  /** The configuration file, and what it refers to. */
  readonly file: string;
  readonly env: Readonly<Record<string, string>>;
  config(): Promise<Config>;
  app(): App;
  start(): Promise<void>;
  /** Time that calls have to finish their speech at a shutdown. */
  stop(drainMs?: number): Promise<void>;
  /** One more daemon on the same store, which the other need not wait for; stopped with this one. */
  another(clock?: Clock): Promise<LinesNode>;
  /** The one that was started first. */
  node(): LinesNode;
  /** There the provider's webhooks arrive from now on. */
  aim(node: Pick<LinesNode, "url">): void;
  /** The effect of a kill: sockets are cut without a close frame, then the next start finds the store. */
  restart(drainMs?: number): Promise<void>;
  /** A person texts our number. Resolves when the webhook is answered. */
  text(body: string, more?: Partial<PersonText>): Promise<ReceivedText>;
  /** The webhook of that text, signed with another token; the status it is answered with. */
  forge(message: SmsMessage): Promise<number | null>;
  /** A channel's health. */
  channel(id: string): ChannelReport;
  /** Bodies of all texts to that person that the provider took, in its order. */
  textsTo(person?: string): string[];
  dial(more?: Partial<Dialing>, withinMs?: number): Promise<PhoneCall>;
  rows<T = Row>(sql: string, ...values: (string | number)[]): Promise<T[]>;
  questions(): Question[];
  /** Nothing is on its way any more. */
  idle(withinMs?: number): Promise<void>;
}

const agentKey = "11111111-2222-4333-8444-555555555555";
export const account = "AC0123456789abcdef0123456789abcdef";
export const ourNumber = "+12025550100";
export const anna = "+12025550123";
const publicUrl = "https://bridge.example.com";
const token = "auth-token";

export async function startPhoneDaemon(finished: Finished, options: PhoneDaemonOptions = {}): Promise<PhoneDaemon> {
  const { clock = systemClock } = options;
  const folder = await mkdtemp(join(tmpdir(), "bridgehead-lines-"));
  const file = join(folder, "bridgehead.yaml");
  const env = { AGENT_KEY: agentKey, TWILIO_TOKEN: token, ...options.env };
  const platformFile = join(folder, "platform.db");
  const log: Logged[] = [];
  const note = (level: Logged["level"]) => (fields: LogFields, message: string) =>
    void log.push({ level, message, fields });
  const logger = { debug: () => undefined, info: note("info"), warn: note("warn"), error: note("error") };

  const model = options.model ?? (await startEcho());
  const platform = await startPlatformOf(agentsFile(model.url, options), {
    file: platformFile,
    log: logger,
    durability: "normal",
  });
  const proxy = await startPlatformProxy(() => platform.url);
  let node: LinesNode | null = null;
  const others: LinesNode[] = [];
  /** The URL at which the daemon listens, or listened last. */
  let at = "http://127.0.0.1:1";
  const api = await SmsApi.start({
    accountSid: account,
    authToken: token,
    number: ourNumber,
    clock,
    webhooks: {
      inbound: `${publicUrl}/channels/sms/inbound#rc=3&rp=all`,
      get via() {
        return at;
      },
    },
  });
  const phone = new Phone({
    accountSid: account,
    authToken: token,
    pace: 0.01,
    patience: 150_000,
    ...options.phone,
    get via() {
      return at;
    },
  });
  const read = platformReader(() => platformFile);

  async function config(): Promise<Config> {
    await writeFile(file, configFile(proxy.url, api.url, options));
    const loaded = await loadConfig(file, { env, adapters: loadAdapter });
    if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems, null, 1));
    return loaded.config;
  }

  async function open(own: Clock): Promise<LinesNode> {
    const given = await config();
    let app: App | null = null;
    const running = (): App => {
      if (app === null) throw new Error("the daemon does not run");
      return app;
    };
    const listener = await startTestListener({
      publicUrl,
      clock: own,
      log: logger,
      routes: (id) => app?.host.running().find((one) => one.config.id === id)?.adapter.routes ?? null,
      serving: () => app !== null,
      platform: (request) => running().web.platform(request),
      escalations: (request) => running().web.escalations(request),
    });
    const opened = await startApp({
      config: given,
      platformUrl: proxy.url,
      clock: own,
      log: logger,
      publicUrl: () => publicUrl,
      retire: (routes) => listener.retire(routes),
    }).catch(async (error: unknown) => {
      await listener.close(0);
      throw error;
    });
    app = opened;
    let stopped: Promise<void> | null = null;
    const end = async (drainMs: number) => {
      // As `run` does it: calls end first, and ask how they go on.
      if (drainMs > 0) await listener.drain(drainMs);
      else await listener.close(0);
      app = null;
      await opened.stop(drainMs);
      await listener.close(0);
    };
    return {
      app: opened,
      url: listener.url,
      stop: (drainMs = 20_000) => (stopped ??= end(drainMs)),
    };
  }

  const said = ({ app }: LinesNode) => reportChannels(app.host, app.agents);

  async function start(): Promise<void> {
    const opened = await open(clock);
    node = opened;
    const state = () => said(opened).map((one) => [one.state, one.not_asking]);
    await eventually(() => expect(new Set(state().flat())).toEqual(new Set(["ready", null])));
    at = opened.url;
  }

  async function stop(drainMs = 20_000): Promise<void> {
    await node?.stop(drainMs);
    node = null;
  }

  finished(async () => {
    model.release();
    await phone.close();
    await Promise.all([stop(1000), ...others.map((one) => one.stop(1000))]);
    await Promise.all([proxy.close(), api.close(), model.close()]);
    await platform.close();
    await rm(folder, { recursive: true, force: true });
  });
  const current = (): LinesNode => {
    const found = node ?? others[0];
    if (found === undefined) throw new Error("the daemon does not run");
    return found;
  };
  const running = () => current().app;
  const rows = <T = Row>(sql: string, ...values: (string | number)[]) =>
    running().db.read((q) => q.all<T>(sql, ...values));

  if (!options.stopped) await start();
  return {
    api,
    proxy,
    model,
    log,
    file,
    env,
    config,
    app: running,
    start,
    stop,
    async another(own = clock) {
      const opened = await open(own);
      others.push(opened);
      await eventually(() => expect(said(opened).find((one) => one.not_asking !== null)).toBe(undefined));
      return opened;
    },
    node: current,
    aim: ({ url }) => void (at = url),
    async restart(drainMs = 0) {
      await stop(drainMs);
      await start();
    },
    text: (body, more) => api.receive({ from: anna, body, ...more }),
    async forge(message) {
      const form = {
        MessageSid: message.sid,
        AccountSid: account,
        From: anna,
        To: ourNumber,
        Body: message.body,
      };
      const url = `${publicUrl}/channels/sms/inbound`;
      return (await postSigned({ url, via: at, form, token: "another-token" })).status;
    },
    channel(id) {
      const found = reportChannels(running().host, running().agents).find((one) => one.id === id);
      if (!found) throw new Error("the channel does not run");
      return found;
    },
    textsTo: (person = anna) => api.sent.filter((one) => one.to === person).map((one) => one.body),
    dial: (more, withinMs) =>
      phone.dial({ url: `${publicUrl}/channels/voice/call`, from: anna, to: ourNumber, ...more }, withinMs),
    rows,
    questions: () => read.questions(),
    async idle(withinMs = 150_000) {
      const open =
        "SELECT id, state, reason FROM turns WHERE open = 1 UNION ALL SELECT id, state, reason FROM drafts WHERE open = 1 UNION ALL SELECT CAST(id AS TEXT) AS id, state, reason FROM events WHERE state = 'stored'";
      await eventually(async () => expect(await rows(open)).toEqual([]), withinMs);
    },
  };
}

function configFile(platformUrl: string, apiUrl: string, options: PhoneDaemonOptions): string {
  const phoneAccount = { account_sid: account, auth_tokens: ["${env:TWILIO_TOKEN}"], api_url: apiUrl };
  // JSON is YAML.
  return JSON.stringify({
    platform: {
      url: platformUrl,
      timeout: "20s",
      absent_after: "1s",
      rate: { requests: 100_000, per: "60s" },
      ...options.platform,
    },
    agents: { support: { key: "${env:AGENT_KEY}", refresh: "1s" } },
    channels: {
      sms: {
        adapter: "sms",
        agent: "support",
        provider: "twilio",
        ...phoneAccount,
        number: ourNumber,
        debounce: "0s",
        caps: { sender: [], conversation: [], channel: [] },
        backfill: { every: "500ms", overlap: "10m", after: "1s" },
        ...options.sms,
      },
      voice: {
        adapter: "voice",
        agent: "support",
        dialect: "twilio",
        ...phoneAccount,
        number: ourNumber,
        greeting: "Hello, how can I help?",
        ...options.voice,
      },
      ...options.channels,
    },
    ...(options.escalation === undefined ? {} : { escalation: options.escalation }),
    http: { listen: "127.0.0.1:0", public_url: publicUrl },
    store: options.store ?? "sqlite:bridgehead.db",
  });
}

function agentsFile(model: string, { smsSkill, emailSkill, skills }: PhoneDaemonOptions): string {
  return JSON.stringify({
    organization: { name: "World", key: "world-organization-key" },
    agents: {
      support: {
        key: agentKey,
        skills: {
          sms: { phoneNumber: ourNumber, responseDelaySeconds: 0, ...smsSkill },
          voice: {},
          ...(emailSkill === undefined ? {} : { email: emailSkill }),
          ...skills,
        },
        model: { url: model, name: "echo" },
      },
    },
  });
}
