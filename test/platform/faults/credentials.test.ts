// Keys: which of them authorize an operation, and that they are neither stored nor returned.

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { systemClock } from "../../../src/ops/clock.ts";
import { Administration } from "../../../src/platform/index.ts";
import {
  bodies,
  furnish,
  type Grounds,
  hasBody,
  keys,
  namedBy,
  type OperationName,
  operationNames,
  operations,
  organizationKeys,
  pathOf,
  startGrounds,
} from "../../support/platform/tenants.ts";
import { newFolder } from "../../support/resources.ts";

const forbidden = { status: 403, name: "FORBIDDEN_ERROR", message: "INVALID_CREDENTIALS", details: [] };
type Headers = { readonly [name: string]: string | string[] };

const names = { agent: "agent-secret-key", organization: "organization-secret-key" } as const;
const rightFor = (name: OperationName) => (operations[name].key === "agent" ? keys.own : organizationKeys.own);

/** A whole and right request, but for its key. */
async function knocking(grounds: Grounds) {
  const things = await furnish(grounds, "own");
  return (name: OperationName, headers: Headers) =>
    grounds.ask({
      method: operations[name].method,
      path: pathOf(
        name,
        namedBy(name).map((thing) => things[thing]),
      ),
      headers,
      body: hasBody(name) ? bodies[name](things) : undefined,
    });
}

/** What is not the one right key in the one right header. */
const wrong: { readonly [what: string]: (right: string, own: string, other: string) => Headers } = {
  "no key": () => ({}),
  "an empty key": (_right, own) => ({ [own]: "" }),
  "a key nobody has": (_right, own) => ({ [own]: "nobody-has-this-key" }),
  "the key in the other header": (right, _own, other) => ({ [other]: right }),
  "the other kind of key": (right, own) => ({
    [own]: right === keys.own ? organizationKeys.own : keys.own,
  }),
  "the key twice": (right, own) => ({ [own]: [right, right] }),
  "two keys": (right, own) => ({ [own]: [right, keys.sister] }),
  "the key behind a wrong one": (right, own) => ({ [own]: `wrong-key-1, ${right}` }),
  "the key in another case": (right, own) => ({ [own]: right.toUpperCase() }),
  "a part of the key": (right, own) => ({ [own]: right.slice(0, -1) }),
  "more than the key": (right, own) => ({ [own]: `${right}x` }),
  "the key as a bearer token": (right) => ({ authorization: `Bearer ${right}` }),
  "the key as a bearer token in its header": (right, own) => ({ [own]: `Bearer ${right}` }),
  "a wrong key beside the right one of the other kind": (right, own, other) => ({
    [own]: "nobody-has-this-key",
    [other]: right === keys.own ? organizationKeys.own : keys.own,
  }),
  "a key of many bytes": (_right, own) => ({ [own]: "k".repeat(8_000) }),
  "a name of JavaScript's": (_right, own) => ({ [own]: "__proto__" }),
};

test.each(Object.entries(wrong))("%s opens no operation, and the refusal says nothing else", async (_what, headers) => {
  const grounds = await startGrounds();
  const knock = await knocking(grounds);
  for (const name of operationNames) {
    const own = names[operations[name].key];
    const other = own === names.agent ? names.organization : names.agent;
    const { status, text } = await knock(name, headers(rightFor(name), own, other));
    expect([name, status, JSON.parse(text)]).toEqual([name, 403, forbidden]);
  }
  expect(grounds.errors).toEqual([]);
});

test("both keys at once open what each of them opens", async () => {
  const knock = await knocking(await startGrounds());
  const both = { [names.agent]: keys.own, [names.organization]: organizationKeys.own };
  for (const name of operationNames.filter((each) => operations[each].method === "GET")) {
    const { status } = await knock(name, both);
    // A search without criteria is rejected.
    expect([name, status]).toEqual([name, name === "searchUser" ? 400 : 200]);
  }
});

test("an organization's key opens nothing of an agent's by a name that looks like its own operations", async () => {
  const { ask, errors } = await startGrounds();
  for (const word of ["users", "platform-users"]) {
    const asked = { method: "DELETE", path: pathOf("deleteWebhook", [word]) };
    const headers = { [names.organization]: organizationKeys.own };
    expect((await ask({ ...asked, headers })).status).toBe(403);
    expect((await ask({ ...asked, headers: { [names.agent]: keys.own } })).status).toBe(404);
  }
  expect(errors).toEqual([]);
});

test("a key in the URL is ignored", async () => {
  const { ask } = await startGrounds();
  const path = `${operations.getAgent.path}?agent-secret-key=${keys.own}&Agent-Secret-Key=${keys.own}`;
  expect(await ask({ method: "GET", path })).toMatchObject({ status: 403 });
});

test("a request without a key cannot distinguish missing objects from foreign ones", async () => {
  const { ask } = await startGrounds();
  for (const path of ["/external/nothing", "/external/", "/external/conversations/x", "/%65xternal/agents/users"]) {
    const { status, text } = await ask({ method: "GET", path });
    expect([path, status, JSON.parse(text)]).toEqual([path, 403, forbidden]);
  }
});

describe("a key that was replaced", () => {
  async function onFile() {
    const folder = newFolder();
    const lines: unknown[] = [];
    const note = (...said: unknown[]) => void lines.push(said);
    const file = join(folder, "platform.db");
    const log = { debug: note, info: note, warn: note, error: note };
    const grounds = await startGrounds({ file, log });
    return { grounds, folder, file, lines };
  }

  test("opens nothing from the next request on, and the new one everything", async () => {
    const { grounds, file } = await onFile();
    const knock = await knocking(grounds);
    expect(await knock("getAgent", { [names.agent]: keys.own })).toMatchObject({ status: 200 });
    const administration = new Administration(file, systemClock);
    const { key } = administration.rotateKey("own");
    administration.close();
    for (const name of operationNames.filter((each) => operations[each].key === "agent")) {
      const { status, text } = await knock(name, { [names.agent]: keys.own });
      expect([name, status, JSON.parse(text)]).toEqual([name, 403, forbidden]);
    }
    expect(await knock("getAgent", { [names.agent]: key })).toMatchObject({ status: 200 });
  });

  test("is nowhere on the disk or in the log, nor is any other", async () => {
    const { grounds, folder, file, lines } = await onFile();
    const knock = await knocking(grounds);
    const administration = new Administration(file, systemClock);
    const { key } = administration.rotateKey("own");
    administration.close();
    for (const name of operationNames) await knock(name, { [names[operations[name].key]]: rightFor(name) });
    expect(await knock("getAgent", { [names.agent]: key })).toMatchObject({ status: 200 });
    const secrets = [...Object.values(keys), ...Object.values(organizationKeys), key];
    const found: string[] = [];
    for (const name of await readdir(folder)) {
      const text = await readFile(join(folder, name), "latin1");
      expect([name, text.length > 0]).toEqual([name, true]);
      found.push(...secrets.filter((secret) => text.includes(secret)));
    }
    found.push(...secrets.filter((secret) => JSON.stringify(lines).includes(secret)));
    expect(found).toEqual([]);
  });
});
