// Mails in the console's frame: no body of 300 hostile ones runs a script or loads anything.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it, onTestFinished, vi } from "vitest";
import { frameDocument, frameHeaders } from "../../src/console/mail/html.ts";
import { sanitized } from "../../src/console/mail/worker.ts";
import type { Database, Query } from "../../src/store/driver.ts";
import { migrate } from "../../src/store/migrate.ts";
import { ensureChannel, settleEvent } from "../../src/store/tables/events.ts";
import { consoleRig } from "../support/commands/console.ts";
import { type HostileMail, hostileMails } from "../support/email/hostile-html.ts";
import { needChromium, startChromium, visit } from "../support/machine/chromium.ts";
import { describeReal } from "../support/machine/debian.ts";
import { conversation, event, insertEvent, sqlitePlace } from "../support/store/databases.ts";

vi.setConfig({ testTimeout: 180_000 });

interface Outside {
  readonly url: string;
  /** Every request other than those for `documents`. */
  readonly requests: string[];
}

type Document = readonly [body: string, headers: Readonly<Record<string, string>>];

/** A server that serves these documents, and notes every other request. */
async function outside(
  documents: (path: string) => Document | undefined = () => undefined,
): Promise<Outside> {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    const [body = "", headers = {}] = documents(request.url ?? "") ?? [];
    if (body === "") requests.push(request.url ?? "");
    response.writeHead(200, { "content-type": "text/html; charset=utf-8", ...headers }).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/x.png`, requests };
}

const mail = (html: string): string =>
  `From: eve@example.org\r\nTo: us@example.com\r\nSubject: hostile\r\nMIME-Version: 1.0\r\nContent-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n${Buffer.from(
    `<p>begin</p>${html}`,
  )
    .toString("base64")
    .replace(/.{76}/g, "$&\r\n")}\r\n`;

async function store(q: Query, id: string, html: string, of: string | null): Promise<void> {
  const body = JSON.stringify({ kind: "message", text: html.slice(0, 2000) });
  const raw = { id: `raw${id}`, bytes: Buffer.from(mail(html)) };
  await insertEvent(
    q,
    event(id, { channel: "support-mail", sender: "eve@example.org", subject: html.slice(0, 200), body, raw }),
  );
  const row = await q.one<{ id: number }>("SELECT id FROM events WHERE external_id = $1", id);
  await settleEvent(q, row?.id ?? 0, { state: "routed", ...(of === null ? {} : { conversation: of }) });
}

const missing = await needChromium();
describeReal("Mails in the console in Chromium", missing, () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await startChromium();
  });
  afterAll(() => browser?.close());

  async function open(fill: (db: Database) => Promise<void>) {
    const db = await (await sqlitePlace()).open();
    await migrate(db);
    await db.tx((q) => ensureChannel(q, "support-mail"));
    await fill(db);
    const rig = await consoleRig(db);
    const visited = await visit(browser, await rig.link());
    await visited.page.getByRole("button", { name: "Log in" }).click();
    await visited.page.getByRole("heading", { name: "Overview" }).waitFor();
    return { ...visited, rig, db };
  }

  /** Loads every document in a frame of a page, forty at a time. */
  async function look(at: Outside, count: number, sandbox: string): Promise<Page> {
    const { page } = await visit(browser, new URL("/parent", at.url).href);
    for (let from = 0; from < count; from += 40) {
      await page.evaluate(`Promise.all(Array.from({ length: ${Math.min(40, count - from)} }, (_, n) => {
        const frame = document.createElement("iframe");
        ${sandbox}
        frame.src = "/mail/" + (${from} + n);
        const loaded = new Promise((resolve) => frame.addEventListener("load", resolve, { once: true }));
        document.body.append(frame);
        return loaded;
      }))`);
      await page.evaluate(`document.querySelectorAll("iframe").forEach((frame) => frame.remove())`);
    }
    return page;
  }

  /** Serves the bodies to `look`; the policy of the page is that of the console. */
  async function served(document: (html: string) => Document): Promise<Outside & { readonly count: number }> {
    const { rig } = await open(async () => {});
    const policy = (await rig.get("/conversations")).headers.get("content-security-policy") ?? "";
    const page: Document = ["<!doctype html><body>parent", { "content-security-policy": policy }];
    let mails: readonly HostileMail[] = [];
    const server = await outside((path) => {
      if (path === "/parent") return page;
      const found = /^\/mail\/(\d+)$/.exec(path)?.[1];
      return found === undefined ? undefined : document(mails[Number(found)]?.html ?? "");
    });
    mails = hostileMails(server.url);
    expect(mails.length).toBeGreaterThan(300);
    return { ...server, count: mails.length };
  }

  it("run no script and load nothing in the frame, even if they were not sanitized", async () => {
    const server = await served((html) => [frameDocument(html), frameHeaders]);
    const page = await look(server, server.count, `frame.setAttribute("sandbox", "");`);
    expect(server.requests.filter((path) => path !== "/favicon.ico")).toEqual([]);
    expect(await page.evaluate("window.ran")).toBeUndefined();
  });

  it("run no script and load nothing when they are sanitized, even outside of the frame", async () => {
    const server = await served((html) => [`<!doctype html><body>${sanitized(html)}`, {}]);
    const page = await look(server, server.count, "");
    expect(server.requests.filter((path) => path !== "/favicon.ico")).toEqual([]);
    expect(await page.evaluate("window.ran")).toBeUndefined();
  });

  it("would do both without these barriers", async () => {
    const server = await served((html) => [`<!doctype html><body>${html}`, {}]);
    const page = await look(server, 150, "");
    expect(new Set(server.requests).size).toBeGreaterThan(20);
    expect(await page.evaluate("window.ran")).toEqual(expect.any(Number));
  });

  it("are shown in the timeline as text, and as HTML in a frame that the page's policy confines", async () => {
    const { url, requests: noted } = await outside();
    const hostile = `<b>bold</b><script>fetch('${url}');top.ran=1</script><img src="${url}" alt="A <i>photo</i>"><a href="${url}">offer</a>`;
    const { page, rig, requests, complaints } = await open((db) =>
      db.tx(async (q) => {
        await conversation(q, "k1", "support-mail", "eve@example.org");
        await store(q, "one", hostile, "k1");
      }),
    );
    await page.getByRole("link", { name: "Conversations" }).click();
    await page.getByRole("searchbox").fill("eve@");
    await page.getByRole("button", { name: "Search" }).click();
    await page.getByRole("link", { name: "eve@example.org" }).click();
    expect(await page.locator("pre").first().textContent()).toContain("<script>");
    await page.getByText("Show as HTML").click();
    const frame = page.frameLocator("iframe.mail");
    await frame.getByText("bold").waitFor();
    expect(await frame.locator("body").innerHTML()).toBe(
      `<p>begin</p><b>bold</b><span>[image: A &lt;i&gt;photo&lt;/i&gt;]</span><span title="${url}">offer</span>`,
    );
    await frame.getByText("offer").click();
    expect(noted).toEqual([]);
    expect(requests.filter((one) => !one.startsWith(`${rig.url}/`) && !one.startsWith("data:,"))).toEqual([]);
    expect(await page.evaluate("window.ran")).toBeUndefined();
    expect(complaints).toEqual([]);
    const raw = await rig.get("/conversations/message/1/raw");
    expect([raw.status, raw.headers.get("content-type"), raw.headers.get("content-disposition")]).toEqual([
      200,
      "message/rfc822",
      'attachment; filename="message-1.eml"',
    ]);
    expect(raw.headers.get("x-content-type-options")).toBe("nosniff");
    expect(Buffer.from(await raw.arrayBuffer()).toString()).toBe(mail(hostile));
    const html = await rig.get("/conversations/message/1/html");
    expect(html.headers.get("content-security-policy")).toMatch(/default-src 'none'.*; sandbox$/);
    expect((await fetch(`${rig.url}/conversations/message/1/raw`, { redirect: "manual" })).status).not.toBe(
      200,
    );
  });
});
