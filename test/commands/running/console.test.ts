// bridgehead console with a running daemon, and the keys of the console in the configuration.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { printLoginLink } from "../../../src/commands/http.ts";
import { exitCodes, runCommand } from "../../../src/commands/io.ts";
import { loadConsole } from "../../../src/config/index.ts";
import type { Database } from "../../../src/store/driver.ts";
import { migrate } from "../../../src/store/migrate.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { openConsole } from "../../support/commands/console.ts";
import { commandIo } from "../../support/machine/command.ts";
import { newFolder } from "../../support/resources.ts";

interface Setup {
  readonly file: string;
  readonly db: Database;
}

/** A migrated store, and a configuration with secrets that only the service can read. */
async function setUp(console: string): Promise<Setup> {
  const folder = newFolder();
  const db = openSqlite(join(folder, "store.db"), Date.now);
  await migrate(db);
  onTestFinished(() => db.close());
  const file = join(folder, "bridgehead.yaml");
  writeFileSync(
    file,
    `agents: { support: { key: "\${credential:absent}" } }
http: { listen: "127.0.0.1:7000", public_url: "\${env:ABSENT}" }
store: sqlite:store.db
${console}
`,
  );
  return { file, db };
}

async function command(file: string, json = false): Promise<{ code: number; out: string; err: string }> {
  const [out, err]: string[][] = [[], []];
  const io = commandIo({
    out: (text) => void out?.push(text),
    err: (text) => void err?.push(text),
  });
  const code = await runCommand(printLoginLink, { config: file, json }, io);
  return { code, out: (out ?? []).join("\n"), err: (err ?? []).join("\n") };
}

it("prints a link that the daemon on the same store accepts once, without the daemon's secrets", async () => {
  const { file, db } = await setUp("");
  const { code, out, err } = await command(file);
  expect(code).toBe(exitCodes.ok);
  const [, token = ""] = /^http:\/\/127\.0\.0\.1:7002\/login\/([0-9a-z]{30})$/m.exec(out) ?? [];
  expect(out).toContain("It works once, within 10 minutes.");
  expect(err).toContain("no console answers at http://127.0.0.1:7002");
  const fixture = await openConsole(db);
  const use = () =>
    fetch(`${fixture.url}/login/${token}`, { method: "POST", headers: { origin: fixture.url }, redirect: "manual" });
  expect([(await use()).status, (await use()).status]).toEqual([303, 403]);
});

it("finds the running console, and names the proxy's URL", async () => {
  const { db, file: other } = await setUp("");
  const fixture = await openConsole(db);
  const listen = new URL(fixture.url).host;
  const { file } = await setUp(`console: { listen: "${listen}", public_url: "https://console.example.com" }`);
  const { out, err } = await command(file, true);
  expect(JSON.parse(out)).toMatchObject({ answers: true, minutes: 10 });
  expect((JSON.parse(out) as { url: string }).url).toMatch(/^https:\/\/console\.example\.com\/login\/\w+$/);
  expect(err).toBe("");
  expect(other).not.toBe(file);
});

it("says what to do when the console is disabled, or its port is not known", async () => {
  const disabled = await command((await setUp("console: { enabled: false }")).file);
  expect([disabled.code, disabled.err]).toEqual([
    exitCodes.failed,
    expect.stringContaining("the console is disabled: remove console.enabled"),
  ]);
  const unknown = await command((await setUp('console: { listen: "127.0.0.1:0" }')).file);
  expect([unknown.code, unknown.err]).toEqual([exitCodes.failed, expect.stringContaining("set console.listen")]);
});

it.each([
  ['{ listen: "0.0.0.0:8027" }', "console.listen", "use 127.0.0.1:8027 and ssh -L, or a proxy with TLS"],
  ['{ listen: "0.0.0.0:8027", public_url: "http://localhost" }', "console.listen", "ssh -L"],
  ['{ public_url: "http://console.example.com" }', "console.public_url", "use https"],
  ['{ public_url: "https://example.com/console" }', "console.public_url", ""],
])("rejects console: %s", async (console, key, fix) => {
  const { file } = await setUp(`console: ${console}`);
  const loaded = await loadConsole(file, { env: {} });
  if (loaded.ok) return expect.fail("accepted");
  expect(loaded.problems.map((one) => one.key)).toEqual([key]);
  expect(loaded.problems[0]?.fix).toContain(fix);
});

it.each([
  '{ listen: "0.0.0.0:8027", public_url: "https://console.example.com" }',
  '{ listen: "[::1]:8027" }',
  '{ enabled: false, listen: "0.0.0.0:8027" }',
])("accepts console: %s", async (console) => {
  const { file } = await setUp(`console: ${console}`);
  expect(await loadConsole(file, { env: {} })).toMatchObject({ ok: true });
});
