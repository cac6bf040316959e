// Rules of routes: a success response acknowledges the request, and requests without a valid signature are rejected.

import assert from "node:assert/strict";
import type { HttpRoute } from "../../index.ts";
import { type Check, check, type Fixture, httpRouteOf, mark, present, socketRouteOf } from "../fixture.ts";
import type { RequestSample } from "../harness.ts";
import { attempt, throughout, within } from "../patience.ts";

interface TestedRoute {
  readonly sample: RequestSample;
  /** Returns the status that the core would send. A throw becomes 503. */
  readonly knock: (request: Request) => Promise<number>;
}

function doors(fixture: Fixture): readonly TestedRoute[] {
  const requests = present(fixture.peer.requests?.bind(fixture.peer), "the peer has no requests()", "http");
  return requests((path) => fixture.channel.url(path)).map((sample) => {
    const route = httpRouteOf(fixture.adapter, sample);
    assert.ok(route, `the adapter has no http route ${sample.good(mark("route")).method} ${sample.path}`);
    return { sample, knock: (request) => answer(route, request) };
  });
}
const accepting = (fixture: Fixture) => doors(fixture).filter((door) => door.sample.accepts);
const answer = (route: HttpRoute, request: Request) =>
  attempt(() => route.handle(request)).then(
    (response) => response.status,
    () => 503,
  );
const good = (status: number) => status >= 200 && status < 300;

/** What anyone can send: a forged signature, none at all, an empty one, and a body that no parser reads. */
function forgeries(sample: RequestSample): readonly { readonly what: string; readonly request: Request }[] {
  const make = () => sample.forged(mark("forged"));
  const { method, url, headers } = make();
  const names = [...headers.keys()].filter((name) => name !== "content-type");
  const contentType = headers.has("content-type") ? { "content-type": headers.get("content-type") ?? "" } : {};
  const empty = { ...contentType, ...Object.fromEntries(names.map((name) => [name, ""])) };
  const unreadable = () => new Request(url, { method, headers, body: "{" });
  return [
    { what: "with a wrong signature", request: make() },
    { what: "without its headers", request: new Request(make(), { headers: contentType }) },
    { what: "with empty headers", request: new Request(make(), { headers: empty }) },
    ...(method === "GET" ? [] : [{ what: "with a body that cannot be parsed", request: unreadable() }]),
  ];
}

async function refusesForged(fixture: Fixture): Promise<void> {
  const calls = fixture.channel.calls.length;
  for (const { sample, knock } of doors(fixture)) {
    for (const { what, request } of forgeries(sample)) {
      const status = await knock(request);
      const fix = "verify before you parse, and answer 403 where the signature is missing";
      assert.equal(status, 403, `${sample.path} answered ${status} to a forged request ${what}: ${fix}`);
    }
    const none = () => fixture.channel.calls.length === calls;
    await throughout(`${sample.path} accepted a forged request`, none, fixture.quietMs);
  }
}

async function answersSigned(fixture: Fixture): Promise<void> {
  for (const { sample, knock } of doors(fixture)) {
    const before = fixture.channel.calls.length;
    const status = await knock(sample.good(mark("signed")));
    assert.ok(good(status), `${sample.path} answered ${status} to a good request`);
    const called = fixture.channel.calls.length > before;
    assert.equal(called, sample.accepts, `${sample.path} ${called ? "called" : "did not call"} accept`);
  }
}

/** A proxy may rewrite the Host header, and a client may write any. */
async function ignoresTheHost(fixture: Fixture): Promise<void> {
  for (const { sample, knock } of doors(fixture)) {
    const request = sample.good(mark("proxied"));
    for (const name of ["host", "x-forwarded-host"]) request.headers.set(name, "internal.example:8080");
    const status = await knock(request);
    const fix = "the signature covers channel.url(path), not the Host header";
    assert.ok(good(status), `${sample.path} answered ${status} to a good request behind a proxy: ${fix}`);
  }
}

async function answersAfterCommit(fixture: Fixture): Promise<void> {
  for (const { sample, knock } of accepting(fixture)) {
    fixture.channel.hold();
    const answered = knock(sample.good(mark("held")));
    const pending = () => fixture.channel.calls.some((call) => call.state === "pending");
    const called = fixture.channel.until("a call of accept", pending, fixture.patienceMs).catch(() => undefined);
    await Promise.race([answered, called]);
    const early = await within(answered, fixture.quietMs);
    assert.equal(early, null, `${sample.path} answered ${early?.value} while accept was pending`);
    fixture.channel.release();
    const status = await within(answered, fixture.patienceMs);
    assert.ok(status && good(status.value), `${sample.path} answered ${status?.value} after the commit`);
  }
}

async function answersRejection(fixture: Fixture): Promise<void> {
  for (const { sample, knock } of accepting(fixture)) {
    fixture.channel.reject();
    const status = await knock(sample.good(mark("rejected")));
    assert.ok(status >= 500, `${sample.path} answered ${status} although accept rejected`);
  }
}

async function stableIds(fixture: Fixture): Promise<void> {
  const ids = () => fixture.channel.calls.map((call) => call.events.map((event) => event.id).join());
  for (const { sample, knock } of accepting(fixture)) {
    const before = ids().length;
    const text = mark("same");
    for (const request of [text, text, mark("other")]) await knock(sample.good(request));
    const [first, second, other] = ids().slice(before);
    assert.equal(second, first, `${sample.path} gave one request two ids`);
    assert.notEqual(other, first, `${sample.path} gave two requests one id`);
  }
}

async function refusesUpgrades(fixture: Fixture): Promise<void> {
  const calls = fixture.channel.calls.length;
  const upgrades = present(fixture.peer.upgrades?.bind(fixture.peer), "the peer has no upgrades()", "socket");
  for (const sample of upgrades((path) => fixture.channel.url(path))) {
    const route = socketRouteOf(fixture.adapter, sample.path);
    assert.ok(route, `the adapter has no socket route ${sample.path}`);
    const refusal = await route.authorize(sample.forged());
    assert.ok(refusal, `${sample.path} let a forged upgrade in`);
    const { status } = refusal;
    assert.ok(status >= 400 && status < 500, `${sample.path} answered ${status} to a forged upgrade`);
    assert.equal(fixture.channel.calls.length, calls, `${sample.path} accepted something of a forged upgrade`);
    const reply = await route.authorize(sample.good());
    assert.equal(reply, null, `${sample.path} answered ${reply?.status} to a good upgrade`);
  }
}

export const routeChecks: readonly Check[] = [
  check("http: a forged request is 403 and accepts nothing", ["http"], refusesForged),
  check("http: a good request is answered 2xx", ["http"], answersSigned),
  check("http: a good request is answered 2xx behind a proxy", ["http"], ignoresTheHost),
  check("http: no answer while accept is pending", ["http"], answersAfterCommit),
  check("http: 5xx when accept rejected", ["http"], answersRejection),
  check("http: the same request has the same id, another request another", ["http"], stableIds),
  check("socket: a forged upgrade is refused before it happens", ["socket"], refusesUpgrades),
];
