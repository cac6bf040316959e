// The scenario of a handover: a customer's request escalates, responders are notified, one of them answers, the
// customer writes again, and the conversation returns to the agent. The daemon dies in one of these steps, once or
// twice.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { FailpointName } from "../../../../src/ops/failpoints.ts";
import type { Daemon } from "../daemon.ts";
import { lastWords, longWait, until, within } from "../mail/scenario.ts";
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
  type EscalationSetup,
  type EscalationTestServers,
  emil,
  handing,
  office,
  openEscalationSetup,
  reads,
  startEscalationServers,
  webhookKey,
} from "./servers.ts";

export const acts = ["hands over", "tells us", "takes", "answers", "writes on", "gives back", "asks again"] as const;
export type Act = (typeof acts)[number];

export interface EscalationScenario {
  /** In which act it dies. */
  readonly act: Act;
  /** Where each process ends: `<point>:<before|after>:<n>`, counted from the start of the act or the process. */
  readonly deaths: readonly string[];
  /** By what the human answers; dora has texts, emil has mail. Default: text. */
  readonly by?: "text" | "mail";
  /** Called when the customer was informed that a human will answer, before the next step. */
  readonly meanwhile?: (setup: EscalationSetup) => Promise<void>;
  /** Planted into every process. */
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

/** The texts of all participants, each with a unique phrase. */
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
  setup: EscalationSetup,
  index: number,
  scenario: EscalationScenario,
): Promise<EscalationViolation[]> {
  const { deaths, patience = longWait } = scenario;
  const cast = castOf(index, scenario.by);
  const [first, ...later] = deaths;
  // A look at the provider's list would wait for half a minute. A process that dies after an earlier one waits for it: a text
  // that both recorded and neither sent is held for an operator.
  const live = (killAt?: string) => {
    const looks = killAt !== undefined && later.includes(killAt) ? "slow-looks" : "quick-looks";
    return setup.start({ plant: [looks, ...(scenario.plant ?? [])], ...(killAt === undefined ? {} : { killAt }) });
  };

  let daemon = await live(first === undefined ? undefined : `${first}:armed`);
  await begin(daemon);
  const found: EscalationViolation[] = [];
  const plot = plots[scenario.act];
  for (const act of plot) {
    const dies = act === scenario.act && first !== undefined;
    if (dies) await arm(daemon);
    const doing = play(setup, cast, act);
    for (const killAt of dies ? [...later, undefined] : []) {
      await died(daemon);
      daemon = await live(killAt);
    }
    await doing;
    const inTime = await over(setup, cast, act, patience);
    if (!inTime) {
      found.push({ invariant: "unsettled", detail: `act "${act}": ${await stateOf(setup)}` });
      break;
    }
    if (act === "hands over") await scenario.meanwhile?.(setup);
  }
  const end = await within(daemon.stop());
  if (end?.code !== 0) {
    daemon.send("SIGKILL");
    throw new Error(`the daemon did not end well: ${JSON.stringify(end)}\n${lastWords(daemon)}`);
  }
  found.push(...(await escalationViolations(setup, cast, plot)));
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
  const end = await within(daemon.ended);
  if (end?.signal === "SIGKILL") return;
  daemon.send("SIGKILL");
  throw new Error(`the point was not reached: ${JSON.stringify(end)}\n${lastWords(daemon)}`);
}

/** What people do in the act. Resolves when it is done, whether or not anybody was there to hear it. */
async function play(setup: EscalationSetup, cast: Cast, act: Act): Promise<void> {
  const { customer } = cast;
  if (act === "hands over") await setup.api.receive({ from: customer, body: cast.asks });
  if (act === "tells us") await platformTells(setup, cast);
  if (act === "takes") await opensLink(setup);
  if (act === "answers") await humanSays(setup, cast, cast.answers);
  if (act === "writes on") await setup.api.receive({ from: customer, body: cast.writesOn });
  if (act === "gives back") await humanSays(setup, cast, "#resume");
  if (act === "asks again") await setup.api.receive({ from: customer, body: cast.asksAgain });
}

/** The platform's webhook, repeated until it is accepted. */
async function platformTells(setup: EscalationSetup, cast: Cast): Promise<void> {
  const body = JSON.stringify({ conversationId: await platformIdOf(setup, cast), topic: "refund" });
  const headers = { "content-type": "application/json", "webhook-id": `msg_${cast.customer}` };
  await posted(
    setup,
    "/platform/support/escalation",
    { headers: { ...headers, "x-bridgehead-key": webhookKey }, body },
    [200],
  );
}

/** The button behind the link in a text, pressed until there is an answer. */
async function opensLink(setup: EscalationSetup): Promise<void> {
  const link = /https:\S+/.exec(setup.texts(dora.sms).join(" "))?.[0] ?? "";
  const form = { headers: { "content-type": "application/x-www-form-urlencoded" }, body: "action=ack" };
  await posted(setup, new URL(link).pathname, form, [200]);
}

async function posted(
  setup: EscalationSetup,
  path: string,
  request: { readonly headers?: Record<string, string>; readonly body?: string },
  wanted: readonly number[],
): Promise<void> {
  for (;;) {
    const answer = await fetch(`${setup.via()}${path}`, { method: "POST", ...request }).catch(() => null);
    await answer?.text().catch(() => "");
    if (answer && wanted.includes(answer.status)) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

async function humanSays(setup: EscalationSetup, { human }: Cast, text: string): Promise<void> {
  if (human.by === "text") return void (await setup.api.receive({ from: dora.sms, body: text }));
  const answers = (await setup.mails(emil.email)).at(-1);
  if (!answers) throw new Error("nobody was told by mail");
  // Mail programs quote what they answer.
  setup.write({ from: emil.email, text: `${text}\r\n\r\nOn Monday ${office} wrote:\r\n> hello`, answers });
}

/** True when the act has come to its end, and nothing more happens. */
async function over(setup: EscalationSetup, cast: Cast, act: Act, ms: number): Promise<boolean> {
  const end = Date.now() + ms;
  for (let since = Date.now(); Date.now() < end; ) {
    if (!(await hasHappened(setup, cast, act)) || !(await isQuiet(setup))) since = Date.now();
    else if (Date.now() - since > 100) return true;
    await new Promise((resolve) => setTimeout(resolve, 60));
  }
  return false;
}

async function hasHappened(setup: EscalationSetup, cast: Cast, act: Act): Promise<boolean> {
  const heard = setup.texts(cast.customer);
  const told = (texts: readonly string[]) => texts.some((text) => text.includes("Escalation "));
  switch (act) {
    case "hands over": {
      const mails = (await setup.mails(emil.email)).map(({ subject }) => subject);
      return heard.includes(handing) && told(setup.texts(dora.sms)) && told(mails) && setup.pager.pages().length > 0;
    }
    case "tells us":
      return isNoticedBy(setup, "webhook");
    case "takes":
      return stateOf(setup).then((state) => state.startsWith("acknowledged"));
    case "answers":
      return heard.includes(cast.answers);
    case "writes on":
      return (await humanHeard(setup, cast)).some((text) => text.includes(cast.writesOn));
    case "gives back":
      return stateOf(setup).then((state) => state.startsWith("closed"));
    case "asks again":
      return heard.length > 2;
  }
}

/** What the human got, as texts or as mails. */
const humanHeard = async (setup: EscalationSetup, { human }: Cast): Promise<string[]> =>
  human.by === "text" ? setup.texts(dora.sms) : (await setup.mails(emil.email)).map(({ text }) => text);

// The matrix of escalations: in which act the daemon dies, and at which point.

export interface EscalationCase {
  readonly name: string;
  readonly scenario: EscalationScenario;
}

const phases = ["before", "after"] as const;

function at(
  act: Act,
  point: FailpointName,
  hits: readonly number[] = [1],
  in_: readonly (typeof phases)[number][] = phases,
  by: EscalationScenario["by"] = "text",
): EscalationCase[] {
  return hits.flatMap((hit) =>
    in_.map((phase) => ({
      name: [act, by === "mail" ? "mail" : "", point, phase, hit].filter(Boolean).join(" "),
      scenario: { act, deaths: [`${point}:${phase}:${hit}`], by },
    })),
  );
}

const twice = (act: Act, ...deaths: readonly [string, string]): EscalationCase[] => [
  { name: `${act} ${deaths.join(", then ")}`, scenario: { act, deaths } },
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

/** Defines one test per case. `schemaUrl` returns the URL of an empty PostgreSQL schema; by default the store is SQLite. */
export const matrixOfEscalations = (cases: readonly EscalationCase[], schemaUrl?: () => Promise<string>) =>
  describe("the daemon that finds a human, killed and started again", () => {
    let servers: EscalationTestServers;
    beforeAll(async () => {
      servers = await startEscalationServers();
    });
    afterAll(() => servers?.close());

    for (const [index, { name, scenario }] of cases.entries()) {
      it.concurrent(`at ${name}`, { timeout: 600_000 }, async () => {
        const postgres = schemaUrl && { postgres: await schemaUrl() };
        const setup = await openEscalationSetup(servers, { ...postgres });
        try {
          expect(await tellEscalation(setup, index, scenario)).toEqual([]);
        } finally {
          await setup.close();
        }
      });
    }
  });
