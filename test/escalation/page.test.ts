import { describe, expect, it } from "vitest";
import { openFrontDoor } from "./front-door.ts";

const token = "0123456789abcdefghjkmnpqrs";
const other = "zzzzzzzzzzzzzzzzzzzzzzzzzz";
const open = async () => {
  const door = await openFrontDoor();
  await door.bound("k", "platform-1");
  const row = await door.escalated("k", token);
  return { door, row, link: `${door.url}/escalations/${token}` };
};
const state = "SELECT state, taken_by, taken_contact FROM escalations";
const untouched = [{ state: "open", taken_by: null, taken_contact: null }];
const kept = ["content-security-policy", "referrer-policy", "x-robots-tag", "cache-control", "content-type"];

describe("opening a link", () => {
  it("shows what it is about, and changes nothing, however often scanners open it", async () => {
    const { door, row, link } = await open();
    for (const method of ["GET", "GET", "HEAD"]) {
      const answer = await fetch(link, { method });
      const text = await answer.text();
      expect(answer.status).toBe(200);
      if (method === "HEAD") expect(text).toBe("");
      else {
        expect(text).toContain(`<h1>Escalation ${row.number}</h1>`);
        expect(text).toContain("refund (a@example.org, c)");
        expect(text).toContain("Nobody yet");
        expect(text).toMatch(/<form method="post"><button type="submit">I take it<\/button><\/form>/);
        expect(text).toContain("You are Dora Dahl");
      }
    }
    expect(await door.rows(state)).toEqual(untouched);
    expect(await door.rows("SELECT link_used_at FROM contacts")).toEqual([{ link_used_at: null }]);
  });

  it("gives a page that runs nothing, loads nothing, is kept nowhere, and says what others wrote as text", async () => {
    const { link } = await open();
    const answer = await fetch(link);
    const text = await answer.text();
    const [policy, ...more] = kept.map((name) => answer.headers.get(name) ?? "");
    expect(policy?.split("; ").toSorted()).toEqual([
      "base-uri 'none'",
      "default-src 'none'",
      "form-action 'self'",
      "frame-ancestors 'none'",
      expect.stringMatching(/^style-src 'sha256-[\w+/]+=*'$/),
    ]);
    expect(more).toEqual([
      "no-referrer",
      "noindex, nofollow, noarchive",
      "no-store",
      "text/html; charset=utf-8",
    ]);
    expect(text).toContain("&lt;b&gt;insists&lt;/b&gt;");
    expect(text).not.toMatch(/<script|<b>|https?:|src=|href=|url\(|style="/i);
    expect(text).toContain('name="viewport"');
    expect(text).toContain("color-scheme:light dark");
  });

  it("leaves no token in the log", async () => {
    const { door, link } = await open();
    await fetch(link);
    await fetch(link, { method: "POST" });
    await fetch(`${door.url}/escalations/${other}/more`);
    const lines = door.logged.filter(({ message }) => message === "request served");
    expect(lines.map((line) => line["path"])).toEqual(Array(3).fill("/escalations/..."));
    expect(JSON.stringify(door.logged)).not.toMatch(new RegExp(`${token}|${other}`));
  });

  it("says who has it, and that it is closed", async () => {
    const { door, link } = await open();
    await door.db.tx((q) =>
      q.run("UPDATE escalations SET state = 'taken', taken_by = 'Emil', taken_contact = 'x'"),
    );
    const taken = await (await fetch(link)).text();
    expect(taken).toContain("<dd>Emil</dd>");
    expect(taken).toContain("I take it");
    await door.db.tx((q) => q.run("UPDATE escalations SET state = 'closed', closed_at = 1"));
    for (const method of ["GET", "POST"]) {
      const closed = await (await fetch(link, { method })).text();
      expect(closed).toContain("It is closed");
      expect(closed).not.toContain("<button");
    }
    expect(await door.rows("SELECT state FROM escalations")).toEqual([{ state: "closed" }]);
  });
});

describe("pressing the button", () => {
  it("takes it for the one who has the link, once", async () => {
    const { door, link } = await open();
    const answers = await Promise.all([1, 2, 3].map(() => fetch(link, { method: "POST" })));
    expect(answers.map(({ status }) => String(status)).toSorted()).toEqual(["200", "404", "404"]);
    const [won] = answers.filter(({ status }) => status === 200);
    expect(await won?.text()).toMatch(/It is yours.*Answer the mail/s);
    expect(await door.rows(state)).toEqual([
      { state: "taken", taken_by: "Dora Dahl", taken_contact: `contact-${token}` },
    ]);
    expect((await fetch(link)).status).toBe(404);
  });

  it("tells the others; each has a link of their own, and may take it over", async () => {
    const { door, link } = await open();
    await door.escalated("k", other, "Emil Ek");
    await fetch(`${door.url}/escalations/${other}`, { method: "POST" });
    expect(await door.rows("SELECT taken_by FROM escalations")).toEqual([{ taken_by: "Emil Ek" }]);
    expect((await fetch(link, { method: "POST" })).status).toBe(200);
    expect(await door.rows("SELECT taken_by FROM escalations")).toEqual([{ taken_by: "Dora Dahl" }]);
  });

  it("does nothing by another method", async () => {
    const { door, link } = await open();
    for (const method of ["PUT", "DELETE", "OPTIONS", "PATCH"])
      expect((await fetch(link, { method })).status, method).toBe(405);
    expect(await door.rows(state)).toEqual(untouched);
  });
});

describe("a link that is no good", () => {
  it("is answered alike, whatever is wrong with it: forged, used, too old, replaced", async () => {
    const { door, link } = await open();
    const used = await door.escalated("k", other).then(() => `${door.url}/escalations/${other}`);
    expect((await fetch(used, { method: "POST" })).status).toBe(200);
    await door.db.tx((q) =>
      q.run("UPDATE escalations SET state = 'open', taken_by = NULL, taken_contact = NULL"),
    );
    door.forward(3_600_001);
    const bad = [
      link,
      used,
      `${door.url}/escalations/${token.toUpperCase()}`,
      `${door.url}/escalations/${token.slice(1)}`,
      `${door.url}/escalations/${token}0`,
      `${door.url}/escalations/${token}/`,
      `${door.url}/escalations/`,
      `${door.url}/escalations/%00`,
      `${door.url}/escalations/' OR 1=1 --`,
      `${door.url}/escalations/${"x".repeat(8000)}`,
    ];
    const seen = new Set<string>();
    for (const method of ["GET", "POST"]) {
      for (const url of bad) {
        const answer = await fetch(url, { method });
        expect(answer.status, `${method} ${url}`).toBe(404);
        seen.add(JSON.stringify([await answer.text(), kept.map((name) => answer.headers.get(name))]));
      }
    }
    expect(seen.size).toBe(1);
    expect(await door.rows(state)).toEqual(untouched);
  });

  it("costs the store the same as a good one", async () => {
    let statements = 0;
    const door = await openFrontDoor(undefined, (db) => ({
      ...db,
      read: (work) =>
        db.read((q) =>
          work({
            ...q,
            one: (...call) => (statements++, q.one(...call)),
            all: (...call) => (statements++, q.all(...call)),
          }),
        ),
    }));
    await door.bound("k", "platform-1");
    await door.escalated("k", token);
    await door.db.tx((q) => q.run("UPDATE contacts SET link_used_at = 1"));
    const costs: number[] = [];
    for (const one of [token, other, "short", ""]) {
      statements = 0;
      await fetch(`${door.url}/escalations/${one}`);
      costs.push(statements);
    }
    expect(costs).toEqual([1, 1, 1, 1]);
  });
});
