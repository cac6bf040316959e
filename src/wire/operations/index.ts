// Every operation of the External API, by its name.

import { agentOperations, escalationOperations, webhookOperations } from "./agents.ts";
import { conversationOperations, fileOperations, userOperations } from "./conversations.ts";
import type { Operation } from "./operation.ts";

export type { Operation };

export const operations = {
  ...agentOperations,
  ...conversationOperations,
  ...userOperations,
  ...fileOperations,
  ...webhookOperations,
  ...escalationOperations,
} as const satisfies { readonly [id: string]: Operation };
