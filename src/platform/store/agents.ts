// Agents: those of the definition files, recorded at every start, and those created by command, which exist
// only here. Keys are stored as hashes.

import type { conversationState } from "../../wire/conversation.ts";
import type { Served } from "../../wire/record.ts";
import type { AgentDefinition, StateDefinition } from "../agents/definition.ts";
import type { Db } from "./store.ts";

export interface AgentRow {
  readonly id: string;
  readonly organization_id: string;
  readonly name: string;
  /** Hash of the API key; null when the agent has no valid key. */
  readonly key_hash: string | null;
  /** JSON definition; null when the agent comes from a file. */
  readonly definition: string | null;
  readonly seed: string | null;
  /** Hash of the file's key that a rotation replaced. The rotated key stays valid as long as the file
   *  contains the old one. */
  readonly replaced_hash: string | null;
}

type FromFile = Pick<AgentDefinition, "id" | "name" | "keyHash"> & { readonly organizationId: string };

type Made = Required<Pick<AgentRow, "id" | "name">> & {
  readonly definition: string;
  readonly seed: string;
  readonly keyHash: string;
};

export function prepareAgents(db: Db) {
  const all = db.prepare<[], AgentRow>("SELECT * FROM agent ORDER BY name, id");
  const made = db.prepare<[], AgentRow>("SELECT * FROM agent WHERE definition IS NOT NULL ORDER BY name, id");
  const retire = db.prepare("UPDATE agent SET key_hash = NULL WHERE definition IS NULL");
  const define = db.prepare<[object]>(
    `INSERT INTO agent (id, organization_id, name, key_hash) VALUES (@id, @organizationId, @name, @hash)
     ON CONFLICT (id) DO UPDATE SET organization_id = excluded.organization_id, name = excluded.name,
       key_hash = excluded.key_hash, replaced_hash = @replaced, definition = NULL, seed = NULL`,
  );
  const make = db.prepare<[Made]>(
    `INSERT INTO agent (id, organization_id, name, key_hash, definition, seed)
     VALUES (@id, '', @name, @keyHash, @definition, @seed)`,
  );
  const change = db.prepare("UPDATE agent SET name = ?, definition = ? WHERE id = ?");
  const setOrganization = db.prepare("UPDATE agent SET organization_id = @to WHERE id = @id");
  const rotate = db.prepare(
    `UPDATE agent SET key_hash = ?,
       replaced_hash = CASE WHEN definition IS NULL THEN coalesce(replaced_hash, key_hash) END WHERE id = ?`,
  );
  const byKeyHash = db.prepare<[string], string>("SELECT id FROM agent WHERE key_hash = ?").pluck();
  const nameOf = db.prepare<[string], string>("SELECT name FROM agent WHERE id = ?").pluck();
  return {
    /** Replaces the agents of the files. Keys that changed or disappeared become invalid; conversations stay. */
    define: (agents: readonly FromFile[]): void =>
      db.transaction(() => {
        const before = new Map(all.all().map((row) => [row.id, row]));
        retire.run();
        for (const { keyHash, ...agent } of agents) {
          const was = before.get(agent.id);
          const rotated = was?.replaced_hash === keyHash;
          const hash = rotated ? was.key_hash : keyHash;
          define.run({ ...agent, hash, replaced: rotated ? keyHash : null });
        }
      })(),
    idByKeyHash: (keyHash: string): string | undefined => byKeyHash.get(keyHash),
    nameOf: (id: string): string | undefined => nameOf.get(id),
    all: (): AgentRow[] => all.all(),
    /** Returns the agents created by command. */
    made: (): AgentRow[] => made.all(),
    make: (agent: Made): void => void make.run(agent),
    change: (id: string, name: string, definition: string): void => void change.run(name, definition, id),
    setOrganization: (id: string, to: string): void => void setOrganization.run({ id, to }),
    rotate: (id: string, keyHash: string): void => void rotate.run(keyHash, id),
  };
}

// Members of organizations: their ids and creation times, which definitions cannot contain.

export interface MemberRow {
  readonly id: string;
  readonly organization_id: string;
  /** In lower case. */
  readonly email: string;
  readonly created_at: number;
}

export function prepareMembers(db: Db) {
  const insert = db.prepare<[MemberRow]>(
    `INSERT INTO member (id, organization_id, email, created_at) VALUES (@id, @organization_id, @email, @created_at)
     ON CONFLICT (organization_id, email) DO NOTHING`,
  );
  const of = db.prepare<[string], MemberRow>("SELECT * FROM member WHERE organization_id = ?");
  return {
    /** Stores the defined members. Existing members keep their id and creation time. */
    define: (rows: readonly MemberRow[]): void =>
      db.transaction(() => {
        for (const row of rows) insert.run(row);
      })(),
    /** Returns the members by email address. */
    of: (organizationId: string): ReadonlyMap<string, MemberRow> =>
      new Map(of.all(organizationId).map((row) => [row.email, row])),
  };
}

// Conversation labels and the dates that definitions cannot contain: when each label was created and changed.

interface StateRow {
  readonly created_at: number;
  readonly updated_at: number;
}

export function prepareStates(db: Db) {
  const define = db.prepare<[{ id: string; now: number; definition: string }]>(
    `INSERT INTO state (id, created_at, updated_at, definition) VALUES (@id, @now, @now, @definition)
     ON CONFLICT (id) DO UPDATE SET definition = excluded.definition, updated_at =
       CASE WHEN state.definition = excluded.definition THEN state.updated_at ELSE excluded.updated_at END`,
  );
  const byId = db.prepare<[string], StateRow>("SELECT created_at, updated_at FROM state WHERE id = ?");
  return {
    /** Stores the defined labels at `now`. Labels that did not change keep their dates. */
    define: (states: readonly StateDefinition[], now: number): void =>
      db.transaction(() => {
        for (const state of states) define.run({ id: state.id, now, definition: JSON.stringify(state) });
      })(),
    /** Returns the records of these labels, in the given order. */
    all: (states: readonly StateDefinition[]): Served<typeof conversationState>[] =>
      states.flatMap((state) => {
        const row = byId.get(state.id);
        if (!row) return [];
        const { created_at, updated_at } = row;
        const dates = { createdAt: new Date(created_at), updatedAt: new Date(updated_at) };
        return [{ ...state, createdAt: dates.createdAt.toISOString(), updatedAt: dates.updatedAt.toISOString() }];
      }),
  };
}
