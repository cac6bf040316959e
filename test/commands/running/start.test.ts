// bridgehead start while the daemon runs.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import { exitCodes, type Io, runCommand } from "../../../src/commands/io.ts";
import { type StartOptions, startConversation } from "../../../src/commands/start.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { suppress } from "../../../src/store/tables/suppressions.ts";
import { bridgehead, inProcess } from "../../support/machine/command.ts";
import { bodyServer, listen } from "../../support/machine/network.ts";
import { type Daemon, startDaemon } from "../../support/process/daemon.ts";
import { newFolder } from "../../support/resources.ts";

const texter = fileURLToPath(new URL("../../support/sms/post-adapter.ts", import.meta.url));
const key = "start-agent-key";

interface Setup {
  readonly file: string;
  readonly store: string;
  /** What arrived, in order. */
  readonly texts: { readonly to: string; readonly text: string; readonly kind: string }[];
  /** What the server says from now on; `none`: it takes the text and does not respond. */
  answer: number | "none";
  /** Closes the connections to the server. */
  cut(): void;
  daemon(killAt?: string): Promise<Daemon>;
  /** The first start: resolves when the agent's settings are in the store. */
  learns(): Promise<Daemon>;
  start(...options: readonly string[]): ReturnType<typeof inProcess>;
}

const startWords = (file: string) => ["start", "--config", file, "--channel", "texts", "--to", "+1 555 0111"] as const;

async function setUp(sms = 'defaultSmsIntroduction: "Hello from Acme."'): Promise<Setup> {
  const folder = newFolder();
  const texts: Setup["texts"] = [];
  const server = bodyServer((body, response) => {
    const { answer } = place;
    if (answer === 200 || answer === "none") texts.push(JSON.parse(body) as Setup["texts"][number]);
    if (answer !== "none") response.writeHead(answer).end();
  });
  const url = `${await listen(server)}/`;
  writeFileSync(
    join(folder, "agents.yaml"),
    `organization: { name: Acme }
agents:
  phone:
    key: ${key}
    skills: { sms: { phoneNumber: "+15550100", ${sms} } }
`,
  );
  const file = join(folder, "bridgehead.yaml");
  writeFileSync(
    file,
    `platform:
  url: embedded
  absent_after: 1s
  embedded: { agents: agents.yaml, database: new/folder/platform.db }
agents: { phone: { key: ${key}, refresh: 1s } }
channels:
  texts: { adapter: ${texter}, agent: phone, url: "${url}", pin: "\${env:PIN}" }
  quiet: { adapter: ${texter}, agent: phone, url: "${url}", enabled: false }
http: { listen: "127.0.0.1:0" }
store: sqlite:store.db
`,
  );
  const daemons: Daemon[] = [];
  const place: Setup = {
    file,
    store: join(folder, "store.db"),
    texts,
    answer: 200,
    cut: () => server.closeAllConnections(),
    async daemon(killAt) {
      const daemon = startDaemon({ config: file, env: { PIN: "1234" }, ...(killAt ? { killAt } : {}) });
      daemons.push(daemon);
      expect(await daemon.ready, daemon.complaints.join("\n")).toBe(true);
      return daemon;
    },
    async learns() {
      const daemon = await place.daemon();
      const known = () => daemon.lines.some(({ message }) => message === "agent settings changed");
      await expect.poll(known).toBe(true);
      return daemon;
    },
    start: (...options) => inProcess([...startWords(file), ...options]),
  };
  onTestFinished(async () => {
    await Promise.all(daemons.map((daemon) => daemon.stop()));
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return place;
}

it("writes to a person, and waits for it to be sent", async () => {
  const place = await setUp();
  await place.learns();
  const sent = await place.start("--name", "Anna Berg", "--wait", "30s");
  expect(sent).toMatchObject({ code: exitCodes.ok, err: "" });
  expect(sent.out).toMatch(/^conversation \w+ with \+15550111: sent\n$/);
  expect(place.texts).toEqual([{ to: "+15550111", text: "Hello from Acme.", kind: "opening" }]);

  const own = await place.start("--introduction", "Your parcel is here.", "--wait", "30s", "--json");
  expect(JSON.parse(own.out)).toMatchObject({
    channel: "texts",
    to: "+15550111",
    state: "sent",
    reason: null,
    conversation: expect.any(String),
    turn: expect.any(String),
  });
  expect(place.texts.map(({ text }) => text)).toEqual(["Hello from Acme.", "Your parcel is here."]);

  place.answer = 500;
  const refused = await place.start("--again", "--wait", "30s");
  expect(refused.code).toBe(exitCodes.failed);
  expect(refused.out).toContain("failed (no: the server says 500)");
});

it("does not call a text unsent whose sending has begun", async () => {
  const place = await setUp();
  await place.learns();
  place.answer = "none";
  expect((await place.start()).code).toBe(exitCodes.ok);
  await expect.poll(() => place.texts.length).toBe(1);
  const repeated = await place.start("--wait", "1s");
  expect(repeated.code).toBe(exitCodes.failed);
  expect(repeated.err).toMatch(/^not sent again: .*\(conversation \w+: perhaps sent; the outcome is not known yet/);
  place.cut();
});

it("leaves a history that find and conversation show print, while the daemon runs and after it has stopped", async () => {
  const place = await setUp();
  const daemon = await place.learns();
  expect(await place.start("--wait", "30s")).toMatchObject({ code: exitCodes.ok });
  const look = (...words: readonly string[]) => inProcess([...words, "--config", place.file]);
  const read = async () => {
    const found = await look("find", "5550111");
    expect(found).toMatchObject({ code: exitCodes.ok, err: "" });
    const shown = await look("conversation", "show", "+15550111");
    expect(shown).toMatchObject({ code: exitCodes.ok, err: "" });
    expect(found.out).toMatch(/answered +texts +\+15550111/);
    expect(shown.out).toMatch(
      /asked the agent, attempt 1: accepted[^]*\| Hello from Acme\.[^]*attempt 1 to send: accepted/,
    );
    for (const list of ["inbox", "outbox", "conversation", "escalation"])
      expect(await look(list, "list")).toMatchObject({ code: exitCodes.ok, err: "" });
    return shown.out.replace(/\(.* ago\)/g, "");
  };
  const running = await read();
  await daemon.stop();
  expect(await read()).toBe(running);
});

it("sends one text when it is run twice at the same time, and once more only with --again", async () => {
  const place = await setUp();
  const daemon = await place.learns();
  await daemon.stop();
  const runs = await Promise.all([1, 2, 3].map(() => bridgehead(startWords(place.file))));
  const codes = runs.map(({ code }) => code);
  expect([
    codes.filter((code) => code === exitCodes.ok).length,
    codes.filter((code) => code === exitCodes.failed).length,
  ]).toEqual([1, 2]);
  for (const { err } of runs.filter(({ code }) => code === exitCodes.failed))
    expect(err).toMatch(
      /^not sent again: the same text was enqueued for \+15550111 [\d.]+ \w+ ago \(conversation \w+: .+\); --again sends it once more\n$/,
    );
  await place.daemon();
  await expect.poll(() => place.texts.length).toBe(1);
  // The agent's own introduction, given as an option.
  expect((await place.start("--introduction", "Hello from Acme.")).code).toBe(exitCodes.failed);
  const other = await inProcess(["start", "--config", place.file, "--channel", "texts", "--to", "+15550122"]);
  expect(other.code).toBe(exitCodes.ok);
  expect((await place.start("--again", "--wait", "30s")).code).toBe(exitCodes.ok);
  await expect.poll(() => place.texts.length).toBe(3);
  expect(place.texts.filter(({ to }) => to === "+15550111")).toHaveLength(2);
});

it("opens once though the daemon is killed in the middle of the start call", async () => {
  const place = await setUp();
  await (await place.learns()).stop();
  const killed = await place.daemon("open.cross:after:1");
  const left = await place.start();
  expect(left).toMatchObject({ code: exitCodes.ok, out: expect.stringContaining("the daemon will open it") });
  expect((await killed.ended).signal).toBe("SIGKILL");
  expect(place.texts).toEqual([]);
  await place.daemon();
  await expect.poll(() => place.texts.length).toBe(1);
  const platform = openSqlite(join(place.file, "../new/folder/platform.db"), Date.now);
  const opened = await platform.read((q) => q.all("SELECT id FROM conversation"));
  await platform.close();
  expect(opened).toHaveLength(1);
});

it("says that it is still under way when time is up", async () => {
  const place = await setUp();
  await (await place.learns()).stop();
  const waiting = await place.start("--wait", "200ms");
  expect(waiting).toMatchObject({ code: exitCodes.failed, out: expect.stringContaining("not sent yet") });
});

it("refuses what cannot be, and says why", async () => {
  const place = await setUp("responseDelaySeconds: 5");
  const told = async (over: Partial<StartOptions> = {}) => {
    const said: string[] = [];
    const say = (text: string) => void said.push(text);
    const io = {
      out: say,
      err: say,
      env: {},
      cwd: "/",
      signal: new AbortController().signal,
      timing: standardTiming,
    } as unknown as Io;
    const code = await runCommand(
      startConversation,
      { config: place.file, channel: "texts", to: "+15550111", ...over },
      io,
    );
    return `${code} ${said.join()}`;
  };

  expect(await told()).toContain("1 there is no store");
  await (await place.learns()).stop();
  expect(await told({ channel: "text" })).toMatch(/^2 there is no channel text .*it has texts, quiet$/);
  expect(await told({ to: "0111" })).toContain("2 channel texts cannot reach 0111: give a number with its country");
  expect(await told({ channel: "quiet" })).toContain("1 channel quiet is not enabled");
  expect(await told()).toContain(
    "1 agent phone has no introduction: give --introduction, or set defaultSmsIntroduction",
  );
  const db = openSqlite(place.store, Date.now);
  await db.tx((q) => suppress(q, "texts", "+15550111", "the person said STOP (event 7)"));
  const settings = (change: string) => db.tx((q) => q.run(`UPDATE agents SET settings = ${change}`));
  expect(await told()).toBe("1 +15550111 gets nothing from channel texts: the person said STOP (event 7)");
  const other = { to: "+15550122", introduction: "Hello" };
  await settings(`replace(settings, '"sms":{"status":"active"', '"sms":{"status":"inactive"')`);
  expect(await told(other)).toBe("1 the sms skill of agent phone is inactive");
  await settings(`json_set(settings, '$.sms', json('null'))`);
  expect(await told(other)).toBe("1 agent phone has no sms skill");
  await settings(`json_set(settings, '$.status', 'draft')`);
  expect(await told(other)).toBe("1 agent phone is draft");
  await db.close();
  const soon = ["--to", "+15550111", "--wait", "soon"];
  expect(await inProcess(["start", "--config", place.file, "--channel", "texts", ...soon])).toMatchObject({
    code: exitCodes.usage,
    err: expect.stringContaining("'soon' is invalid. It must be a duration"),
  });
  expect(await inProcess(["start", "--config", place.file, "--channel", "texts"])).toMatchObject({
    code: exitCodes.usage,
    err: expect.stringContaining("--to"),
  });
});

it.each([
  ["", "it needs account_sid and number"],
  ["number: '+12025550100'", "it needs account_sid"],
  [
    "dialect: retell, number: '+12025550100', account_sid: AC00000000000000000000000000000000",
    "dialect retell cannot, use twilio or gather",
  ],
])("refuses a channel that cannot place calls: { %s }", async (keys, problem) => {
  const folder = newFolder();
  const file = join(folder, "bridgehead.yaml");
  const voice = `{ adapter: voice, agent: a, auth_tokens: [ "\${env:TOKEN}" ], ${keys} }`;
  writeFileSync(file, `channels: { calls: ${voice} }\nstore: sqlite:store.db\n`);
  await inProcess(["migrate", "--config", file]);
  const words = ["start", "--config", file, "--channel", "calls", "--to", "+12025550111", "--introduction", "Hello."];
  const refused = await inProcess(words);
  expect(refused).toMatchObject({ code: exitCodes.failed, out: "" });
  expect(refused.err).toContain(`channel calls places no calls: ${problem}`);
  const { out } = await inProcess(["find", "+12025550111", "--config", file]);
  expect(out).not.toContain("conversation");
});
