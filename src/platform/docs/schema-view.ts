// Renders a schema for readers: its fields with types and descriptions, and links to records.

import { html } from "hono/html";
import type { Schema, Schemas } from "./shape.ts";

export type Page = ReturnType<typeof html>;

/** Returns the name of the record that the schema refers to. */
export const nameOf = ({ $ref = "" }: Schema): string => $ref.slice($ref.lastIndexOf("/") + 1);

/** Resolves a reference to the schema itself. */
export function resolved(schema: Schema, all: Schemas): Schema {
  return schema.$ref === undefined ? schema : (all[nameOf(schema)] ?? {});
}

/** Renders text, with the parts between backquotes as code. */
export function prose(text: string): Page {
  const parts = text.split("`");
  return html`${parts.map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : part))}`;
}

/** Renders a value as JSON that can be scrolled, also by keyboard. `label` is the accessible name. */
export function jsonView(value: unknown, label: string): Page {
  return html`<pre tabindex="0" role="region" aria-label="${label}">${JSON.stringify(value, null, 2)}</pre>`;
}

/** Renders all fields of an object, the fields of each member of a union, or the type of any other
 *  schema. */
export function schemaView(schema: Schema, all: Schemas): Page {
  const { oneOf, properties } = schema;
  if (oneOf) {
    return html`<p>One of:</p>
      <ul>
        ${oneOf.map((member) => html`<li>${typeView(member)}</li>`)}
      </ul>`;
  }
  return properties ? fields(schema, all) : html`<p>${typeView(schema)}</p>`;
}

function fields({ properties = {}, required = [] }: Schema, all: Schemas): Page {
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
function nested(schema: Schema, all: Schemas): Page | "" {
  const inner = [
    schema,
    schema.items ?? {},
    ...(schema.anyOf ?? []).flatMap((each) => [each, each.items ?? {}]),
  ];
  const object = inner.find(({ properties }) => Object.keys(properties ?? {}).length > 0);
  return object ? html`<dd>${fields(object, all)}</dd>` : "";
}

/** Renders a type briefly; a record's name is a link. */
function typeView(schema: Schema): Page {
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

function bounds({ minimum, maximum, minLength, maxLength, maxItems }: Schema): string {
  const said = [
    minimum === undefined ? "" : `from ${minimum}`,
    maximum === undefined ? "" : `to ${maximum}`,
    minLength ? "not empty" : "",
    maxLength === undefined ? "" : `at most ${maxLength} characters`,
    maxItems === undefined ? "" : `at most ${maxItems}`,
  ].filter(Boolean);
  return said.length > 0 ? `, ${said.join(" ")}` : "";
}
