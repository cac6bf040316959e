// A third-party adapter, installed as a package next to the configuration: a chat that only serves a route, on a
// channel type that the platform's start call does not know. It does not report its health.

import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import type { AgentSettings, ChannelSettings } from "../../src/agent/calls.ts";
import { whyNotAsk } from "../../src/pipeline/ask/decide.ts";
import type { ChannelRuntime } from "../../src/pipeline/channel-runtime.ts";
import type { Finished } from "../support/daemon/mail-daemon.ts";
import { startPhoneDaemon } from "../support/daemon/phone-daemon.ts";
import { bodyServer, serve } from "../support/machine/network.ts";
import { lineOf } from "../support/pipeline/stage.ts";

const source = `
import * as z from "zod";
const longest = 20;
export default {
  name: "chat",
  contract: 1,
  config: z.strictObject({ api_url: z.string() }),
  traits: { attachments: false, conversations: "person", platform: "live_chat" },
  create: (channel, { api_url }) => ({
    routes: [{
      kind: "http", method: "POST", path: "/message",
      async handle(request) {
        const { id, from, text } = await request.json();
        await channel.accept([{
          kind: "message", id, from: { address: from }, to: [], thread: { answers: [] }, sentAt: new Date(), text,
        }]);
        return new Response(null, { status: 204 });
      },
    }],
    outbound: {
      compose: ({ to, text }) =>
        (text.match(new RegExp(".{1," + longest + "}", "gs")) ?? []).map((part) => ({ to: to[0].address, part })),
      async send({ to, part }, attempt) {
        await attempt.crossing();
        const response = await fetch(api_url, { method: "POST", body: JSON.stringify({ to, part }) });
        return response.ok
          ? { kind: "sent", id: attempt.key }
          : { kind: "refused", code: "no", reason: "HTTP " + response.status };
      },
    },
  }),
};`;

/** `answers`: resolves when the chat may respond to what is sent to it. */
async function openChat(finished: Finished, answers: Promise<void> = Promise.resolve()) {
  const shown: { to: string; part: string }[] = [];
  const server = bodyServer((body, response) => {
    shown.push(JSON.parse(body) as { to: string; part: string });
    void answers.then(() => response.end());
  });
  const api_url = await serve(server, finished);
  const channels = { chat: { adapter: "@acme/bridgehead-chat", agent: "support", api_url } };
  const daemon = await startPhoneDaemon(finished, { channels, stopped: true });
  const modules = join(dirname(daemon.file), "node_modules");
  const folder = join(modules, "@acme/bridgehead-chat");
  mkdirSync(folder, { recursive: true });
  symlinkSync(fileURLToPath(new URL("../../node_modules/zod", import.meta.url)), join(modules, "zod"));
  const manifest = { name: "@acme/bridgehead-chat", type: "module", exports: "./index.js" };
  writeFileSync(join(folder, "package.json"), JSON.stringify(manifest));
  writeFileSync(join(folder, "index.js"), source);
  await daemon.start();
  const says = async (id: string, text: string, from: string | null = "visitor-7") => {
    const response = await fetch(`${daemon.node().url}/channels/chat/message`, {
      method: "POST",
      body: JSON.stringify({ id, from, text }),
    });
    return response.status;
  };
  const heard = (to = "visitor-7") => shown.filter((one) => one.to === to).map(({ part }) => part);
  return { daemon, says, heard };
}

describe("a third-party adapter", () => {
  it("serves a channel of its own kind, from the first message to the last part of the answer", async ({
    onTestFinished,
  }) => {
    const { daemon, says, heard } = await openChat(onTestFinished);
    await expect.poll(() => daemon.channel("chat").state).toBe("ready");
    expect(daemon.channel("chat").not_asking).toBeNull();
    expect(await says("m1", "Where is the lamp that I ordered?")).toBe(204);
    await expect.poll(() => heard().join("")).toBe("You asked: Where is the lamp that I ordered?");
    expect(heard().every((part) => part.length <= 20)).toBe(true);
    expect(heard()).toHaveLength(3);
    // A repeated id is a duplicate; another message continues the conversation.
    expect(await says("m1", "Where is the lamp that I ordered?")).toBe(204);
    expect(await says("m2", "And when?")).toBe(204);
    await expect.poll(() => heard().join("")).toContain("You asked: And when?");
    const paths = daemon.proxy.calls.map(({ method, path }) => `${method} ${path}`);
    expect(paths.filter((call) => call === "POST /external/conversations")).toHaveLength(1);
    expect(paths).not.toContain("POST /external/conversations/start");
    expect(await daemon.rows("SELECT 1 FROM turns WHERE state = 'answered'")).toHaveLength(2);
  });

  it("learns which field of its event is wrong; the provider repeats the request, and nothing is lost", async ({
    onTestFinished,
  }) => {
    const { daemon, says, heard } = await openChat(onTestFinished);
    expect(await says("m1", "Where is the lamp?", null)).toBe(503);
    const { fields } = daemon.log.find(({ message }) => message === "webhook failed") ?? {};
    const cause = "its adapter gave from.address as null, expected a string";
    expect(fields).toMatchObject({
      channel: "chat",
      path: "/message",
      err: { message: expect.stringContaining(cause) as string },
    });
    expect(await daemon.rows("SELECT 1 FROM events")).toEqual([]);
    expect(await says("m1", "Where is the lamp?")).toBe(204);
    await expect.poll(() => heard().join("")).toBe("You asked: Where is the lamp?");
  });

  it("is named by a stop that waits for a send without a response", async ({ onTestFinished }) => {
    const { promise: answers, resolve: answer } = Promise.withResolvers<void>();
    const { daemon, says, heard } = await openChat(onTestFinished, answers);
    onTestFinished(() => answer()); // called before the daemon is stopped
    expect(await says("m1", "Where?")).toBe(204);
    await expect.poll(() => heard()).not.toEqual([]);
    const app = daemon.app();
    const stopped = daemon.stop(50);
    await expect.poll(() => app.unended()).toEqual(["chat"]);
    answer();
    await stopped;
    expect(await app.unended()).toEqual([]);
  });

  it("follows the agent's skill of its channel where there is one, and needs none", () => {
    const skill: ChannelSettings = {
      status: "active",
      responseDelaySeconds: 0,
      signature: null,
      senderName: null,
      defaultSubject: null,
      introduction: null,
      address: null,
    };
    const settings: AgentSettings = {
      agentId: "a",
      organizationId: "o",
      name: "Support",
      status: "active",
      email: null,
      sms: null,
      voice: null,
      skills: { live_chat: { ...skill, status: "inactive" }, matrix: skill },
    };
    const lineTo = (platform: string): ChannelRuntime => {
      const line = lineOf({});
      return { ...line, traits: { ...line.traits, platform }, settings: () => settings, problem: () => null };
    };
    expect(whyNotAsk(lineTo("live_chat"))).toBe("the agent's live_chat skill is inactive");
    expect(whyNotAsk(lineTo("matrix"))).toBeNull();
    expect(whyNotAsk(lineTo("constructor"))).toBeNull();
    expect(whyNotAsk(lineTo("sms"))).toBe("the agent has no sms skill");
  });
});
