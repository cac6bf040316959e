// The skills of an agent in its definition, beside those of the channels: each as the interface has it, under its name
// in lower case, active unless it says otherwise.

import * as z from "zod";
import { skills } from "../wire/skill.ts";

/** One skill as it will be served. A function of the name, so that the paths of its mistakes are the file's own. */
function block<Name extends keyof typeof skills>(name: Name) {
  const exact: (typeof skills)[Name]["exact"] = skills[name].exact;
  return z
    .preprocess(
      (given) =>
        given !== null && typeof given === "object" && !Array.isArray(given)
          ? { status: "active", ...given, systemName: name }
          : given,
      exact,
    )
    .optional();
}

const webhookUrl = z.url({ protocol: /^https?$/ });

const escalation = block("ESCALATION").superRefine((skill, context) => {
  for (const [index, { topic, recipients }] of (skill?.escalations ?? []).entries()) {
    if (topic.trim() === "")
      context.addIssue({ code: "custom", path: ["escalations", index, "topic"], message: "is empty" });
    for (const [at, { channel, value }] of recipients.entries()) {
      if (channel === "webhook" && !webhookUrl.safeParse(value).success)
        context.addIssue({
          code: "custom",
          path: ["escalations", index, "recipients", at, "value"],
          message: "a webhook's value is its URL",
        });
    }
  }
});

const status = z.enum(["active", "inactive"]).default("active");

export const skillBlocks = {
  escalation,
  scoring: block("SCORING"),
  memory: block("MEMORY"),
  data_retention: block("DATA_RETENTION"),
  message_quota: z
    .strictObject({
      status,
      /** Questions in a calendar month (UTC). */
      limit: z.int().min(0),
      /** What is answered beyond it. */
      response: z.string().min(1),
    })
    .optional(),
  live_chat: block("LIVE_CHAT"),
  function: block("FUNCTION"),
  agent_report: block("AGENT_REPORT"),
  scraping: block("SCRAPING"),
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

/** Skills that are kept and served here while what they do needs a service that is not here. */
export const onlyKept = [
  "live_chat",
  "function",
  "agent_report",
  "scraping",
  "notifications",
  "external_retrievers",
  "web_search",
  "feedback",
  "calendar",
  "auditor",
  "copilot",
  "mcp",
  "enhanced_prompting",
  "chat_workspace",
  "orchestrator",
  "teams_chat",
] as const satisfies readonly (keyof typeof skillBlocks)[];
