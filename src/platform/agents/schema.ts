// Schema of the agents file.

import * as z from "zod";
import { listedModel, reasoningEfforts, reasoningModes } from "../../wire/agent.ts";
import { agentRoles, organizationRoles } from "../../wire/conversation.ts";
import { textOrObject } from "../../wire/record.ts";
import { triggers } from "../../wire/webhook.ts";
import { ruleProblem } from "../brain/knowledge.ts";
import { parsed, schemaProblem } from "../brain/response.ts";
import { headerProblem, skillBlocks, status } from "./skills.ts";

const address = z.url({ protocol: /^https?$/ }).superRefine((given, context) => {
  if (!URL.canParse(given)) return;
  const { username, password } = new URL(given);
  if (username || password) context.addIssue({ code: "custom", message: "a key stands under `key`, not in the URL" });
});

/** Rejects characters that a header cannot carry: the HTTP client's error would quote the key in the log. */
const modelKey = z.string().regex(/^[\x21-\x7e]+$/, "a key has visible ASCII characters alone");

const outputSchema = z.union([z.record(z.string(), z.unknown()), z.string()]).transform((given, context) => {
  const text = typeof given === "string" ? given : JSON.stringify(given);
  const schema = parsed(text);
  const isObject = typeof schema === "object" && schema !== null && !Array.isArray(schema);
  const problem = isObject ? schemaProblem(schema as { [key: string]: unknown }) : "a JSON Schema is an object";
  if (problem === null) return { text, schema: schema as { [key: string]: unknown } };
  context.addIssue({ code: "custom", message: problem });
  return z.NEVER;
});

export const modelBlock = z.strictObject({
  url: address,
  /** `chat`: /chat/completions; `responses`: /responses. */
  api: z.enum(["chat", "responses"]).default("chat"),
  key: modelKey.optional(),
  name: z.string().min(1),
  /** Name that the API reports when the model's own name is not in its list. */
  listed_as: z
    .string()
    .regex(listedModel, "a name of the interface's list, such as <model_family>-5-mini or o3-mini")
    .optional(),
  /** Null leaves the parameter out. Some models reject it. */
  temperature: z.number().min(0).max(2).nullable().default(0.2),
  top_p: z.number().min(0).max(1).optional(),
  reasoning_effort: z.enum(reasoningEfforts).optional(),
  /** Supported by `responses` only. */
  reasoning_mode: z.enum(reasoningModes).optional(),
  /** JSON Schema as YAML or as a JSON string. The model's answers must then be JSON that matches it. */
  output_json_schema: outputSchema.optional(),
  output_json_schema_enabled: z.boolean().default(true),
  /** Idle timeout in seconds. */
  timeout: z.number().positive().max(600).default(30),
  /** Total timeout in seconds, including retries. */
  total_timeout: z.number().positive().max(3600).default(300),
});

const text = z.string().min(1);
const key = z.string().min(8, "a key has at least 8 characters");
const responseDelaySeconds = z.number().min(0).max(3600).nullable().default(null);

const email = z.strictObject({
  status,
  email: text,
  senderName: text.optional(),
  defaultSubject: text.optional(),
  defaultEmailIntroduction: text.optional(),
  emailSignature: text.optional(),
  responseDelaySeconds,
});

/** The API defines an object here, and a string for emails. */
const smsText = textOrObject.transform((given) => (typeof given === "string" ? { text: given } : given));

const sms = z.strictObject({
  status,
  phoneNumber: text,
  defaultSmsIntroduction: smsText.optional(),
  smsSignature: smsText.optional(),
  responseDelaySeconds,
});

const voice = z.strictObject({
  status,
  firstMessage: textOrObject.optional(),
  /** Ids at the voice provider. Without a provider, the platform generates its own. */
  vXAssistantId: text.optional(),
  vXPhoneNumberId: text.optional(),
});

const webhook = z.strictObject({
  title: text,
  description: z.string().default(""),
  url: z.url({ protocol: /^https?$/ }),
  trigger: z.enum(triggers),
  headers: z
    .record(z.string(), z.string())
    .superRefine((headers, context) => {
      for (const [name, value] of Object.entries(headers)) {
        const message = headerProblem(name, value);
        if (message !== null) context.addIssue({ code: "custom", path: [name], message });
      }
    })
    .default({}),
  /** Standard Webhooks format: `whsec_` and Base64. By default the secret is derived from the agent's key. */
  secret: z
    .string()
    .regex(/^whsec_[A-Za-z0-9+/=]{32,}$/, "a secret such as whsec_ and at least 24 bytes in Base64")
    .optional(),
  status,
});

const rule = z.strictObject({
  when: text.superRefine((when, context) => {
    const problem = ruleProblem(when);
    if (problem) context.addIssue({ code: "custom", message: problem });
  }),
  answer: text,
});

const knowledge = z.union([
  text.transform((given) => ({ title: undefined, text: given, file: undefined })),
  z
    .strictObject({ title: text.optional(), text: text.optional(), file: text.optional() })
    .refine((given) => (given.text === undefined) !== (given.file === undefined), "either `text` or `file` is needed"),
]);

const member = z.strictObject({
  email: text,
  first_name: z.string().default(""),
  last_name: z.string().default(""),
  avatar_url: text.optional(),
  role: z.enum(organizationRoles).default("user"),
  status,
});

const state = z.strictObject({
  id: z.uuid().optional(),
  name: text,
  description: text.optional(),
  color: z
    .string()
    .regex(/^#[0-9a-fA-F]{6}$/, 'a colour such as "#00aa00"')
    .optional(),
  persistent: z.boolean().default(false),
});

const assignment = z.strictObject({ email: text, role: z.enum(agentRoles), status });

const agent = z.strictObject({
  id: z.uuid().optional(),
  name: text,
  public_name: text.optional(),
  key,
  status: z.enum(["active", "inactive", "draft"]).default("active"),
  role: z.string().default("assistant"),
  description: text.optional(),
  avatar_url: z.url().optional(),
  tags: z.array(text).optional(),
  restrict_documents_to_owner_only: z.boolean().optional(),
  instructions: z.string().default(""),
  code_interpreter: z.boolean().default(false),
  skills: z
    .strictObject({
      email: email.optional(),
      sms: sms.optional(),
      voice: voice.optional(),
      api: z.strictObject({ status }).optional(),
      ...skillBlocks,
    })
    .default({}),
  /** Users of the organization that have a role on this agent. */
  users: z.array(assignment).default([]),
  /** Webhooks that receive the agent's events (WEBHOOK skill). */
  webhooks: z.array(webhook).default([]),
  rules: z.array(rule).default([]),
  knowledge: z.array(knowledge).default([]),
  default_answer: text.default("I am sorry, I do not know the answer to that."),
  model: modelBlock.optional(),
  /** Number of passages that a search returns. */
  file_search: z
    .strictObject({ enabled: z.boolean().default(true), max_results: z.int().min(1).max(50).default(4) })
    .prefault({}),
});

/** Definition of an agent without its key, as stored by the admin command. */
export const storedAgent = agent.omit({ key: true });

const listed =
  "write a map from names to agents, as in the configuration of the daemon: `support: { key: ... }` instead of `- { name: support, key: ... }`";
const agents = z
  .record(text, agent.omit({ name: true }), {
    error: ({ input }) => (Array.isArray(input) ? listed : undefined),
  })
  .refine((given) => Object.keys(given).length > 0, "at least one agent is needed")
  .transform((given) => Object.entries(given).map(([name, fields]) => ({ ...fields, name })));

export const agentsFile = z.strictObject({
  organization: z.strictObject({
    id: z.uuid().optional(),
    name: text,
    key: key.optional(),
    /** Members of the organization. */
    users: z.array(member).default([]),
    /** Labels for conversations. */
    states: z.array(state).default([]),
  }),
  /** By name. */
  agents,
});

export type AgentsFile = z.output<typeof agentsFile>;
export type OrganizationBlock = AgentsFile["organization"];
export type AgentBlock = z.output<typeof storedAgent>;
