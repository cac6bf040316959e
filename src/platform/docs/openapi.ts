// The machine-readable description: OpenAPI 3.1, generated from the operation table and the records.

import * as z from "zod";
import { type Operation, operations } from "../../wire/operations/index.ts";
import { badRequest, forbidden, internalError, notFound, tooLarge, tooManyRequests } from "../../wire/record.ts";
import { webhookDelivery } from "../../wire/webhook.ts";
import { answerExamples, recordExamples, requestExamples } from "./examples.ts";
import { codeSamples } from "./samples.ts";
import { createSchemas, type JsonObject, type SchemaRegistry, tidy } from "./schemas.ts";
import { guide, operationWords, parameterWords, tagWords } from "./words.ts";

const refusals: { readonly [status: number]: { readonly words: string; readonly example: unknown } } = {
  400: {
    words: "A value cannot be accepted; `details` says which",
    example: badRequest([{ path: "email", message: "not an e-mail address" }]),
  },
  403: { words: "The key is missing, wrong, or has been replaced", example: forbidden },
  404: { words: "There is no such thing under this key", example: notFound },
  413: { words: "The body is too large", example: tooLarge },
  429: {
    words: "More than 1000 requests in 60 seconds; `Retry-After` says when to come back",
    example: tooManyRequests,
  },
  500: { words: "Unexpected; try again later", example: internalError },
};

/** Generates the description. Title and version are those of the interface (External API 9). The caller
 *  adds the base URL of the paths. */
export function describeApi(): JsonObject {
  const schemas = createSchemas();
  const paths: { [path: string]: { [method: string]: JsonObject } } = {};
  for (const [id, operation] of Object.entries<Operation>(operations)) {
    const path = (paths[operation.path] ??= {});
    path[operation.method.toLowerCase()] = describeOperation(id, operation, schemas);
  }
  const webhooks = describeDeliveries(schemas.refer(webhookDelivery.exact, "WebhookDelivery"));
  const tags = new Set(Object.values<Operation>(operations).map(({ tag }) => tag));
  return {
    openapi: "3.1.0",
    info: {
      title: "AI Agent API",
      version: "1.0.0",
      description: guide,
      license: { name: "MIT", identifier: "MIT" },
    },
    tags: [...tags].map((name) => ({ name, description: tagWords[name] })),
    paths,
    webhooks,
    components: {
      securitySchemes: {
        agent: apiKey("Agent-Secret-Key", "One agent's key. It opens that agent and nothing else."),
        organization: apiKey("Organization-Secret-Key", "An organization's key, for lists across its agents."),
      },
      headers: { RetryAfter: { description: "Seconds to wait.", schema: { type: "integer" }, example: 12 } },
      schemas: schemas.all(),
    },
  };
}

const apiKey = (name: string, description: string): JsonObject => ({
  type: "apiKey",
  in: "header",
  name,
  description,
});

function describeOperation(id: string, operation: Operation, schemas: SchemaRegistry): JsonObject {
  const { summary, tag, key, body, query, upload, errors } = operation;
  const statuses = [403, 429, 500, ...errors].toSorted((a, b) => a - b);
  const words = operationWords[id];
  return {
    operationId: id,
    summary,
    ...(words === undefined ? {} : { description: words }),
    tags: [tag],
    security: [{ [key]: [] }],
    parameters: [...inPath(id, operation.path), ...(query ? inQuery(id, query) : [])],
    ...(body ? { requestBody: bodyOf(id, schemas.refer(body, `${capital(id)}Request`)) } : {}),
    ...(upload ? { requestBody: form } : {}),
    responses: {
      [operation.answer.status]: answerOf(id, operation, schemas),
      ...Object.fromEntries(statuses.map((status) => [status, refusal(status)])),
    },
    "x-codeSamples": codeSamples(id, operation),
  };
}

const capital = (id: string): string => id.charAt(0).toUpperCase() + id.slice(1);

function bodyOf(id: string, schema: JsonObject): JsonObject {
  const examples = Object.entries(requestExamples[id] ?? {}).map(([words, value]) => [
    words.replace(/\W+/g, "-").toLowerCase(),
    { summary: words, value },
  ]);
  const media = { schema, examples: Object.fromEntries(examples) as JsonObject };
  return { required: true, content: { "application/json": media } };
}

function answerOf(id: string, { method, answer }: Operation, schemas: SchemaRegistry): JsonObject {
  const description = method === "GET" ? "Found" : "Done";
  if (answer.record === null) return { description };
  if (answer.record === "bytes") return { description, content: { "application/octet-stream": { schema: {} } } };
  const schema = schemas.refer(answer.record, `${capital(id)}Answer`);
  return { description, content: { "application/json": { schema, example: answerExamples[id] } } };
}

function refusal(status: number): JsonObject {
  const schema = { $ref: `#/components/schemas/${status === 500 ? "InternalFailure" : "Failure"}` };
  const { words, example } = refusals[status] ?? { words: "Refused", example: {} };
  return {
    description: words,
    ...(status === 429 ? { headers: { "Retry-After": { $ref: "#/components/headers/RetryAfter" } } } : {}),
    content: { "application/json": { schema, example } },
  };
}

const form: JsonObject = {
  required: true,
  content: {
    "multipart/form-data": {
      schema: {
        type: "object",
        required: ["file"],
        properties: {
          file: {
            type: "string",
            contentMediaType: "application/octet-stream",
            description: "Text, Markdown, HTML, PDF or Word.",
          },
          autoAddToVectorStore: {
            type: "string",
            enum: ["true", "false"],
            description: "Add it to the agent at once.",
          },
        },
      },
    },
  },
};

function inPath(id: string, path: string): JsonObject[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name = ""]) => ({
    name,
    in: "path",
    required: true,
    description: parameterWords(id, name).description,
    schema: { type: "string" },
  }));
}

function inQuery(id: string, query: z.ZodObject): JsonObject[] {
  const { properties } = z.toJSONSchema(query, { io: "input", unrepresentable: "any" });
  return Object.entries(properties ?? {}).map(([name, type]) => {
    const { description, ...fallback } = parameterWords(id, name);
    const schema = { ...(tidy(type, name) as JsonObject), ...fallback };
    return { name, in: "query", required: false, description, schema };
  });
}

// Describes the webhook deliveries of the platform, for the OpenAPI description and the page.

const header = (name: string, description: string, example: string): JsonObject => ({
  name,
  in: "header",
  required: true,
  description,
  schema: { type: "string" },
  example,
});

/** Returns the `webhooks` part of the description, for receivers. `body` is a reference to the record. */
function describeDeliveries(body: JsonObject): JsonObject {
  return {
    delivery: {
      post: {
        operationId: "receiveDelivery",
        summary: "Request that your webhook receives",
        description:
          "Sent after the event is stored, and retried after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h and 20 h until the response is a 2xx within 15 s. A delivery may arrive twice, with the same `webhook-id`. Its signature is that of Standard Webhooks: HMAC-SHA256 over `id.timestamp.body` with the secret from the response to the registration.",
        tags: ["webhooks"],
        security: [],
        parameters: [
          header(
            "webhook-id",
            "Id of the delivery; the same at every attempt.",
            "019cadf2-3d56-7b77-8eb4-4c9f7e8d0a08",
          ),
          header("webhook-timestamp", "Time of the attempt, in seconds since 1970.", "1772443872"),
          header(
            "webhook-signature",
            "One or more of `v1,` and the signature in base64, with spaces between them.",
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
          ),
        ],
        requestBody: {
          required: true,
          content: { "application/json": { schema: body, example: recordExamples["WebhookDelivery"] } },
        },
        responses: {
          "2XX": { description: "Received" },
          "410": { description: "Gone: it is not retried" },
          default: { description: "Retried later" },
        },
      },
    },
  };
}
