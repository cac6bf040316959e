// The agents being served: those of the files, and those created by the admin command in the platform's
// database, also while the server runs. A change by another process is visible to the next request before
// its key is checked.

import { createHmac } from "node:crypto";
import type { Clock, Log } from "bridgehead/contract";
import { type Brain, createBrain } from "../brain/brain.ts";
import { escalationWebhooks } from "../conversations/escalations.ts";
import { keyHash, uuidOf } from "../ids.ts";
import type { PlatformStore } from "../store/store.ts";
import type { WebhookRow } from "../store/webhooks.ts";
import { madeAgent } from "./administration.ts";
import type { AgentDefinition } from "./definition.ts";

export interface Roster {
  all(): readonly AgentDefinition[];
  byKey(key: string): AgentDefinition | undefined;
  /** Returns all agents of the organization with this key. */
  ofOrganizationKey(key: string): readonly AgentDefinition[];
  byId(id: string): AgentDefinition | undefined;
  brain(id: string): Brain | undefined;
  /** Replaces the agents of the files. Answers that are being written use the earlier definition. */
  redefine(fromFiles: readonly AgentDefinition[]): void;
}

/** Creates the roster. Keys, webhooks and knowledge of an earlier start are replaced by the definitions. */
export function createRoster(
  store: PlatformStore,
  defined: readonly AgentDefinition[],
  clock: Clock,
  log: Log,
): Roster {
  const seeded = (agent: AgentDefinition): AgentDefinition =>
    agent.seed === ""
      ? { ...agent, seed: createHmac("sha256", store.messageFiles.secret).update(agent.id).digest("hex") }
      : agent;
  let fromFiles = defined.map(seeded);
  let agents = new Map<string, AgentDefinition>();
  let brains = new Map<string, Brain>();
  let ofOrganizations = new Map<string, AgentDefinition[]>();
  let seen = 0;
  let known = "";

  /** Agents created by command belong to the organization of the files. */
  function made(): AgentDefinition[] {
    const [first] = fromFiles;
    if (!first) return [];
    return store.agents.made().flatMap((row) => {
      if (fromFiles.some(({ id }) => id === row.id)) return [];
      const agent = madeAgent(row, first.organization);
      if (!agent) log.error({ agent: row.name }, "reading an agent of the platform's file failed");
      return agent ?? [];
    });
  }

  function load(): void {
    const all = [...fromFiles, ...made()];
    define(store, fromFiles, all, clock.now());
    agents = new Map(all.map((agent) => [agent.id, agent]));
    brains = new Map(all.map((agent) => [agent.id, createBrain(agent, store.passages, clock)]));
    ofOrganizations = new Map();
    for (const agent of all) {
      if (agent.organization.key === null) continue;
      const hash = keyHash(agent.organization.key);
      ofOrganizations.set(hash, [...(ofOrganizations.get(hash) ?? []), agent]);
    }
  }

  const definitions = () => JSON.stringify(store.agents.made().map(({ id, definition }) => [id, definition]));

  function look(): void {
    const version = store.outsideVersion();
    if (version === seen) return;
    const now = definitions();
    if (now !== known) {
      load();
      log.info({ agents: agents.size }, "agents reloaded");
    }
    known = now;
    seen = version;
  }

  load();
  known = definitions();
  seen = store.outsideVersion();
  return {
    all: () => [...agents.values()],
    byKey(key) {
      look();
      const agent = agents.get(store.agents.idByKeyHash(keyHash(key)) ?? "");
      return agent?.apiEnabled ? agent : undefined;
    },
    ofOrganizationKey(key) {
      look();
      return ofOrganizations.get(keyHash(key)) ?? [];
    },
    byId: (id) => agents.get(id),
    brain: (id) => brains.get(id),
    redefine(next) {
      fromFiles = next.map(seeded);
      load();
    },
  };
}

function define(
  store: PlatformStore,
  fromFiles: readonly AgentDefinition[],
  all: readonly AgentDefinition[],
  now: number,
): void {
  store.agents.define(
    fromFiles.map(({ id, name, keyHash: hash, organization }) => ({
      id,
      name,
      organizationId: organization.id,
      keyHash: hash,
    })),
  );
  for (const { id, organization } of all) store.agents.setOrganization(id, organization.id);
  store.members.define(
    all.flatMap(({ organization }) =>
      organization.members.map(({ email }) => ({
        id: uuidOf("member", organization.id, email.toLowerCase()),
        organization_id: organization.id,
        email: email.toLowerCase(),
        created_at: now,
      })),
    ),
  );
  store.webhooks.define(all.flatMap((agent) => definedWebhooks(agent, now)));
  store.states.define(
    all.flatMap(({ organization }) => organization.states),
    now,
  );
  store.passages.replace(
    all.flatMap(({ id, knowledge }) => knowledge.map((passage) => ({ agentId: id, ...passage }))),
  );
}

// Builds webhook rows from an agent's definition.

/** Ids and secrets are derived from the definition, so they are stable across restarts. */
function definedWebhooks(agent: AgentDefinition, now: number): WebhookRow[] {
  const own = agent.webhooks.map(({ title, description, url, trigger, headers, secret, status }) => {
    const id = uuidOf("webhook", agent.id, trigger, url, title);
    return {
      id,
      agent_id: agent.id,
      title,
      description,
      url,
      trigger,
      headers: JSON.stringify(headers),
      secret: secret ?? `whsec_${createHmac("sha256", agent.seed).update(id).digest("base64")}`,
      status,
      defined: 1 as const,
      created_at: now,
      updated_at: now,
    };
  });
  return [...own, ...escalationWebhooks(agent, now)];
}
