// The key `escalation`: rules that involve several keys (all named items must exist, and every notification must
// reach a responder), and the policy that is built from it.

import { isIP } from "node:net";
import type { AdapterDefinition } from "bridgehead/contract";
import { type Person, type Policy, type RouteOfPolicy, type Tier, type Way, ways } from "../domain/policy.ts";
import { hostOf, isAllowed, isLocalName, isPublic } from "../ops/address.ts";
import type { Adapters } from "./channels.ts";
import type { Path } from "./document.ts";
import { findingAt, type SchemaFinding } from "./explain.ts";
import { knownKeys, shapeOf } from "./json-schema.ts";
import { didYouMean } from "./nearest.ts";
import { type Block, block } from "./rules.ts";
import type { EscalationFile } from "./schema/escalation.ts";

type CarrierKind = "email" | "sms";

interface Routing {
  readonly responders: Block;
  /** The channel that carries a kind; null: none; undefined: unknown because of an error that is reported elsewhere. */
  readonly carriers: Readonly<Record<CarrierKind, string | null | undefined>>;
  readonly channels: Block;
  readonly adapters: Adapters;
}

const elements = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
const texts = (value: unknown): readonly string[] => elements(value).filter((one) => typeof one === "string");

/** `root`: the file with its references resolved. Values with a wrong type are left to the schema. */
export function brokenEscalation(root: Block, adapters: Adapters): readonly SchemaFinding[] {
  if (root["escalation"] === undefined) return [];
  const own = block(root["escalation"]);
  const channels = block(root["channels"]);
  const carriers = {
    email: carrierOf("email", own, channels, adapters),
    sms: carrierOf("sms", own, channels, adapters),
  };
  const scope: Routing = { responders: block(own["responders"]), carriers, channels, adapters };
  const steps = [
    ...wrongTiers(own["tiers"], ["tiers"], scope),
    ...elements(own["routes"]).flatMap((route, index) => wrongRoute(block(route), ["routes", index], root, scope)),
    ...wrongTier(block(own["fallback"]), ["fallback"], scope),
  ];
  const findings = [
    ...Object.keys(scope.responders).flatMap((id) => wrongPerson(id, own, scope)),
    ...steps,
    // Omitted when a step has an error, because the reason is usually the same.
    ...(steps.length === 0 ? unusedAddresses(scope) : []),
    ...(["email", "sms"] as const).flatMap((kind) => wrongVia(kind, own, channels, adapters)),
  ];
  return findings.map((finding) => ({ ...finding, path: ["escalation", ...finding.path] }));
}

/** Warns when the mail channel for responders does not authenticate senders. Responders reply by mail,
 *  and their text is sent to customers. Without the check, anyone who has seen a notification can write
 *  in a responder's name. Only a warning: `off` is a decision that an operator may take. */
export function unauthenticatedResponders(root: Block, adapters: Adapters): readonly SchemaFinding[] {
  const people = Object.values(block(block(root["escalation"])["responders"]));
  if (!people.some((person) => block(person)["email"] !== undefined)) return [];
  const channels = block(root["channels"]);
  const carrier = carrierOf("email", block(root["escalation"]), channels, adapters);
  const adapter = typeof carrier === "string" ? adapters.get(carrier) : undefined;
  if (typeof carrier !== "string" || adapter === undefined) return [];
  // Foreign adapters may have no such check.
  if (!knownKeys(shapeOf(adapter.config), []).includes("sender_auth")) return [];
  const { mode } = block(block(channels[carrier])["sender_auth"]);
  if (mode !== undefined && mode !== "off") return [];
  return [
    {
      path: ["channels", carrier, ...(mode === undefined ? [] : ["sender_auth", "mode"])],
      of: mode === undefined ? "key" : "value",
      message: "carries escalations with sender_auth: off: the answers of responders are not authenticated",
      fix: "set sender_auth.mode to tag (or require)",
    },
  ];
}

function carrierOf(kind: CarrierKind, own: Block, channels: Block, adapters: Adapters): string | null | undefined {
  const named = block(own["via"])[kind];
  if (named !== undefined)
    return typeof named === "string" && wrongVia(kind, own, channels, adapters).length === 0 ? named : undefined;
  const running = Object.keys(channels).filter((id) => block(channels[id])["enabled"] !== false);
  const found = running.find((id) => adapters.get(id)?.traits.platform === kind);
  if (found !== undefined) return found;
  return running.every((id) => adapters.has(id)) ? null : undefined;
}

function wrongVia(kind: CarrierKind, own: Block, channels: Block, adapters: Adapters): readonly SchemaFinding[] {
  const name = block(own["via"])[kind];
  if (typeof name !== "string") return [];
  const path = ["via", kind];
  if (!Object.hasOwn(channels, name)) return [unknownName(path, "a channel", name, Object.keys(channels))];
  if (block(channels[name])["enabled"] === false)
    return [findingAt(path, `names a channel that does not run: ${name}`, "enable it, or name another one")];
  const adapter = adapters.get(name);
  if (!adapter || adapter.traits.platform === kind) return [];
  return [
    findingAt(
      path,
      `names a channel that carries no ${words[kind]}: ${name}`,
      "name one of the right kind, or remove the key",
    ),
  ];
}

const words: Readonly<Record<CarrierKind, string>> = { email: "mail", sms: "texts" };

function unknownName(path: Path, what: string, name: string, known: readonly string[]): SchemaFinding {
  const all = known.length === 0 ? "those defined (there are none)" : known.join(", ");
  const fix = didYouMean(name, known, `name one of ${all}`);
  return findingAt(path, `names ${what} that is not defined: ${name}`, fix);
}

function wrongPerson(id: string, own: Block, scope: Routing): readonly SchemaFinding[] {
  const person = block(scope.responders[id]);
  const path = ["responders", id];
  const findings: SchemaFinding[] = [];
  for (const key of ["hours", "away"] as const)
    if (elements(person[key]).length > 0 && person["time_zone"] === undefined) {
      findings.push(
        findingAt(
          [...path, "time_zone"],
          `is missing: ${key} says when, but not on whose clock`,
          "such as time_zone: Europe/Berlin",
          "key",
        ),
      );
      break;
    }
  for (const kind of ["email", "sms"] as const) {
    const address = person[kind];
    const carrier = scope.carriers[kind];
    if (typeof address !== "string" || address === "" || !carrier) continue;
    if (scope.adapters.get(carrier)?.address?.(address) === null)
      findings.push(
        findingAt([...path, kind], `is no address that ${carrier} can reach: ${address}`, "correct the address"),
      );
    const reader = readerOf(address, scope);
    if (reader !== undefined)
      findings.push(
        findingAt(
          [...path, kind],
          `is an address of channel ${reader}: the notification would reach the agent, not a responder`,
          "name the mailbox or number of the responder",
        ),
      );
  }
  findings.push(...wrongWebhook(block(person["webhook"])["url"], [...path, "webhook", "url"], own));
  return findings;
}

/** Reports a responder's address that no channel can reach: the notification that the operator expects
 *  is never sent. */
const unusedAddresses = ({ responders, carriers }: Routing): readonly SchemaFinding[] =>
  Object.entries(responders).flatMap(([id, person]) =>
    (["email", "sms"] as const)
      .filter((kind) => typeof block(person)[kind] === "string" && carriers[kind] === null)
      .map((kind) =>
        findingAt(
          ["responders", id, kind],
          `is never used: no channel carries ${words[kind]}`,
          `add such a channel, or remove ${kind}`,
          "key",
        ),
      ),
  );

/** Returns the channel that owns the address. A notification to one of the daemon's own channels reaches
 *  no responder. */
function readerOf(address: string, { channels, adapters }: Routing): string | undefined {
  return Object.keys(channels).find((id) => {
    const channel = block(channels[id]);
    const named = [channel["address"] ?? block(channel["imap"])["user"], channel["number"]];
    const own = texts([...named, ...elements(channel["aliases"]), ...elements(channel["own_numbers"])]);
    const form = (text: string) => (adapters.get(id)?.address?.(text) ?? text).toLowerCase();
    return own.some((text) => form(text) === form(address));
  });
}

function wrongWebhook(text: unknown, path: Path, own: Block): readonly SchemaFinding[] {
  const url = URL.parse(typeof text === "string" ? text : "");
  if (!url || isAllowed(hostOf(url), texts(own["allow_private"]))) return [];
  if (url.protocol === "http:") {
    const fix = "use https, or add a host of your own to allow_private";
    return [findingAt(path, "would send what customers write unencrypted", fix)];
  }
  if (url.protocol !== "https:" || !isPrivate(hostOf(url))) return [];
  return [findingAt(path, `is not on the internet: ${url.hostname}`, "add the host to allow_private, if it is meant")];
}

/** Judges by the text alone. The address behind a host name is checked at each request. */
const isPrivate = (host: string): boolean => (isIP(host) === 0 ? isLocalName(host) : !isPublic(host));

function wrongRoute(route: Block, path: Path, root: Block, scope: Routing): readonly SchemaFinding[] {
  const names = (key: "agents" | "channels", what: string): readonly SchemaFinding[] => {
    const known = Object.keys(block(root[key]));
    return elements(route[key]).flatMap((name, index) =>
      typeof name !== "string" || known.includes(name) ? [] : [unknownName([...path, key, index], what, name, known)],
    );
  };
  return [
    ...names("agents", "an agent"),
    ...names("channels", "a channel"),
    ...wrongTiers(route["tiers"], [...path, "tiers"], scope),
  ];
}

const wrongTiers = (tiers: unknown, path: Path, scope: Routing): readonly SchemaFinding[] =>
  elements(tiers).flatMap((tier, index) => wrongTier(block(tier), [...path, index], scope));

/** Validates a tier, or the fallback. */
function wrongTier(tier: Block, path: Path, scope: Routing): readonly SchemaFinding[] {
  const by = tier["by"] === undefined ? null : texts(tier["by"]);
  return elements(tier["notify"]).flatMap((id, index): readonly SchemaFinding[] => {
    if (typeof id !== "string") return [];
    const here = [...path, "notify", index];
    if (!Object.hasOwn(scope.responders, id))
      return [unknownName(here, "a responder", id, Object.keys(scope.responders))];
    if (by === null) return unreachable(id, here, scope);
    return ways.filter((way) => by.includes(way)).flatMap((way) => wrongWay(id, way, here, scope));
  });
}

function unreachable(id: string, path: Path, scope: Routing): readonly SchemaFinding[] {
  const problems = ways.map((way) => wrongWay(id, way, path, scope));
  if (problems.some((found) => found.length === 0)) return [];
  return [
    findingAt(
      path,
      `names a responder who cannot be notified: ${id}`,
      `give escalation.responders.${id} a mailbox, a number or a webhook that a channel carries`,
    ),
  ];
}

/** Warns when the only way to every responder is a channel for customers: when that channel fails, its own alert is not
 *  delivered. */
export function silentFailures(root: Block, adapters: Adapters): readonly SchemaFinding[] {
  const own = block(root["escalation"]);
  const channels = block(root["channels"]);
  const people = Object.values(block(own["responders"])).map(block);
  if (root["escalation"] === undefined || people.length === 0) return [];
  if (people.some((person) => person["webhook"] !== undefined)) return [];
  const used = (["email", "sms"] as const).filter((kind) => people.some((person) => person[kind] !== undefined));
  const carriers = used.map((kind) => carrierOf(kind, own, channels, adapters));
  const [carrier, ...others] = new Set(carriers);
  if (typeof carrier !== "string" || others.length > 0) return [];
  const message = `all responders are notified through channel ${carrier}, also when that channel itself has failed`;
  const fix = "give one of them another way (sms, webhook), or name another channel in escalation.via";
  return [findingAt(["escalation", "responders"], message, fix, "key")];
}

/** Returns the reasons why the responder cannot be notified in this way. */
function wrongWay(id: string, way: Way, path: Path, { responders, carriers }: Routing): readonly SchemaFinding[] {
  if (block(responders[id])[way] === undefined)
    return [
      findingAt(
        path,
        `is notified by ${way}, which ${id} does not have`,
        `add escalation.responders.${id}.${way}, or take ${way} out of by`,
      ),
    ];
  if (way === "webhook" || carriers[way] !== null) return [];
  return [
    findingAt(
      path,
      `is notified by ${way}, but no channel carries ${words[way]}`,
      `add such a channel, or take ${way} out of by`,
    ),
  ];
}

/** The part of a channel that notifications need. */
interface Carrier {
  readonly id: string;
  readonly core: { readonly enabled: boolean };
  readonly adapter: AdapterDefinition;
}

/** `channels` in the file's order: the first enabled channel of a kind carries notifications when `via`
 *  names none. Addresses are normalized by the channel that carries them. */
export function policyOf(file: EscalationFile, channels: readonly Carrier[]): Policy {
  const carrier = (kind: "email" | "sms"): Carrier | undefined =>
    channels.find(({ id, core, adapter }) =>
      file.via[kind] === undefined ? core.enabled && adapter.traits.platform === kind : id === file.via[kind],
    );
  const [email, sms] = [carrier("email"), carrier("sms")];
  const people = Object.entries(file.responders).map(([id, one]): [string, Person] => [
    id,
    {
      id,
      name: one.name ?? id,
      email: canonical(one.email, email),
      sms: canonical(one.sms, sms),
      webhook: one.webhook ? { ...one.webhook, secret: one.webhook.secret ?? null } : null,
      timeZone: one.time_zone ?? "UTC",
      hours: one.hours,
      away: one.away,
    },
  ]);
  const { platform_webhook: hook } = file;
  return {
    responders: new Map(people),
    tiers: file.tiers.map(tierOf),
    routes: file.routes.map(routeOf),
    fallback: { ...file.fallback, by: file.fallback.by ?? null },
    agentRecipients: file.agent_recipients,
    group: file.group,
    link: file.link,
    causes: file.causes,
    downAfter: file.down_after,
    poll: file.poll,
    pollOpen: file.poll_open,
    via: { email: email?.id ?? null, sms: sms?.id ?? null },
    platformWebhook: hook
      ? {
          header: hook.header,
          key: hook.key,
          formerKeys: hook.former_keys,
          signingSecrets: hook.signing_secrets,
          register: hook.register,
        }
      : null,
    allowPrivate: file.allow_private,
  };
}

function canonical(text: string | undefined, carrier: Carrier | undefined): string | null {
  if (text === undefined) return null;
  return carrier?.adapter.address?.(text) ?? text;
}

type TierInFile = EscalationFile["tiers"][number];
const tierOf = ({ by, ...tier }: TierInFile): Tier => ({ ...tier, by: by ?? null });

const routeOf = ({ topics, agents, channels, causes, tiers }: EscalationFile["routes"][number]): RouteOfPolicy => ({
  topics: topics ?? null,
  agents: agents ?? null,
  channels: channels ?? null,
  causes: causes ?? null,
  tiers: tiers.map(tierOf),
});
