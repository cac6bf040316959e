// Hostile customer text through the whole daemon: it escalates, responders are notified, one of them answers with it,
// and the customer receives the answer, while the event loop is not blocked.

import { expect, it } from "vitest";
import { eventually } from "../support/clock.ts";
import { customer, dora, emil, openDesk } from "../support/daemon/escalation-daemon.ts";

/** Milliseconds of CPU time. Nothing here takes 50; the rest is for garbage collection and compilation. */
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
  const desk = await openDesk((run) => cleanups.push(run));
  let eventLoop: ReturnType<typeof watchEventLoop> | undefined;
  try {
    await desk.write({ subject: "My lamp", text: "Hello" });
    await desk.mailTo(customer);
    await desk.quiet();
    eventLoop = watchEventLoop();
    await desk.write({
      subject: "Re: My lamp",
      text: `I want a refund\n${hostile}\nend`,
      answers: await desk.mailTo(customer),
    });
    const notices = await Promise.all([desk.mailTo(dora.email), desk.mailTo(emil.email), desk.textTo(dora.sms)]);
    expect(notices[0].text).toContain("I want a refund");
    await desk.quiet();
    await desk.write({
      from: dora.email,
      answers: notices[0],
      text: `It is on its way.\n${hostile}\nBye for now.`,
    });
    await eventually(() => expect(desk.mailsTo(customer).at(-1)?.text).toContain("It is on its way."));
    await desk.quiet();
    eventLoop.stop();
    expect((await desk.escalations()).map(({ state }) => state)).toEqual(["acknowledged"]);
    expect(eventLoop.most()).toBeLessThan(mostWorkMs);
  } finally {
    eventLoop?.stop();
    for (const run of cleanups.reverse()) await run();
  }
});
