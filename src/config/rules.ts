// Rules that involve several keys: references between blocks, and rules for all adapters.

import { dirname, join, resolve } from "node:path";
import type { AdapterDefinition, ExclusiveResource } from "bridgehead/contract";
import { webhookChannel } from "../domain/policy.ts";
import { readOnlyRemedy } from "../ops/private-file.ts";
import type { Disk, Path } from "./document.ts";
import { findingAt, type SchemaFinding } from "./explain.ts";
import { type Shape, secretPaths } from "./json-schema.ts";
import { didYouMean } from "./nearest.ts";
import { defaultStore } from "./schema/file.ts";
import { isLoopback, postgresUrl } from "./schema/values.ts";
import { isReference } from "./secrets.ts";

export type Block = { readonly [key: string]: unknown };

/** Returns a block of keys, or an empty one for any other value, which the schema reports. */
export function block(value: unknown): Block {
  return value !== null && typeof value === "object" && !Array.isArray(value) ? (value as Block) : {};
}

const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

/** Reports a channel with the name of the implicit webhook channel, which is reserved in the store. */
export function takenNames(root: Block): readonly SchemaFinding[] {
  if (!Object.hasOwn(block(root["channels"]), webhookChannel)) return [];
  const message = "is the name of the channel that carries the webhooks of escalations";
  return [findingAt(["channels", webhookChannel], message, "give this channel another name", "key")];
}

export function undefinedAgents(root: Block): readonly SchemaFinding[] {
  const agents = Object.keys(block(root["agents"]));
  return Object.entries(block(root["channels"])).flatMap(([id, channel]) => {
    const agent = block(channel)["agent"];
    if (typeof agent !== "string" || agents.includes(agent)) return [];
    const fix = didYouMean(agent, agents, `add agents.${agent} with its key`);
    return [findingAt(["channels", id, "agent"], `names an agent that is not defined: ${agent}`, fix)];
  });
}

/** Returns what the channel uses exclusively, or the flaw of an adapter that does not name it. */
export function resourcesOf({
  adapter,
  settings,
}: {
  readonly adapter: AdapterDefinition;
  readonly settings: unknown;
}): readonly ExclusiveResource[] | string {
  try {
    const found: unknown = adapter.exclusive?.(settings) ?? [];
    return Array.isArray(found) && found.every((one) => typeof one?.id === "string" && Array.isArray(one.key))
      ? found
      : "returned no array of { id, name, key }";
  } catch (error) {
    return `threw: ${error instanceof Error ? error.message : String(error)}`;
  }
}

/** Reports shared resources: two channels on one mailbox or phone number would both answer. Each adapter
 *  names the resources that its channels use exclusively; a disabled channel uses none. Reported at the
 *  later of the two channels. */
export function sharedResources(
  root: Block,
  read: ReadonlyMap<string, { readonly adapter: AdapterDefinition; readonly settings: unknown }>,
): readonly SchemaFinding[] {
  const channels = block(root["channels"]);
  const owners = new Map<string, string>();
  return Object.keys(channels).flatMap((id) => {
    const channel = read.get(id);
    if (channel === undefined || block(channels[id])["enabled"] === false) return [];
    const resources = resourcesOf(channel);
    // The flaw is a warning: it must not stop the daemon's start.
    if (typeof resources === "string") return [];
    return resources.flatMap((resource): SchemaFinding[] => {
      const owner = owners.get(resource.id);
      if (owner === id) return [];
      owners.set(resource.id, owner ?? id);
      if (owner === undefined) return [];
      const message = `is used by channel ${owner} already: ${resource.name}; both would answer`;
      const fix = `give channel ${id} its own, or remove or disable one of the two channels`;
      return [findingAt(["channels", id, ...resource.key], message, fix)];
    });
  });
}

/** Messages for responders require a channel that responders read. Building the channel checks whether it can send. */
export function unreachableNotify(
  root: Block,
  adapters: ReadonlyMap<string, AdapterDefinition>,
): readonly SchemaFinding[] {
  const channels = block(root["channels"]);
  return Object.entries(channels).flatMap(([id, channel]) => {
    const notify = block(block(channel)["notify"]);
    const name = notify["channel"];
    if (typeof name !== "string") return [];
    const at = (key: readonly (string | number)[], message: string, fix: string): SchemaFinding =>
      findingAt(["channels", id, "notify", ...key], message, fix);
    if (!Object.hasOwn(channels, name)) {
      const fix = didYouMean(name, Object.keys(channels), "name one of this file's channels");
      return [at(["channel"], `names a channel that is not defined: ${name}`, fix)];
    }
    if (block(channels[name])["enabled"] === false)
      return [at(["channel"], `names a channel that does not run: ${name}`, "enable it, or name another one")];
    const adapter = adapters.get(name);
    if (adapter?.traits.platform === "voice") {
      const fix = "name a channel that responders read: mail or texts";
      return [at(["channel"], `names a voice channel: ${name}`, fix)];
    }
    const to: readonly unknown[] = Array.isArray(notify["to"]) ? notify["to"] : [];
    return to.flatMap((one, index) => {
      if (typeof one !== "string" || one === "" || adapter?.address?.(one) !== null) return [];
      return [at(["to", index], `is no address that ${name} can reach: ${one}`, "correct the address")];
    });
  });
}

/** Reports plain text secrets, which end up in backups, tickets and shared screens. The embedded
 *  platform's keys are exempt, because they grant no other access. */
export function literalSecrets(raw: unknown, shape: Shape, base: Path): readonly SchemaFinding[] {
  return secretPaths(shape, raw).flatMap((path) => {
    const text = path.reduce<unknown>((value, step) => (value as Record<string | number, unknown>)[step], raw);
    if (isReference(String(text))) return [];
    const fix = "put it elsewhere and refer to it: ${env:NAME}, ${file:/path} or ${credential:name}";
    return [findingAt([...base, ...path], "is a secret written as plain text", fix)];
  });
}

/** Reports a password in the store's URL, unless it is a reference. */
export function literalStorePassword(root: Block): readonly SchemaFinding[] {
  const match = /^postgres(?:ql)?:\/\/[^/@:]*:(.*)@/.exec(textOf(root["store"]));
  if (match?.[1] === undefined || match[1] === "" || isReference(match[1])) return [];
  const fix = "write postgres://user:${env:PGPASSWORD}@host/database";
  return [findingAt(["store"], "has a password written as plain text", fix)];
}

/** Reports `tls: none`, which sends a password unencrypted. Loopback addresses are exempt. */
export function plainConnections(value: unknown, path: Path): readonly SchemaFinding[] {
  if (Array.isArray(value)) return value.flatMap((item, index) => plainConnections(item, [...path, index]));
  const here = block(value);
  const inner = Object.entries(here).flatMap(([key, deeper]) => plainConnections(deeper, [...path, key]));
  if (here["tls"] !== "none" || typeof here["host"] !== "string" || isLoopback(here["host"])) return inner;
  const message = `is none, but ${here["host"]} is not this machine: the password would be sent in the clear`;
  return [...inner, findingAt([...path, "tls"], message, "use tls: implicit or tls: starttls")];
}

/** Warns about a key sent over http, which can be read in transit. Only a warning: the network may be private. */
export function plainPlatform(root: Block): readonly SchemaFinding[] {
  const url = URL.parse(textOf(block(root["platform"])["url"]));
  if (url?.protocol !== "http:" || isLoopback(url.hostname)) return [];
  return [findingAt(["platform", "url"], "sends the agents' keys unencrypted", "use https")];
}

/** Warns about a PostgreSQL server on another machine without TLS, which its driver uses on request only. */
export function plainStore(root: Block): readonly SchemaFinding[] {
  const text = textOf(root["store"]);
  const url = text.startsWith("postgres") ? postgresUrl(text) : null;
  const isSocket = url?.searchParams.has("host") || /^%2f/i.test(url?.hostname ?? "");
  if (url === null || isSocket || isLoopback(url.hostname)) return [];
  if ((url.searchParams.get("sslmode") ?? "disable") !== "disable" || url.searchParams.has("ssl")) return [];
  return [findingAt(["store"], `sends messages unencrypted to ${url.hostname}`, "add ?sslmode=verify-full to the URL")];
}

/** Reports a path in the platform's URL, because the client adds the API's own path. */
export function pathInPlatform(root: Block): readonly SchemaFinding[] {
  const text = textOf(block(root["platform"])["url"]);
  const [, base, path] = /^(https?:\/\/[^/]+(?:\/.*?)??)((?:\/api)?\/external(?:\/.*)?)$/.exec(text) ?? [];
  if (base === undefined || path === undefined) return [];
  return [
    findingAt(["platform", "url"], `has a path of the interface: ${path}`, `write ${base}: the rest is added to it`),
  ];
}

const listenKeys = ["listen", "admin_listen"] as const;

/** Parses a `host:port` of http; null for any other text. */
function listenerOf(root: Block, key: (typeof listenKeys)[number]): { host: string; port: string } | null {
  const [, host, port] = /^(.*):(\d+)$/.exec(textOf(block(root["http"])[key])) ?? [];
  return host === undefined || port === undefined ? null : { host, port };
}

/** Warns about non-loopback addresses, because both listeners use plain http. Only a warning: it may be
 *  correct in a container, or with a proxy on another machine. */
export function wideListeners(root: Block): readonly SchemaFinding[] {
  return listenKeys.flatMap((key) => {
    const at = listenerOf(root, key);
    if (at === null || isLoopback(at.host)) return [];
    const [message, fix] =
      key === "listen"
        ? [
            `can be reached from other machines over plain http: ${at.host}`,
            `use 127.0.0.1:${at.port} behind a proxy with TLS, or let a firewall admit nothing but the proxy`,
          ]
        : [
            `shows channels, errors and metrics to other machines: ${at.host}`,
            `use 127.0.0.1:${at.port}, or let a firewall admit nothing but the monitoring`,
          ];
    return [findingAt(["http", key], message, fix)];
  });
}

/** The admin listener and the console need ports of their own. */
export function sameListener(root: Block): readonly SchemaFinding[] {
  const [open, admin] = listenKeys.map((key) => listenerOf(root, key));
  const taken = new Map([[open?.port ?? "8025", "http.listen"]]);
  const found: SchemaFinding[] = [];
  const check = (path: Path, port: string | undefined, example: string) => {
    const owner = taken.get(port ?? "0");
    if (port === undefined || port === "0") return;
    if (owner === undefined) taken.set(port, path.join("."));
    else
      found.push(findingAt(path, `has the port of ${owner}: ${port}`, `give it a port of its own, such as ${example}`));
  };
  check(["http", "admin_listen"], admin?.port, "127.0.0.1:9025");
  const own = block(root["console"]);
  const [, port] = /:(\d+)$/.exec(textOf(own["listen"])) ?? [];
  if (own["enabled"] !== false) check(["console", "listen"], port, "127.0.0.1:8027");
  return found;
}

/** Reports paths of SQLite files at which the daemon could not open or create its file. `folder`: base of relative paths. */
export function wrongStorePaths(root: Block, folder: string, disk: Disk): readonly SchemaFinding[] {
  const text = root["store"] === undefined ? defaultStore : textOf(root["store"]);
  const [, store = ""] = /^sqlite:(.+)$/.exec(text) ?? [];
  const platform = textOf(block(block(root["platform"])["embedded"])["database"]);
  return [
    ...wrongPath(["store"], store, "sqlite:", folder, disk),
    ...wrongPath(["platform", "embedded", "database"], platform, "", folder, disk),
  ];
}

function wrongPath(
  key: Path,
  file: string,
  prefix: string,
  folder: string,
  { exists, isWritable, isMountedReadOnly }: Disk,
): readonly SchemaFinding[] {
  if (file === "" || file === ":memory:") return [];
  const path = resolve(folder, file);
  // Only a directory has an entry ".".
  if (exists(`${path}/.`)) {
    const fix = `name a file in it: ${prefix}${join(path, "bridgehead.db")}`;
    return [findingAt(key, `is a directory: ${path}`, fix)];
  }
  const home = dirname(path);
  // The daemon creates a missing folder at its start, with those above it.
  let above = home;
  while (!exists(above) && above !== dirname(above)) above = dirname(above);
  if (!exists(`${above}/.`)) return [findingAt(key, `lies below a file: ${above}`, "correct the path")];
  if (above !== home) {
    if (isWritable(above)) return [];
    const message = `lies in a folder that does not exist and cannot be created: ${home}`;
    const fix = `correct the path, or create the folder for the daemon's user: install -d -m 700 -o bridgehead ${home}`;
    return [findingAt(key, message, fix)];
  }
  const closed = [home, path].find((one) => exists(one) && !isWritable(one));
  if (closed === undefined) return [];
  const message = closed === home ? `lies in a folder that cannot be written: ${home}` : `cannot be written: ${path}`;
  const fix = isMountedReadOnly(closed)
    ? readOnlyRemedy
    : `run this as the daemon's user, and let that user write to ${closed}`;
  return [findingAt(key, message, fix)];
}
