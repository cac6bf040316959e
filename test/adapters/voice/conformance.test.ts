// The contract's own suite over this adapter as Twilio meets it: webhooks and upgrades signed by Twilio's code, and calls placed
// through a Twilio interface on a real socket.

import { randomUUID } from "node:crypto";
import type { Adapter, RoutePath } from "bridgehead/contract";
import { describeAdapter, type Harness, type Peer, type Fault as PeerFault } from "bridgehead/contract/testing";
import voice from "../../../adapters/voice/index.ts";
import { SmsApi } from "../../../src/sandbox/sms-api.ts";
import type { SmsFault } from "../../../src/sandbox/sms-faults.ts";
import { signature } from "../../../src/sandbox/twilio-webhooks.ts";

const account = { accountSid: `AC${"0".repeat(32)}`, authToken: "the-token", number: "+15005550006" };
const person = "+15005550001";

const faults: Partial<Record<PeerFault | "none", SmsFault>> = {
  "refuse-message": { code: 21211 },
  later: { code: 20429, status: 429, retryAfter: 1 },
  "cut-after": "cut-stored",
  "hang-after": "hang-stored",
  "server-error": { status: 502 },
};

/** The text encoded in the URL that the provider requests when the callee answers. */
const wordsIn = (url: string): string =>
  Buffer.from(new URL(url).searchParams.get("say") ?? "", "base64url").toString();

/** A number that is the same for the same text. */
const sidOf = (text: string): string => `CA${Buffer.from(text).toString("hex").slice(0, 64)}`;

const forms: Readonly<Record<string, (text: string) => Record<string, string>>> = {
  "/call": (text) => ({ CallSid: sidOf(text), Direction: "inbound" }),
  "/ended": (text) => ({ CallSid: sidOf(text), SessionStatus: "completed" }),
  "/dialed": (text) => ({ CallSid: sidOf(text), DialCallStatus: "completed" }),
  "/voicemail": (text) => ({
    CallSid: "CA1",
    RecordingSid: `RE${sidOf(text)}`,
    RecordingUrl: "https://x.example",
  }),
  "/status": (text) => ({ CallSid: sidOf(text), CallStatus: "busy" }),
  "/fallback": (text) => ({ CallSid: sidOf(text) }),
};

function sample(url: (path: RoutePath) => URL, path: RoutePath) {
  const address = url(path).href + (path === "/status" ? "?key=k1" : "");
  const request = (token: string) => (text: string) => {
    const form = { From: person, To: account.number, ...forms[path]?.(text) };
    const headers = { "x-twilio-signature": signature(token, address, form) };
    return new Request(address, { method: "POST", headers, body: new URLSearchParams(form) });
  };
  const accepts = path === "/voicemail" || path === "/status";
  return { path, accepts, good: request(account.authToken), forged: request("another") };
}

/** The URL of the fallback, as a number requests it that is configured with GET. */
function fallbackSample(url: (path: RoutePath) => URL) {
  const request = (token: string) => (text: string) => {
    const address = `${url("/fallback").href}?CallSid=${sidOf(text)}`;
    return new Request(address, { headers: { "x-twilio-signature": signature(token, address, {}) } });
  };
  return { path: "/fallback", accepts: false, good: request(account.authToken), forged: request("another") } as const;
}

/** The webhook that starts a call gives it its token. */
async function tokenOf(adapter: Adapter, request: Request): Promise<string> {
  const route = adapter.routes?.find((one) => one.kind === "http" && one.path === "/call");
  const xml = route?.kind === "http" ? await (await route.handle(request)).text() : "";
  return /name="token" value="([^"]+)"/.exec(xml)?.[1] ?? "";
}

function upgradeTo(url: URL, token: string): Request {
  const address = url.href.replace(/^http/, "ws");
  return new Request(url, { headers: { "x-twilio-signature": signature(token, address) } });
}

async function begin(adapter: Adapter, url: (path: RoutePath) => URL) {
  const call = randomUUID();
  const token = await tokenOf(adapter, sample(url, "/call").good(call));
  const setup = {
    type: "setup",
    callSid: sidOf(call),
    from: person,
    to: account.number,
    direction: "inbound",
  };
  return {
    request: upgradeTo(url("/relay"), account.authToken),
    opening: [JSON.stringify({ ...setup, customParameters: { token } })],
    say: (text: string) => [JSON.stringify({ type: "prompt", voicePrompt: text, lang: "en-US", last: true })],
  };
}

async function start(): Promise<Peer> {
  const api = await SmsApi.start({ ...account, progress: [] });
  let away = false;
  return {
    config: (credentials) => ({
      dialect: "twilio",
      auth_tokens: [credentials === "right" ? account.authToken : "wrong"],
      account_sid: account.accountSid,
      number: account.number,
      api_url: api.url,
      phrases: [{ language: "en", goodbye: "Bye." }],
      transfer: { enqueue: { workflow_sid: "WW1", attributes: { fixture: "1" } } },
      digits: { human: "9" },
    }),
    async fault(fault) {
      api.heal();
      if (away) await api.up();
      away = fault === "refuse-connection";
      if (away) await api.down();
      const made = faults[fault];
      if (made !== undefined) api.fault(made, { on: "call" });
    },
    laterMs: 1000,
    stop: () => api.close(),
    reply: { kind: "opening", to: [{ address: person }] },
    delivered: () => api.calls.map((call) => wordsIn(call.url)),
    requests: (url) => [...Object.keys(forms).map((path) => sample(url, path as RoutePath)), fallbackSample(url)],
    upgrades: (url) => [
      {
        path: "/relay",
        good: () => upgradeTo(url("/relay"), account.authToken),
        forged: () => upgradeTo(url("/relay"), "another"),
      },
    ],
    sessions: (url) => [{ path: "/relay", begin: (adapter) => begin(adapter, url) }],
  };
}

const harness: Harness = {
  start,
  openKeys: ["transfer.enqueue.attributes"],
  lacks: {
    attachments: "nobody hears a file",
    inbound: "nobody is connected to: who calls finds us",
    acknowledge: "there is no inbound",
    "cut-before": "HTTP has no greeting: a line that is cut after the first byte leaves everything open",
    "hang-before": "HTTP has no greeting: a silent line leaves everything open",
  },
};

describeAdapter(voice, harness);
