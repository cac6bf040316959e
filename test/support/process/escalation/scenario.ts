// The scenario of a handover: a customer's request escalates, responders are notified, one of them answers, the
// customer writes again, and the conversation returns to the agent. The daemon dies in one of these steps, once or
// twice.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { FailpointName } from "../../../../src/ops/failpoints.ts";
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
import {
  dora,
  type EscalationPlace,
  type EscalationWorld,
  emil,
  handing,
  office,
  openPlace,
  reads,
  startEscalationWorld,
  webhookKey,
} from "./servers.ts";

export const acts = ["hands over", "tells us", "takes", "answers", "writes on", "gives back", "asks again"] as const;
export type Act = (typeof acts)[number];

export interface EscalationStory {
  /** In which act it dies. */
  readonly act: Act;
  /** Where, life after life: `<point>:<before|after>:<n>`, counted from the beginning of the act or the life. */
  readonly deaths: readonly string[];
  /** By what the human answers; dora has texts, emil has mail. Default: text. */
  readonly by?: "text" | "mail";
  /** Called when the customer was informed that a human will answer, before the next step. */
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

/** The texts of all participants, each with words that occur nowhere else. */
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

/** Runs the scenario and returns the violations at its end. Rejects when a planned kill did not happen. */
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
  // By webhook: otherwise the first backfill could find a message that arrives while it runs.
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

/** The platform's webhook, repeated until it is accepted. */
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
      return heard.includes(handing) && told(place.texts(dora.sms)) && told(mails) && place.pager.pages().length > 0;
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

// The matrix of escalations: in which act the daemon dies, and at which point.

export interface EscalationCase {
  readonly name: string;
  readonly story: EscalationStory;
}

const phases = ["before", "after"] as const;

function at(
  act: Act,
  point: FailpointName,
  hits: readonly number[] = [1],
  in_: readonly (typeof phases)[number][] = phases,
  by: EscalationStory["by"] = "text",
): EscalationCase[] {
  return hits.flatMap((hit) =>
    in_.map((phase) => ({
      name: [act, by === "mail" ? "mail" : "", point, phase, hit].filter(Boolean).join(" "),
      story: { act, deaths: [`${point}:${phase}:${hit}`], by },
    })),
  );
}

const twice = (act: Act, ...deaths: readonly [string, string]): EscalationCase[] => [
  { name: `${act} ${deaths.join(", then ")}`, story: { act, deaths } },
];

const after = ["after"] as const;

export const escalationCases: readonly EscalationCase[] = [
  // The answer that escalates; its commit contains the escalation and its notification targets.
  ...(["ask.cross", "answer.commit", "notify.commit", "send.record", "poll.commit"] as const).flatMap((point) =>
    at("hands over", point),
  ),
  // What the customer gets, a text, a mail and a page, in any order.
  ...at("hands over", "send.cross", [1, 4]),
  ...at("hands over", "send.cross", [2, 3], after),
  ...at("hands over", "outcome.commit"),
  ...at("hands over", "outcome.commit", [2, 4], after),
  // The platform's webhook reports the same, and a link acknowledges.
  ...at("tells us", "platform-webhook.commit"),
  ...at("takes", "action.commit"),
  // The responder's answer, stored once, to the platform and to the customer; the other responders are notified.
  ...(["route.commit", "ask.cross", "answer.commit", "send.record"] as const).flatMap((point) => at("answers", point)),
  ...at("answers", "send.cross", [1, 2]),
  ...at("answers", "outcome.commit"),
  ...at("answers", "outcome.commit", [2], after),
  ...(["route.commit", "ask.cross", "outcome.commit"] as const).flatMap((point) =>
    at("answers", point, [1], after, "mail"),
  ),
  // What the customer writes to the human.
  ...(["ask.cross", "answer.commit", "send.cross"] as const).flatMap((point) => at("writes on", point)),
  ...(["notify.commit", "outcome.commit"] as const).flatMap((point) => at("writes on", point, [1], after)),
  ...at("writes on", "answer.commit", [1], after, "mail"),
  // Back to the agent.
  ...(["route.commit", "ask.cross", "answer.commit"] as const).flatMap((point) => at("gives back", point)),
  // Death again while the first one is being cleared up.
  ...twice("hands over", "answer.commit:after:1", "send.cross:after:1"),
  ...twice("answers", "route.commit:after:1", "outcome.commit:before:1"),
  ...twice("answers", "ask.cross:after:1", "answer.commit:before:1"),
];

/** Returns the case of that name. Throws when it does not exist. */
export function escalationCaseNamed(name: string): EscalationCase {
  const found = escalationCases.find((one) => one.name === name);
  if (!found) throw new Error(`there is no case ${name}`);
  return found;
}

// Kills the daemon at each of these cases, on the way from the agent's answer to the human's, and back.

/** Defines one test per case. */
export const matrixOfEscalations = (cases: readonly EscalationCase[]) =>
  describe("the daemon that finds a human, killed and started again", () => {
    let world: EscalationWorld;
    beforeAll(async () => {
      world = await startEscalationWorld();
    });
    afterAll(() => world?.close());

    for (const [index, { name, story }] of cases.entries()) {
      it.concurrent(`at ${name}`, { timeout: 600_000 }, async () => {
        const place = await openPlace(world);
        try {
          expect(await tellEscalation(place, index, story)).toEqual([]);
        } finally {
          await place.close();
        }
      });
    }
  });
