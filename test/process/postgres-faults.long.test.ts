// Faults of a real PostgreSQL server under a working daemon: commits that fail, a server that ends and recovers, a full disk. No
// mail is lost, no question asked and no reply sent twice.

import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeReal, need } from "../support/machine/debian.ts";
import { adminOf, type Daemon } from "../support/process/daemon.ts";
import { type Violation, violations } from "../support/process/mail/invariants.ts";
import { lastWords, live, settled, until, within } from "../support/process/mail/scenario.ts";
import {
  letter,
  type MailSetup,
  type MailSetupOptions,
  type MailTestServers,
  openMailSetup,
  startMailServers,
} from "../support/process/mail/servers.ts";
import { needPostgres, type Postgres, startPostgres, urlOfSchema } from "../support/store/postgres.ts";

const missing = (await need("dovecot-imapd", "/usr/sbin/dovecot")) ?? (await needPostgres());
const root = process.getuid?.() === 0 ? null : "root is needed to mount a small file system";
const timeout = 300_000;

/** The commits that fail, by the row that they contain: one of each stage. */
const commits = [
  ["events", "stored"],
  ["turns", "asking"],
  ["turns", "answered"],
  ["drafts", "sending"],
  ["drafts", "sent"],
] as const;
/** How often each fails, one after the other. */
const failuresEach = 2;

/** What the server does in the middle of a commit. */
const faults = [
  ["terminates the connection", "PERFORM pg_terminate_backend(pg_backend_pid());"],
  ["has no room on its disk", "RAISE EXCEPTION 'No space left on device' USING ERRCODE = '53100';"],
  ["reports a serialization failure", "RAISE EXCEPTION 'could not serialize' USING ERRCODE = '40001';"],
] as const;
const users = [...faults.map((_, index) => `f${index}`), "caught", "recovery", "full"];

describeReal("the daemon on a PostgreSQL server that fails", missing, () => {
  let servers: MailTestServers;
  let postgres: Postgres;
  beforeAll(async () => {
    [servers, postgres] = await Promise.all([startMailServers(users), startPostgres()]);
  });
  afterAll(async () => {
    await servers?.close();
    await postgres?.stop();
  });

  async function at(options: MailSetupOptions, act: (setup: MailSetup) => Promise<void>): Promise<void> {
    const store = options.postgres ?? urlOfSchema(postgres, await postgres.schema());
    const setup = await openMailSetup(servers, { bounces: false, timeout: "5s", ...options, postgres: store });
    try {
      await act(setup);
    } finally {
      await setup.close();
    }
  }

  for (const [index, [what, fault]] of faults.entries())
    it.concurrent(`${what} in the middle of commits`, { timeout }, () =>
      at({ user: `f${index}` }, async (setup) => {
        const daemon = await started(setup);
        await onServer(setup.store, ...commits.flatMap((commit) => failing(commit, fault)));
        await setup.deliver(...letters(setup));
        expect(await settled(setup, 120_000), lastWords(daemon)).toBe(true);
        expect(await endOf(setup, daemon)).toEqual([]);
        for (const commit of commits)
          expect(await failures(setup.store, commit), commit.join()).toBeGreaterThan(failuresEach);
      }),
    );

  it.concurrent("finds a mail that is lost because the cursor was committed before it", { timeout }, () =>
    at({ user: "caught" }, async (setup) => {
      const daemon = await started(setup, ["cursor-first"]);
      await onServer(setup.store, ...failing(["events", "stored"], faults[0][1]));
      await setup.deliver(...letters(setup));
      await until("a commit has failed", async () => (await failures(setup.store, ["events", "stored"])) > 0);
      await settled(setup, 15_000);
      const found = await endOf(setup, daemon);
      expect(found.map(({ invariant }) => invariant)).toContain("lost");
    }),
  );

  it.concurrent("ends while questions are under way, and recovers after the answers have come", {
    timeout,
  }, async () => {
    const own = await startPostgres();
    try {
      const store = urlOfSchema(own, await own.schema());
      await at({ user: "recovery", slow: true, postgres: store }, async (setup) => {
        const daemon = await started(setup);
        const [first, second, third] = letters(setup);
        await setup.deliver(first, second);
        await until("the questions are put", () => setup.underway() >= 2);
        await own.fail();
        setup.letGo();
        await setup.deliver(third);
        await until("the answers have come", () => setup.underway() === 0);
        await until("the store is missed", () =>
          daemon.lines.some(({ message }) => message.startsWith("store unavailable")),
        );
        await own.startAgain();
        expect(await settled(setup, 120_000), lastWords(daemon)).toBe(true);
        expect(await endOf(setup, daemon)).toEqual([]);
      });
    } finally {
      await own.stop();
    }
  });

  describeReal("whose disk is small", root, () =>
    it("is full when mails and answers come", { timeout }, async () => {
      const disk = smallDisk();
      try {
        const store = postgres.url.replace(/[^/]*$/, "full");
        await onServer(postgres.url, `CREATE TABLESPACE small LOCATION '${disk.folder}'`);
        await onServer(postgres.url, 'CREATE DATABASE "full" TABLESPACE small');
        await at({ user: "full", slow: true, postgres: store }, async (setup) => {
          const daemon = await started(setup);
          const refused = () => daemon.lines.filter((line) => JSON.stringify(line).includes("No space left")).length;
          disk.fill();
          await setup.deliver(...letters(setup));
          await until("a mail finds no room", () => refused() > 0);
          // A row as small as that of the probe still fits.
          const readyz = await (await fetch(`${adminOf(daemon)}/readyz`)).json();
          expect(readyz).toMatchObject({
            ready: false,
            store: expect.stringMatching(/^cannot be written: .*No space left/),
          });
          disk.free();
          await until("the questions are put", () => setup.underway() >= 2);
          disk.fill();
          const before = refused();
          setup.letGo();
          await until("an answer finds no room", () => refused() > before);
          disk.free();
          expect(await settled(setup, 120_000), lastWords(daemon)).toBe(true);
          expect(await endOf(setup, daemon)).toEqual([]);
        });
        await onServer(postgres.url, 'DROP DATABASE "full" WITH (FORCE)');
        await onServer(postgres.url, "DROP TABLESPACE small");
      } finally {
        disk.remove();
      }
    }),
  );
});

/** A reply whose attempt could not be recorded is not sent; it does not wait for half a minute here. */
const circumstances = ["no-patience"];

async function started(setup: MailSetup, plant: readonly string[] = []): Promise<Daemon> {
  const daemon = live(setup, { plant: [...circumstances, ...plant] });
  expect(await daemon.ready, lastWords(daemon)).toBe(true);
  return daemon;
}

/** A file system in memory that the server may use, and that can be filled. */
function smallDisk() {
  const mounted = mkdtempSync(join(tmpdir(), "bridgehead-small-"));
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=48m", "tmpfs", mounted]);
  const folder = join(mounted, "space");
  mkdirSync(folder);
  execFileSync("chown", ["postgres:postgres", folder]);
  const filler = join(mounted, "filler");
  return {
    folder,
    fill: () => {
      const { bavail, bsize } = statfsSync(mounted);
      try {
        writeFileSync(filler, new Uint8Array(bavail * bsize));
      } catch (error) {
        // The server took some of it in the meantime.
        if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
      }
    },
    free: () => rmSync(filler),
    remove: () => {
      execFileSync("umount", ["--lazy", mounted]);
      rmSync(mounted, { recursive: true });
    },
  };
}

/** Two of one thread, and one of another. */
const letters = ({ options: { user } }: MailSetup) =>
  [
    letter(`ada-${user}@people.test`, 0),
    letter(`ben-${user}@people.test`, 0),
    letter(`ada-${user}@people.test`, 1),
  ] as const;

/** Stops the daemon in order, and returns the violations. */
async function endOf(setup: MailSetup, daemon: Daemon): Promise<Violation[]> {
  expect(await within(daemon.stop()), lastWords(daemon)).toEqual({ code: 0, signal: null });
  return violations(setup, { crossed: [], held: 0 });
}

/** Statements by which the next commits of such a row fail. A sequence counts them: it is not rolled back. */
const failing = ([table, state]: (typeof commits)[number], fault: string): string[] => [
  `CREATE SEQUENCE failed_${table}_${state}`,
  `CREATE FUNCTION fail_${table}_${state}() RETURNS trigger LANGUAGE plpgsql AS $$
   BEGIN IF nextval('failed_${table}_${state}') <= ${failuresEach} THEN ${fault} END IF; RETURN NULL; END $$`,
  `CREATE CONSTRAINT TRIGGER fail_${state} AFTER INSERT OR UPDATE ON ${table} DEFERRABLE INITIALLY DEFERRED
   FOR EACH ROW WHEN (NEW.state = '${state}') EXECUTE FUNCTION fail_${table}_${state}()`,
];

async function failures(store: string, [table, state]: (typeof commits)[number]): Promise<number> {
  const [row] = await onServer(store, `SELECT last_value FROM failed_${table}_${state}`);
  return Number(row?.["last_value"]);
}

/** Executes the statements; returns the rows of the last one. */
async function onServer(url: string, ...statements: readonly string[]): Promise<Record<string, unknown>[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    let rows: Record<string, unknown>[] = [];
    for (const sql of statements) rows = (await client.query<Record<string, unknown>>(sql)).rows;
    return rows;
  } finally {
    await client.end();
  }
}
