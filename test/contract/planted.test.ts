// The suite can fail: every rule catches the flaw it is there for, and no rule cries wolf.

import { setTimeout as pass } from "node:timers/promises";
import {
  type Channel,
  externalId,
  type InboundEvent,
  type MessageEvent,
  type Socket,
  type SocketRoute,
} from "bridgehead/contract";
import { checks, exemption } from "bridgehead/contract/testing";
import { describe, expect, it } from "vitest";
import {
  altered,
  type Flaw,
  makingFlaws,
  misled,
  readingFlaws,
  required,
  sending,
  serveFlaws,
} from "../support/contract/flaws.ts";
import { endsFlaws } from "../support/contract/flaws-ends.ts";
import { remainsFlaws } from "../support/contract/flaws-remains.ts";
import { capacityFlaws, composeFlaws, fileFlaws, lookFlaws, sendFlaws } from "../support/contract/flaws-sending.ts";
import { typeFlaws } from "../support/contract/flaws-types.ts";
import call, { callHarness } from "./call-adapter.ts";

// Flaws in sessions over a socket, and in the events handed over.

const flaw = (what: string, definition: Flaw["definition"], caught: Flaw["caught"]): Flaw => ({
  what,
  definition,
  harness: callHarness,
  caught,
});

const order = "session: what is said is stored once, in order, in its session";
const cut = "session: a cut at any time ends serve within a second, and all its timers";
const pending = "session: a cut while accept is pending loses nothing";
const rejected = "session: what accept rejects is not lost in silence";
const answers = "session: an answer reaches the caller while the call lives, and is not called sent after it";
const events = "events: say what they must";

type Serve = SocketRoute["serve"];
const serving = (change: (serve: Serve, socket: Socket, request: Request, channel: Channel) => Promise<void>) =>
  altered(call, ({ routes }, channel) => ({
    routes: required(routes).map((route) => {
      if (route.kind !== "socket") return route;
      const serve: Serve = (socket, request) => route.serve(socket, request);
      return { ...route, serve: (socket, request) => change(serve, socket, request, channel) };
    }),
  }));
const saying = (change: (message: MessageEvent) => Partial<MessageEvent>) =>
  misled(call, (channel) => ({
    accept: (given) =>
      channel.accept(given.map((event) => (event.kind === "message" ? { ...event, ...change(event) } : event))),
  }));
const isMessage = (given: readonly InboundEvent[]) => given.some(({ kind }) => kind === "message");

const sessionFlaws: readonly Flaw[] = [
  flaw(
    "messages leave their session",
    saying(() => ({ thread: { answers: [] } })),
    {
      [order]: /a message outside of its session/,
      [answers]: /no message of a session/,
    },
  ),
  flaw(
    "every frame is stored twice",
    misled(call, (channel) => ({
      async accept(given) {
        if (isMessage(given))
          await channel.accept(given.map((event) => ({ ...event, id: externalId(`${event.id}/again`) })));
        return channel.accept(given);
      },
    })),
    { [order]: /was stored as one \w+, one \w+, two \w+/ },
  ),
  flaw(
    "the opening is never stored",
    misled(call, (channel) => ({
      accept: async (given) =>
        given.some((event) => event.kind === "session" && event.state === "opened") &&
        given[0]?.kind === "session" &&
        given[0].session !== "always"
          ? []
          : channel.accept(given),
    })),
    {
      [order]: /in vain for: the session opened at/,
      [cut]: /in vain for: the session opened at/,
      [pending]: /in vain for: the session opened at/,
      [rejected]: /in vain for: an end of the session whose opening was rejected/,
      [answers]: /in vain for: the session opened at/,
      [events]: /a message of a session that was not opened/,
    },
  ),
  flaw(
    "serve goes on long after the cut",
    serving(async (serve, socket, request, channel) => {
      await serve(socket, request);
      await channel.clock.sleep(100_000);
    }),
    {
      [order]: /1000 ms after the socket was cut at the end/,
      [cut]: /1000 ms after the socket was cut before the first frame/,
      [pending]: /1000 ms after the socket was cut while accept was pending/,
      [answers]: /1000 ms after the socket was cut after the answer/,
    },
  ),
  flaw(
    "a timer runs on when all is over",
    serving((serve, socket, request, channel) => {
      void channel.clock.sleep(100_000);
      return serve(socket, request);
    }),
    { [cut]: /\d timers ran on 1000 ms after all sockets were cut/ },
  ),
  flaw(
    "serve does not wait for its last accept",
    serving((serve, socket, request) => {
      const gone = new Promise<void>((resolve) => socket.signal.addEventListener("abort", () => resolve()));
      return Promise.race([serve(socket, request), gone]);
    }),
    { [pending]: /serve ended while accept was pending/ },
  ),
  flaw(
    "what was said is forgotten when the store is away",
    misled(call, (channel) => ({
      accept: (given) => (isMessage(given) ? channel.accept(given).catch(() => []) : channel.accept(given)),
    })),
    { [rejected]: /in vain for: a sign that "rejected \w+" was not stored/ },
  ),
  flaw(
    "a session goes on whose opening was rejected",
    misled(call, (channel) => ({
      accept: (given) => (isMessage(given) ? channel.accept(given) : channel.accept(given).catch(() => [])),
    })),
    { [rejected]: /in vain for: an end of the session whose opening was rejected/ },
  ),
  flaw(
    "words for a caller who is gone are called sent",
    sending(call, async (send, attempt, draft) => {
      const outcome = await send(draft, attempt);
      return outcome.kind === "deferred" ? { kind: "sent", id: externalId("into the void") } : outcome;
    }),
    { [answers]: /the session is over, and send came to sent/ },
  ),
  flaw(
    "the answer is put off while the caller waits",
    sending(call, async (send, attempt, draft) => {
      if ((draft as { session: string }).session === "always") return send(draft, attempt);
      await pass(10);
      return { kind: "deferred", reason: "not now" };
    }),
    { [answers]: /the answer to a live caller was not sent/ },
  ),
];

const eventFlaws: readonly Flaw[] = [
  flaw(
    "a message has no time",
    saying(() => ({ sentAt: new Date(Number.NaN) })),
    {
      [events]: /sentAt as object, expected a valid Date/,
    },
  ),
  flaw(
    "the time of a message is in seconds",
    saying(() => ({ sentAt: new Date(1_700_000_000) })),
    { [events]: /a message of 1970-01-20T16:13:20.000Z: a Date takes milliseconds/ },
  ),
  flaw(
    "a message has no sender",
    saying(() => ({ from: undefined as unknown as MessageEvent["from"] })),
    { [events]: /from as undefined, expected an object/ },
  ),
  flaw(
    "a person has no address",
    saying(() => ({ from: { address: "" } })),
    {
      [events]: /a sender without an address/,
    },
  ),
  flaw(
    "a sender is written unlike address() writes it",
    { ...saying(() => ({ from: { address: "Ann" } })), address: (text) => text.trim().toLowerCase() || null },
    { [events]: /a message from Ann, not ann/ },
  ),
  flaw(
    "a word of consent is refused as well",
    saying(() => ({ consent: { word: "stop" }, refusal: { code: "x", reason: "x" } })),
    {
      [events]: /both consent and refused/,
    },
  ),
  flaw(
    "humans are told something without a subject",
    saying(() => ({ forHumans: { subject: "" } })),
    {
      [events]: /for humans without a subject/,
    },
  ),
  flaw(
    "an attachment has no type",
    saying(() => ({ attachments: [{ name: "a.png", mediaType: "picture", bytes: new Uint8Array() }] })),
    { [events]: /an attachment of type picture/ },
  ),
  flaw(
    "an attachment has a field of another name for its type",
    saying(() => ({ attachments: [{ name: "a.png", type: "image/png", bytes: new Uint8Array() } as never] })),
    { [events]: /attachments\[0\].mediaType as undefined, expected a string/ },
  ),
  flaw(
    "an attachment is elsewhere, and nobody can fetch it",
    saying(() => ({ attachments: [{ name: "a.png", mediaType: "image/png", ref: "there" }] })),
    { [events]: /no open to fetch it/ },
  ),
  flaw(
    "the length of a call is no number",
    misled(call, (channel) => ({
      accept: (given) =>
        channel.accept(given.map((event) => (event.kind === "session" ? { ...event, durationMs: Number.NaN } : event))),
    })),
    { [events]: /a call of NaN ms/ },
  ),
];

const flaws = [
  ...makingFlaws,
  ...readingFlaws,
  ...composeFlaws,
  ...sendFlaws,
  ...capacityFlaws,
  ...fileFlaws,
  ...lookFlaws,
  ...serveFlaws,
  ...sessionFlaws,
  ...eventFlaws,
  ...remainsFlaws,
  ...endsFlaws,
  ...typeFlaws,
];

/** What fails, by the name of the check, with its message. */
async function failures({ definition, harness }: Flaw): Promise<Record<string, string>> {
  const failed: Record<string, string> = {};
  const applying = checks.filter((check) => exemption(check, harness) === null);
  await Promise.all(
    applying.map((check) =>
      check.run({ definition, harness: { ...harness, patienceMs: 2000 } }).catch((error: unknown) => {
        failed[check.name] = error instanceof Error ? error.message : String(error);
      }),
    ),
  );
  return failed;
}

describe("a planted flaw is caught by the right rules, and by no other", () => {
  it.concurrent.each(flaws.map((flaw) => [flaw.what, flaw] as const))("%s", async (_what, flaw) => {
    const expected = Object.entries(flaw.caught).map(([name, text]) => [name, expect.stringMatching(text)]);
    expect(await failures(flaw)).toEqual(Object.fromEntries(expected));
  });
});

describe("the suite as a whole", () => {
  it("has a planted flaw for every rule", () => {
    const caught = new Set(flaws.flatMap((flaw) => Object.keys(flaw.caught)));
    expect(checks.map((check) => check.name).filter((name) => !caught.has(name))).toEqual([]);
  });

  it("gives every rule a name of its own", () => {
    expect(new Set(checks.map((check) => check.name)).size).toBe(checks.length);
  });

  it("names the ability and the reason of an exemption", () => {
    const check = checks.find((one) => one.name.startsWith("reconcile"));
    expect(check && exemption(check, { start: () => Promise.reject(), lacks: { reconcile: "no search" } })).toBe(
      "reconcile: no search",
    );
  });
});
