// The agent behind a key (External API 2.4, 2.5), as GET /external/agents/by-api-key returns it.

import * as z from "zod";
import { record } from "./record.ts";
import { servedSkill, skill } from "./skill.ts";

export const reasoningEfforts = ["low", "medium", "high", "xhigh", "minimal", "none", "max"] as const;
export const reasoningModes = ["standard", "pro"] as const;

/** `model` is any string: the interface lists some families, and a model outside them still answers. */
const aiConfig = z.looseObject({
  id: z.string(),
  model: z.string(),
  temperature: z.number(),
  topP: z.number(),
  instructions: z.string(),
  isCodeInterpreterEnabled: z.boolean(),
  isFileSearchEnabled: z.boolean(),
  fileSearchMaxNumResults: z.number(),
  reasoningEffort: z.enum(reasoningEfforts).nullish(),
  reasoningMode: z.enum(reasoningModes).nullish(),
  isOutputJsonSchemaEnabled: z.boolean().optional(),
  outputJsonSchema: z.string(),
});

const lenient = record(
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

/** Read, `status` is any string, so that a new state does not stop the reader; served, it is one of three, and each skill
 *  is one of the interface's. */
export const agent = {
  read: lenient.read,
  exact: lenient.exact.extend({
    id: z.uuid(),
    organizationId: z.uuid(),
    status: z.enum(["active", "inactive", "draft"]),
    skills: z.array(servedSkill),
  }),
};
