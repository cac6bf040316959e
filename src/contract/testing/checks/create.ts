// Rules that apply before anything is sent or read: the definition, its configuration and its `create`.

import assert from "node:assert/strict";
import { type Adapter, type Route, type Traits, wrongPart } from "../../index.ts";
import { recordingChannel } from "../channel.ts";
import { type AdapterUnderTest, type Check, check, createFixture, type Fixture, httpRouteOf } from "../fixture.ts";
import type { Ability, Harness } from "../harness.ts";
import { watchStillness } from "../stillness.ts";

async function createIsStill(subject: AdapterUnderTest): Promise<void> {
  const peer = await subject.harness.start();
  try {
    const config = await subject.definition.config.parseAsync(peer.config("right"));
    const channel = recordingChannel();
    const { acts } = await watchStillness(() => subject.definition.create(channel, config));
    assert.deepEqual(acts, [], `create did I/O or started timers: ${acts.join(", ")}`);
    assert.deepEqual(channel.calls, [], "create called accept");
  } finally {
    await peer.stop();
  }
}

async function configIsStrict(subject: AdapterUnderTest): Promise<void> {
  const peer = await subject.harness.start();
  try {
    const block = peer.config("right");
    const { config } = subject.definition;
    const taken = await config.safeParseAsync(block);
    assert.ok(taken.success, `the harness's own block is refused: ${taken.error?.message}`);
    const open = new Set(subject.harness.openKeys ?? []);
    for (const [path, strange] of withStrangeKey(block).filter(([path]) => !open.has(path))) {
      const where = path === "" ? "at the top" : `in "${path}"`;
      const result = await config.safeParseAsync(strange);
      assert.ok(!result.success, `an unknown key ${where} was taken without an error`);
    }
  } finally {
    await peer.stop();
  }
}

/** Returns copies of `block`, each with one unknown key in one of its objects, and the dotted path of that object. */
function withStrangeKey(block: unknown, path = ""): (readonly [string, unknown])[] {
  if (block === null || typeof block !== "object" || Array.isArray(block)) return [];
  const inner = Object.entries(block).flatMap(([key, value]) =>
    withStrangeKey(value, path === "" ? key : `${path}.${key}`).map(
      ([at, strange]) => [at, { ...block, [key]: strange }] as const,
    ),
  );
  return [[path, { ...block, unheard_of: 1 }], ...inner];
}

const parts: readonly (readonly [Ability, (adapter: Adapter, traits: Traits) => boolean])[] = [
  ["inbound", (adapter) => adapter.inbound !== undefined],
  ["outbound", (adapter) => adapter.outbound !== undefined],
  ["capacity", (adapter) => adapter.outbound?.capacity !== undefined],
  ["attachments", (_, traits) => traits.attachments],
  ["reconcile", (adapter) => adapter.outbound?.reconcile !== undefined],
  ["probe", (adapter) => adapter.probe !== undefined],
  ["http", (adapter) => hasRoute(adapter, "http")],
  ["socket", (adapter) => hasRoute(adapter, "socket")],
];

async function partsAreDeclared({ adapter, definition, harness, peer, channel }: Fixture): Promise<void> {
  assert.equal(definition.contract, 1, `contract is ${String(definition.contract)}, not 1`);
  assert.ok(definition.name.length > 0, "the definition has no name");
  const wrong = parts.filter(([part, has]) => has(adapter, definition.traits) === lacks(harness, part));
  const texts = wrong.map(([part, has]) =>
    has(adapter, definition.traits) ? `has ${part}, declared lacking` : `lacks ${part}, undeclared in Harness.lacks`,
  );
  assert.deepEqual(texts, [], `the adapter ${texts.join("; ")}`);
  const url = channel.url.bind(channel);
  assert.equal(wrongPart(adapter), null, `create returned a wrong adapter: ${wrongPart(adapter)}`);
  const requests = (peer.requests?.(url) ?? []).map((sample) => httpRouteOf(adapter, sample));
  const upgrades = (peer.upgrades?.(url) ?? []).map(({ path }) => path);
  const bare = (adapter.routes ?? []).flatMap((route) => {
    if (route.kind === "http") return requests.includes(route) ? [] : [`${route.method} ${route.path}`];
    return upgrades.includes(route.path) ? [] : [`socket ${route.path}`];
  });
  assert.deepEqual(bare, [], `the harness has no sample for the routes ${bare.join(", ")}`);
}

const hasRoute = ({ routes = [] }: Adapter, wanted: Route["kind"]) => routes.some(({ kind }) => kind === wanted);
/** Abilities of `outbound`: a harness that declares it lacking need not declare them. */
const outboundAbilities: readonly Ability[] = ["capacity", "attachments", "reconcile"];
const lacks = (harness: Harness, ability: Ability) =>
  harness.lacks?.[ability] !== undefined ||
  (outboundAbilities.includes(ability) && harness.lacks?.outbound !== undefined);

async function twoAreApart(fixture: Fixture): Promise<void> {
  const other = await createFixture(fixture, fixture.peer);
  assert.notEqual(fixture.adapter, other.adapter, "create gave two channels one adapter");
}

export const createChecks: readonly Check[] = [
  { name: "create: does no I/O and starts no timer", needs: [], run: createIsStill },
  check("create: gives every channel an adapter of its own", [], twoAreApart),
  { name: "config: unknown keys are errors", needs: [], run: configIsStrict },
  check("parts: are those the harness declares", [], partsAreDeclared),
];
