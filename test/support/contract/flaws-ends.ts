// Flaws in the definition, in what is old or our own, in the end of a channel, and in what the log reveals.

import {
  type Adapter,
  type AdapterDefinition,
  type Channel,
  externalId,
  type Outbound,
  type Remark,
} from "bridgehead/contract";
import type { Harness } from "bridgehead/contract/testing";
import * as z from "zod";
import { hookHarness } from "../../contract/hook-adapter.ts";
import line from "../../contract/line-adapter.ts";
import { lineHarness } from "../../contract/line-peer.ts";
import { altered, type Flaw, flaw, handling, misled, required, sending } from "./flaws.ts";

const traits = "definition: has traits that the core knows";
const review = "definition: review names keys and remedies, and takes the harness's block";
const exclusive = "definition: exclusive names keys, and no secret";
const address = "definition: address knows what the channel reaches, and keeps its own form";
const secret = "config: credentials are marked as secret";
const forged = "http: a forged request is 403 and accepts nothing";
const login = "send: deferred when the login is rejected";
const vague = "send: unknown when the peer's error does not tell whether it took the message";
const ends = "inbound: run ends within a second of the abort";
const words = "compose: keeps every word of a long answer";
const history = "inbound: messages from before the channel's first run are not new";
const own = "inbound: our own messages are no messages of people";
const comesBack = "inbound: reads on after the peer was away";
const twice = "inbound: a message that is posted and listed has one id";
const closes = "close: ends with its signal, never throws, and leaves no connection and no timer";
const people = "log: contains no text of a message and no address";

const remark: Remark = { severity: "warning", path: ["token"], message: "is short", fix: "use a longer one" };
const reviewed = (...remarks: readonly Partial<Remark>[]): AdapterDefinition => ({
  ...line,
  review: () => remarks.map((one) => ({ ...remark, ...one })),
});
const resource = { id: "line:1", name: "the line", key: ["server"] };
const naming = (more: (config: { readonly token: string }) => Partial<typeof resource>): AdapterDefinition => ({
  ...line,
  exclusive: (config) => [{ ...resource, ...more(config as { readonly token: string }) }],
});
let named = 0;

const definitionFlaws: readonly Flaw[] = [
  flaw(
    "messages are grouped by a word that the core does not know",
    { ...line, traits: { ...line.traits, conversations: "chat" as "person" } },
    { [traits]: /traits.conversations is chat/ },
  ),
  flaw(
    "the platform's name is written in capitals",
    { ...line, traits: { ...line.traits, platform: "LIVE-CHAT" } },
    { [traits]: /traits.platform is LIVE-CHAT/ },
  ),
  flaw(
    "a default is no value of the file",
    { ...line, traits: { ...line.traits, defaults: { debounce: undefined as never } } },
    { [traits]: /not written as in the file/ },
  ),
  flaw("a remark is about a key that does not exist", reviewed({ path: ["tokn"] }), {
    [review]: /no key of the block/,
  }),
  flaw("a remark has no remedy", reviewed({ fix: "" }), { [review]: /lacks its message or its fix/ }),
  flaw("a remark has another severity", reviewed({ severity: "fatal" as "error" }), { [review]: /severity fatal/ }),
  flaw("review rejects a block that works", reviewed({ severity: "error" }), { [review]: /own block: is short/ }),
  flaw(
    "review fails without an address for providers",
    { ...line, review: (_, { publicUrl }) => ((publicUrl as URL).href.length > 0 ? [] : [remark]) },
    { [review]: /null/ },
  ),
  flaw(
    "an exclusive resource contains the token",
    naming(({ token }) => ({ id: `line:${token}` })),
    {
      [exclusive]: /names a secret/,
    },
  ),
  flaw(
    "an exclusive resource names no key",
    naming(() => ({ key: ["sever"] })),
    { [exclusive]: /no key of the block/ },
  ),
  flaw(
    "an exclusive resource has no name",
    naming(() => ({ name: "" })),
    { [exclusive]: /without id or name/ },
  ),
  flaw(
    "an exclusive resource has another id each time",
    naming(() => ({ id: `line:${(named += 1)}` })),
    {
      [exclusive]: /named two resources/,
    },
  ),
  flaw(
    "address() does not know whom the channel reaches",
    { ...line, address: () => null },
    {
      [address]: /does not know ann/,
    },
  ),
  flaw(
    "address() changes its own form",
    { ...line, address: (text) => (text.trim() === "" ? null : `line:${text.trim()}`) },
    {
      [address]: /made line:ann of ann, and line:line:ann of that/,
      "events: say what they must": /a message from ann, not line:ann/,
    },
  ),
  flaw(
    "address() keeps spaces",
    { ...line, address: (text) => (text.trim() === "" ? null : text) },
    {
      [address]: /between spaces/,
    },
  ),
  flaw(
    "address() makes an address of nothing",
    { ...line, address: (text) => text.trim() },
    {
      [address]: /made "" of ""/,
    },
  ),
  flaw(
    "the token is not marked as secret",
    {
      ...line,
      config: z.strictObject({ server: z.strictObject({ host: z.string(), port: z.number() }), token: z.string() }),
    },
    { [secret]: /not marked as secret: token/ },
  ),
];

const webhookFlaws: readonly Flaw[] = [
  flaw(
    "a request is parsed before it is verified",
    handling(async (handle, request) => {
      JSON.parse(await request.clone().text());
      return handle(request);
    }),
    { [forged]: /answered 503 to a forged request with a body that cannot be parsed/ },
    hookHarness,
  ),
  flaw(
    "a missing signature is an exception",
    handling((handle, request) => {
      if (request.headers.get("x-signature")?.length === undefined) throw new Error("no signature");
      return handle(request);
    }),
    { [forged]: /answered 503 to a forged request without its headers/ },
    hookHarness,
  ),
  flaw(
    "an empty signature is valid",
    handling(async (handle, request, channel) => {
      if (request.headers.get("x-signature") !== "") return handle(request);
      await channel.accept([]);
      return new Response(null, { status: 204 });
    }),
    { [forged]: /answered 204 to a forged request with empty headers/ },
    hookHarness,
  ),
];

/** The line adapter that reports a rejected login as this outcome. */
const rejecting = (outcome: Awaited<ReturnType<Outbound["send"]>>) =>
  sending(line, (send, attempt, draft) =>
    send(draft, attempt).catch((error: unknown) => {
      if (String(error).includes("denied the login")) return outcome;
      throw error;
    }),
  );

type Run = NonNullable<Adapter["inbound"]>["run"];
const running = (change: (run: Run, channel: Channel, adapter: Adapter) => Run) =>
  altered(line, (adapter, channel) => ({
    inbound: { run: change((start, signal) => required(adapter.inbound).run(start, signal), channel, adapter) },
  }));

const readingFlaws: readonly Flaw[] = [
  flaw(
    "run sleeps without the signal",
    running((run, channel) => async (start, signal) => {
      await run(start, signal);
      await channel.clock.sleep(10);
    }),
    { [ends]: /had not ended 1000 ms after the abort/ },
  ),
  flaw(
    "all that the peer has is new",
    misled(line, (channel) => ({
      identity: async () => ({ ...(await channel.identity()), since: new Date(0) }),
    })),
    { [history]: /a message from before the first run is to be answered/ },
  ),
  flaw(
    "our own messages are read as messages of people",
    altered(line, ({ outbound }, channel) => ({
      outbound: {
        ...required(outbound),
        send: async (draft, attempt) => {
          const outcome = await required(outbound).send(draft, attempt);
          const { to, text } = draft as { readonly to: string; readonly text: string };
          const sentAt = new Date(channel.clock.now());
          const id = externalId(`line/own/${attempt.key}`);
          // The peer lists it, and the next look finds it.
          if (outcome.kind === "sent")
            await channel.accept([
              { kind: "message", id, from: { address: to }, to: [], thread: { answers: [] }, sentAt, text },
            ]);
          return outcome;
        },
      },
    })),
    { [own]: /our own message is to be answered/ },
  ),
  flaw(
    "the state stays degraded after an outage",
    misled(line, (channel) => {
      let failed = false;
      return {
        report: (status) => {
          failed ||= status.state === "degraded";
          if (!failed || status.state === "degraded") channel.report(status);
        },
      };
    }),
    { [comesBack]: /in vain for: a report of ready/ },
  ),
];

const outboundFlaws: readonly Flaw[] = [
  flaw("a rejected login refuses the draft", rejecting({ kind: "refused", code: "denied", reason: "denied" }), {
    [login]: /the peer rejects the login, and send came to .*refused/,
  }),
  flaw("a rejected login defers one draft only", rejecting({ kind: "deferred", reason: "denied" }), {
    [login]: /every draft meets the rejected login/,
  }),
  flaw(
    "an error of the server defers the draft",
    sending(line, async (send, attempt, draft) => {
      const outcome = await send(draft, attempt);
      return outcome.kind === "unknown" ? { kind: "deferred", reason: "the server is broken" } : outcome;
    }),
    { [vague]: /expected unknown, and send came to .*deferred/ },
  ),
  flaw(
    "an answer ends at the limit",
    altered(line, ({ outbound }) => ({
      outbound: {
        ...required(outbound),
        compose: (reply) => required(outbound).compose({ ...reply, text: reply.text.slice(0, 1600) }),
      },
    })),
    { [words]: /compose lost \d+ of 1800 words/ },
  ),
];

const beats = new Set<NodeJS.Timeout>();
const endFlaws: readonly Flaw[] = [
  flaw(
    "close throws",
    altered(line, () => ({ close: () => Promise.reject(new Error("the pool is gone")) })),
    { [closes]: /close threw Error: the pool is gone/ },
  ),
  flaw(
    "close does not hear its signal",
    altered(line, () => ({ close: () => new Promise<void>(() => undefined) })),
    { [closes]: /close had not ended 1000 ms after its signal/ },
  ),
  flaw(
    "a timer of send runs on after close",
    sending(line, (send, attempt, draft) => {
      const beat = setTimeout(() => beats.delete(beat), 20_000);
      beats.add(beat);
      return send(draft, attempt);
    }),
    { [closes]: /after close, there remained Timeout/ },
  ),
];

const longName = "ann@line.example";
/** The line peer with an address that is no word. */
const addressed: Harness = {
  ...lineHarness,
  start: async () =>
    Object.defineProperty(await lineHarness.start(), "reply", { value: { to: [{ address: longName }] } }),
};

const logFlaws: readonly Flaw[] = [
  flaw(
    "the text of a message is logged",
    misled(line, (channel) => ({
      accept: (events, position) => {
        for (const event of events)
          if (event.kind === "message") channel.log.debug({ text: event.text }, "message read");
        return channel.accept(events, position);
      },
    })),
    { [people]: /contains the text of a message/ },
  ),
  flaw(
    "the address of a recipient is logged",
    altered(line, ({ outbound }, channel) => ({
      outbound: {
        ...required(outbound),
        send: (draft, attempt) => {
          channel.log.debug({ to: (draft as { to: string }).to }, "sending");
          return required(outbound).send(draft, attempt);
        },
      },
    })),
    { [people]: /contains the address of a person/ },
    addressed,
  ),
];

const { http: _noWeb, ...withHttp } = lineHarness.lacks ?? {};
/** The line peer that also posts what it lists. */
const posting: Harness = {
  ...lineHarness,
  lacks: withHttp,
  start: async () => {
    const peer = await lineHarness.start();
    const said: string[] = [];
    return Object.assign(Object.create(peer), {
      say: async (text: string) => {
        said.push(text);
        await peer.say?.(text);
      },
      requests: (url: Channel["url"]) => {
        const make = (key: string) => (text: string) =>
          new Request(url("/posted"), {
            method: "POST",
            headers: { "x-key": key },
            body: JSON.stringify({ seq: said.includes(text) ? said.indexOf(text) + 1 : `new ${text}`, text }),
          });
        return [{ path: "/posted", accepts: true, good: make("open sesame"), forged: make("open barley") }];
      },
    });
  },
};

const listFlaws: readonly Flaw[] = [
  flaw(
    "a webhook gives a message another id than the list",
    altered(line, (_, channel) => ({
      routes: [
        {
          kind: "http",
          method: "POST",
          path: "/posted",
          async handle(request) {
            if (request.headers.get("x-key") !== "open sesame") return new Response(null, { status: 403 });
            const { seq, text } = (await request.json()) as { readonly seq: number; readonly text: string };
            const sentAt = new Date(channel.clock.now());
            const id = externalId(`posted/${seq}`);
            const from = { address: "ann" };
            await channel.accept([{ kind: "message", id, from, to: [], thread: { answers: [] }, sentAt, text }]);
            return new Response(null, { status: 204 });
          },
        },
      ],
    })),
    { [twice]: /the ids line\/1, posted\/1/ },
    posting,
  ),
];

export const endsFlaws: readonly Flaw[] = [
  ...definitionFlaws,
  ...webhookFlaws,
  ...readingFlaws,
  ...outboundFlaws,
  ...endFlaws,
  ...logFlaws,
  ...listFlaws,
];
