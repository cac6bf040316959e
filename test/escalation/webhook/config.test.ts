// What the configuration lets through of webhooks and their channel.

import { describe, expect, it } from "vitest";
import { webhookChannels } from "../../../src/escalation/webhook/adapter.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import { load, problems } from "../../support/commands/configuration.ts";

const file = (more: string, channel = "office") => `platform: { url: https://platform.example.com }
agents:
  sales: { key: "\${env:KEY}" }
  support: { key: "\${env:KEY}" }
channels:
  ${channel}: { adapter: fax, agent: support, host: fax.example.com }
${more}`;
const env = { KEY: "k", TOKEN: "a b", BROKEN: "a\r\nX-Injected: yes" };
const person = (webhook: string, more = "") => `escalation:
  responders: { dora: { webhook: { url: "https://hooks.example/x", ${webhook} } } }
  fallback: { notify: [dora] }
${more}`;
const deps = { policy: () => null, lines: () => new Map(), timing: standardTiming };

it("a channel must not have the name of the one that carries webhooks", async () => {
  expect(await problems(file("", "escalations"), env)).toEqual([
    "6:3 channels.escalations: is the name of the channel that carries the webhooks of escalations (give this channel another name)",
  ]);
});

it("that channel is there with a policy alone, under the agent of the first channel", async () => {
  const without = await load(file(""), env);
  const given = await load(file(person('headers: { "X-Key": "${env:TOKEN}" }')), env);
  if (!without.ok || !given.ok) throw new Error("the file is refused");
  expect(webhookChannels(without.config, deps)).toEqual([]);
  expect(webhookChannels(given.config, deps)).toMatchObject([
    { id: "escalations", core: { agent: "support", on_unknown: "resend", enabled: true } },
  ]);
  const none = { ...given.config, channels: [], agents: {} };
  expect(webhookChannels(none, deps)).toEqual([]);
  const [off] = webhookChannels({ ...none, agents: given.config.agents }, deps);
  expect(off?.core.agent).toBe("sales");
});

describe("refused at load:", () => {
  it.each([
    ["a header of two lines", 'headers: { "X-Key": "${env:BROKEN}" }'],
    ["a name of two lines", 'headers: { "X-Key\\r\\nHost": "${env:TOKEN}" }'],
    ["a name with a colon", 'headers: { "X-Key: a": "${env:TOKEN}" }'],
    ["an empty name", 'headers: { "": "${env:TOKEN}" }'],
    ["a name of ours", 'headers: { "Webhook-Id": "${env:TOKEN}" }'],
    ["the host", 'headers: { host: "${env:TOKEN}" }'],
    ["a length", 'headers: { Content-Length: "${env:TOKEN}" }'],
    ["a secret that is none", 'secret: "${env:KEY}"'],
  ])("%s", async (_what, webhook) => {
    const found = await problems(file(person(webhook)), env);
    expect(found.length).toBeGreaterThan(0);
    for (const one of found) expect(one).toMatch(/responders\.dora\.webhook/);
  });
});
