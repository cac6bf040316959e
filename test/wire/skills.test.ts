// Every skill of External API 2.6, from the document's tables: its required fields, its optional ones, its values.

import { describe, expect, test } from "vitest";
import type * as z from "zod";
import { agent } from "../../src/wire/agent.ts";
import { read } from "../../src/wire/record.ts";
import { servedSkill, skills } from "../../src/wire/skill.ts";

const webhook = {
  status: "active",
  title: "Turns",
  description: "each of them",
  url: "https://receiver.example/turns",
  triggerCondition: "each_message",
};
const colours = { backgroundColor: "#000000", textColor: "#ffffff" };
const button = {
  mode: "on_hover",
  type: "icon_and_text",
  borderRadius: "8px",
  size: "64",
  lightThemeConfig: colours,
  darkThemeConfig: colours,
  launcherAttentionEffect: "pulse",
  launcherTheme: "glassmorphism",
  logoFit: "cover",
  launcherTeaser: "proactive",
  proactiveBubble: { message: "Hello", delaySeconds: 3600 },
};
const escalation = {
  topic: "refund",
  escalationPrompt: "when money is asked back",
  autoChangeConversationMode: true,
  response: "A colleague will write.",
  recipients: [{ channel: "webhook", value: "https://receiver.example", headers: { a: "b" } }],
};
const retrieverConfig = {
  apiKey: "k",
  indexName: "i",
  host: "h",
  fieldName: "f",
  namespace: "n",
  topK: 3,
  isEmbedded: true,
};
const scope = { mode: "CUSTOM", userIds: ["u"] };
const channelScope = { mode: "ALL_ENABLED", channelIds: [] };

/** By system name: required fields, optional fields, and values that are not allowed. */
const table: Record<keyof typeof skills, readonly [object, object, object]> = {
  LIVE_CHAT: [
    { limitUnavailableDates: false, unavailableDates: ["2026-12-24"], unavailableDatesMessage: "" },
    {
      color: "#123456",
      widgetButtonConfig: button,
      titleLine1: "a",
      titleLine2: "b",
      intro: "b",
      links: [{ name: "n", url: "https://a.example" }],
      disclaimer: "d",
      chatFooterContent: "f",
      suggestions: ["s"],
      whitelistedIps: ["192.0.2.1"],
      restrictedCountries: ["XX"],
    },
    {
      unavailableDates: ["24.12.2026"],
      widgetButtonConfig: { ...button, launcherTeaser: "always" },
      links: ["https://a.example"],
    },
  ],
  SMS: [
    { phoneNumber: "+15550100" },
    { defaultSmsIntroduction: { text: "Hi" }, smsSignature: { en: "Us" }, responseDelaySeconds: null },
    { responseDelaySeconds: 3601 },
  ],
  EMAIL: [
    { email: "a@example.com" },
    {
      senderName: "A",
      defaultSubject: "S",
      defaultEmailIntroduction: "I",
      emailSignature: "E",
      responseDelaySeconds: 3600,
    },
    { responseDelaySeconds: -1, senderName: 5 },
  ],
  WEBHOOK: [
    { name: "n", description: "d", webhooks: [{ ...webhook, headers: { a: "b" } }] },
    {},
    { webhooks: [{ ...webhook, triggerCondition: "always" }] },
  ],
  FUNCTION: [{}, {}, {}],
  SCORING: [{}, { scoringPrompt: "how well?" }, { scoringPrompt: 1 }],
  API: [{ apiKey: "00000000-0000-4000-8000-000000000001" }, {}, { apiKey: 1 }],
  VOICE: [{ vXAssistantId: "a", vXPhoneNumberId: "b" }, {}, { vXPhoneNumberId: 7 }],
  MEMORY: [{ type: "BY_USER", retentionDuration: 30 }, {}, { type: "BY_DAY" }],
  AGENT_REPORT: [{ frequency: "DAILY", emails: ["a@example.com"] }, {}, { frequency: "YEARLY" }],
  SCRAPING: [
    {
      scrapingConfigs: [
        {
          url: "https://a.example",
          startCrawledAt: "2026-11-21T10:00:00Z",
          endCrawledAt: null,
          crawlerType: "one",
          crawlFormat: "MARKDOWN",
          excludeUrls: null,
          pageLimit: 1,
          maxDepth: 1,
          frequency: "weekly",
          autoUpload: true,
          crawlingStatus: "not_started",
        },
      ],
    },
    {},
    { scrapingConfigs: [{ url: "https://a.example" }] },
  ],
  NOTIFICATIONS: [{}, {}, {}],
  EXTERNAL_RETRIEVERS: [
    { externalRetrievers: [{ name: "n", type: "t", status: "inactive", config: retrieverConfig }] },
    {},
    {
      externalRetrievers: [{ name: "n", type: "t", status: "inactive", config: { ...retrieverConfig, model: "m" } }],
    },
  ],
  WEB_SEARCH: [{ webSearchServiceType: "one", prompt: "p" }, {}, { prompt: null }],
  FEEDBACK: [
    { period: "all_time", autoUpload: false, generationMode: "auto" },
    {},
    { period: "last_10_days", generationMode: "never" },
  ],
  ESCALATION: [
    { escalations: [escalation] },
    {},
    { escalations: [{ ...escalation, recipients: [{ channel: "fax", value: "1" }] }] },
  ],
  CALENDAR: [{ config: { type: "one", apiKey: "k", prompt: "p" } }, {}, { config: { type: "one" } }],
  AUDITOR: [{}, {}, {}],
  COPILOT: [{}, {}, {}],
  MCP: [{}, {}, {}],
  ENHANCED_PROMPTING: [{}, {}, {}],
  "<CHAT_WORKSPACE>": [
    {
      config: {
        isFileUploadEnabled: true,
        workspaces: [
          {
            slackTeamId: "T1",
            enabled: true,
            channels: { ...channelScope, requireKnownRaiaUser: true },
            users: { ...scope, requireKnownRaiaUser: false },
          },
        ],
      },
    },
    {},
    { config: { isFileUploadEnabled: true, workspaces: [{ slackTeamId: "T1", enabled: true }] } },
  ],
  DATA_RETENTION: [
    { retentionDays: 30, anonymizeConversations: true, anonymizeConversationUsers: false },
    {},
    { retentionDays: "30" },
  ],
  ORCHESTRATOR: [{}, {}, {}],
  "<TEAMS_CHAT>": [
    {
      config: {
        isFileUploadEnabled: false,
        tenants: [
          {
            tenantId: "t",
            enabled: false,
            teams: [{ teamId: "1", channels: channelScope }],
            users: scope,
          },
        ],
      },
    },
    {},
    { config: { isFileUploadEnabled: false, tenants: [{ tenantId: "t", enabled: "no" }] } },
  ],
  MESSAGE_QUOTA: [{}, {}, {}],
};

describe.each(Object.entries(table))("skill %s", (systemName, [required, optional, wrong]) => {
  const whole = { systemName, status: "active", ...required, ...optional };
  const served = (skill: object) => servedSkill.safeParse(skill).success;

  test("is served with all of its fields, and with the required ones alone", () => {
    expect(servedSkill.safeParse(whole)).toMatchObject({ success: true, data: whole });
    expect(served({ systemName, status: "inactive", ...required })).toBe(true);
  });

  test("is not served without a required field, or with a value that is not allowed", () => {
    for (const field of ["systemName", "status", ...Object.keys(required)]) {
      expect([field, served({ ...whole, [field]: undefined })]).toEqual([field, false]);
    }
    for (const [field, value] of Object.entries(wrong)) {
      expect([field, served({ ...whole, [field]: value })]).toEqual([field, false]);
    }
    expect(served({ ...whole, status: "paused" })).toBe(false);
  });

  test("is read despite errors in its own fields, each reported", () => {
    const { read: schema } = skills[systemName as keyof typeof skills] as { read: z.ZodType };
    const dropped: string[] = [];
    const reading = read(schema, { ...whole, ...wrong }, (_, field) => dropped.push(field));
    expect(reading.ok).toBe(true);
    // Null is how many platforms write "none": dropped without a word.
    const told = Object.entries(wrong).filter(([, value]) => value !== null);
    expect(dropped.sort()).toEqual(told.map(([field]) => field).sort());
  });
});

test("there are twenty-six of them", () => {
  expect(Object.keys(skills)).toHaveLength(26);
});

test("an agent is read with any skill names, and served only with the API's", () => {
  const record = {
    organizationId: "00000000-0000-4000-8000-000000000001",
    organizationName: "Acme",
    id: "00000000-0000-4000-8000-000000000002",
    name: "support",
    publicName: "Support",
    role: "assistant",
    vectorStoreId: "vs_1",
    aiConfig: {
      id: "1",
      model: "m",
      temperature: 0,
      topP: 1,
      instructions: "",
      isCodeInterpreterEnabled: false,
      isFileSearchEnabled: false,
      fileSearchMaxNumResults: 1,
      reasoningEffort: null,
      outputJsonSchema: "",
    },
    status: "draft",
    skills: [{ systemName: "TELEPATHY", status: "active" }],
  };
  expect(read(agent.read, record, () => {}).ok).toBe(true);
  expect(agent.exact.safeParse(record).success).toBe(false);
  const served = { ...record, skills: [] };
  const withModel = (model: string) => ({ ...served, aiConfig: { ...record.aiConfig, model } });
  expect(agent.exact.safeParse(served).success).toBe(false);
  for (const name of ["o3-mini", "some-5.6-terra", "<model_family>-4.1"])
    expect([name, agent.exact.safeParse(withModel(name)).success]).toEqual([name, true]);
  for (const name of ["o3", "-4.1", "some-4x1", "some-6", "some-5.6-terra2"])
    expect([name, agent.exact.safeParse(withModel(name)).success]).toEqual([name, false]);
});
