// Holds a value against the tables: every field that is missing, of another type, or of no allowed value.

import { skillNames, skillTables } from "./skill-tables.ts";
import { tables } from "./tables.ts";

interface Field {
  readonly name: string;
  readonly type: string;
  readonly required: boolean;
  readonly allowed: string;
}

const read = new Map<string, readonly Field[]>();

function fieldsOf(table: string): readonly Field[] {
  const known = read.get(table);
  if (known) return known;
  const text = tables[table] ?? skillTables[table];
  if (text === undefined) throw new Error(`no table ${table}`);
  const fields = text.split("\n").flatMap((line): Field[] => {
    // A pattern may have the separator's character, but never with spaces around it.
    const [name = "", type = "", required, allowed = ""] = line.trim().split(" | ");
    return name === "" ? [] : [{ name, type, required: required === "yes", allowed }];
  });
  read.set(table, fields);
  return fields;
}

/** What is wrong with `value` as a record of this table, a line each; none when it conforms. Fields that the table does
 *  not name may be there. */
export function problems(table: string, value: unknown, at = table): string[] {
  if (!isObject(value)) return [`${at}: no object`];
  const own = fieldsOf(table).flatMap((field) => fieldProblems(field, value, at));
  return table === "skill" ? [...own, ...skillProblems(value, at)] : own;
}

/** The fields of its skill, required or not, that `value` has not. */
export function missing(value: { readonly systemName: string; readonly [key: string]: unknown }): string[] {
  const { systemName: name } = value;
  const fields = name in skillTables ? fieldsOf(name) : [];
  return fields.filter((field) => value[keyOf(field, value)] === undefined).map((field) => field.name);
}

function skillProblems(value: { readonly [key: string]: unknown }, at: string): string[] {
  const name = String(value["systemName"]);
  if (!(skillNames as readonly string[]).includes(name)) return [`${at}: no skill is called ${name}`];
  return name in skillTables ? problems(name, value, `${at}(${name})`) : [];
}

/** A name in slashes is a pattern: the document has a placeholder in it. */
function keyOf({ name }: Field, record: { readonly [key: string]: unknown }): string {
  if (!name.startsWith("/")) return name;
  return Object.keys(record).find((key) => new RegExp(name.slice(1, -1)).test(key)) ?? name;
}

function fieldProblems(field: Field, record: { readonly [key: string]: unknown }, at: string): string[] {
  const name = keyOf(field, record);
  const value = record[name];
  if (value === undefined) return field.required ? [`${at}.${name}: is missing`] : [];
  return valueProblems(field.type, field.allowed, value, `${at}.${name}`);
}

function valueProblems(type: string, allowed: string, value: unknown, at: string): string[] {
  const nullable = type.endsWith(" or null");
  if (value === null && nullable) return [];
  const bare = nullable ? type.slice(0, -" or null".length) : type;
  if (bare.startsWith("array of ")) {
    if (!Array.isArray(value)) return [`${at}: no array`];
    return value.flatMap((each, n) =>
      valueProblems(bare.slice("array of ".length), allowed, each, `${at}[${n}]`),
    );
  }
  const test = primitives[bare];
  if (!test) return problems(bare, value, at);
  if (!test(value)) return [`${at}: ${JSON.stringify(value)} is no ${bare}`];
  return allows(allowed, value) ? [] : [`${at}: ${JSON.stringify(value)} is not allowed`];
}

function allows(allowed: string, value: unknown): boolean {
  if (allowed === "") return true;
  const range = /^(\d+)\.\.(\d+)$/.exec(allowed);
  if (range) return Number(value) >= Number(range[1]) && Number(value) <= Number(range[2]);
  if (allowed.startsWith("/")) return new RegExp(allowed.slice(1, -1)).test(String(value));
  return allowed.split(", ").includes(String(value));
}

const matching = (pattern: RegExp) => (value: unknown) => typeof value === "string" && pattern.test(value);

const primitives: { readonly [type: string]: (value: unknown) => boolean } = {
  string: (value) => typeof value === "string",
  number: (value) => typeof value === "number" && Number.isFinite(value),
  boolean: (value) => typeof value === "boolean",
  object: (value) => isObject(value),
  "date-time": matching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/),
  uuid: matching(/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i),
  day: matching(/^\d{4}-\d\d-\d\d$/),
};

function isObject(value: unknown): value is { readonly [key: string]: unknown } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
