// Skills and settings of an agent's definition: the quota, what is only kept and served, and what the model is given.

import { join } from "node:path";
import { expect, test } from "vitest";
import { systemClock } from "../../../src/ops/clock.ts";
import { notDone } from "../../../src/platform/agents/definition.ts";
import { readAgents } from "../../../src/platform/index.ts";
import { openDatabase } from "../../../src/platform/store/store.ts";
import { versions } from "../../../src/platform/store/tables.ts";
import { agent as agentRecord } from "../../../src/wire/agent.ts";
import { saying, startModel, startWith } from "../../support/platform/platform.ts";
import { newFolder } from "../../support/resources.ts";

const key = "support-key-1";
const definition = (more: string) => `organization: { name: Acme }
agents:
  support:
    key: ${key}
    default_answer: I do not know.
    ${more}
`;

test("a quota answers so often in a month, then with its own text", async () => {
  let now = Date.UTC(2030, 0, 31, 23, 0);
  const clock = { ...systemClock, now: () => now };
  const text = definition("skills: { message_quota: { limit: 2, response: Come back next month. } }");
  const platform = await startWith({ agents: readAgents(text, "a.yaml"), clock });
  const id = await platform.open("jo@people.test", key);
  const say = async () =>
    (await platform.call("POST", `conversations/${id}/messages`, { message: "Hi" }, key)).body.message;
  const said = [await say(), await say(), await say(), await say()];
  expect(said).toEqual(["I do not know.", "I do not know.", "Come back next month.", "Come back next month."]);
  now += 2 * 3_600_000; // the first of February
  expect(await say()).toBe("I do not know.");
  const { skills } = (await platform.call("GET", "agents/by-api-key", undefined, key)).body;
  expect(skills).toContainEqual(expect.objectContaining({ systemName: "MESSAGE_QUOTA", limit: 2 }));
});

test("a quota holds for parallel questions, and a failed question does not count", async () => {
  const model = await startModel();
  const text = definition(`skills: { message_quota: { limit: 5, response: No more. } }
    model: { url: "${model.url}", name: tiny }`);
  const platform = await startWith({ agents: readAgents(text, "a.yaml") });
  const id = await platform.open("jo@people.test", key);
  const say = async () =>
    (await platform.call("POST", `conversations/${id}/messages`, { message: "Hi" }, key)).body.message;
  model.say(saying("no", 500));
  for (let failed = 0; failed < 6; failed++) expect(await say()).toContain("HTTP 500");
  model.say(saying("Hello."));
  const said = await Promise.all(Array.from({ length: 12 }, say));
  expect(said.toSorted((a, b) => a.localeCompare(b))).toEqual([
    ...Array(5).fill("Hello."),
    ...Array(7).fill("No more."),
  ]);
});

test("a quota that is used up asks no model, and still escalates by keyword", async () => {
  const model = await startModel();
  const escalation = `{ topic: human, escalationPrompt: "", autoChangeConversationMode: true, response: Yes., recipients: [] }`;
  const text = definition(`skills:
      message_quota: { limit: 0, response: No more. }
      escalation: { escalations: [${escalation}] }
    model: { url: "${model.url}", name: tiny }`);
  const platform = await startWith({ agents: readAgents(text, "a.yaml") });
  const id = await platform.open("jo@people.test", key);
  const say = async (message: string) =>
    (await platform.call("POST", `conversations/${id}/messages`, { message }, key)).body.message;
  expect([await say("hm"), await say("a human!")]).toEqual(["No more.", "Yes."]);
  expect(model.asked).toEqual([]);
});

const scope = "{ mode: ALL_ENABLED, channelIds: [], requireKnownRaiaUser: false }";
const kept = `skills:
      web_search: { webSearchServiceType: some, prompt: Look it up. }
      scraping:
        scrapingConfigs:
          - { url: "https://acme.test", startCrawledAt: null, endCrawledAt: null, crawlerType: some, crawlFormat: HTML,
              excludeUrls: null, pageLimit: 3, maxDepth: 2, frequency: manual, autoUpload: false, crawlingStatus: not_started }
      calendar: { config: { type: some, apiKey: hidden, prompt: Book it. } }
      live_chat: { limitUnavailableDates: false, unavailableDates: [], unavailableDatesMessage: "" }
      feedback: { period: all_time, autoUpload: false, generationMode: manual }
      agent_report: { frequency: DAILY, emails: [boss@acme.test] }
      external_retrievers: { externalRetrievers: [] }
      chat_workspace:
        config:
          isFileUploadEnabled: false
          workspaces:
            - { slackTeamId: T1, enabled: true, channels: ${scope},
                users: { mode: CUSTOM, userIds: [U1], requireKnownRaiaUser: true } }
      teams_chat: { config: { isFileUploadEnabled: true, tenants: [] } }
      mcp: { status: inactive }
      orchestrator: {}
      scoring: { scoringPrompt: How was it? }`;

test("skills without a service here are served as written, and reported as not executed", async () => {
  const agents = readAgents(definition(kept), "a.yaml");
  const platform = await startWith({ agents });
  const { body } = await platform.call("GET", "agents/by-api-key", undefined, key);
  expect(agentRecord.exact.safeParse(body).error).toBeUndefined();
  const names = body.skills.map(({ systemName, status }: { [name: string]: string }) => `${systemName} ${status}`);
  expect(names).toEqual(
    expect.arrayContaining(["WEB_SEARCH active", "<CHAT_WORKSPACE> active", "<TEAMS_CHAT> active", "MCP inactive"]),
  );
  expect(body.skills).toContainEqual({
    systemName: "WEB_SEARCH",
    status: "active",
    webSearchServiceType: "some",
    prompt: "Look it up.",
  });
  const [agent] = agents;
  if (!agent) throw new Error("no agent");
  // Scoring requires a model.
  expect(notDone(agent)).toEqual(expect.arrayContaining(["WEB_SEARCH", "SCRAPING", "<TEAMS_CHAT>", "SCORING"]));
  expect(notDone(agent)).not.toContain("MCP");
});

const colours = { backgroundColor: "#000", textColor: "#ffffff" };
const button = {
  mode: "on_hover",
  type: "text_only",
  borderRadius: "0px",
  size: "64",
  lightThemeConfig: colours,
  darkThemeConfig: colours,
  launcherAttentionEffect: "none",
  launcherTheme: "custom",
  logoFit: "cover",
  launcherTeaser: "none",
};
const crawl = {
  url: "https://acme.test",
  startCrawledAt: "yesterday",
  endCrawledAt: null,
  crawlerType: "some",
  crawlFormat: "HTML",
  excludeUrls: null,
  pageLimit: 3,
  maxDepth: 2,
  frequency: "manual",
  autoUpload: false,
  crawlingStatus: "not_started",
};

test.each([
  ["memory: { type: BY_DOG, retentionDuration: 3 }", /a\.yaml:\d+: agents\.support\.skills\.memory\.type: /],
  ["web_search: { prompt: x }", /skills\.web_search\.webSearchServiceType: /],
  ["live_chat: { unavailableDates: [soon] }", /skills\.live_chat\.unavailableDates\[0\]: /],
  [
    "live_chat: { links: [{ name: Shop, url: /shop }] }",
    /skills\.live_chat\.links\[0\]\.url: an absolute URL is needed/,
  ],
  [`live_chat: ${JSON.stringify({ widgetButtonConfig: button })}`, /launcherTheme: custom/],
  [
    `live_chat: ${JSON.stringify({ widgetButtonConfig: { ...button, darkThemeConfig: { backgroundColor: "red", textColor: "#fff" } } })}`,
    /widgetButtonConfig\.darkThemeConfig\.backgroundColor: a colour such as/,
  ],
  [`scraping: ${JSON.stringify({ scrapingConfigs: [crawl] })}`, /scrapingConfigs\[0\]\.startCrawledAt: a time such as/],
  ["sms: { phoneNumber: 7 }", /skills\.sms\.phoneNumber: must be a text, not a number/],
  ["sms: {}", /skills\.sms\.phoneNumber: is missing: add it/],
  ["agent_report: { frequency: DAILY }", /skills\.agent_report\.emails: /],
  ["feedback: { period: all_time, autoUpload: false }", /skills\.feedback\.generationMode: /],
  ["calendar: { config: { type: x, apiKey: y } }", /skills\.calendar\.config\.prompt: /],
  ["data_retention: { retentionDays: 3 }", /skills\.data_retention\.anonymizeConversations: is missing: add it/],
  ["message_quota: { limit: -1, response: x }", /skills\.message_quota\.limit: /],
  ["juggling: {}", /skills\.juggling: no such key/],
  [
    `escalation: { escalations: [{ topic: a, escalationPrompt: "", autoChangeConversationMode: true, response: b, recipients: [{ channel: webhook, value: nowhere }] }] }`,
    /skills\.escalation\.escalations\[0\]\.recipients\[0\]\.value: a webhook's value is its URL/,
  ],
])("%s is refused with its place", (skill, problem) => {
  expect(() => readAgents(definition(`skills: { ${skill} }`), "a.yaml")).toThrow(problem);
});

test("a field that the API requires and a file omits is served with a default", async () => {
  const text = definition(`avatar_url: "https://acme.test/a.png"
    tags: [mail, phone]
    restrict_documents_to_owner_only: true
    code_interpreter: true
    skills:
      live_chat: {}
      voice: {}
      sms: { phoneNumber: "+15550100", smsSignature: "- Ada" }`);
  const agents = readAgents(text, "a.yaml");
  const platform = await startWith({ agents });
  const { body } = await platform.call("GET", "agents/by-api-key", undefined, key);
  expect(agentRecord.exact.safeParse(body).error).toBeUndefined();
  expect(body).toMatchObject({
    avatarUrl: "https://acme.test/a.png",
    tags: ["mail", "phone"],
    restrictDocumentsToOwnerOnly: true,
    // The interface has no word for none.
    aiConfig: { model: "<model_family>-4.1", isCodeInterpreterEnabled: true, outputJsonSchema: "" },
  });
  expect(body.skills).toEqual(
    expect.arrayContaining([
      {
        systemName: "LIVE_CHAT",
        status: "active",
        limitUnavailableDates: false,
        unavailableDates: [],
        unavailableDatesMessage: "",
      },
      {
        systemName: "VOICE",
        status: "active",
        vXAssistantId: expect.any(String),
        vXPhoneNumberId: expect.any(String),
      },
      expect.objectContaining({ systemName: "SMS", smsSignature: { text: "- Ada" } }),
    ]),
  );
  const [agent] = agents;
  if (!agent) throw new Error("no agent");
  expect(notDone(agent)).toEqual(
    expect.arrayContaining(["LIVE_CHAT", "isCodeInterpreterEnabled", "restrictDocumentsToOwnerOnly"]),
  );
});

test("the model is given all of its settings, and the interface shows them", async () => {
  const model = await startModel();
  model.say(saying('{"answer":1}'));
  const text = definition(`instructions: Be brief.
    knowledge: [ "Parcels to Norway take four days.", "Parcels to Norway cost twelve euros." ]
    file_search: { max_results: 1 }
    model:
      url: "${model.url}"
      name: tiny
      temperature: 0.7
      top_p: 0.5
      reasoning_effort: low
      reasoning_mode: pro
      output_json_schema: { type: object }`);
  const platform = await startWith({ agents: readAgents(text, "a.yaml") });
  const id = await platform.open("jo@people.test", key);
  const message = { message: "Parcels to Norway?" };
  const { body } = await platform.call("POST", `conversations/${id}/messages`, message, key);
  expect(body.message).toBe('{"answer":1}');
  expect(model.asked[0]).toMatchObject({
    model: "tiny",
    temperature: 0.7,
    top_p: 0.5,
    reasoning_effort: "low",
    response_format: { type: "json_schema", json_schema: { schema: { type: "object" } } },
  });
  const system = model.asked[0]?.messages[0]?.content ?? "";
  expect(system.match(/From "/g)).toHaveLength(1);
  const shown = (await platform.call("GET", "agents/by-api-key", undefined, key)).body;
  expect(shown.aiConfig).toMatchObject({
    // The interface lists no model of this name.
    model: "<model_family>-4.1",
    temperature: 0.7,
    topP: 0.5,
    instructions: "Be brief.",
    isFileSearchEnabled: true,
    fileSearchMaxNumResults: 1,
    reasoningEffort: "low",
    reasoningMode: "pro",
    isOutputJsonSchemaEnabled: true,
    outputJsonSchema: '{"type":"object"}',
  });
});

test("a model may look at many passages", async () => {
  const model = await startModel();
  const parcels = Array.from({ length: 12 }, (_, n) => `Parcels to Norway, rule ${n}.`);
  const text = definition(`knowledge: ${JSON.stringify(parcels)}
    file_search: { max_results: 11 }
    model: { url: "${model.url}", name: tiny }`);
  const platform = await startWith({ agents: readAgents(text, "a.yaml") });
  const id = await platform.open("jo@people.test", key);
  await platform.call("POST", `conversations/${id}/messages`, { message: "Parcels to Norway?" }, key);
  expect(model.asked[0]?.messages[0]?.content.match(/From "/g)).toHaveLength(11);
});

test("without file search the agent answers from no document", async () => {
  const text = definition("knowledge: [ Parcels to Norway take four days. ]\n    file_search: { enabled: false }");
  const platform = await startWith({ agents: readAgents(text, "a.yaml") });
  const id = await platform.open("jo@people.test", key);
  const message = { message: "How long do parcels to Norway take?" };
  expect((await platform.call("POST", `conversations/${id}/messages`, message, key)).body.message).toBe(
    "I do not know.",
  );
});

test("a file of a later version is refused", () => {
  const file = join(newFolder(), "platform.db");
  const db = openDatabase(file, "full");
  expect(db.pragma("user_version", { simple: true })).toBe(versions.length);
  db.pragma("user_version = 999");
  db.close();
  expect(() => openDatabase(file, "full")).toThrow("newer version (999)");
});
