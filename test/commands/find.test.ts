// What find, conversation and the lists print, for a terminal, for a pipe and for machines.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { CommanderError } from "commander";
import { expect, it } from "vitest";
import { exitCodes, type Io } from "../../src/commands/io.ts";
import { runProgram } from "../../src/commands/program.ts";
import { listing, readSince, relative } from "../../src/commands/text.ts";
import { durationText } from "../../src/domain/duration-text.ts";
import type { Database } from "../../src/store/driver.ts";
import { commandIo } from "../support/machine/command.ts";
import { newFolder } from "../support/resources.ts";
import { sqliteDatabase, withConversation } from "../support/store/databases.ts";

const dirty = "\u001b[31mred\u001b[0m\r\n\u009b2J\u202egnp.exe\u0007";

interface Said {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Runs a command line on a store with a conversation. */
async function filled(screen?: Io["screen"]): Promise<{
  run: (...words: readonly string[]) => Promise<Said>;
  db: Database;
  asked: number;
  refused: number;
}> {
  const database = await sqliteDatabase();
  const { db, asked, refused } = await withConversation(async () => database);
  await db.tx((q) => q.run("UPDATE events SET subject = $2 WHERE id = $1", refused, dirty));
  const config = join(newFolder(), "bridgehead.yaml");
  writeFileSync(config, `store: "sqlite:${database.file}"\n`);
  const run = async (...words: readonly string[]): Promise<Said> => {
    const said = { out: "", err: "" };
    const io = commandIo({
      out: (text) => void (said.out += `${text}\n`),
      err: (text) => void (said.err += `${text}\n`),
      env: { SUDO_USER: "dora", USER: "bridgehead" },
      ...(screen ? { screen } : {}),
    });
    const code = await runProgram([...words, "--config", config], io, "0").catch((error: unknown) => {
      if (error instanceof CommanderError) return exitCodes.usage;
      throw error;
    });
    return { code, ...said };
  };
  return { run, db, asked, refused };
}

it("find lists conversations and refused messages with their state, newest first", async () => {
  const { run, refused } = await filled();
  const { out, err, code } = await run("find", "example");
  expect([code, err]).toEqual([exitCodes.ok, ""]);
  const lines = out.trimEnd().split("\n");
  expect(lines[0]).toMatch(/^TIME \(UTC\) +AGO +STATE +CHANNEL +PERSON +SUBJECT +REASON +SHOW$/);
  expect(lines.slice(1).map((line) => line.split(/ {2,}/).slice(2, 5))).toEqual(
    expect.arrayContaining([
      ["ignored", "c", "news@shop.example"],
      ["answered", "c", "a@example.org"],
    ]),
  );
  expect(out).toContain("bulk: List-Id header");
  expect(out).toContain(`inbox show ${refused}`);
  const none = await run("find", "absent");
  expect(none).toEqual({ code: exitCodes.failed, out: "", err: 'find: nothing matches "absent"\n' });
});

it("conversation show prints every attempt with the server's response, in at most 80 columns", async () => {
  const { run, asked } = await filled();
  for (const query of ["k1", String(asked), "<hello@example.org>", "d1"]) {
    const { out, code } = await run("conversation", "show", query);
    expect([query, code]).toEqual([query, exitCodes.ok]);
    for (const text of [
      "503 Service Unavailable",
      "451 4.7.1 try again later",
      "250 2.0.0 OK queued as 4F1",
      "delivery receipt: delivered",
      "Message-ID <hello@example.org>",
      "sent as <reply@bridge.example>",
      "escalation 1",
      "note on escalation 1",
      "| Where is it?",
    ])
      expect(out).toContain(text);
    expect(Math.max(...out.split("\n").map((line) => line.length))).toBeLessThanOrEqual(80);
  }
});

it("what customers write changes neither the terminal nor the columns", async () => {
  const { run, refused } = await filled();
  for (const words of [
    ["inbox", "list"],
    ["inbox", "show", String(refused)],
    ["find", "shop"],
    ["conversation", "show", "k1"],
    ["inbox", "list", "--json"],
    ["find", "shop", "--json"],
  ]) {
    const { out } = await run(...words);
    // eslint-disable-next-line no-control-regex
    expect([words, out.match(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e]/g)]).toEqual([words, null]);
  }
  expect((await run("inbox", "list")).out.trimEnd().split("\n")).toEqual([
    expect.any(String),
    expect.stringContaining("  red gnp.exe  "),
  ]);
  const [event] = JSON.parse((await run("inbox", "list", "--json")).out) as [{ subject: string }];
  expect(event.subject).toBe(dirty);
});

it("a terminal gets colours and lines that fit; a pipe gets neither", async () => {
  const wide = await filled({ columns: 70, color: true });
  const { out } = await wide.run("find", "example");
  expect(out).toContain("\u001b[32manswered\u001b[0m");
  const plain = out
    .replaceAll(/\u001b\[\d+m/g, "")
    .trimEnd()
    .split("\n");
  expect(plain.some((line) => line.includes("…"))).toBe(true);
  const monochrome = await filled({ columns: 70, color: false });
  expect((await monochrome.run("find", "example")).out).not.toContain("\u001b");
  const pipe = await filled();
  expect((await pipe.run("find", "example")).out).not.toMatch(/\u001b|…/);
});

it("the lists print answered messages, and only those of the time asked for", async () => {
  const { run, asked } = await filled();
  const answered = await run("inbox", "list", "--state", "answered");
  expect(answered.out).toMatch(new RegExp(`^ +${asked} .* answered +c +a@example.org`, "m"));
  const all = await run("inbox", "list", "--state", "all");
  expect(all.out).toMatch(new RegExp(`^ +${asked} .* answered +c +a@example.org`, "m"));
  expect((await run("inbox", "show", String(asked))).out).toMatch(/^state +answered$/m);
  for (const box of ["inbox", "outbox"])
    expect(await run(box, "list", "--all")).toMatchObject({ code: exitCodes.usage, out: "" });
  expect((await run("inbox", "list", "--since", "1h")).out).toContain("news@shop.example");
  expect((await run("inbox", "list", "--since", "0s")).out).toBe("nothing\n");
  expect((await run("outbox", "list", "--since", "2020-01-01")).out).toContain("d1");
  expect((await run("escalation", "list", "--since", "1d", "--state", "open")).out).toMatch(/^ +1 .* open /m);
  expect((await run("conversation", "list", "--state", "attention")).out).toContain("conversation show k1");
  expect((await run("conversation", "list", "--channel", "absent")).code).toBe(exitCodes.usage);
  const { out } = await run("escalation", "show", "1");
  expect(out).toMatch(/^escalation +1$/m);
  expect(out).toContain("Dora: calls back");
});

it("a list of sent drafts reports where it stopped reading, and continues there", async () => {
  const { run, db } = await filled();
  await db.tx((q) =>
    q.run(
      `INSERT INTO drafts (id, conversation, channel, reply, recipient, seq, state, open, body, due_at, created_at, updated_at)
       WITH RECURSIVE n (i) AS (SELECT 101 UNION ALL SELECT i + 1 FROM n WHERE i < 220)
       SELECT 'd2' || n.i, conversation, channel, reply, recipient, n.i, 'delivered', 0, body, due_at, 1, updated_at
       FROM drafts, n WHERE drafts.id = 'd1'`,
    ),
  );
  const first = await run("outbox", "list", "--state", "sent", "--limit", "1");
  expect(first.out).toBe("nothing\n");
  expect(first.err).toBe("drafts created before 1970-01-01 00:00:00 UTC were not read: continue with --after d2121\n");
  const next = await run("outbox", "list", "--state", "sent", "--limit", "1", "--after", "d2121");
  expect(next.out).toContain("d1");
  expect(next.err).toBe("");
});

it("an operator's name is in the history of what they did", async () => {
  const { run, refused } = await filled();
  expect((await run("inbox", "answer", String(refused))).code).toBe(exitCodes.ok);
  expect((await run("inbox", "show", String(refused))).out).toContain(`dora: answer message ${refused}`);
});

it("inbox drop --all --dry-run counts what may have been answered before a restore, and changes nothing", async () => {
  const { run, db, refused } = await filled();
  const restored = "UPDATE events SET state = 'held', code = 'answered-before-restore' WHERE id = $1";
  await db.tx((q) => q.run(restored, refused));
  const { out } = await run("inbox", "drop", "--all", "--dry-run");
  expect(out).toContain("drop would change 1; nothing was changed (--dry-run)");
  expect((await run("inbox", "drop", "--all")).out).toBe("1 of 1 dropped\n");
  expect(await run("inbox", "drop", "--all")).toMatchObject({
    out: "0 of 0 dropped\n",
    err: "nothing has the code answered-before-restore: give another one with --code (see the CODE column of list)\n",
  });
  // Other selections than the one after a restore.
  await db.tx((q) => q.run(restored, refused));
  for (const other of [
    ["--state", "failed"],
    ["--reason", "spam"],
  ])
    expect((await run("inbox", "drop", "--all", ...other)).code).toBe(exitCodes.usage);
  expect((await run("inbox", "answer", "--all", "--reason", "too-old")).out).toBe("0 of 0 will be tried again\n");
});

it.each([
  ["--since", "yesterday", 'It must be a duration such as "30m", "2h" or "3d", or a date in UTC'],
  ["--since", "2026-02-30", "It must be a duration"],
  ["--since", "2999-01-01", "It must be a duration"],
  ["--limit", "0", "It must be a whole number from 1 on."],
  ["--state", "answerd", "It must be one of held, failed, ignored, waiting, answered, all."],
])("%s %s is rejected with the accepted forms", async (option, value, message) => {
  const { run } = await filled();
  const { code, err } = await run("inbox", "list", option, value);
  expect(code).toBe(exitCodes.usage);
  expect(err).toContain(`option '${option} `);
  expect(err).toContain(message);
});

it("times are durations before now, or dates with or without an offset", () => {
  const now = Date.parse("2026-11-20T12:00:00Z");
  const at = (text: string) => {
    const ms = readSince(text, now);
    return ms === null ? null : new Date(ms).toISOString().slice(0, 16);
  };
  expect(at("90m")).toBe("2026-11-20T10:30");
  expect(at("1.5d")).toBe("2026-11-19T00:00");
  expect(at("2026-11-20")).toBe("2026-11-20T00:00");
  expect(at("2026-11-20T10:15")).toBe("2026-11-20T10:15");
  expect(at("2026-11-20 10:15:30+02:00")).toBe("2026-11-20T08:15");
  for (const text of ["", "3", "3 days", "-1h", "20.11.2026", "2026-13-01", "2026-11-20T25:00", "2026-11-20T12:01"])
    expect([text, at(text)]).toEqual([text, null]);
  expect([350, 1234, 59_999, 3_600_000, 200_000_000].map(durationText)).toEqual([
    "350 ms",
    "1.2 s",
    "59 s",
    "1 h",
    "2 d",
  ]);
  expect([relative(now - 300_000, now), relative(now + 7_200_000, now), relative(now, now)]).toEqual([
    "5 min ago",
    "in 2 h",
    "now",
  ]);
});

it("tables have as many rows as there are", () => {
  const rows = Array.from({ length: 200_000 }, (_, n) => n);
  const table = listing([{ head: "N", right: true, cell: (n: number) => n }], rows, {});
  expect(table.split("\n").filter((line) => line.length === 6)).toHaveLength(200_001);
});

it("tables keep wide characters in their columns", () => {
  const table = listing(
    [
      { head: "A", flexible: true, cell: ([first = ""]) => first },
      { head: "B", cell: ([, second = ""]) => second },
    ],
    [
      ["注文の件について至急", "x"],
      ["order", "x"],
    ],
    { screen: { columns: 16, color: false } },
  );
  expect(table.split("\n")).toEqual(["A              B", "注文の件につ…  x", "order          x"]);
});
