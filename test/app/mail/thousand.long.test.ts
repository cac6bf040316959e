// A thousand mails at once against a platform that allows a thousand calls in sixty seconds: no call is refused, no
// mail is lost, none is answered twice, and every thread keeps its order. The rate itself takes more than a minute.

import { afterAll, beforeAll, expect, it } from "vitest";
import { eventually } from "../../support/clock.ts";
import { startMailDaemon } from "../../support/daemon/mail-daemon.ts";
import { lastLine } from "../../support/daemon/platform.ts";
import { type Dovecot, startDovecot } from "../../support/email/dovecot.ts";
import type { Letter } from "../../support/email/mails.ts";
import { describeReal, need } from "../../support/machine/debian.ts";

const threads = 100;
const rounds = 10;
const rate = { requests: 1000, perSeconds: 60 };

/** The most events in any span of `ms`. */
function most(times: readonly number[], ms: number): number {
  let [from, best] = [0, 0];
  for (const [index, at] of times.entries()) {
    while ((times[from] ?? at) < at - ms) from += 1;
    best = Math.max(best, index - from + 1);
  }
  return best;
}

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");
describeReal("a thousand mails", missing, () => {
  let dovecot: Dovecot;
  beforeAll(async () => {
    dovecot = await startDovecot({ users: ["thousand"] });
  });
  afterAll(() => dovecot?.dispose());

  it("fit through a platform limited to a thousand calls a minute", async ({ onTestFinished }) => {
    const daemon = await startMailDaemon(onTestFinished, {
      dovecot,
      user: "thousand",
      rate,
      refresh: "60s",
      platform: { timeout: "60s" },
      channel: { concurrency: 16 },
    });
    const letters: Letter[] = [];
    for (let thread = 0; thread < threads; thread++) {
      const from = `person${thread}@customer.example`;
      const first = await daemon.write({ from, text: `Thread ${thread} round 0?` });
      letters.push(first);
      for (let round = 1; round < rounds; round++) {
        const text = `Thread ${thread} round ${round}?`;
        letters.push(await daemon.write({ from, text, answers: first, subject: `Re: ${first.subject}` }));
      }
    }
    const began = Date.now();
    await eventually(() => expect(daemon.smtp.accepted.length).toBeGreaterThanOrEqual(letters.length), 400_000);
    const seconds = (Date.now() - began) / 1000;
    await daemon.settled(letters);

    const { calls } = daemon.proxy;
    const statuses = new Map<number | null, number>();
    for (const { status } of calls) statuses.set(status, (statuses.get(status) ?? 0) + 1);
    expect(statuses.get(429) ?? 0, "calls that the platform refused").toBe(0);
    expect([...statuses.keys()].every((status) => status === 200 || status === 201)).toBe(true);
    expect(
      most(
        calls.map((call) => call.at),
        60_000,
      ),
    ).toBeLessThanOrEqual(rate.requests);
    expect(calls.length, "no call was made in vain").toBeLessThanOrEqual(letters.length + threads + 5);

    expect(daemon.conversations()).toBe(threads);
    const byConversation = Map.groupBy(daemon.questions(), (question) => question.conversation);
    for (const questions of byConversation.values()) {
      const said = questions.map((one) => Number(/round (\d+)/.exec(lastLine(one.text))?.[1]));
      expect(said).toEqual([...said.keys()]);
    }
    const sent = (await daemon.replies()).map((reply) => reply.inReplyTo);
    const order = new Map(sent.map((id, index) => [id, index]));
    for (let thread = 0; thread < threads; thread++) {
      const places = letters.slice(thread * rounds, (thread + 1) * rounds).map((one) => order.get(one.messageId) ?? -1);
      expect(places).toEqual(places.toSorted((a, b) => a - b));
    }
    expect(seconds, "the rate allows 15 a second after the first 90; the machine may not").toBeLessThan(400);
  }, 600_000);
});
