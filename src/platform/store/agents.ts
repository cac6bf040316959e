// Agents: those of the definition files, recorded at every start, and those created by command, which exist
// only here. Keys are stored as hashes.

import type { Db } from "./database.ts";

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

interface FromFile {
  readonly id: string;
  readonly organizationId: string;
  readonly name: string;
  readonly keyHash: string;
}

type Made = Required<Pick<AgentRow, "id" | "name">> & {
  readonly definition: string;
  readonly seed: string;
  readonly keyHash: string;
};

export interface Agents {
  /** Replaces the agents of the files. Keys that changed or disappeared become invalid; conversations
   *  stay. */
  define(agents: readonly FromFile[]): void;
  idByKeyHash(keyHash: string): string | undefined;
  nameOf(id: string): string | undefined;
  all(): AgentRow[];
  /** Returns the agents created by command. */
  made(): AgentRow[];
  make(agent: Made): void;
  change(id: string, name: string, definition: string): void;
  setOrganization(id: string, organizationId: string): void;
  rotate(id: string, keyHash: string): void;
}

export function prepareAgents(db: Db): Agents {
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
    define: (agents) =>
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
    idByKeyHash: (keyHash) => byKeyHash.get(keyHash),
    nameOf: (id) => nameOf.get(id),
    all: () => all.all(),
    made: () => made.all(),
    make: (agent) => void make.run(agent),
    change: (id, name, definition) => void change.run(name, definition, id),
    setOrganization: (id, to) => void setOrganization.run({ id, to }),
    rotate: (id, keyHash) => void rotate.run(keyHash, id),
  };
}
