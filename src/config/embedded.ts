// The embedded platform in the same file: `platform: embedded` with `model`. Adds what the short form omits, and
// reports keys that do not go together.

import { createHmac } from "node:crypto";
import { dirname, join, resolve } from "node:path";
import { newToken } from "../ops/clock.ts";
import { databasePath } from "./document.ts";
import { findingAt, type SchemaFinding } from "./explain.ts";
import type { Config, StoreConfig } from "./index.ts";
import { type Block, block } from "./rules.ts";
import type { File } from "./schema/file.ts";
import { answerMargin, embeddedAbsentAfter } from "./schema/file.ts";

/** Writes out the short form `platform: embedded`. Any other value is returned unchanged. */
export function longForm(root: unknown): unknown {
  const whole = block(root);
  return whole["platform"] === "embedded" ? { ...whole, platform: { url: "embedded" } } : root;
}

const ownKeys = ["instructions", "knowledge", "skills"] as const;

/** Reports missing and superfluous keys. `root` is the file with references resolved, in its long form. */
export function embeddedProblems(root: Block): readonly SchemaFinding[] {
  const platform = block(root["platform"]);
  const isEmbedded = platform["url"] === "embedded";
  const hasModel = root["model"] !== undefined;
  const agents = Object.entries(block(root["agents"]));
  const fromFile = block(platform["embedded"])["agents"] !== undefined;
  const findings: SchemaFinding[] = [];
  if (!isEmbedded && hasModel) {
    const fix = "write platform: embedded, or remove the block";
    findings.push(findingAt(["model"], "is only used by the embedded platform", fix, "key"));
  }
  if (isEmbedded && !hasModel && !fromFile) {
    const message = "is missing: the embedded platform needs a model that answers";
    findings.push(findingAt(["model"], message, "add model: { url: ..., name: ... }"));
  }
  if (isEmbedded && hasModel && fromFile) {
    const message = "is not used: the agents and their models are in platform.embedded.agents";
    findings.push(findingAt(["model"], message, "remove one of the two", "key"));
  }
  const inline = isEmbedded && hasModel && !fromFile;
  for (const [name, agent] of agents) {
    const written = block(agent);
    if (!inline && written["key"] === undefined)
      findings.push(findingAt(["agents", name, "key"], "is missing", "add key (What is its API key?)"));
    for (const key of inline ? [] : ownKeys) {
      if (written[key] === undefined) continue;
      const fix = "remove it: the platform defines the agent";
      findings.push(findingAt(["agents", name, key], "is only used with the key model", fix, "key"));
    }
  }
  return findings;
}

/** Warns when the conversations of the embedded platform are not in the shared store. */
export function embeddedWarnings(root: Block): readonly SchemaFinding[] {
  const store = root["store"];
  if (block(root["platform"])["url"] !== "embedded" || typeof store !== "string") return [];
  if (!store.startsWith("postgres")) return [];
  const message = "is embedded: its conversations are in a file on this machine, not in PostgreSQL";
  return [findingAt(["platform"], message, "run one node only, or use a platform that all nodes reach")];
}

/** The key of an agent that has none in the file. It opens only this process's embedded platform, and changes
 *  with the process. */
const processKey = newToken();

/** Returns the blocks `platform` and `agents` with absolute paths, and with the defaults that depend on the
 *  store and the model. `written` are the keys of the block `platform` that the file has. */
export function embeddedConfig(
  data: File,
  folder: string,
  store: StoreConfig,
  written: object,
): Pick<Config, "platform" | "agents"> {
  const { platform, model } = data;
  const { embedded: _, ...rest } = platform;
  const agents = Object.fromEntries(
    Object.entries(data.agents).map(([name, agent]) => [
      name,
      {
        ...agent,
        key: agent.key ?? createHmac("sha256", processKey).update(name).digest("base64url"),
        ...(agent.knowledge && { knowledge: agent.knowledge.map((path) => resolve(folder, path)) }),
      },
    ]),
  );
  if (platform.url !== "embedded") return { platform: rest, agents };
  const { agents: file, database, listen } = platform.embedded ?? defaultEmbedded;
  const embedded = {
    ...(file !== undefined && { agents: resolve(folder, file) }),
    database: embeddedDatabase(database, folder, store),
    listen,
  };
  // A request that ends before the model would abort every slow answer and ask for it again.
  const timeout = model && !("timeout" in written) ? model.total_timeout + answerMargin : platform.timeout;
  const absent_after = "absent_after" in written ? platform.absent_after : embeddedAbsentAfter;
  return { platform: { ...rest, timeout, absent_after, embedded }, agents };
}

/** Returns the path of the embedded platform's database: as written, or next to the store. */
export function embeddedDatabase(written: string | undefined, folder: string, store: StoreConfig): string {
  if (written !== undefined) return databasePath(folder, written);
  if (store.kind === "postgres") return "/var/lib/bridgehead/platform.db";
  return store.file === ":memory:" ? ":memory:" : join(dirname(store.file), "platform.db");
}

const defaultEmbedded = { agents: undefined, database: undefined, listen: { host: "127.0.0.1", port: 0 } };
