// platform: and agents: the platform and its agents that the daemon asks.

import * as z from "zod";
import { httpUrl, listen, name, secret, span } from "./values.ts";

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
    .describe("Which YAML file defines the organization and its agents? (relative to this file)"),
  database: z
    .string()
    .min(1)
    .describe("Which file stores the conversations of the embedded platform? (relative to this file)"),
  listen: listen
    .prefault("127.0.0.1:0")
    .describe("On which address does it serve the API? Port 0 selects a free port."),
});

export const platform = z
  .strictObject({
    url: z
      .union([z.literal("embedded"), httpUrl])
      .describe(
        'Where is the platform? An http(s) URL, or "embedded" for the one inside the daemon, for trying out.',
      ),
    organization_key: secret.optional().describe("Which organization key does the platform require, if any?"),
    rate: rate.prefault({}).describe("How many requests may all channels together send to the platform?"),
    timeout: span.prefault("60s").describe("How long may a request take before its outcome is unknown?"),
    absent_after: span
      .prefault("30s")
      .describe(
        "How long after a request without a response does a question that the platform does not list count as absent? Absent questions are asked again.",
      ),
    embedded: embedded.optional().describe("Where are the agents and the data of the embedded platform?"),
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
  key: secret.describe("What is the API key of this agent?"),
  refresh: span.prefault("60s").describe("How often are its settings (delay, signature, status) reloaded?"),
});

export const agents = z.record(name, agent);
