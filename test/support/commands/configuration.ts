// Configurations written to a folder of their own, read by the real loader with a small adapter of known shape.

import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type AdapterDefinition, defineAdapter } from "bridgehead/contract";
import * as z from "zod";
import type { Diagnosis } from "../../../src/commands/doctor/catalogue.ts";
import { type DoctorOptions, doctor } from "../../../src/commands/doctor/run.ts";
import type { Disk } from "../../../src/config/document.ts";
import { type Loaded, loadConfig, type Problem } from "../../../src/config/index.ts";
import { systemClock } from "../../../src/ops/clock.ts";
import type { Query } from "../../../src/store/driver.ts";
import { migrate } from "../../../src/store/migrate.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { commandIo } from "../machine/command.ts";
import { newFolder } from "../resources.ts";

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

export async function load(text: string, env: Record<string, string> = {}, disk?: Disk): Promise<Loaded> {
  const path = join(folder, `${count++}.yaml`);
  writeFileSync(path, text);
  return loadConfig(path, {
    env,
    ...(disk && { disk }),
    adapters: async (name) => {
      if (name === "fax") return fax;
      throw Object.assign(new Error(`there is no adapter ${name}`), { fix: `npm install ${name}` });
    },
  });
}

/** `line:column key: message (fix)` of every problem. */
export async function problems(text: string, env: Record<string, string> = {}, disk?: Disk): Promise<string[]> {
  const loaded = await load(text, env, disk);
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

// Runs `bridgehead doctor` on a configuration of its own, in this process.

export interface Examined {
  readonly code: number;
  readonly findings: readonly Diagnosis[];
  /** Ids in the order of the output. */
  readonly ids: readonly string[];
  readonly fixed: readonly string[];
}

export interface Fixture {
  readonly folder: string;
  readonly config: string;
  /** Writes the configuration; the escalation policy and the listeners are added. */
  write(text: string): void;
  doctor(options?: Partial<DoctorOptions>): Promise<Examined>;
  /** The output for an operator. */
  print(options?: Partial<DoctorOptions>): Promise<{ readonly code: number; readonly text: string }>;
  /** Creates the store and changes it. */
  stored(work?: (q: Query) => Promise<unknown>): Promise<void>;
}

export const env = { KEY: "agent-key", SECRET: "secret" };

/** The rest of a configuration without findings of its own. Port 0 of the listeners: no daemon is expected. */
export const rest = `
escalation: { responders: { op: { webhook: { url: "https://ops.example.com" } } }, fallback: { notify: [ op ] } }
http: { listen: "127.0.0.1:0" }
store: sqlite:data/store.db
`;

export function fixture(): Fixture {
  const folder = newFolder();
  const config = join(folder, "bridgehead.yaml");
  mkdirSync(join(folder, "data"), { mode: 0o700 });
  const store = join(folder, "data/store.db");
  const out: string[] = [];
  const io = commandIo({
    out: (line) => void out.push(line),
    err: (line) => void out.push(line),
    env,
    cwd: folder,
  });
  const print = async (options: Partial<DoctorOptions> = {}) => {
    out.length = 0;
    const code = await doctor({ config, ...options }, io);
    return { code, text: out.join("\n") };
  };
  return {
    folder,
    config,
    write: (text) => writeFileSync(config, text + rest, { mode: 0o600 }),
    async doctor(options = {}) {
      const { code } = await print({ ...options, json: true });
      const line = out.find((one) => one.startsWith("{")) ?? "{}";
      const { findings, fixed } = JSON.parse(line) as { findings: Diagnosis[]; fixed: string[] };
      return { code, findings, fixed, ids: findings.map(({ id }) => id) };
    },
    print,
    async stored(work) {
      const db = openSqlite(store, () => systemClock.now());
      await migrate(db);
      if (work !== undefined) await db.tx(work);
      await db.close();
    },
  };
}
