// Masks the secrets of a configuration for display.

import type { Config } from "./config.ts";
import type { Path } from "./document.ts";
import { policySecrets, shownPolicy } from "./escalation.ts";
import { file } from "./schema/file.ts";
import { secretPaths, shapeOf } from "./shape.ts";

const mask = "********";

/** Returns the configuration as plain data, with secrets replaced and adapters as names. For printing
 *  and support. */
export function maskSecrets(config: Config): Record<string, unknown> {
  const channels = config.channels.map(({ id, core, adapter, settings }) => [
    id,
    { ...core, ...(masked(settings, secretPaths(shapeOf(adapter.config), settings)) as object) },
  ]);
  const { platform, agents, escalation } = config;
  const own = masked({ platform, agents }, secretPaths(shapeOf(file), { platform, agents })) as object;
  return {
    ...config,
    ...own,
    channels: Object.fromEntries(channels),
    escalation: escalation && shownPolicy(escalation, mask),
    store: maskStore(config),
  };
}

/** Returns every secret string of a configuration, so that the log can mask them. */
export function secretValues(config: Config): readonly string[] {
  const pick = (value: unknown, paths: readonly Path[]): string[] =>
    paths.map((path) => String(at(value, path)));
  const { platform, agents } = config;
  const own = pick({ platform, agents }, secretPaths(shapeOf(file), { platform, agents }));
  const theirs = config.channels.flatMap(({ adapter, settings }) =>
    pick(settings, secretPaths(shapeOf(adapter.config), settings)),
  );
  const password = config.store.kind === "postgres" ? (URL.parse(config.store.url)?.password ?? "") : "";
  const told = config.escalation ? policySecrets(config.escalation) : [];
  return [...new Set([...own, ...theirs, ...told, password, decodeURIComponent(password)])].filter(
    (text) => text !== "",
  );
}

const at = (value: unknown, path: Path): unknown =>
  path.reduce<unknown>((inner, step) => (inner as Record<string | number, unknown>)[step], value);

function maskStore({ store }: Config): unknown {
  if (store.kind === "sqlite") return store;
  const url = URL.parse(store.url);
  if (url === null) return { ...store, url: mask };
  if (url.password !== "") url.password = mask;
  return { ...store, url: url.href };
}

function masked(value: unknown, paths: readonly Path[]): unknown {
  const copy = structuredClone(value);
  for (const path of paths) {
    const parent = at(copy, path.slice(0, -1)) as Record<string | number, unknown>;
    const last = path.at(-1);
    if (last !== undefined) parent[last] = mask;
  }
  return copy;
}
