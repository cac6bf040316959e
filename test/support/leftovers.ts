// The short lane keeps a worker's modules from file to file. This file, which Vitest runs before each test file, keeps the
// files independent of their order: a file that leaves a change behind in its process fails.

import { getRequestListener } from "@hono/node-server";
import { afterAll, expect } from "vitest";

// Hono exchanges the global Request and Response when the first server of the embedded platform is made.
getRequestListener(() => new Response());

const values = globalValues();
const state = processState();

afterAll(() => {
  const left = { ...processState(), globals: changed(values, globalValues()) };
  expect(left, "what the test file left behind in its process").toEqual({ ...state, globals: [] });
});

function processState() {
  const handlers = process.eventNames().filter((name) => /^(SIG|uncaught|unhandled)/.test(String(name)));
  return {
    environment: { ...process.env },
    directory: process.cwd(),
    handlers: handlers.map((name) => `${String(name)}: ${process.listenerCount(name)}`),
  };
}

function globalValues(): ReadonlyMap<string, unknown> {
  const all = Object.entries(Object.getOwnPropertyDescriptors(globalThis));
  return new Map(all.map(([name, { value }]) => [name, value]));
}

/** The globals of Node.js that were exchanged, as fake timers do, apart from those that it loads with their first use. Those that libraries define in addition do not matter. */
function changed(before: ReadonlyMap<string, unknown>, after: ReadonlyMap<string, unknown>): string[] {
  return [...before.keys()].filter(
    (name) => !name.startsWith("__") && before.get(name) !== undefined && !Object.is(before.get(name), after.get(name)),
  );
}
