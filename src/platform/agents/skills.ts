// The skills in an agent's definition, except those of the channels. Each has the fields of the interface,
// under its lower-case name, and is active by default.

import { validateHeaderName, validateHeaderValue } from "node:http";
import * as z from "zod";
import { skills } from "../../wire/skill.ts";

/** Returns the schema of one skill, with `defaults` for missing fields. It is a function of the name, so
 *  that error paths refer to the file's own keys. */
function block<Name extends keyof typeof skills>(name: Name, defaults: object = {}) {
  const exact: (typeof skills)[Name]["exact"] = skills[name].exact;
  return z
    .preprocess(
      (given) =>
        given !== null && typeof given === "object" && !Array.isArray(given)
          ? { status: "active", ...defaults, ...given, systemName: name }
          : given,
      exact,
    )
    .optional();
}

const webhookUrl = z.url({ protocol: /^https?$/ });

type Complain = (path: (string | number)[], message: string) => void;

/** Adds the rules that the interface states as text, in addition to its types. */
function checked<T extends z.ZodType>(schema: T, check: (skill: z.output<T>, complain: Complain) => void): T {
  return schema.superRefine((skill, context) => {
    if (skill !== undefined) check(skill, (path, message) => context.addIssue({ code: "custom", path, message }));
  });
}

const escalation = checked(block("ESCALATION"), (skill, complain) => {
  for (const [index, { topic, recipients }] of (skill?.escalations ?? []).entries()) {
    if (topic.trim() === "") complain(["escalations", index, "topic"], "is empty");
    for (const [at, { channel, value, headers }] of recipients.entries()) {
      const path = ["escalations", index, "recipients", at];
      if (channel === "webhook" && !webhookUrl.safeParse(value).success)
        complain([...path, "value"], "a webhook's value is its URL");
      for (const [name, text] of Object.entries(headers ?? {})) {
        const problem = headerProblem(name, text);
        if (problem !== null) complain([...path, "headers", name], problem);
      }
    }
  }
});

/** By default a widget is available at all times. */
const everyDay = { limitUnavailableDates: false, unavailableDates: [], unavailableDatesMessage: "" };
const colour = /^#(?:[0-9a-fA-F]{3,4}){1,2}$/;

const liveChat = checked(block("LIVE_CHAT", everyDay), (skill, complain) => {
  for (const [index, { url }] of (skill?.links ?? []).entries())
    if (!URL.canParse(url)) complain(["links", index, "url"], "an absolute URL is needed");
  const button = skill?.widgetButtonConfig;
  if (!button) return;
  if (button.launcherTheme === "custom" && button.selectedTheme === undefined)
    complain(["widgetButtonConfig", "selectedTheme"], "needed with launcherTheme: custom");
  for (const theme of ["lightThemeConfig", "darkThemeConfig"] as const)
    for (const key of ["backgroundColor", "textColor"] as const)
      if (!colour.test(button[theme][key])) complain(["widgetButtonConfig", theme, key], 'a colour such as "#00aa00"');
});

const dateTime = z.iso.datetime({ offset: true });

const scraping = checked(block("SCRAPING"), (skill, complain) => {
  for (const [index, config] of (skill?.scrapingConfigs ?? []).entries())
    for (const key of ["startCrawledAt", "endCrawledAt"] as const)
      if (config[key] !== null && !dateTime.safeParse(config[key]).success)
        complain(["scrapingConfigs", index, key], 'a time such as "2026-11-01T10:00:00Z"');
});

export const status = z.enum(["active", "inactive"]).default("active");

/** Skills that are stored and served here, but need a service that the embedded platform does not provide. */
const keptBlocks = {
  live_chat: liveChat,
  function: block("FUNCTION"),
  agent_report: block("AGENT_REPORT"),
  scraping,
  notifications: block("NOTIFICATIONS"),
  external_retrievers: block("EXTERNAL_RETRIEVERS"),
  web_search: block("WEB_SEARCH"),
  feedback: block("FEEDBACK"),
  calendar: block("CALENDAR"),
  auditor: block("AUDITOR"),
  copilot: block("COPILOT"),
  mcp: block("MCP"),
  enhanced_prompting: block("ENHANCED_PROMPTING"),
  chat_workspace: block("<CHAT_WORKSPACE>"),
  orchestrator: block("ORCHESTRATOR"),
  teams_chat: block("<TEAMS_CHAT>"),
} as const;

export const onlyKept = Object.keys(keptBlocks) as (keyof typeof keptBlocks)[];

export const skillBlocks = {
  escalation,
  scoring: block("SCORING"),
  memory: block("MEMORY"),
  data_retention: block("DATA_RETENTION"),
  message_quota: z
    .strictObject({
      status,
      /** Number of questions in a calendar month (UTC). */
      limit: z.int().min(0),
      /** The answer to questions beyond the limit. */
      response: z.string().min(1),
    })
    .optional(),
  ...keptBlocks,
} as const;

// Validates the custom headers of a webhook.

/** Headers that this server or HTTP itself controls. */
const reserved =
  /^(webhook-(id|timestamp|signature)|content-(length|type)|host|connection|keep-alive|transfer-encoding|te|trailer|expect|upgrade|user-agent)$/i;

/** Returns the reason why a header is invalid, or null. */
export function headerProblem(name: string, value: unknown): string | null {
  try {
    validateHeaderName(name);
    validateHeaderValue(name, String(value));
  } catch {
    return "not a header";
  }
  return reserved.test(name) ? "is not yours to set" : null;
}
