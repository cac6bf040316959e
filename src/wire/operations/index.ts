// Every operation of the External API, by its name.

import { agentOperations, escalationOperations, webhookOperations } from "./agents.ts";
import { conversationOperations } from "./conversations.ts";
import type { Operation } from "./operation.ts";
import { fileOperations, userOperations } from "./people.ts";

export type { Operation };

export const operations = {
  ...agentOperations,
  ...conversationOperations,
  ...userOperations,
  ...fileOperations,
  ...webhookOperations,
  ...escalationOperations,
} as const satisfies { readonly [id: string]: Operation };
