// Where deliveries do not go: judged at each of them, and connected to what was judged.

import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import type { Resolve } from "../../../src/ops/address.ts";
import { lineWith, openBench, opened, type Receiver, startReceiver, status } from "../../support/escalation/policy.ts";
import { describeReal, need } from "../../support/machine/debian.ts";
import { certificate } from "../../support/machine/network.ts";

async function receiver(options: Parameters<typeof startReceiver>[0] = {}): Promise<Receiver> {
  const started = await startReceiver(options);
  onTestFinished(() => started.close());
  return started;
}

const at =
  (...addresses: string[]): Resolve =>
  async () =>
    addresses.map((address) => ({ address }));

/** Two machines of one port; a name may stand for either. */
async function twins(): Promise<readonly [Receiver, Receiver]> {
  for (;;) {
    const one = await receiver();
    const other = await receiver({ host: "127.0.0.2", port: one.port }).catch(() => null);
    if (other) return [one, other];
  }
}

describe("a private address", () => {
  it.each<[string, (port: number) => string, Resolve | undefined]>([
    ["as it is", (port) => `https://127.0.0.1:${port}/`, undefined],
    ["in other digits", (port) => `https://2130706433:${port}/`, undefined],
    ["wrapped", (port) => `https://[::ffff:127.0.0.1]:${port}/`, undefined],
    ["behind a name", (port) => `https://hooks.example:${port}/`, at("127.0.0.1")],
    ["among others", (port) => `https://hooks.example:${port}/`, at("93.184.216.34", "127.0.0.1")],
    ["over http", (port) => `http://hooks.example:${port}/`, at("127.0.0.1")],
  ])("%s gets nothing", async (_what, url, resolve) => {
    const hook = await receiver();
    const bench = openBench(url(hook.port), { allow: [], ...(resolve && { resolve }) });
    expect(await bench.send(opened)).toMatchObject({
      outcome: { kind: "refused", code: "address" },
      crossed: false,
    });
    expect(hook.got).toEqual([]);
  });

  it("of the agent's recipient gets nothing, either", async () => {
    const hook = await receiver();
    const lines = [lineWith([{ channel: "webhook", value: hook.url }])];
    const bench = openBench(hook.url, { people: [], lines, allow: ["10.0.0.0/8"] });
    expect((await bench.send(opened)).outcome).toMatchObject({ kind: "refused", code: "address" });
    expect(hook.got).toEqual([]);
  });

  it("is reached when it is allowed, by its name, its address or its range", async () => {
    const hook = await receiver();
    const url = `http://pager.internal:${hook.port}/`;
    for (const allow of ["pager.internal", "127.0.0.1", "127.0.0.0/8"]) {
      const bench = openBench(url, { allow: [allow], resolve: at("127.0.0.1") });
      expect((await bench.send(opened)).outcome).toMatchObject({ kind: "sent" });
    }
    expect(hook.got.map(({ headers }) => headers.host)).toEqual(Array(3).fill(`pager.internal:${hook.port}`));
  });
});

it("a name that moves inside after it was judged is not followed", async () => {
  const [judged, inside] = await twins();
  let asked = 0;
  const resolve: Resolve = async () => [{ address: asked++ === 0 ? "127.0.0.1" : "127.0.0.2" }];
  const bench = openBench(`http://hooks.example:${judged.port}/`, { allow: ["127.0.0.1"], resolve });
  expect((await bench.send(opened)).outcome).toMatchObject({ kind: "sent" });
  expect([judged.got.length, inside.got.length, asked]).toEqual([1, 0, 1]);
  // By the next delivery it has moved: seen, and refused.
  expect((await bench.send(opened)).outcome).toMatchObject({ kind: "refused", code: "address" });
  expect([judged.got.length, inside.got.length, asked]).toEqual([1, 0, 2]);
});

it("the next address of a name is tried when the first cannot be reached", async () => {
  const [listening, deaf] = await twins();
  await deaf.close();
  const url = `http://hooks.example:${listening.port}/`;
  const bench = openBench(url, { allow: ["hooks.example"], resolve: at("127.0.0.2", "127.0.0.1") });
  expect((await bench.send(opened)).outcome).toMatchObject({ kind: "sent" });
  expect(listening.got).toHaveLength(1);
});

it.each([301, 302, 303, 307, 308])("a redirect (%i) to somewhere inside is not followed", async (code) => {
  const [outside, inside] = await twins();
  outside.answer(status(code, { location: inside.url, refresh: `0; url=${inside.url}` }));
  const sent = await openBench(outside.url).send(opened);
  expect(sent.outcome).toMatchObject({ kind: "refused", code: "redirect" });
  expect([outside.got.length, inside.got.length]).toEqual([1, 0]);
});

const missing = await need("openssl", "/usr/bin/openssl");
describeReal("over TLS", missing, () => {
  const authorities = getCACertificates("default");
  beforeAll(() => setDefaultCACertificates([...authorities, certificate().cert]));
  afterAll(() => setDefaultCACertificates(authorities));

  it("the certificate is that of the name, not of the address", async () => {
    const hook = await receiver({ secure: true });
    const options = { allow: ["127.0.0.1"], resolve: at("127.0.0.1") };
    const good = openBench(`https://localhost:${hook.port}/hook`, options);
    expect((await good.send(opened)).outcome).toMatchObject({ kind: "refused", code: "address" });
    const named = openBench(`https://localhost:${hook.port}/hook`, { ...options, allow: ["localhost"] });
    expect((await named.send(opened)).outcome).toMatchObject({ kind: "sent" });
    const other = openBench(`https://hooks.example:${hook.port}/hook`, options);
    expect(await other.send(opened)).toMatchObject({
      outcome: { kind: "deferred", reason: expect.stringContaining("altnames") },
      crossed: false,
    });
    expect(hook.got).toHaveLength(1);
  });

  it("a receiver that speaks no TLS gets nothing", async () => {
    const hook = await receiver();
    const sent = await openBench(`https://127.0.0.1:${hook.port}/`).send(opened);
    expect(sent).toMatchObject({ outcome: { kind: "deferred" }, crossed: false });
    expect(hook.got).toEqual([]);
  });
});
