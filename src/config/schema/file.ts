// Schema of the whole file; the blocks of channels and of escalation are in files of their own.

import * as z from "zod";
import { channels } from "./channel.ts";
import { escalation } from "./escalation.ts";
import {
  anyHttpUrl,
  brokenPostgresUrl,
  duration,
  httpUrl,
  isHttpUrl,
  isLoopback,
  listen,
  name,
  postgresUrl,
  secret,
  span,
} from "./values.ts";

/** Margin in milliseconds between the longest answer of the model and the timeout of the request for it. */
export const answerMargin = 10_000;
/** `absent_after` of the embedded platform, in milliseconds. It stores a question before it answers, and ends with the
 *  daemon, so a question that it does not list was lost on the way. */
export const embeddedAbsentAfter = 5000;

/** The platform keeps a query behind the path, so that this URL may have one. */
const modelUrl = z.string().refine(isHttpUrl, "must be an http(s) URL without user or fragment");

const model = z.strictObject({
  url: modelUrl.describe(
    "What is the base URL of the OpenAI-compatible endpoint? /chat/completions or /responses is added.",
  ),
  key: z
    .string()
    .regex(/^[\x21-\x7e]+$/, "must be visible ASCII characters without spaces")
    .meta({ secret: true })
    .optional()
    .describe("What is its API key, if it requires one? Sent as a bearer token."),
  name: z.string().min(1).describe("What is the name of the model, as the endpoint calls it?"),
  api: z
    .enum(["chat", "responses"])
    .default("chat")
    .describe("Which API does the endpoint have? chat: chat completions; responses: responses."),
  temperature: z
    .number()
    .min(0)
    .max(2)
    .nullable()
    .default(0.2)
    .describe("Which temperature is requested? null: none, for models that reject the parameter."),
  reasoning_effort: z
    .enum(["none", "minimal", "low", "medium", "high", "xhigh", "max"])
    .optional()
    .describe("Which reasoning effort is requested? Default: the model's."),
  timeout: span.prefault("30s").describe("After how long without any data does a request fail?"),
  total_timeout: span.prefault("2m").describe("How long may an answer take, with all retries?"),
});

const rate = z.strictObject({
  requests: z
    .int()
    .min(1)
    .max(1_000_000)
    .default(1000)
    .describe("How many requests does the platform allow per organization and interval?"),
  per: span.prefault("60s").describe("How long is the interval?"),
});

const embedded = z.strictObject({
  agents: z
    .string()
    .min(1)
    .optional()
    .describe(
      "Which YAML file defines the organization and its agents? (relative to this file) Default: none, the agents are defined here.",
    ),
  database: z
    .string()
    .min(1)
    .optional()
    .describe(
      "Which file stores the conversations of the embedded platform? (relative to this file) Default: platform.db, next to the store.",
    ),
  listen: listen
    .prefault("127.0.0.1:0")
    .describe("On which address does it serve the API? Port 0 selects a free port."),
});

const platform = z
  .strictObject({
    url: z
      .union([z.literal("embedded"), httpUrl])
      .describe(
        'Where is the platform? An http(s) URL, or "embedded" for the one inside the daemon (in short, platform: embedded).',
      ),
    organization_key: secret.optional().describe("Which organization key does the platform require, if any?"),
    rate: rate.prefault({}).describe("How many requests may all channels together send to the platform?"),
    timeout: span
      .prefault("60s")
      .describe(
        "How long may a request take before its outcome is unknown? Default with the key model: 10s longer than model.total_timeout.",
      ),
    absent_after: span
      .prefault("30s")
      .describe(
        "How long after a request without a response does a question that the platform does not list count as absent? Absent questions are asked again. Default: 30s; 5s for the embedded platform, which stores a question before it answers.",
      ),
    embedded: embedded.optional().describe("Where are the agents and the data of the embedded platform?"),
  })
  .superRefine((value, context) => {
    if (value.url !== "embedded" && value.embedded !== undefined) {
      context.addIssue({
        code: "custom",
        path: ["embedded"],
        message: 'is only used when url is "embedded"',
        params: { fix: "remove the block, or set url: embedded" },
      });
    }
  });

const agent = z.strictObject({
  key: secret.optional().describe("What is the API key of this agent? Required, except with the key model."),
  refresh: span.prefault("60s").describe("How often are its settings (delay, signature, status) reloaded?"),
  instructions: z
    .string()
    .optional()
    .describe("With the key model: which instructions does the model receive? Default: to be brief and honest."),
  knowledge: z
    .array(z.string().min(1))
    .optional()
    .describe("With the key model: in which text files does it find answers? (relative to this file)"),
  skills: z
    .record(z.string(), z.unknown())
    .optional()
    .describe("With the key model: which skills does the agent have (docs/platform.md)?"),
});

const agents = z.record(name, agent);

const http = z.strictObject({
  listen: listen
    .prefault("127.0.0.1:8025")
    .describe(
      "Which address serves webhooks and health checks without details? Use a reverse proxy with TLS for every address except loopback.",
    ),
  admin_listen: listen
    .optional()
    .describe(
      "Which address serves /metrics, and /readyz with details? They contain channel names and errors: use loopback or a private network. Default: 127.0.0.1, with the port of listen + 1000.",
    ),
  public_url: httpUrl
    .optional()
    .describe(
      "Under which URL do providers reach the daemon? Signatures are verified against it, never against the Host header.",
    ),
});

const webConsole = z
  .strictObject({
    enabled: z.boolean().default(true).describe("Is the web console served?"),
    listen: listen
      .optional()
      .describe(
        "Which address serves it? Only loopback, unless public_url names a proxy with TLS. Default: 127.0.0.1, with the port of http.listen + 2.",
      ),
    public_url: httpUrl
      .refine((url) => URL.parse(url)?.pathname === "/", "must have no path: the console uses all paths of its host")
      .optional()
      .describe("Under which URL does a reverse proxy with TLS serve it? Default: none."),
  })
  .superRefine(({ enabled, listen: at, public_url: url }, context) => {
    const issue = (key: string, message: string, fix: string) =>
      context.addIssue({ code: "custom", path: [key], message, params: { fix } });
    const proxied = url?.startsWith("https:") === true;
    if (url !== undefined && !proxied && !isLoopback(URL.parse(url)?.hostname ?? ""))
      issue("public_url", "would send the session of an operator unencrypted", "use https, through a proxy with TLS");
    if (enabled && at !== undefined && !isLoopback(at.host) && !proxied)
      issue(
        "listen",
        `would serve the console to other machines over plain http: ${at.host}`,
        `use 127.0.0.1:${at.port} and ssh -L, or a proxy with TLS, and set console.public_url to its https URL`,
      );
  });

const log = z.strictObject({
  level: z
    .enum(["debug", "info", "warn", "error"])
    .default("info")
    .describe("What is the lowest level that is logged?"),
  format: z
    .enum(["auto", "json", "text"])
    .default("auto")
    .describe("Which format do log lines have? auto: text on a terminal, otherwise JSON."),
});

const retention = z.strictObject({
  raw: duration
    .prefault("30d")
    .describe(
      "How long are raw messages retained, and copies of the store next to it? DELETED MESSAGES CANNOT BE RESTORED OR PROCESSED AGAIN. An active DATA_RETENTION skill of the agent applies to its channels where it is shorter, to this key and the next.",
    ),
  events: duration
    .prefault("365d")
    .describe("How long is the other data of a closed conversation retained? DELETED DATA CANNOT BE RESTORED."),
});

const heartbeat = z.strictObject({
  url: anyHttpUrl.describe("Which URL is requested (GET) while the daemon is ready? Responses other than 2xx fail."),
  every: span.prefault("60s").describe("How often is it requested?"),
});

const otlp = z.strictObject({
  url: anyHttpUrl.describe("Which OTLP/HTTP endpoint receives traces? It usually ends in /v1/traces."),
  headers: z.record(z.string(), secret).default({}).describe("Which headers are sent to it, such as an API key?"),
});

/** `sqlite:<path>` or `postgres://...` */
const store = z
  .string()
  .regex(/^(sqlite:.+|postgres(ql)?:\/\/.+)$/, {
    error: 'must be "sqlite:<path>" or "postgres://user@host/database"',
    abort: true,
  })
  .refine((text) => text.startsWith("sqlite:") || postgresUrl(text) !== null, {
    error: brokenPostgresUrl.message,
    params: { fix: brokenPostgresUrl.fix },
  });

export const defaultStore = "sqlite:/var/lib/bridgehead/bridgehead.db";

export const file = z.strictObject({
  platform: platform.describe("Which agent platform answers?"),
  model: model
    .optional()
    .describe("Which model answers? Only with platform: embedded, and without platform.embedded.agents."),
  agents: agents.describe("Which agents of the platform are used? The names are chosen here."),
  channels: channels.describe(
    "Which channels are there? A RENAMED CHANNEL IS A NEW CHANNEL: its position in the mailbox and its conversations stay with the old name.",
  ),
  escalation: escalation
    .optional()
    .describe("Which responders are notified when the agent cannot or must not answer? Default: none."),
  http: http.prefault({}).describe("On which addresses does the daemon listen?"),
  console: webConsole.prefault({}).describe("Where is the web console for operators?"),
  store: store
    .default(defaultStore)
    .describe(
      "Where is the store? sqlite:<path> (relative to this file) on a local disk, never on NFS; or postgres://... ANOTHER STORE STARTS EMPTY: no data is migrated.",
    ),
  log: log.prefault({}).describe("What is logged?"),
  retention: retention.prefault({}).describe("How long is data retained?"),
  heartbeat: heartbeat
    .optional()
    .describe(
      "Which dead-man's switch (such as healthchecks.io) raises an alarm when the daemon is not ready any more? Default: none.",
    ),
  otlp: otlp
    .optional()
    .describe("Where are OpenTelemetry traces sent: one trace per message, one span per hop? Default: nowhere."),
  node: name
    .optional()
    .describe("What is the name of this node, when several use one PostgreSQL store? Default: the host name."),
});

export type File = z.output<typeof file>;
