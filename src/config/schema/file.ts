// Schema of the whole file.

import * as z from "zod";
import { channels } from "./channel.ts";
import { escalation } from "./escalation.ts";
import { agents, platform } from "./platform.ts";
import { duration, httpUrl, listen, name } from "./values.ts";

const http = z.strictObject({
  listen: listen
    .prefault("127.0.0.1:8025")
    .describe(
      "On which address are webhooks and bare health checks served? Everything but loopback belongs behind a proxy with TLS.",
    ),
  admin_listen: listen
    .optional()
    .describe(
      "On which address are the reasons of /readyz and /metrics served? They name channels and errors: keep it on loopback or in a private network. Default: 127.0.0.1, at a port 1000 above listen's.",
    ),
  public_url: httpUrl
    .optional()
    .describe(
      "Under which address do providers reach it? Signatures are checked against this, never against the Host header.",
    ),
});

const log = z.strictObject({
  level: z
    .enum(["debug", "info", "warn", "error"])
    .default("info")
    .describe("From which level on are lines written?"),
  format: z
    .enum(["auto", "json", "text"])
    .default("auto")
    .describe("How do lines look? auto: text on a terminal, JSON elsewhere."),
});

const retention = z.strictObject({
  raw: duration
    .prefault("30d")
    .describe("How long are raw messages kept? WHAT IS REMOVED CANNOT BE REPLAYED OR BROUGHT BACK."),
  events: duration
    .prefault("365d")
    .describe("How long is the rest of a closed conversation kept? WHAT IS REMOVED IS GONE."),
});

/** `sqlite:<path>` or `postgres://...` */
const store = z
  .string()
  .regex(/^(sqlite:.+|postgres(ql)?:\/\/.+)$/, 'must be "sqlite:<path>" or "postgres://user@host/database"');

export const defaultStore = "sqlite:/var/lib/bridgehead/bridgehead.db";

export const file = z.strictObject({
  platform: platform.describe("Which platform answers?"),
  agents: agents.describe("Which of its agents are used, by the names this file gives them?"),
  channels: channels.describe(
    "Where do people write? CHANGING A CHANNEL'S NAME MAKES IT A NEW CHANNEL: its place in the mailbox and its conversations stay with the old name.",
  ),
  escalation: escalation
    .optional()
    .describe("Who is told when the agent cannot or must not answer? Without it: nobody."),
  http: http.prefault({}).describe("What does the daemon listen on?"),
  store: store
    .default(defaultStore)
    .describe(
      "Where is everything kept? sqlite:<path> (relative to this file) on a local disk, never on NFS; or postgres://... ANOTHER STORE STARTS EMPTY: nothing is moved.",
    ),
  log: log.prefault({}).describe("What does the daemon say?"),
  retention: retention.prefault({}).describe("How long is what kept?"),
  node: name
    .optional()
    .describe("What is this daemon called among several on one PostgreSQL store? Default: the host's name."),
});

export type File = z.output<typeof file>;
