// The operations of External API 4.2: their records, pages and rules.

import { describe, expect, test } from "vitest";
import { skillNames } from "../support/external-api/tables.ts";
import { drivers, embedded, missing, problems, startTarget } from "../support/external-api/target.ts";

const target = await startTarget();
interface PeoplePage {
  readonly totalItems: number;
  readonly totalPages: number;
  readonly hasNextPage: boolean;
  readonly data: readonly { readonly id: string }[];
}
const idsOf = ({ data }: PeoplePage) => data.map(({ id }) => id);
const person = (n: number) => ({ firstName: `P${n}`, lastName: "Doe", fkId: `conformance-list-${n}` });

interface Skill {
  readonly widgetButtonConfig?: { readonly launcherTheme: string; readonly selectedTheme?: string };
}

describe.each(Object.entries(drivers))("through %s:", (_name, driver) => {
  const call = driver(target);

  test("by-api-key answers the agent, its configuration and its skills", async () => {
    const { status, body } = await call("agents.get");
    expect(status).toBe(200);
    expect(problems("agent", body)).toEqual([]);
    // A key is only there when the API skill is on.
    const api = body.skills.find(({ systemName }: { systemName: string }) => systemName === "API");
    expect(api).toMatchObject({ status: "active" });
    expect(problems("API", api)).toEqual([]);
    expect(api.apiKey).toBe(target.agentKey);
  });

  test("a launcher of a custom theme selects one (2.6)", async () => {
    const { skills } = (await call("agents.get")).body as { skills: Skill[] };
    const custom = skills.flatMap(({ widgetButtonConfig: button }) =>
      button?.launcherTheme === "custom" ? [button] : [],
    );
    if (embedded) expect(custom).toHaveLength(1);
    for (const { selectedTheme } of custom) expect(selectedTheme).toMatch(/^(light|dark|system)$/);
  });

  test("the lists of people answer pages of people", async () => {
    for (let n = 0; n < 5; n++) await call("users.create", { body: person(n) });
    const agentId = (await call("agents.get")).body.id as string;
    for (const [operation, record, id] of [
      ["agents.users", "agent user", undefined],
      ["agents.usersOf", "agent user", agentId],
      ["agents.adminUsers", "platform user", undefined],
      ["agents.platformUsersOf", "platform user", agentId],
    ] as const) {
      const { status, body } = await call(operation, id === undefined ? {} : { id });
      expect([operation, status, problems("page", body)]).toEqual([operation, 200, []]);
      expect(body.data.flatMap((each: unknown) => problems(record, each))).toEqual([]);
      expect(body.data.length).toBeGreaterThan(0);
    }
  });

  test("pages divide the list, in the order that was asked for", async () => {
    const page = async (query: { [name: string]: string }): Promise<PeoplePage> =>
      (await call("agents.users", { query })).body;
    const oldest = (n: number, size: number) =>
      page({ page: String(n), pageSize: String(size), orderBy: "createdAt", orderDirection: "ASC" });
    // Other clients may create and delete users at the same time: pages count if the oldest users stayed.
    for (;;) {
      const whole = idsOf(await oldest(1, 4));
      const halves = [await oldest(1, 2), await oldest(2, 2)];
      if (idsOf(await oldest(1, 4)).join() !== whole.join()) continue;
      expect(halves.flatMap(idsOf)).toEqual(whole);
      for (const [index, half] of halves.entries()) {
        const { totalItems } = half;
        expect(half).toMatchObject({
          currentPage: index + 1,
          pageSize: 2,
          totalPages: Math.ceil(totalItems / 2),
          hasNextPage: (index + 1) * 2 < totalItems,
          hasPreviousPage: index > 0,
        });
      }
      break;
    }

    const made: string[] = [];
    for (let n = 0; n < 3; n++) {
      const fkId = `conformance-order-${Math.random().toString(36).slice(2)}`;
      made.push((await call("users.create", { body: { ...person(n), fkId } })).body.id as string);
    }
    const own = (ids: string[]) => ids.filter((id) => made.includes(id));
    const newest = await page({ pageSize: "100", orderDirection: "DESC" });
    expect(own(idsOf(newest))).toEqual(made.toReversed());
    const found: string[] = [];
    for (let n = Math.max(1, newest.totalPages - 1), more = true; more; n++) {
      const each = await oldest(n, 100);
      found.push(...idsOf(each));
      more = each.hasNextPage;
    }
    expect(own(found)).toEqual(made);
  });

  test.each(["page=0", "page=x", "pageSize=-1", "orderBy=email", "orderDirection=up"])(
    "%s is no page of any list",
    async (query) => {
      const asked = Object.fromEntries(new URLSearchParams(query));
      expect(await call("agents.users", { query: asked })).toMatchObject({ status: 400 });
    },
  );

  test("admin-users are direct owners and admins, and active ones of the organization (rule 2)", async () => {
    const { body } = await call("agents.adminUsers", { query: { pageSize: "100" } });
    for (const each of body.data) {
      const direct = ["owner", "admin"].includes(each.agentRole);
      const implicit = ["owner", "admin"].includes(each.organizationRole) && each.organizationStatus === "active";
      expect([each.email, direct || implicit]).toEqual([each.email, true]);
      expect([each.email, each.accessSource]).toEqual([each.email, direct ? "agent" : "organization"]);
    }
  });

  test("platform-users have any role on the agent, or own or administrate the organization (rule 1)", async () => {
    const { id } = (await call("agents.get")).body;
    const { body } = await call("agents.platformUsersOf", { id, query: { pageSize: "100" } });
    for (const each of body.data) {
      const direct = each.agentRole !== null && each.agentRole !== undefined;
      const implicit = ["owner", "admin"].includes(each.organizationRole);
      expect([each.email, direct || implicit]).toEqual([each.email, true]);
      expect([each.email, each.accessSource]).toEqual([each.email, direct ? "agent" : "organization"]);
      if (!direct) expect(each.agentAccessStatus ?? null).toBeNull();
    }
  });

  test("the statistic has its eight numbers, with and without its six filters (rule 4)", async () => {
    const nobody = "0f6c3c1e-0000-4e0b-9c39-0d3f5c1b2a10";
    const zeros = (body: object) => Object.values(body).every((value) => value === 0);
    const all = await call("agents.statistic");
    expect([all.status, problems("statistic", all.body)]).toEqual([200, []]);
    for (const [query, nothing] of [
      [{ startDate: "2020-01-01T00:00:00Z", endDate: "2020-02-01T00:00:00Z" }, true],
      [{ startDate: "2999-01-01T00:00:00Z" }, true],
      [{ endDate: "2020-01-01T00:00:00Z" }, true],
      [{ fkId: "conformance-nobody" }, true],
      [{ fkUserId: "conformance-nobody" }, true],
      [{ userId: nobody }, true],
      [{ conversationUserId: nobody }, true],
      [{ startDate: "2020-01-01T00:00:00.000Z", endDate: "2999-01-01T00:00:00+01:00" }, false],
    ] as const) {
      const { status, body } = await call("agents.statistic", { query });
      expect([query, status, problems("statistic", body)]).toEqual([query, 200, []]);
      if (nothing) expect([query, zeros(body)]).toEqual([query, true]);
      // Another deployment is in use meanwhile, also by the other files of this suite.
      else if (embedded) expect(body).toEqual(all.body);
    }
    expect(await call("agents.statistic", { query: { userId: "no-uuid" } })).toMatchObject({ status: 400 });
    expect(await call("agents.statistic", { query: { startDate: "soon" } })).toMatchObject({ status: 400 });
  });
});

describe.runIf(embedded)("the platform in the box", () => {
  const call = drivers["plain requests"](target);

  test("an agent without a model, and with no skill but its key, conforms as well", async () => {
    const { agentKey = "" } = target.foreign ?? {};
    const { body } = await call("agents.get", { key: agentKey });
    expect(problems("agent", body)).toEqual([]);
    expect(body.skills).toEqual([{ systemName: "API", status: "active", apiKey: agentKey }]);
  });

  test("serves every skill, each with every field that the document lists", async () => {
    const { skills } = (await call("agents.get")).body as { skills: { systemName: string }[] };
    expect(skills.map(({ systemName }) => systemName).sort()).toEqual(skillNames.toSorted());
    for (const skill of skills) expect([skill.systemName, missing(skill)]).toEqual([skill.systemName, []]);
  });

  test("tells who is in charge by their names", async () => {
    const { body } = await call("agents.adminUsers");
    const sources = body.data.map(({ email, accessSource }: { [name: string]: string }) => `${email} ${accessSource}`);
    expect(sources.sort()).toEqual(["lead@acme.test agent", "owner@acme.test organization"]);
  });
});

test("the shapes can fail", () => {
  const user = { id: "u", firstName: "a", lastName: "b", isAnonymized: false };
  expect(problems("agent user", user)).toEqual([]);
  expect(problems("agent user", { ...user, id: 7, context: null, isAnonymized: undefined })).toEqual([
    "agent user.id: 7 is no string",
    "agent user.context: null is no string",
    "agent user.isAnonymized: is missing",
  ]);
  const skill = { systemName: "EMAIL", status: "active", email: "a@b.test", responseDelaySeconds: 3601 };
  expect(problems("skill", skill)).toEqual(["skill(EMAIL).responseDelaySeconds: 3601 is not allowed"]);
  expect(problems("skill", { systemName: "VOICE", status: "on", vxAssistantId: "a" })).toHaveLength(2);
  expect(missing({ systemName: "VOICE", status: "active", vxAssistantId: "a" })).toEqual(["/^v\\w*PhoneNumberId$/"]);
  expect(problems("skill", { systemName: "TELEPATHY", status: "active" })).toHaveLength(1);
  const config = {
    status: "inactive",
    url: "https://a.test",
    title: "t",
    description: "d",
    triggerCondition: "never",
  };
  const webhook = {
    systemName: "WEBHOOK",
    status: "active",
    name: "n",
    description: "d",
    webhooks: [config],
  };
  expect(problems("skill", webhook)).toEqual(['skill(WEBHOOK).webhooks[0].triggerCondition: "never" is not allowed']);
});
