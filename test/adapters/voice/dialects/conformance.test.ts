// The conformance suite on the voice adapter with Telnyx, Retell and jambonz. What is sent is spoken into a call that
// the peer holds with each adapter; these channels place no calls.

import { createHmac, generateKeyPairSync, randomUUID, sign } from "node:crypto";
import { type Adapter, type RoutePath, sessionId } from "bridgehead/contract";
import {
  type Caller,
  describeAdapter,
  type Harness,
  type Peer,
  type RecordingChannel,
  type RequestSample,
  type Serving,
  type SessionSample,
  serveTest,
} from "bridgehead/contract/testing";
import voice from "../../../../adapters/voice/index.ts";
import { callToken } from "../../../../adapters/voice/proof.ts";
import plainVoice from "./plain-dialect.ts";

const person = "+15005550001";
const ours = "+15005550006";
type Address = (path: RoutePath) => URL;
const greeting = "Hello.";
const json = (value: unknown) => JSON.stringify(value);

/** What differs between the providers. */
interface Dialect {
  readonly block: Readonly<Record<string, unknown>>;
  readonly path: RoutePath;
  /** Further socket paths of the dialect: an upgrade that is let in, or one that is not. */
  others?(url: Address): readonly { readonly path: RoutePath; readonly request: (forged: boolean) => Request }[];
  requests(url: Address): readonly RequestSample[];
  /** A call with that id, up to its upgrade. */
  begin(adapter: Adapter, url: Address, call: string, now?: number): Promise<Caller>;
  /** An upgrade that is let in. */
  good(url: Address): Request;
  /** An upgrade request without a preceding webhook. */
  forged(url: Address): Request;
  /** The text that an outgoing frame speaks; null for other frames. */
  spoken(frame: string): string | null;
}

const lacks: Harness["lacks"] = {
  capacity: "a reply is spoken over its call's own connection",
  attachments: "nobody hears a file",
  inbound: "nobody is connected to: who calls finds us",
  acknowledge: "there is no inbound",
  reconcile: "nobody can tell what was heard of words in a call",
  credentials: "nothing is logged in to",
  "refuse-connection": "the call is connected, or there is none",
  "refuse-message": "no frame is refused",
  later: "no frame is put off",
  delay: "no frame is put off",
  "cut-before": "what was said in a call that was cut is the session's check",
  "cut-after": "frames are not answered",
  "hang-before": "frames are not answered",
  "hang-after": "frames are not answered",
  "server-error": "frames are not answered",
};

function peerOf(dialect: Dialect): Peer {
  const held: Serving[] = [];
  const session = `held-${randomUUID()}`;
  const isIt = (route: NonNullable<Adapter["routes"]>[number]) => route.kind === "socket";
  return {
    config: () => ({ ...dialect.block, greeting, fillers: { first: "30s" } }),
    fault: () => undefined,
    async stop() {
      for (const call of held) call.cut();
      await Promise.all(held.map(({ done }) => done));
    },
    async attach(adapter, channel) {
      const route = adapter.routes?.find(isIt);
      if (route?.kind !== "socket") throw new Error("the adapter has no socket");
      const caller = await dialect.begin(adapter, (path) => channel.url(path), session, channel.clock.now());
      const call = serveTest(route, caller.request);
      held.push(call);
      for (const frame of caller.opening) call.say(frame);
      // Our side of the greeting is the sign that the call is known; where the provider greets, the stored opening is.
      while ((await channel.session(sessionId(session))) === null) await new Promise(setImmediate);
      // Every check begins with a clean sheet.
      (channel as RecordingChannel & { readonly calls: unknown[] }).calls.length = 0;
    },
    reply: { to: [{ address: person }], session: sessionId(session) },
    delivered: () =>
      held
        .flatMap(({ sent }) => sent.flatMap((frame) => dialect.spoken(String(frame)) ?? []))
        .filter((text) => text !== greeting),
    requests: (url) => dialect.requests(url),
    upgrades: (url) => [
      {
        path: dialect.path,
        good: () => dialect.good(url),
        forged: () => dialect.forged(url),
      },
      ...(dialect.others?.(url) ?? []).map(({ path, request }) => ({
        path,
        good: () => request(false),
        forged: () => request(true),
      })),
    ],
    sessions: (url): readonly SessionSample[] => [
      { path: dialect.path, begin: (adapter) => dialect.begin(adapter, url, `call-${randomUUID()}`) },
    ],
  };
}

const upgrade = (url: URL, headers: Record<string, string> = {}) => new Request(url, { headers });

// Retell

const secret = "a-secret-of-some-length";
const apiKey = "key_0123456789";
const llm = (url: Address, call: string, key = secret) =>
  upgrade(new URL(`${url("/llm/*").href.replace("*", call)}?secret=${key}`));

const retell: Dialect = {
  block: { dialect: "retell", retell: { secret, api_key: apiKey } },
  path: "/llm/*",
  others: (url) => [
    {
      path: "/llm/*/*",
      request: (forged) => upgrade(new URL(`${url("/llm").href}/${forged ? "another" : secret}/call_1`)),
    },
    {
      path: "/llm",
      request: (forged) => upgrade(new URL(`${url("/llm").href}?secret=${forged ? "another" : secret}/call_1`)),
    },
  ],
  requests: (url) => {
    const posted = (key: string) => (text: string) => {
      const body = json({ event: "call_ended", call: { call_id: text } });
      const now = Date.now();
      const digest = createHmac("sha256", key).update(`${body}${now}`).digest("hex");
      const headers = { "x-retell-signature": `v=${now},d=${digest}` };
      return new Request(url("/events"), { method: "POST", headers, body });
    };
    return [{ path: "/events", accepts: false, good: posted(apiKey), forged: posted("another") }];
  },
  begin: async (_, url, call) => {
    const transcript: { role: string; content: string }[] = [];
    let asked = 0;
    const details = { call_id: call, direction: "inbound", from_number: person, to_number: ours };
    return {
      request: llm(url, call),
      opening: [json({ interaction_type: "call_details", call: details })],
      say: (content) => {
        transcript.push({ role: "agent", content: "Hello." }, { role: "user", content });
        return [json({ interaction_type: "response_required", response_id: ++asked, transcript })];
      },
    };
  },
  good: (url) => llm(url, "call_1"),
  forged: (url) => llm(url, "call_1", "another"),
  spoken: (frame) => (JSON.parse(frame) as { content?: string }).content ?? null,
};

// jambonz

const basic = (login: string) => ({ authorization: `Basic ${Buffer.from(login).toString("base64")}` });

const jambonz: Dialect = {
  block: { dialect: "jambonz", jambonz: { user: "jambonz", password: "a-password" } },
  path: "/relay",
  requests: () => [],
  begin: async (_, url, call) => {
    const message = (type: string, data: unknown, more = {}) =>
      json({ type, msgid: randomUUID().slice(0, 20), call_sid: call, ...more, data });
    return {
      request: upgrade(url("/relay"), basic("jambonz:a-password")),
      opening: [message("session:new", { direction: "inbound", from: person, to: ours })],
      say: (transcript) => [
        message("verb:hook", { speech: { is_final: true, alternatives: [{ transcript }] } }, { hook: "/turn" }),
      ],
    };
  },
  good: (url) => upgrade(url("/relay"), basic("jambonz:a-password")),
  forged: (url) => upgrade(url("/relay"), basic("jambonz:another")),
  spoken: (frame) => {
    const { data = [] } = JSON.parse(frame) as { data?: { verb: string; text?: string }[] };
    return data.find(({ verb }) => verb === "say")?.text ?? null;
  },
};

// Telnyx

const { publicKey, privateKey } = generateKeyPairSync("ed25519");
const stranger = generateKeyPairSync("ed25519").privateKey;

function webhook(
  url: Address,
  path: RoutePath,
  form: Record<string, string>,
  { key = privateKey, now = Date.now(), method = "POST" } = {},
): Request {
  const fields = new URLSearchParams({ From: person, To: ours, Direction: "inbound", ...form }).toString();
  const body = method === "POST" ? fields : "";
  const time = String(Math.floor(now / 1000));
  const signature = sign(null, Buffer.from(`${time}|${body}`), key).toString("base64");
  const headers = {
    "content-type": "application/x-www-form-urlencoded",
    "telnyx-timestamp": time,
    "telnyx-signature-ed25519": signature,
  };
  const address = url(path).href + (path === "/status" ? "?key=k1" : body === "" ? `?${fields}` : "");
  return new Request(address, { method, headers, ...(body !== "" && { body }) });
}
const forms: Readonly<Record<string, (text: string) => Record<string, string>>> = {
  "/call": (text) => ({ CallSid: text }),
  "/ended": (text) => ({ CallSid: text, CallStatus: "completed" }),
  "/dialed": (text) => ({ CallSid: text, DialCallStatus: "completed" }),
  "/voicemail": (text) => ({ CallSid: "v3:1", RecordingSid: text, RecordingUrl: "https://x.example/1" }),
  "/status": (text) => ({ CallSid: text, CallStatus: "busy" }),
  "/fallback": (text) => ({ CallSid: sidOf(text) }),
};
/** The log names calls. */
const sidOf = (text: string): string => Buffer.from(text).toString("hex");

const relay = (url: Address, token: string) =>
  upgrade(new URL(url("/relay/*").href.replace("*", `${Buffer.from("v3:1").toString("base64url")}~${token}`)));

const telnyx: Dialect = {
  block: {
    dialect: "telnyx",
    telnyx: {
      public_key: publicKey.export({ format: "der", type: "spki" }).toString("base64"),
      token_key: "a-key-for-tokens",
    },
    transfer: { dial: ["+15005550009"] },
  },
  path: "/relay/*",
  requests: (url) => [
    ...Object.entries(forms).map(([path, form]) => ({
      path: path as RoutePath,
      accepts: path === "/voicemail" || path === "/status",
      good: (text: string) => webhook(url, path as RoutePath, form(text)),
      forged: (text: string) => webhook(url, path as RoutePath, form(text), { key: stranger }),
    })),
    {
      path: "/fallback",
      accepts: false,
      good: (text) => webhook(url, "/fallback", { CallSid: sidOf(text) }, { method: "GET" }),
      forged: (text) => webhook(url, "/fallback", { CallSid: sidOf(text) }, { method: "GET", key: stranger }),
    },
  ],
  begin: async (adapter, url, call, now = Date.now()) => {
    const route = adapter.routes?.find((one) => one.kind === "http" && one.path === "/call");
    const answer =
      route?.kind === "http" ? await route.handle(webhook(url, "/call", { CallSid: call }, { now })) : null;
    const address = /url="ws([^"]+)"/.exec((await answer?.text()) ?? "")?.[1] ?? "";
    const setup = { type: "setup", callSid: "v2:x", from: person, to: ours, direction: "inbound" };
    return {
      request: upgrade(new URL(`http${address}`)),
      opening: [json(setup)],
      say: (voicePrompt) => [json({ type: "prompt", voicePrompt, lang: "en", last: true })],
    };
  },
  good: (url) => relay(url, callToken("a-key-for-tokens", "v3:1", Date.now() + 60_000)),
  forged: (url) => relay(url, callToken("another", "v3:1", Date.now() + 60_000)),
  spoken: (frame) => (JSON.parse(frame) as { token?: string }).token ?? null,
};

// A dialect of another package, in a single file

const line = (url: Address, key: string) => upgrade(new URL(`${url("/line").href}?secret=${key}`));

const plain: Dialect = {
  block: { plain: { secret } },
  path: "/line",
  requests: () => [],
  begin: async (_adapter, url, call) => ({
    request: line(url, secret),
    opening: [json({ type: "start", call: call.replace(/[^\w-]/g, ""), from: person })],
    say: (text) => [json({ type: "said", text })],
  }),
  good: (url) => line(url, secret),
  forged: (url) => line(url, "another"),
  spoken: (frame) => (JSON.parse(frame) as { text?: string }).text ?? null,
};

function harness(dialect: Dialect, more: Harness["lacks"] = {}): Harness {
  return { start: async () => peerOf(dialect), lacks: { ...lacks, ...more } };
}

describeAdapter(voice, harness(retell));
describeAdapter(voice, harness(jambonz, { http: "all of it goes over the socket" }));
describeAdapter(voice, harness(telnyx));
describeAdapter(plainVoice, harness(plain, { http: "all of it goes over the socket" }));
