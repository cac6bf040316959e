// Lists so long that they are read by shelves give what sorting everything gives, and no statement of a list or a
// statistic looks at every row. Times are not measured here: npm run bench does that.

import { join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, onTestFinished, test } from "vitest";
import { conversationRow, personRow } from "../../../src/platform/conversations/start.ts";
import { prepareAgents } from "../../../src/platform/store/agents.ts";
import {
  type ConversationFilter,
  type PlatformConversationRow,
  prepareConversations,
} from "../../../src/platform/store/conversations.ts";
import { prepareMessages } from "../../../src/platform/store/messages.ts";
import { type Db, openDatabase } from "../../../src/platform/store/store.ts";
import { preparePeople, prepareUsage } from "../../../src/platform/store/users.ts";
import { newFolder } from "../../support/resources.ts";

const everything: ConversationFilter = {
  orderBy: "createdAt",
  orderDirection: "ASC",
  personId: null,
  keyword: null,
  from: null,
  until: null,
};

function open(db: Db = openDatabase(":memory:", "normal")) {
  prepareAgents(db).define([
    { id: "one", organizationId: "o", name: "one", keyHash: "1" },
    { id: "two", organizationId: "o", name: "two", keyHash: "2" },
  ]);
  const people = preparePeople(db);
  const conversations = prepareConversations(db);
  return {
    db,
    people,
    conversations,
    person: (agentId: string, name: string, now = 1, over: object = {}): string => {
      const row = personRow(agentId, { firstName: name, lastName: "", ...over }, now);
      people.insert(row);
      return row.id;
    },
    converse: (
      agent_id: string,
      person_id: string,
      now: number,
      title: string | null = null,
    ): PlatformConversationRow => {
      const row = conversationRow({ agent_id, person_id, channel: "email", title }, now);
      conversations.insert(row);
      return row;
    },
  };
}

/** Numbers from 0 to below `limit`, the same in every run. */
function dice(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

/** What no shelf may get wrong: how many rows of its list it says are on it. */
function miscounted(db: Db): unknown[] {
  const lists = { people: "person", conversations: "conversation", changes: "conversation" };
  return Object.entries(lists).flatMap(([list, table]) => {
    const time = list === "changes" ? "updated_at" : "created_at";
    return db
      .prepare(
        `SELECT * FROM (SELECT list, agent_id, at, n, rows, lead(at, 1, 9e15) OVER later AS next_at,
             lead(n, 1, 0) OVER later AS next_n FROM shelf WHERE list = ?
           WINDOW later AS (PARTITION BY agent_id ORDER BY at, n)) s
         WHERE rows <> (SELECT count(*) FROM ${table} t WHERE t.agent_id = s.agent_id
           AND (t.${time}, t.n) >= (s.at, s.n) AND (t.${time}, t.n) < (s.next_at, s.next_n))`,
      )
      .all(list);
  });
}

function grown() {
  const roll = dice(7);
  const fixture = open();
  const rows = new Map<string, PlatformConversationRow>();
  fixture.db.transaction(() => {
    const persons = Array.from({ length: 300 }, (_, n) => fixture.person("one", `p${n}`, 1 + roll(50)));
    const stranger = fixture.person("two", "stranger");
    const pick = () => persons[roll(persons.length)] ?? "";
    // Many at the same time, and some with a clock that went back.
    for (let n = 0; n < 6000; n++) {
      const row = fixture.converse("one", pick(), roll(10) === 0 ? roll(2000) : Math.floor(n / 3));
      rows.set(row.id, row);
      if (n % 5 === 0) fixture.converse("two", stranger, n);
    }
    const ids = [...rows.keys()];
    for (let n = 0; n < 9000; n++) {
      // The old ones rest, so their shelves empty slowly; some are woken.
      const id = ids[roll(20) === 0 ? roll(ids.length) : Math.floor(n / 2) + roll(200)] ?? "";
      const row = rows.get(id);
      if (!row) continue;
      const at = 2000 + n + roll(3);
      fixture.conversations.touch(id, at);
      rows.set(id, { ...row, updated_at: Math.max(row.updated_at, at) });
    }
    for (const person of persons.slice(0, 90)) {
      fixture.conversations.removeOf(person);
      fixture.people.remove(person);
      for (const row of rows.values()) if (row.person_id === person) rows.delete(row.id);
    }
  })();
  return { ...fixture, roll, rows: [...rows.values()] };
}

describe("a long list", () => {
  test("gives any page in any order as sorting all rows does, and counts them", () => {
    const { db, conversations, rows, roll } = grown();
    expect(miscounted(db)).toEqual([]);
    const numbers = new Map(
      db
        .prepare<[], { id: string; n: number }>("SELECT id, n FROM conversation")
        .all()
        .map(({ id, n }) => [id, n]),
    );
    for (let round = 0; round < 200; round++) {
      const orderBy = roll(2) ? "createdAt" : "updatedAt";
      const [from, until] = [roll(3) ? null : roll(12_000), roll(3) ? null : roll(12_000)];
      const filter: ConversationFilter = {
        ...everything,
        orderBy,
        orderDirection: roll(2) ? "ASC" : "DESC",
        from,
        until,
      };
      const time = (row: PlatformConversationRow) => (orderBy === "createdAt" ? row.created_at : row.updated_at);
      const number = ({ id }: PlatformConversationRow) => numbers.get(id) ?? 0;
      const sorted = rows
        .filter((row) => row.updated_at >= (from ?? 0) && row.updated_at <= (until ?? Infinity))
        .toSorted((a, b) => time(a) - time(b) || number(a) - number(b));
      if (filter.orderDirection === "DESC") sorted.reverse();
      const [limit, offset] = [1 + roll(100), roll(3) ? roll(sorted.length + 50) : 0];
      const page = conversations.list("one", filter, limit, offset);
      const ids = (list: readonly PlatformConversationRow[]) => list.map(({ id }) => id);
      expect([round, page.total, ids(page.rows)]).toEqual([
        round,
        sorted.length,
        ids(sorted.slice(offset, offset + limit)),
      ]);
    }
  });

  test("has few shelves, however often its rows move, and none too large", () => {
    const { db, rows } = grown();
    const sizes = db
      .prepare<[], number>("SELECT rows FROM shelf WHERE list = 'changes' AND agent_id = 'one'")
      .pluck()
      .all();
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(rows.length);
    expect(Math.max(...sizes)).toBeLessThan(2048);
    expect(sizes.length).toBeGreaterThan(1);
    expect(sizes.length).toBeLessThanOrEqual(12);
  });

  test("of people is each agent's own", () => {
    const { people, person, db } = open();
    const ids = db.transaction(() => Array.from({ length: 2500 }, (_, n) => person("one", `p${n}`, 1000 + n)))();
    person("two", "stranger");
    expect(people.list("one", "DESC", 2, 1200)).toMatchObject({
      total: 2500,
      rows: [{ id: ids[1299] }, { id: ids[1298] }],
    });
    expect(people.list("one", "ASC", 5, 2498).rows.map(({ id }) => id)).toEqual(ids.slice(2498));
    expect(people.list("one", "ASC", 5, 2500)).toEqual({ rows: [], total: 2500 });
    expect(people.list("two", "ASC", 5, 0).total).toBe(1);
    expect(people.list("nobody", "ASC", 5, 0)).toEqual({ rows: [], total: 0 });
  });

  test("is read again after a change by another process, and after a rollback", () => {
    const file = join(newFolder(), "platform.db");
    const [here, there] = [open(openDatabase(file, "normal")), open(openDatabase(file, "normal"))];
    onTestFinished(() => [here, there].forEach(({ db }) => db.close()));
    const names = () => {
      const { rows, total } = here.people.list("one", "ASC", 9, 0);
      expect(total).toBe(rows.length);
      return rows.map(({ first_name }) => first_name);
    };
    here.person("one", "first");
    expect(names()).toEqual(["first"]);
    there.person("one", "second");
    expect(names()).toEqual(["first", "second"]);
    here.db.exec("BEGIN");
    here.person("one", "undone");
    expect(names()).toEqual(["first", "second", "undone"]);
    here.db.exec("ROLLBACK");
    expect(names()).toEqual(["first", "second"]);
  });
});

describe("a search", () => {
  const letters = ["a", "B", "ä", "Ö", "田", "中", " ", '"', "*", "😀", "@", "1"];
  const text = (maxLength: number, minLength = 0) =>
    fc.array(fc.constantFrom(...letters), { minLength, maxLength }).map((list) => list.join(""));

  test("finds messages that contain the text, in any case, of any length", () => {
    const fixture = open();
    fc.assert(
      fc.property(
        fc.array(fc.record({ title: fc.option(text(8)), name: text(6), email: fc.option(text(4)) }), {
          maxLength: 8,
        }),
        text(4, 1),
        (made, keyword) => {
          fixture.db.exec("DELETE FROM conversation; DELETE FROM person");
          const expected: string[] = [];
          for (const { title, name, email } of made) {
            const id = fixture.person("one", name, 1, email === null ? {} : { email });
            const row = fixture.converse("one", id, 1, title);
            const words = `${title ?? ""}\n${name} \n${email ?? ""}`.toLowerCase();
            if (words.includes(keyword.toLowerCase())) expected.push(row.id);
          }
          const found = fixture.conversations.list("one", { ...everything, keyword }, 100, 0);
          expect([found.rows.map(({ id }) => id), found.total]).toEqual([expected, expected.length]);
        },
      ),
      { numRuns: 150 },
    );
  });

  test("knows what a person or a title is called now, and nothing of what is gone", () => {
    const fixture = open();
    const jo = fixture.person("one", "Jolanda", 1, { email: "jo@people.test" });
    const { id } = fixture.converse("one", jo, 1, "An umbrella");
    fixture.converse("two", fixture.person("two", "Jolanda"), 1, "An umbrella");
    const found = (keyword: string) => fixture.conversations.list("one", { ...everything, keyword }, 9, 0).total;
    const nothing = { title: null, context: null, status: null, state_id: null };
    expect([found("JOLAND"), found("umbrella"), found("um"), found("people.test")]).toEqual([1, 1, 1, 1]);
    fixture.conversations.change(id, { ...nothing, title: "A raincoat" }, 2);
    expect([found("umbrella"), found("um"), found("raincoat")]).toEqual([0, 0, 1]);
    fixture.db.exec("VACUUM");
    expect([found("JOLAND"), found("ra")]).toEqual([1, 1]);
    fixture.people.anonymize(jo);
    fixture.conversations.anonymize(id);
    expect([found("JOLAND"), found("jo@"), found("raincoat"), found("ra")]).toEqual([0, 0, 0, 0]);
    fixture.conversations.removeOf(jo);
    fixture.people.remove(jo);
    expect(miscounted(fixture.db)).toEqual([]);
  });

  test.each(["\0", "a\0b", '"', '""" OR "', "*", "text:", "NEAR(", "-", "'"])("for %j is no failure", (keyword) => {
    const fixture = open();
    fixture.converse("one", fixture.person("one", "Jo"), 1, "Hello");
    for (const words of [keyword, `${keyword}${keyword}${keyword}`])
      expect(fixture.conversations.list("one", { ...everything, keyword: words }, 9, 0).total).toBeLessThan(2);
  });
});

test("a person with conversations cannot be removed", () => {
  const fixture = open();
  fixture.converse("one", fixture.person("one", "Jo"), 1, "Hello");
  const [person] = fixture.people.list("one", "ASC", 1, 0).rows;
  expect(() => fixture.people.remove(person?.id ?? "")).toThrow(/FOREIGN KEY/);
});

test("no statement of a list or a statistic looks at every row", () => {
  const { db } = open();
  const statements: string[] = [];
  const spied = new Proxy(db, {
    get: (target, name) =>
      name === "prepare"
        ? (sql: string) => {
            statements.push(sql);
            return target.prepare(sql);
          }
        : Reflect.get(target, name),
  });
  prepareConversations(spied);
  preparePeople(spied);
  prepareMessages(spied);
  prepareUsage(spied);
  const readers = statements.filter((sql) => /^\s*(SELECT|WITH)/.test(sql));
  expect(readers.length).toBeGreaterThan(40);
  const slow = readers.flatMap((sql) => {
    const names = Object.fromEntries([...sql.matchAll(/@(\w+)/g)].map(([, name]) => [name, null]));
    const marks = Array.from({ length: sql.split("?").length - 1 }, () => null);
    const plan = db
      .prepare<unknown[], { detail: string }>(`EXPLAIN QUERY PLAN ${sql}`)
      .all(...(marks.length > 0 ? marks : Object.keys(names).length > 0 ? [names] : []));
    // What an index has found may be walked and sorted; a table, or all of an agent's rows, may not.
    const few = plan.some(({ detail }) =>
      /found|INDEX (conversation_person|person_email) |INDEX conversation_changed .*updated_at>/.test(detail),
    );
    const fault = ({ detail }: { detail: string }) =>
      (detail.startsWith("SCAN") &&
        !/^SCAN (CONSTANT ROW|found|hit|wording|wording_part|message USING INDEX message_open)\b/.test(detail)) ||
      detail.endsWith("(agent_id=?)") ||
      (detail.includes("TEMP B-TREE") && !few);
    return plan.filter(fault).map(({ detail }) => ({ detail, sql }));
  });
  expect(slow).toEqual([]);
});
