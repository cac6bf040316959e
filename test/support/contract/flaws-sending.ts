// Flaws in composing, sending and looking.

import { readFileSync } from "node:fs";
import {
  type Adapter,
  type Attempt,
  externalId,
  type Json,
  type Outbound,
  type SendOutcome,
  sendKey,
  sessionId,
} from "bridgehead/contract";
import { type Harness, noFiles } from "bridgehead/contract/testing";
import PQueue from "p-queue";
import call, { callHarness } from "../../contract/call-adapter.ts";
import line from "../../contract/line-adapter.ts";
import { altered, type Flaw, flaw, limitedHarness, required, sending } from "./flaws.ts";

const parts = "parts: are those the harness declares";
const once = "send: sent, once, when all is well";
const crosses = "send: calls crossing(), and before the first byte with an effect";
const waits = "send: waits for crossing(), and sends nothing when the attempt ends there";
const capacity = "capacity: falls with running sends, and is the number that can begin";
const without = "capacity: where there is none, no send waits for another";
const inSession = "session: an answer needs no capacity where the adapter declares that, and lowers none";
const refusedLine = "send: deferred when the connection is refused";
const never = "send: refused when the peer says never";
const later = "send: deferred when the peer says later";
const login = "send: deferred when the login is rejected";
const cutBefore = "send: deferred when the line is cut before the crossing";
const hangBefore = "send: deferred when the peer is silent before the crossing";
const cutAfter = "send: unknown when the line is cut after the crossing";
const hangAfter = "send: unknown when the peer is silent after the crossing";
const wholeFiles = "files: arrive whole, whichever process sends them";
const unreadFiles = "files: nothing is sent while one cannot be read";
const finds = "reconcile: finds what was sent";
const misses = "reconcile: does not find what was not sent";
const unsure = "reconcile: is unsure of a peer that is away";

const composing = (
  change: (compose: Outbound["compose"], ...given: Parameters<Outbound["compose"]>) => readonly Json[],
) =>
  altered(line, ({ outbound }) => ({
    outbound: {
      ...required(outbound),
      compose: (reply) => change((one) => required(outbound).compose(one), reply),
    },
  }));
const object = (draft: Json) => draft as { readonly [key: string]: Json };

export const composeFlaws: readonly Flaw[] = [
  flaw(
    "a draft carries the time of day",
    altered(line, ({ outbound }, { clock }) => ({
      outbound: {
        ...required(outbound),
        compose: (reply) =>
          required(outbound)
            .compose(reply)
            .map((draft) => ({ ...object(draft), at: Math.floor(clock.now() / 60_000) })),
      },
    })),
    { "compose: is deterministic": /an hour later/ },
  ),
  flaw(
    "a draft carries a random number",
    composing((compose, reply) => compose(reply).map((draft) => ({ ...object(draft), id: crypto.randomUUID() }))),
    { "compose: is deterministic": /two things of one reply/ },
  ),
  flaw(
    "a draft carries a Date",
    composing((compose, reply) =>
      compose(reply).map((draft) => ({ ...object(draft), at: reply.createdAt as unknown as Json })),
    ),
    { "compose: its drafts survive JSON": /changes when it is stored/ },
  ),
  flaw(
    "compose writes into the reply",
    composing((compose, reply) => {
      (reply.history as unknown[]).push("more");
      return compose(reply);
    }),
    { "compose: is pure": /changed the reply/ },
  ),
  flaw(
    "compose reads a file",
    composing((compose, reply) => {
      readFileSync(import.meta.filename);
      return compose(reply);
    }),
    { "compose: is pure": /readFileSync/ },
  ),
];

const or = (work: Promise<SendOutcome>, outcome: SendOutcome) => work.catch(() => outcome);
const silent = { crossing: () => Promise.resolve(), read: noFiles };

export const sendFlaws: readonly Flaw[] = [
  flaw(
    "send forgets to call crossing()",
    sending(line, (send, attempt, draft) => send(draft, { ...attempt, crossing: () => Promise.resolve() })),
    {
      [crosses]: /never called crossing/,
      [waits]: /did not wait/,
      [without]: /in vain for: 65 sends at the crossing/,
      [cutAfter]: /expected unknown/,
      [hangAfter]: /expected unknown/,
    },
  ),
  flaw(
    "send calls crossing() when the peer has answered",
    sending(line, async (send, attempt, draft) => {
      const outcome = await send(draft, { ...attempt, crossing: () => Promise.resolve() });
      await attempt.crossing();
      return outcome;
    }),
    {
      [crosses]: /gone out already/,
      [waits]: /did not wait/,
      [cutAfter]: /expected unknown/,
      [hangAfter]: /expected unknown/,
    },
  ),
  flaw(
    "send calls crossing() before it connects",
    sending(line, async (send, attempt, draft) => {
      await attempt.crossing();
      return send(draft, { ...attempt, crossing: () => Promise.resolve() });
    }),
    {
      [login]: /came to a throw after crossing\(\) had resolved: Error: the server denied the login/,
      [refusedLine]: /expected deferred/,
      [cutBefore]: /expected deferred/,
      [hangBefore]: /expected deferred/,
      [unreadFiles]: /came to/,
    },
  ),
  flaw(
    "send does not await crossing()",
    sending(line, (send, attempt, draft) => {
      const crossing = async () => void attempt.crossing().catch(() => undefined);
      return send(draft, { ...attempt, crossing });
    }),
    { [waits]: /did not wait/, [crosses]: /crossing\(\) rejected, and send came to .*sent/ },
  ),
  flaw(
    "send gives crossing() a tenth of a second",
    sending(line, (send, attempt, draft) => {
      const soon = () => new Promise<void>((resolve) => setTimeout(resolve, 50));
      return send(draft, { ...attempt, crossing: () => Promise.race([attempt.crossing(), soon()]) });
    }),
    { [waits]: /did not wait/ },
  ),
  flaw(
    "every failure is called unknown",
    sending(line, (send, attempt, draft) => or(send(draft, attempt), { kind: "unknown", reason: "who knows" })),
    {
      [login]: /came to .*unknown/,
      [refusedLine]: /expected deferred/,
      [cutBefore]: /expected deferred/,
      [hangBefore]: /expected deferred/,
      [unreadFiles]: /came to/,
      [crosses]: /crossing\(\) rejected, and send came to .*unknown/,
      [waits]: /the attempt ended .*unknown/,
    },
  ),
  flaw(
    "every failure is called deferred",
    sending(line, (send, attempt, draft) => or(send(draft, attempt), { kind: "deferred", reason: "again" })),
    { [cutAfter]: /expected unknown/, [hangAfter]: /expected unknown/, [login]: /every draft meets/ },
  ),
  flaw(
    "send hopes for the best after the crossing",
    sending(line, async (send, attempt, draft) => {
      let crossed = false;
      const crossing = async () => {
        await attempt.crossing();
        crossed = true;
      };
      return send(draft, { ...attempt, crossing }).catch((error: unknown) => {
        if (crossed) return { kind: "sent", id: externalId("surely") };
        throw error;
      });
    }),
    { [cutAfter]: /expected unknown/, [hangAfter]: /expected unknown/ },
  ),
  flaw(
    "send tries again by itself",
    sending(line, (send, attempt, draft) =>
      send(draft, attempt).catch(() => send(draft, { ...attempt, key: sendKey("again") })),
    ),
    { [cutAfter]: /more than once/ },
  ),
  flaw(
    "send sends twice",
    sending(line, async (send, attempt, draft) => {
      const outcome = await send(draft, attempt);
      return outcome.kind === "sent" ? send(draft, attempt) : outcome;
    }),
    { [once]: /more than once/, [finds]: /sent the message again/ },
  ),
  flaw(
    "a refusal is called a delay",
    sending(line, async (send, attempt, draft) => {
      const outcome = await send(draft, attempt);
      return outcome.kind === "refused" ? { kind: "deferred", reason: "hope" } : outcome;
    }),
    { [never]: /expected refused/ },
  ),
  flaw(
    "a delay is called a refusal",
    sending(line, async (send, attempt, draft) => {
      const outcome = await send(draft, attempt);
      return outcome.kind === "deferred" ? { kind: "refused", code: "busy", reason: "busy" } : outcome;
    }),
    { [later]: /expected deferred/ },
  ),
  flaw(
    "a refusal gives no reason",
    sending(line, async (send, attempt, draft) => {
      const outcome = await send(draft, attempt);
      return outcome.kind === "refused" ? { ...outcome, reason: "" } : outcome;
    }),
    { [never]: /without reason/ },
  ),
  flaw(
    "send does not hear its signal",
    sending(line, (send, attempt, draft) => send(draft, { ...attempt, signal: new AbortController().signal })),
    {
      "send: ends when its signal has aborted before": /had not ended after/,
      [hangBefore]: /had not ended 1000 ms after/,
      [hangAfter]: /had not ended 1000 ms after/,
    },
  ),
];

/** The line adapter with at most `most` sends at once, which announces `capacity` instead. */
const bounded = (most: number, capacity: (running: number) => number) =>
  altered(line, ({ outbound }) => {
    const queue = new PQueue({ concurrency: most });
    return {
      outbound: {
        ...required(outbound),
        capacity: () => capacity(queue.size + queue.pending),
        send: (draft, attempt) => queue.add(() => required(outbound).send(draft, attempt)),
      },
    };
  });

const capacityFlaw = (...given: Parameters<typeof flaw>): Flaw => ({ ...flaw(...given), harness: limitedHarness });

/** The call adapter with drafts outside sessions as well (the harness's own replies), two of them at once. `queued`: the
 *  drafts that wait for their turn and lower the capacity. */
const placing = (queued: (outside: boolean) => { readonly waits: boolean; readonly counts: boolean }) =>
  altered(call, ({ outbound }) => {
    const most = 2;
    const queue = new PQueue({ concurrency: most });
    let counted = 0;
    return {
      outbound: {
        ...required(outbound),
        unlimitedInSessions: true,
        capacity: () => Math.max(0, most - counted),
        compose: (reply) =>
          required(outbound)
            .compose({ ...reply, session: reply.session ?? sessionId("always") })
            .map((draft) => ({ ...object(draft), outside: reply.session === null })),
        async send(draft, attempt) {
          const { outside, ...own } = object(draft);
          const { waits: isQueued, counts } = queued(outside === true);
          const speak = () => required(outbound).send(own, attempt);
          if (counts) counted += 1;
          return (isQueued ? queue.add(speak) : speak()).finally(() => {
            if (counts) counted -= 1;
          });
        },
      },
    };
  });
const { capacity: _sockets, ...callLacks } = callHarness.lacks ?? {};
const placingHarness: Harness = {
  ...callHarness,
  lacks: callLacks,
  start: async () => ({ ...(await callHarness.start()), reply: { to: [{ address: "ann" }] } }),
};
const placingFlaw = (...given: Parameters<typeof flaw>): Flaw => ({ ...flaw(...given), harness: placingHarness });

export const capacityFlaws: readonly Flaw[] = [
  flaw(
    "sends wait for each other, and there is no capacity()",
    altered(line, ({ outbound }) => {
      const queue = new PQueue({ concurrency: 32 });
      const send: Outbound["send"] = (draft, attempt) => queue.add(() => required(outbound).send(draft, attempt));
      return { outbound: { ...required(outbound), send } };
    }),
    { [without]: /in vain for: 65 sends at the crossing/ },
  ),
  placingFlaw(
    "an answer in a session waits for drafts outside of sessions",
    placing((outside) => ({ waits: true, counts: outside })),
    { [inSession]: /was not sent while capacity\(\) was 0/ },
  ),
  placingFlaw(
    "an answer in a session lowers the capacity for others",
    placing((outside) => ({ waits: outside, counts: true })),
    { [inSession]: /counts a reply in a session/ },
  ),
  capacityFlaw("capacity() is missing without a reason", line, {
    "capacity: a send that fails frees its slot": /no capacity\(\)/,
    [parts]: /lacks capacity, undeclared/,
    [capacity]: /no capacity\(\), and the harness does not declare "capacity" lacking/,
  }),
  capacityFlaw(
    "capacity() is infinite",
    bounded(3, () => Number.POSITIVE_INFINITY),
    { [capacity]: /returned Infinity/ },
  ),
  capacityFlaw(
    "capacity() does not count running sends",
    bounded(3, () => 3),
    { [capacity]: /did not fall/ },
  ),
  capacityFlaw(
    "capacity() becomes negative",
    bounded(3, (running) => 3 - running),
    { [capacity]: /returned -1/ },
  ),
  capacityFlaw(
    "capacity() announces more than can begin",
    bounded(3, (running) => Math.max(0, 5 - running)),
    { [capacity]: /as many sends at the crossing/ },
  ),
  capacityFlaw(
    "capacity() announces fewer than can begin",
    bounded(5, (running) => Math.max(0, 3 - running)),
    { [capacity]: /more sends began/ },
  ),
  capacityFlaw(
    "capacity() stays lower after a send",
    (() => {
      let ended = 0;
      return bounded(3, (running) => {
        ended = Math.max(ended, running);
        return Math.max(0, 3 - Math.max(running, ended > 3 ? 1 : 0));
      });
    })(),
    { [capacity]: /did not rise again/ },
  ),
];

type Reconcile = NonNullable<Outbound["reconcile"]>;
const looking = (change: (outbound: Outbound, ...given: Parameters<Reconcile>) => ReturnType<Reconcile>) =>
  altered(line, ({ outbound }) => ({
    outbound: {
      ...required(outbound),
      reconcile: (...given) => change(required(outbound), ...given),
    },
  }));
const probing = (probe: (adapter: Adapter, signal: AbortSignal) => ReturnType<NonNullable<Adapter["probe"]>>) =>
  altered(line, (adapter) => ({ probe: (signal) => probe(adapter, signal) }));
const reconciled = (outbound: Outbound, ...given: Parameters<Reconcile>) =>
  required(outbound.reconcile?.bind(outbound))(...given);

const broken: Attempt["read"] = () => Promise.resolve(new Uint8Array());

export const fileFlaws: readonly Flaw[] = [
  flaw(
    "files are left out",
    composing((compose, reply) => compose({ ...reply, attachments: [] })),
    { [wholeFiles]: /did not arrive as they were/, [unreadFiles]: /came to .*sent/ },
  ),
  flaw(
    "files are sent as text",
    sending(line, (send, attempt, draft) => {
      const read: Attempt["read"] = async (ref) => Buffer.from(Buffer.from(await attempt.read(ref)).toString("utf8"));
      return send(draft, { ...attempt, crossing: () => attempt.crossing(), read });
    }),
    { [wholeFiles]: /did not arrive as they were/ },
  ),
  flaw(
    "what cannot be read is sent empty",
    sending(line, (send, attempt, draft) => {
      const read: Attempt["read"] = (ref) => attempt.read(ref).catch(() => broken(ref));
      return send(draft, { ...attempt, crossing: () => attempt.crossing(), read });
    }),
    { [unreadFiles]: /came to .*sent/ },
  ),
];

export const lookFlaws: readonly Flaw[] = [
  flaw(
    "reconcile believes that all was sent",
    looking(async () => ({ kind: "sent", id: externalId("surely") })),
    { [misses]: /says sent/, [unsure]: /says sent/ },
  ),
  flaw(
    "reconcile takes silence for absence",
    looking(async (outbound, ...given) => {
      const finding = await reconciled(outbound, ...given);
      return finding.kind === "unsure" ? { kind: "not-sent" } : finding;
    }),
    { [unsure]: /says not-sent/ },
  ),
  flaw(
    "reconcile never finds anything",
    looking(async (outbound, ...given) => {
      const finding = await reconciled(outbound, ...given);
      return finding.kind === "sent" ? { kind: "not-sent" } : finding;
    }),
    { [finds]: /says not-sent/ },
  ),
  flaw(
    "reconcile sends again to find out",
    looking(async (outbound, draft, past, signal) => {
      await outbound.send(draft, { ...past, ...silent, signal });
      return reconciled(outbound, draft, past, signal);
    }),
    { [finds]: /sent the message again/, [misses]: /says sent/ },
  ),
  flaw(
    "probe always says ready",
    probing(async () => ({ state: "ready" })),
    {
      "probe: unauthorized when the login is rejected": /says ready/,
      "probe: degraded when nobody listens": /says ready/,
    },
  ),
  flaw(
    "probe sends a test message",
    probing(async (adapter, signal) => {
      const attempt = { key: sendKey("probe"), number: 1, signal, ...silent };
      await adapter.outbound?.send({ to: "ann", text: "a test", files: [] }, attempt).catch(() => undefined);
      return required(adapter.probe?.bind(adapter))(signal);
    }),
    { "probe: ready when all is well, and changes nothing": /probe sent something/ },
  ),
];
