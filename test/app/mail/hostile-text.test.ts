// Hostile customer text through the whole daemon: it escalates, responders are notified, one of them answers with it,
// and the customer receives the answer, while the event loop is not blocked.

import { expect, it } from "vitest";
import { eventually } from "../../support/clock.ts";
import { customer, dora, emil, startEscalationDaemon } from "../../support/daemon/escalation-daemon.ts";

/** Milliseconds of CPU time. The functions have a limit of 50 for each text (`test/linear`); one turn executes several of
 *  them, while the code is compiled and garbage is collected. */
const mostWorkMs = 1000;

/** Measures the most CPU time of this thread between two turns of the event loop, in which other processes do not count. */
function watchEventLoop() {
  let most = 0;
  let before = process.threadCpuUsage();
  const timer = setInterval(() => {
    const { user, system } = process.threadCpuUsage(before);
    most = Math.max(most, (user + system) / 1000);
    before = process.threadCpuUsage();
  }, 10);
  return { most: () => most, stop: () => clearInterval(timer) };
}

// The first blocked the event loop for 38 s, the second and third threw in compose, the last is quadratic in carriesNotice.
it.each([
  ["_a_", 99_000],
  ["- ", 6000],
  ["> > >", 12_000],
  ["\n", 60_000],
])("hostile text of %j escalates, notifies, and is relayed without blocking", async (piece, length) => {
  const hostile = `refund\n${piece.repeat(length / piece.length)}`;
  const cleanups: (() => unknown)[] = [];
  const daemon = await startEscalationDaemon((run) => cleanups.push(run));
  let eventLoop: ReturnType<typeof watchEventLoop> | undefined;
  try {
    await daemon.write({ subject: "My lamp", text: "Hello" });
    await daemon.mailTo(customer);
    await daemon.quiet();
    eventLoop = watchEventLoop();
    await daemon.write({
      subject: "Re: My lamp",
      text: `I want a refund\n${hostile}\nend`,
      answers: await daemon.mailTo(customer),
    });
    const notices = await Promise.all([daemon.mailTo(dora.email), daemon.mailTo(emil.email), daemon.textTo(dora.sms)]);
    expect(notices[0].text).toContain("I want a refund");
    await daemon.quiet();
    await daemon.write({
      from: dora.email,
      answers: notices[0],
      text: `It is on its way.\n${hostile}\nBye for now.`,
    });
    await eventually(() => expect(daemon.mailsTo(customer).at(-1)?.text).toContain("It is on its way."));
    await daemon.quiet();
    eventLoop.stop();
    expect((await daemon.escalations()).map(({ state }) => state)).toEqual(["acknowledged"]);
    expect(eventLoop.most()).toBeLessThan(mostWorkMs);
  } finally {
    eventLoop?.stop();
    for (const run of cleanups.reverse()) await run();
  }
});
