// Flaws in making an adapter and in reading.

import { readFileSync } from "node:fs";
import net from "node:net";
import { setTimeout as pass } from "node:timers/promises";
import { type Adapter, type ChannelStatus, cursor, externalId, type InboundEvent } from "bridgehead/contract";
import * as z from "zod";
import hook, { hookHarness } from "../../contract/hook-adapter.ts";
import line from "../../contract/line-adapter.ts";
import { lineHarness } from "../../contract/line-peer.ts";
import { altered, type Flaw, making, methods, misled, required } from "./flaws.ts";

const harness = { ...lineHarness, patienceMs: 2000 };
const open = z.object({ host: z.string(), port: z.number() });
const strict = z.strictObject({ host: z.string(), port: z.number() });
const renamed = (events: readonly InboundEvent[], id: () => string) =>
  events.map((event) => ({ ...event, id: externalId(id()) }));

const still = "create: does no I/O and starts no timer";
const strictly = "config: unknown keys are errors";
const states = "inbound: reports connecting, then ready, and stays";
const login = "inbound: reports unauthorized, never ready, when the login is rejected";
const ends = "inbound: run ends within a second of the abort";
const endsSilent = "inbound: run ends within a second of the abort, at a silent peer too";
const acknowledges = "inbound: acknowledges once accept has resolved, never before";
const stays = "inbound: what accept rejected stays with the peer and comes again";
const sameId = "inbound: the same input has the same id, another input another";
const resumes = "inbound: goes on from the last committed cursor";
const comesBack = "inbound: reads on after the peer was away";

type Run = NonNullable<Adapter["inbound"]>["run"];
const running = (change: (run: Run, ...given: Parameters<Run>) => Promise<void>) =>
  altered(line, ({ inbound }) => ({
    inbound: {
      run: (from, signal) => change((...given) => required(inbound).run(...given), from, signal),
    },
  }));
const reporting = (change: (status: ChannelStatus) => readonly ChannelStatus[]) =>
  misled(line, (channel) => ({
    report: (status) => {
      for (const one of change(status)) channel.report(one);
    },
  }));

const shared = new Map<string, Adapter>();

export const makingFlaws: readonly Flaw[] = [
  {
    what: "create opens a connection",
    definition: making(line, (create) => (channel, config) => {
      const { port } = (config as { server: { port: number } }).server;
      net.connect(port, "127.0.0.1").on("error", () => undefined);
      return create(channel, config);
    }),
    harness,
    caught: { [still]: /TCPWRAP/ },
  },
  {
    what: "create starts a timer, a promise later",
    definition: making(line, (create) => (channel, config) => {
      void Promise.resolve().then(() => setTimeout(() => undefined, 10).unref());
      return create(channel, config);
    }),
    harness,
    caught: { [still]: /Timeout/ },
  },
  {
    what: "create reads a file, blocking",
    definition: making(line, (create) => (channel, config) => {
      readFileSync(import.meta.filename);
      return create(channel, config);
    }),
    harness,
    caught: { [still]: /readFileSync\(.*flaws-reading\.ts\)/ },
  },
  {
    what: "create gives two channels one adapter",
    definition: making(line, (create) => (channel, config) => {
      const key = JSON.stringify(config);
      const adapter = shared.get(key) ?? create(channel, config);
      shared.set(key, adapter);
      return adapter;
    }),
    harness,
    caught: { "create: gives every channel an adapter of its own": /two channels one adapter/ },
  },
  {
    what: "the configuration takes any key",
    definition: { ...line, config: z.object({ server: strict, token: z.string() }) },
    harness,
    caught: { [strictly]: /unknown key at the top/ },
  },
  {
    what: "an inner object of the configuration takes any key",
    definition: { ...line, config: z.strictObject({ server: open, token: z.string() }) },
    harness,
    caught: { [strictly]: /unknown key in "server"/ },
  },
  {
    what: "an ability is declared lacking that is there",
    definition: line,
    harness: { ...harness, lacks: { ...harness.lacks, reconcile: "we did not feel like it" } },
    caught: { "parts: are those the harness declares": /has reconcile, declared lacking/ },
  },
  {
    what: "an ability is lacking that is not declared",
    definition: altered(line, ({ inbound }) => ({ inbound: required(inbound), probe: undefined as never })),
    harness,
    caught: {
      "parts: are those the harness declares": /lacks probe, undeclared/,
      "probe: ready when all is well, and changes nothing": /declare "probe" lacking/,
      "probe: unauthorized when the login is rejected": /declare "probe" lacking/,
      "probe: degraded when nobody listens": /declare "probe" lacking/,
    },
  },
  {
    what: "a route goes without a sample",
    definition: altered(hook, ({ routes }) => ({
      routes: required(routes).flatMap((route) => [route, { ...route, path: "/unseen" as const }]),
    })),
    harness: hookHarness,
    caught: { "parts: are those the harness declares": /no sample for the http routes \/unseen/ },
  },
];

export const readingFlaws: readonly Flaw[] = [
  {
    what: "ready is reported without connecting",
    definition: reporting((status) => (status.state === "connecting" ? [] : [status])),
    harness,
    caught: { [states]: /first state reported was ready/ },
  },
  {
    what: "run returns by itself",
    definition: making(line, (create) => (channel, config) => {
      let enough = new AbortController();
      const report = (status: ChannelStatus) => {
        channel.report(status);
        if (status.state === "ready") void pass(50).then(() => enough.abort());
      };
      const { inbound, ...rest } = create({ ...methods(channel), report }, config);
      const run: Run = (from, signal) => {
        enough = new AbortController();
        return required(inbound).run(from, AbortSignal.any([signal, enough.signal]));
      };
      return { ...rest, inbound: { run } };
    }),
    harness,
    caught: { [states]: /nobody aborted it/, [acknowledges]: /in vain for: the acknowledgement/ },
  },
  {
    what: "a rejected login is reported as degraded",
    definition: reporting((status) => [
      status.state === "unauthorized" ? { ...status, state: "degraded" } : status,
    ]),
    harness,
    caught: { [login]: /in vain for: a report of unauthorized/ },
  },
  {
    what: "ready is reported before the login",
    definition: reporting((status) =>
      status.state === "connecting" ? [status, { state: "ready" }] : [status],
    ),
    harness,
    caught: { [login]: /ready was reported without a login/, [endsSilent]: /ready at a silent peer/ },
  },
  {
    what: "run does not hear the abort",
    definition: running((run, from) => run(from, new AbortController().signal)),
    harness,
    caught: { [ends]: /had not ended 1000 ms after/, [endsSilent]: /had not ended 1000 ms after/ },
  },
  {
    what: "run does not hear the abort while it connects",
    definition: making(line, (create) => (channel, config) => {
      let deaf = new AbortController();
      let hears = false;
      const report = (status: ChannelStatus) => {
        hears = status.state === "ready";
        channel.report(status);
      };
      const { inbound, ...rest } = create({ ...methods(channel), report }, config);
      const run: Run = (from, signal) => {
        deaf = new AbortController();
        signal.addEventListener("abort", () => hears && deaf.abort());
        return required(inbound).run(from, deaf.signal);
      };
      return { ...rest, inbound: { run } };
    }),
    harness,
    caught: { [endsSilent]: /had not ended 1000 ms after/ },
  },
  {
    what: "the acknowledgement does not wait for accept",
    definition: misled(line, (channel) => ({
      accept: (...given) => Promise.race([channel.accept(...given), pass(20, [])]),
    })),
    harness,
    caught: { [acknowledges]: /while accept was pending/ },
  },
  {
    what: "a rejected accept is taken for done",
    definition: misled(line, (channel) => ({
      accept: (...given) => channel.accept(...given).catch(() => []),
    })),
    harness,
    caught: { [stays]: /although accept rejected/, [sameId]: /in vain for: the rejected message once more/ },
  },
  {
    what: "the cursor is committed before the events",
    definition: misled(line, (channel) => ({
      accept: async (events, position) => {
        await channel.accept([], position);
        return channel.accept(events);
      },
    })),
    harness,
    caught: {
      [acknowledges]: /in vain for: a call of accept/,
      [stays]: /in vain for: "rejected \w+", whose accept had been rejected/,
      [sameId]: /in vain for: the rejected message once more/,
    },
  },
  {
    what: "every look gives a message a new id",
    definition: misled(line, (channel) => ({
      accept: (events, position) =>
        channel.accept(
          renamed(events, () => crypto.randomUUID()),
          position,
        ),
    })),
    harness,
    caught: { [sameId]: /one message came under the ids/ },
  },
  {
    what: "all messages share one id",
    definition: misled(line, (channel) => ({
      accept: (events, position) =>
        channel.accept(
          renamed(events, () => "one"),
          position,
        ),
    })),
    harness,
    caught: { [sameId]: /two messages came under the id one/, [stays]: /in vain/, [resumes]: /in vain/ },
  },
  {
    what: "a restarted run skips a message",
    definition: running((run, from, signal) =>
      run(from === null ? null : cursor(String(Number(from) + 1)), signal),
    ),
    harness,
    caught: { [resumes]: /in vain for: "meanwhile \w+", sent while run was down/ },
  },
  {
    what: "run goes to sleep when the line is cut",
    definition: running((run, from, signal) =>
      run(from, signal).catch(
        () => new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve())),
      ),
    ),
    harness,
    caught: { [comesBack]: /in vain for: "back \w+"/, [stays]: /in vain/, [sameId]: /in vain/ },
  },
];
