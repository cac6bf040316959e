// The interactive page in a real browser, as somebody meets it who connects a program: read, tried, by mouse and by
// keyboard, on a phone, by night.

import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { promisify } from "node:util";
import axe from "axe-core";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it, onTestFinished, vi } from "vitest";
import { readAgents } from "../../src/platform/index.ts";
import { operations } from "../../src/wire/operations/index.ts";
import { needChromium, startChromium, visit } from "../support/machine/chromium.ts";
import { describeReal } from "../support/machine/debian.ts";
import { closeServer, listen } from "../support/machine/network.ts";
import { startWith } from "../support/platform/platform.ts";

const run = promisify(execFile);
const keys = { agent: "support-key-1", organization: "acme-organization-key" };
const text = `
organization: { name: Acme, key: ${keys.organization} }
agents: [{ name: support, key: ${keys.agent}, rules: [{ when: order, answer: It ships today. }] }]
`;

async function startDocs() {
  const agents = readAgents(text, "acme.yaml");
  const { platform } = await startWith({ agents });
  return { origin: platform.url, docs: `${platform.url}/api/external/docs/`, agentId: agents[0]?.id ?? "" };
}

// A browser on a busy machine takes its time, and how much of it is no statement.
vi.setConfig({ testTimeout: 180_000 });

const missing = await needChromium();
describeReal("The docs page in Chromium", missing, () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await startChromium();
  });
  afterAll(() => browser?.close());

  it("loads by itself alone, without complaint, and lists every operation", async () => {
    const { docs } = await startDocs();
    const { page, complaints, requests } = await visit(browser, docs);
    expect(await page.title()).toBe("AI Agent API 1.0.0");
    const listed = await page
      .getByRole("navigation")
      .getByRole("link")
      .evaluateAll((links) => links.map((link) => String(link.getAttribute("href")).slice(1)));
    const shown = page.locator(".operation");
    const ids = await shown.evaluateAll((all) => all.map((each) => String(each.id)));
    const names = Object.keys(operations);
    expect(ids.toSorted()).toEqual(names.toSorted());
    expect(listed.filter((id) => names.includes(id))).toEqual(ids);
    for (const [id, { method, path }] of Object.entries(operations))
      expect(await page.locator(`#${id} > summary h4`).textContent()).toBe(`${method} ${path}`);
    const nameless =
      "[...document.querySelectorAll('input, select, textarea')].filter(({ labels }) => labels.length !== 1)";
    expect(await page.evaluate(`${nameless}.map(({ outerHTML }) => outerHTML)`)).toEqual([]);
    const all = await page.locator("[id]").evaluateAll((elements) => elements.map(({ id }) => id));
    expect(all.filter((id, index) => all.indexOf(id) !== index)).toEqual([]);
    expect(requests).toEqual([docs]);
    expect(complaints).toEqual([]);
  });

  it("tries an operation: a right key's answer, a wrong key's refusal", async () => {
    const { docs, origin } = await startDocs();
    const { page, complaints, requests } = await visit(browser, docs);
    await page.getByLabel("Agent-Secret-Key").fill(keys.agent);
    expect(await send(page, "getAgent")).toMatch(/^200 OK, \d+ ms$/);
    expect(await answer(page, "getAgent")).toMatchObject({ name: "support", organizationName: "Acme" });
    await page.getByLabel("Agent-Secret-Key").fill("wrong");
    expect(await send(page, "getAgent")).toMatch(/^403 Forbidden/);
    expect(await answer(page, "getAgent")).toEqual({
      status: 403,
      name: "FORBIDDEN_ERROR",
      message: "INVALID_CREDENTIALS",
      details: [],
    });
    await page.getByLabel("Agent-Secret-Key").fill("");
    expect(await send(page, "getAgent")).toContain("(no Agent-Secret-Key was given)");
    const asked = `${origin}/external/agents/by-api-key`;
    expect(requests).toEqual([docs, asked, asked, asked]);
    // A browser says itself that a request was refused; nothing else is complained of.
    expect(complaints.filter((each) => !each.includes("403 (Forbidden)"))).toEqual([]);
  });

  it("holds a conversation: each example starts one, and its id is where the next calls need it", async () => {
    const { docs } = await startDocs();
    const { page, complaints } = await visit(browser, docs);
    await page.getByLabel("Agent-Secret-Key").fill(keys.agent);
    await open(page, "startConversation");
    for (const example of ["By SMS", "By voice", "By e-mail"]) {
      await page.getByRole("combobox", { name: "Example of startConversation" }).selectOption(example);
      expect(await send(page, "startConversation")).toMatch(/^201 Created/);
    }
    const { conversationId } = await answer(page, "startConversation");
    await open(page, "sendMessage");
    expect(await field(page, "sendMessage", "id required").inputValue()).toBe(conversationId);
    const said = { message: 'Where\'s my "order"?\nAnd $HOME?' };
    await field(page, "sendMessage", "Body of sendMessage (JSON)").fill(JSON.stringify(said));
    expect(await send(page, "sendMessage")).toMatch(/^201 Created/);
    expect(await answer(page, "sendMessage")).toMatchObject({
      senderRole: "assistant",
      message: "It ships today.",
    });
    expect(await send(page, "listMessages")).toMatch(/^200 OK/);
    expect(await answer(page, "listMessages")).toMatchObject({
      messages: [said, { message: "It ships today." }],
    });
    await open(page, "listConversations");
    await field(page, "listConversations", "searchKeyword").fill("nobody & nothing");
    await send(page, "listConversations");
    expect(await answer(page, "listConversations")).toMatchObject({ totalItems: 0 });
    expect(complaints).toEqual([]);
  });

  it("shows the same call for a shell, without the key", async () => {
    const { docs, origin } = await startDocs();
    const { page } = await visit(browser, docs);
    await page.getByLabel("Agent-Secret-Key").fill(keys.agent);
    await open(page, "sendMessage");
    await field(page, "sendMessage", "id required").fill("a b");
    const said = '{ "message": "Where\'s it?" }';
    await field(page, "sendMessage", "Body of sendMessage (JSON)").fill(said);
    const curl = await page.getByRole("region", { name: "sendMessage with curl" }).textContent();
    const script = `curl() { printf '%s\\n' "$@"; }\n${curl}`;
    const { stdout } = await run("sh", ["-c", script], { env: { AGENT_KEY: "from-the-shell" } });
    expect(stdout.split("\n")).toEqual([
      "-X",
      "POST",
      `${origin}/external/conversations/a%20b/messages`,
      "-H",
      "Agent-Secret-Key: from-the-shell",
      "-H",
      "content-type: application/json",
      "-d",
      said,
      "",
    ]);
  });

  it("uploads a document and saves it, asks under the organization's key, and deletes", async () => {
    const { docs, agentId } = await startDocs();
    const { page, complaints } = await visit(browser, docs);
    await page.getByLabel("Agent-Secret-Key").fill(keys.agent);
    await page.getByLabel("Organization-Secret-Key").fill(keys.organization);
    await open(page, "uploadFile");
    const document = { name: "lamps.txt", mimeType: "text/plain", buffer: Buffer.from("Seven kilograms.") };
    await page.getByLabel("file required").setInputFiles(document);
    await page.getByLabel("autoAddToVectorStore").check();
    expect(await send(page, "uploadFile")).toMatch(/^200 OK/);
    expect(await answer(page, "uploadFile")).toMatchObject({
      fileName: "lamps.txt",
      isUploadedToVectorStore: true,
    });
    expect(await send(page, "getFileContent")).toMatch(/^200 OK/);
    const saved = page.waitForEvent("download");
    await page.getByRole("link", { name: "Save 16 bytes" }).click();
    expect(await readFile(await (await saved).path(), "utf8")).toBe("Seven kilograms.");
    await open(page, "listUsersOfAgent");
    await field(page, "listUsersOfAgent", "id required").fill(agentId);
    expect(await send(page, "listUsersOfAgent")).toMatch(/^200 OK/);
    expect(await send(page, "createUser")).toMatch(/^201 Created/);
    expect(await send(page, "deleteUser")).toMatch(/^204 No Content/);
    expect(await page.locator("#deleteUser .answer").isVisible()).toBe(false);
    expect(complaints).toEqual([]);
  });

  it("can be used by keyboard alone", async () => {
    const { docs } = await startDocs();
    const { page } = await visit(browser, docs);
    const focused = () => page.evaluate("(document.activeElement?.textContent ?? '').trim()");
    const tabTo = async (selector: string) => {
      const there = () =>
        page.evaluate(`document.activeElement?.matches(${JSON.stringify(selector)}) === true`);
      for (let steps = 0; steps < 400 && !(await there()); steps++) await page.keyboard.press("Tab");
      expect(await there(), selector).toBe(true);
    };
    await page.keyboard.press("Tab");
    expect(await focused()).toBe("To the content");
    await tabTo("#key-agent");
    await page.keyboard.type(keys.agent);
    await tabTo("#find");
    await page.keyboard.type("GET by-api-key");
    await expect.poll(() => visible(page)).toEqual(["getAgent", "listFiles"]);
    await tabTo("#getAgent > summary");
    expect(await page.evaluate("getComputedStyle(document.activeElement).outlineStyle")).toBe("solid");
    await page.keyboard.press("Enter");
    await tabTo("#getAgent .send");
    await page.keyboard.press("Enter");
    await page.locator("#getAgent").getByRole("status").filter({ hasText: "200 OK" }).waitFor();
    await tabTo("#getAgent .answer");
    // What a link leads to is brought out, though it was filtered away and folded.
    await page.evaluate("location.hash = 'sendMessage'");
    await field(page, "sendMessage", "Body of sendMessage (JSON)").waitFor();
    expect(await visible(page)).toHaveLength(Object.keys(operations).length);
    await page.getByLabel("Find an operation").fill("nothing like that");
    await page.getByText("No operation has these words.").waitFor();
  });

  /** One of each kind: with parameters, a choice of bodies, a file; a record, a union. The rest is made as they are. */
  const unlike = [
    "getAgent",
    "listConversations",
    "startConversation",
    "uploadFile",
    "record-Message",
    "record-Skill",
  ];

  it.each([
    { width: 1280, colorScheme: "light" as const },
    { width: 360, colorScheme: "dark" as const },
  ])("is for everybody at $width pixels, $colorScheme", async ({ width, colorScheme }) => {
    const { docs } = await startDocs();
    const viewport = { width, height: 800 };
    // The judge is a script from elsewhere, which the page's own policy would not let in.
    const { page } = await visit(browser, docs, { viewport, colorScheme, bypassCSP: true });
    expect(await page.locator("#contents").getAttribute("open")).toBe(width < 400 ? null : "");
    for (const id of unlike) await page.evaluate(`reveal(${JSON.stringify(id)})`);
    await page.evaluate(
      "document.querySelectorAll('details[open] details').forEach((each) => { each.open = true; })",
    );
    await page.getByLabel("Agent-Secret-Key").fill(keys.agent);
    await page.locator("#getAgent .send").click();
    await page.locator("#getAgent").getByRole("status").filter({ hasText: "200 OK" }).waitFor();
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(width);
    const [ground] =
      String(await page.evaluate("getComputedStyle(document.body).backgroundColor")).match(/\d+/g) ?? [];
    expect(Number(ground) < 128).toBe(colorScheme === "dark");
    await page.evaluate(axe.source);
    const { violations, passes } = await page.evaluate<axe.AxeResults>("axe.run()");
    expect(
      violations.map(({ id, nodes }) => ({ id, at: nodes.slice(0, 3).map(({ html }) => html) })),
    ).toEqual([]);
    expect(passes.map(({ id }) => id)).toContain("color-contrast");
  });

  it("lets nothing run, and reach nothing, that is not its own", async () => {
    const { docs } = await startDocs();
    let reached = 0;
    const elsewhere = createServer((_, response) => {
      reached++;
      response.writeHead(200, { "access-control-allow-origin": "*" }).end();
    });
    await listen(elsewhere);
    onTestFinished(() => closeServer(elsewhere));
    const foreign = `http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}/`;
    const { page } = await visit(browser, docs);
    const tried = await page.evaluate(`(async () => {
      const tried = {};
      const violated = (what) => new Promise((resolve) =>
        document.addEventListener("securitypolicyviolation", ({ effectiveDirective }) => resolve(tried[what] = effectiveDirective), { once: true }));
      const add = async (what, name, fields) => {
        const seen = violated(what);
        document.body.append(Object.assign(document.createElement(name), fields));
        await seen;
      };
      await add("a picture", "img", { src: ${JSON.stringify(foreign)} });
      await add("a style", "style", { textContent: "body { color: red }" });
      const seen = violated("a call");
      tried.call = await fetch(${JSON.stringify(foreign)}).then(() => "answered", () => "refused");
      await seen;
      try { document.body.innerHTML = "<b onclick=1>"; } catch (error) { tried.markup = error.name; }
      return tried;
    })()`);
    expect(tried).toEqual({
      "a picture": "img-src",
      "a style": "style-src-elem",
      "a call": "connect-src",
      call: "refused",
      markup: "TypeError",
    });
    expect(reached).toBe(0);
  });
});

async function open(page: Page, id: string): Promise<void> {
  const folded = page.locator(`#${id}:not([open]) > summary`);
  if ((await folded.count()) > 0) await folded.click();
}

/** Presses the operation's button; what its status says when the answer is there. */
async function send(page: Page, id: string): Promise<string> {
  await open(page, id);
  const status = page.locator(`#${id} output`);
  // What an earlier answer left there is not taken for this one's.
  await status.evaluate((element) => void (element.textContent = ""));
  await page.locator(`#${id} .send`).click();
  await status.filter({ hasText: / ms\b|Not sent/ }).waitFor();
  return String(await status.textContent());
}

// The tests look into whatever comes.
// oxlint-disable-next-line typescript/no-explicit-any
async function answer(page: Page, id: string): Promise<any> {
  return JSON.parse(
    String(await page.getByRole("region", { name: `Answer to ${id}`, exact: true }).textContent()),
  );
}

const field = (page: Page, id: string, name: string) =>
  page.locator(`#${id}`).getByRole("textbox", { name, exact: true });

const visible = (page: Page): Promise<string[]> =>
  page.locator(".operation:visible").evaluateAll((all) => all.map((each) => String(each.id)));
