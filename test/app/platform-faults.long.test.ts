// The platform fails in every way: each question is put exactly once, each mail answered exactly once at the end.

import { afterAll, beforeAll, expect, it } from "vitest";
import { eventually } from "../support/clock.ts";
import { startMailDaemon } from "../support/daemon/mail-daemon.ts";
import type { ProxyFault } from "../support/daemon/platform.ts";
import { type Dovecot, startDovecot } from "../support/email/dovecot.ts";
import { describeReal, need } from "../support/machine/debian.ts";

type Case = readonly [name: string, fault: ProxyFault, times?: number];

const faults: readonly Case[] = [
  ["429 without Retry-After", { at: "before", how: { status: 429 } }, 2],
  ["429 with Retry-After", { at: "before", how: { status: 429, headers: { "retry-after": "2" } } }],
  ["404 of a proxy", { at: "before", how: { status: 404, foreign: true } }],
  ["500 before", { at: "before", how: { status: 500 } }],
  ["500 after", { at: "after", how: { status: 500 } }],
  ["503 before", { at: "before", how: { status: 503 } }],
  ["hang before", { at: "before", how: "hang" }],
  ["hang after", { at: "after", how: "hang" }],
  ["reset before", { at: "before", how: "reset" }],
  ["reset after", { at: "after", how: "reset" }],
  ["truncated", { at: "after", how: "truncated" }],
  ["html", { at: "after", how: "html" }],
  ["wrong JSON", { at: "after", how: "shape" }],
];
const operations = [
  ["the start call", "POST /conversations/start$"],
  ["the message call", "POST /messages$"],
] as const;
const cases = operations.flatMap(([operation, path]) =>
  faults.map(([name, fault, times = 1], index) => ({
    name: `${name} on ${operation}`,
    user: `${path.includes("start") ? "s" : "m"}${index}`,
    path,
    fault,
    times,
  })),
);
const creations = ["/users$", "/external/conversations$"].flatMap((path, row) =>
  (["reset", "hang", "html"] as const).map((how, column) => ({
    name: `${how} after POST ${path}`,
    user: `c${row}${column}`,
    path: `POST ${path}` as const,
    fault: { at: "after", how } satisfies ProxyFault,
  })),
);
/** How long a call that hangs is waited for: far longer than one that does not. */
const soon = "5s";
const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");

describeReal("a platform that fails", missing, () => {
  let dovecot: Dovecot;
  beforeAll(async () => {
    dovecot = await startDovecot({
      users: [
        ...cases.map((one) => one.user),
        ...creations.map((one) => one.user),
        "forbidden",
        "lost",
        "refused",
        "lookup",
        "down",
        "gone",
      ],
    });
  });
  afterAll(() => dovecot?.dispose());

  it.concurrent.for(cases)("$name", async ({ user, path, fault, times }, { onTestFinished }) => {
    const platform = fault.how === "hang" ? { timeout: soon } : {};
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user, platform });
    daemon.proxy.fail(path, fault, times);
    const first = await daemon.write();
    const second = await daemon.write({ from: "ben@customer.example" });
    await daemon.settled([first, second]);
    expect(daemon.proxy.calls.filter((call) => call.faulty)).toHaveLength(times);
    const third = await daemon.write({ answers: first });
    await daemon.settled([first, second, third]);
    expect(await daemon.rows("SELECT id FROM turns WHERE state <> 'answered'")).toEqual([]);
  });

  it.concurrent.for(creations)("$name where user and conversation are created", async (one, { onTestFinished }) => {
    const { user, path, fault } = one;
    const platform = fault.how === "hang" ? { timeout: soon } : {};
    const daemon = await startMailDaemon(onTestFinished, {
      dovecot,
      user,
      platform,
      channel: { opening: "create" },
    });
    daemon.proxy.fail(path, fault, 1);
    const mail = await daemon.write();
    await daemon.settled([mail]);
    expect(daemon.conversations(), "conversations on the platform").toBe(1);
  });

  it.concurrent("403: the channel reports it, keeps the mail, and continues after recovery", async ({
    onTestFinished,
  }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "forbidden" });
    daemon.proxy.fail("POST /messages$", { at: "before", how: { status: 403 } });
    daemon.proxy.fail("GET /by-api-key$", { at: "before", how: { status: 403 } });
    const mail = await daemon.write();
    await daemon.reports({ state: "ready", not_asking: expect.stringContaining("403") });
    const another = await daemon.write({ from: "ben@customer.example" });
    await eventually(async () => expect(await daemon.rows("SELECT id FROM turns")).toHaveLength(2));
    const readings = () => daemon.proxy.calls.filter((call) => call.path.endsWith("/by-api-key")).length;
    const before = readings();
    await eventually(() => expect(readings()).toBeGreaterThan(before + 1));
    const attempts = await daemon.rows("SELECT attempts FROM turns ORDER BY id");
    expect(attempts.at(-1), "nothing is asked under a refused key").toEqual({ attempts: 0 });
    expect(daemon.questions()).toEqual([]);
    daemon.proxy.heal();
    await daemon.settled([mail, another]);
    await daemon.reports({ not_asking: null });
  });

  it.concurrent("404: the conversation is lost with the platform's data, and opened again", async ({
    onTestFinished,
  }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "lost" });
    const first = await daemon.write();
    const reply = await daemon.replyTo(first);
    await daemon.restartPlatform("none");
    const second = await daemon.write({ answers: reply });
    await daemon.replyTo(second);
    const third = await daemon.write({ answers: second });
    await daemon.replyTo(third);
    expect(daemon.questions().map((one) => one.text.split("\n").at(-1))).toEqual([second.text, third.text]);
    expect(new Set(daemon.questions().map((one) => one.conversation)).size).toBe(1);
    expect(daemon.proxy.calls.filter((call) => call.path.endsWith("/start"))).toHaveLength(2);
  });

  it.concurrent("permanent 404: the question is given up, and listed", async ({ onTestFinished }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "gone" });
    daemon.proxy.fail("POST /messages$", { at: "before", how: { status: 404 } });
    await daemon.write();
    await eventually(async () =>
      expect(await daemon.rows("SELECT state, open FROM turns")).toEqual([{ state: "failed", open: 0 }]),
    );
    expect(daemon.proxy.calls.filter((call) => call.path.endsWith("/messages"))).toHaveLength(2);
  });

  it.concurrent("400: this question is given up, the next is asked", async ({ onTestFinished }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "refused" });
    daemon.proxy.fail("POST /messages$", { at: "before", how: { status: 400 } }, 1);
    const first = await daemon.write();
    await eventually(async () => expect(await daemon.rows("SELECT state FROM turns")).toEqual([{ state: "failed" }]));
    const second = await daemon.write({ answers: first });
    await daemon.settled([second]);
  });

  it.concurrent("an answer lost, and the look for it failing too", async ({ onTestFinished }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "lookup" });
    daemon.proxy.fail("POST /messages$", { at: "after", how: "reset" }, 1);
    daemon.proxy.fail("GET /messages", { at: "before", how: { status: 500 } }, 1);
    daemon.proxy.fail("GET /messages", { at: "after", how: "truncated" }, 1);
    const mail = await daemon.write();
    await daemon.settled([mail]);
    expect(daemon.proxy.calls.filter((call) => call.method === "POST" && call.path.endsWith("/messages"))).toHaveLength(
      1,
    );
  });

  it.concurrent("refused connections while mail arrives", async ({ onTestFinished }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "down" });
    await daemon.proxy.down();
    const letters = [await daemon.write(), await daemon.write({ from: "ben@customer.example" })];
    await eventually(async () =>
      expect((await daemon.rows("SELECT attempts FROM turns")).filter((row) => row["attempts"] > 0)).toHaveLength(2),
    );
    await daemon.proxy.up();
    await daemon.settled(letters);
  });
});
