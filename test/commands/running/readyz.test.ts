// /readyz of the real daemon: what it needs is taken away from it and given back.

import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { storeProblem } from "../../../src/channels/readiness.ts";
import { exitCodes } from "../../../src/commands/io.ts";
import { systemClock } from "../../../src/ops/clock.ts";
import { migrate } from "../../../src/store/migrate.ts";
import { answeredBefore } from "../../../src/store/restored.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { ensureChannel } from "../../../src/store/tables/events.ts";
import { bridgehead } from "../../support/machine/command.ts";
import { serve } from "../../support/machine/network.ts";
import { adminOf, type Daemon, startDaemon } from "../../support/process/daemon.ts";
import { newFolder } from "../../support/resources.ts";
import { storeEvent } from "../../support/store/databases.ts";

const adapter = `
import * as z from ${JSON.stringify(import.meta.resolve("zod"))};
export default {
  name: "probe", contract: 1, config: z.strictObject({}),
  traits: { maxTextLength: 9, markup: "plain", attachments: false, conversations: "person", platform: "sms" },
  create: (channel) => ({ inbound: { run: async (_cursor, signal) => {
    channel.report({ state: "ready" });
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
  } } }),
};`;

/** A platform that answers every call with this status. */
async function platform(status: number): Promise<string> {
  const server = createServer((_request, response) => {
    response.writeHead(status, { "content-type": "application/json" });
    response.end('{"message":"no"}');
  });
  return serve(server);
}

async function daemon(platformUrl: string): Promise<Daemon & { readonly config: string }> {
  const folder = newFolder();
  writeFileSync(join(folder, "probe.mjs"), adapter);
  const config = join(folder, "bridgehead.yaml");
  writeFileSync(
    config,
    JSON.stringify({
      platform: { url: platformUrl },
      agents: { support: { key: "${env:KEY}" } },
      channels: { office: { adapter: "./probe.mjs", agent: "support" } },
      http: { listen: "127.0.0.1:0" },
      store: "sqlite:store.db",
      log: { format: "json" },
    }),
  );
  const started = startDaemon({ config, env: { KEY: "k-12345" } });
  onTestFinished(async () => void (await started.stop()));
  expect(await started.ready).toBe(true);
  return Object.assign(started, { config });
}

async function ask(url: string): Promise<{ status: number; body: Record<string, unknown> }> {
  const response = await fetch(`${url}/readyz`);
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

const publicOf = ({ lines }: Daemon): string =>
  String(lines.find(({ message }) => message === "listening for http")?.["url"]);

describe("/readyz", () => {
  it("warns of messages on a channel that the configuration has no more, and channel list shows it", async () => {
    const started = await daemon(await platform(401));
    const db = openSqlite(join(dirname(started.config), "store.db"), Date.now);
    await db.tx(async (q) => {
      await ensureChannel(q, "former");
      await storeEvent(q, "waits", { channel: "former" });
    });
    await db.close();
    const warning = /^1 message of channel former wait.*no such channel.*under this name$/;
    expect((await ask(adminOf(started))).body["warnings"]).toEqual([expect.stringMatching(warning)]);
    const list = await bridgehead(["channel", "list", "--config", started.config]);
    expect(list.out).toMatch(/^office .* active +0 +0 +0 *\nformer .* removed +1 +0 +0/m);
  });

  it("is 503 while the platform rejects the agent's key", async () => {
    const started = await daemon(await platform(401));
    await expect
      .poll(() => ask(adminOf(started)))
      .toMatchObject({
        status: 503,
        body: { ready: false, channels: [{ id: "office", state: "ready", key_rejected: true }] },
      });
    expect(await ask(publicOf(started))).toEqual({ status: 503, body: { ready: false } });
  });

  it("is 200 while the platform is only out of reach", async () => {
    const started = await daemon(await platform(500));
    await expect.poll(() => ask(adminOf(started))).toMatchObject({ status: 200, body: { ready: true } });
  });

  it("is 503 while the disk is full, and 200 when there is room again", async () => {
    const started = await daemon(await platform(500));
    await expect.poll(() => ask(adminOf(started))).toMatchObject({ status: 200 });
    // The process may write no byte to any file: what a full disk does to it, without one.
    const limit = (bytes: string) =>
      execFileSync("prlimit", ["--pid", String(started.pid), `--fsize=${bytes}:unlimited`]);
    limit("1");
    await expect
      .poll(() => ask(adminOf(started)))
      .toMatchObject({
        status: 503,
        body: { ready: false, store: expect.stringMatching(/^cannot be written: /) },
      });
    expect(await ask(publicOf(started))).toEqual({ status: 503, body: { ready: false } });
    limit("unlimited");
    await expect.poll(() => ask(publicOf(started))).toEqual({ status: 200, body: { ready: true } });
  });
});

describe("bridgehead health", () => {
  /** Asks the daemon of which only the address is known, like a container's HEALTHCHECK: without its secrets. */
  async function health(url: string, ...args: string[]) {
    const config = join(newFolder(), "bridgehead.yaml");
    const http = { listen: "0.0.0.0:1", admin_listen: url.replace("http://", "") };
    writeFileSync(config, JSON.stringify({ agents: { a: { key: "${env:ABSENT}" } }, http }));
    return bridgehead(["health", "--config", config, ...args]);
  }

  it("is 0 when the daemon is ready, and prints each channel", async () => {
    const started = await daemon(await platform(500));
    await expect.poll(() => ask(adminOf(started))).toMatchObject({ status: 200 });
    expect(await health(adminOf(started))).toMatchObject({
      code: 0,
      out: "ready\n  office: ready\n",
      err: "",
    });
    expect(await health(adminOf(started), "--quiet")).toMatchObject({ code: 0, out: "", err: "" });
    expect(await health(adminOf(started), "--live")).toMatchObject({ code: 0, out: "ready\n" });
  });

  it("prints the pause of a channel and warnings, which leave the daemon ready", async () => {
    const started = await daemon(await platform(500));
    const paused = await bridgehead(["pause", "office", "--reason", "wrong prices", "--config", started.config]);
    expect(paused).toMatchObject({ code: 0 });
    await expect
      .poll(() => ask(adminOf(started)))
      .toMatchObject({ status: 200, body: { channels: [{ paused: { reason: "wrong prices" } }] } });
    expect(await health(adminOf(started))).toMatchObject({
      code: 0,
      out: "ready\n  office: ready (paused: wrong prices)\n",
    });
    const db = openSqlite(join(dirname(started.config), "store.db"), () => systemClock.now());
    await db.tx(async (q) => {
      const id = await storeEvent(q, "e", { channel: "office" });
      await q.run(`UPDATE events SET state = 'held', code = '${answeredBefore}' WHERE id = $1`, id);
    });
    await db.close();
    await expect
      .poll(async () => (await health(adminOf(started))).out)
      .toContain("ready\n  warning: 1 message and 0 replies are held as answered-before-restore");
  });

  it("is 1 when the daemon is not ready, and 69 when it does not run", async () => {
    const started = await daemon(await platform(401));
    await expect.poll(() => ask(adminOf(started))).toMatchObject({ status: 503 });
    expect(await health(adminOf(started))).toMatchObject({
      code: exitCodes.failed,
      out: expect.stringMatching(/^not ready\n {2}office: ready \(its agent is not asked: .{10,}\)\n$/),
    });
    const { out } = await health(adminOf(started), "--json");
    expect(JSON.parse(out)).toMatchObject({ ready: false, channels: [{ id: "office", key_rejected: true }] });
    expect(await health(adminOf(started), "--live")).toMatchObject({ code: 0 });
    await started.stop();
    expect(await health(adminOf(started))).toMatchObject({
      code: exitCodes.unreachable,
      err: expect.stringContaining("the daemon does not answer at http://127.0.0.1:"),
    });
  });
});

describe("the store's problem", () => {
  it("is a disk with little room, although a small write still fits", async () => {
    const folder = newFolder();
    const db = openSqlite(join(folder, "store.db"), () => systemClock.now());
    onTestFinished(() => db.close());
    await migrate(db);
    expect(await storeProblem(db, systemClock, async () => 2 ** 30, 5000)).toBeNull();
    expect(await storeProblem(db, systemClock, async () => 5 * 2 ** 20, 5000)).toBe(
      "its disk is nearly full: 5 MiB are free, at least 32 are needed",
    );
  });

  it("is that it does not answer", async () => {
    const stuck = { tx: () => new Promise<never>(() => undefined) };
    expect(await storeProblem(stuck as never, systemClock, null, 1)).toBe("does not answer");
  });
});
