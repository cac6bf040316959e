// Renders one operation on the page: its parameters and responses, and a form that calls it.

import { html } from "hono/html";
import type { CodeSample } from "./samples.ts";

export interface Placed extends DescribedOperation {
  readonly method: string;
  readonly path: string;
}

const headers: { readonly [key: string]: string } = {
  agent: "Agent-Secret-Key",
  organization: "Organization-Secret-Key",
};

/** The response field of an operation that later paths need as a parameter. The script copies its value
 *  to those forms. */
const makes: { readonly [operation: string]: readonly [field: string, path: string] } = {
  startConversation: ["conversationId", "/external/conversations/{id}"],
  createConversation: ["id", "/external/conversations/{id}"],
  sendMessageAsync: ["id", "/external/conversations/{id}/messages/{messageId}"],
  createUser: ["id", "/external/users/{id}"],
  uploadFile: ["id", "/external/agent-files/{id}"],
  registerWebhook: ["id", "/external/agents/webhooks/{id}"],
  fireWebhook: ["id", "/external/agents/webhooks/deliveries/{id}"],
};

export function operationView(operation: Placed, all: DescribedSchemas): Html {
  const { operationId: id, method, path, summary, description, security, requestBody, responses } = operation;
  const [key = "agent"] = Object.keys(security[0] ?? {});
  const json = requestBody?.content["application/json"];
  const upload = requestBody?.content["multipart/form-data"];
  const [field = "", fills = ""] = makes[id] ?? [];
  return html`<details class="operation" id="${id}" data-words="${`${id} ${method} ${path} ${summary}`.toLowerCase()}">
    <summary>
      <h4><span class="method ${method}">${method.toUpperCase()}</span> <code>${breakable(path)}</code></h4>
      <span>${prose(summary)}</span>
    </summary>
    ${description ? html`<p>${prose(description)}</p>` : ""}
    <p>Opened by <a href="#key-${key}"><code>${headers[key]}</code></a>.</p>
    <form
      class="call"
      aria-label="Call ${id}"
      data-method="${method.toUpperCase()}"
      data-path="${path}"
      data-key="${key}"
      data-header="${headers[key]}"
      data-field="${field}"
      data-fills="${fills}"
    >
      <div class="parameters">${operation.parameters.map((parameter) => input(id, parameter))}</div>
      ${json ? body(id, json) : ""}
      ${upload ? form(id, upload.schema) : ""}
      <p class="buttons">
        <button class="send">Send</button>
        <button type="button" class="copy" hidden>Copy as curl</button>
      </p>
      <pre class="curl" tabindex="0" role="region" aria-label="${id} with curl"></pre>
      <output></output>
      <pre class="answer" tabindex="0" role="region" aria-label="Answer to ${id}" hidden></pre>
    </form>
    <h5>In TypeScript</h5>
    ${operation["x-codeSamples"]
      ?.filter(({ lang }) => lang === "TypeScript")
      .map(
        ({ label, source }) =>
          html`<pre tabindex="0" role="region" aria-label="${id} with ${label}">${source}</pre>`,
      )}
    ${json ? html`<h5>Body</h5>${bodyView(json.schema, all)}` : ""}
    <h5>Answers</h5>
    ${Object.entries(responses).map(([status, answer]) => answerView(id, status, answer, all))}
  </details>`;
}

/** Allows a line break after each slash of a long path. */
function breakable(path: string): Html {
  return html`${path.split("/").map((part, index) => (index > 0 ? html`/<wbr />${part}` : part))}`;
}

function input(id: string, { name, in: place, required, description, schema }: Parameter): Html {
  const { enum: values, type, format, default: fallback } = schema;
  const hint = `${id}-${name}-hint`;
  const control = values
    ? html`<select name="${name}" data-in="${place}" aria-describedby="${hint}">
        <option value=""></option>
        ${values.map((value) => html`<option>${value}</option>`)}
      </select>`
    : html`<input
        name="${name}"
        data-in="${place}"
        aria-describedby="${hint}"
        autocomplete="off"
        inputmode="${type === "integer" ? "numeric" : "text"}"
        placeholder="${format === "date-time" ? "2026-03-02T00:00:00Z" : ""}"
        ${required ? "required" : ""}
      />`;
  const otherwise = fallback === undefined ? "" : html` Left out: <code>${fallback}</code>.`;
  return html`<div class="field">
    <label><span>${name}${required ? html` <span class="must">required</span>` : ""}</span> ${control}</label>
    <p class="hint" id="${hint}">${prose(description)}${otherwise}</p>
  </div>`;
}

function body(id: string, { examples = {} }: Media): Html {
  const given = Object.values(examples).map(({ summary, value }) => ({
    summary,
    text: JSON.stringify(value, null, 2),
  }));
  const text = given[0]?.text ?? "{}";
  const choice =
    given.length > 1
      ? html`<label
          ><span>Example of ${id}</span>
          <select class="examples">
            ${given.map(({ summary, text: value }) => html`<option value="${value}">${summary}</option>`)}
          </select></label
        >`
      : "";
  return html`<div class="field">
    ${choice}
    <label
      ><span>Body of ${id} (JSON)</span>
      <textarea data-in="body" rows="${Math.min(12, text.split("\n").length)}" spellcheck="false">${text}</textarea></label
    >
  </div>`;
}

function form(id: string, { properties = {} }: DescribedSchema): Html {
  return html`<div class="field">
    <label
      ><span>file <span class="must">required</span></span>
      <input data-in="file" type="file" required aria-describedby="${id}-file-hint" /></label
    >
    <p class="hint" id="${id}-file-hint">${properties["file"]?.description ?? ""}</p>
    <label class="tick"><input data-in="add" type="checkbox" /> autoAddToVectorStore</label>
  </div>`;
}

/** Renders each member of a union, or any other schema directly. */
function bodyView(schema: DescribedSchema, all: DescribedSchemas): Html {
  const found = resolved(schema, all);
  if (!found.oneOf) return schemaView(found, all);
  return html`<p>One of these:</p>
    ${found.oneOf.map(
      (member) =>
        html`<details class="status">
          <summary><code>${nameOf(member)}</code></summary>
          ${schemaView(resolved(member, all), all)}
        </details>`,
    )}`;
}

function answerView(
  id: string,
  status: string,
  { description, content = {} }: DescribedResponse,
  all: DescribedSchemas,
): Html {
  const [media] = Object.values(content);
  const label = `Example of ${id}'s ${status}`;
  return html`<details class="status">
    <summary><strong class="${status.startsWith("2") ? "good" : "bad"}">${status}</strong> ${prose(description)}</summary>
    ${media ? "" : html`<p>No body.</p>`}
    ${content["application/octet-stream"] ? html`<p>The document's bytes.</p>` : ""}
    ${
      media?.example === undefined
        ? ""
        : html`${record(media.schema, all)}<p>Example</p>
            ${jsonView(media.example, label)}`
    }
  </details>`;
}

/** Renders a link to a record, which has its own section, or the fields of a schema that only a response
 *  uses. */
function record(schema: DescribedSchema, all: DescribedSchemas): Html {
  const name = nameOf(schema);
  if (isRecord(name)) return html`<p>The record <a href="#record-${name}">${name}</a>.</p>`;
  return schemaView(resolved(schema, all), all);
}

/** Whether the schema has its own section. Bodies and responses of single operations are shown with the
 *  operation. */
export const isRecord = (name: string): boolean => !/(Request|DescribedResponse)$/.test(name);

// Renders a schema for readers: its fields with types and descriptions, and links to records.

export type Html = ReturnType<typeof html>;

/** Returns the name of the record that the schema refers to. */
const nameOf = ({ $ref = "" }: DescribedSchema): string => $ref.slice($ref.lastIndexOf("/") + 1);

/** Resolves a reference to the schema itself. */
function resolved(schema: DescribedSchema, all: DescribedSchemas): DescribedSchema {
  return schema.$ref === undefined ? schema : (all[nameOf(schema)] ?? {});
}

/** Renders text, with the parts between backquotes as code. */
export function prose(text: string): Html {
  const parts = text.split("`");
  return html`${parts.map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : part))}`;
}

/** Renders a value as JSON that can be scrolled, also by keyboard. `label` is the accessible name. */
export function jsonView(value: unknown, label: string): Html {
  return html`<pre tabindex="0" role="region" aria-label="${label}">${JSON.stringify(value, null, 2)}</pre>`;
}

/** Renders all fields of an object, the fields of each member of a union, or the type of any other
 *  schema. */
export function schemaView(schema: DescribedSchema, all: DescribedSchemas): Html {
  const { oneOf, properties } = schema;
  if (oneOf) {
    return html`<p>One of:</p>
      <ul>
        ${oneOf.map((member) => html`<li>${typeView(member)}</li>`)}
      </ul>`;
  }
  return properties ? fields(schema, all) : html`<p>${typeView(schema)}</p>`;
}

function fields({ properties = {}, required = [] }: DescribedSchema, all: DescribedSchemas): Html {
  const must = new Set(required);
  return html`<dl class="fields">
    ${Object.entries(properties).map(
      ([name, schema]) =>
        html`<div>
          <dt>
            <code>${name}</code> <span class="type">${typeView(schema)}</span>
            ${must.has(name) ? html`<span class="must">required</span>` : ""}
          </dt>
          ${schema.description ? html`<dd>${prose(schema.description)}</dd>` : ""} ${nested(schema, all)}
        </div>`,
    )}
  </dl>`;
}

/** Renders the fields of an object inside a record, or of a list's items. */
function nested(schema: DescribedSchema, all: DescribedSchemas): Html | "" {
  const inner = [
    schema,
    schema.items ?? {},
    ...(schema.anyOf ?? []).flatMap((each) => [each, each.items ?? {}]),
  ];
  const object = inner.find(({ properties }) => Object.keys(properties ?? {}).length > 0);
  return object ? html`<dd>${fields(object, all)}</dd>` : "";
}

/** Renders a type briefly; a record's name is a link. */
function typeView(schema: DescribedSchema): Html {
  const { $ref, anyOf, items, additionalProperties } = schema;
  if ($ref !== undefined) return html`<a href="#record-${nameOf(schema)}">${nameOf(schema)}</a>`;
  if (anyOf) return html`${anyOf.map((each, index) => html`${index > 0 ? " or " : ""}${typeView(each)}`)}`;
  if (items) return html`list of ${typeView(items)}${bounds(schema)}`;
  if (additionalProperties) return html`object of ${typeView(additionalProperties)}`;
  const { const: only, enum: values } = schema;
  const choices = only === undefined ? values : [only];
  if (choices)
    return html`${choices.map((value, index) => html`${index > 0 ? " | " : ""}<code>${value}</code>`)}`;
  const types = [schema.type ?? "anything"].flat().join(" or ");
  return html`${types}${schema.format ? ` (${schema.format})` : ""}${bounds(schema)}`;
}

function bounds({ minimum, maximum, minLength, maxLength, maxItems }: DescribedSchema): string {
  const said = [
    minimum === undefined ? "" : `from ${minimum}`,
    maximum === undefined ? "" : `to ${maximum}`,
    minLength ? "not empty" : "",
    maxLength === undefined ? "" : `at most ${maxLength} characters`,
    maxItems === undefined ? "" : `at most ${maxItems}`,
  ].filter(Boolean);
  return said.length > 0 ? `, ${said.join(" ")}` : "";
}

// Types of the parts of the description that the page reads; openapi.ts generates them.

export interface Description {
  readonly info: { readonly title: string; readonly version: string; readonly description: string };
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  readonly paths: { readonly [path: string]: { readonly [method: string]: DescribedOperation } };
  readonly webhooks: { readonly delivery: { readonly post: DescribedOperation } };
  readonly components: { readonly schemas: DescribedSchemas };
}

export type DescribedSchemas = { readonly [name: string]: DescribedSchema };

export interface DescribedOperation {
  readonly operationId: string;
  readonly summary: string;
  readonly description?: string;
  readonly tags: readonly string[];
  readonly security: readonly { readonly [key: string]: readonly [] }[];
  readonly parameters: readonly Parameter[];
  readonly requestBody?: { readonly content: { readonly [type: string]: Media } };
  readonly responses: { readonly [status: string]: DescribedResponse };
  readonly "x-codeSamples"?: readonly CodeSample[];
}

export interface Parameter {
  readonly name: string;
  readonly in: "path" | "query" | "header";
  readonly required: boolean;
  readonly description: string;
  readonly schema: DescribedSchema;
  readonly example?: string;
}

export interface Media {
  readonly schema: DescribedSchema;
  readonly example?: unknown;
  readonly examples?: { readonly [name: string]: { readonly summary: string; readonly value: unknown } };
}

export interface DescribedResponse {
  readonly description: string;
  readonly content?: { readonly [type: string]: Media };
}

export interface DescribedSchema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly properties?: DescribedSchemas;
  readonly required?: readonly string[];
  readonly additionalProperties?: DescribedSchema;
  readonly items?: DescribedSchema;
  readonly anyOf?: readonly DescribedSchema[];
  readonly oneOf?: readonly DescribedSchema[];
  readonly enum?: readonly string[];
  readonly const?: string;
  readonly format?: string;
  readonly description?: string;
  readonly default?: string | number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly maxItems?: number;
  readonly examples?: readonly unknown[];
}
