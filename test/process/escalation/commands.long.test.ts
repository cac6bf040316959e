// A command of the operator dies half way, while the daemon runs, and is repeated: nothing is lost, and nothing is done
// twice.

import { describe, expect, it } from "vitest";
import { eventually } from "../../support/clock.ts";
import { dora, type EscalationDaemon, emil, startEscalationDaemon } from "../../support/daemon/escalation-daemon.ts";
import { anna } from "../../support/daemon/phone-daemon.ts";
import { root, start } from "../../support/machine/command.ts";

const bert = "+12025550124";
const words = "It is on its way.";

/** `bridgehead escalation ...` on the daemon's configuration; `dies`: where. */
function command(daemon: EscalationDaemon, args: readonly string[], dies?: "before" | "after") {
  const killer = dies === undefined ? [] : ["--import", `${root}test/support/process/preload.ts`];
  const env = { ...daemon.env, ...(dies === undefined ? {} : { KILL_AT: `action.commit:${dies}:1` }) };
  const line = [...killer, "--conditions=source", `${root}src/main.ts`, "escalation", ...args];
  return start(process.execPath, [...line, "--config", daemon.file, "--by", "Olga"], env).ended;
}

/** Killed there, then repeated: how the repetition ends. */
async function twice(daemon: EscalationDaemon, dies: "before" | "after", args: readonly string[]) {
  const killed = await command(daemon, args, dies);
  expect(killed).toMatchObject({ signal: "SIGKILL", out: "" });
  const { code, out, err } = await command(daemon, args);
  return { code, says: `${out}${err}`.trim() };
}

/** Two customers wait for a human. */
async function openBoth(daemon: EscalationDaemon): Promise<{ readonly annas: string; readonly berts: string }> {
  for (const [at, from] of [anna, bert].entries()) {
    await daemon.text("A refund, please", { from });
    await daemon.textTo(emil.sms, at);
  }
  await daemon.quiet();
  const [annas, berts] = await daemon.escalations();
  return { annas: String(annas?.number), berts: String(berts?.number) };
}

const answers = { before: "and done by the repetition", after: "and known by it to be done" } as const;

describe.each(["before", "after"] as const)("a command killed %s its commit", (dies) => {
  it(`is lost or done as a whole, ${answers[dies]}`, { timeout: 600_000 }, async ({ onTestFinished }) => {
    const daemon = await startEscalationDaemon(onTestFinished);
    const { annas, berts } = await openBoth(daemon);
    const once = <T>(first: T, repeated: T): T => (dies === "before" ? first : repeated);

    expect(await twice(daemon, dies, ["note", annas, "--text", "She called"])).toEqual({
      code: 0,
      says: `${annas}: ${once("the note was kept", "this note was kept before; --again repeats it")}`,
    });
    expect(await twice(daemon, dies, ["ack", annas])).toEqual({
      code: 0,
      says: `${annas}: ${once("acknowledged by Olga", "acknowledged by Olga before")}`,
    });
    const reply = await twice(daemon, dies, ["reply", annas, "--text", words]);
    expect(reply.code).toBe(once(0, 1));
    expect(reply.says).toMatch(
      once(/: will be sent to the customer$/, /: not sent again: the same text was given .*; --again repeats it/),
    );
    expect(await daemon.textTo(anna, 1)).toBe(words);
    expect(await twice(daemon, dies, ["resume", annas])).toEqual({
      code: 0,
      says: `${annas}: ${once("returned to the agent", "it was returned to the agent")}`,
    });
    expect(await twice(daemon, dies, ["close", berts])).toEqual({
      code: 0,
      says: `${berts}: ${once("closed", "it was closed by Olga")}`,
    });

    await daemon.escalated("closed", "closed");
    await daemon.quiet();
    expect(daemon.textsTo(anna)).toHaveLength(2);
    expect((await daemon.transcript(anna)).filter((line) => line.endsWith(words))).toHaveLength(1);
    expect(await daemon.rows("SELECT detail FROM triggers WHERE source = 'note'")).toEqual([
      { detail: "Olga: She called" },
    ]);
    expect(await daemon.rows("SELECT state FROM turns WHERE kind = 'mode'")).toHaveLength(1);
    for (const { sms } of [dora, emil])
      expect(daemon.textsTo(sms).filter((text) => text.includes("acknowledged by Olga"))).toHaveLength(1);
  });
});

it("the same text is sent again on request, or when the first one was not sent", async ({ onTestFinished }) => {
  const daemon = await startEscalationDaemon(onTestFinished);
  const { annas } = await openBoth(daemon);
  const reply = (...more: string[]) => command(daemon, ["reply", annas, "--text", words, ...more]);
  daemon.api.fault({ code: 21211 }, { times: 1 });
  expect(await reply()).toMatchObject({ code: 0, out: expect.stringContaining("; acknowledged by Olga") });
  await eventually(async () =>
    expect(
      await daemon.rows("SELECT d.state FROM drafts d JOIN replies r ON r.id = reply WHERE kind = 'human'"),
    ).toEqual([{ state: "failed" }]),
  );
  expect((await reply()).code).toBe(0);
  expect(await daemon.textTo(anna, 1)).toBe(words);
  await daemon.quiet();
  expect(await reply()).toMatchObject({ code: 1, err: expect.stringContaining("and was sent; --again") });
  expect((await reply("--again")).code).toBe(0);
  expect(await daemon.textTo(anna, 2)).toBe(words);
  await daemon.quiet();
  expect(daemon.textsTo(anna)).toHaveLength(3);
});

it("escalation reply refuses a text that looks like a note", async ({ onTestFinished }) => {
  const daemon = await startEscalationDaemon(onTestFinished);
  const { annas } = await openBoth(daemon);
  for (const text of ["#note she is a fraud", "It is on its way.\n(#note she is a fraud)"])
    expect(await command(daemon, ["reply", annas, "--text", text])).toMatchObject({
      code: 1,
      err: expect.stringContaining("looks like a command for notifications"),
    });
  await daemon.quiet();
  expect(daemon.textsTo(anna)).toHaveLength(1);
});
