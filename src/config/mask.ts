// Masks the secrets of a configuration: for display, and in texts that may quote them.

import type { Policy } from "../domain/policy.ts";
import type { Path } from "./document.ts";
import type { ChannelConfig, Config } from "./index.ts";
import { type Shape, secretPaths, shapeOf } from "./json-schema.ts";
import { file } from "./schema/file.ts";
import { postgresUrl } from "./schema/values.ts";

const mask = "********";

/** Returns the configuration as plain data, with secrets replaced and adapters as names. For printing
 *  and support. Of a URL that is a secret, because its path may contain a key, the origin stays. */
export function maskSecrets(config: Config): Record<string, unknown> {
  const secrets = new Set(secretValues(config));
  const masked = (value: unknown): unknown => {
    if (typeof value === "string") return secrets.has(value) ? maskText(value) : value;
    if (Array.isArray(value)) return value.map(masked);
    if (value === null || typeof value !== "object") return value;
    const entries = value instanceof Map ? [...value] : Object.entries(value);
    return Object.fromEntries(entries.map(([key, inner]) => [key, masked(inner)]));
  };
  const channels = config.channels.map(({ id, core, settings }) => [id, masked({ ...core, ...(settings as object) })]);
  const { channels: _, ...rest } = config;
  return { ...(masked(rest) as object), channels: Object.fromEntries(channels), store: maskStore(config) };
}

function maskText(text: string): string {
  const url = URL.parse(text);
  return url !== null && /^https?:$/.test(url.protocol) ? `${url.origin}/${mask}` : mask;
}

/** Returns every secret string of a configuration, so that the log can mask them. */
export function secretValues(config: Config): readonly string[] {
  const { platform, model, agents } = config;
  const root = { platform, model, agents };
  const own = secretsIn(root, shapeOf(file));
  const theirs = config.channels.flatMap(channelSecrets);
  const written = config.store.kind === "postgres" ? (postgresUrl(config.store.url)?.password ?? "") : "";
  const password = decodeURIComponent(written);
  const responders = config.escalation ? policySecrets(config.escalation) : [];
  const monitors = [config.heartbeat?.url ?? "", ...Object.values(config.otlp?.headers ?? {})];
  const passwords = [password, encodeURIComponent(password), written];
  return [...new Set([...own, ...theirs, ...responders, ...monitors, ...passwords])].filter((text) => text !== "");
}

/** Returns every secret string of a channel's own keys. */
export const channelSecrets = ({ adapter, settings }: Pick<ChannelConfig, "adapter" | "settings">): readonly string[] =>
  secretsIn(settings, shapeOf(adapter.config));

const secretsIn = (value: unknown, shape: Shape): string[] =>
  secretPaths(shape, value).map((path) => String(at(value, path)));

const at = (value: unknown, path: Path): unknown =>
  path.reduce<unknown>((inner, step) => (inner as Record<string | number, unknown>)[step], value);

/** Shorter texts are not masked in sentences: that would hide unrelated parts. */
const shortestSecret = 4;

/** Returns a function that masks these secrets in a text, in each of their spellings. */
export function masking(secrets: readonly string[]): (text: string) => string {
  const known = [...new Set(secrets.flatMap(spellings))]
    .filter((secret) => secret.length >= shortestSecret)
    .sort((a, b) => b.length - a.length); // longest first: a contained secret must not leave parts unmasked
  return (text) => known.reduce((masked, secret) => masked.replaceAll(secret, mask), text);
}

/** Spellings of a secret: plain, JSON-escaped and URL-encoded. */
const spellings = (secret: string): string[] => [
  secret,
  JSON.stringify(secret).slice(1, -1),
  encodeURIComponent(secret.toWellFormed()),
];

function maskStore({ store }: Config): unknown {
  if (store.kind === "sqlite") return store;
  const url = postgresUrl(store.url);
  if (url === null) return { ...store, url: mask };
  if (url.password !== "") url.password = mask;
  return { ...store, url: url.href };
}

function policySecrets(policy: Policy): readonly string[] {
  const theirs = [...policy.responders.values()].flatMap(({ webhook }) =>
    webhook ? [webhook.url, webhook.secret ?? "", ...Object.values(webhook.headers)] : [],
  );
  const { platformWebhook: hook } = policy;
  return [...theirs, ...(hook ? [hook.key, ...hook.formerKeys, ...hook.signingSecrets] : [])];
}
