// platform: and agents: the platform and its agents that the daemon asks.

import * as z from "zod";
import { httpUrl, listen, name, secret, span } from "./values.ts";

const rate = z.strictObject({
  requests: z
    .int()
    .min(1)
    .max(1_000_000)
    .default(1000)
    .describe("How many calls does the platform allow one organization in the window?"),
  per: span.prefault("60s").describe("How long is that window?"),
});

const embedded = z.strictObject({
  agents: z
    .string()
    .min(1)
    .describe("Which YAML file defines the organization and its agents? (relative to this file)"),
  database: z
    .string()
    .min(1)
    .describe("Where does the embedded platform keep its conversations? (relative to this file)"),
  listen: listen
    .prefault("127.0.0.1:0")
    .describe("On which address does it serve the interface? Port 0 takes any free port."),
});

export const platform = z
  .strictObject({
    url: z
      .union([z.literal("embedded"), httpUrl])
      .describe(
        'Where is the platform? An http(s) URL, or "embedded" for the one inside the daemon, for trying out.',
      ),
    organization_key: secret.optional().describe("Does the platform want the organization's key as well?"),
    rate: rate.prefault({}).describe("How fast may all channels together call the platform?"),
    timeout: span
      .prefault("60s")
      .describe("How long may one call take before its outcome counts as unknown?"),
    absent_after: span
      .prefault("30s")
      .describe(
        "How long after an unanswered call is it believed that a question is not there, so that it may be asked again?",
      ),
    embedded: embedded
      .optional()
      .describe("Where does the embedded platform find its agents and keep its data?"),
  })
  .superRefine((value, context) => {
    if (value.url === "embedded" && value.embedded === undefined) {
      context.addIssue({
        code: "custom",
        path: ["embedded"],
        message: 'is missing: url is "embedded"',
        params: { fix: "add embedded: { agents: agents.yaml, database: platform.db }" },
      });
    }
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
  key: secret.describe("With which key is this agent called?"),
  refresh: span.prefault("60s").describe("How often are its settings (delay, signature, status) read again?"),
});

export const agents = z.record(name, agent);
