// The agent behind a key (External API 2.4, 2.5), as GET /external/agents/by-api-key returns it.

import * as z from "zod";
import { record } from "./record.ts";
import { servedSkill, skill } from "./skill.ts";

export const reasoningEfforts = ["low", "medium", "high", "xhigh", "minimal", "none", "max"] as const;
export const reasoningModes = ["standard", "pro"] as const;

const suffixes =
  `4.1 4.1-nano 4.1-mini 3.5-turbo 5-nano 5 5-mini 5.1 5.2 5.4 5.4-mini 5.4-nano 5.5 5.6 5.6-terra
  5.6-luna`.split(/\s+/);

/** The seventeen models of the interface. The family's name is its product's; the interface writes a placeholder, which
 *  stands for any name here. */
export const listedModel = new RegExp(`^(?:o3-mini|.+-(?:${suffixes.join("|").replaceAll(".", "\\.")}))$`);

/** What is shown of an agent that has no model of the list: the interface has no word for none. */
export const unlistedModel = "<model_family>-4.1";

/** Read, `model` is any string: a model outside the list still answers. */
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
 *  and model is one of the interface's. */
export const agent = {
  read: lenient.read,
  exact: lenient.exact.extend({
    id: z.uuid(),
    organizationId: z.uuid(),
    status: z.enum(["active", "inactive", "draft"]),
    aiConfig: aiConfig.extend({ model: z.string().regex(listedModel) }),
    skills: z.array(servedSkill),
  }),
};
