// Findings without a connection: configuration, files, disk, Node.js and the store.

import {
  chmodSync,
  chownSync,
  linkSync,
  mkdirSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { diskProblems, nodeProblems } from "../../../src/commands/doctor/machine.ts";
import { exitCodeOf, exitCodes } from "../../../src/commands/io.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import { insertEvents } from "../../../src/pipeline/accept/rows.ts";
import { openDatabase } from "../../../src/platform/store/store.ts";
import { ensureChannel } from "../../../src/store/tables/events.ts";
import { pauseChannel } from "../../../src/store/tables/pauses.ts";
import { env, type Fixture, fixture, rest } from "../../support/commands/configuration.ts";
import { bridgehead } from "../../support/machine/command.ts";
import { newerPlatform } from "../../support/platform/platform.ts";
import { conversation, draft, event } from "../../support/store/databases.ts";

const base = `platform: { url: "https://127.0.0.1:1" }
agents: { support: { key: "\${env:KEY}" } }
`;
const mail = `  mail:
    adapter: email
    agent: support
    imap: { host: 127.0.0.1, port: 1, tls: none, user: support@example.com, password: "\${file:password}" }
    smtp: { host: 127.0.0.1, port: 1, tls: none }
`;
const withMail = `${base}channels:\n${mail}`;

function prepared(text = withMail): Fixture {
  const made = fixture();
  writeFileSync(join(made.folder, "password"), "secret\n", { mode: 0o600 });
  made.write(text);
  return made;
}

function thrownBy(act: () => unknown): unknown {
  try {
    return act();
  } catch (error) {
    return error;
  }
}

describe("doctor", () => {
  it("finds nothing in a sound installation, and says so", async () => {
    const one = prepared();
    await one.stored();
    expect(await one.doctor()).toMatchObject({ code: exitCodes.ok, ids: [] });
    expect((await one.print()).text).toBe("no problems found (--online also connects to the servers)");
  });

  it("reports nothing of a store that the daemon creates with its folder at its first start", async () => {
    const one = prepared();
    rmSync(join(one.folder, "data"), { recursive: true });
    expect(await one.doctor()).toMatchObject({ code: exitCodes.ok, ids: [] });
  });

  it("reports invalid keys with file, line and key, together with the other findings", async () => {
    const one = prepared(`${withMail}nodee: x\n`);
    chmodSync(one.config, 0o666);
    const { code, findings } = await one.doctor();
    expect(code).toBe(exitCodes.failed);
    expect(findings.map(({ id, place }) => [id, place])).toEqual([
      ["configuration-invalid", `${one.config}:9:1 nodee`],
      ["file-mode", one.config],
    ]);
    expect((await one.print()).text).toContain(
      `error    configuration-invalid  ${one.config}:9:1 nodee\n         is not a known key\n         remedy: did you mean node?`,
    );
  });

  it("reports warnings of the configuration, a missing policy and a policy with a single path", async () => {
    const plain = prepared(withMail.replace("https://127.0.0.1:1", "http://platform.example.com"));
    expect(await plain.doctor()).toMatchObject({ code: exitCodes.ok, ids: ["configuration-warning"] });
    const write = (one: Fixture, policy: string) =>
      writeFileSync(one.config, withMail + rest.replace(/^escalation: .*$/m, policy), { mode: 0o600 });
    const none = prepared();
    write(none, "");
    expect((await none.doctor()).ids).toEqual(["escalation-missing"]);
    const single = prepared();
    write(single, "escalation: { responders: { op: { email: op@example.net } }, fallback: { notify: [ op ] } }");
    const { findings } = await single.doctor();
    const aboutResponders = findings.filter(({ place }) => place.endsWith(" escalation.responders"));
    expect(aboutResponders.map(({ id }) => id)).toEqual(["escalation-single-path"]);
  });

  it("reports notifications to an own address", async () => {
    const other = mail.replace("  mail:", "  sales:").replace("support@example.com", "sales@example.com");
    const one = prepared(`${withMail}    notify: { channel: sales, to: [ sales@example.com ] }\n${other}`);
    const { findings, code } = await one.doctor();
    expect(findings).toMatchObject([
      { id: "notification-loop", place: `${one.config} channels.mail.notify`, severity: "error" },
    ]);
    expect(code).toBe(exitCodes.failed);
  });

  it.each([
    ["names them", "ownAddresses: ({ login }) => [login, undefined],", ["notification-loop"]],
    ["throws", "ownAddresses: ({ login }) => login.none.none,", []],
    ["names none", "", []],
  ])("asks the adapter of a channel for its own addresses (it %s)", async (_, own, expected) => {
    const one = prepared();
    mkdirSync(join(one.folder, "node_modules"));
    symlinkSync(
      fileURLToPath(new URL("../../../node_modules/zod", import.meta.url)),
      join(one.folder, "node_modules/zod"),
    );
    writeFileSync(
      join(one.folder, "chat.mjs"),
      `import * as z from "zod";
export default { name: "chat", contract: 1, config: z.strictObject({ login: z.string() }), create: () => ({}), ${own}
  address: (text) => text.toLowerCase(), traits: { attachments: false, conversations: "person", platform: "live_chat" } };`,
    );
    const notify = "notify: { channel: chat, to: [ '@BOT:example.org' ] }";
    one.write(`${withMail}  chat: { adapter: ./chat.mjs, agent: support, login: "@Bot:example.org", ${notify} }\n`);
    expect((await one.doctor()).ids).toEqual(expected);
  });

  it("does not call an id without problems that it does not know", async () => {
    const one = prepared();
    const only = (id: string) => bridgehead(["doctor", "--only", id, "--config", one.config], env);
    expect((await only("file-modes")).out).toMatch(/^no problem file-modes found, and .*: did you mean file-mode\?/);
    expect((await only("store-newer")).out).toMatch(/^no problems found/);
  });

  it("corrects modes and owners without a terminal, once, and nothing else", async () => {
    const one = prepared();
    await one.stored();
    const store = join(one.folder, "data/store.db");
    const password = join(one.folder, "password");
    for (const path of [store, password, one.config]) chmodSync(path, 0o644);
    const isRoot = process.getuid?.() === 0;
    if (isRoot) {
      chownSync(join(one.folder, "data"), 1234, 1234);
      chownSync(password, 1234, 1234);
    }
    const before = await bridgehead(["doctor", "--only", "file-mode", "--config", one.config], env);
    expect(before).toMatchObject({
      code: exitCodes.failed,
      out: expect.stringContaining(`chmod 0600 ${store}`),
    });
    const ids = new Set((await one.doctor()).ids);
    expect(ids).toEqual(new Set(isRoot ? ["file-mode", "file-owner"] : ["file-mode"]));
    const first = await bridgehead(["doctor", "--fix", "--config", one.config], env);
    expect(first).toMatchObject({
      code: exitCodes.ok,
      out: expect.stringContaining(`fixed      ${store}: mode 0600`),
    });
    expect(statSync(one.config).mode & 0o777).toBe(0o640);
    expect(statSync(password).mode & 0o777).toBe(0o640);
    if (isRoot) expect(statSync(store).uid).toBe(1234);
    expect((await one.doctor({ fix: true })).fixed).toEqual([]);
  });

  it("changes nothing behind a link that the daemon's user created beside the store", async () => {
    const one = prepared();
    await one.stored();
    const store = join(one.folder, "data", "store.db");
    const foreign = join(one.folder, "foreign");
    writeFileSync(foreign, "of root", { mode: 0o644 });
    symlinkSync(foreign, `${store}-x`);
    linkSync(foreign, `${store}-y`);
    const { ids } = await one.doctor({ fix: true });
    expect(ids).toContain("file-mode");
    expect(statSync(foreign).mode & 0o777).toBe(0o644);
    expect((await bridgehead(["doctor", "--fix", "--config", one.config], env)).out).toContain(
      `${store}-y: mode 0600 could not be set (ELOOP)`,
    );
  });

  it("reports a disk without space and without inodes", async () => {
    // The file system of /proc reports no free blocks.
    expect((await diskProblems("/proc")).map(({ id, severity }) => [id, severity])).toEqual([["disk-space", "error"]]);
    const full = { bavail: 2 ** 30, bsize: 4096, files: 1000, ffree: 3 };
    expect((await diskProblems("/", async () => full)).map(({ id }) => id)).toEqual(["disk-inodes"]);
    const low = { ...full, ffree: 1_000_000, bavail: 2 ** 15 };
    expect(await diskProblems("/", async () => low)).toMatchObject([{ id: "disk-space", severity: "warning" }]);
  });

  it("reports a Node.js without support", () => {
    const now = Date.parse("2026-11-23");
    const soon = standardTiming.commands.nodeSoon;
    expect(nodeProblems("24.1.0", now, soon)).toEqual([]);
    expect(nodeProblems("22.20.0", Date.parse("2027-04-15"), soon)).toMatchObject([{ id: "node-end-of-life" }]);
    expect(nodeProblems("25.0.0", now, soon)).toMatchObject([{ id: "node-end-of-life" }]);
  });

  it("reports a store that is damaged, newer, outdated or not usable", async () => {
    const damaged = prepared();
    await damaged.stored();
    truncateSync(join(damaged.folder, "data/store.db"), 8192 + 100);
    expect(await damaged.doctor()).toMatchObject({ code: exitCodes.failed, ids: ["store-damaged"] });
    const schema = (value: number) => (q: { run(sql: string, ...values: number[]): Promise<number> }) =>
      q.run("UPDATE meta SET value = $1 WHERE name = 'schema'", value);
    const newer = prepared();
    await newer.stored(schema(9999));
    expect(await newer.doctor()).toMatchObject({ code: exitCodes.failed, ids: ["store-newer"] });
    const outdated = prepared();
    await outdated.stored(schema(1));
    expect(await outdated.doctor()).toMatchObject({ code: exitCodes.ok, ids: ["store-outdated"] });
    const gone = prepared();
    writeFileSync(gone.config, withMail + rest.replace("sqlite:data/store.db", "postgres://x@127.0.0.1:1/x"), {
      mode: 0o600,
    });
    expect(await gone.doctor()).toMatchObject({ code: exitCodes.failed, ids: ["store-unusable"] });
  });

  it("reports a file of the embedded platform that is damaged, newer, not usable or readable by others", async () => {
    const text = withMail.replace(
      'platform: { url: "https://127.0.0.1:1" }',
      "platform: embedded\nmodel: { url: http://127.0.0.1:1, name: x }",
    );
    const embedded = async (change: (file: string) => void) => {
      const one = prepared(text);
      await one.stored();
      const file = join(one.folder, "data/platform.db");
      openDatabase(file, "normal").close();
      change(file);
      return { file, findings: (await one.doctor()).findings.map(({ id, place }) => [id, place]) };
    };
    expect((await embedded(() => undefined)).findings).toEqual([]);
    const newer = await embedded(newerPlatform);
    expect(newer.findings).toEqual([["store-newer", newer.file]]);
    const damaged = await embedded((file) => writeFileSync(file, Buffer.alloc(8192, 0x55)));
    expect(damaged.findings).toEqual([["store-damaged", damaged.file]]);
    // The daemon ends with the code for which systemd does not start it again.
    const opening = () => openDatabase(damaged.file, "normal");
    expect(opening).toThrow(/is not a database \(stop the daemon, .* the command restore/);
    expect(exitCodeOf(thrownBy(opening))).toBe(exitCodes.damagedStore);
    const folder = await embedded((file) => {
      rmSync(file);
      mkdirSync(file);
    });
    expect(folder.findings).toEqual([["store-unusable", folder.file]]);
    const open = await embedded((file) => chmodSync(file, 0o644));
    expect(open.findings).toEqual([["file-mode", open.file]]);
  });

  it("reports what waits for an operator, and own addresses among the customers", async () => {
    const one = prepared();
    await one.stored(async (q) => {
      await ensureChannel(q, "mail");
      for (const state of ["held", "failed"]) {
        await insertEvents(q, [event(state, { channel: "mail" })]);
        await q.run(`UPDATE events SET state = '${state}' WHERE external_id = $1`, state);
      }
      const pause = {
        channel: "mail",
        code: "operator",
        reason: "holidays",
        event: null,
        forMs: null,
      } as const;
      await pauseChannel(q, pause);
      await conversation(q, "c1", "mail", "support@example.com");
      await draft(q, "d1", "c1", 0, "mail");
      await q.run("UPDATE drafts SET state = 'held', open = 0");
    });
    const { findings, code } = await one.doctor();
    // The operator copies the commands, which must act on this installation.
    expect(findings.map(({ id, remedy }) => `${id}: ${remedy.replace(one.config, "FILE")}`).sort()).toEqual([
      "channel-paused: bridgehead resume mail --config FILE",
      "messages-failed: bridgehead inbox list --state failed --channel mail --config FILE",
      "messages-held: bridgehead inbox list --state held --channel mail --config FILE",
      "messages-held: bridgehead outbox list --state held --channel mail --config FILE",
      "own-mailbox-writes: add support@example.com to channels.mail.deny, then: sudo systemctl reload bridgehead",
    ]);
    expect(code).toBe(exitCodes.ok);
  });
});
