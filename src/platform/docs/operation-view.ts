// Renders one operation on the page: its parameters and responses, and a form that calls it.

import { html } from "hono/html";
import { jsonView, nameOf, type Page, prose, resolved, schemaView } from "./schema-view.ts";
import type { Answer, DescribedOperation, Media, Parameter, Schema, Schemas } from "./shape.ts";

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

export function operationView(operation: Placed, all: Schemas): Page {
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
    ${json ? html`<h5>Body</h5>${bodyView(json.schema, all)}` : ""}
    <h5>Answers</h5>
    ${Object.entries(responses).map(([status, answer]) => answerView(id, status, answer, all))}
  </details>`;
}

/** Allows a line break after each slash of a long path. */
function breakable(path: string): Page {
  return html`${path.split("/").map((part, index) => (index > 0 ? html`/<wbr />${part}` : part))}`;
}

function input(id: string, { name, in: place, required, description, schema }: Parameter): Page {
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

function body(id: string, { examples = {} }: Media): Page {
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

function form(id: string, { properties = {} }: Schema): Page {
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
function bodyView(schema: Schema, all: Schemas): Page {
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

function answerView(id: string, status: string, { description, content = {} }: Answer, all: Schemas): Page {
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
function record(schema: Schema, all: Schemas): Page {
  const name = nameOf(schema);
  if (isRecord(name)) return html`<p>The record <a href="#record-${name}">${name}</a>.</p>`;
  return schemaView(resolved(schema, all), all);
}

/** Whether the schema has its own section. Bodies and responses of single operations are shown with the
 *  operation. */
export const isRecord = (name: string): boolean => !/(Request|Answer)$/.test(name);
