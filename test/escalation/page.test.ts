import { describe, expect, it } from "vitest";
import type { Policy } from "../../src/domain/policy.ts";
import { addNotifications } from "../../src/store/tables/responders.ts";
import { chiefPolicy, openPlatformWebhooks } from "../support/escalation/policy.ts";
import { turn } from "../support/store/databases.ts";

const token = "0123456789abcdefghjkmnpqrs";
const other = "zzzzzzzzzzzzzzzzzzzzzzzzzz";
const open = async (link: Partial<Policy["link"]> = {}) => {
  const { link: standard } = chiefPolicy();
  const webhooks = await openPlatformWebhooks(chiefPolicy({ link: { ...standard, ...link } }));
  await webhooks.bound("k", "platform-1");
  const row = await webhooks.escalated("k", token);
  return { door: webhooks, row, link: `${webhooks.url}/escalations/${token}` };
};
/** Sends a form of the page, and follows the redirect. */
const send = async (link: string, form: Record<string, string> = { action: "ack" }) => {
  const answer = await fetch(link, { method: "POST", body: new URLSearchParams(form) });
  return { status: answer.status, text: await answer.text() };
};
const state = "SELECT state, acknowledged_by, acknowledged_target FROM escalations";
const untouched = [{ state: "open", acknowledged_by: null, acknowledged_target: null }];
const kept = ["content-security-policy", "referrer-policy", "x-robots-tag", "cache-control", "content-type"];
const hostile = "Where is it?\n<script>alert(1)</script>\u202e <img src=x onerror=alert(2)>";

describe("opening a link", () => {
  it("shows the trigger, the customer's message and the notified responders, and changes nothing", async () => {
    const { door: webhooks, row, link } = await open();
    await webhooks.db.tx(async (q) => {
      await turn(q, "t", "k");
      await q.run("UPDATE turns SET question = $1 WHERE id = 't'", hostile);
      await addNotifications(q, [
        { id: "n", target: `contact-${token}`, kind: "opened", subject: "", text: null, inMs: 0 },
      ]);
    });
    for (const method of ["GET", "GET", "HEAD"]) {
      const answer = await fetch(link, { method });
      const text = await answer.text();
      expect(answer.status).toBe(200);
      if (method === "HEAD") expect(text).toBe("");
      else {
        expect(text).toContain(`<h1>Escalation ${row.number}</h1>`);
        expect(text).toContain("<dd>refund</dd>");
        expect(text).toContain("<dd>a@example.org</dd>");
        expect(text).toContain("Not acknowledged yet.");
        expect(text).toContain("Where is it?\n&lt;script&gt;alert(1)&lt;/script&gt; &lt;img src=x");
        expect(text).toContain("Dora Dahl by email: waiting to be sent");
        for (const name of ["Acknowledge", "Send to the customer", "Keep the note", "Return to the agent"])
          expect(text.includes(`>${name}</button>`), name).toBe(name !== "Send to the customer");
        // The channel of the fixture has no outbound side.
        expect(text).toContain("A reply to the customer is not possible here: channel c cannot send now.");
      }
    }
    expect(await webhooks.rows(state)).toEqual(untouched);
  });

  it("is invalid once its responder was removed from the policy", async () => {
    const [chief] = chiefPolicy().responders.values();
    if (!chief) throw new Error("no responder");
    const webhooks = await openPlatformWebhooks(chiefPolicy({ responders: new Map([["chief", chief]]) }));
    await webhooks.bound("k", "platform-1");
    await webhooks.escalated("k", token);
    const link = `${webhooks.url}/escalations/${token}`;
    const unknown = await fetch(`${link.slice(0, -1)}x`);
    const answer = await fetch(link);
    expect([answer.status, await answer.text()]).toEqual([unknown.status, await unknown.text()]);
    await send(link);
    expect(await webhooks.rows(state)).toEqual(untouched);
  });

  it("masks addresses, and offers only what the policy permits", async () => {
    const { door: webhooks, link } = await open({ actions: ["ack"], addresses: "masked" });
    const text = await (await fetch(link)).text();
    expect(text).toContain("<dd>a***@example.org</dd>");
    expect(text.match(/<button/g)).toHaveLength(1);
    for (const action of ["close", "resume", "note", "reply"]) {
      const refused = await send(link, { action, text: "Hello" });
      expect([refused.status, refused.text]).toEqual([409, expect.stringContaining("does not permit this")]);
    }
    expect(await webhooks.rows(state)).toEqual(untouched);
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
    expect(more).toEqual(["no-referrer", "noindex, nofollow, noarchive", "no-store", "text/html; charset=utf-8"]);
    expect(text).toContain("&lt;b&gt;insists&lt;/b&gt;");
    expect(text).not.toMatch(/<script|<b>|https?:|src=|href=|url\(|style="/i);
    expect(text).toContain('name="viewport"');
    expect(text).toContain("color-scheme:light dark");
  });

  it("leaves no token in the log", async () => {
    const { door: webhooks, link } = await open();
    await fetch(link);
    await fetch(link, { method: "POST" });
    await fetch(`${webhooks.url}/escalations/${other}/more`);
    const lines = webhooks.logged.filter(({ message }) => message === "request served");
    expect(lines.map((line) => line["path"])).toEqual(Array(3).fill("/escalations/..."));
    expect(JSON.stringify(webhooks.logged)).not.toMatch(new RegExp(`${token}|${other}`));
  });

  it("says who has acknowledged it, and that it is closed", async () => {
    const { door: webhooks, link } = await open();
    await webhooks.db.tx((q) =>
      q.run("UPDATE escalations SET state = 'acknowledged', acknowledged_by = 'Emil', acknowledged_target = 'x'"),
    );
    const taken = await (await fetch(link)).text();
    expect(taken).toContain("Acknowledged by Emil.");
    expect(taken).toContain(">Acknowledge</button>");
    await webhooks.db.tx((q) => q.run("UPDATE escalations SET state = 'closed', closed_at = 1, closed_by = 'Emil'"));
    const closed = await (await fetch(link)).text();
    expect(closed).toContain("Closed by Emil.");
    expect(closed).not.toMatch(/>(Acknowledge|Close|Send to the customer)<\/button>/);
    expect(await send(link)).toEqual({
      status: 409,
      text: expect.stringContaining("It was closed by Emil."),
    });
    expect(await webhooks.rows("SELECT state FROM escalations")).toEqual([{ state: "closed" }]);
  });
});

describe("a form of the page", () => {
  it("acknowledges in the name of the responder, once, and the link stays valid", async () => {
    const { door: webhooks, link } = await open();
    const answers = await Promise.all([1, 2, 3].map(() => send(link)));
    for (const { status, text } of answers) {
      expect(status).toBe(200);
      expect(text).toContain("Acknowledged; the other responders are notified of it.");
      expect(text).toMatch(/It is yours\..*answer the mail/s);
    }
    expect(await webhooks.rows(state)).toEqual([
      { state: "acknowledged", acknowledged_by: "Dora Dahl", acknowledged_target: `contact-${token}` },
    ]);
    expect(webhooks.logged.filter(({ message }) => message === "escalation acknowledged")).toHaveLength(1);
    expect(await (await fetch(link)).text()).not.toContain(">Acknowledge</button>");
  });

  it("redirects after an action, so that a reload does not send it again, also under a path of a proxy", async () => {
    const { link } = await open();
    const body = new URLSearchParams({ action: "note", text: "x" });
    const answer = await fetch(link, { method: "POST", redirect: "manual", body });
    expect(answer.status).toBe(303);
    const location = new URL(answer.headers.get("location") ?? "", `https://example.org/bridge/escalations/${token}`);
    expect(location.href).toBe(`https://example.org/bridge/escalations/${token}?done=note`);
  });

  it("keeps a note once, and shows it", async () => {
    const { door: webhooks, link } = await open();
    const note = { action: "note", text: "She called.\r\n<b>Twice.</b>" };
    await send(link, note);
    expect((await send(link, note)).text).toContain("Dora Dahl: She called.\n&lt;b&gt;Twice.&lt;/b&gt;");
    expect(await webhooks.rows("SELECT detail FROM triggers WHERE source = 'note'")).toHaveLength(1);
    expect((await send(link, { action: "note", text: " \r\n" })).status).toBe(409);
    // As long as the form permits, in a script of three bytes.
    expect((await send(link, { action: "note", text: "漢".repeat(20_000) })).status).toBe(200);
  });

  it("closes, and returns the conversation to the agent afterwards", async () => {
    const { door: webhooks, link } = await open();
    await send(link, { action: "close" });
    expect(await webhooks.rows("SELECT state, closed_by FROM escalations")).toEqual([
      { state: "closed", closed_by: "Dora Dahl" },
    ]);
    expect((await send(link, { action: "resume" })).status).toBe(200);
    expect(await webhooks.rows("SELECT question FROM turns WHERE kind = 'mode'")).toEqual([{ question: "ai" }]);
    expect(await (await fetch(link)).text()).not.toMatch(/>(Return to the agent|Close)<\/button>/);
  });

  it.each<{ readonly what: string; readonly link?: Partial<Policy["link"]>; readonly change?: string }>([
    {
      what: "was closed by a colleague",
      change: "UPDATE escalations SET state = 'closed', closed_at = 1, closed_by = 'Emil'",
    },
    { what: "is on a channel that cannot send any more" },
    { what: "may only be acknowledged any more", link: { actions: ["ack"] } },
  ])("returns the text of a reply, to be copied, when the escalation $what", async ({ link: policy, change }) => {
    const { door: webhooks, link } = await open(policy);
    if (change !== undefined) await webhooks.db.tx((q) => q.run(change));
    const { status, text } = await send(link, { action: "reply", text: "A long </textarea><b>answer</b>" });
    expect(status).toBe(409);
    expect(text).toContain('Copy it:</label><textarea id="unsent" readonly>A long &lt;/textarea&gt;&lt;b&gt;answer');
  });

  it("lets each notified responder take it over by the own link", async () => {
    const { door: webhooks, link } = await open();
    await webhooks.escalated("k", other, "Emil Ek");
    await send(`${webhooks.url}/escalations/${other}`);
    expect(await webhooks.rows("SELECT acknowledged_by FROM escalations")).toEqual([{ acknowledged_by: "Emil Ek" }]);
    expect((await send(link)).status).toBe(200);
    expect(await webhooks.rows("SELECT acknowledged_by FROM escalations")).toEqual([{ acknowledged_by: "Dora Dahl" }]);
  });

  it("does nothing without an action, with an unknown one, or by another method", async () => {
    const { door: webhooks, link } = await open();
    for (const form of [{}, { action: "reopen" }, { action: "" }]) expect((await send(link, form)).status).toBe(409);
    expect((await send(link, { action: "note", text: "x".repeat(300_000) })).status).toBe(413);
    for (const method of ["PUT", "DELETE", "OPTIONS", "PATCH"])
      expect((await fetch(link, { method })).status, method).toBe(405);
    expect(await webhooks.rows(state)).toEqual(untouched);
  });
});

describe("an invalid link", () => {
  it("gets the same response, whether it is forged, expired or replaced", async () => {
    const { door: webhooks, link } = await open();
    await webhooks.escalated("k", other);
    webhooks.forward(3_600_001);
    const bad = [
      link,
      `${webhooks.url}/escalations/${other}`,
      `${webhooks.url}/escalations/${token.toUpperCase()}`,
      `${webhooks.url}/escalations/${token.slice(1)}`,
      `${webhooks.url}/escalations/${token}0`,
      `${webhooks.url}/escalations/${token}/`,
      `${webhooks.url}/escalations/`,
      `${webhooks.url}/escalations/%00`,
      `${webhooks.url}/escalations/' OR 1=1 --`,
      `${webhooks.url}/escalations/${"x".repeat(8000)}`,
    ];
    const seen = new Set<string>();
    for (const method of ["GET", "POST"]) {
      for (const url of bad) {
        const body = method === "POST" ? new URLSearchParams({ action: "ack" }) : null;
        const answer = await fetch(url, { method, body });
        expect(answer.status, `${method} ${url}`).toBe(404);
        seen.add(JSON.stringify([await answer.text(), kept.map((name) => answer.headers.get(name))]));
      }
    }
    expect(seen.size).toBe(1);
    expect(await webhooks.rows(state)).toEqual(untouched);
  });

  it("returns the text of a form, to be copied, when a newer notification has replaced it", async () => {
    const { door: webhooks, link } = await open();
    webhooks.forward(3_600_001);
    const { status, text } = await send(link, { action: "reply", text: "A long </textarea><b>answer</b>" });
    expect(status).toBe(404);
    expect(text).toContain('Copy it:</label><textarea id="unsent" readonly>A long &lt;/textarea&gt;&lt;b&gt;answer');
    expect(await webhooks.rows(state)).toEqual(untouched);
  });

  it("costs one statement", async () => {
    let statements = 0;
    const webhooks = await openPlatformWebhooks(undefined, (db) => ({
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
    await webhooks.bound("k", "platform-1");
    await webhooks.escalated("k", token);
    webhooks.forward(3_600_001);
    const costs: number[] = [];
    for (const one of [token, other, "short", ""]) {
      statements = 0;
      await fetch(`${webhooks.url}/escalations/${one}`);
      costs.push(statements);
    }
    expect(costs).toEqual([1, 1, 1, 1]);
  });
});
