// What the running daemon reports to others: traces to an OTLP collector, heartbeats to a dead-man's switch.

import { createServer, type IncomingMessage } from "node:http";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { beat } from "../../src/commands/running/heartbeat.ts";
import { systemClock as clock } from "../../src/ops/clock.ts";
import { Statistics } from "../../src/ops/statistics.ts";
import { eventually } from "../support/clock.ts";
import { type Finished, startMailDaemon } from "../support/daemon/mail-daemon.ts";
import { type MailStore, sharedDovecot } from "../support/email/dovecot.ts";
import { messages, startDaemon } from "../support/machine/command.ts";
import { describeReal, need } from "../support/machine/debian.ts";
import { serve } from "../support/machine/network.ts";

interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly attributes: readonly { readonly key: string; readonly value: { readonly stringValue?: string } }[];
}
interface Exported {
  readonly resourceSpans: readonly { readonly scopeSpans: readonly { readonly spans: readonly Span[] }[] }[];
}

/** An HTTP server that keeps the requests; `status` may change. */
async function startServer(finish: Finished) {
  const requests: { readonly request: IncomingMessage; readonly body: Buffer }[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => void chunks.push(chunk));
    request.on("end", () => {
      requests.push({ request, body: Buffer.concat(chunks) });
      response.writeHead(own.status, { "content-type": "application/json" }).end("{}");
    });
  });
  const url = await serve(server, finish);
  const own = { url, requests, status: 200 };
  return own;
}

const reportLoading = `data:text/javascript,${encodeURIComponent(`
  import { registerHooks } from "node:module";
  registerHooks({ resolve(name, context, next) {
    if (name.includes("opentelemetry")) process.stderr.write(JSON.stringify({ message: "loaded " + name }) + "\\n");
    return next(name, context);
  } });`)}`;

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");
describeReal("what the daemon reports to others", missing, () => {
  let dovecot: MailStore;
  beforeAll(async () => {
    dovecot = await sharedDovecot(["spans", "plain"]);
  });
  afterAll(() => dovecot?.dispose());

  it.concurrent("sends one trace per message with one span per hop, and heartbeats", async ({
    onTestFinished: finish,
  }) => {
    const collector = await startServer(finish);
    const hub = await startServer(finish);
    const keys = {
      otlp: { url: `${collector.url}/v1/traces`, headers: { "x-key": "${env:SECRET}" } },
      heartbeat: { url: `${hub.url}/ping/abc`, every: "1s" },
    };
    const fixture = await startMailDaemon(finish, { dovecot, user: "spans", stopped: true });
    const daemon = await startDaemon(fixture, finish, { keys });
    const mails = [await fixture.write(), await fixture.write({ from: "ben@customer.example" })];
    for (const mail of mails) await fixture.replyTo(mail);
    const spans = () =>
      collector.requests.flatMap(({ body }) =>
        (JSON.parse(body.toString()) as Exported).resourceSpans.flatMap(({ scopeSpans }) =>
          scopeSpans.flatMap((scope) => scope.spans),
        ),
      );
    await eventually(() => expect(spans().filter(({ name }) => name === "sent")).toHaveLength(2));
    const traces = Map.groupBy(spans(), ({ traceId }) => traceId);
    expect(traces.size).toBe(2);
    for (const own of traces.values()) {
      expect(own.map(({ name }) => name)).toEqual(["received", "asked", "answered", "queued", "sent"]);
      const [root, ...hops] = own;
      expect(root?.parentSpanId || undefined).toBeUndefined();
      for (const hop of hops) expect(hop.parentSpanId).toBe(root?.spanId);
      expect(new Set(own.map(({ spanId }) => spanId)).size).toBe(5);
      const channel = root?.attributes.find(({ key }) => key === "bridgehead.channel");
      expect(channel?.value.stringValue).toBe(fixture.channel);
    }
    expect(collector.requests[0]?.request.headers["x-key"]).toBe("secret");
    const sent = Buffer.concat(collector.requests.map(({ body }) => body)).toString();
    for (const text of ["customer.example", mails[0]?.text ?? "-"]) expect(sent).not.toContain(text);

    await eventually(() => expect(hub.requests.length).toBeGreaterThan(2));
    expect(hub.requests[0]?.request).toMatchObject({ method: "GET", url: "/ping/abc" });
    collector.status = 503;
    hub.status = 404;
    await fixture.replyTo(await fixture.write({ answers: mails[0] ?? { messageId: "" } }));
    await eventually(() => expect(messages(daemon.lines())).toContain("heartbeat request failed, retrying"));
    await eventually(() => expect(hub.requests.length).toBeGreaterThan(5));
    const failures = daemon.lines().filter(({ message }) => message.startsWith("heartbeat"));
    expect(failures).toMatchObject([{ level: "warn", reason: "rejected with status 404" }]);
    expect(daemon.text()).not.toContain("/ping/abc");
  });

  it.concurrent("does not load OpenTelemetry by default", async ({ onTestFinished: finish }) => {
    const fixture = await startMailDaemon(finish, { dovecot, user: "plain", stopped: true });
    const node = ["--import", reportLoading];
    const daemon = await startDaemon(fixture, finish, { node });
    await fixture.replyTo(await fixture.write());
    expect(messages(daemon.lines()).filter((message) => message.startsWith("loaded"))).toEqual([]);

    const collector = await startServer(finish);
    const other = await startMailDaemon(finish, { dovecot, user: "plain", stopped: true });
    const traced = await startDaemon(other, finish, { node, keys: { otlp: { url: collector.url } } });
    expect(messages(traced.lines())).toContain("loaded @opentelemetry/sdk-trace");
  });
});

it("sends no heartbeat while the daemon is not ready, and has one warning for failures", async () => {
  const hub = await startServer(onTestFinished);
  const lines: string[] = [];
  const note = (_fields: object, message: string) => void lines.push(message);
  const log = { debug: note, info: note, warn: note, error: note };
  const stop = new AbortController();
  let isReady = false;
  const beating = beat(
    {
      url: hub.url,
      every: 10,
      timeout: 60_000,
      clock,
      log,
      statistics: new Statistics(),
      ready: async () => isReady,
    },
    stop.signal,
  );
  await eventually(() => expect(lines).toEqual(["heartbeat paused: the daemon is not ready"]));
  expect(hub.requests).toEqual([]);
  isReady = true;
  await eventually(() => expect(hub.requests.length).toBeGreaterThan(3));
  hub.status = 500;
  await eventually(() => expect(lines).toContain("heartbeat request failed, retrying"));
  const before = hub.requests.length;
  await eventually(() => expect(hub.requests.length).toBeGreaterThan(before + 3));
  hub.status = 200;
  await eventually(() => expect(lines).toContain("heartbeat request succeeds again"));
  stop.abort();
  await beating;
  expect(lines).toEqual([
    "heartbeat paused: the daemon is not ready",
    "heartbeat resumed: the daemon is ready again",
    "heartbeat request failed, retrying",
    "heartbeat request succeeds again",
  ]);
});
