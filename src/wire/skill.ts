// Skills of an agent (External API 2.6). Every skill has the base fields; `systemName` selects the rest. An
// unknown name is parsed by its base fields.
// The real system names of chat applications are product names; the interface uses placeholders, and so does this file.

import * as z from "zod";
import { type NoFields, record, textOrObject } from "./record.ts";
import { webhookConfig } from "./webhook.ts";

const status = z.enum(["active", "inactive"]);

/** Seconds between an answer and its sending; null counts as 0. */
const delay = z.number().min(0).max(3600).nullable();

type SkillFields = { readonly [name: string]: z.ZodType };

/** One skill: the base fields, the fields that the interface also requires, and the optional ones. */
function skillOf<Name extends string, Promises extends SkillFields = NoFields, May extends SkillFields = NoFields>(
  name: Name,
  promises = {} as Promises,
  may = {} as May,
) {
  return record(`${name} skill`, {}, { systemName: z.literal(name), status, ...promises }, may);
}

const colours = z.looseObject({ backgroundColor: z.string(), textColor: z.string() });

const widgetButtonConfig = z.looseObject({
  mode: z.enum(["automatic", "on_hover"]),
  type: z.enum(["icon_only", "text_only", "icon_and_text"]),
  borderRadius: z.enum(["0px", "8px", "100%"]),
  /** The launcher's size in pixels. */
  size: z.string(),
  /** Required when the launcher's theme is custom. */
  selectedTheme: z.enum(["light", "dark", "system"]).optional(),
  lightThemeConfig: colours,
  darkThemeConfig: colours,
  launcherAttentionEffect: z.enum(["none", "pulse"]),
  launcherTheme: z.enum(["default", "solid", "gradient", "glassmorphism", "custom"]),
  logoFit: z.enum(["cover", "contain"]),
  launcherTeaser: z.enum(["suggestions", "proactive", "none"]),
  /** Used when the teaser is proactive. */
  proactiveBubble: z.looseObject({ message: z.string(), delaySeconds: z.number().min(0).max(3600) }).optional(),
});

const day = z.string().regex(/^\d{4}-\d{2}-\d{2}$/);

const liveChatSkill = skillOf(
  "LIVE_CHAT",
  { limitUnavailableDates: z.boolean(), unavailableDates: z.array(day), unavailableDatesMessage: z.string() },
  {
    color: z.string(),
    widgetButtonConfig,
    titleLine1: z.string(),
    titleLine2: z.string(),
    /** Same value as titleLine2, kept for older clients. */
    intro: z.string(),
    links: z.array(z.looseObject({ name: z.string(), url: z.string() })),
    disclaimer: z.string(),
    chatFooterContent: z.string(),
    suggestions: z.array(z.string()),
    whitelistedIps: z.array(z.string()),
    restrictedCountries: z.array(z.string()),
  },
);

const email = skillOf(
  "EMAIL",
  { email: z.string() },
  {
    senderName: z.string(),
    defaultSubject: z.string(),
    defaultEmailIntroduction: textOrObject,
    emailSignature: textOrObject,
    responseDelaySeconds: delay,
  },
);

/** When read, its texts are strings or objects; when served, they are strings, as in the interface. */
export const emailSkill = {
  read: email.read,
  exact: email.exact.extend({
    defaultEmailIntroduction: z.string().optional(),
    emailSignature: z.string().optional(),
  }),
};

const sms = skillOf(
  "SMS",
  { phoneNumber: z.string() },
  { defaultSmsIntroduction: textOrObject, smsSignature: textOrObject, responseDelaySeconds: delay },
);

const smsText = z.looseObject({}).optional();

/** When read, its texts are strings or objects; when served, they are objects, as in the interface. */
export const smsSkill = {
  read: sms.read,
  exact: sms.exact.extend({ defaultSmsIntroduction: smsText, smsSignature: smsText }),
};

/** The real names of the two ids contain the voice provider's name. The interface uses a placeholder,
 *  and so does this schema. Ids under another name pass through. */
export const voiceSkill = skillOf("VOICE", { vXAssistantId: z.string(), vXPhoneNumberId: z.string() });

export const apiSkill = skillOf("API", { apiKey: z.string() });

const webhookSkill = skillOf("WEBHOOK", {
  name: z.string(),
  description: z.string(),
  webhooks: z.array(webhookConfig),
});

const mode = z.enum(["ALL_ENABLED", "CUSTOM"]);
/** The ids apply only under CUSTOM. */
const channels = z.looseObject({ mode, channelIds: z.array(z.string()) });
const users = z.looseObject({ mode, userIds: z.array(z.string()) });
/** True: only senders whose address belongs to a platform user receive an answer. */
const known = { requireKnownRaiaUser: z.boolean() };

const tenant = z.looseObject({
  tenantId: z.string(),
  /** False blocks the tenant's messages. */
  enabled: z.boolean(),
  teams: z.array(z.looseObject({ teamId: z.string(), channels })),
  users,
});

const workspace = z.looseObject({
  slackTeamId: z.string(),
  /** False blocks the workspace's messages. */
  enabled: z.boolean(),
  channels: channels.extend(known),
  users: users.extend(known),
});

const teamsChatSkill = skillOf("<TEAMS_CHAT>", {
  config: z.looseObject({ isFileUploadEnabled: z.boolean(), tenants: z.array(tenant) }),
});

const chatWorkspaceSkill = skillOf("<CHAT_WORKSPACE>", {
  config: z.looseObject({ isFileUploadEnabled: z.boolean(), workspaces: z.array(workspace) }),
});

const date = z.string();

const scrapingConfig = z.looseObject({
  url: z.string(),
  startCrawledAt: date.nullable(),
  endCrawledAt: date.nullable(),
  /** One of two crawler providers, under their own names. */
  crawlerType: z.string(),
  crawlFormat: z.enum(["JSON", "MARKDOWN", "HTML", "CONTENT"]),
  excludeUrls: z.array(z.string()).nullable(),
  pageLimit: z.number(),
  maxDepth: z.number(),
  frequency: z.enum(["manual", "daily", "weekly", "monthly"]),
  autoUpload: z.boolean(),
  crawlingStatus: z.enum(["not_started", "in_progress", "completed", "failed", "canceled"]),
});

const scrapingSkill = skillOf("SCRAPING", { scrapingConfigs: z.array(scrapingConfig) });

const retriever = z.looseObject({
  name: z.string(),
  type: z.string(),
  status,
  config: z.looseObject({
    apiKey: z.string(),
    indexName: z.string(),
    host: z.string(),
    fieldName: z.string(),
    namespace: z.string(),
    topK: z.number(),
    isEmbedded: z.boolean(),
    dimensions: z.number().optional(),
    model: z.enum(["text-embedding-ada-002", "text-embedding-3-large", "text-embedding-3-small"]).optional(),
  }),
});

const retrieversSkill = skillOf("EXTERNAL_RETRIEVERS", { externalRetrievers: z.array(retriever) });

const webSearchSkill = skillOf("WEB_SEARCH", { webSearchServiceType: z.string(), prompt: z.string() });

const memorySkill = skillOf("MEMORY", {
  type: z.enum(["BY_USER", "BY_AGENT"]),
  retentionDuration: z.number(),
});

const calendarSkill = skillOf("CALENDAR", {
  config: z.looseObject({ type: z.string(), apiKey: z.string(), prompt: z.string() }),
});

/** A recipient of an entry of ESCALATION (External API 2.6). */
export const escalationRecipient = z.looseObject({
  channel: z.enum(["sms", "email", "webhook"]),
  value: z.string(),
  headers: z.record(z.string(), z.unknown()).optional(),
});

/** An entry of ESCALATION (External API 2.6). */
export const escalationEntry = z.looseObject({
  topic: z.string(),
  escalationPrompt: z.string(),
  /** True: a human handles the conversation from then on. */
  autoChangeConversationMode: z.boolean(),
  /** The text for the customer. */
  response: z.string(),
  recipients: z.array(escalationRecipient),
});

export const escalationSkill = skillOf("ESCALATION", { escalations: z.array(escalationEntry) });

const scoringSkill = skillOf("SCORING", {}, { scoringPrompt: z.string() });

const feedbackSkill = skillOf("FEEDBACK", {
  period: z.enum(["last_30_days", "last_60_days", "last_90_days", "all_time"]),
  autoUpload: z.boolean(),
  generationMode: z.enum(["manual", "auto"]),
});

const reportSkill = skillOf("AGENT_REPORT", {
  frequency: z.enum(["DAILY", "WEEKLY", "MONTHLY"]),
  emails: z.array(z.string()),
});

export const retentionSkill = skillOf("DATA_RETENTION", {
  retentionDays: z.number(),
  anonymizeConversations: z.boolean(),
  anonymizeConversationUsers: z.boolean(),
});

/** The fields that all skills share. `status` is read as any string: every value except "active" is inactive. */
export const skill = record("skill", { systemName: z.string(), status: z.string() });

/** All skills of the interface, by system name. */
export const skills = {
  LIVE_CHAT: liveChatSkill,
  SMS: smsSkill,
  EMAIL: emailSkill,
  WEBHOOK: webhookSkill,
  FUNCTION: skillOf("FUNCTION"),
  SCORING: scoringSkill,
  API: apiSkill,
  VOICE: voiceSkill,
  MEMORY: memorySkill,
  AGENT_REPORT: reportSkill,
  SCRAPING: scrapingSkill,
  NOTIFICATIONS: skillOf("NOTIFICATIONS"),
  EXTERNAL_RETRIEVERS: retrieversSkill,
  WEB_SEARCH: webSearchSkill,
  FEEDBACK: feedbackSkill,
  ESCALATION: escalationSkill,
  CALENDAR: calendarSkill,
  AUDITOR: skillOf("AUDITOR"),
  COPILOT: skillOf("COPILOT"),
  MCP: skillOf("MCP"),
  ENHANCED_PROMPTING: skillOf("ENHANCED_PROMPTING"),
  "<CHAT_WORKSPACE>": chatWorkspaceSkill,
  DATA_RETENTION: retentionSkill,
  ORCHESTRATOR: skillOf("ORCHESTRATOR"),
  "<TEAMS_CHAT>": teamsChatSkill,
  MESSAGE_QUOTA: skillOf("MESSAGE_QUOTA"),
} as const;

type ServedSkill = (typeof skills)[keyof typeof skills]["exact"];

/** A skill as it is served: exactly one of the above. */
export const servedSkill = z.discriminatedUnion(
  "systemName",
  Object.values(skills).map(({ exact }) => exact) as unknown as readonly [ServedSkill, ...ServedSkill[]],
);
