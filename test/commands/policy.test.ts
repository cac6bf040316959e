// bridgehead policy test: the command line as it is typed, without the service's secrets.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { exitCodes } from "../../src/commands/io.ts";
import { runProgram } from "../../src/commands/program.ts";
import { systemClock } from "../../src/ops/clock.ts";
import { migrate } from "../../src/store/migrate.ts";
import { openSqlite } from "../../src/store/sqlite.ts";
import { writeSettings } from "../../src/store/tables/agents.ts";
import { commandIo } from "../support/machine/command.ts";
import { newFolder } from "../support/resources.ts";

const folder = newFolder(afterAll);

let count = 0;
async function policy(text: string, ...args: readonly string[]) {
  const name = `${count++}.yaml`;
  writeFileSync(join(folder, name), text);
  const [out, err]: [string[], string[]] = [[], []];
  const io = commandIo({
    out: (lines) => void out.push(...lines.split("\n")),
    err: (line) => void err.push(line.replaceAll(`${folder}/${name}`, "FILE").replaceAll(folder, "DIR")),
    cwd: folder,
  });
  const code = await runProgram(["policy", "test", "--config", name, ...args], io, "0");
  return { code, out, err };
}

const mail = (id: string, agent: string, more = "") => `  ${id}:
    adapter: email
    agent: ${agent}
    imap: { host: imap.example.com, user: ${id}@example.com, password: "\${env:NOT_HERE}" }
    smtp: { host: smtp.example.com }
${more}`;
const base = `platform: { url: https://p.example.com }
agents: { support: { key: "\${env:NOT_HERE}" }, sales: { key: "\${env:NOT_HERE}" } }
channels:
${mail("support-mail", "support")}${mail("old-mail", "sales", "    enabled: false\n")}${mail("sales-mail", "sales")}`;
const escalation = `escalation:
  responders:
    anna: { name: Anna Berg, email: Anna@Example.com, time_zone: Europe/Berlin, hours: ["mon-fri 08:00-18:00"], away: ["2026-12-24..2026-12-26"] }
    ben: { email: ben@example.com, time_zone: America/New_York, hours: ["mon-fri 08:00-18:00"], webhook: { url: "\${env:NOT_HERE}", headers: { X-Key: "\${env:NOT_HERE}" } } }
    chief: { email: chief@example.com }
  tiers:
    - { notify: [ anna ] }
    - { notify: [ anna, ben ] }
  routes:
    - { topics: [ "vip*" ], tiers: [] }
    - { causes: [ call ], agents: [ sales ], tiers: [ { notify: [ chief ], next: 5m } ] }
  causes: [ topic, call, held ]
  fallback: { notify: [ chief ] }
`;
const file = (store = "absent.db") => `${base}${escalation}store: sqlite:${store}\n`;
const eve = ["--at", "2026-12-24T17:30:00+01:00"];

async function storeWith(name: string, settings: object | null): Promise<string> {
  const db = openSqlite(join(folder, name), () => systemClock.now());
  await migrate(db);
  if (settings) await db.tx((q) => writeSettings(q, "support", JSON.stringify(settings)));
  await db.close();
  return name;
}

describe("policy test", () => {
  it("prints which responders are notified, how and when, and why others are not", async () => {
    const { code, out, err } = await policy(file(), "--topic", "refund", ...eve);
    expect([code, err]).toEqual([exitCodes.ok, []]);
    expect(out.toSpliced(1, 1)).toEqual([
      "topic refund, agent support, channel support-mail, cause topic, opened 2026-12-24 16:30:00 UTC",
      "+0s  2026-12-24 16:30:00 UTC  tier 1: no responder is on call",
      "    not notified: Anna Berg: away until Mon 2026-12-28 08:00 Europe/Berlin",
      "+0s  2026-12-24 16:30:00 UTC  tier 2",
      "    notified: ben by email ben@example.com, webhook (Thu 2026-12-24 11:30 America/New_York)",
      "    not notified: Anna Berg: away until Mon 2026-12-28 08:00 Europe/Berlin",
      "+10m  2026-12-24 16:40:00 UTC  tier 2, again",
      "    notified: ben by email ben@example.com, webhook (Thu 2026-12-24 11:40 America/New_York)",
      "+15m  2026-12-24 16:45:00 UTC  fallback, and again every 15m until a responder acknowledges",
      "    notified: chief by email chief@example.com (Thu 2026-12-24 16:45 UTC)",
      "    notified: ben by email ben@example.com, webhook (Thu 2026-12-24 11:45 America/New_York)",
      "    not notified: Anna Berg: away until Mon 2026-12-28 08:00 Europe/Berlin",
    ]);
    expect(out[1]).toContain("the agent's own recipients are not known: there is no store");
  });

  it("prints JSON for machines, without where webhooks go", async () => {
    const { out } = await policy(file(), "--topic", "refund", "--json", ...eve);
    const [line = ""] = out;
    expect(JSON.parse(line)).toMatchObject({
      topic: "refund",
      agent: "support",
      channel: "support-mail",
      cause: "topic",
      at: "2026-12-24T16:30:00.000Z",
      agent_recipients: { unknown: expect.stringContaining("there is no store") },
      steps: [
        {
          tier: 1,
          after_ms: 0,
          notified: [],
          not_notified: [{ person: "anna", why: "away", until: "2026-12-28T07:00:00.000Z" }],
        },
        {
          tier: 2,
          notified: [{ person: "ben", way: "email", address: "ben@example.com" }, { way: "webhook" }],
        },
        { tier: 2, after_ms: 600_000 },
        { tier: "fallback", at: "2026-12-24T16:45:00.000Z" },
      ],
      complete: true,
    });
    expect(line).not.toContain("hidden.invalid");
  });

  it("follows the routes, for the agent's first enabled channel", async () => {
    const { out } = await policy(file(), "--cause", "call", "--agent", "sales", ...eve);
    expect(out[0]).toBe("no topic, agent sales, channel sales-mail, cause call, opened 2026-12-24 16:30:00 UTC");
    expect(out.filter((line) => line.startsWith("+"))).toEqual([
      "+0s  2026-12-24 16:30:00 UTC  tier 1",
      "+5m  2026-12-24 16:35:00 UTC  fallback, and again every 15m until a responder acknowledges",
    ]);
    const vip = await policy(file(), "--topic", "VIP customer", "--channel", "old-mail", ...eve);
    expect(vip.out[0]).toContain("agent sales, channel old-mail");
    expect(vip.out.filter((line) => line.startsWith("+"))).toEqual([
      "+0s  2026-12-24 16:30:00 UTC  fallback, and again every 15m until a responder acknowledges",
    ]);
  });

  it("begins now when no time is given", async () => {
    const before = systemClock.now();
    const { out } = await policy(file(), "--json");
    const { at } = JSON.parse(out[0] ?? "") as { at: string };
    expect(Date.parse(at)).toBeGreaterThanOrEqual(before);
    expect(Date.parse(at)).toBeLessThanOrEqual(systemClock.now());
  });

  const recipients = {
    escalations: [
      { topic: "refund", response: "", recipients: [{ channel: "email", value: "refunds@example.com" }] },
      {
        topic: "other",
        response: "",
        recipients: [
          { channel: "sms", value: "+15550111" },
          { channel: "webhook", value: "https://hooks.example.com/key" },
        ],
      },
    ],
  };
  it("names the agent's own recipients as the daemon read them last", async () => {
    const store = await storeWith("read.db", recipients);
    const own = async (...args: string[]) =>
      (await policy(file(store), ...args, ...eve)).out.filter((line) => line.includes("the agent"));
    expect(await own("--topic", "refund")).toEqual(["at once: email refunds@example.com (the agent's, for refund)"]);
    expect(await own()).toEqual([
      "at once: email refunds@example.com (the agent's, for refund)",
      "not notified: sms +15550111 (the agent's, for other): no channel carries sms",
      "at once: webhook (the agent's, for other)",
    ]);
    const json = await policy(file(store), "--topic", "refund", "--json", ...eve);
    expect(JSON.parse(json.out[0] ?? "")).toMatchObject({
      agent_recipients: [{ topic: "refund", way: "email", address: "refunds@example.com" }],
    });
    const off = file(store).replace("  tiers:", "  agent_recipients: false\n  tiers:");
    expect((await policy(off, ...eve)).out[1]).toContain("are not notified (agent_recipients: false)");
  });

  it.each<[string, object | null, string]>([
    ["never", null, "the settings of agent support were never read: does the daemon run?"],
    ["by an earlier version", {}, "the daemon has not read them yet"],
  ])("says so when they were read %s", async (what, settings, reason) => {
    const store = await storeWith(`${what}.db`, settings);
    const { out } = await policy(file(store), ...eve);
    expect(out[1]).toBe(`the agent's own recipients are not known: ${reason}`);
  });

  it("says so when the agent has none", async () => {
    const store = await storeWith("none.db", { escalations: [] });
    expect((await policy(file(store), ...eve)).out[1]).toBe("the agent has no recipients of its own");
  });
});

describe("policy test is refused", () => {
  it.each<[string, string[], number, string]>([
    [
      "a time without offset",
      ["--at", "2026-12-24T23:30:00"],
      exitCodes.usage,
      "--at 2026-12-24T23:30:00: must be a time with its offset, such as 2026-12-24T23:30:00+01:00",
    ],
    [
      "a day that is none",
      ["--at", "2026-13-24T23:30:00Z"],
      exitCodes.usage,
      "--at 2026-13-24T23:30:00Z: must be a time with its offset, such as 2026-12-24T23:30:00+01:00",
    ],
    [
      "an unknown agent",
      ["--agent", "suport"],
      exitCodes.usage,
      "there is no agent suport: the file has support, sales",
    ],
    [
      "an unknown channel",
      ["--channel", "x"],
      exitCodes.usage,
      "there is no channel x: the file has support-mail, old-mail, sales-mail",
    ],
    [
      "a cause that is not escalated",
      ["--cause", "cap"],
      exitCodes.failed,
      "no responder is notified: the cause cap is not among escalation.causes",
    ],
  ])("for %s", async (_what, args, code, message) => {
    expect(await policy(file(), ...args)).toEqual({ code, out: [], err: [message] });
  });

  it("where no notification is sent", async () => {
    expect(await policy(base)).toEqual({
      code: exitCodes.failed,
      out: [],
      err: ["no responder is notified: there is no key escalation in FILE"],
    });
  });

  it("where the policy is wrong", async () => {
    const { code, err } = await policy(file().replace("notify: [ chief ] }\nstore", "notify: [ boss ] }\nstore"));
    expect(code).toBe(exitCodes.config);
    expect(err).toEqual([
      "FILE:32:25 escalation.fallback.notify[0]: names a responder that is not defined: boss (name one of anna, ben, chief)",
    ]);
  });

  it("for an unknown cause, with the known ones", async () => {
    await expect(policy(file(), "--cause", "rain")).rejects.toThrow(
      "It must be one of topic, silent, turn-failed, held, channel-down, cap, call.",
    );
  });
});
