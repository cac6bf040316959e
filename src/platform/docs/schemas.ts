// Generates the records as JSON Schema in the dialect of OpenAPI 3.1, each once and under its own name.

import * as z from "zod";
import { agent, agentFile, escalation, statistic } from "../../wire/agent.ts";
import {
  conversation,
  conversationState,
  message,
  messageFile,
  platformUser,
  startRequest,
  user,
} from "../../wire/conversation.ts";
import { servedSkill, skills } from "../../wire/skill.ts";
import { delivery, webhook, webhookDelivery } from "../../wire/webhook.ts";
import { recordExamples } from "./examples.ts";
import { fieldWords } from "./words.ts";

export type JsonObject = { readonly [name: string]: unknown };

const failure = z.looseObject({
  status: z.number(),
  name: z.string(),
  message: z.string(),
  details: z.array(z.looseObject({ path: z.string(), message: z.string() })),
});
const internalFailure = z.looseObject({ status: z.number(), message: z.string() });

const camel = (name: string): string =>
  name.toLowerCase().replace(/[^a-z]*([a-z])([a-z]*)[^a-z]*/g, (_, first: string, rest: string) => {
    return first.toUpperCase() + rest;
  });

/** The records that are described once, by name. */
const named: { readonly [id: string]: z.ZodType } = {
  Agent: agent.exact,
  AgentFile: agentFile.exact,
  AgentUser: user.exact,
  Conversation: conversation.exact,
  ConversationState: conversationState.exact,
  Delivery: delivery.exact,
  Escalation: escalation.exact,
  Failure: failure,
  InternalFailure: internalFailure,
  Message: message.exact,
  MessageFile: messageFile.exact,
  PlatformUser: platformUser.exact,
  Skill: servedSkill,
  Statistic: statistic.exact,
  Webhook: webhook.exact,
  WebhookDelivery: webhookDelivery.exact,
  ...Object.fromEntries(Object.entries(skills).map(([name, skill]) => [`${camel(name)}Skill`, skill.exact])),
  ...Object.fromEntries(startRequest.options.map((option) => [`StartBy${camel(option.shape.channel.value)}`, option])),
};

/** The discriminator field of each union. */
const discriminators: { readonly [id: string]: string } = {
  Skill: "systemName",
  StartConversationRequest: "channel",
};

export type SchemaRegistry = ReturnType<typeof createSchemas>;

const pointer = (id: string): string => `#/components/schemas/${id}`;

export function createSchemas() {
  const registry = z.registry<{ id: string }>();
  for (const [id, schema] of Object.entries(named)) registry.add(schema, { id });
  return {
    /** Returns a reference to the record. A record without a name is registered as `id`. */
    refer(schema: z.ZodType, id: string): JsonObject {
      if (!registry.has(schema)) registry.add(schema, { id });
      return { $ref: pointer(registry.get(schema)?.id ?? id) };
    },
    /** Returns all records registered so far. */
    all(): { readonly [id: string]: JsonObject } {
      const { schemas } = z.toJSONSchema(registry, {
        uri: pointer,
        unrepresentable: "any",
        io: "input",
        override: ({ zodSchema, jsonSchema }) => {
          if (zodSchema === user.read) replaceByUser(jsonSchema);
        },
      });
      return Object.fromEntries(
        Object.entries(schemas).map(([id, schema]) => [id, withoutIds(id, schema as JsonObject, schemas)]),
      );
    },
  };
}

/** Replaces the schema with a reference to `AgentUser`. A record that contains its user reads it
 *  leniently, but serves it complete. */
function replaceByUser(schema: { [name: string]: unknown }): void {
  for (const key of Object.keys(schema)) delete schema[key];
  schema["$ref"] = pointer("AgentUser");
}

function withoutIds(id: string, schema: JsonObject, all: { readonly [id: string]: unknown }): JsonObject {
  const { $schema: _schema, $id: _id, id: _name, "~standard": _standard, ...rest } = schema;
  const record = withWords(id, tidy(rest) as JsonObject);
  const by = discriminators[id];
  const example = recordExamples[id];
  return {
    ...record,
    ...(by === undefined
      ? {}
      : { discriminator: { propertyName: by, mapping: mapping(record["oneOf"] as JsonObject[], by, all) } }),
    ...(example === undefined ? {} : { examples: [example] }),
  };
}

/** Maps each value of the discriminator `by` to its member of the union. */
function mapping(members: readonly JsonObject[], by: string, all: { readonly [id: string]: unknown }): JsonObject {
  return Object.fromEntries(
    members.map(({ $ref }) => {
      const member = all[String($ref).slice(pointer("").length)] as {
        properties: { [name: string]: JsonObject };
      };
      return [member.properties[by]?.["const"], $ref];
    }),
  );
}

function withWords(id: string, schema: JsonObject): JsonObject {
  const properties = schema["properties"] as { readonly [name: string]: JsonObject } | undefined;
  if (!properties) return schema;
  const described = Object.entries(properties).map(([name, type]) => {
    const description = fieldWords(id, name);
    return [name, description === undefined ? type : { ...type, description }];
  });
  return { ...schema, properties: Object.fromEntries(described) as JsonObject };
}

const times = /(At|^startDate|^endDate|^timestamp)$/;

/** Removes redundant keywords from a schema, and adds the format that a field's name implies. */
export function tidy(value: unknown, name = ""): unknown {
  if (Array.isArray(value)) return value.map((each) => tidy(each));
  if (value === null || typeof value !== "object") return value;
  const schema = value as JsonObject;
  const kept = Object.entries(schema).filter(([key, said]) => !isNoise(key, said));
  const inside = kept.map(([key, said]) => [
    key,
    key === "properties"
      ? Object.fromEntries(Object.entries(said as JsonObject).map(([field, type]) => [field, tidy(type, field)]))
      : tidy(said),
  ]);
  const timed = times.test(name) && String(schema["type"]).includes("string");
  return { ...Object.fromEntries(inside), ...(timed ? { format: "date-time" } : {}) };
}

/** Whether a keyword only states a default: any additional property, names that are strings, or the
 *  maximum safe integer. */
function isNoise(key: string, said: unknown): boolean {
  if (key === "additionalProperties") return typeof said === "object" && Object.keys(said ?? {}).length === 0;
  if (key === "propertyNames") return JSON.stringify(said) === '{"type":"string"}';
  return key === "maximum" && said === Number.MAX_SAFE_INTEGER;
}
