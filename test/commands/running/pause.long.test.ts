// bridgehead pause, resume, channel list and the bulk repairs while the daemon runs, and when they are killed.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it, onTestFinished, vi } from "vitest";
import { exitCodes } from "../../../src/commands/io.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { bridgehead, childEnv, root } from "../../support/machine/command.ts";
import { bodyServer, listen } from "../../support/machine/network.ts";
import { adminOf, type Daemon, startDaemon } from "../../support/process/daemon.ts";
import { newFolder } from "../../support/resources.ts";

const texter = fileURLToPath(new URL("../../support/sms/post-adapter.ts", import.meta.url));
const killing = new URL("../../support/process/preload.ts", import.meta.url).href;
const key = "pause-agent-key";
const people = ["+15550111", "+15550112", "+15550113"];

interface Setup {
  readonly folder: string;
  /** The recipients of what was sent, in order. */
  readonly sent: string[];
  configure(mode: "live" | "shadow", more?: string): void;
  daemon(killAt?: string): Promise<Daemon>;
  command(...args: readonly string[]): ReturnType<typeof bridgehead>;
  /** The daemon has composed something for each of them. */
  starts(...to: readonly string[]): Promise<void>;
  /** Pauses of the channel, questions that were asked, and messages that were not routed. */
  stored(): Promise<{ readonly paused: number; readonly asked: number; readonly waiting: number }>;
  drafts(): Promise<readonly { state: string; code: string | null; reason: string | null }[]>;
}

async function setUp(): Promise<Setup> {
  const folder = newFolder();
  const file = join(folder, "bridgehead.yaml");
  const sent: string[] = [];
  const server = bodyServer((body, response) => {
    sent.push((JSON.parse(body) as { to: string }).to);
    response.writeHead(200).end();
  });
  const url = `${await listen(server)}/`;
  writeFileSync(
    join(folder, "agents.yaml"),
    `organization: { name: Acme }
agents:
  phone: { key: ${key}, skills: { sms: { phoneNumber: "+15550100", defaultSmsIntroduction: Hello } } }
`,
  );
  const daemons: Daemon[] = [];
  const place: Setup = {
    folder,
    sent,
    configure: (mode, more = "") =>
      writeFileSync(
        file,
        `platform:
  url: embedded
  absent_after: 1s
  embedded: { agents: agents.yaml, database: platform.db }
agents: { phone: { key: ${key}, refresh: 1s } }
channels:
  texts: { adapter: ${texter}, agent: phone, url: "${url}", pin: "\${env:PIN}", mode: ${mode}${more} }
http: { listen: "127.0.0.1:0" }
store: sqlite:store.db
log: { format: json }
`,
      ),
    async daemon(killAt) {
      const daemon = startDaemon({ config: file, env: { PIN: "1234" }, ...(killAt && { killAt }) });
      daemons.push(daemon);
      expect(await daemon.ready, daemon.complaints.join("\n")).toBe(true);
      return daemon;
    },
    command: (...args) => bridgehead([...args, "--config", file]),
    async starts(...to) {
      for (const one of to)
        expect((await place.command("start", "--channel", "texts", "--to", one)).code).toBe(exitCodes.ok);
    },
    async stored() {
      const db = openSqlite(join(folder, "store.db"), Date.now);
      const sql = `SELECT (SELECT COUNT(*) FROM channel_pauses WHERE code = 'replies') AS paused,
        (SELECT COUNT(*) FROM turns WHERE attempts > 0) AS asked, (SELECT COUNT(*) FROM events WHERE state = 'stored') AS waiting`;
      try {
        const row = await db.read((q) => q.one<{ paused: number; asked: number; waiting: number }>(sql));
        return row ?? { paused: 0, asked: 0, waiting: 0 };
      } finally {
        await db.close();
      }
    },
    async drafts() {
      const db = openSqlite(join(folder, "store.db"), Date.now);
      try {
        return await db.read((q) => q.all("SELECT state, code, reason FROM drafts ORDER BY id"));
      } finally {
        await db.close();
      }
    },
  };
  onTestFinished(async () => {
    await Promise.all(daemons.map((daemon) => daemon.stop()));
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  place.configure("live");
  return place;
}

async function channelOf(daemon: Daemon): Promise<unknown> {
  const body = (await (await fetch(`${adminOf(daemon)}/readyz`)).json()) as { channels: readonly unknown[] };
  return body.channels[0];
}
const metricsOf = async (daemon: Daemon) => (await fetch(`${adminOf(daemon)}/metrics`)).text();
const urlOf = (daemon: Daemon) => String(daemon.lines.find(({ message }) => message === "listening for http")?.["url"]);
const says = (daemon: Daemon, message: string) => daemon.lines.filter((line) => line.message === message);

it("pauses and resumes the running daemon, and a restart keeps the pause", async () => {
  const place = await setUp();
  const first = await place.daemon();
  await expect.poll(() => says(first, "agent settings changed")).toHaveLength(1);
  const paused = await place.command("pause", "texts", "--reason", "agent answers nonsense");
  expect(paused).toMatchObject({ code: exitCodes.ok, err: "" });
  await expect
    .poll(() => channelOf(first))
    .toMatchObject({
      mode: "live",
      paused: { code: "operator", reason: "agent answers nonsense", until: null },
    });
  expect(await metricsOf(first)).toContain('bridgehead_channel_paused{channel="texts"} 1');
  expect(says(first, "channel paused")).toMatchObject([{ channel: "texts", code: "operator" }]);
  await place.starts(people[0] ?? "");
  await first.stop();

  const second = await place.daemon();
  await expect.poll(() => channelOf(second)).toMatchObject({ paused: { code: "operator" } });
  const list = await place.command("channel", "list");
  expect(list.out).toMatch(/texts .* live +paused .* agent answers nonsense/);
  expect(JSON.parse((await place.command("channel", "list", "--json")).out)).toMatchObject([
    { id: "texts", mode: "live", enabled: true, paused: { code: "operator" }, unanswered: 1 },
  ]);
  expect(place.sent).toEqual([]);
  const resumed = await place.command("resume", "texts");
  expect(resumed.out).toContain("resumed (was paused: agent answers nonsense)");
  await expect.poll(() => place.sent).toEqual([people[0]]);
  expect(says(second, "channel resumed")).toMatchObject([{ channel: "texts" }]);
  expect(await channelOf(second)).toMatchObject({ paused: null });
});

it("reports what a command cannot do, and what stays paused", async () => {
  const place = await setUp();
  expect((await place.command("migrate")).code).toBe(exitCodes.ok);
  expect(await place.command("pause", "text")).toMatchObject({
    code: exitCodes.usage,
    err: expect.stringContaining("it has texts"),
  });
  expect(await place.command("pause", "--for", "soon")).toMatchObject({ code: exitCodes.usage });
  expect((await place.command("pause", "--for", "2h")).out).toContain("all channels: paused for 2 h");
  const resumed = await place.command("resume", "texts");
  expect(resumed.code).toBe(exitCodes.failed);
  expect(resumed.err).toContain("all channels are paused since");
  expect((await place.command("resume")).code).toBe(exitCodes.ok);
  expect(await place.command("outbox", "release", "--all")).toMatchObject({
    code: exitCodes.usage,
    err: expect.stringContaining("--reason CODE"),
  });
});

it("holds replies in shadow mode, and releases, retries and drops them in bulk", async () => {
  const place = await setUp();
  place.configure("shadow");
  const daemon = await place.daemon();
  await expect.poll(() => says(daemon, "agent settings changed")).toHaveLength(1);
  await place.starts(...people);
  const shadow = { state: "held", code: "shadow" };
  await expect.poll(() => place.drafts()).toMatchObject([shadow, shadow, shadow]);
  expect(await metricsOf(daemon)).toContain('bridgehead_channel_shadow{channel="texts"} 1');
  const preview = await place.command("outbox", "release", "--all", "--reason", "shadow", "--dry-run");
  expect(preview.out).toMatch(/texts +held +shadow +3/);

  const [id = ""] = JSON.parse((await place.command("outbox", "list", "--code", "shadow", "--json")).out).map(
    (draft: { id: string }) => draft.id,
  );
  expect((await place.command("outbox", "release", id)).out).toBe("1 of 1 released\n");
  await expect.poll(() => place.sent).toHaveLength(1);
  // A change to live sends none of the others.
  place.configure("live");
  daemon.send("SIGHUP");
  await expect.poll(() => says(daemon, "configuration reloaded")).toHaveLength(1);
  expect((await place.drafts()).filter(({ state }) => state === "held")).toHaveLength(2);

  const killed = spawn(
    process.execPath,
    [
      "--conditions=source",
      "--import",
      killing,
      `${root}src/main.ts`,
      "outbox",
      "drop",
      "--all",
      "--code",
      "shadow",
    ].concat("--config", join(place.folder, "bridgehead.yaml")),
    { stdio: "ignore", env: { ...childEnv, KILL_AT: "repair.commit:before:1" } },
  );
  expect((await once(killed, "exit"))[1]).toBe("SIGKILL");
  expect((await place.drafts()).filter(({ state }) => state === "held")).toHaveLength(2);
  const dropped = await place.command("outbox", "drop", "--all", "--code", "shadow", "--reason", "only a test");
  expect(dropped.out).toBe("2 of 2 dropped\n");
  expect((await place.drafts()).filter(({ reason }) => reason?.endsWith(": only a test"))).toHaveLength(2);
  expect(await place.command("retry", "--all", "--reason", "shadow", "--json")).toMatchObject({
    out: '{"matched":0,"changed":0,"skipped":[]}\n',
  });
  expect(place.sent).toHaveLength(1);
});

it("is paused completely or not at all when the command is killed", async () => {
  const place = await setUp();
  expect((await place.command("migrate")).code).toBe(exitCodes.ok);
  for (const [phase, paused] of [
    ["before", false],
    ["after", true],
  ] as const) {
    const killed = spawn(
      process.execPath,
      ["--conditions=source", "--import", killing, `${root}src/main.ts`, "pause", "texts"].concat(
        "--config",
        join(place.folder, "bridgehead.yaml"),
      ),
      { stdio: "ignore", env: { ...childEnv, KILL_AT: `pause.commit:${phase}:1` } },
    );
    expect((await once(killed, "exit"))[1]).toBe("SIGKILL");
    const [channel] = JSON.parse((await place.command("channel", "list", "--json")).out) as {
      paused: unknown;
    }[];
    expect(channel?.paused !== null).toBe(paused);
  }
});

it("is paused with the message that reaches its limit, or the message is not routed, when the daemon is killed", async () => {
  for (const phase of ["before", "after"] as const) {
    const place = await setUp();
    place.configure("live", ", debounce: 0s, pause_on: { loops: [], replies: [{ max: 1, per: 1h }] }");
    const doomed = await place.daemon(`pause.commit:${phase}:1`);
    const texts = async (daemon: Daemon, ...from: readonly string[]) => {
      for (const one of from)
        await fetch(`${urlOf(daemon)}/channels/texts/inbound`, {
          method: "POST",
          body: JSON.stringify({ from: one, text: "hello", id: `${phase}${one}` }),
        }).catch(() => undefined);
    };
    await texts(doomed, ...people);
    await doomed.ended;
    const stored = await place.stored();
    expect(stored.paused).toBe(phase === "after" ? 1 : 0);
    // Neither the message that reached the limit nor a later one was asked.
    expect(stored.asked).toBeLessThanOrEqual(1);
    const next = await place.daemon();
    await texts(next, ...people);
    await vi.waitFor(async () => expect((await place.stored()).paused).toBe(1), { timeout: 60_000 });
    await vi.waitFor(async () => expect((await place.stored()).waiting).toBe(0), { timeout: 60_000 });
    expect((await place.stored()).asked).toBeLessThanOrEqual(1);
    // At the next sweep.
    await vi.waitFor(() => expect(says(next, "channel paused")).toHaveLength(1), { timeout: 60_000 });
  }
});
