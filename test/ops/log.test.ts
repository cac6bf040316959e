import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, constants, openSync, readFileSync, readSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { exitCodes } from "../../src/commands/io.ts";
import { masking } from "../../src/config/index.ts";
import { createLog, type LogOptions, LogOutput, type RunningLog } from "../../src/ops/log.ts";
import { standardTiming } from "../../src/ops/timing.ts";
import { workedMs } from "../support/clock.ts";
import { childEnv, root } from "../support/machine/command.ts";
import { fill, missingRoot, smallFileSystem } from "../support/machine/file-system.ts";
import { newFolder } from "../support/resources.ts";

const clock = { now: () => Date.UTC(2030, 0, 2, 3, 4, 5) };

function record(options: Partial<LogOptions> & { terminal?: boolean } = {}): {
  log: RunningLog;
  written: () => string;
} {
  let written = "";
  const out = { write: (text: string) => void (written += text), isTTY: options.terminal === true };
  return {
    log: createLog({ level: "info", format: "auto", clock, out, ...options }),
    written: () => written,
  };
}

const { upkeep } = standardTiming;

describe("the log", () => {
  it("writes one JSON line an entry, fields as columns", () => {
    const { log, written } = record();
    log.info({ channel: "support-mail", attempt: 2 }, "sent");
    expect(written()).toBe(
      '{"level":"info","time":"2030-01-02T03:04:05.000Z","channel":"support-mail","attempt":2,"message":"sent"}\n',
    );
  });

  it("writes text for a person at a terminal", () => {
    const { log, written } = record({ terminal: true });
    log.warn({ channel: "a", reason: "no route", n: 1 }, "degraded");
    expect(written()).toBe(
      '\u001B[33m03:04:05 warn  degraded\u001B[0m  channel=a reason="no route"  n=1\n'.replace("a reason", "a  reason"),
    );
  });

  it("writes lines together after a short wait, and warnings and errors at once", async () => {
    const file = join(newFolder(), "log");
    const fd = openSync(file, "w");
    onTestFinished(() => closeSync(fd));
    const before = process.listeners("exit");
    const out = new LogOutput(upkeep, { fd, emit: () => false });
    const [atExit = () => undefined] = process.listeners("exit").filter((one) => !before.includes(one));
    onTestFinished(() => void process.removeListener("exit", atExit));
    const log = createLog({ level: "info", format: "text", clock, out });
    const written = () => readFileSync(file, "utf8").replaceAll("03:04:05 ", "").split("\n").slice(0, -1);
    log.info({}, "one");
    await Promise.resolve();
    log.info({}, "two");
    await new Promise((resolve) => setImmediate(resolve));
    expect(written()).toEqual([]);
    await expect.poll(written).toEqual(["info  one", "info  two"]);
    log.info({}, "three");
    log.error({}, "four");
    log.info({}, "five");
    expect(written().slice(2)).toEqual(["info  three", "error four"]);
    log.warn({}, "six");
    expect(written().slice(4)).toEqual(["info  five", "warn  six"]);
  });

  it("bounds what waits for a stalled reader, and says later how many lines were dropped", () => {
    const folder = newFolder();
    const pipe = join(folder, "pipe");
    execFileSync("mkfifo", [pipe]);
    const fd = openSync(pipe, constants.O_RDWR | constants.O_NONBLOCK);
    onTestFinished(() => closeSync(fd));
    const before = process.listeners("exit");
    const out = new LogOutput({ ...upkeep, logReader: 2000 }, { fd, emit: () => false }, 10_000);
    const [atExit = () => undefined] = process.listeners("exit").filter((one) => !before.includes(one));
    onTestFinished(() => void process.removeListener("exit", atExit));
    const log = createLog({ level: "info", format: "text", clock, out });
    const count = 5000;
    for (let n = 1; n <= count; n += 1) {
      log.info({ n, text: "x".repeat(50) }, "line");
      out.flush();
    }
    let text = "";
    const readAll = () => {
      const buffer = Buffer.alloc(1_000_000);
      text += buffer.toString("utf8", 0, readSync(fd, buffer));
    };
    readAll();
    out.flush();
    log.info({}, "after");
    out.flush();
    readAll();
    const kept = text.match(/ {2}n=(\d+)/g) ?? [];
    expect(kept.length * 70).toBeLessThan(65_536 + 10_000 + 70);
    expect(kept.at(-1)).toBe(`  n=${kept.length}`);
    expect(text.split("\n").slice(-3)).toEqual([
      `03:04:05 warn  log lines dropped: their reader had stalled  lines=${count - kept.length}`,
      "03:04:05 info  after",
      "",
    ]);
  });

  it.skipIf(missingRoot !== null)("waits for space on a full disk, and ends nothing", () => {
    const folder = smallFileSystem(1);
    const [file, filler] = [join(folder, "log"), join(folder, "filler")];
    const fd = openSync(file, "w");
    fill(folder, filler);
    let failures = 0;
    const before = process.listeners("exit");
    const out = new LogOutput(upkeep, { fd, emit: () => ++failures > 0 });
    const [atExit = () => undefined] = process.listeners("exit").filter((one) => !before.includes(one));
    const log = createLog({ level: "info", format: "text", clock, out });
    for (const line of ["one", "two"]) log.error({}, line);
    expect(failures).toBe(0);
    expect(readFileSync(file, "utf8")).toBe("");
    rmSync(filler);
    log.error({}, "three");
    process.removeListener("exit", atExit);
    closeSync(fd);
    expect(readFileSync(file, "utf8").match(/one|two|three/g)).toEqual(["one", "two", "three"]);
  });

  it("continues when a log file is at the limit of its size", async () => {
    const folder = newFolder();
    const script = `
      const { createLog, LogOutput } = await import("${root}src/ops/log.ts");
      const { standardTiming } = await import("${root}src/ops/timing.ts");
      const out = new LogOutput({ ...standardTiming.upkeep, logReader: 100 });
      const log = createLog({ level: "info", format: "text", clock: Date, out });
      for (let n = 0; n < 100; n += 1) log.error({ n, text: "${"x".repeat(50)}" }, "line");
      console.log("continued");`;
    const node = [process.execPath, "--conditions=source", "--input-type=module", "-e", script];
    const limited = `ulimit -f 2; exec "$0" "$@" 2> ${join(folder, "log")}`;
    const child = spawn("/bin/sh", ["-c", limited, ...node], { stdio: ["ignore", "pipe", "ignore"], env: childEnv });
    let printed = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => void (printed += text));
    expect(await once(child, "close")).toEqual([0, null]);
    expect(printed).toBe("continued\n");
    expect(readFileSync(join(folder, "log"), "utf8")).toMatch(/ {2}n=1\b/);
  });

  // Each process ends in the turn in which it has logged, most with more lines than a pipe takes at once.
  it.each([
    ["an uncaught exception", 'throw new Error("boom");', exitCodes.crashed, "uncaught exception"],
    ["an unhandled rejection", 'void Promise.reject(new Error("boom"));', exitCodes.crashed, "uncaught exception"],
    ["process.exit", "process.exit(3);", 3, ""],
    ["SIGKILL", 'log.error({}, "fatal"); process.kill(process.pid, "SIGKILL"); for (;;);', null, "fatal"],
  ])("loses no line at %s", async (what, end, code, last) => {
    const lines = what === "SIGKILL" ? 100 : 3000;
    const script = `
      const { createLog, LogOutput } = await import("${root}src/ops/log.ts");
      const { standardTiming } = await import("${root}src/ops/timing.ts");
      const out = new LogOutput(standardTiming.upkeep);
      const log = createLog({ level: "info", format: "text", clock: Date, out });
      const crash = (error) => {
        log.error({ err: error }, "uncaught exception");
        process.exit(${exitCodes.crashed});
      };
      process.on("uncaughtException", crash);
      process.on("unhandledRejection", crash);
      for (let n = 1; n <= ${lines}; n += 1) log.info({ n, text: "${"x".repeat(50)}" }, "line");
      ${end}`;
    const child = spawn(process.execPath, ["--conditions=source", "--input-type=module", "-e", script], {
      stdio: ["ignore", "ignore", "pipe"],
      env: childEnv,
    });
    let err = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => void (err += text));
    const [ended] = (await once(child, "close")) as [number | null];
    expect(ended).toBe(code);
    expect(err.match(/ {2}n=(\d+)/g)).toHaveLength(lines);
    expect(err).toMatch(new RegExp(`n=${lines} .*\n${last === "" ? "$" : `.* error ${last}`}`));
  });

  it("leaves out of an error what a database adds to it: rows may hold addresses", () => {
    const { log, written } = record();
    const added = {
      code: "23505",
      detail: "Key (address)=(ann@example.org) already exists.",
      where: "COPY ann@",
    };
    const refused = Object.assign(new Error("duplicate key"), added);
    log.error({ err: refused }, "one");
    log.error({ err: new Error("storing", { cause: refused }) }, "two");
    log.error({ err: new AggregateError([refused], "all") }, "three");
    expect(written()).toContain("23505");
    expect(written()).not.toContain("ann@");
  });

  it("keeps an error's message, stack and cause", () => {
    const json = record();
    const error = new Error("reading the mailbox", { cause: new Error("reset by peer") });
    json.log.error({ err: error }, "failed");
    const entry = JSON.parse(json.written()) as {
      err: { message: string; stack: string; cause: { message: string } };
    };
    expect(entry.err).toMatchObject({ message: "reading the mailbox", cause: { message: "reset by peer" } });
    expect(entry.err.stack).toContain("log.test.ts");
    const text = record({ format: "text" });
    text.log.error({ err: error }, "failed");
    expect(text.written()).toContain('err="reading the mailbox"\n    Error: reading the mailbox\n');
  });

  it("lets nothing in a field forge a line or move the cursor", () => {
    const { log, written } = record({ format: "text" });
    log.info({ subject: "x\n03:04:05 error forged \u001B[2J", err: new Error("a\nforged") }, "seen\nforged");
    // The C1 form of CSI, a line separator, a change of the reading direction.
    log.info({ subject: "x\u009B2J", detail: ["x\u2028y"], err: new Error("x\u202Ey") }, "seen");
    for (const line of written().trimEnd().split("\n").slice(1)) expect(line).toMatch(/^ {4}|^\d\d:\d\d:\d\d info /);
    expect(written()).not.toMatch(/[\u001B\u009B\u2028\u202E]/);
  });

  it("masks secrets in every spelling, from the moment they are known", () => {
    const { log, written } = record();
    const secret = 'pa"ss wörd';
    log.setMask(masking([secret, "abc", "long-secret-with-abc", "long-secret"]));
    log.error(
      {
        err: new Error(`login ${secret}`),
        url: `https://u:${encodeURIComponent(secret)}@h/`,
        deep: { a: [secret] },
      },
      "no",
    );
    log.info({ one: "long-secret-with-abc", two: "abc" }, "ok");
    expect(written()).not.toContain("ss w");
    expect(written()).not.toContain(encodeURIComponent("wörd"));
    expect(written()).toContain('"one":"********","two":"abc"');
  });

  it("gives journald its priorities, on every line", () => {
    const { log, written } = record({ journal: true, format: "text" });
    log.error({ err: new Error("x") }, "failed");
    const lines = written().trimEnd().split("\n");
    expect(lines.length).toBeGreaterThan(2);
    for (const line of lines) expect(line).toMatch(/^<3>/);
  });

  it("changes its level at run time", () => {
    const { log, written } = record();
    log.debug({}, "one");
    log.setLevel("debug");
    log.debug({}, "two");
    log.setLevel("error");
    log.warn({}, "three");
    expect(written()).toContain("two");
    expect(written()).not.toMatch(/one|three/);
  });
});

describe("addresses above debug", () => {
  const logged = (level: "debug" | "info", reason: string): string => {
    let text = "";
    const log = createLog({
      level: "debug",
      format: "json",
      out: { write: (line) => (text += line) },
      clock: { now: () => 0 },
    });
    log[level]({ reason }, "x");
    return (JSON.parse(text) as { reason: string }).reason;
  };

  it.each([
    ["550 <anna.berg+x@mail.example.org>: unknown", "550 <***@mail.example.org>: unknown"],
    ["a@b.example, c@d.example", "***@b.example, ***@d.example"],
    ["jörg@bücher.example", "***@bücher.example"],
    ["to +12025550191 failed", "to +*********91 failed"],
    ["at node_modules/@hono/node-server and @ home, +49", "at node_modules/@hono/node-server and @ home, +49"],
  ])("are masked in %s", (reason, masked) => {
    expect(logged("info", reason)).toBe(masked);
    expect(logged("debug", reason)).toBe(reason);
  });

  it("are masked in linear time", () => {
    const long = ["a".repeat(200_000), "@".repeat(200_000), "a@".repeat(100_000), "+1".repeat(100_000)];
    const began = workedMs();
    for (const reason of long) logged("info", reason);
    expect(workedMs() - began).toBeLessThan(2000);
  });
});
