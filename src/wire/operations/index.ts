// Every operation of the External API, by its name.

import { agentOperations, escalationOperations, webhookOperations } from "./agents.ts";
import { conversationOperations, fileOperations, userOperations } from "./conversations.ts";
import type { Operation, OperationRecords } from "./operation.ts";
import { requestLines } from "./requests.ts";

export type { Operation };

/** The operations by group; the names of the groups are the tags of the description. */
const groups = {
  agents: agentOperations,
  conversations: conversationOperations,
  users: userOperations,
  files: fileOperations,
  webhooks: webhookOperations,
} as const;

export const described = {
  ...agentOperations,
  ...conversationOperations,
  ...userOperations,
  ...fileOperations,
  ...webhookOperations,
  ...escalationOperations,
} as const satisfies { readonly [id: string]: OperationRecords };

export type DescribedOperations = typeof described;

const tagOf = (id: string): Operation["tag"] => {
  const tags = Object.entries(groups).filter(([, operations]) => id in operations);
  return (tags[0]?.[0] ?? "agents") as Operation["tag"];
};

export const operations = Object.fromEntries(
  Object.entries(described).map(([id, records]) => {
    const [method, path, key] = requestLines[id as keyof DescribedOperations];
    return [id, { method, path, key, tag: tagOf(id), ...records }];
  }),
) as unknown as {
  readonly [Id in keyof DescribedOperations]: DescribedOperations[Id] &
    Omit<Operation, keyof OperationRecords>;
};
