// Agents that the administrator's command stores in the platform's own file, while the platform runs or not.

import { randomBytes, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { Clock } from "bridgehead/contract";
import { keyHash, newUuid } from "../ids.ts";
import type { AgentRow } from "../store/agents.ts";
import { openPlatformStore, type PlatformStore } from "../store/store.ts";
import { type AgentDefinition, definitionOf, knowledgeOf } from "./definition.ts";
import { readYaml } from "./file.ts";
import { storedAgent } from "./schema.ts";

/** Returns the agent of a row; null when an earlier or later version wrote an unreadable definition. */
export function madeAgent(row: AgentRow, organization: AgentDefinition["organization"]): AgentDefinition | null {
  const block = storedAgent.safeParse(JSON.parse(row.definition ?? "null"));
  if (!block.success) return null;
  return definitionOf(block.data, {
    id: row.id,
    organization,
    keyHash: row.key_hash ?? "",
    seed: row.seed ?? row.id,
    knowledge: knowledgeOf(block.data, () => null),
  });
}

export interface ListedAgent {
  readonly id: string;
  readonly name: string;
  readonly from: "file" | "command";
  readonly key: "set" | "rotated" | "none";
}

/** Fields of a definition, by their names in a file of agents. */
export type AgentFields = { readonly [name: string]: unknown };

/** The agents in the platform's file. Agents are identified by name or id. */
export class Administration {
  readonly #clock: Clock;
  readonly #store: PlatformStore;

  /** Opens or creates the file. */
  constructor(file: string, clock: Clock) {
    this.#clock = clock;
    this.#store = openPlatformStore(file, "full");
  }

  list(): ListedAgent[] {
    return this.#store.agents.all().map(({ id, name, definition, key_hash, replaced_hash }) => ({
      id,
      name,
      from: definition === null ? "file" : "command",
      key: key_hash === null ? "none" : replaced_hash === null ? "set" : "rotated",
    }));
  }

  /** Creates an agent. Returns its key, which cannot be read again. Throws when the name is taken or a
   *  field is invalid. */
  create({ id: given, ...fields }: AgentFields): { readonly id: string; readonly key: string } {
    const { agents } = this.#store;
    const checked = this.#checked(fields, null);
    const id = typeof given === "string" ? given : newUuid(this.#clock.now());
    if (agents.all().some((row) => row.id === id)) throw new Error(`there is another agent with the id ${id}`);
    const key = newKey();
    const seed = randomBytes(32).toString("base64url");
    agents.make({ id, ...checked, seed, keyHash: keyHash(key) });
    return { id, key };
  }

  /** Changes the given fields of an agent that the command created. Throws like `create`. */
  update(which: string, { id: _id, ...fields }: AgentFields): { readonly id: string } {
    const row = this.#named(which);
    if (row.definition === null) throw new Error(`${row.name} is defined in the file of agents: change it there`);
    const before = JSON.parse(row.definition) as AgentFields;
    const { name, definition } = this.#checked({ ...before, ...fields }, row.id);
    this.#store.agents.change(row.id, name, definition);
    return { id: row.id };
  }

  /** Creates a new key and revokes the old one immediately. Also accepts agents that are defined in a file. */
  rotateKey(which: string): { readonly id: string; readonly key: string } {
    const { id, name, key_hash } = this.#named(which);
    if (key_hash === null) throw new Error(`${name} is defined no longer`);
    const key = newKey();
    this.#store.agents.rotate(id, keyHash(key));
    return { id, key };
  }

  close(): void {
    this.#store.close();
  }

  #named(which: string): AgentRow {
    const found = this.#store.agents.all().filter(({ id, name }) => id === which || name === which);
    const [first] = found;
    if (!first) throw new Error(`there is no agent ${which} (see platform agent list)`);
    if (found.length > 1) throw new Error(`several agents have the name ${which}: give the id`);
    return first;
  }

  #checked(fields: AgentFields, id: string | null): { readonly name: string; readonly definition: string } {
    const block = storedAgent.safeParse(fields);
    if (!block.success)
      throw new Error(block.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`).join("\n"));
    const { name } = block.data;
    const all = this.#store.agents.all();
    if (all.some((row) => row.name === name && row.id !== id && row.key_hash !== null))
      throw new Error(`there is another agent ${name} (update changes it, rotate-key replaces its key)`);
    return { name, definition: JSON.stringify(fields) };
  }
}

/** Reads the fields of one agent from a YAML text, including the documents it refers to. `file` is the
 *  path of the text. Throws one Error with a line for each problem. */
export function readFields(text: string, file: string): AgentFields {
  const { written, refuse } = readYaml(storedAgent.partial(), text, file);
  const fields = written as AgentFields;
  const { knowledge } = fields;
  if (!Array.isArray(knowledge)) return fields;
  const whole = knowledge.map((entry: unknown, at) => {
    if (entry === null || typeof entry !== "object" || !("file" in entry)) return entry;
    const { file: name, title } = entry as { readonly file: string; readonly title?: string };
    try {
      return { title: title ?? name, text: readFileSync(resolve(dirname(file), name), "utf8") };
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      refuse([{ path: ["knowledge", at, "file"], message: `reading it: ${why}` }]);
      return entry;
    }
  });
  return { ...fields, knowledge: whole };
}

/** Returns a random UUID, the format of keys in the interface (External API 2.6, API): 122 random bits. */
const newKey = (): string => randomUUID();
