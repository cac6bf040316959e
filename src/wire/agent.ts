// The agent behind a key (External API 2.4, 2.5), as GET /external/agents/by-api-key returns it.

import * as z from "zod";
import { record } from "./record.ts";
import { skill } from "./skill.ts";

const aiConfig = z.looseObject({
  id: z.string(),
  model: z.string(),
  temperature: z.number(),
  topP: z.number(),
  instructions: z.string(),
  isCodeInterpreterEnabled: z.boolean(),
  isFileSearchEnabled: z.boolean(),
  fileSearchMaxNumResults: z.number(),
  outputJsonSchema: z.string(),
});

/** `status` is active, inactive or draft; read as any string, so that a new state does not stop the reader. */
export const agent = record(
  "agent",
  {
    id: z.string(),
    organizationId: z.string(),
    name: z.string(),
    status: z.string(),
    skills: z.array(skill.read),
  },
  {
    organizationName: z.string(),
    publicName: z.string(),
    role: z.string(),
    vectorStoreId: z.string(),
    aiConfig,
  },
  {
    description: z.string(),
    avatarUrl: z.string(),
    tags: z.array(z.string()).nullable(),
    restrictDocumentsToOwnerOnly: z.boolean(),
  },
);
