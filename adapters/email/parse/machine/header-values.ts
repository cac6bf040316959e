// Values of headers that mark automatic messages.

import type { Mail } from "../mail.ts";

type Headers = Pick<Mail, "headers">;

/** Returns the first value of that header, lower case, without comments and parameters; "" when absent. */
export function firstValue(mail: Headers, name: string): string {
  const value = mail.headers.find((header) => header.name === name)?.value;
  return value === undefined ? "" : normalized(value);
}

/** Returns the values of all headers of that name, in the form of `firstValue`. */
export const allValues = (mail: Headers, name: string): string[] =>
  mail.headers.filter((header) => header.name === name).map(({ value }) => normalized(value));

const normalized = (value: string): string => (value.slice(0, 500).split(/[;(]/, 1)[0] ?? "").trim().toLowerCase();

/** True when the message has a header of that name. */
export function has(mail: Headers, name: string): boolean {
  return mail.headers.some((header) => header.name === name);
}
