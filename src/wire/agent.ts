// The agent of a key (External API 2.4, 2.5), as GET /external/agents/by-api-key returns it.

import * as z from "zod";
import { record } from "./record.ts";
import { servedSkill, skill } from "./skill.ts";

export const reasoningEfforts = ["low", "medium", "high", "xhigh", "minimal", "none", "max"] as const;
export const reasoningModes = ["standard", "pro"] as const;

const suffixes =
  `4.1 4.1-nano 4.1-mini 3.5-turbo 5-nano 5 5-mini 5.1 5.2 5.4 5.4-mini 5.4-nano 5.5 5.6 5.6-terra
  5.6-luna`.split(/\s+/);

/** The seventeen models of the interface. The real family name is a product name; the interface uses a
 *  placeholder, which stands for any name here. */
export const listedModel = new RegExp(`^(?:o3-mini|.+-(?:${suffixes.join("|").replaceAll(".", "\\.")}))$`);

/** The value returned for an agent without a model of the list, because the interface has no value for
 *  none. */
export const unlistedModel = "<model_family>-4.1";

/** When read, `model` is any string: an agent with an unlisted model is still usable. */
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

/** When read, `status` is any string, so that a new state does not fail the client. When served, it is
 *  one of three, and each skill and model is one of the interface's. */
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
