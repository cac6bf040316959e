// The web console in a real browser: the daily tasks of an operator, by mouse, by keyboard, on a phone, by night. The
// screenshots are in test-results/console/.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import axe from "axe-core";
import type { Browser, BrowserContextOptions, Page, Response } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Database } from "../../src/store/driver.ts";
import { migrate } from "../../src/store/migrate.ts";
import {
  type ConsoleFixture,
  channel,
  heldReply,
  openConsole,
  populate,
  refused,
} from "../support/commands/console.ts";
import { describeReal, needChromium, startChromium, visit } from "../support/machine/debian.ts";
import { put, sqliteDatabase } from "../support/store/databases.ts";

const results = fileURLToPath(new URL("../../test-results/console/", import.meta.url));

const missing = await needChromium();
describeReal("The web console in Chromium", missing, () => {
  let browser: Browser;
  beforeAll(async () => {
    mkdirSync(results, { recursive: true });
    browser = await startChromium();
  });
  afterAll(() => browser?.close());

  /** A console with a store, and a browser that has logged in with a link. */
  async function open(options: BrowserContextOptions = {}, fill = populate) {
    const db = await (await sqliteDatabase()).open();
    await migrate(db);
    await fill(db);
    const fixture = await openConsole(db, { timing: { console: { refresh: 100 } } });
    const visited = await visit(browser, await fixture.link(), options);
    await visited.page.getByRole("button", { name: "Log in" }).click();
    await visited.page.getByRole("heading", { name: "Overview" }).waitFor();
    return { ...visited, fixture, db };
  }

  it("finds an email by its sender, shows why it was not answered, and releases it", async () => {
    const { page, db, complaints } = await open();
    await page.getByRole("link", { name: "Refused", exact: true }).click();
    await page.getByLabel("Sender or subject").fill("anna@");
    await page.getByRole("button", { name: "Filter" }).click();
    const row = page.getByRole("row", { name: /anna@example\.org/ });
    expect(await row.textContent()).toContain("It is an automatic reply (Auto-Submitted)");
    expect(await page.getByRole("row").count()).toBe(2);
    await row.getByRole("link").click();
    expect(await page.locator("main").textContent()).toContain("not answered: It is an automatic reply");
    expect(await page.locator("pre").textContent()).toContain("this is Subject out-of-office <b>from</b>");
    await page.getByRole("button", { name: "Answer" }).click();
    await page.getByRole("status").filter({ hasText: "It will be answered." }).waitFor();
    const event = await db.read((q) => q.one("SELECT state, code FROM events WHERE sender = 'anna@example.org'"));
    expect(event).toEqual({ state: "stored", code: "released" });
    expect(complaints).toEqual([]);
  });

  it("sends forty held replies with one reason again, and no other", async () => {
    const { page, db } = await open({}, async (store) => {
      await populate(store, { replies: 40 });
      await store.tx((q) => heldReply(q, 40, "the mailbox is full", "given-up"));
    });
    await page.getByRole("link", { name: /held/ }).first().click();
    await page.getByRole("button", { name: /^Send all 40/ }).click();
    await page.getByRole("status").filter({ hasText: "40 queued to be sent." }).waitFor();
    const states = await db.read((q) =>
      q.all("SELECT state, COUNT(*) AS count FROM drafts GROUP BY state ORDER BY state"),
    );
    expect(states).toEqual([
      { state: "held", count: 1 },
      { state: "queued", count: 40 },
    ]);
  });

  it("sends a reply that waits for its delay now, and no other", async () => {
    const { page, db } = await open({}, async (store) => {
      await populate(store);
      await store.tx(async (q) => {
        for (const n of [0, 1, 2])
          await put(q, "drafts", `draft${n}`, "state = 'queued', open = 1, due_at = due_at + 3600000, reason = NULL");
      });
    });
    await page.getByRole("link", { name: "Waiting", exact: true }).click();
    await page.getByRole("link", { name: /^Replies/ }).click();
    await page.getByRole("checkbox", { name: /person1@example\.org/ }).check();
    await page.getByRole("button", { name: "Send selected now" }).click();
    await page.getByRole("status").filter({ hasText: "1 will be sent now." }).waitFor();
    const due = await db.read((q) => q.all("SELECT id FROM drafts WHERE due_at <= now_ms() ORDER BY id"));
    expect(due).toEqual([{ id: "draft1" }]);
    expect(await db.read((q) => q.all("SELECT action, actor, draft FROM actions"))).toEqual([
      { action: "send-now", actor: "the web console", draft: "draft1" },
    ]);
  });

  it("drops selected replies with a reason, by keyboard alone", async () => {
    const { page, db } = await open();
    await page.goto(`${new URL(page.url()).origin}/held?kind=replies`);
    const tabTo = async (selector: string) => {
      const there = () => page.evaluate(`document.activeElement?.matches(${JSON.stringify(selector)}) === true`);
      for (let steps = 0; steps < 100 && !(await there()); steps++) await page.keyboard.press("Tab");
      expect(await there(), selector).toBe(true);
      expect(await page.evaluate("getComputedStyle(document.activeElement).outlineStyle"), selector).toBe("solid");
    };
    await page.keyboard.press("Tab");
    expect(await page.evaluate("document.activeElement.textContent")).toBe("To the content");
    await tabTo("input[data-all]");
    await page.keyboard.press("Space");
    await tabTo("#drop-selected > summary");
    await page.keyboard.press("Enter");
    await tabTo("#drop-selected input[name=why]");
    await page.keyboard.type("answered by telephone");
    await page.keyboard.press("Enter");
    expect(await db.read((q) => q.all("SELECT id FROM drafts WHERE state <> 'held'"))).toEqual([]);
    await tabTo("#drop-selected button");
    await page.keyboard.press("Enter");
    await page.getByRole("status").filter({ hasText: "3 dropped." }).waitFor();
    expect(await db.read((q) => q.all("SELECT DISTINCT state, reason FROM drafts"))).toEqual([
      { state: "dropped", reason: "dropped by an operator: answered by telephone" },
    ]);
  });

  it("shows a change without a reload, keeps typed input, and reports when the daemon is gone", async () => {
    const { page, fixture, db } = await open();
    fixture.channels[0] = channel("support-mail", {
      state: "unauthorized",
      reason: "535 5.7.8 password refused",
    });
    await page.getByText("535 5.7.8 password refused").waitFor();
    expect(await page.locator("tbody tr").first().textContent()).toContain("support-mail");
    await page.goto(`${fixture.url}/refused`);
    await page.getByLabel("Sender or subject").fill("typed");
    await db.tx((q) => refused(q, "late", "eva@example.org", "denied", "The sender is on the deny list"));
    // A second page shows the change at the same time.
    const other = await page.context().newPage();
    await other.goto(`${fixture.url}/refused`);
    await db.tx((q) => refused(q, "later", "finn@example.org", "denied", "The sender is on the deny list"));
    await other.getByRole("row", { name: /finn@example\.org/ }).waitFor();
    expect(await page.getByLabel("Sender or subject").inputValue()).toBe("typed");
    await page.getByLabel("Sender or subject").fill("");
    await page.getByRole("heading", { name: "Refused" }).click();
    await page.getByRole("row", { name: /eva@example\.org/ }).waitFor();
    await fixture.web.close();
    await page.getByText("Not connected").waitFor();
  });

  it("keeps typed text when another tab logs out, and after the next login gives it back to be copied", async () => {
    const { page, fixture } = await open();
    const pause = page.locator("#pause-support-mail");
    await pause.locator("summary").click();
    await pause.getByLabel("Reason").fill("the agent answers nonsense");
    const other = await page.context().newPage();
    await other.goto(fixture.url);
    await other.getByRole("button", { name: "Log out" }).click();
    await page.getByText("Logged out, your text is kept").waitFor();
    expect(await pause.getByLabel("Reason").inputValue()).toBe("the agent answers nonsense");
    await other.goto(await fixture.link());
    await other.getByRole("button", { name: "Log in" }).click();
    await other.getByRole("heading", { name: "Overview" }).waitFor();
    await page.getByRole("button", { name: "Pause support-mail" }).click();
    await page.getByRole("heading", { name: "Refused" }).waitFor();
    expect(await page.getByLabel("Your text was not sent").inputValue()).toBe("the agent answers nonsense");
  });

  it("pauses a channel with a reason, shows it, and resumes it", async () => {
    const { page, db } = await open();
    await page.locator("#pause-support-mail > summary").click();
    await page.locator("#pause-support-mail").getByLabel("Reason").fill("the agent answers nonsense");
    await page.getByRole("button", { name: "Pause support-mail" }).click();
    await page.getByRole("status").filter({ hasText: "Channel support-mail is paused." }).waitFor();
    const row = page.getByRole("row", { name: /^support-mail/ });
    expect(await row.textContent()).toContain("Paused: the agent answers nonsense");
    const pauses = () => db.read((q) => q.all("SELECT channel, reason FROM channel_pauses WHERE until IS NULL"));
    expect(await pauses()).toEqual([{ channel: "support-mail", reason: "the agent answers nonsense" }]);
    await row.getByRole("button", { name: "Resume" }).click();
    await page.getByRole("status").filter({ hasText: "Channel support-mail is resumed." }).waitFor();
    expect(await pauses()).toEqual([]);
  });

  it("shows the year of what is from another one", async () => {
    const { page, db, fixture } = await open();
    await db.tx((q) => q.run("UPDATE events SET received_at = 0 WHERE sender = 'anna@example.org'"));
    await page.goto(`${fixture.url}/refused`);
    expect(await page.getByRole("row", { name: /anna@example\.org/ }).textContent()).toMatch(/19(69|70)/);
  });

  it("can be read and used without JavaScript", async () => {
    const { page, db } = await open({ javaScriptEnabled: false });
    await page.goto(`${new URL(page.url()).origin}/held?kind=messages`);
    await page
      .getByRole("row", { name: /carl@example\.org/ })
      .getByRole("checkbox")
      .check();
    await page.getByRole("button", { name: "Answer selected" }).click();
    await page.getByRole("status").filter({ hasText: "1 will be answered." }).waitFor();
    const event = await db.read((q) => q.one("SELECT state FROM events WHERE sender = 'carl@example.org'"));
    expect(event).toEqual({ state: "stored" });
  });

  it("loads less than 60 kB, and nothing from elsewhere", async () => {
    const { page, fixture, requests } = await open({}, (db) => populate(db, { replies: 60 }));
    for (const path of ["/", "/held", "/refused"]) {
      const responses: Response[] = [];
      const collect = (response: Response) => {
        if (!response.url().includes("/live")) responses.push(response);
      };
      page.on("response", collect);
      await page.goto(fixture.url + path, { waitUntil: "load" });
      page.off("response", collect);
      const bodies = await Promise.all(responses.map((response) => response.body()));
      const bytes = bodies.reduce((sum, body) => sum + body.length, 0);
      expect(bodies.length, path).toBe(3);
      expect(bytes, path).toBeLessThan(60_000);
    }
    expect(requests.filter((url) => !url.startsWith(fixture.url))).toEqual([]);
  });

  it.each([
    { width: 1280, colorScheme: "light" as const, rules: "all" as const },
    { width: 1280, colorScheme: "dark" as const, rules: "colours" as const },
    { width: 800, colorScheme: "light" as const, rules: "colours" as const },
    { width: 360, colorScheme: "light" as const, rules: "colours" as const },
    { width: 360, colorScheme: "dark" as const, rules: "all" as const },
  ])("is for everybody at $width pixels, $colorScheme", async ({ width, colorScheme, rules }) => {
    const options = { viewport: { width, height: 900 }, colorScheme, bypassCSP: true };
    const { page, fixture } = await open(options, busyStore);
    troubled(fixture);
    for (const [path, name] of pages) {
      await page.goto(fixture.url + path);
      await page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })");
      await audit(page, `${path} at ${width} ${colorScheme}`, rules);
      expect(await page.evaluate("document.documentElement.scrollWidth"), path).toBeLessThanOrEqual(width);
      await page.goto(fixture.url + path);
      await page.screenshot({ path: join(results, `${name}-${width}-${colorScheme}.png`), fullPage: true });
    }
  });
});

const pages = [
  ["/", "overview"],
  ["/waiting", "waiting"],
  ["/waiting?kind=replies", "waiting-replies"],
  ["/held?kind=replies", "held-replies"],
  ["/held?kind=messages", "held-messages"],
  ["/refused", "refused"],
  ["/messages/1", "message"],
  ["/conversations", "conversations"],
  ["/escalations", "escalations"],
  ["/nothing", "not-found"],
] as const;

/** `rules`: those of axe that are run. */
async function audit(page: Page, what: string, rules: "all" | "colours"): Promise<void> {
  await page.evaluate(axe.source);
  const run = rules === "all" ? "axe.run()" : "axe.run({ runOnly: ['color-contrast'] })";
  const { violations, passes } = await page.evaluate<axe.AxeResults>(run);
  expect(
    violations.map(({ id, nodes }) => ({ id, at: nodes.slice(0, 3).map(({ html }) => html) })),
    what,
  ).toEqual([]);
  expect(passes.map(({ id }) => id)).toContain("color-contrast");
}

/** A day of messages, so that the chart has something to show. */
async function busyStore(db: Database): Promise<void> {
  await populate(db, { replies: 12 });
  await db.tx(async (q) => {
    for (let n = 0; n < 4; n++)
      await heldReply(q, 20 + n, "the recipient's mailbox is full: 452 4.2.2 over quota", "given-up");
    const hour = 3_600_000;
    for (let n = 0; n < 5; n++) {
      await heldReply(q, 30 + n, "waits");
      await put(
        q,
        "drafts",
        `draft${30 + n}`,
        `state = 'queued', open = 1, due_at = due_at + ${n * hour}, code = NULL, reason = ${n === 0 ? "'421 4.7.0 try again later'" : "NULL"}`,
      );
    }
    for (let n = 0; n < 240; n++) {
      const at = Date.now() - ((n * 37) % 240) * (hour / 10);
      const state = n % 9 === 0 ? "ignored" : n % 31 === 0 ? "held" : "routed";
      await q.run(
        `INSERT INTO events (channel, external_id, kind, state, code, reason, sender, subject, body, due_at, received_at)
         VALUES ($1, $2, 'message', $3, $4, $5, $6, 'A question', '{"text":"hello"}', $7, $7)`,
        n % 3 === 0 ? "support-sms" : "support-mail",
        `busy${n}`,
        state,
        state === "ignored" ? "auto-reply" : null,
        state === "ignored" ? "It is an automatic reply" : null,
        `person${n}@example.org`,
        at,
      );
    }
    await q.run(
      `INSERT INTO escalations (id, number, about, channel, agent, state, cause, reason, entered_at, opened_at)
       VALUES ('e1', 17, 'channel:support-mail:channel-down', 'support-mail', 'support', 'open', 'channel-down', 'The channel support-mail is down: 535 5.7.8 password refused', $1, $1)`,
      Date.now() - 1_000_000,
    );
    await q.run(
      `INSERT INTO escalations (id, number, about, channel, agent, state, cause, reason, acknowledged_by, entered_at, opened_at)
       VALUES ('e2', 16, 'conversation:held1', 'support-mail', 'support', 'acknowledged', 'topic', 'The customer asks for a refund', 'Dora', $1, $1)`,
      Date.now() - 5_000_000,
    );
  });
}

function troubled({ channels, state }: ConsoleFixture): void {
  channels[0] = channel("support-mail", {
    state: "unauthorized",
    reason: "535 5.7.8 Error: authentication failed: the password was refused",
    failures: 4,
    retry_at: new Date(Date.now() + 300_000).toISOString(),
  });
  channels.push(
    channel("support-voice", {
      adapter: "voice",
      warnings: ["the certificate of api.example.com expires in 5 days"],
    }),
    channel("sales-mail", { state: "connecting", since: new Date().toISOString() }),
  );
  state.current = {
    problem: null,
    warnings: [
      "the store is a restored backup; messages that may have been answered already are held as answered-before-restore",
    ],
  };
}
