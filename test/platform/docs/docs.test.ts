// The description says what the platform does: it is valid OpenAPI, and every operation's answers fit it, judged by
// validators that know nothing of how it was made.

import { execFile } from "node:child_process";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { Validator } from "@seriousme/openapi-schema-validator";
import { Ajv2020 } from "ajv/dist/2020.js";
import * as formats from "ajv-formats";
import { expect, onTestFinished, test } from "vitest";
import { createClient } from "../../../src/client/index.ts";
import { verifying, wordedFields } from "../../../src/platform/docs/words.ts";
import { readAgents } from "../../../src/platform/index.ts";
import { type Operation, operations } from "../../../src/wire/operations/index.ts";
import { serve } from "../../support/machine/network.ts";
import { fetchFresh, receiver, startByEmail, startWith } from "../../support/platform/platform.ts";

const run = promisify(execFile);
const agentsFile = `
organization:
  name: Acme
  key: acme-organization-key
  users: [{ email: owner@acme.test, role: owner }]
  states: [{ name: Complete }]
agents:
  support:
    key: support-key-1
    skills:
      escalation:
        escalations:
          - topic: a human
            escalationPrompt: ""
            autoChangeConversationMode: true
            response: A colleague will answer.
            recipients: [{ channel: email, value: boss@acme.test }]
      email: { email: support@acme.test, emailSignature: Ada }
      sms: { phoneNumber: "+15550100" }
    webhooks: [{ title: T, url: "http://127.0.0.1:9/", trigger: end_dialog }]
    rules: [{ when: refund, answer: "Refunds take five days." }]
`;

async function fixture() {
  const agents = readAgents(agentsFile, "acme.yaml");
  const { platform } = await startWith({ agents, allowPrivateWebhooks: true });
  const answered = await fetchFresh(`${platform.url}/api/external/docs/openapi.json`);
  // Tests read properties of any response.
  // oxlint-disable-next-line typescript/no-explicit-any
  const description = (await answered.json()) as any;
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  (formats.default as unknown as (to: Ajv2020) => void)(ajv);
  ajv.addSchema({ $id: "api", ...description });
  const used = new Set<string>();

  /** Calls an operation by its name and holds the answer against the description. */
  async function call(id: keyof typeof operations, options: Options = {}) {
    const operation: Operation = operations[id];
    const path = operation.path.replace(/\{(\w+)\}/g, (_, name: string) => options.path?.[name] ?? name);
    const keys = {
      agent: { "Agent-Secret-Key": "support-key-1" },
      organization: { "Organization-Secret-Key": "acme-organization-key" },
    };
    const json = options.body === undefined ? {} : { body: JSON.stringify(options.body) };
    const response = await fetchFresh(`${platform.url}${path}${options.query ?? ""}`, {
      method: operation.method,
      headers: {
        ...(options.key === undefined ? keys[operation.key] : { "Agent-Secret-Key": options.key }),
        ...(options.form ? {} : { "content-type": "application/json" }),
      },
      ...(options.form ? { body: options.form } : json),
    });
    used.add(`${id} ${response.status}`);
    const at = description.paths[operation.path][operation.method.toLowerCase()].responses[response.status];
    expect([id, response.status, at === undefined]).toEqual([id, response.status, false]);
    const body = await response.text();
    const schema = at.content?.["application/json"]?.schema;
    if (schema === undefined) return operation.answer.record === "bytes" ? { body } : expect(body).toBe("");
    const { $ref } = schema;
    const validate = ajv.getSchema(`api${$ref}`);
    expect(validate, $ref).toBeDefined();
    void validate?.(JSON.parse(body));
    expect([id, validate?.errors]).toEqual([id, null]);
    return JSON.parse(body);
  }
  return { platform, description, ajv, call, used, agents };
}

interface Options {
  readonly path?: { readonly [name: string]: string };
  readonly query?: string;
  readonly body?: unknown;
  readonly form?: FormData;
  readonly key?: string;
}

test("is valid OpenAPI 3.1, with the interface's title and version, and readable without a key", async () => {
  const { description } = await fixture();
  expect(description).toMatchObject({ openapi: "3.1.0", info: { title: "AI Agent API", version: "1.0.0" } });
  const result = await new Validator().validate(description);
  expect(result).toMatchObject({ valid: true });
  // And the validator can say no.
  const broken = { ...description, info: { title: 1 } };
  expect(await new Validator().validate(broken)).toMatchObject({ valid: false });
});

test("every operation answers as described", async () => {
  const { call, used, agents } = await fixture();
  const id = agents[0]?.id ?? "";
  await call("getAgent");
  const started = await call("startConversation", { body: startByEmail("jo@people.test") });
  const conversation = { id: started.conversationId as string };
  const said = { message: "refund" };
  await call("sendMessage", { path: conversation, body: said });
  await call("sendMessage", { path: conversation, body: { message: "a human, please" } });
  await call("setConversationMode", { path: conversation, body: { mode: "ai" } });
  const announced = { fileName: "lamp.txt", contentType: "text/plain" };
  const { signedUrl, storagePath } = await call("createUploadUrl", { path: conversation, body: announced });
  await fetchFresh(signedUrl, { method: "PUT", body: "Seven kilograms." });
  await call("sendMessage", {
    path: conversation,
    body: { message: "refund", files: [{ fileName: "lamp.txt", storagePath }] },
  });
  const { messages } = await call("listMessages", { path: conversation });
  const [{ id: fileId }] = messages.flatMap(({ files }: { files?: object[] }) => files ?? []);
  await call("getMessageFileUrl", { path: { ...conversation, fileId } });
  const question = await call("sendMessageAsync", { path: conversation, body: said });
  const message = { ...conversation, messageId: question.id as string };
  await call("getResponse", { path: message });
  await call("listMessages", { path: conversation, query: "?orderDirection=DESC" });
  await call("setConversationMode", { path: conversation, body: { mode: "manual" } });
  await call("sendManualMessage", { path: conversation, body: said });
  const { conversationUserId } = await call("getConversation", { path: conversation });
  await call("updateConversation", { path: conversation, body: { title: "Lamps" } });
  await call("listConversations", { query: "?orderBy=updatedAt&searchKeyword=lamps" });
  await call("listConversationStates");
  await call("createConversation", { body: { conversationUserId } });

  const user = await call("createUser", { body: { firstName: "A", lastName: "B", fkId: "ab" } });
  await call("searchUser", { query: "?fkId=ab" });
  await call("getUser", { path: { id: user.id } });
  await call("deleteUser", { path: { id: user.id } });

  for (const list of ["listAgentUsers", "listAdminUsers", "getStatistic", "listFiles", "listEscalations"] as const)
    await call(list);
  for (const list of ["listUsersOfAgent", "listPlatformUsers"] as const) await call(list, { path: { id } });

  const form = new FormData();
  form.set("file", new File(["Lamps weigh seven kilograms."], "lamps.txt"));
  const files = [await call("uploadFile", { form }), await call("uploadFile", { form })];
  const file = { path: { id: files[0].id as string } };
  await call("addFileToAssistant", file);
  await call("addFileToVectorStore", file);
  await call("addFileToVectorStoreAsync", file);
  await call("getFileContent", file);
  await call("removeFileFromVectorStore", file);
  await call("deleteFile", file);
  await call("deleteFiles", { body: { fileIds: [files[1].id] } });

  const hook = { title: "T", description: "", url: "http://127.0.0.1:9/", triggerCondition: "manual" };
  const webhook = await call("registerWebhook", { body: hook });
  await call("listWebhooks");
  const fired = await call("fireWebhook", {
    path: { id: webhook.id },
    body: { conversationId: conversation.id },
  });
  await call("listDeliveries", { path: { id: webhook.id } });
  await call("resendDelivery", { path: { id: fired.id } });
  await call("deleteWebhook", { path: { id: webhook.id } });
  await call("deleteConversations", { body: { conversationUserId } });

  const good = [...used].filter((each) => / 2\d\d$/.test(each)).map((each) => each.split(" ")[0]);
  expect(Object.keys(operations).filter((name) => !good.includes(name))).toEqual([]);
});

test("every refusal is as described", async () => {
  const { call, used } = await fixture();
  for (const [id, operation] of Object.entries<Operation>(operations) as [keyof typeof operations, Operation][]) {
    await call(id, { key: "wrong-key" });
    expect([...used]).toContain(`${id} 403`);
    if (operation.errors.includes(404) && operation.path.includes("{")) {
      await call(id, { body: operation.body ? someBody[id] : undefined });
      expect([...used]).toContain(`${id} 404`);
    }
    if (operation.body) {
      await call(id, { body: [] });
      expect([...used]).toContain(`${id} 400`);
    }
  }
});

/** Bodies that are right, for paths that name nothing. */
const someBody: { readonly [id: string]: unknown } = {
  updateConversation: {},
  setConversationMode: {},
  sendMessage: { message: "hi" },
  sendMessageAsync: { message: "hi" },
  sendManualMessage: { message: "hi" },
  createUploadUrl: { fileName: "a.txt", contentType: "text/plain" },
  fireWebhook: { conversationId: "nothing" },
};

test("there is an example for every body and every answer, and a description for every field that has one", async () => {
  const { description } = await fixture();
  const without: string[] = [];
  for (const [path, methods] of Object.entries<Described>(description.paths))
    for (const [method, { operationId, requestBody, responses }] of Object.entries(methods)) {
      const media = Object.values(responses).map((each) => each.content?.["application/json"]);
      if (media.some((each) => each && each.example === undefined)) without.push(`${method} ${path}`);
      const body = requestBody?.content["application/json"];
      if (body && Object.keys(body.examples ?? {}).length === 0) without.push(`body of ${operationId}`);
    }
  expect(without).toEqual([]);
  const fields = Object.entries<{ properties?: object }>(description.components.schemas).flatMap(
    ([name, { properties = {} }]) => Object.keys(properties).flatMap((field) => [field, `${name}.${field}`]),
  );
  const { parameters } = description.paths["/external/conversations/{id}/messages"].get;
  const defaults = parameters.map(({ name, schema }: Described[string]["parameters"][number]) => [
    name,
    schema.default,
  ]);
  expect(Object.fromEntries(defaults)).toMatchObject({
    orderDirection: "ASC",
    page: undefined,
    pageSize: undefined,
  });
  expect(wordedFields.filter((field) => !fields.includes(field))).toEqual([]);
});

type Media = { readonly [type: string]: { readonly example?: unknown; readonly examples?: object } };
interface Described {
  readonly [method: string]: {
    readonly operationId: string;
    readonly parameters: readonly {
      readonly name: string;
      readonly schema: { readonly default?: unknown };
    }[];
    readonly requestBody?: { readonly content: Media };
    readonly responses: { readonly [status: string]: { readonly content?: Media } };
  };
}

test("every operation has a sample with curl and one with the client, which make the same request", async () => {
  const { description } = await fixture();
  const got: string[] = [];
  const server = createServer((request, response) => {
    const { method, url: path, headers } = request;
    const key = headers["agent-secret-key"] ?? headers["organization-secret-key"];
    void text(request).then((body) => {
      const data = headers["content-type"] === "application/json" ? JSON.stringify(JSON.parse(body)) : "";
      got.push(`${method} ${path} ${String(key)} ${data}`);
      response.writeHead(404).end();
    });
  });
  const url = await serve(server);
  const variables = { id: "i1", messageId: "m1", fileId: "f1", conversationId: "c1" };
  const env = { ...variables, AGENT_KEY: "a-key", ORGANIZATION_KEY: "o-key" };
  for (const { operationId, "x-codeSamples": samples } of Object.values<object>(description.paths).flatMap((methods) =>
    Object.values(methods),
  )) {
    const [curl, client] = samples;
    expect([operationId, curl.label, client.label]).toEqual([operationId, "curl", "bridgehead/client"]);
    const stub = `curl() { for each; do printf '%s\\0' "$each"; done; }\n${curl.source}`;
    const { stdout } = await run("sh", ["-c", stub], { env });
    const args = stdout.split("\0");
    const after = (name: string) => args[args.indexOf(name) + 1] ?? "";
    const data = args.includes("-d") ? JSON.stringify(JSON.parse(after("-d"))) : "";
    const at = args.find((each) => each.startsWith("https:"))?.slice("https://platform.example.com".length);
    const expected = `${after("-X")} ${at} ${after("-H").replace(/^.*: /, "")} ${data}`;

    const source: string = client.source
      .replace(/^import .*\n/gm, "")
      .replace('"https://platform.example.com"', "base");
    const names = ["createClient", "readFile", "process", "base", ...Object.keys(variables)];
    // The sample is our own text; it runs as a reader would run it.
    // oxlint-disable-next-line typescript/no-implied-eval
    const sample = new Function(...names, `return (async () => {\n${source}\n})();`);
    const create: typeof createClient = (options) => {
      const made = createClient({ ...options, tries: 1 });
      onTestFinished(() => made.close());
      return made;
    };
    await sample(create, async () => new Uint8Array(3), { env }, url, ...Object.values(variables));
    expect([operationId, got.at(-1)]).toEqual([operationId, expected]);
  }
  expect(got).toHaveLength(Object.keys(operations).length);
});

test("the page loads the viewer and the description, and its policy lets run what is in it and nothing else", async () => {
  const { platform } = await fixture();
  const response = await fetchFresh(`${platform.url}/api/external/docs/`);
  const page = await response.text();
  const policy = response.headers.get("content-security-policy") ?? "";
  expect(policy).toContain("default-src 'none'");
  expect(policy).not.toContain("unsafe");
  const [, nonce = ""] = /script-src 'nonce-([^']+)'/.exec(policy) ?? [];
  expect(nonce).toHaveLength(24);
  expect(policy).toContain(`style-src 'nonce-${nonce}'`);
  for (const [tag] of page.matchAll(/<(script|style|link rel="stylesheet")[^>]*>/g))
    expect(tag).toContain(`nonce="${nonce}"`);
  expect(page).not.toMatch(/\son\w+=|\sstyle=|javascript:|(src|href)="(https?:)?\/\//);
  for (const [file, type] of [
    ["swagger-ui-bundle.js", "text/javascript"],
    ["swagger-ui.css", "text/css"],
  ] as const) {
    expect(page).toContain(`"${file}"`);
    const loaded = await fetchFresh(`${platform.url}/api/external/docs/${file}`);
    expect([loaded.status, loaded.headers.get("content-type")]).toEqual([200, type]);
    expect((await loaded.text()).length).toBeGreaterThan(100_000);
  }
  const other = await fetchFresh(`${platform.url}/api/external/docs/`);
  expect(other.headers.get("content-security-policy")).not.toContain(nonce);
  const again = await fetchFresh(`${platform.url}/api/external/docs`, { redirect: "manual" });
  expect(again.headers.get("location")).toBe("docs/");
});

test("a delivery is distinguished from a forged one by the code on the page, and is as described", async () => {
  const { description, call, ajv } = await fixture();
  const { url, got } = await receiver();
  const { id, secret } = await call("registerWebhook", {
    body: { title: "T", description: "", url, triggerCondition: "manual" },
  });
  const { conversationId } = await call("startConversation", { body: startByEmail("jo@people.test") });
  await call("fireWebhook", { path: { id }, body: { conversationId } });
  await expect.poll(() => got.length).toBe(1);
  const [{ headers, text, body } = { headers: {}, text: "", body: {} }] = got;

  expect(description.info.description).toContain(verifying);
  const { isOurs } = await import(`data:text/javascript,${encodeURIComponent(verifying)}`);
  const now = Number(headers["webhook-timestamp"]) * 1000;
  expect(isOurs(headers, text, secret, now)).toBe(true);
  expect(isOurs(headers, `${text} `, secret, now)).toBe(false);
  expect(isOurs(headers, text, `whsec_${"A".repeat(44)}`, now)).toBe(false);
  expect(isOurs(headers, text, secret, now + 301_000)).toBe(false);
  expect(isOurs({}, text, secret, now)).toBe(false);
  expect(isOurs({ ...headers, "webhook-signature": "v1,AAAA v2,x" }, text, secret, now)).toBe(false);
  const also = { ...headers, "webhook-signature": `v1,AAAA ${String(headers["webhook-signature"])}` };
  expect(isOurs(also, text, secret, now)).toBe(true);

  const validate = ajv.getSchema("api#/components/schemas/WebhookDelivery");
  void validate?.(body);
  expect(validate?.errors).toBe(null);
});
