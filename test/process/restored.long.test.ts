// A store that is behind the mailbox: restored from a backup, replaced by hand, or lost. What was answered already is held
// and listed, and an operator releases it.

import { copyFileSync, existsSync, readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { exitCodes } from "../../src/commands/io.ts";
import { bridgehead } from "../support/machine/command.ts";
import { describeReal, need } from "../support/machine/debian.ts";
import { adminOf, type Daemon, startDaemon } from "../support/process/daemon.ts";
import {
  letter,
  type MailSetup,
  type MailSetupOptions,
  type MailTestServers,
  openMailSetup,
  startMailServers,
  tagIn,
} from "../support/process/mail/servers.ts";

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");
const timeout = 600_000;
const held = "answered-before-restore";

interface Listed {
  readonly id: number;
  readonly state: string;
  readonly code: string;
  readonly reason: string;
}

interface Readyz {
  readonly warnings?: readonly string[];
  readonly channels?: readonly { readonly warnings: readonly string[] }[];
}

describeReal("a store that is behind its mailbox", missing, () => {
  let servers: MailTestServers;
  beforeAll(async () => {
    servers = await startMailServers(["backup", "copied", "sent", "lost", "moved", "open", "shared"], 15);
  });
  afterAll(() => servers?.close());

  async function at(options: MailSetupOptions, act: (setup: MailSetup) => Promise<void>): Promise<void> {
    const setup = await openMailSetup(servers, options);
    try {
      await act(setup);
    } finally {
      await setup.close();
    }
  }

  const command = (setup: MailSetup, ...args: string[]) => bridgehead([...args, "--config", setup.config], setup.env);
  const list = async (setup: MailSetup, code = held): Promise<Listed[]> =>
    JSON.parse((await command(setup, "inbox", "list", "--json", "--limit", "500", "--code", code)).out) as Listed[];
  const tags = (setup: MailSetup) => setup.peer.accepted.map((mail) => tagIn(mail.raw));
  const answered = (setup: MailSetup, count: number) => expect.poll(() => setup.peer.accepted.length).toBe(count);
  const marked = (setup: MailSetup, count: number) =>
    expect
      .poll(
        async () =>
          (await servers.dovecot.list(setup.options.user)).filter(({ flags }) => flags.includes("$Bridgehead")).length,
      )
      .toBe(count);
  const filed = (setup: MailSetup, count: number) =>
    expect.poll(async () => (await servers.dovecot.list(setup.options.user, "Sent")).length).toBe(count);
  async function start(setup: MailSetup): Promise<Daemon> {
    const daemon = startDaemon({ config: setup.config, env: setup.env, saysPort: true });
    expect(await daemon.ready).toBe(true);
    return daemon;
  }
  const readyz = async (daemon: Daemon): Promise<Readyz> => {
    return (await (await fetch(`${adminOf(daemon)}/readyz`)).json()) as Readyz;
  };
  const letters = (name: string, count: number) =>
    Array.from({ length: count }, (_, n) => letter(`${name}${n}@people.test`, 0));

  it("answers none of 40 mails again after a restored backup, and releases them by one command", { timeout }, () =>
    at({ user: "backup", bounces: false }, async (setup) => {
      const file = join(dirname(setup.store), "copy.db");
      let daemon = await start(setup);
      await setup.deliver(...letters("early", 2));
      await answered(setup, 2);
      expect(await command(setup, "backup", file)).toMatchObject({ code: exitCodes.ok });
      expect(await bridgehead(["verify", file])).toMatchObject({ code: exitCodes.ok });
      await setup.deliver(...letters("late", 40));
      await answered(setup, 42);
      await marked(setup, 42);
      const refused = await command(setup, "restore", file);
      expect(refused).toMatchObject({ code: exitCodes.failed });
      expect(refused.err).toContain("another Bridgehead process is running on it");
      await daemon.stop();

      const restored = await command(setup, "restore", file);
      expect(restored).toMatchObject({ code: exitCodes.ok });
      expect(readdirSync(dirname(setup.store)).filter((name) => name.includes("before-restore"))).toHaveLength(1);
      daemon = await start(setup);
      expect(daemon.lines.some(({ reason }) => String(reason).startsWith("the store is a restored backup"))).toBe(true);
      await expect.poll(async () => (await list(setup)).length).toBe(40);
      const { warnings = [] } = await readyz(daemon);
      expect(warnings.join("\n")).toContain("the store is a restored backup");
      expect(warnings.join("\n")).toContain(`40 messages and 0 replies are held as ${held}`);
      await setup.deliver(letter("new@people.test", 0));
      await answered(setup, 43);
      expect(tags(setup).filter((tag) => tag?.startsWith("tag-late")).length).toBe(40);

      const rows = await list(setup);
      const [one, two] = rows.map(({ id }) => String(id)) as [string, string];
      expect(await command(setup, "inbox", "drop", one, two)).toMatchObject({ code: exitCodes.ok });
      const released = await command(setup, "inbox", "answer", "--all");
      expect(released.out).toBe("38 of 38 will be tried again\n");
      await answered(setup, 43 + 38);
      expect((await list(setup)).filter(({ state }) => state === "held")).toEqual([]);
      expect((await readyz(daemon)).warnings?.join("\n") ?? "").not.toContain("replies are held");
      await daemon.stop();
    }),
  );

  it("recognizes an older file that was copied into place by hand", { timeout }, () =>
    at({ user: "copied", bounces: false }, async (setup) => {
      let daemon = await start(setup);
      await setup.deliver(...letters("one", 1));
      await answered(setup, 1);
      await daemon.stop();
      const older = join(dirname(setup.store), "older.db");
      copyFileSync(setup.store, older);
      daemon = await start(setup);
      await setup.deliver(...letters("two", 5));
      await answered(setup, 6);
      await marked(setup, 6);
      await daemon.stop();
      copyFileSync(older, setup.store);
      daemon = await start(setup);
      expect(
        daemon.lines.some(({ reason }) => String(reason).startsWith("the store is older than at the last start")),
      ).toBe(true);
      await expect.poll(async () => (await list(setup)).length).toBe(5);
      expect(setup.peer.accepted.length).toBe(6);
      await daemon.stop();
      // The same state at the next start is not restored once more.
      daemon = await start(setup);
      expect(daemon.lines.filter(({ message }) => message.startsWith("the store is"))).toEqual([]);
      await daemon.stop();
    }),
  );

  it("finds earlier answers in the Sent folder when the mailbox keeps no marks", { timeout }, () =>
    at({ user: "sent", bounces: false, mark: "none" }, async (setup) => {
      const file = join(dirname(setup.store), "copy.db");
      let daemon = await start(setup);
      expect(await command(setup, "backup", file)).toMatchObject({ code: exitCodes.ok });
      await setup.deliver(...letters("late", 6));
      await answered(setup, 6);
      await filed(setup, 6);
      await daemon.stop();
      await setup.deliver(letter("unanswered@people.test", 0));
      for (const name of readdirSync(dirname(setup.store)).filter((one) => one.startsWith("bridgehead.db")))
        rmSync(join(dirname(setup.store), name));
      // Restored manually, without the installation file: only the Sent folder shows the difference.
      copyFileSync(file, setup.store);
      daemon = await start(setup);
      await answered(setup, 7);
      expect(tags(setup).at(-1)).toContain("unanswered");
      const rows = await list(setup);
      expect(rows.length).toBe(6);
      expect(rows[0]?.reason).toContain("Sent folder");
      await daemon.stop();
    }),
  );

  it("holds what was moved out of the mailbox since the backup, and releases it", { timeout }, () =>
    at({ user: "moved", bounces: false, move: true }, async (setup) => {
      const archived = async () => (await servers.dovecot.list("moved", "Archive")).length;
      const file = join(dirname(setup.store), "copy.db");
      let daemon = await start(setup);
      await setup.deliver(...letters("early", 2));
      await answered(setup, 2);
      await expect.poll(archived).toBe(2);
      expect(await command(setup, "backup", file)).toMatchObject({ code: exitCodes.ok });
      await setup.deliver(...letters("late", 5));
      await answered(setup, 7);
      await expect.poll(archived).toBe(7);
      await daemon.stop();
      expect(await command(setup, "restore", file)).toMatchObject({ code: exitCodes.ok });
      for (const round of ["first", "second"]) {
        daemon = await start(setup);
        await setup.deliver(letter(`${round}@people.test`, 0));
        await answered(setup, round === "first" ? 8 : 9);
        const rows = await list(setup);
        expect(rows.map(({ state }) => state)).toEqual(rows.map(() => "held"));
        expect(rows.length, round).toBe(5);
        expect(rows[0]?.reason).toContain("Archive");
        if (round === "first") await daemon.stop();
      }
      expect((await command(setup, "inbox", "answer", "--all")).out).toBe("5 of 5 will be tried again\n");
      await answered(setup, 14);
      await daemon.stop();
    }),
  );

  it("warns when the store is missing, and answers none of what the lost one has answered", { timeout }, () =>
    at({ user: "lost", bounces: false }, async (setup) => {
      let daemon = await start(setup);
      await setup.deliver(...letters("old", 4));
      await answered(setup, 4);
      await marked(setup, 4);
      await daemon.stop();
      for (const suffix of ["", "-wal", "-shm"]) rmSync(setup.store + suffix, { force: true });
      expect(existsSync(`${setup.store}-installation`)).toBe(true);
      // first_start.history reaches back an hour, so the new store looks at all of them.
      daemon = await start(setup);
      expect(daemon.lines.some(({ reason }) => String(reason).startsWith("the store is missing"))).toBe(true);
      expect((await readyz(daemon)).warnings?.[0]).toContain("the store is missing");
      await expect.poll(async () => (await list(setup)).length).toBe(4);
      expect(setup.peer.accepted.length).toBe(4);
      await daemon.stop();
    }),
  );

  it("holds replies and questions that the backup lists as open", { timeout }, () =>
    at({ user: "open", agent: "late", bounces: false }, async (setup) => {
      const file = join(dirname(setup.store), "copy.db");
      let daemon = await start(setup);
      await setup.deliver(...letters("waiting", 3));
      const drafts = async () =>
        (JSON.parse((await command(setup, "outbox", "list", "--json")).out) as { state: string }[]).map(
          ({ state }) => state,
        );
      const queued = () => daemon.lines.filter(({ message }) => message === "reply queued").length;
      await expect.poll(queued).toBe(3);
      // While it is stopped nothing becomes due, however slow the commands are.
      await daemon.stop();
      expect(await drafts()).toEqual(["queued", "queued", "queued"]);
      expect(await command(setup, "backup", file)).toMatchObject({ code: exitCodes.ok });
      daemon = await start(setup);
      await answered(setup, 3);
      await daemon.stop();
      expect(await command(setup, "restore", file)).toMatchObject({ code: exitCodes.ok });
      daemon = await start(setup);
      expect(await drafts()).toEqual(["held", "held", "held"]);
      expect(setup.peer.accepted.length).toBe(3);
      expect(await command(setup, "inbox", "drop", "--all")).toMatchObject({ code: exitCodes.ok });
      expect(await drafts()).toEqual(["dropped", "dropped", "dropped"]);
      await daemon.stop();
    }),
  );

  it("two daemons with separate stores on one mailbox say so in readyz", { timeout }, () =>
    at({ user: "shared", bounces: false }, (one) =>
      at({ user: "shared", bounces: false }, async (two) => {
        const daemons = [await start(one), await start(two)];
        await one.deliver(...letters("both", 4));
        const warned = async (daemon: Daemon) => {
          const { channels = [] } = await readyz(daemon);
          return channels.flatMap(({ warnings }) => warnings).join();
        };
        for (const daemon of daemons)
          await expect.poll(() => warned(daemon)).toContain("another daemon with its own store works on this mailbox");
        await Promise.all(daemons.map((daemon) => daemon.stop()));
      }),
    ),
  );
});
