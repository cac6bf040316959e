// Configurations written to a folder of their own, read by the real loader with a small adapter of known shape.

import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type AdapterDefinition, defineAdapter } from "bridgehead/contract";
import * as z from "zod";
import { type Loaded, loadConfig, type Problem } from "../../../src/config/index.ts";

/** A fax machine: a host with tls, a secret, a list of secrets, a number. */
export const fax = defineAdapter({
  name: "fax",
  contract: 1,
  config: z.strictObject({
    host: z.string().describe("Where is the machine?"),
    tls: z.enum(["implicit", "none"]).default("implicit"),
    pin: z.string().meta({ secret: true }).optional(),
    tokens: z.array(z.string().meta({ secret: true })).default([]),
    pages: z.int().min(1).max(9).default(3),
    paper: z.strictObject({ size: z.string(), tray: z.string().default("upper") }).optional(),
  }),
  traits: {
    attachments: false,
    conversations: "person",
    platform: "sms",
  },
  create: () => ({}),
}) as unknown as AdapterDefinition;

export const folder = mkdtempSync(join(tmpdir(), "config-"));
let count = 0;

export async function load(text: string, env: Record<string, string> = {}): Promise<Loaded> {
  const path = join(folder, `${count++}.yaml`);
  writeFileSync(path, text);
  return loadConfig(path, {
    env,
    adapters: async (name) => {
      if (name === "fax") return fax;
      throw Object.assign(new Error(`there is no adapter ${name}`), { fix: `npm install ${name}` });
    },
  });
}

/** `line:column key: message (fix)` of every problem. */
export async function problems(text: string, env: Record<string, string> = {}): Promise<string[]> {
  const loaded = await load(text, env);
  return loaded.ok ? [] : loaded.problems.map(line);
}

export const line = ({ line, column, key, message, fix }: Problem): string =>
  `${line}:${column} ${key}: ${message} (${fix})`;

export const good = `platform: { url: https://platform.example.com }
agents:
  support: { key: "\${env:KEY}" }
channels:
  office:
    adapter: fax
    agent: support
    host: fax.example.com
`;
