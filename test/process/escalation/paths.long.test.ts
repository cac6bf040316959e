// Notification channels that are down, one at a time and all at once: the escalation stays open, other targets are
// notified, and a channel that recovers sends one notification and not all that were due.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { isQuiet, stateOf } from "../../support/process/escalation/invariants.ts";
import {
  chief,
  dora,
  type EscalationSetup,
  type EscalationTestServers,
  emil,
  ida,
  nora,
  openEscalationSetup,
  reads,
  startEscalationServers,
} from "../../support/process/escalation/servers.ts";
import { readStored } from "../../support/process/mail/invariants.ts";
import { lastWords, longWait, until, within } from "../../support/process/mail/scenario.ts";

type Path = "texts" | "mails" | "pages";

interface Trouble {
  readonly what: string;
  readonly dead: readonly Path[];
  readonly begin: (setup: EscalationSetup) => void;
  readonly plant?: readonly string[];
}

const refuses = (setup: EscalationSetup) =>
  setup.peer.fail("connect", { kind: "reply", code: 421, text: "Try again later" });

const troubles: readonly Trouble[] = [
  { what: "the relay refuses", dead: ["mails"], begin: refuses },
  {
    what: "the relay says nothing",
    dead: ["mails"],
    begin: ({ peer }) => peer.fail("connect", { kind: "silence" }),
  },
  { what: "the provider of texts fails", dead: ["texts"], begin: ({ api }) => api.fault({ status: 500 }) },
  {
    what: "the provider of texts says nothing",
    dead: ["texts"],
    begin: ({ api }) => api.fault("hang"),
    plant: ["short-calls"],
  },
  { what: "the pager cuts every line", dead: ["pages"], begin: ({ pager }) => pager.become("cut") },
  { what: "the pager is busy", dead: ["pages"], begin: ({ pager }) => pager.become("busy") },
  {
    what: "the pager says nothing",
    dead: ["pages"],
    begin: ({ pager }) => pager.become("silent"),
    plant: ["short-calls"],
  },
  {
    what: "nothing works",
    dead: ["texts", "mails", "pages"],
    begin: (setup) => {
      refuses(setup);
      setup.api.fault({ status: 500 });
      setup.pager.become("cut");
    },
  },
];

describe("unreachable responders", () => {
  let servers: EscalationTestServers;
  beforeAll(async () => {
    servers = await startEscalationServers();
  });
  afterAll(() => servers?.close());

  for (const [index, trouble] of troubles.entries()) {
    it.concurrent(`while ${trouble.what}`, { timeout: 600_000 }, async () => {
      const setup = await openEscalationSetup(servers, { repeat: "500ms", next: "1s", relayTimeout: "3s" });
      try {
        await tell(setup, trouble, `+120255${90_000 + index}`);
      } finally {
        await setup.close();
      }
    });
  }
});

async function tell(setup: EscalationSetup, { dead, begin, plant = [] }: Trouble, customer: string): Promise<void> {
  const live = () => setup.start({ plant: ["quick-looks", ...plant] });
  let daemon = await live();
  await until("every channel reads", () => reads(daemon)).catch((error: unknown) => {
    throw new Error(lastWords(daemon), { cause: error });
  });
  begin(setup);
  await setup.api.receive({ from: customer, body: "I want a refund now." });

  // Each working path delivers notifications up to the fallback; each dead path is retried.
  for (const path of paths) if (!dead.includes(path)) await told(setup, path);
  await until("the fallback's turn", async () => (await tierOf(setup)) === 2);
  const before = triesOf(setup);
  for (const path of dead) await until(`more tries: ${path}`, () => triesOf(setup)[path] > before[path]);
  expect(await stateOf(setup)).toMatch(/^open/);
  for (const path of dead) expect(await noticesBy(setup, path), "one notice each").toEqual(onePerContact(path));

  const silenced = dead.length === paths.length;
  await saysSo(setup, dead, silenced);
  if (silenced) {
    // Nor does death help.
    daemon.send("SIGKILL");
    await daemon.ended;
    daemon = await live();
    for (const words of ["every notification channel is down", "no responder was reached", "not acknowledged"])
      await until(`the log says: ${words}`, () =>
        daemon.lines.some(({ level, message }) => level === "error" && message.includes(words)),
      );
    for (const path of dead) expect(await noticesBy(setup, path), "one notice each").toEqual(onePerContact(path));
  }

  setup.peer.heal();
  setup.api.heal();
  setup.pager.become("well");
  for (const path of dead) await told(setup, path);
  await setup.api.receive({ from: dora.sms, body: "ok" });
  await until(
    "it was taken, and nothing more happens",
    async () => (await stateIn(setup)) === "acknowledged" && (await isQuiet(setup)),
  );
  // Every message was relayed exactly once.
  for (const { address, written } of await writtenTo(setup)) {
    const got =
      address === setup.pager.url
        ? setup.pager.pages().length
        : setup.texts(address).length + (await setup.mails(address)).length;
    expect(got, `what ${address} got`).toBe(written);
  }
  expect(await within(daemon.stop())).toEqual({ code: 0, signal: null });
}

const paths: readonly Path[] = ["texts", "mails", "pages"];
const ways = { texts: "sms", mails: "email", pages: "webhook" } as const;
const people = {
  texts: [dora.sms, nora.sms, chief.sms],
  mails: [emil.email, nora.email, chief.email],
  pages: [],
};

/** All recipients of that path were notified, those of the later tiers as well. */
async function told(setup: EscalationSetup, path: Path): Promise<void> {
  await until(`the pager is told by ${path}`, () => path !== "pages" || setup.pager.pages().length > 0);
  for (const person of people[path]) {
    const got = () =>
      path === "texts"
        ? setup.texts(person).length
        : setup.peer.accepted.filter(({ to }) => to.includes(person)).length;
    await until(`${person} is told`, () => got() > 0);
  }
}

interface Readiness {
  readonly ready: boolean;
  readonly escalations?: {
    readonly says: string;
    readonly unacknowledged: number;
    readonly dead: readonly string[];
  };
}

/** Monitoring reports it first: the escalation is not acknowledged, and this path is dead. */
async function saysSo(setup: EscalationSetup, dead: readonly Path[], silenced: boolean): Promise<void> {
  const says = silenced ? /^NO RESPONDER CAN BE NOTIFIED/ : /^1 ESCALATION NOT ACKNOWLEDGED/;
  const knows = ({ escalations }: Readiness) =>
    dead.every((path) => escalations?.dead.includes(carriers[path])) && says.test(escalations?.says ?? "");
  let { status, body } = await readiness(setup);
  for (const end = Date.now() + longWait; !knows(body) && Date.now() < end; ) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    ({ status, body } = await readiness(setup));
  }
  expect(body.escalations?.says).toMatch(says);
  expect(body.escalations?.dead).toEqual(expect.arrayContaining(dead.map((path) => carriers[path])));
  expect(Object.keys(body)[0]).toBe("escalations");
  expect(body.escalations?.unacknowledged).toBe(1);
  expect([status, body.ready]).toEqual(silenced ? [503, false] : [200, true]);
  const metrics = await (await fetch(`${setup.admin()}/metrics`)).text();
  expect(metrics).toMatch(/escalations\{state="open"\} 1$/m);
}

async function readiness(setup: EscalationSetup): Promise<{ status: number; body: Readiness }> {
  const response = await fetch(`${setup.admin()}/readyz`);
  return { status: response.status, body: (await response.json()) as Readiness };
}

const carriers = { texts: "sms", mails: "mail", pages: "escalations" } as const;

const triesOf = ({ api, peer, pager }: EscalationSetup): Readonly<Record<Path, number>> => ({
  texts: api.creates.filter(({ form }) => form["To"] === dora.sms).length,
  mails: peer.stages.filter((stage) => stage === "connect").length,
  pages: pager.lines(),
});

const escalationIn = async ({ store }: EscalationSetup) =>
  (await readStored<{ tier: number; state: string }>(store, "SELECT tier, state FROM escalations"))[0];
const tierOf = async (setup: EscalationSetup) => (await escalationIn(setup))?.tier;
const stateIn = async (setup: EscalationSetup) => (await escalationIn(setup))?.state;

interface Told {
  readonly name: string;
  readonly notices: number;
}

/** How many notices there are for each contact of that way, sent or not. */
const noticesBy = ({ store }: EscalationSetup, path: Path) =>
  readStored<Told>(
    store,
    `SELECT name, COUNT(*) AS notices FROM notifications JOIN notification_targets ON notification_targets.id = notifications.target
     WHERE way = '${ways[path]}' GROUP BY notification_targets.id ORDER BY name`,
  );

const onePerContact = (path: Path): Told[] =>
  ({ texts: [chief, dora, nora], mails: [chief, emil, nora], pages: [ida] })[path].map(({ name }) => ({
    name,
    notices: 1,
  }));

const writtenTo = ({ store }: EscalationSetup) =>
  readStored<{ address: string; written: number }>(
    store,
    `SELECT address, COUNT(DISTINCT reply) AS written FROM notification_targets JOIN notifications ON notifications.target = notification_targets.id
     WHERE reply IS NOT NULL GROUP BY address`,
  );
