// A schema as people read it: its fields with their types and meanings, records as links to where they are shown.

import { html } from "hono/html";
import type { Schema, Schemas } from "./shape.ts";

export type Page = ReturnType<typeof html>;

/** The record that the schema refers to. */
export const nameOf = ({ $ref = "" }: Schema): string => $ref.slice($ref.lastIndexOf("/") + 1);

/** The schema itself, where it is only referred to. */
export function resolved(schema: Schema, all: Schemas): Schema {
  return schema.$ref === undefined ? schema : (all[nameOf(schema)] ?? {});
}

/** Words, with what stands between backquotes as code. */
export function prose(text: string): Page {
  const parts = text.split("`");
  return html`${parts.map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : part))}`;
}

/** A value as JSON that can be scrolled, by keyboard too. `label` says what it is. */
export function jsonView(value: unknown, label: string): Page {
  return html`<pre tabindex="0" role="region" aria-label="${label}">${JSON.stringify(value, null, 2)}</pre>`;
}

/** All fields of an object; of a union, each member's; of anything else, its type. */
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

/** The fields of an object inside a record, or of a list's items. */
function nested(schema: Schema, all: Schemas): Page | "" {
  const inner = [
    schema,
    schema.items ?? {},
    ...(schema.anyOf ?? []).flatMap((each) => [each, each.items ?? {}]),
  ];
  const object = inner.find(({ properties }) => Object.keys(properties ?? {}).length > 0);
  return object ? html`<dd>${fields(object, all)}</dd>` : "";
}

/** In a few words; a record's name is a link. */
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
