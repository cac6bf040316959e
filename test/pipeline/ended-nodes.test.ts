// A node of several has ended, or seems to have: what it had claimed and not begun is due again at once, what it had begun
// waits for the end of its leases, and a node that was only suspended sends nothing that another one has taken over.

import { externalId } from "bridgehead/contract";
import { beforeAll, expect, it, onTestFinished } from "vitest";
import { heartbeatStage } from "../../src/calls/heartbeat/stage.ts";
import { systemClock } from "../../src/ops/clock.ts";
import { standardTiming } from "../../src/ops/timing.ts";
import type { ChannelRuntime } from "../../src/pipeline/channel-runtime.ts";
import { claimFetches } from "../../src/pipeline/fetch/rows.ts";
import { recordSending } from "../../src/pipeline/send/rows.ts";
import type { Database, Query } from "../../src/store/driver.ts";
import { guardLease, type Lease, LeaseLost } from "../../src/store/lanes.ts";
import { endProcesses, nodeLease, releaseLanes, silentNodes, takeLease } from "../../src/store/leases.ts";
import { enqueueDraft } from "../../src/store/tables/drafts.ts";
import { ensureChannel } from "../../src/store/tables/events.ts";
import { takeProbe, writePause } from "../../src/store/tables/pauses.ts";
import { endAttempt, readTurn, recordAsking } from "../../src/store/tables/turns.ts";
import { describeReal } from "../support/machine/debian.ts";
import { mail, openPipeline } from "../support/pipeline/pipeline.ts";
import { listen, startPlatform } from "../support/pipeline/stage.ts";
import {
  conversation,
  draft,
  leaseLanes,
  migrated,
  postgresDatabase,
  put,
  relayedTurn,
  storeEvent,
  turn,
} from "../support/store/databases.ts";
import { needPostgres, type SharedPostgres, sharedPostgres } from "../support/store/postgres.ts";

const minute = 60_000;
/** Longer than the interval of a node's heartbeat. */
const renewal = 6000;

describeReal("work of an ended node", await needPostgres(), () => {
  let server: SharedPostgres;
  beforeAll(async () => {
    server = await sharedPostgres();
  });

  /** Two nodes' connections to a store with channel `c`. */
  async function connections(): Promise<readonly [Database, Database]> {
    const store = await migrated(() => postgresDatabase(server));
    const both = [await store.open(), await store.open()] as const;
    await both[0].tx((q) => ensureChannel(q, "c"));
    return both;
  }
  const leased = (q: Query, direction: "in" | "out", holder: string) =>
    leaseLanes(q, direction, "c", holder, minute, 10);
  const of = (leases: readonly Lease[]) => leases.map((lease) => lease.conversation).sort();
  const leaseOf = (leases: readonly Lease[], id: string): Lease => {
    const lease = leases.find((one) => one.conversation === id);
    if (!lease) throw new Error(`the lane of ${id} is not leased`);
    return lease;
  };
  const record = async (q: Query, id: string, lease: Lease) => {
    await guardLease(q, lease);
    return recordAsking(q, await readTurn(q, id), "h/a", lease.token);
  };
  const forced = (q: Query, id: string, of: string) =>
    enqueueDraft(q, {
      id,
      conversation: of,
      channel: "c",
      reply: "rd",
      recipient: "a@example.org",
      body: "{}",
      dueAt: 0,
      forced: true,
    });

  it("is due again, but for what has an attempt under way", async () => {
    const [db] = await connections();
    await db.tx(async (q) => {
      for (const id of ["asked", "waiting"]) await turn(q, `t-${id}`, await conversation(q, id));
      await draft(q, "d", await conversation(q, "sending"));
      await draft(q, "e", await conversation(q, "queued"));
    });
    const [questions, drafts] = await db.tx(async (q) => [await leased(q, "in", "h/a"), await leased(q, "out", "h/a")]);
    expect([of(questions), of(drafts)]).toEqual([
      ["asked", "waiting"],
      ["queued", "sending"],
    ]);
    await db.tx((q) => record(q, "t-asked", leaseOf(questions, "asked")));
    await db.tx(async (q) => {
      const lease = leaseOf(drafts, "sending");
      await guardLease(q, lease);
      expect(await recordSending(q, { id: "d", attempts: 0 }, "h/a", lease.token)).toBe(true);
      // It comes before the draft that is being sent.
      await forced(q, "urgent", "sending");
    });
    expect(await db.tx((q) => releaseLanes(q, ["h/b"], "unattempted"))).toBe(0);
    expect(await db.tx((q) => releaseLanes(q, ["h/b", "h/a"], "unattempted"))).toBe(2);
    expect(of(await db.tx((q) => leased(q, "in", "h/b")))).toEqual(["waiting"]);
    expect(of(await db.tx((q) => leased(q, "out", "h/b")))).toEqual(["queued"]);
  });

  it("waits for a question of a call that was dropped while it is asked", async () => {
    const [db] = await connections();
    await db.tx(async (q) => turn(q, "t", await conversation(q, "k")));
    const lease = leaseOf(await db.tx((q) => leased(q, "in", "h/a")), "k");
    await db.tx((q) => record(q, "t", lease));
    await db.tx(async (q) => {
      await put(q, "turns", "t", "state = 'dropped', open = 0");
      await turn(q, "newer", "k");
    });
    expect(await db.tx((q) => releaseLanes(q, ["h/a"], "unattempted"))).toBe(0);
    await db.tx((q) => endAttempt(q, "t", "unknown", null));
    expect(await db.tx((q) => releaseLanes(q, ["h/a"], "unattempted"))).toBe(1);
  });

  it("is due again where the node only looks up an attempt of an earlier one", async () => {
    const [db] = await connections();
    await db.tx(async (q) => turn(q, "t", await conversation(q, "k")));
    const first = leaseOf(await db.tx((q) => leased(q, "in", "h/a")), "k");
    await db.tx((q) => record(q, "t", first));
    await db.tx((q) => q.run("UPDATE lanes SET lease_until = 0"));
    expect(of(await db.tx((q) => leased(q, "in", "h/b")))).toEqual(["k"]);
    expect(await db.tx((q) => releaseLanes(q, ["h/b"], "unattempted"))).toBe(1);
  });

  it("is not begun by a node that was only suspended", async () => {
    const [db, other] = await connections();
    await db.tx(async (q) => turn(q, "t", await conversation(q, "k")));
    const lease = leaseOf(await db.tx((q) => leased(q, "in", "h/a")), "k");
    expect(await other.tx((q) => releaseLanes(q, ["h/a"], "unattempted"))).toBe(1);
    await expect(db.tx((q) => record(q, "t", lease))).rejects.toThrow(LeaseLost);
    const again = leaseOf(await other.tx((q) => leased(q, "in", "h/b")), "k");
    expect(again.token).not.toBe(lease.token);
    await expect(db.tx((q) => record(q, "t", lease))).rejects.toThrow(LeaseLost);
    expect(await other.tx((q) => record(q, "t", again))).toBe(true);
  });

  it("is left to the node that records its attempt at that moment", async () => {
    const [db, other] = await connections();
    await db.tx(async (q) => turn(q, "t", await conversation(q, "k")));
    const lease = leaseOf(await db.tx((q) => leased(q, "in", "h/a")), "k");
    const during = await db.tx(async (q) => {
      await record(q, "t", lease);
      return other.tx((q2) => releaseLanes(q2, ["h/a"], "unattempted"));
    });
    expect(during).toBe(0);
    expect(await other.tx((q) => releaseLanes(q, ["h/a"], "unattempted"))).toBe(0);
  });

  it("is found by the heartbeat that expired, once, and by the name of a restarted node", async () => {
    const [db] = await connections();
    const beats = (node: string) => db.tx((q) => takeLease(q, nodeLease(node), node, minute));
    const ends = (node: string) => db.tx((q) => q.run("UPDATE leases SET until = 0 WHERE name = $1", nodeLease(node)));
    for (const node of ["h/a", "h/b"]) await beats(node);
    expect(await db.tx(silentNodes)).toEqual([]);
    await ends("h/a");
    expect(await db.tx(silentNodes)).toEqual(["h/a"]);
    expect(await db.tx(silentNodes)).toEqual([]);
    await beats("h/a");
    expect(await db.tx(silentNodes)).toEqual([]);
    await ends("h/a");
    expect(await db.tx(silentNodes)).toEqual(["h/a"]);

    await beats("h%/a");
    const ended = async (node: string) => (await db.tx((q) => endProcesses(q, node))).ended;
    expect([
      await ended("h%/a"),
      await ended("h1/b"),
      await ended("n"),
      await ended("h%/b"),
      await ended("h%/b"),
    ]).toEqual([[], [], [], ["h%/a"], []]);
  });

  it("is certain when the connection of an earlier process is closed, and what it had begun is then due as well", async () => {
    const store = await migrated(() => postgresDatabase(server));
    const [db, process] = [await store.open(), await store.open()];
    await db.tx(async (q) => {
      await ensureChannel(q, "c");
      await turn(q, "t", await conversation(q, "k"));
    });
    await process.hold("h/a");
    await process.tx((q) => takeLease(q, nodeLease("h/a"), "h/a", minute));
    await process.tx((q) => takeLease(q, "inbound:c", "h/a", minute));
    const lease = leaseOf(await process.tx((q) => leased(q, "in", "h/a")), "k");
    await process.tx((q) => record(q, "t", lease));
    const look = () => db.tx((q) => endProcesses(q, "h/b"));
    expect(await look()).toEqual({ ended: [], running: ["h/a"] });
    expect(await db.tx((q) => takeLease(q, "inbound:c", "h/b", minute))).toBeNull();
    await process.close();
    await expect.poll(look).toEqual({ ended: ["h/a"], running: [] });
    expect(await db.tx((q) => takeLease(q, "inbound:c", "h/b", minute))).not.toBeNull();
    expect(await db.tx((q) => releaseLanes(q, ["h/a"], "all"))).toBe(1);
    expect(of(await db.tx((q) => leased(q, "in", "h/b")))).toEqual(["k"]);
  });

  it("includes its downloads and its probes of pauses, and not those of others", async () => {
    const [db] = await connections();
    const states = () =>
      db.read(async (q) => ({
        downloads: await q.all("SELECT holder, due_at <= now_ms() AS due FROM attachments ORDER BY position"),
        pauses: await q.all("SELECT probe, until <= now_ms() AS due FROM send_pauses ORDER BY sender"),
      }));
    const file = { name: "a.txt", mediaType: "text/plain", size: 1, ref: "r", named: true, blob: null };
    await db.tx(async (q) => {
      await storeEvent(q, "e", { attachments: [file, file] });
      const claims = [await claimFetches(q, "c", "h/a", minute, 1), await claimFetches(q, "c", "g/a", minute, 1)];
      expect(claims.flat()).toHaveLength(2);
      for (const node of ["h/a", "g/a"]) {
        await draft(q, `d-${node}`, await conversation(q, `k-${node}`));
        await leaseLanes(q, "out", "c", node, minute, 1);
        const pause = { sender: node, cause: "unreachable", failures: 1, reason: "down" } as const;
        await writePause(q, "c", { ...pause, forMs: 0, by_provider: false });
        expect(await takeProbe(q, "c", node, `d-${node}`, minute, 2 * minute)).toBe(true);
      }
    });
    // Their heartbeats are there, and the connections with their locks are not.
    for (const node of ["h/a", "g/a"]) await db.tx((q) => takeLease(q, nodeLease(node), node, minute));
    const started = { db, clock: systemClock, log: listen().log, node: "h/b", timing: standardTiming };
    await db.tx((q) => heartbeatStage(started).run(q));
    const { downloads, pauses } = await states();
    expect(downloads).toHaveLength(2);
    expect(downloads).toEqual(
      expect.arrayContaining([
        { holder: null, due: true },
        { holder: "g/a", due: false },
      ]),
    );
    expect(pauses).toEqual([
      { probe: "d-g/a", due: false },
      { probe: null, due: true },
    ]);
  });

  it("is not taken from a running process with the same name, which is reported once", async () => {
    const { a, rest, db } = await claimed(["h/a", "h/b"]);
    const [b] = rest;
    if (!b) throw new Error("no second node");
    await db.hold("h/a");
    for (let look = 0; look < 3; look += 1) {
      await db.tx((q) => takeLease(q, nodeLease("h/a"), "h/a", minute));
      b.clock.forward(renewal);
      await b.settles();
    }
    expect([a.sent, b.sent]).toEqual([[], []]);
    expect(b.heard.filter((line) => line === "another running process has the name of this node")).toHaveLength(1);
  });

  it("leaves the mode of the platform's conversation to the node that has taken a responder's text over", async () => {
    const [db, other] = await connections();
    const platform = await startPlatform();
    const gate = Promise.withResolvers<void>();
    const reached = Promise.withResolvers<void>();
    const line = (own: ChannelRuntime): ChannelRuntime => {
      const setMode: typeof own.client.setMode = async (...given) => {
        reached.resolve();
        await gate.promise;
        return own.client.setMode(...given);
      };
      return { ...own, client: { ...own.client, setMode } };
    };
    const a = await openPipeline({ platform, db, node: "h/a", line });
    await a.arrives({ text: "hello" });
    const answered = await a.scheduler.commit((q) => relayedTurn(q, "words", Date.now()));
    await reached.promise;
    expect(await other.tx((q) => releaseLanes(q, ["h/a"], "unattempted"))).toBe(1);
    expect(of(await other.tx((q) => leased(q, "in", "h/b")))).toEqual([answered]);
    const before = platform.calls.length;
    gate.resolve();
    await expect.poll(() => a.heard).toContain("lease lost");
    expect(platform.calls.slice(before)).toEqual([]);
  });

  /** Nodes that answer one mail; the first has claimed the reply, and has not begun to send it. */
  async function claimed(nodes: readonly [string, ...string[]]) {
    const [db] = await connections();
    const platform = await startPlatform();
    const gate = Promise.withResolvers<void>();
    const reached = Promise.withResolvers<void>();
    const refused: unknown[] = [];
    const [first, ...others] = nodes;
    const a = await openPipeline({
      platform,
      db,
      node: first,
      outbound: {
        async send(_body, attempt) {
          reached.resolve();
          await gate.promise;
          await attempt.crossing().catch((error: unknown) => {
            refused.push(error);
            throw error;
          });
          return { kind: "sent", id: externalId("by-a") };
        },
      },
    });
    // Before the end of the pipeline, which waits for this work.
    onTestFinished(() => gate.resolve());
    await a.scheduler.sweep();
    await a.accepts("c", mail({ text: "hello" }));
    await reached.promise;
    const rest = await Promise.all(others.map((node) => openPipeline({ platform, db, node })));
    return { a, rest, db, platform, gate, refused };
  }

  it("is sent by another node when the heartbeat has expired, and not again by the first", async () => {
    const { a, rest, db, platform, gate, refused } = await claimed(["h/a", "i/b"]);
    const [b] = rest;
    if (!b) throw new Error("no second node");
    await b.settles();
    expect(b.sent).toEqual([]);
    await db.tx((q) => q.run("UPDATE leases SET until = 0 WHERE name = $1", nodeLease("h/a")));
    b.clock.forward(renewal);
    await b.settles();
    expect(b.sent).toEqual(["answer to hello"]);
    expect(b.heard).toContain("work of an ended node is due again");
    gate.resolve();
    await expect.poll(() => refused.length).toBe(1);
    await a.settles();
    expect([await a.drafts(), b.sent, platform.count("ask")]).toEqual([["sent"], ["answer to hello"], 1]);
  });

  it("is sent at once by the node that starts again", async () => {
    const { rest, gate, refused } = await claimed(["h/a", "i/b", "h/c"]);
    const [other, again] = rest;
    await other?.settles();
    expect(other?.sent).toEqual([]);
    await again?.settles();
    expect(again?.sent).toEqual(["answer to hello"]);
    gate.resolve();
    await expect.poll(() => refused.length).toBe(1);
  });
});
