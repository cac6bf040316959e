// Skills of an agent (External API 2.6). Every skill has the base fields; `systemName` selects the rest. An
// unknown name is parsed by its base fields.

import * as z from "zod";
import { record } from "./record.ts";
import { apiSkill, emailSkill, smsSkill, voiceSkill, webhookSkill } from "./skills/channels.ts";
import { skillOf } from "./skills/kinds.ts";
import {
  calendarSkill,
  memorySkill,
  retrieversSkill,
  scrapingSkill,
  webSearchSkill,
} from "./skills/knowledge.ts";
import { liveChatSkill } from "./skills/live-chat.ts";
import {
  escalationSkill,
  feedbackSkill,
  reportSkill,
  retentionSkill,
  scoringSkill,
} from "./skills/oversight.ts";
import { chatWorkspaceSkill, teamsChatSkill } from "./skills/workspaces.ts";

export { apiSkill, emailSkill, escalationSkill, smsSkill, voiceSkill };

/** The fields that all skills share. `status` is read as any string: every value except "active" is
 *  inactive. */
export const skill = record("skill", { systemName: z.string(), status: z.string() }, {}, {});

/** All skills of the interface, by system name. */
export const skills = {
  LIVE_CHAT: liveChatSkill,
  SMS: smsSkill,
  EMAIL: emailSkill,
  WEBHOOK: webhookSkill,
  FUNCTION: skillOf("FUNCTION", {}, {}),
  SCORING: scoringSkill,
  API: apiSkill,
  VOICE: voiceSkill,
  MEMORY: memorySkill,
  AGENT_REPORT: reportSkill,
  SCRAPING: scrapingSkill,
  NOTIFICATIONS: skillOf("NOTIFICATIONS", {}, {}),
  EXTERNAL_RETRIEVERS: retrieversSkill,
  WEB_SEARCH: webSearchSkill,
  FEEDBACK: feedbackSkill,
  ESCALATION: escalationSkill,
  CALENDAR: calendarSkill,
  AUDITOR: skillOf("AUDITOR", {}, {}),
  COPILOT: skillOf("COPILOT", {}, {}),
  MCP: skillOf("MCP", {}, {}),
  ENHANCED_PROMPTING: skillOf("ENHANCED_PROMPTING", {}, {}),
  "<CHAT_WORKSPACE>": chatWorkspaceSkill,
  DATA_RETENTION: retentionSkill,
  ORCHESTRATOR: skillOf("ORCHESTRATOR", {}, {}),
  "<TEAMS_CHAT>": teamsChatSkill,
  MESSAGE_QUOTA: skillOf("MESSAGE_QUOTA", {}, {}),
} as const;

/** A skill as it is served: exactly one of the above. */
export const servedSkill = z.discriminatedUnion("systemName", [
  skills.LIVE_CHAT.exact,
  skills.SMS.exact,
  skills.EMAIL.exact,
  skills.WEBHOOK.exact,
  skills.FUNCTION.exact,
  skills.SCORING.exact,
  skills.API.exact,
  skills.VOICE.exact,
  skills.MEMORY.exact,
  skills.AGENT_REPORT.exact,
  skills.SCRAPING.exact,
  skills.NOTIFICATIONS.exact,
  skills.EXTERNAL_RETRIEVERS.exact,
  skills.WEB_SEARCH.exact,
  skills.FEEDBACK.exact,
  skills.ESCALATION.exact,
  skills.CALENDAR.exact,
  skills.AUDITOR.exact,
  skills.COPILOT.exact,
  skills.MCP.exact,
  skills.ENHANCED_PROMPTING.exact,
  skills["<CHAT_WORKSPACE>"].exact,
  skills.DATA_RETENTION.exact,
  skills.ORCHESTRATOR.exact,
  skills["<TEAMS_CHAT>"].exact,
  skills.MESSAGE_QUOTA.exact,
]);
