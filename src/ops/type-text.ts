// The types of values in a configuration as text for people.

const names: Readonly<Record<string, string>> = {
  string: "a text",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  array: "a list",
  object: "a block of keys",
  record: "a block of keys",
  null: "empty",
};

/** Describes a value of the wrong type: `must be a text, not a number`. `expected`: the type as zod names it. */
export function wrongTypeText(expected: string, value: unknown): string {
  const given = Array.isArray(value) ? "array" : value === null ? "null" : typeof value;
  return `must be ${names[expected] ?? expected}, not ${names[given] ?? given}`;
}
