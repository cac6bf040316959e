// Where the CPU time and the latency of a message go: microseconds per component, for the daemon and for the bare scripts,
// and the ratio that would remain if a part cost nothing. Each load runs twice: without a profiler, which gives the CPU
// time of each thread, and under V8's sampling profiler, which divides that of the main thread. A sample counts for the
// innermost function whose script belongs to a component: work of a package counts for the package, not for its caller.
// BENCH_FILES=1 also lists the functions of the daemon's main thread.

import { clock, sleep, sum, type Tally } from "../clock.ts";
import { deliverBurst } from "../mail/burst.ts";
import { mail, mailId } from "../mail/mails.ts";
import type { MailServers } from "../mail/servers.ts";
import { deliverSteadily } from "../mail/steady.ts";
import type { PhoneFixture } from "../phone/fixture.ts";
import { printTally } from "../report.ts";
import { type Subject, startBare, startDaemon } from "../subject.ts";
import { type Cost, type Pass, printCosts, type Side, type Sides } from "./breakdown.ts";
import { measuredCosts } from "./limits.ts";
import type { ProfilerOrder } from "./profiler.ts";
import { callSteps, printSteps, textSteps } from "./steps.ts";
import { printTimeline, type Timed } from "./timeline.ts";

export interface CostRounds {
  /** Messages of a burst. */
  readonly burst: number;
  /** Seconds at 20 emails a second. */
  readonly seconds: number;
  readonly singles: number;
  /** Calls with a turn per second, and the turns of each. */
  readonly calls: number;
  readonly turns: number;
}

interface Environment {
  readonly mail: MailServers;
  readonly phone: PhoneFixture;
  readonly main: string;
}

const perSecond = 20;
const waiting = 64;
/** Sampling an idle thread costs time as well, so loads that do not fill the thread are sampled at a lower rate. */
const busyUs = 250;
const steadyUs = 1000;

export async function costs(environment: Environment, rounds: CostRounds): Promise<Tally> {
  const burst = await both((side) => emailBurst(environment, side, rounds));
  const emails = apart(await both((side) => steadyEmails(environment, side, rounds)));
  const texts = apart(await both((side) => textMessages(environment.phone, side, rounds)));
  const turns = await both((side) => voiceTurns(environment.phone, side, rounds));
  const turn = await both((side) => singleTurns(environment.phone, side, rounds));
  const { cpu, waits } = measuredCosts;
  cpu.set("email burst", printCosts(`email burst of ${rounds.burst}`, "email", burst));
  cpu.set("emails at a steady rate", printCosts(`emails at ${perSecond}/s`, "email", emails.cost));
  const title = `SMS burst of ${rounds.burst}, ${waiting} customers waiting`;
  cpu.set("SMS burst", printCosts(title, "text", texts.cost));
  cpu.set("voice turns", printCosts(`voice, ${rounds.calls} calls with a turn per second`, "turn", turns));
  waits.set("single email", printTimeline("single email", emails.timed));
  waits.set("single SMS", printTimeline("single SMS", texts.timed));
  waits.set("voice turn", printTimeline("voice turn, one call", turn));
  printSteps("single SMS", texts.timed, textSteps);
  printSteps("voice turn, one call", turn, callSteps);
  const all = (side: Side) =>
    sum([burst, emails.cost, emails.timed, texts.cost, texts.timed, turns, turn].map((sides) => sides[side]));
  printTally("costs", all("baseline"), all("daemon"));
  return all("daemon");
}

interface Both {
  readonly cost: Cost;
  readonly timed: Timed;
}

async function both<One>(work: (side: Side) => Promise<One>): Promise<Sides<One>> {
  const baseline = await work("baseline");
  return { baseline, daemon: await work("daemon") };
}

const apart = ({ baseline, daemon }: Sides<Both>) => ({
  cost: { baseline: baseline.cost, daemon: daemon.cost },
  timed: { baseline: baseline.timed, daemon: daemon.timed },
});

/** Records while `work` runs, which returns the number of its messages. */
async function recorded(
  subject: Subject,
  order: Exclude<ProfilerOrder, { kind: "end" }>,
  work: () => Promise<Tally & { readonly messages: number }>,
): Promise<Pass> {
  await subject.record(order);
  const { messages, lost, duplicated } = await work();
  return { messages, lost, duplicated, report: await subject.recorded() };
}

const costOf = (plain: Pass, profiled: Pass): Cost => ({ plain, profiled, ...sum([plain, profiled]) });

const usage = { kind: "usage" } as const;
const profileAt = (intervalUs: number) => ({ kind: "profile", intervalUs }) as const;

const startEmail = ({ mail, main }: Environment, side: Side) => {
  const around = mail.surroundings();
  const starting =
    side === "baseline" ? startBare(around, "profiler") : startDaemon(around, { main, preload: "profiler" });
  return { around, user: around.users[0] ?? "", starting };
};

/** Both passes start with a new process, because the compilation of its code is a part of a burst. */
async function emailBurst(environment: Environment, side: Side, { burst }: CostRounds): Promise<Cost> {
  const pass = async (order: typeof usage | ReturnType<typeof profileAt>): Promise<Pass> => {
    const { user, starting } = startEmail(environment, side);
    const subject = await starting;
    const run = `costs-${order.kind}-${side}`;
    try {
      return await recorded(subject, order, async () => ({
        ...(await deliverBurst(environment.mail, subject, user, run, burst)),
        messages: burst,
      }));
    } finally {
      await subject.stop();
    }
  };
  return costOf(await pass(usage), await pass(profileAt(busyUs)));
}

async function steadyEmails(environment: Environment, side: Side, { seconds, singles }: CostRounds): Promise<Both> {
  const { around, user, starting } = startEmail(environment, side);
  const servers = environment.mail;
  const subject = await starting;
  const deliver = async (run: string) => {
    const done = await deliverSteadily(servers, user, `costs-${run}-${side}`, perSecond, seconds);
    return { ...done, messages: done.mails };
  };
  try {
    await deliver("warm");
    const cost = costOf(
      await recorded(subject, usage, () => deliver("plain")),
      await recorded(subject, profileAt(steadyUs), () => deliver("profiled")),
    );
    const { smtpPort, imapPort, httpPort } = around;
    const peers = { [smtpPort]: "SMTP server", [imapPort]: "IMAP server", [httpPort]: "agent" };
    const messages: [number, number][] = [];
    const replies: Tally[] = [];
    await subject.record({ kind: "waits", peers });
    for (let n = 0; n < singles; n += 1) {
      const id = mailId(`costs-single-${side}`, n);
      const watched = servers.watch([id]);
      const from = clock();
      await servers.deliver(user, mail(`costs-single-${side}`, n));
      const got = await watched;
      replies.push(got);
      messages.push([from, got.answered.get(id) ?? from]);
      // The mailbox becomes idle again.
      await sleep(200);
    }
    return { cost, timed: { ...sum(replies), messages, report: await subject.recorded() } };
  } finally {
    await subject.stop();
  }
}

async function textMessages(phone: PhoneFixture, side: Side, { burst, singles }: CostRounds): Promise<Both> {
  const subject = await phone[side]("profiler");
  const texts = async (count: number, waiting: number) => ({
    ...(await phone.texts({ url: subject.inbound, count, waiting, perSecond: null })),
    messages: count,
  });
  try {
    await texts(50, 8);
    const cost = costOf(
      await recorded(subject, usage, () => texts(burst, waiting)),
      await recorded(subject, profileAt(busyUs), () => texts(burst, waiting)),
    );
    await texts(singles, 1);
    await subject.record({ kind: "waits", peers: phonePeers(phone, subject.inbound) });
    const { spans, lost, duplicated } = await texts(singles * 4, 1);
    return { cost, timed: { lost, duplicated, messages: spans, report: await subject.recorded() } };
  } finally {
    await subject.stop();
  }
}

const phonePeers = ({ ports }: PhoneFixture, own: string) => ({
  [ports.platform]: "agent",
  [ports.twilio]: "SMS provider",
  [new URL(own).port]: "caller",
});

/** One call with a turn per 100 ms. */
async function singleTurns(phone: PhoneFixture, side: Side, { singles }: CostRounds): Promise<Timed> {
  const subject = await phone[side]("profiler");
  const turns = (count: number) => phone.calls({ url: subject.call, calls: 1, turns: count, everyMs: 100 });
  try {
    await turns(singles);
    await subject.record({ kind: "waits", peers: phonePeers(phone, subject.call) });
    const { spans, lost, duplicated } = await turns(singles * 4);
    return { lost, duplicated, messages: spans, report: await subject.recorded() };
  } finally {
    await subject.stop();
  }
}

async function voiceTurns(phone: PhoneFixture, side: Side, { calls, turns }: CostRounds): Promise<Cost> {
  const subject = await phone[side]("profiler");
  const work = async () => ({
    ...(await phone.calls({ url: subject.call, calls, turns, everyMs: 1000 })),
    messages: calls * (turns + 1),
  });
  try {
    return costOf(await recorded(subject, usage, work), await recorded(subject, profileAt(steadyUs), work));
  } finally {
    await subject.stop();
  }
}
