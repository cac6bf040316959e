// The page of the API in a real browser, as a developer of a client uses it: with mouse and keyboard, on a phone, in dark
// mode.

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { Browser, BrowserContextOptions, Locator, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { readAgents } from "../../src/platform/index.ts";
import { operations } from "../../src/wire/operations/index.ts";
import { describeReal, needChromium, startChromium, visit } from "../support/machine/debian.ts";
import { serve } from "../support/machine/network.ts";
import { startWith } from "../support/platform/platform.ts";

const keys = { agent: "support-key-1", organization: "acme-organization-key" };
const text = `
organization: { name: Acme, key: ${keys.organization} }
agents: { support: { key: ${keys.agent}, rules: [{ when: order, answer: It ships today. }] } }
`;

async function startDocs() {
  const agents = readAgents(text, "acme.yaml");
  const { platform } = await startWith({ agents });
  return { origin: platform.url, docs: `${platform.url}/api/external/docs/`, agentId: agents[0]?.id ?? "" };
}

// A browser on a busy machine takes its time, and how much of it is no statement.
const missing = await needChromium();
describeReal("The docs page in Chromium", missing, () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await startChromium();
  });
  afterAll(() => browser?.close());

  it("loads its own files alone, without complaint, and lists every operation", async () => {
    const { docs } = await startDocs();
    const { page, complaints, requests } = await visitDocs(browser, docs);
    expect(await page.title()).toBe("AI Agent API");
    await page.getByRole("heading", { name: "First calls" }).waitFor();
    for (const [id, { method, path, tag }] of Object.entries(operations)) {
      const summary = page.locator(`#operations-${tag}-${id} > .opblock-summary`);
      expect(await summary.locator(".opblock-summary-method").textContent()).toBe(method);
      expect((await summary.locator("[data-path]").getAttribute("data-path")) ?? "").toBe(path);
    }
    expect(await page.locator(".opblock").count()).toBe(Object.keys(operations).length + 1);
    expect(await page.locator("#operations-webhooks-receiveDelivery").count()).toBe(1);
    const files = ["", "swagger-ui.css", "swagger-ui-bundle.js", "openapi.json"];
    expect(requests.filter((url) => !url.startsWith("data:"))).toEqual(files.map((name) => docs + name));
    expect(complaints).toEqual([]);
  });

  it("calls an operation: a right key's answer, a wrong key's refusal", async () => {
    const { docs, origin } = await startDocs();
    const { page, complaints, requests } = await visitDocs(browser, docs);
    await authorize(page, keys.agent);
    const right = await send(page, "agents-getAgent");
    expect(right).toMatchObject({ status: "200", body: { name: "support", organizationName: "Acme" } });
    await authorize(page, "wrong");
    const refusal = { status: 403, name: "FORBIDDEN_ERROR", message: "INVALID_CREDENTIALS", details: [] };
    expect(await send(page, "agents-getAgent")).toEqual({ status: "403", body: refusal });
    const asked = `${origin}/external/agents/by-api-key`;
    expect(requests.slice(-2)).toEqual([asked, asked]);
    // A browser says itself that a request was refused; nothing else is complained of.
    expect(complaints.filter((each) => !each.includes("403 (Forbidden)"))).toEqual([]);
  });

  it("holds a conversation: each example starts one, and the agent answers", async () => {
    const { docs } = await startDocs();
    const { page, complaints } = await visitDocs(browser, docs);
    await authorize(page, keys.agent);
    const start = await open(page, "conversations-startConversation");
    let conversationId = "";
    for (const example of ["By SMS", "By voice", "By e-mail"]) {
      await start.locator(".examples-select select").selectOption({ label: example });
      const { status, body } = await send(page, "conversations-startConversation");
      expect(status).toBe("201");
      conversationId = body.conversationId;
    }
    const said = { message: 'Where\'s my "order"?\nAnd $HOME?' };
    const ask = await open(page, "conversations-sendMessage");
    await ask.getByPlaceholder("id").fill(conversationId);
    await ask.locator("textarea").fill(JSON.stringify(said));
    expect(await send(page, "conversations-sendMessage")).toMatchObject({
      status: "201",
      body: { senderRole: "assistant", message: "It ships today." },
    });
    const list = await open(page, "conversations-listMessages");
    await list.getByPlaceholder("id").fill(conversationId);
    const { body } = await send(page, "conversations-listMessages");
    expect(body).toMatchObject({ messages: [said, { message: "It ships today." }] });
    expect(complaints).toEqual([]);
  });

  it("shows samples for curl and for our client, with its own address and without the key", async () => {
    const { docs, origin } = await startDocs();
    const { page } = await visitDocs(browser, docs);
    await authorize(page, keys.agent);
    const ask = await open(page, "conversations-sendMessage");
    const curl = await ask.getByRole("region", { name: "curl" }).textContent();
    expect(curl).toContain(`curl -X POST "${origin}/external/conversations/$id/messages"`);
    expect(curl).toContain('"Agent-Secret-Key: $AGENT_KEY"');
    const client = await ask.getByRole("region", { name: "bridgehead/client" }).textContent();
    expect(client).toContain('import { createClient } from "bridgehead/client";');
    expect(client).toContain(`const url = "${origin}";`);
    expect(client).toContain("client.conversations.send(id, {");
  });

  it("uploads a document and saves it, and asks under the organization's key", async () => {
    const { docs, agentId } = await startDocs();
    const { page, complaints } = await visitDocs(browser, docs);
    await authorize(page, keys.agent, keys.organization);
    const upload = await open(page, "files-uploadFile");
    const document = { name: "lamps.txt", mimeType: "text/plain", buffer: Buffer.from("Seven kilograms.") };
    await upload.locator("input[type=file]").setInputFiles(document);
    const { status, body } = await send(page, "files-uploadFile");
    expect([status, body.fileName]).toEqual(["200", "lamps.txt"]);
    const content = await open(page, "files-getFileContent");
    await content.getByPlaceholder("id").fill(body.id);
    await content.locator(".execute").click();
    const link = content.getByRole("link", { name: "Download file" });
    await link.waitFor();
    const saved = page.waitForEvent("download");
    await link.click();
    expect(await readFile(await (await saved).path(), "utf8")).toBe("Seven kilograms.");
    const users = await open(page, "agents-listUsersOfAgent");
    await users.getByPlaceholder("id").fill(agentId);
    expect(await send(page, "agents-listUsersOfAgent")).toMatchObject({ status: "200" });
    expect(complaints).toEqual([]);
  });

  it("works by keyboard alone: finds an operation, opens it, and calls it", async () => {
    const { docs } = await startDocs();
    const { page } = await visitDocs(browser, docs);
    const tabTo = async (selector: string) => {
      const there = () => page.locator(selector).evaluate((element) => element === element.ownerDocument.activeElement);
      for (let presses = 0; presses < 60 && !(await there()); presses++) await page.keyboard.press("Tab");
      expect(await there(), selector).toBe(true);
      expect(await page.evaluate("getComputedStyle(document.activeElement).outlineStyle")).not.toBe("none");
    };
    await tabTo(".operation-filter-input");
    await page.keyboard.type("GET by-api-key");
    const found = () =>
      page.locator(".opblock [data-path]").evaluateAll((all) => all.map((each) => each.getAttribute("data-path")));
    const paths = ["/external/agents/by-api-key", "/external/agent-files/by-api-key"];
    await expect.poll(found).toEqual([...paths, expect.anything()]);
    await tabTo("#operations-agents-getAgent .opblock-summary-control");
    await page.keyboard.press("Enter");
    await page.locator("#operations-agents-getAgent .execute").waitFor();
    await tabTo("#operations-agents-getAgent .execute");
    await page.keyboard.press("Enter");
    await page.locator("#operations-agents-getAgent .live-responses-table").waitFor();
  });

  it.each([
    { width: 1280, colorScheme: "light" as const },
    { width: 360, colorScheme: "dark" as const },
  ])("fits $width pixels and follows the preference for $colorScheme", async ({ width, colorScheme }) => {
    const { docs } = await startDocs();
    const viewport = { width, height: 800 };
    const { page } = await visitDocs(browser, docs, { viewport, colorScheme });
    for (const id of unlike) await open(page, id);
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(width);
    const luminance = async (selector: string, property: string) => {
      const color = await page.evaluate(`getComputedStyle(document.querySelector("${selector}")).${property}`);
      return Number(String(color).match(/\d+/)?.[0]);
    };
    expect((await luminance(".opblock-description p", "color")) > 128).toBe(colorScheme === "dark");
    const behind = colorScheme === "dark" ? await luminance("html", "backgroundColor") : 255;
    expect(behind < 128).toBe(colorScheme === "dark");
  });

  it("lets nothing run, and reach nothing, that is not its own", async () => {
    const { docs } = await startDocs();
    let reached = 0;
    const elsewhere = createServer((_, response) => {
      reached++;
      response.writeHead(200, { "access-control-allow-origin": "*" }).end();
    });
    const foreign = `${await serve(elsewhere)}/`;
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
      await add("a script", "script", { textContent: "tried.ran = true" });
      await add("a style", "style", { textContent: "body { color: red }" });
      const seen = violated("a call");
      tried.call = await fetch(${JSON.stringify(foreign)}).then(() => "answered", () => "refused");
      await seen;
      return tried;
    })()`);
    expect(tried).toEqual({
      "a picture": "img-src",
      "a script": "script-src-elem",
      "a style": "style-src-elem",
      "a call": "connect-src",
      call: "refused",
    });
    expect(reached).toBe(0);
  });
});

/** One of each kind: with parameters, a choice of bodies, a file. */
const unlike = [
  "agents-getAgent",
  "conversations-listConversations",
  "conversations-startConversation",
  "conversations-sendMessage",
  "files-uploadFile",
];

async function visitDocs(browser: Browser, docs: string, options: BrowserContextOptions = {}) {
  const visited = await visit(browser, docs, options);
  await visited.page.locator(".opblock").first().waitFor();
  return visited;
}

/** Gives the keys to the viewer's dialog, as a replacement of earlier ones. */
async function authorize(page: Page, agent: string, organization?: string): Promise<void> {
  await page.locator(".btn.authorize").click();
  const dialog = page.locator(".modal-ux");
  const both = organization === undefined ? [agent] : [agent, organization];
  for (const [index, key] of both.entries()) {
    const container = dialog.locator(".auth-container").nth(index);
    const logout = container.getByRole("button", { name: "Remove authorization" });
    if ((await logout.count()) > 0) await logout.click();
    await container.locator("input").fill(key);
    await container.getByRole("button", { name: "Apply credentials" }).click();
  }
  await dialog.locator(".btn-done").first().click();
}

async function open(page: Page, id: string): Promise<Locator> {
  const operation = page.locator(`#operations-${id}`);
  if ((await operation.locator(".execute").count()) === 0) await operation.locator(".opblock-summary-control").click();
  await operation.locator(".execute").waitFor();
  return operation;
}

/** Executes the operation; the status and JSON of its answer. */
// Tests read properties of any response.
// oxlint-disable-next-line typescript/no-explicit-any
async function send(page: Page, id: string): Promise<{ status: string; body: any }> {
  const operation = await open(page, id);
  const clear = operation.getByRole("button", { name: "Clear" });
  if ((await clear.count()) > 0) await clear.click();
  await operation.locator(".execute").click();
  const live = operation.locator(".live-responses-table .response").first();
  await live.locator(".response-col_status").waitFor();
  const status = String((await live.locator(".response-col_status").textContent())?.match(/\d+/)?.[0]);
  return {
    status,
    body: JSON.parse(String(await live.locator(".response-col_description pre code").first().textContent())),
  };
}
