// The agents being served: those of the files, and those created by the admin command in the platform's database, also
// while the server runs. A change by another process is visible to the next request before its key is checked.

import { createHmac } from "node:crypto";
import type { Clock, Log } from "bridgehead/contract";
import { type Brain, createBrain } from "../brain/brain.ts";
import { escalationWebhooks } from "../conversations/escalations.ts";
import { keyHash, uuidOf } from "../ids.ts";
import type { PlatformStore } from "../store/store.ts";
import type { WebhookRow } from "../store/webhooks.ts";
import { definedWebhook } from "../webhooks/deliveries.ts";
import { madeAgent } from "./administration.ts";
import type { AgentDefinition } from "./definition.ts";

export class Roster {
  readonly #store: PlatformStore;
  readonly #clock: Clock;
  readonly #log: Log;
  #fromFiles: readonly AgentDefinition[];
  #agents: ReadonlyMap<string, AgentDefinition> = new Map();
  #brains: ReadonlyMap<string, Brain> = new Map();
  /** By hash of the organization's key. */
  #ofOrganizations: ReadonlyMap<string, readonly AgentDefinition[]> = new Map();
  /** The version of the file, and the definitions in it, when they were loaded. */
  #seen: number;
  #known: string;

  /** Keys, webhooks and knowledge of an earlier start are replaced by the definitions. */
  constructor(store: PlatformStore, defined: readonly AgentDefinition[], clock: Clock, log: Log) {
    this.#store = store;
    this.#clock = clock;
    this.#log = log;
    this.#fromFiles = defined.map((agent) => this.#seeded(agent));
    this.#load();
    this.#known = this.#definitions();
    this.#seen = store.outsideVersion();
  }

  all(): readonly AgentDefinition[] {
    return [...this.#agents.values()];
  }

  byKey(key: string): AgentDefinition | undefined {
    this.#look();
    const agent = this.#agents.get(this.#store.agents.idByKeyHash(keyHash(key)) ?? "");
    return agent?.apiEnabled ? agent : undefined;
  }

  ofOrganizationKey(key: string): readonly AgentDefinition[] {
    this.#look();
    return this.#ofOrganizations.get(keyHash(key)) ?? [];
  }

  byId(id: string): AgentDefinition | undefined {
    return this.#agents.get(id);
  }

  brain(id: string): Brain | undefined {
    return this.#brains.get(id);
  }

  /** Replaces the agents of the files. Answers that are being written use the earlier definition. Returns a function that
   *  puts the earlier agents in place again; an error does so as well. */
  redefine(fromFiles: readonly AgentDefinition[]): () => void {
    const earlier = this.#fromFiles;
    const restore = () => {
      this.#fromFiles = earlier;
      this.#load();
    };
    try {
      this.#fromFiles = fromFiles.map((agent) => this.#seeded(agent));
      this.#load();
    } catch (error) {
      restore();
      throw error;
    }
    return restore;
  }

  #seeded(agent: AgentDefinition): AgentDefinition {
    if (agent.seed !== "") return agent;
    const { secret } = this.#store.messageFiles;
    return { ...agent, seed: createHmac("sha256", secret).update(agent.id).digest("hex") };
  }

  /** Agents created by command belong to the organization of the files. */
  #made(): AgentDefinition[] {
    const [first] = this.#fromFiles;
    if (!first) return [];
    return this.#store.agents.made().flatMap((row) => {
      if (this.#fromFiles.some(({ id }) => id === row.id)) return [];
      const agent = madeAgent(row, first.organization);
      if (!agent) this.#log.error({ agent: row.name }, "reading an agent of the platform's file failed");
      return agent ?? [];
    });
  }

  #load(): void {
    const all = [...this.#fromFiles, ...this.#made()];
    define(this.#store, this.#fromFiles, all, this.#clock.now());
    this.#agents = new Map(all.map((agent) => [agent.id, agent]));
    const brain = (agent: AgentDefinition) => createBrain(agent, this.#store.passages, this.#clock);
    this.#brains = new Map(all.map((agent) => [agent.id, brain(agent)]));
    const withKey = all.filter(({ organization }) => organization.key !== null);
    this.#ofOrganizations = Map.groupBy(withKey, ({ organization }) => keyHash(organization.key ?? ""));
  }

  #definitions(): string {
    return JSON.stringify(this.#store.agents.made().map(({ id, definition }) => [id, definition]));
  }

  /** Loads the agents when another process has changed those in the file. */
  #look(): void {
    const version = this.#store.outsideVersion();
    if (version === this.#seen) return;
    const now = this.#definitions();
    if (now !== this.#known) {
      this.#load();
      this.#log.info({ agents: this.#agents.size }, "agents reloaded");
    }
    this.#known = now;
    this.#seen = version;
  }
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
  store.passages.replace(all.flatMap(({ id, knowledge }) => knowledge.map((passage) => ({ agentId: id, ...passage }))));
}

/** Ids are derived from the definition, so they are stable across restarts. */
function definedWebhooks(agent: AgentDefinition, now: number): WebhookRow[] {
  const own = agent.webhooks.map(({ headers, secret, ...webhook }) => {
    const id = uuidOf("webhook", agent.id, webhook.trigger, webhook.url, webhook.title);
    return definedWebhook(agent, { id, ...webhook }, headers, now, secret);
  });
  return [...own, ...escalationWebhooks(agent, now)];
}
