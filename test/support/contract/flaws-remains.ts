// Flaws in what remains: capacity, calls after their signal, connections, timers and secrets.

import net from "node:net";
import { type Adapter, externalId, type Outbound } from "bridgehead/contract";
import { hookHarness } from "../../contract/hook-adapter.ts";
import line from "../../contract/line-adapter.ts";
import { lineHarness } from "../../contract/line-peer.ts";
import { altered, type Flaw, flaw, handling, limitedHarness, misled, required, sending } from "./flaws.ts";

const frees = "capacity: a send that fails frees its slot";
const delay = "send: passes on the delay that the peer asks for, in milliseconds";
const later = "send: deferred when the peer says later";
const sendAborted = "send: ends when its signal has aborted before";
const runAborted = "inbound: run ends when its signal has aborted before";
const findSignal = "reconcile: ends within a second of its signal";
const probeSignal = "probe: ends within a second of its signal";
const nothingLeft = "inbound: run leaves no connection and no timer behind";
const closes = "close: ends with its signal, never throws, and leaves no connection and no timer";
const right = "secrets: right credentials appear in no log, status or outcome";
const wrong = "secrets: wrong credentials appear in no log, status or outcome";
const proxied = "http: a good request is answered 2xx behind a proxy";

const most = 8;
/** The line adapter with at most 8 sends at once. `leaks`: the ends of a send after which its slot is never free again. */
const leaking = (leaks: (end: Awaited<ReturnType<Outbound["send"]>>["kind"] | "throw") => boolean) =>
  altered(line, ({ outbound }) => {
    let used = 0;
    const waiting: (() => void)[] = [];
    return {
      outbound: {
        ...required(outbound),
        capacity: () => Math.max(0, most - used),
        async send(draft, attempt) {
          used += 1;
          if (used > most) await new Promise<void>((resolve) => waiting.push(resolve));
          const free = (end: Parameters<typeof leaks>[0]) => {
            if (leaks(end)) return;
            used -= 1;
            waiting.shift()?.();
          };
          try {
            const outcome = await required(outbound).send(draft, attempt);
            free(outcome.kind);
            return outcome;
          } catch (error) {
            free("throw");
            throw error;
          }
        },
      },
    };
  });

const delayed = (change: (ms: number) => number) =>
  sending(line, async (send, attempt, draft) => {
    const outcome = await send(draft, attempt);
    if (outcome.kind !== "deferred") return outcome;
    return { ...outcome, retryAfterMs: change(outcome.retryAfterMs ?? 0) };
  });

/** Waits for an abort, and does not see one that was there before. */
const onAbort = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
const deaf = () => new AbortController().signal;
const reading = (change: (run: NonNullable<Adapter["inbound"]>["run"]) => NonNullable<Adapter["inbound"]>["run"]) =>
  altered(line, ({ inbound }) => ({
    inbound: { run: change((start, signal) => required(inbound).run(start, signal)) },
  }));

/** The port of a server that holds every connection; it keeps no process alive. */
const holding = net.createServer((socket) => socket.on("error", () => undefined).unref()).unref();

export const remainsFlaws: readonly Flaw[] = [
  flaw(
    "a refused send keeps its slot",
    leaking((end) => end === "refused"),
    { [frees]: /not 8 again after a send that met "refuse-message"/ },
    limitedHarness,
  ),
  flaw(
    "a deferred send keeps its slot",
    leaking((end) => end === "deferred"),
    { [frees]: /not 8 again after a send that met "later"/ },
    limitedHarness,
  ),
  flaw(
    "a send that throws keeps its slot",
    leaking((end) => end === "throw"),
    { [frees]: /not 8 again after a send that ended at crossing/ },
    limitedHarness,
  ),
  flaw(
    "milliseconds are taken for seconds",
    delayed((ms) => ms * 1000),
    { [delay]: /asked for a delay of 1500 ms/ },
  ),
  flaw(
    "seconds are passed on as milliseconds",
    delayed((ms) => ms / 1000),
    { [delay]: /asked for a delay of 1500 ms/ },
  ),
  {
    what: "the peer's delay is unknown",
    definition: line,
    harness: {
      ...lineHarness,
      start: async () => {
        const peer = await lineHarness.start();
        return Object.defineProperty(peer, "laterMs", { value: undefined });
      },
    },
    caught: { [delay]: /no laterMs, and the harness does not declare "delay" lacking/ },
  },
  flaw(
    "a delay is no number",
    delayed(() => Number.NaN),
    { [later]: /retryAfterMs as NaN/, [delay]: /retryAfterMs as NaN/ },
  ),
  flaw(
    "send does not see a signal that had aborted before",
    sending(line, (send, attempt, draft) =>
      Promise.race([send(draft, { ...attempt, signal: deaf() }), onAbort(attempt.signal)]),
    ),
    { [sendAborted]: /send had not ended after 1000 ms/ },
  ),
  flaw(
    "run does not see a signal that had aborted before",
    reading((run) => (start, signal) => {
      const own = new AbortController();
      signal.addEventListener("abort", () => own.abort(signal.reason));
      return run(start, own.signal);
    }),
    { [runAborted]: /run had not ended after 1000 ms/ },
  ),
  flaw(
    "reconcile does not hear its signal",
    altered(line, ({ outbound }) => ({
      outbound: {
        ...required(outbound),
        reconcile: (draft, past) => required(outbound?.reconcile?.bind(outbound))(draft, past, deaf()),
      },
    })),
    { [findSignal]: /reconcile had not ended 1000 ms after its signal/ },
  ),
  flaw(
    "probe does not hear its signal",
    altered(line, (adapter) => ({ probe: () => required(adapter.probe?.bind(adapter))(deaf()) })),
    { [probeSignal]: /probe had not ended 1000 ms after its signal/ },
  ),
  flaw(
    "a timer of run goes on",
    reading((run) => async (start, signal) => {
      const timer = setTimeout(() => undefined, 20_000);
      await run(start, signal).catch((error: unknown) => {
        clearTimeout(timer);
        throw error;
      });
    }),
    { [nothingLeft]: /there remained Timeout/, [closes]: /there remained Timeout/ },
  ),
  flaw(
    "a connection of run stays open",
    reading((run) => async (start, signal) => {
      if (!holding.listening) await new Promise<void>((resolve) => holding.listen(0, "127.0.0.1", resolve).unref());
      net.connect((holding.address() as net.AddressInfo).port, "127.0.0.1").unref();
      await run(start, signal);
    }),
    { [nothingLeft]: /there remained TCPWRAP/, [closes]: /there remained TCPWRAP/ },
  ),
  flaw(
    "the token is logged",
    {
      ...line,
      create: (channel, config) => {
        const adapter = line.create(channel, config as never) as Adapter;
        const run: NonNullable<Adapter["inbound"]>["run"] = (start, signal) => {
          channel.log.debug({ request: { op: "login", token: (config as { token: string }).token } }, "Logging in");
          return required(adapter.inbound).run(start, signal);
        };
        return { ...adapter, inbound: { run } };
      },
    },
    { [right]: /a secret of the configuration appears/, [wrong]: /a secret of the configuration appears/ },
  ),
  flaw(
    "the reason of a status quotes the token",
    misled(line, (channel) => ({
      report: (status) =>
        channel.report(status.state === "unauthorized" ? { ...status, reason: "open barley was denied" } : status),
    })),
    { [wrong]: /a secret of the configuration appears/ },
  ),
  flaw(
    "the reason of an outcome quotes the token",
    sending(line, async (send, attempt, draft) => {
      const outcome = await send(draft, attempt);
      if (outcome.kind === "refused") return { ...outcome, reason: "refused: open sesame SEND" };
      return outcome.kind === "sent" ? { ...outcome, id: externalId(outcome.id) } : outcome;
    }),
    { [right]: /a secret of the configuration appears/ },
  ),
  flaw(
    "the signature is checked against the Host header",
    handling(async (handle, request, channel) => {
      const isOurs = [null, channel.url("/").host].includes(request.headers.get("host"));
      return isOurs ? handle(request) : new Response(null, { status: 403 });
    }),
    { [proxied]: /answered 403 to a good request behind a proxy/ },
    hookHarness,
  ),
];
