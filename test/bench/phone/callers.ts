// Callers as Twilio's ConversationRelay connects them. Each sends a prompt at a fixed interval and measures the time
// until the first token of the reply.

import { WebSocket } from "ws";
import { clock, sleep, type Tally } from "../clock.ts";
import { firstWords } from "../platform-stub.ts";
import { accountSid, connections, postForm, signUrl } from "./signed-form.ts";

export interface CallsOrder {
  readonly kind: "calls";
  /** The number's voice webhook. */
  readonly url: string;
  readonly calls: number;
  /** Measured turns of each call; one before them is not. */
  readonly turns: number;
  /** Milliseconds from turn to turn. */
  readonly everyMs: number;
}

export interface CallsResult extends Tally {
  /** Milliseconds from each prompt to the start of its answer. */
  readonly turns: readonly number[];
  /** From each prompt to the start of its answer, in `clock` milliseconds. */
  readonly spans: readonly (readonly [from: number, to: number])[];
}

const patienceMs = 20_000;
/** Rate of new calls: each needs a webhook, a handshake and a new conversation. */
const startsPerSecond = 100;
let callers = 0;

/** Resolves when every call has had its turns; a question without an answer is lost, an answer without one duplicated. */
export async function placeCalls(order: CallsOrder): Promise<CallsResult> {
  const agent = connections(32);
  const lines: Line[] = [];
  try {
    const dialing: Promise<Line>[] = [];
    for (let n = 0; n < order.calls; n += 1) {
      dialing.push(dial(order.url, agent));
      await sleep(1000 / startsPerSecond);
    }
    lines.push(...(await Promise.all(dialing)));
    await sleep(500);
    const spans = (await Promise.all(lines.map((line, n) => converse(line, order, n / order.calls)))).flat();
    return {
      turns: spans.map(([from, to]) => to - from),
      spans,
      lost: lines.length * (order.turns + 1) - spans.length - lines.length,
      duplicated: lines.reduce((all, line) => all + line.unasked, 0),
    };
  } finally {
    for (const line of lines) line.ws.close();
    agent.destroy();
  }
}

interface Line {
  readonly ws: WebSocket;
  /** Called at the start of an answer. */
  answered: (() => void) | null;
  unasked: number;
}

async function dial(url: string, agent: ReturnType<typeof connections>): Promise<Line> {
  callers += 1;
  const call = {
    CallSid: `CA${callers.toString(16).padStart(32, "0")}`,
    AccountSid: accountSid,
    From: `+1202${String(callers).padStart(7, "0")}`,
    To: "+15550100",
    CallStatus: "ringing",
    Direction: "inbound",
    ApiVersion: "2010-04-01",
  };
  const { body } = await postForm(url, call, agent);
  const address = attribute(body, /<ConversationRelay[^>]*\surl="([^"]*)"/);
  const token = attribute(body, /<Parameter name="token" value="([^"]*)"/);
  const local = `ws://${new URL(url).host}${new URL(address).pathname}`;
  const ws = new WebSocket(local, {
    headers: { "x-twilio-signature": signUrl(address) },
    perMessageDeflate: false,
  });
  const line: Line = { ws, answered: null, unasked: 0 };
  ws.on("message", (data: Buffer) => {
    const frame = JSON.parse(data.toString()) as { type: string; token?: string };
    // A filler phrase is no answer.
    if (frame.type !== "text" || !frame.token?.startsWith(firstWords)) return;
    if (line.answered) line.answered();
    else line.unasked += 1;
    line.answered = null;
  });
  await new Promise<void>((resolve, reject) => {
    ws.once("open", resolve);
    ws.once("error", reject);
  });
  const { CallSid: callSid, From: from, To: to } = call;
  const sessionId = `VX${callSid.slice(2)}`;
  const setup = {
    type: "setup",
    sessionId,
    accountSid,
    callSid,
    from,
    to,
    direction: "inbound",
    callType: "PSTN",
  };
  ws.send(JSON.stringify({ ...setup, callStatus: "RINGING", customParameters: { token } }));
  return line;
}

function attribute(twiml: string, pattern: RegExp): string {
  const value = pattern.exec(twiml)?.[1];
  if (value === undefined) throw new Error(`no ${pattern.source} in ${twiml}`);
  return value.replaceAll("&amp;", "&");
}

/** The times of the measured turns. Calls are spread evenly over the time between two turns. */
async function converse(
  line: Line,
  { turns, everyMs }: CallsOrder,
  share: number,
): Promise<[from: number, to: number][]> {
  const times: [number, number][] = [];
  await sleep(share * everyMs);
  for (let turn = 0; turn <= turns; turn += 1) {
    const began = clock();
    const answered = new Promise<boolean>((resolve) => {
      line.answered = () => resolve(true);
      setTimeout(() => resolve(false), patienceMs).unref();
    });
    const voicePrompt = `Where is my order, please? This is question ${turn}.`;
    line.ws.send(JSON.stringify({ type: "prompt", voicePrompt, lang: "en-US", last: true }));
    if ((await answered) && turn > 0) times.push([began, clock()]);
    await sleep(Math.max(0, began + everyMs - clock()));
  }
  return times;
}
