// Masks the secrets of a configuration for display.

import type { Policy } from "../domain/policy.ts";
import type { Path } from "./document.ts";
import type { Config } from "./index.ts";
import { secretPaths, shapeOf } from "./json-schema.ts";
import { file } from "./schema/file.ts";

const mask = "********";

/** Returns the configuration as plain data, with secrets replaced and adapters as names. For printing
 *  and support. */
export function maskSecrets(config: Config): Record<string, unknown> {
  const channels = config.channels.map(({ id, core, adapter, settings }) => [
    id,
    { ...core, ...(masked(settings, secretPaths(shapeOf(adapter.config), settings)) as object) },
  ]);
  const { platform, model, agents, escalation } = config;
  const root = { platform, model, agents };
  const own = masked(root, secretPaths(shapeOf(file), root)) as object;
  return {
    ...config,
    ...own,
    channels: Object.fromEntries(channels),
    escalation: escalation && shownPolicy(escalation),
    heartbeat: config.heartbeat && {
      ...config.heartbeat,
      url: `${new URL(config.heartbeat.url).origin}/${mask}`,
    },
    otlp: config.otlp && { ...config.otlp, headers: maskedValues(config.otlp.headers) },
    store: maskStore(config),
  };
}

/** Returns every secret string of a configuration, so that the log can mask them. */
export function secretValues(config: Config): readonly string[] {
  const pick = (value: unknown, paths: readonly Path[]): string[] =>
    paths.map((path) => String(at(value, path)));
  const { platform, model, agents } = config;
  const root = { platform, model, agents };
  const own = pick(root, secretPaths(shapeOf(file), root));
  const theirs = config.channels.flatMap(({ adapter, settings }) =>
    pick(settings, secretPaths(shapeOf(adapter.config), settings)),
  );
  const password = config.store.kind === "postgres" ? (URL.parse(config.store.url)?.password ?? "") : "";
  const told = config.escalation ? policySecrets(config.escalation) : [];
  const monitors = [config.heartbeat?.url ?? "", ...Object.values(config.otlp?.headers ?? {})];
  return [
    ...new Set([...own, ...theirs, ...told, ...monitors, password, decodeURIComponent(password)]),
  ].filter((text) => text !== "");
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

const maskedValues = (record: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.keys(record).map((key) => [key, mask]));

/** Returns the policy as plain data without secrets: keys, and the paths of webhooks, which often
 *  contain a key. */
function shownPolicy(policy: Policy): Record<string, unknown> {
  const people = [...policy.responders].map(([id, { webhook, ...person }]) => [
    id,
    {
      ...person,
      webhook: webhook && {
        url: `${new URL(webhook.url).origin}/${mask}`,
        headers: maskedValues(webhook.headers),
        secret: webhook.secret && mask,
      },
    },
  ]);
  const { platformWebhook: hook } = policy;
  return {
    ...policy,
    responders: Object.fromEntries(people),
    platformWebhook: hook && { ...hook, key: mask, signingSecrets: hook.signingSecrets.map(() => mask) },
  };
}

/** Returns every secret string of the policy. */
function policySecrets(policy: Policy): readonly string[] {
  const theirs = [...policy.responders.values()].flatMap(({ webhook }) =>
    webhook ? [webhook.url, webhook.secret ?? "", ...Object.values(webhook.headers)] : [],
  );
  const { platformWebhook: hook } = policy;
  return [...theirs, ...(hook ? [hook.key, ...hook.signingSecrets] : [])];
}
