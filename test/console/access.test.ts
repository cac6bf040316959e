// Who gets in: login links, sessions, and what every action demands of a request.

import { connect } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { createLoginLink, csrfToken } from "../../src/console/session.ts";
import type { Database } from "../../src/store/driver.ts";
import { migrate } from "../../src/store/migrate.ts";
import { ensureChannel } from "../../src/store/tables/events.ts";
import { openConsole, populate } from "../support/commands/console.ts";
import { conversation, migrated, opens, sqliteDatabase } from "../support/store/databases.ts";

async function newStore(): Promise<Database> {
  return (await migrated(sqliteDatabase)).open();
}

const sessionOf = (cookie: string): string => cookie.split("=")[1] ?? "";

it("logs in with a link once, shows the overview, and logs out for good", async () => {
  const fixture = await openConsole(await newStore());
  expect((await fetch(fixture.url)).status).toBe(401);
  const link = await fixture.link();
  const opened = await fetch(link);
  expect(await opened.text()).toContain("This link logs this browser in.");
  const post = () => fetch(link, { method: "POST", headers: { origin: fixture.url }, redirect: "manual" });
  const [first, second] = [await post(), await post()];
  expect([first.status, first.headers.get("location")]).toEqual([303, "/"]);
  expect(second.status).toBe(403);
  expect(await second.text()).toContain("used before, or has expired");
  const [set = ""] = first.headers.getSetCookie();
  expect(set).toMatch(/^bridgehead=[0-9a-z]{30}; Max-Age=\d+; Path=\/; HttpOnly; SameSite=Strict$/);
  const cookie = set.split(";")[0] ?? "";
  const overview = await fetch(fixture.url, { headers: { cookie } });
  expect(overview.status).toBe(200);
  expect(await overview.text()).toContain("<h1>Overview</h1>");
  const out = await fetch(`${fixture.url}/logout`, {
    method: "POST",
    headers: { cookie, origin: fixture.url },
    body: new URLSearchParams({ csrf: csrfToken(sessionOf(cookie)) }),
  });
  expect(await out.text()).toContain("Logged out");
  expect((await fetch(fixture.url, { headers: { cookie } })).status).toBe(401);
});

it("refuses an expired link, ends idle sessions, and keeps used ones up to the longest time", async () => {
  const db = await newStore();
  const expired = await openConsole(db, { timing: { console: { link: -1 } } });
  const late = await fetch(await expired.link(), { method: "POST", headers: { origin: expired.url } });
  expect(late.status).toBe(403);
  const idle = await openConsole(db, { timing: { console: { idle: 0 } } });
  expect((await idle.get("/")).status).toBe(401);
  const until = async () =>
    (await db.read((q) => q.one<{ until: number }>("SELECT MAX(until) AS until FROM logins")))?.until ?? 0;
  const used = await openConsole(db, {
    timing: { console: { renewal: 0, idle: 60_000, longest: 3_600_000 } },
  });
  expect((await used.get("/")).status).toBe(200);
  const before = await until();
  await expect.poll(async () => (await used.get("/")).ok && (await until()) > before).toBe(true);
  const short = await openConsole(db, { timing: { console: { renewal: 0, longest: 0 } } });
  await short.get("/");
  expect((await short.get("/")).status).toBe(401);
});

it("stores only hashes, and keeps sessions over a restart", async () => {
  const database = await sqliteDatabase();
  const db = await database.open();
  await migrate(db);
  const fixture = await openConsole(db);
  const cookie = await fixture.login();
  const rows = await db.read((q) => q.all<{ hash: string }>("SELECT hash FROM logins"));
  expect(JSON.stringify(rows)).not.toContain(sessionOf(cookie));
  const again = await openConsole(await database.open());
  expect((await fetch(again.url, { headers: { cookie } })).status).toBe(200);
});

it("sends a Secure cookie with the __Host- prefix behind a proxy with TLS, and accepts its name and origin", async () => {
  const db = await newStore();
  const publicUrl = "https://console.example.com";
  const fixture = await openConsole(db, { publicUrl });
  const path = `/login/${await db.tx((q) => createLoginLink(q, fixture.timing.console))}`;
  const headers = { host: "console.example.com", origin: publicUrl, "sec-fetch-site": "same-origin" };
  const response = await (await fixture.web.routes()).request(path, { method: "POST", headers });
  expect(response.headers.getSetCookie()[0]).toMatch(/^__Host-bridgehead=.*; HttpOnly; Secure; SameSite=Strict$/);
  const other = await (await fixture.web.routes()).request("/", { headers: { host: "other.example.com" } });
  expect(other.status).toBe(403);
});

it("accepts 300 connections", async () => {
  const { url } = await openConsole(await newStore(), { timing: { http: { headers: 120_000, request: 120_000 } } });
  let closed = 0;
  const sockets = Array.from({ length: 310 }, () => connect(Number(new URL(url).port), "127.0.0.1"));
  onTestFinished(() => sockets.forEach((socket) => socket.destroy()));
  for (const socket of sockets) socket.on("error", () => undefined).once("close", () => (closed += 1));
  await expect.poll(() => closed).toBe(10);
});

it("sets the security headers on every response", async () => {
  const fixture = await openConsole(await newStore());
  for (const path of ["/", "/held", "/nothing", "/assets/none", "/login/x"]) {
    const { headers } = await fixture.get(path);
    expect(headers.get("content-security-policy"), path).toMatch(/^default-src 'none';.*frame-ancestors 'none'$/);
    expect(headers.get("content-security-policy"), path).not.toContain("unsafe");
    expect(headers.get("x-content-type-options"), path).toBe("nosniff");
    expect(headers.get("cache-control"), path).toBe("no-store");
  }
});

/** Every action of the console, found in its routes; parameters are given a value. */
async function actions(): Promise<readonly string[]> {
  const fixture = await openConsole(await newStore());
  const paths = (await fixture.web.routes()).routes
    .filter(({ method }) => !["GET", "ALL"].includes(method))
    .map(({ method, path }) => `${method} ${path.replace(/:\w+(\{[^}]*\})?/g, "1")}`);
  return [...new Set(paths)].filter((one) => !one.startsWith("POST /login/"));
}

it("refuses every action without a session, from a foreign origin, with a wrong token and for a foreign name", async () => {
  const db = await newStore();
  await populate(db);
  const fixture = await openConsole(db);
  const cookie = await fixture.login();
  const csrf = csrfToken(sessionOf(cookie));
  const other = csrfToken(sessionOf(await fixture.login()));
  const dump = () =>
    db.read(async (q) =>
      JSON.stringify([
        await q.all("SELECT * FROM events"),
        await q.all("SELECT * FROM drafts"),
        await q.all("SELECT * FROM logins ORDER BY hash"),
      ]),
    );
  const before = await dump();
  const good = { cookie, origin: fixture.url, host: new URL(fixture.url).host, "sec-fetch-site": "same-origin" };
  const cases: readonly (readonly [string, Readonly<Record<string, string | undefined>>, string | undefined])[] = [
    ["without a session", { ...good, cookie: undefined }, csrf],
    ["with a session that does not exist", { ...good, cookie: "bridgehead=abc" }, csrf],
    ["without an origin", { ...good, origin: undefined }, csrf],
    ["from a foreign origin", { ...good, origin: "https://evil.example" }, csrf],
    ["from an opaque origin", { ...good, origin: "null" }, csrf],
    ["from another site", { ...good, "sec-fetch-site": "cross-site" }, csrf],
    [
      "from another port of this machine",
      { ...good, "sec-fetch-site": "same-site", origin: "http://127.0.0.1:1" },
      csrf,
    ],
    ["without a token", good, undefined],
    ["with the token of another session", good, other],
    ["for a foreign name", { ...good, host: "evil.example", origin: "http://evil.example" }, csrf],
  ];
  const found = await actions();
  expect(found.length).toBeGreaterThan(3);
  for (const one of found)
    for (const [what, given, token] of cases) {
      const [method = "", path = ""] = one.split(" ");
      const headers = Object.fromEntries(
        Object.entries(given).flatMap(([key, value]) => (value === undefined ? [] : [[key, value]])),
      );
      const body = new URLSearchParams({
        ...(token !== undefined && { csrf: token }),
        action: "release",
        id: "1",
        kind: "messages",
        back: "/",
      });
      const response = await (await fixture.web.routes()).request(path, { method, headers, body });
      expect([401, 403], `${one} ${what}: ${response.status}`).toContain(response.status);
    }
  expect(await dump()).toBe(before);
  const body = new URLSearchParams({ csrf, action: "release", id: "1", kind: "messages", back: "/refused" });
  const accepted = await (await fixture.web.routes()).request("/refused/act", { method: "POST", headers: good, body });
  expect([accepted.status, accepted.headers.get("location")]).toEqual([303, "/refused"]);
  expect(await dump()).not.toBe(before);
});

it("returns the text of a form whose session has ended, to be copied, and only to the console's own pages", async () => {
  const fixture = await openConsole(await newStore());
  const cookie = await fixture.login();
  const send = (headers: Readonly<Record<string, string>>, csrf: string) =>
    fetch(`${fixture.url}/escalations/1`, {
      method: "POST",
      headers: { origin: fixture.url, ...headers },
      body: new URLSearchParams({ csrf, action: "reply", text: "A long <b>answer</b>", by: "Anna" }),
    });
  const kept = "Copy it:</span><textarea readonly>A long &lt;b&gt;answer&lt;/b&gt;</textarea>";
  const ended = await send({}, csrfToken(sessionOf(cookie)));
  expect([ended.status, await ended.text()]).toEqual([401, expect.stringContaining(kept)]);
  // The operator has logged in again, in another tab.
  const outdated = await send({ cookie }, csrfToken("an earlier session"));
  expect([outdated.status, await outdated.text()]).toEqual([403, expect.stringContaining(kept)]);
  const foreign = await send({ origin: "https://evil.example" }, "");
  expect([foreign.status, await foreign.text()]).toEqual([403, expect.not.stringContaining("A long")]);
});

it("returns the text of a reply, to be copied, when the escalation was closed meanwhile", async () => {
  const db = await newStore();
  await db.tx(async (q) => {
    await ensureChannel(q, "c");
    await opens(q, "e", { about: "k", conversation: await conversation(q, "k") });
    await q.run("UPDATE escalations SET state = 'closed', closed_at = 1, closed_by = 'Emil'");
  });
  const fixture = await openConsole(db);
  const cookie = await fixture.login();
  const answer = await fetch(`${fixture.url}/escalations/1`, {
    method: "POST",
    headers: { origin: fixture.url, cookie },
    body: new URLSearchParams({
      csrf: csrfToken(sessionOf(cookie)),
      action: "reply",
      text: "A long <b>answer</b>",
      by: "Anna",
    }),
  });
  const text = await answer.text();
  expect([answer.status, text]).toEqual([409, expect.stringContaining("it was closed by Emil")]);
  expect(text).toContain("Copy it:</span><textarea readonly>A long &lt;b&gt;answer&lt;/b&gt;</textarea>");
});

it("refuses pages, and reveals nothing, without a session", async () => {
  const db = await newStore();
  await populate(db);
  const fixture = await openConsole(db);
  for (const path of ["/", "/waiting", "/held", "/refused", "/messages/1", "/live?page=/", "/nothing"]) {
    const response = await fetch(fixture.url + path);
    expect(response.status, path).toBe(401);
    expect(await response.text(), path).not.toContain("example.org");
  }
  // fetch sets the Host header itself.
  const rebound = await (await fixture.web.routes()).request("/", {
    headers: { host: "evil.example", cookie: await fixture.login() },
  });
  expect(rebound.status).toBe(403);
});

it("redirects only within the console", async () => {
  const db = await newStore();
  const fixture = await openConsole(db);
  const cookie = await fixture.login();
  for (const back of [
    "//evil.example",
    "https://evil.example",
    "/\\evil.example",
    "/\t/evil.example",
    "javascript:1",
  ]) {
    const response = await fetch(`${fixture.url}/held/act`, {
      method: "POST",
      redirect: "manual",
      headers: { cookie, origin: fixture.url },
      body: new URLSearchParams({ csrf: csrfToken(sessionOf(cookie)), kind: "messages", back }),
    });
    expect(response.headers.get("location")).toBe("/");
  }
});

it("escapes what customers wrote", async () => {
  const db = await newStore();
  await populate(db);
  const fixture = await openConsole(db);
  const text = await (await fixture.get("/messages/1")).text();
  expect(text).toContain("&lt;b&gt;from&lt;/b&gt;");
});

it("opts the sender of a message out, once, and shows why nothing is sent", async () => {
  const db = await newStore();
  await populate(db);
  const fixture = await openConsole(db);
  expect(await (await fixture.get("/messages/4")).text()).toContain("Opt out…");
  const cookie = await fixture.login();
  await fetch(`${fixture.url}/messages/4/act`, {
    method: "POST",
    headers: { cookie, origin: fixture.url },
    body: new URLSearchParams({ csrf: csrfToken(sessionOf(cookie)), action: "opt-out", why: "asked by phone" }),
  });
  const shown = await (await fixture.get("/messages/4")).text();
  expect(shown).toContain("opted out by the web console: asked by phone");
  expect(shown).not.toContain("Opt out…");
  expect(shown).toContain("ignored");
});
