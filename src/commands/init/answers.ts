// The answers of `init`: the file that keeps them until the end, and the configuration that they become.

import { chmod, chown, copyFile, link, mkdir, open, readFile, rename, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import * as z from "zod";
import { newToken } from "../../ops/clock.ts";
import { isService, secretsFolder } from "../io.ts";

const server = z.object({ host: z.string(), port: z.int(), tls: z.enum(["implicit", "starttls", "none"]) });

const login = z.union([
  z.object({ kind: z.literal("password"), password: z.string() }),
  z.object({
    kind: z.literal("oauth"),
    /** `google`, `microsoft`, or the URL of a token endpoint. */
    issuer: z.string(),
    tenant: z.string().optional(),
    clientId: z.string(),
    clientSecret: z.string().optional(),
    refreshToken: z.string(),
  }),
]);

const answerer = z.union([
  z.object({
    kind: z.literal("model"),
    url: z.string(),
    key: z.string().optional(),
    name: z.string(),
    /** The model rejects the parameter. */
    withoutTemperature: z.boolean().optional(),
  }),
  z.object({ kind: z.literal("platform"), url: z.string(), key: z.string() }),
]);

const answers = z.object({
  address: z.string().optional(),
  servers: z.object({ imap: server, smtp: server }).optional(),
  user: z.string().optional(),
  /** File of a private CA. */
  ca: z.string().optional(),
  login: login.optional(),
  answerer: answerer.optional(),
  /** Null: no responder. */
  responder: z.string().nullable().optional(),
});

/** Every answer that is present was verified. */
export type Answers = z.output<typeof answers>;
export type MailLogin = z.output<typeof login>;
export type Answerer = z.output<typeof answerer>;
export type CompleteAnswers = Answers & {
  readonly [Key in Exclude<keyof Answers, "ca">]-?: Exclude<Answers[Key], undefined>;
};

/** The file of an unfinished run. */
export const keptPath = (config: string): string => `${config}.init`;

/** Returns the answers of an unfinished run; empty without one. An unreadable file counts as none. */
export async function readKept(config: string): Promise<Answers> {
  try {
    return answers.parse(JSON.parse(await readFile(keptPath(config), "utf8")));
  } catch {
    return {};
  }
}

/** Replaces the file in one step. Called after each verified answer. */
export const keep = (config: string, given: Answers): Promise<void> =>
  writePrivate(keptPath(config), JSON.stringify(given));

export const forget = (config: string): Promise<void> => rm(keptPath(config), { force: true });

/** Writes a file of mode 0600 next to its place, syncs it and renames it. `exclusive`: rejects with EEXIST when the file
 *  exists. */
async function writePrivate(path: string, text: string, exclusive = false): Promise<void> {
  const temporary = `${path}.${newToken(6)}`;
  try {
    const file = await open(temporary, "wx", 0o600);
    try {
      await file.chmod(0o600);
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    if (exclusive) await link(temporary, path);
    else await rename(temporary, path);
  } finally {
    await rm(temporary, { force: true });
  }
}

export interface Planned {
  readonly text: string;
  /** File names in the folder of secrets, with their contents. */
  readonly secrets: ReadonlyMap<string, string>;
}

/** Returns the configuration and its secrets. A secret whose file exists with other contents gets another name, so that
 *  a kept configuration stays valid. */
export async function plan(config: string, given: CompleteAnswers, mode: "live" | "shadow"): Promise<Planned> {
  const secrets = new Map<string, string>();
  const secret = async (name: string, value: string): Promise<string> => {
    let free = name;
    for (let count = 2; !(await isFree(join(secretsFolder(config), free), value)); count++) free = `${name}-${count}`;
    secrets.set(free, value);
    return JSON.stringify(isService(config) ? `\${credential:${free}}` : `\${file:secrets/${free}}`);
  };
  const { address, user, answerer: by, responder } = given;
  const id = channelName(address);
  const credentials = await credentialLines(given.login, secret);
  const ca = given.ca === undefined ? [] : [`      ca: ${await caOf(given.ca, isService(config) ? secret : null)}`];
  const side = (name: "imap" | "smtp"): string[] => {
    const { host, port, tls } = given.servers[name];
    return [
      `    ${name}:`,
      `      host: ${quoted(host)}`,
      `      port: ${port}`,
      `      tls: ${tls}`,
      `      user: ${quoted(user)}`,
      ...ca,
      ...credentials.map((line) => `      ${line}`),
    ];
  };
  const lines = [
    `# Written by the command init. All keys: config.example.yaml. Check it: bridgehead check --config ${basename(config)}`,
    ...(await answererLines(by, secret)),
    "channels:",
    `  ${id}:`,
    "    adapter: email",
    "    agent: support",
    ...modeLines(mode),
    ...(user === address ? [] : [`    address: ${quoted(address)}`]),
    ...side("imap"),
    ...side("smtp"),
    ...(responder === null
      ? []
      : [
          "escalation:",
          "  responders:",
          `    first: { email: ${quoted(responder)} }`,
          "  fallback: { notify: [ first ] }",
          // No webhook reports an escalation of the embedded platform, and asking it costs nothing.
          ...(by.kind === "model" ? ["  poll: 1m"] : []),
        ]),
    ...(isService(config) ? [] : ["store: sqlite:bridgehead.db"]),
  ];
  return { text: `${lines.join("\n")}\n`, secrets };
}

type StoreSecret = (name: string, value: string) => Promise<string>;

/** The service sees no file below /home, and none that only another user may read: it gets the CA with its secrets (`store`). */
const caOf = async (path: string, store: StoreSecret | null): Promise<string> =>
  store === null ? quoted(path) : store("mail-ca", (await readFile(path, "utf8")).trim());

const answererLines = async (by: Answerer, secret: StoreSecret): Promise<string[]> =>
  by.kind === "model"
    ? [
        "platform: embedded",
        "model:",
        `  url: ${quoted(by.url)}`,
        ...(by.key === undefined ? [] : [`  key: ${await secret("model-key", by.key)}`]),
        `  name: ${quoted(by.name)}`,
        ...(by.withoutTemperature ? ["  temperature: null"] : []),
        "agents:",
        "  support: {}",
        "    # Replace {} by what the model has to know:",
        "    #instructions: You answer the customers of Acme, a shop for lamps. Parcels take three days.",
      ]
    : [
        "platform:",
        `  url: ${quoted(by.url)}`,
        "agents:",
        "  support:",
        `    key: ${await secret("agent-key", by.key)}`,
      ];

const modeLines = (mode: "live" | "shadow"): string[] =>
  mode === "shadow"
    ? [
        "    # shadow: replies are listed and released one by one. Change it to live when they are good.",
        "    mode: shadow",
      ]
    : ["    mode: live"];

async function credentialLines(given: MailLogin, secret: StoreSecret): Promise<string[]> {
  if (given.kind === "password") return [`password: ${await secret("mail-password", given.password)}`];
  const { issuer, tenant, clientId, clientSecret, refreshToken } = given;
  return [
    "oauth2:",
    `  token_url: ${quoted(issuer)}`,
    ...(tenant === undefined ? [] : [`  tenant: ${quoted(tenant)}`]),
    `  client_id: ${quoted(clientId)}`,
    ...(clientSecret === undefined ? [] : [`  client_secret: ${await secret("oauth-client-secret", clientSecret)}`]),
    `  refresh_token: ${await secret("oauth-refresh-token", refreshToken)}`,
  ];
}

/** A text in YAML; `${` would be a reference. */
const quoted = (text: string): string => JSON.stringify(text.replaceAll("${", "$${"));

function channelName(address: string): string {
  const name = address
    .slice(0, address.indexOf("@"))
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .slice(0, 40)
    .replace(/^-|-$/g, "");
  return name === "" ? "mail" : `${name}-mail`;
}

async function isFree(path: string, value: string): Promise<boolean> {
  const present = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null;
    throw error;
  });
  return present === null || present === `${value}\n`;
}

/** Writes the secrets. They are referenced by no configuration yet. */
export async function writeSecrets(config: string, { secrets }: Planned): Promise<void> {
  if (secrets.size === 0) return;
  const folder = secretsFolder(config);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  if (!isService(config)) await chmod(folder, 0o700);
  for (const [name, value] of secrets) await writePrivate(join(folder, name), `${value}\n`);
}

/** Writes the configuration in one step. `replace`: an existing file is kept under another name, which is returned;
 *  otherwise rejects with EEXIST when there is one. */
export async function writeConfiguration(config: string, text: string, replace: boolean): Promise<string | null> {
  let old: string | null = null;
  if (replace) {
    old = `${config}.${newToken(4)}.old`;
    try {
      await copyFile(config, old);
      await chmod(old, 0o600);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
      old = null;
    }
  }
  await writePrivate(config, text, !replace);
  const owner = isService(config) ? await serviceUser() : null;
  if (owner) await chown(config, owner.uid, owner.gid);
  return old;
}

/** Returns the user that the packages create for the service; null when it does not exist, or this process is not root. */
async function serviceUser(): Promise<{ readonly uid: number; readonly gid: number } | null> {
  if (process.getuid?.() !== 0) return null;
  const users = await readFile("/etc/passwd", "utf8").catch(() => "");
  const [, , uid, gid] =
    users
      .split("\n")
      .find((line) => line.startsWith("bridgehead:"))
      ?.split(":") ?? [];
  return uid === undefined || gid === undefined ? null : { uid: Number(uid), gid: Number(gid) };
}
