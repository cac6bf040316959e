// Verifies one answer of `init` by using it: logs in to the mailbox, describes the agent, asks the model.

import { type Adapter, type ChannelStatus, channelId, type InboundEvent } from "bridgehead/contract";
import { createAgentClient } from "../../agent/index.ts";
import { loadAdapter } from "../../channels/loader.ts";
import { isLoopback } from "../../config/schema/values.ts";
import { systemClock } from "../../ops/clock.ts";
import { type Io, probeLimit, silentLog, standInChannel } from "../io.ts";
import { clean } from "../text.ts";
import type { Answerer, Answers, MailLogin } from "./answers.ts";
import { type GuessedServer, type MailServerAddress, providerOfServer } from "./discovery.ts";

/** A failed verification. `remedy` is what the operator does next. `wants` names the answer that is wrong. */
export interface Rejection {
  readonly ok: false;
  readonly reason: string;
  readonly remedy: string;
  readonly wants?: "servers" | "login" | "key";
}

export type Verified<T> = { readonly ok: true; readonly value: T } | Rejection;

export const rejected = (reason: string, remedy: string, wants?: Rejection["wants"]): Rejection => ({
  ok: false,
  reason: printable(reason),
  remedy: printable(remedy),
  ...(wants && { wants }),
});

/** Reasons quote servers. */
const printable = (text: string): string => clean(text.slice(0, 2000)).slice(0, 400);

/** What a verification needs of the command. */
export type Verifying = Pick<Io, "signal" | "timing" | "cwd">;

/** Creates the email adapter outside the daemon. `accept` receives the events of its mailbox. */
export async function createMailAdapter(
  block: object,
  accept: (events: readonly InboundEvent[]) => void,
  { timing, cwd }: Verifying,
): Promise<Adapter> {
  const email = await loadAdapter("email", cwd);
  const settings = email.config.safeParse(block);
  if (!settings.success) throw new Error(settings.error.issues.map(({ message }) => message).join("; "));
  const since = new Date(systemClock.now() - timing.commands.initClockSkew);
  return email.create(
    {
      ...standInChannel(channelId("init"), email.name, { timing }),
      accept: async (events) => {
        accept(events);
        return events.map(({ id }) => ({ id, duplicate: false }));
      },
      identity: async () => ({ since, mark: "init000000", ownerOf: () => "foreign" as const }),
    },
    settings.data,
  );
}

/** The block of the email channel, with the secrets in it. */
export function mailBlock({ address, servers, user, login, ca }: Answers): object {
  if (!servers || !login) throw new Error("composing the email channel: an answer is missing");
  const side = (server: MailServerAddress) => ({
    ...server,
    user: user ?? address,
    ...credentials(login),
    ...(ca !== undefined && { ca }),
  });
  return { address, imap: side(servers.imap), smtp: side(servers.smtp) };
}

function credentials(login: MailLogin): object {
  if (login.kind === "password") return { password: login.password };
  return {
    oauth2: {
      token_url: login.issuer,
      tenant: login.tenant,
      client_id: login.clientId,
      client_secret: login.clientSecret,
      refresh_token: login.refreshToken,
    },
  };
}

/** Logs in on both sides. Servers whose encryption is not known are tried with TLS, STARTTLS, and on loopback without. */
export async function verifyMailbox(
  given: Omit<Answers, "servers"> & {
    readonly servers: { readonly imap: GuessedServer; readonly smtp: GuessedServer };
  },
  io: Verifying,
): Promise<Verified<NonNullable<Answers["servers"]>>> {
  const found: Partial<Record<"imap" | "smtp", MailServerAddress>> = {};
  const failures: Partial<Record<"imap" | "smtp", { status: ChannelStatus; fix: string | undefined }>> = {};
  for (const manner of ["implicit", "starttls", "none"] as const) {
    const tried = (guess: GuessedServer): MailServerAddress => ({ ...guess, tls: guess.tls ?? manner });
    const open = (["imap", "smtp"] as const).filter((side) => {
      const { host, tls } = given.servers[side];
      if (found[side] || (tls !== null && failures[side])) return false;
      return tried(given.servers[side]).tls !== "none" || isLoopback(host);
    });
    if (open.length === 0) continue;
    const server = (side: "imap" | "smtp"): MailServerAddress => {
      const guess = given.servers[side];
      return found[side] ?? (open.includes(side) ? tried(guess) : { ...guess, tls: guess.tls ?? "implicit" });
    };
    const servers = { imap: server("imap"), smtp: server("smtp") };
    const parts = await probe(mailBlock({ ...given, servers }), io);
    for (const side of open) {
      const part = parts.find((one) => one.part === side);
      if (part?.status.state === "ready") found[side] = servers[side];
      else if (part && (failures[side] === undefined || isTelling(part.status)))
        failures[side] = { status: part.status, fix: part.fix };
    }
    // The encryption is right, and each further try would count as a wrong password.
    if (Object.values(failures).some(({ status }) => isTelling(status))) break;
  }
  if (found.imap && found.smtp) return { ok: true, value: { imap: found.imap, smtp: found.smtp } };
  const side = found.imap ? "smtp" : "imap";
  const { status, fix } = failures[side] ?? {};
  const { host, port } = given.servers[side];
  const reason = status && "reason" in status ? status.reason : "no response";
  const code = status && "code" in status ? status.code : "";
  const isLogin = code === "login" || code === "token";
  // The server was reached, and has no verdict on the password now.
  const isPassing = code === "throttled" || code === "server";
  const page = providerOfServer(given.servers.imap.host)?.appPasswords ?? null;
  const ofPassword =
    page === null
      ? `check the password; the user name is ${given.user} (--user for another)`
      : `use an app password instead of the account's own: ${page}`;
  const hint = fix?.includes(`${side}.ca`)
    ? "the certificate is of a private CA: run init again with --ca <file>"
    : (fix ?? `check the name and the port of the ${side.toUpperCase()} server`);
  const remedy = isLogin && given.login?.kind === "password" ? ofPassword : hint;
  return rejected(
    `${side.toUpperCase()} ${host}:${port}: ${reason}`,
    remedy,
    isLogin ? "login" : isPassing ? undefined : "servers",
  );
}

/** The server has answered, or has shown a certificate: the encryption is the right one. */
const isTelling = (status: ChannelStatus): boolean =>
  "code" in status &&
  status.code !== "connection" &&
  (status.code !== "tls" || /certificate|altname|self.signed|issuer/i.test(status.reason));

async function probe(block: object, io: Verifying) {
  const adapter = await createMailAdapter(block, () => undefined, io);
  try {
    return (await adapter.probe?.(probeLimit(io)))?.parts ?? [];
  } finally {
    await adapter.close?.(AbortSignal.abort());
  }
}

/** Whether a URL is that of an agent platform: its API asks for a key, and no model is below the URL. Gateways of models
 *  ask for a key everywhere. Any other URL is tried as a model. */
export async function isPlatform(url: string, io: Verifying): Promise<boolean> {
  if (endsInVersion(url)) return false;
  const [agents, model] = await Promise.all([
    get(`${url}/external/agents/by-api-key`, undefined, io),
    modelsOf(`${url}/v1`, undefined, io),
  ]);
  const asksForKey = "status" in agents && (agents.status === 401 || agents.status === 403);
  return asksForKey && model.kind !== "listed" && model.kind !== "unauthorized";
}

const endsInVersion = (url: string): boolean => /\/v\d{1,3}$/.test(url);

/** Describes the agent that the key opens. */
export async function verifyPlatform(
  url: string,
  key: string,
  { signal, timing }: Verifying,
): Promise<Verified<Answerer>> {
  const client = createAgentClient({
    url,
    agentKey: key,
    timeoutMs: timing.commands.probe,
    clock: systemClock,
    log: silentLog,
    timing,
  });
  try {
    const result = await client.describe(signal);
    if (result.kind === "ok") return { ok: true, value: { kind: "platform", url, key } };
    if (result.kind === "unauthorized")
      return rejected(`the platform rejects the key: ${result.reason}`, "copy the agent's API key again", "key");
    return rejected(`the platform does not answer: ${result.reason}`, `check the URL ${url}`);
  } finally {
    await client.close();
  }
}

/** Asks the model one short question. `name` is chosen when the endpoint lists exactly one. */
export async function verifyModel(
  given: { readonly url: string; readonly name?: string | undefined; readonly key?: string | undefined },
  io: Verifying,
): Promise<Verified<Answerer>> {
  const { key } = given;
  let { url } = given;
  let listed = await modelsOf(url, key, io);
  if (listed.kind === "none" && !endsInVersion(url)) {
    const below = await modelsOf(`${url}/v1`, key, io);
    if (below.kind !== "none" && below.kind !== "unreachable") {
      url = `${url}/v1`;
      listed = below;
    }
  }
  if (listed.kind === "unreachable")
    return rejected(`nothing answers at ${url}: ${listed.reason}`, "check the URL, and whether the server runs");
  if (listed.kind === "unauthorized")
    return key === undefined
      ? rejected("the endpoint requires a key", "give the API key of the account", "key")
      : rejected("the endpoint rejects the key", "create a new API key at the provider, or copy it again", "key");
  const names = listed.kind === "listed" ? listed.names : [];
  const name = given.name ?? (names.length === 1 ? names[0] : undefined);
  if (name === undefined) {
    const offer = names.length > 0 ? `; the endpoint offers ${names.slice(0, 12).join(", ")}` : "";
    return rejected("the name of the model is missing", `write it behind the URL: ${url} NAME${offer}`);
  }
  const { probeModel } = await import("../../platform/index.ts");
  const ask = (temperature: number | null) => probeModel({ url, name, key, temperature }, systemClock, probeLimit(io));
  let failure = await ask(usualTemperature);
  // Some models reject the parameter.
  const withoutTemperature = failure !== null && failure.reason.startsWith("HTTP 400");
  if (withoutTemperature) failure = await ask(null);
  io.signal.throwIfAborted();
  if (failure === null) {
    const more = { ...(key !== undefined && { key }), ...(withoutTemperature && { withoutTemperature }) };
    return { ok: true, value: { kind: "model", url, name, ...more } };
  }
  const isKey = /HTTP 40[13]/.test(failure.reason);
  const offer = names.length > 0 && !names.includes(name) ? `; it offers ${names.slice(0, 12).join(", ")}` : "";
  return rejected(
    `the model ${name} gives no answer: ${failure.reason}`,
    `${failure.fix}${offer}`,
    isKey ? "key" : undefined,
  );
}

/** The default of `model.temperature`. */
const usualTemperature = 0.2;

type ListedServer =
  | { readonly kind: "listed"; readonly names: readonly string[] }
  | { readonly kind: "none" | "unauthorized" }
  | { readonly kind: "unreachable"; readonly reason: string };

async function modelsOf(url: string, key: string | undefined, io: Verifying): Promise<ListedServer> {
  const response = await get(`${url}/models`, key, io);
  if (!("status" in response)) return { kind: "unreachable", reason: response.reason };
  if (response.status === 401 || response.status === 403) return { kind: "unauthorized" };
  const data = (response.body as { readonly data?: unknown } | undefined)?.data;
  if (response.status !== 200 || !Array.isArray(data)) return { kind: "none" };
  const names = data.flatMap((one: { readonly id?: unknown } | null) =>
    typeof one?.id === "string" ? [printable(one.id)] : [],
  );
  return { kind: "listed", names };
}

async function get(
  url: string,
  key: string | undefined,
  io: Verifying,
): Promise<{ readonly status: number; readonly body: unknown } | { readonly reason: string }> {
  try {
    const response = await fetch(url, {
      redirect: "manual",
      signal: probeLimit(io),
      ...(key !== undefined && { headers: { authorization: `Bearer ${key}` } }),
    });
    const body = await response.json().catch(() => undefined);
    return { status: response.status, body };
  } catch (error) {
    io.signal.throwIfAborted();
    const { cause, message } = error as Error;
    const { code, message: why } = (cause ?? {}) as { readonly code?: string; readonly message?: string };
    return { reason: code ?? why ?? message };
  }
}
