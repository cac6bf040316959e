// The platform's repositories over one database.

import { type Agents, prepareAgents } from "./agents.ts";
import { type Commits, groupCommits } from "./commits.ts";
import { type Conversations, prepareConversations } from "./conversations.ts";
import { type Durability, openDatabase } from "./database.ts";
import { type Escalations, prepareEscalations } from "./escalations.ts";
import { type Files, prepareFiles } from "./files.ts";
import { type Members, prepareMembers } from "./members.ts";
import { type MessageFiles, prepareMessageFiles } from "./message-files.ts";
import { type Messages, prepareMessages } from "./messages.ts";
import { type Passages, preparePassages } from "./passages.ts";
import { type People, preparePeople } from "./people.ts";
import { prepareStates, type States } from "./states.ts";
import { prepareUsage, type Usage } from "./usage.ts";
import { prepareWebhooks, type Webhooks } from "./webhooks.ts";

export interface PlatformStore {
  readonly commits: Commits;
  readonly agents: Agents;
  readonly people: People;
  readonly members: Members;
  readonly states: States;
  readonly conversations: Conversations;
  readonly messages: Messages;
  readonly passages: Passages;
  readonly files: Files;
  readonly usage: Usage;
  readonly escalations: Escalations;
  readonly messageFiles: MessageFiles;
  readonly webhooks: Webhooks;
  /** SQLite's data_version: changes when another process has written to the file. */
  outsideVersion(): number;
  close(): void;
}

/** Opens or creates `file`; ":memory:" is not persistent. */
export function openPlatformStore(file: string, durability: Durability): PlatformStore {
  const db = openDatabase(file, durability);
  const commits = groupCommits(db);
  const outside = db.prepare<[], number>("PRAGMA data_version").pluck();
  return {
    commits,
    agents: prepareAgents(db),
    people: preparePeople(db),
    members: prepareMembers(db),
    states: prepareStates(db),
    conversations: prepareConversations(db),
    messages: prepareMessages(db),
    passages: preparePassages(db),
    files: prepareFiles(db),
    usage: prepareUsage(db),
    escalations: prepareEscalations(db),
    messageFiles: prepareMessageFiles(db),
    webhooks: prepareWebhooks(db),
    outsideVersion: () => outside.get() ?? 0,
    close() {
      commits.flush();
      db.close();
    },
  };
}
