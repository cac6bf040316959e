// Who an agent talks to, and who has access to it (External API 2.3, 4.1, 4.2), under both credentials.

import { describe, expect, test } from "vitest";
import { readAgents } from "../../../src/platform/index.ts";
import { platformUser, user } from "../../../src/wire/conversation.ts";
import { startByEmail, startTestPlatform, startWith } from "../../support/platform/platform.ts";

const acme = `
organization:
  name: Acme
  key: acme-organization-key
  users:
    - { email: Owner@acme.test, first_name: Olga, last_name: Owner, role: owner }
    - { email: admin@acme.test, role: admin, status: inactive }
    - { email: editor@acme.test, role: user }
    - { email: lead@acme.test, role: guest }
    - { email: nobody@acme.test, role: manager }
agents:
  support:
    key: support-key-1
    users:
      - { email: editor@acme.test, role: editor }
      - { email: lead@acme.test, role: admin, status: inactive }
  sales: { key: sales-key-2 }
`;
const other = `
organization: { name: Other, key: other-organization-key }
agents: { support: { key: other-key-3 } }
`;
const agents = [...readAgents(acme, "acme.yaml"), ...readAgents(other, "other.yaml")];
const [support, , stranger] = agents.map(({ id }) => id);

async function fixture() {
  const started = await startWith({ agents });
  const under = (header: string, key: string) => async (path: string) => {
    const response = await fetch(`${started.platform.url}/external/${path}`, { headers: { [header]: key } });
    // Tests read properties of any response.
    // oxlint-disable-next-line typescript/no-explicit-any
    return { status: response.status, body: (await response.json()) as any };
  };
  return {
    ...started,
    agent: under("Agent-Secret-Key", "support-key-1"),
    organization: under("Organization-Secret-Key", "acme-organization-key"),
    under,
  };
}

const emails = (answered: { body: { data: { email: string }[] } }) =>
  answered.body.data.map(({ email }) => email).sort();

describe("the people of an agent", () => {
  test("are listed in pages, under its own key and under its organization's", async () => {
    const { call, agent, organization } = await fixture();
    for (let n = 0; n < 5; n++) await call("POST", "conversations/start", startByEmail(`p${n}@people.test`));
    await call("POST", "conversations/start", startByEmail("p0@people.test"));
    const first = await agent("agents/users?pageSize=2&orderDirection=ASC");
    expect(first).toMatchObject({
      status: 200,
      body: {
        currentPage: 1,
        pageSize: 2,
        totalItems: 5,
        totalPages: 3,
        hasNextPage: true,
        hasPreviousPage: false,
      },
    });
    expect(first.body.data.map((each: unknown) => user.exact.safeParse(each).success)).toEqual([true, true]);
    expect(emails(first)).toEqual(["p0@people.test", "p1@people.test"]);
    expect(await organization(`agents/${support}/users?pageSize=2&orderDirection=ASC`)).toEqual(first);
    const last = await agent("agents/users?pageSize=2&page=3&orderBy=createdAt&orderDirection=ASC");
    expect(last.body).toMatchObject({ hasNextPage: false, hasPreviousPage: true });
    expect(emails(last)).toEqual(["p4@people.test"]);
  });

  test.each(["page=0", "pageSize=x", "orderBy=email", "orderDirection=up"])("%s is refused", async (query) => {
    const { agent } = await fixture();
    expect(await agent(`agents/users?${query}`)).toMatchObject({ status: 400 });
  });
});

describe("colleagues", () => {
  test("with access: any role on the agent, or owner or admin of the organization", async () => {
    const { organization } = await fixture();
    const answered = await organization(`agents/${support}/platform-users`);
    expect(emails(answered)).toEqual(["Owner@acme.test", "admin@acme.test", "editor@acme.test", "lead@acme.test"]);
    for (const each of answered.body.data) expect(platformUser.exact.safeParse(each)).toMatchObject({ success: true });
    const by = (email: string) => answered.body.data.find((each: { email: string }) => each.email === email) as object;
    expect(by("Owner@acme.test")).toMatchObject({
      firstName: "Olga",
      agentRole: null,
      agentAccessStatus: null,
      organizationRole: "owner",
      organizationStatus: "active",
      accessSource: "organization",
    });
    expect(by("lead@acme.test")).toMatchObject({
      agentRole: "admin",
      agentAccessStatus: "inactive",
      organizationRole: "guest",
      accessSource: "agent",
    });
  });

  test("in charge: owner or admin of the agent, and active owners and admins of the organization", async () => {
    const { agent } = await fixture();
    const answered = await agent("agents/admin-users");
    const sources = Object.fromEntries(
      answered.body.data.map((each: { email: string; accessSource: string }) => [each.email, each.accessSource]),
    );
    expect(sources).toEqual({ "lead@acme.test": "agent", "Owner@acme.test": "organization" });
  });

  test("keep their id and date over a restart", async () => {
    const { organization } = await fixture();
    const { body } = await organization(`agents/${support}/platform-users`);
    const again = await (await fixture()).organization(`agents/${support}/platform-users`);
    const ids = (list: { data: { id: string }[] }) => list.data.map(({ id }) => id).sort();
    expect(ids(again.body)).toEqual(ids(body));
  });
});

describe("an organization's key", () => {
  const paths = (id: string | undefined) => [`agents/${id}/users`, `agents/${id}/platform-users`];

  test("opens nothing of another organization, and nothing that is not there", async () => {
    const { organization } = await fixture();
    for (const path of [...paths(stranger), ...paths("no-such-agent")])
      expect(await organization(path)).toEqual({
        status: 404,
        body: { status: 404, name: "ENTITY_NOT_FOUND_ERROR", message: "ENTITY_NOT_FOUND", details: [] },
      });
  });

  test("opens no operation of an agent, and an agent's key none of the organization", async () => {
    const { under, organization, agent } = await fixture();
    expect(await organization("agents/users")).toMatchObject({ status: 403 });
    expect(await organization("agents/by-api-key")).toMatchObject({ status: 403 });
    for (const path of paths(support)) {
      expect(await agent(path)).toMatchObject({ status: 403 });
      expect(await under("Organization-Secret-Key", "support-key-1")(path)).toMatchObject({ status: 403 });
      expect(await under("Organization-Secret-Key", "wrong")(path)).toMatchObject({ status: 403 });
    }
  });
});

test.each([
  ["users: [{ email: a@b.c }, { email: A@b.c }]", "", /another user has the same/],
  ["users: []", "users: [{ email: a@b.c, role: editor }]", /is no user of the organization/],
])("a file of agents with ambiguous or invalid users is refused (%s)", (users, assigned, problem) => {
  const text = `organization: { name: A, ${users} }\nagents: { a: { key: some-key-1, ${assigned} } }`;
  expect(() => readAgents(text, "a.yaml")).toThrow(problem);
});

test("a conversation's messages are paged when a page is asked for, else whole", async () => {
  const fixture = await startTestPlatform();
  const id = await fixture.open();
  for (let n = 0; n < 5; n++) await fixture.call("POST", `conversations/${id}/messages`, { message: `refund ${n}` });
  const list = async (query: string) => (await fixture.call("GET", `conversations/${id}/messages${query}`)).body;
  const whole = await list("");
  expect(whole).toMatchObject({ totalItems: 10, totalPages: 1, hasNextPage: false });
  const page = await list("?page=2&pageSize=4");
  expect(page).toMatchObject({
    currentPage: 2,
    pageSize: 4,
    totalItems: 10,
    totalPages: 3,
    hasNextPage: true,
    hasPreviousPage: true,
    data: whole.data.slice(4, 8),
    messages: whole.data.slice(4, 8),
  });
  expect((await list("?page=1&pageSize=3&orderDirection=DESC")).data).toEqual([...whole.data].reverse().slice(0, 3));
  expect(await list("?page=9&pageSize=4")).toMatchObject({ data: [], hasNextPage: false });
  expect((await list("?pageSize=1000")).pageSize).toBe(100);
  expect((await fixture.call("GET", `conversations/${id}/messages?page=0`)).status).toBe(400);
});
