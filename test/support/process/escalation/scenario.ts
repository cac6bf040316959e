// How it is told that an agent hands over: a customer asks for what only people may decide, people are told, one of them
// answers, the customer writes on, the agent gets the conversation back. In one of these acts the daemon dies, once or
// twice; every other act happens in peace.

import type { Daemon } from "../daemon.ts";
import { lastWords, until, within } from "../mail/scenario.ts";
import {
  type EscalationViolation,
  escalationViolations,
  isNoticedBy,
  isQuiet,
  platformIdOf,
  stateOf,
} from "./invariants.ts";
import { dora, type EscalationPlace, emil, handing, office, reads, webhookKey } from "./servers.ts";

export const acts = [
  "hands over",
  "tells us",
  "takes",
  "answers",
  "writes on",
  "gives back",
  "asks again",
] as const;
export type Act = (typeof acts)[number];

export interface EscalationStory {
  /** In which act it dies. */
  readonly act: Act;
  /** Where, life after life: `<point>:<before|after>:<n>`, counted from the beginning of the act or the life. */
  readonly deaths: readonly string[];
  /** By what the human answers; dora has texts, emil has mail. Default: text. */
  readonly by?: "text" | "mail";
  /** Happens when the customer has been told that a human will answer, before the next act. */
  readonly meanwhile?: (place: EscalationPlace) => Promise<void>;
  /** Planted into every life. */
  readonly plant?: readonly string[];
  /** Milliseconds until an act must be over. */
  readonly patience?: number;
}

/** What is worth telling when it dies in that act. */
const plots: { readonly [act in Act]: readonly Act[] } = {
  "hands over": ["hands over", "answers", "gives back"],
  "tells us": ["hands over", "tells us", "answers", "gives back"],
  takes: ["hands over", "takes", "answers", "gives back"],
  answers: ["hands over", "answers", "gives back"],
  "writes on": ["hands over", "answers", "writes on", "gives back"],
  "gives back": ["hands over", "answers", "gives back", "asks again"],
  "asks again": acts,
};

/** Everybody's part, with words that occur nowhere else. */
export interface Cast {
  readonly customer: string;
  readonly human: { readonly name: string; readonly by: "text" | "mail" };
  readonly asks: string;
  readonly answers: string;
  readonly writesOn: string;
  readonly asksAgain: string;
}

/** Of a place; no other has the same. */
function castOf(index: number, by: "text" | "mail" = "text"): Cast {
  const tag = (n: number) => `tag-case${index}-${n}`;
  return {
    customer: `+120255${80_000 + index}`,
    human: by === "text" ? { name: dora.name, by } : { name: emil.name, by },
    asks: `I want a refund for ${tag(0)} now.`,
    answers: `Your money is on its way: ${tag(1)}.`,
    writesOn: `And when is it here, ${tag(2)}?`,
    asksAgain: `Tell me about ${tag(3)} today.`,
  };
}

/** Tells the story and answers what is wrong at its end. Rejects when a death did not happen as told. */
export async function tellEscalation(
  place: EscalationPlace,
  index: number,
  story: EscalationStory,
): Promise<EscalationViolation[]> {
  const { deaths, patience = 90_000 } = story;
  const cast = castOf(index, story.by);
  // A look at the provider's list would wait for half a minute.
  const plant = ["quick-looks", ...(story.plant ?? [])];
  const live = (killAt?: string) => place.start({ plant, ...(killAt === undefined ? {} : { killAt }) });

  const [first, ...later] = deaths;
  let daemon = await live(first === undefined ? undefined : `${first}:armed`);
  await begin(daemon);
  const found: EscalationViolation[] = [];
  const plot = plots[story.act];
  for (const act of plot) {
    const dies = act === story.act && first !== undefined;
    if (dies) await arm(daemon);
    const doing = play(place, cast, act);
    for (const killAt of dies ? [...later, undefined] : []) {
      await died(daemon);
      daemon = await live(killAt);
    }
    await doing;
    const inTime = await over(place, cast, act, patience);
    if (!inTime) {
      found.push({ invariant: "unsettled", detail: `act "${act}": ${await stateOf(place)}` });
      break;
    }
    if (act === "hands over") await story.meanwhile?.(place);
  }
  const end = await within(daemon.stop(), 60_000);
  if (end?.code !== 0) {
    daemon.send("SIGKILL");
    throw new Error(`the daemon did not end well: ${JSON.stringify(end)}\n${lastWords(daemon)}`);
  }
  found.push(...(await escalationViolations(place, cast, plot)));
  if (found.length > 0 && process.env["STORY_LOG"]) process.stderr.write(`${lastWords(daemon)}\n`);
  return found;
}

async function begin(daemon: Daemon): Promise<void> {
  if (!(await daemon.ready)) throw new Error(`the daemon did not start\n${lastWords(daemon)}`);
  // By webhook: the first look at the provider's list would find what comes while it goes on.
  await until("every channel reads", () => reads(daemon));
}

async function arm(daemon: Daemon): Promise<void> {
  daemon.send("SIGUSR2");
  await until("points count", () => daemon.lines.some(({ message }) => message === "armed"));
}

async function died(daemon: Daemon): Promise<void> {
  const end = await within(daemon.ended, 90_000);
  if (end?.signal === "SIGKILL") return;
  daemon.send("SIGKILL");
  throw new Error(`the point was not reached: ${JSON.stringify(end)}\n${lastWords(daemon)}`);
}

/** What people do in the act. Resolves when it is done, whether or not anybody was there to hear it. */
async function play(place: EscalationPlace, cast: Cast, act: Act): Promise<void> {
  const { customer } = cast;
  if (act === "hands over") await place.api.receive({ from: customer, body: cast.asks });
  if (act === "tells us") await platformTells(place, cast);
  if (act === "takes") await opensLink(place);
  if (act === "answers") await humanSays(place, cast, cast.answers);
  if (act === "writes on") await place.api.receive({ from: customer, body: cast.writesOn });
  if (act === "gives back") await humanSays(place, cast, "#resume");
  if (act === "asks again") await place.api.receive({ from: customer, body: cast.asksAgain });
}

/** The platform's webhook, repeated until somebody takes it. */
async function platformTells(place: EscalationPlace, cast: Cast): Promise<void> {
  const body = JSON.stringify({ conversationId: platformIdOf(place, cast), topic: "refund" });
  const headers = { "content-type": "application/json", "webhook-id": `msg_${cast.customer}` };
  await posted(
    place,
    "/platform/support/escalation",
    { headers: { ...headers, "x-bridgehead-key": webhookKey }, body },
    [200],
  );
}

/** The button behind the link in a text, pressed until there is an answer. */
async function opensLink(place: EscalationPlace): Promise<void> {
  const link = /https:\S+/.exec(place.texts(dora.sms).join(" "))?.[0] ?? "";
  const form = { headers: { "content-type": "application/x-www-form-urlencoded" }, body: "action=ack" };
  await posted(place, new URL(link).pathname, form, [200]);
}

async function posted(
  place: EscalationPlace,
  path: string,
  request: { readonly headers?: Record<string, string>; readonly body?: string },
  wanted: readonly number[],
): Promise<void> {
  for (;;) {
    const answer = await fetch(`${place.via()}${path}`, { method: "POST", ...request }).catch(() => null);
    await answer?.text().catch(() => "");
    if (answer && wanted.includes(answer.status)) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

async function humanSays(place: EscalationPlace, { human }: Cast, text: string): Promise<void> {
  if (human.by === "text") return void (await place.api.receive({ from: dora.sms, body: text }));
  const answers = (await place.mails(emil.email)).at(-1);
  if (!answers) throw new Error("nobody was told by mail");
  // Mail programs quote what they answer.
  place.write({ from: emil.email, text: `${text}\r\n\r\nOn Monday ${office} wrote:\r\n> hello`, answers });
}

/** True when the act has come to its end, and nothing more happens. */
async function over(place: EscalationPlace, cast: Cast, act: Act, ms: number): Promise<boolean> {
  const end = Date.now() + ms;
  for (let since = Date.now(); Date.now() < end; ) {
    if (!(await hasHappened(place, cast, act)) || !isQuiet(place)) since = Date.now();
    else if (Date.now() - since > 100) return true;
    await new Promise((resolve) => setTimeout(resolve, 60));
  }
  return false;
}

async function hasHappened(place: EscalationPlace, cast: Cast, act: Act): Promise<boolean> {
  const heard = place.texts(cast.customer);
  const told = (texts: readonly string[]) => texts.some((text) => text.includes("Escalation "));
  switch (act) {
    case "hands over": {
      const mails = (await place.mails(emil.email)).map(({ subject }) => subject);
      return (
        heard.includes(handing) &&
        told(place.texts(dora.sms)) &&
        told(mails) &&
        place.pager.pages().length > 0
      );
    }
    case "tells us":
      return isNoticedBy(place, "webhook");
    case "takes":
      return stateOf(place).then((state) => state.startsWith("acknowledged"));
    case "answers":
      return heard.includes(cast.answers);
    case "writes on":
      return (await humanHeard(place, cast)).some((text) => text.includes(cast.writesOn));
    case "gives back":
      return stateOf(place).then((state) => state.startsWith("closed"));
    case "asks again":
      return heard.length > 2;
  }
}

/** What the human got, as texts or as mails. */
const humanHeard = async (place: EscalationPlace, { human }: Cast): Promise<string[]> =>
  human.by === "text" ? place.texts(dora.sms) : (await place.mails(emil.email)).map(({ text }) => text);
