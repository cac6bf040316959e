// The machine-readable description: OpenAPI 3.1, generated from the table of operations and the records themselves.

import * as z from "zod";
import { agent } from "../../wire/agent.ts";
import { conversation, conversationState } from "../../wire/conversation.ts";
import { agentFile } from "../../wire/file.ts";
import { message } from "../../wire/message.ts";
import { type Operation, operations } from "../../wire/operations/index.ts";
import { platformUser } from "../../wire/platform-user.ts";
import { servedSkill } from "../../wire/skill.ts";
import { statistic } from "../../wire/statistic.ts";
import { user } from "../../wire/user.ts";
import { webhook } from "../../wire/webhook.ts";

type Json = { [name: string]: unknown };

const failure = z.looseObject({
  status: z.number(),
  name: z.string(),
  message: z.string(),
  details: z.array(z.looseObject({})),
});
const internalFailure = z.looseObject({ status: z.number(), message: z.string() });

/** Records that are described once, under these names. */
const named = {
  Agent: agent.exact,
  AgentFile: agentFile.exact,
  AgentUser: user.exact,
  Conversation: conversation.exact,
  ConversationState: conversationState.exact,
  Failure: failure,
  InternalFailure: internalFailure,
  Message: message.exact,
  PlatformUser: platformUser.exact,
  Skill: servedSkill,
  Statistic: statistic.exact,
  Webhook: webhook.exact,
};

const errorWords: { readonly [status: number]: string } = {
  400: "A value cannot be accepted; `details` says which",
  403: "The key is missing, wrong, or has been replaced",
  404: "There is no such thing under this key",
  413: "The body is too large",
  429: "More than 1000 requests in 60 seconds; `Retry-After` says when to come back",
  500: "Unexpected; try again later",
};

/** Title and version as the interface states them (External API 9). */
export function describeApi(serverUrl: string): Json {
  const registry = z.registry<{ id: string }>();
  /** A schema's name in the document, given when it is first met. */
  const nameOf = (schema: z.ZodType, id: string): string => {
    if (!registry.has(schema)) registry.add(schema, { id });
    return registry.get(schema)?.id ?? id;
  };
  for (const [id, schema] of Object.entries(named)) nameOf(schema, id);
  const queries = new Map<string, string>();
  const pointer = (schema: z.ZodType, id: string): Json => ({
    $ref: `#/components/schemas/${nameOf(schema, id)}`,
  });
  const all = Object.entries<Operation>(operations).map(([id, operation]) => {
    const Id = id.charAt(0).toUpperCase() + id.slice(1);
    const { query, body, answer } = operation;
    if (query) queries.set(id, nameOf(query, `${Id}Query`));
    return {
      id,
      operation,
      request: body ? pointer(body, `${Id}Request`) : null,
      answer:
        answer.record === null || answer.record === "bytes" ? null : pointer(answer.record, `${Id}Answer`),
    };
  });
  const { schemas } = z.toJSONSchema(registry, {
    uri: (id) => `#/components/schemas/${id}`,
    unrepresentable: "any",
    io: "input",
  });
  const asked = new Set(queries.values());
  const paths: { [path: string]: Json } = {};
  for (const { id, operation, request, answer } of all) {
    const path = (paths[operation.path] ??= {});
    const query = schemas[queries.get(id) ?? ""] as Json | undefined;
    path[operation.method.toLowerCase()] = described(id, operation, query, request, answer);
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "AI Agent API",
      version: "1.0.0",
      description: "Talk to AI agents: conversations, the people in them, files, webhooks, statistics.",
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: serverUrl }],
    tags: [...new Set(Object.values<Operation>(operations).map(({ tag }) => tag))].map((name) => ({
      name,
      description: `Operations on ${name}`,
    })),
    paths,
    components: {
      securitySchemes: {
        agent: { type: "apiKey", in: "header", name: "Agent-Secret-Key" },
        organization: { type: "apiKey", in: "header", name: "Organization-Secret-Key" },
      },
      schemas: Object.fromEntries(
        Object.entries(schemas)
          .filter(([id]) => !asked.has(id))
          .map(([id, schema]) => [id, tidy(schema as Json)]),
      ),
    },
  };
}

function described(
  id: string,
  operation: Operation,
  query: Json | undefined,
  request: Json | null,
  answered: Json | null,
): Json {
  const { method, summary, tag, key, upload, answer, errors } = operation;
  const statuses = [403, 429, 500, ...errors].toSorted((a, b) => a - b);
  const bytes = { content: { "application/octet-stream": { schema: {} } } };
  return {
    operationId: id,
    summary,
    tags: [tag],
    security: [{ [key]: [] }],
    parameters: [...inPath(operation.path), ...(query ? inQuery(query) : [])],
    ...(request ? { requestBody: json(request, true) } : {}),
    ...(upload ? { requestBody: form } : {}),
    responses: {
      [answer.status]: {
        description: method === "GET" ? "Found" : "Done",
        ...(answer.record === "bytes" ? bytes : answered ? json(answered) : {}),
      },
      ...Object.fromEntries(
        statuses.map((status) => [
          status,
          {
            description: errorWords[status],
            ...json({ $ref: `#/components/schemas/${status === 500 ? "InternalFailure" : "Failure"}` }),
          },
        ]),
      ),
    },
  };
}

const json = (schema: Json, required?: true): Json => ({
  ...(required ? { required } : {}),
  content: { "application/json": { schema } },
});

const form: Json = {
  required: true,
  content: {
    "multipart/form-data": {
      schema: {
        type: "object",
        required: ["file"],
        properties: {
          file: { type: "string", contentMediaType: "application/octet-stream" },
          autoAddToVectorStore: { type: "string", enum: ["true", "false"] },
        },
      },
    },
  },
};

function inPath(path: string): Json[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: "path",
    required: true,
    schema: { type: "string" },
  }));
}

function inQuery(schema: Json): Json[] {
  const properties = schema["properties"] as { [name: string]: Json };
  return Object.entries(properties).map(([name, type]) => ({
    name,
    in: "query",
    required: false,
    schema: type,
  }));
}

/** Without what only a document of its own would need. */
function tidy(schema: Json): Json {
  const { $schema: _schema, $id: _id, id: _name, "~standard": _standard, ...rest } = schema;
  return rest;
}
