// Converts the agent's record to the settings of the daemon.

import * as z from "zod";
import type { Agent } from "../client/index.ts";
import { type Dropped, read } from "../wire/record.ts";
import { emailSkill, escalationSkill, smsSkill } from "../wire/skill.ts";
import { plainText, textOrObject } from "../wire/text.ts";
import type { AgentSettings, ChannelSettings, EscalationSettings } from "./calls.ts";

type Skill = Agent["skills"][number];

/** Never fails: missing values become null, and an unknown status counts as inactive. */
export function settingsOf(record: Agent, dropped: Dropped): AgentSettings {
  const skill = (name: string) => record.skills.find((each) => each.systemName === name);
  return {
    agentId: record.id,
    organizationId: record.organizationId,
    name: record.publicName || record.name,
    status: record.status === "active" || record.status === "draft" ? record.status : "inactive",
    email: channel(skill("EMAIL"), (each) => emailSettings(each, dropped)),
    sms: channel(skill("SMS"), (each) => smsSettings(each, dropped)),
    voice: channel(skill("VOICE"), voiceSettings),
    skills: Object.fromEntries(
      record.skills.flatMap((each) => {
        const settings = ["EMAIL", "SMS", "VOICE"].includes(each.systemName)
          ? null
          : channel(each, () => ({}));
        return settings ? [[each.systemName.toLowerCase(), settings]] : [];
      }),
    ),
    escalations: escalationSettings(skill("ESCALATION"), dropped),
    webhooks: webhookSettings(skill("WEBHOOK")),
  };
}

function channel(
  skill: Skill | undefined,
  details: (skill: Skill) => Partial<ChannelSettings>,
): ChannelSettings | null {
  if (!skill) return null;
  return {
    status: skill.status === "active" ? "active" : "inactive",
    responseDelaySeconds: 0,
    signature: null,
    senderName: null,
    defaultSubject: null,
    introduction: null,
    address: null,
    ...details(skill),
  };
}

function emailSettings(skill: Skill, dropped: Dropped): Partial<ChannelSettings> {
  const reading = read(emailSkill.read, skill, dropped);
  if (!reading.ok) return {};
  const { value } = reading;
  return {
    responseDelaySeconds: value.responseDelaySeconds ?? 0,
    signature: plainText(value.emailSignature),
    senderName: plainText(value.senderName),
    defaultSubject: plainText(value.defaultSubject),
    introduction: plainText(value.defaultEmailIntroduction),
    address: plainText(value.email),
  };
}

/** The interface defines no introduction for this skill; a platform that sends one is accepted. */
function voiceSettings(skill: Skill): Partial<ChannelSettings> {
  const reading = textOrObject.safeParse((skill as { readonly firstMessage?: unknown }).firstMessage);
  return { introduction: reading.success ? plainText(reading.data) : null };
}

function escalationSettings(skill: Skill | undefined, dropped: Dropped): readonly EscalationSettings[] {
  if (skill?.status !== "active") return [];
  const reading = read(escalationSkill.read, skill, dropped);
  if (!reading.ok) return [];
  return (reading.value.escalations ?? []).map(({ topic, response, recipients }) => ({
    topic,
    response,
    recipients: recipients.map(({ channel: way, value, headers }) => ({
      channel: way,
      value,
      ...(headers === undefined ? {} : { headers: textsIn(headers) }),
    })),
  }));
}

const listed = z.object({ url: z.string(), triggerCondition: z.string() });

/** Returns every complete entry; an incomplete entry does not invalidate the others. */
function webhookSettings(skill: Skill | undefined): AgentSettings["webhooks"] & {} {
  const all: unknown = (skill as { readonly webhooks?: unknown } | undefined)?.webhooks;
  return (Array.isArray(all) ? all : []).flatMap((one) => {
    const reading = listed.safeParse(one);
    return reading.success ? [{ url: reading.data.url, trigger: reading.data.triggerCondition }] : [];
  });
}

const textsIn = (headers: { readonly [name: string]: unknown }): { readonly [name: string]: string } =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) => (typeof value === "string" ? [[name, value]] : [])),
  );

function smsSettings(skill: Skill, dropped: Dropped): Partial<ChannelSettings> {
  const reading = read(smsSkill.read, skill, dropped);
  if (!reading.ok) return {};
  const { value } = reading;
  return {
    responseDelaySeconds: value.responseDelaySeconds ?? 0,
    signature: plainText(value.smsSignature),
    introduction: plainText(value.defaultSmsIntroduction),
    address: plainText(value.phoneNumber),
  };
}
