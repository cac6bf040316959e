// Headers of webhooks and of escalations' recipients in a file of agents: with a wrong one nothing could be delivered.

import { expect, test } from "vitest";
import { readAgents } from "../../../src/platform/index.ts";

const read = (more: string) =>
  readAgents(`organization: { name: A }\nagents:\n  a:\n    key: some-key-1\n    ${more}`, "a.yaml");
const webhook = (headers: object) =>
  `webhooks: [{ title: T, url: "https://hooks.test/", trigger: manual, headers: ${JSON.stringify(headers)} }]`;
const recipient = (headers: object) =>
  `skills: { escalation: { escalations: [{ topic: a, escalationPrompt: "", autoChangeConversationMode: true, response: b,
      recipients: [{ channel: webhook, value: "https://hooks.test/", headers: ${JSON.stringify(headers)} }] }] } }`;

const places = [
  [webhook, "agents.a.webhooks[0].headers"],
  [recipient, "agents.a.skills.escalation.escalations[0].recipients[0].headers"],
] as const;

test.each(places)("are refused with their place: %#", (written, place) => {
  for (const [headers, problem] of [
    [{ "bad name": "1" }, "bad name: not a header"],
    [{ fine: "a\r\nx: b" }, "fine: not a header"],
    [{ "Webhook-Id": "1" }, "Webhook-Id: is not yours to set"],
    [{ "content-type": "text/plain" }, "content-type: is not yours to set"],
  ] as const)
    expect(() => read(written(headers))).toThrow(`${place}.${problem}`);
  expect(read(written({ Authorization: "Bearer x", "X-Team": "1" }))).toHaveLength(1);
});
