// A real PgBouncer between the store and PostgreSQL. With its defaults it refuses most settings among the parameters of a
// connection's start.

import { spawn } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { migrate } from "../../../src/store/migrate.ts";
import { openPostgres } from "../../../src/store/postgres.ts";
import { readSettings, writeSettings } from "../../../src/store/tables/agents.ts";
import { describeReal, need } from "../../support/machine/debian.ts";
import { freePort } from "../../support/machine/network.ts";
import { asServer, needPostgres, sharedPostgres } from "../../support/store/postgres.ts";

const program = "/usr/sbin/pgbouncer";
const missing = (await needPostgres()) ?? (await need("pgbouncer", program));

/** Starts PgBouncer with its defaults in front of a new database. Returns the URL of the database behind it. */
async function startPooler(mode: "session" | "transaction"): Promise<string> {
  const server = await sharedPostgres();
  const direct = await server.copy();
  const { port: serverPort, pathname } = new URL(direct);
  const home = mkdtempSync(join(tmpdir(), "bridgehead-pooler-"));
  chmodSync(home, 0o755); // PgBouncer refuses to run as root
  const port = await freePort();
  const settings = [
    "[databases]",
    `* = host=127.0.0.1 port=${serverPort} user=test`,
    "[pgbouncer]",
    "listen_addr = 127.0.0.1",
    `listen_port = ${port}`,
    "unix_socket_dir =",
    "auth_type = any",
    `pool_mode = ${mode}`,
  ];
  writeFileSync(join(home, "pgbouncer.ini"), settings.join("\n"));
  const child = spawn(...asServer(program, [join(home, "pgbouncer.ini")]), { stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  child.stderr.on("data", (chunk: Buffer) => void (said += chunk.toString()));
  onTestFinished(async () => {
    child.kill("SIGINT");
    await server.dropCopy(direct);
    rmSync(home, { recursive: true, force: true });
  });
  await expect.poll(() => said).toContain("process up");
  return `postgres://test@127.0.0.1:${port}${pathname}`;
}

describeReal("a store behind PgBouncer", missing, () => {
  it("works with pool_mode = session and PgBouncer's defaults, with its own limits of waits", async () => {
    const url = await startPooler("session");
    const [one, two] = [await openPostgres(url), await openPostgres(url)];
    onTestFinished(async () => void (await Promise.all([one.close(), two.close()])));
    await migrate(one);
    await one.hold("h/a");
    const heard = new Promise<void>((resolve) => two.onWake(resolve));
    await one.tx(async (q) => {
      await writeSettings(q, "a", "{}");
      await one.wake(q);
    });
    await heard;
    expect((await two.read((q) => readSettings(q, "a")))?.settings).toBe("{}");
    const limits = await two.tx((q) =>
      q.all("SELECT current_setting('lock_timeout') AS lock, current_setting('statement_timeout') AS statement"),
    );
    expect(limits).toEqual([{ lock: "5s", statement: "30s" }]);
  });

  it("is not opened with pool_mode = transaction", async () => {
    await expect(openPostgres(await startPooler("transaction"))).rejects.toThrow(
      /pooler.*Remedy: .*pool_mode = session/,
    );
  });
});
