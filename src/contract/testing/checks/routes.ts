// Rules of routes: a success response acknowledges the request, and requests without a valid signature are
// rejected.

import assert from "node:assert/strict";
import type { HttpRoute, Route, SocketRoute } from "../../index.ts";
import type { RequestSample } from "../harness.ts";
import { attempt, throughout, within } from "../patience.ts";
import { type AdapterUnderTest, type Check, mark, present, type Rig, withRig } from "../rig.ts";

interface TestedRoute {
  readonly sample: RequestSample;
  /** Returns the status that the core would send. A throw becomes 503. */
  readonly knock: (request: Request) => Promise<number>;
}

function doors(rig: Rig): readonly TestedRoute[] {
  const requests = present(rig.peer.requests?.bind(rig.peer), "the peer has no requests()", "http");
  return requests((path) => rig.channel.url(path)).map((sample) => {
    const isIt = (route: Route): route is HttpRoute => route.kind === "http" && route.path === sample.path;
    const route = rig.adapter.routes?.find(isIt);
    assert.ok(route, `the adapter has no http route ${sample.path}`);
    return { sample, knock: (request) => answer(route, request) };
  });
}
const accepting = (rig: Rig) => doors(rig).filter((door) => door.sample.accepts);
const answer = (route: HttpRoute, request: Request) =>
  attempt(() => route.handle(request)).then(
    (response) => response.status,
    () => 503,
  );
const good = (status: number) => status >= 200 && status < 300;

async function refusesForged(subject: AdapterUnderTest): Promise<void> {
  await withRig(subject, async (rig) => {
    const calls = rig.channel.calls.length;
    for (const { sample, knock } of doors(rig)) {
      const status = await knock(sample.forged(mark("forged")));
      assert.equal(status, 403, `${sample.path} answered ${status} to a forged request`);
      const none = () => rig.channel.calls.length === calls;
      await throughout(`${sample.path} accepted a forged request`, none, rig.quietMs);
    }
  });
}

async function answersSigned(subject: AdapterUnderTest): Promise<void> {
  await withRig(subject, async (rig) => {
    for (const { sample, knock } of doors(rig)) {
      const before = rig.channel.calls.length;
      const status = await knock(sample.good(mark("signed")));
      assert.ok(good(status), `${sample.path} answered ${status} to a good request`);
      const called = rig.channel.calls.length > before;
      assert.equal(called, sample.accepts, `${sample.path} ${called ? "called" : "did not call"} accept`);
    }
  });
}

async function answersAfterCommit(subject: AdapterUnderTest): Promise<void> {
  await withRig(subject, async (rig) => {
    for (const { sample, knock } of accepting(rig)) {
      rig.channel.hold();
      const answered = knock(sample.good(mark("held")));
      const pending = () => rig.channel.calls.some((call) => call.state === "pending");
      const called = rig.channel.until("a call of accept", pending, rig.patienceMs).catch(() => undefined);
      await Promise.race([answered, called]);
      const early = await within(answered, rig.quietMs);
      assert.equal(early, null, `${sample.path} answered ${early?.value} while accept was pending`);
      rig.channel.release();
      const status = await within(answered, rig.patienceMs);
      assert.ok(status && good(status.value), `${sample.path} answered ${status?.value} after the commit`);
    }
  });
}

async function answersRejection(subject: AdapterUnderTest): Promise<void> {
  await withRig(subject, async (rig) => {
    for (const { sample, knock } of accepting(rig)) {
      rig.channel.reject();
      const status = await knock(sample.good(mark("rejected")));
      assert.ok(status >= 500, `${sample.path} answered ${status} although accept rejected`);
    }
  });
}

async function stableIds(subject: AdapterUnderTest): Promise<void> {
  await withRig(subject, async (rig) => {
    const ids = () => rig.channel.calls.map((call) => call.events.map((event) => event.id).join());
    for (const { sample, knock } of accepting(rig)) {
      const before = ids().length;
      const text = mark("same");
      for (const request of [text, text, mark("other")]) await knock(sample.good(request));
      const [first, second, other] = ids().slice(before);
      assert.equal(second, first, `${sample.path} gave one request two ids`);
      assert.notEqual(other, first, `${sample.path} gave two requests one id`);
    }
  });
}

async function refusesUpgrades(subject: AdapterUnderTest): Promise<void> {
  await withRig(subject, async (rig) => {
    const calls = rig.channel.calls.length;
    const upgrades = present(rig.peer.upgrades?.bind(rig.peer), "the peer has no upgrades()", "socket");
    for (const sample of upgrades((path) => rig.channel.url(path))) {
      const isIt = (route: Route): route is SocketRoute =>
        route.kind === "socket" && route.path === sample.path;
      const route = rig.adapter.routes?.find(isIt);
      assert.ok(route, `the adapter has no socket route ${sample.path}`);
      const refusal = await route.authorize(sample.forged());
      assert.ok(refusal, `${sample.path} let a forged upgrade in`);
      const { status } = refusal;
      assert.ok(status >= 400 && status < 500, `${sample.path} answered ${status} to a forged upgrade`);
      assert.equal(rig.channel.calls.length, calls, `${sample.path} accepted something of a forged upgrade`);
      const reply = await route.authorize(sample.good());
      assert.equal(reply, null, `${sample.path} answered ${reply?.status} to a good upgrade`);
    }
  });
}

export const routeChecks: readonly Check[] = [
  { name: "http: a forged request is 403 and accepts nothing", needs: ["http"], run: refusesForged },
  { name: "http: a good request is answered 2xx", needs: ["http"], run: answersSigned },
  { name: "http: no answer while accept is pending", needs: ["http"], run: answersAfterCommit },
  { name: "http: 5xx when accept rejected", needs: ["http"], run: answersRejection },
  {
    name: "http: the same request has the same id, another request another",
    needs: ["http"],
    run: stableIds,
  },
  { name: "socket: a forged upgrade is refused before it happens", needs: ["socket"], run: refusesUpgrades },
];
