// Everything the platform keeps, over one database.

import { type Commits, groupCommits } from "./commits.ts";
import { type Conversations, prepareConversations } from "./conversations.ts";
import { type Durability, openDatabase } from "./database.ts";
import { type Files, prepareFiles } from "./files.ts";
import { type Members, prepareMembers } from "./members.ts";
import { type Messages, prepareMessages } from "./messages.ts";
import { type Passages, preparePassages } from "./passages.ts";
import { type People, preparePeople } from "./people.ts";
import { prepareStates, type States } from "./states.ts";
import { prepareUsage, type Usage } from "./usage.ts";
import { prepareWebhooks, type Webhooks } from "./webhooks.ts";

interface StoredAgent {
  readonly id: string;
  readonly organizationId: string;
  readonly name: string;
  readonly keyHash: string;
}

export interface PlatformStore {
  readonly commits: Commits;
  readonly people: People;
  readonly members: Members;
  readonly states: States;
  readonly conversations: Conversations;
  readonly messages: Messages;
  readonly passages: Passages;
  readonly files: Files;
  readonly usage: Usage;
  readonly webhooks: Webhooks;
  /** Makes these the agents there are: keys that changed or are gone open nothing any more, conversations stay. */
  replaceAgents(agents: readonly StoredAgent[]): void;
  agentByKeyHash(keyHash: string): string | undefined;
  agentName(id: string): string | undefined;
  close(): void;
}

/** Opens or makes `file`; ":memory:" keeps nothing. */
export function openPlatformStore(file: string, durability: Durability): PlatformStore {
  const db = openDatabase(file, durability);
  const commits = groupCommits(db);
  const retire = db.prepare("UPDATE agent SET key_hash = NULL");
  const define = db.prepare<[StoredAgent]>(
    `INSERT INTO agent (id, organization_id, name, key_hash) VALUES (@id, @organizationId, @name, @keyHash)
     ON CONFLICT (id) DO UPDATE SET organization_id = excluded.organization_id, name = excluded.name,
       key_hash = excluded.key_hash`,
  );
  const byKeyHash = db.prepare<[string], string>("SELECT id FROM agent WHERE key_hash = ?").pluck();
  const nameOf = db.prepare<[string], string>("SELECT name FROM agent WHERE id = ?").pluck();
  return {
    commits,
    people: preparePeople(db),
    members: prepareMembers(db),
    states: prepareStates(db),
    conversations: prepareConversations(db),
    messages: prepareMessages(db),
    passages: preparePassages(db),
    files: prepareFiles(db),
    usage: prepareUsage(db),
    webhooks: prepareWebhooks(db),
    replaceAgents: (agents) =>
      db.transaction(() => {
        retire.run();
        for (const agent of agents) define.run(agent);
      })(),
    agentName: (id) => nameOf.get(id),
    agentByKeyHash: (keyHash) => byKeyHash.get(keyHash),
    close() {
      commits.flush();
      db.close();
    },
  };
}
