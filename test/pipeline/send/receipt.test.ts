// What a receipt makes of a draft, as a table, on a real store.

import { type DeliveryEvent, externalId, sendKey } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import { standardTiming } from "../../../src/ops/timing.ts";
import { matchReceipt } from "../../../src/pipeline/reconcile/receipts.ts";
import { recordSending } from "../../../src/pipeline/send/rows.ts";
import type { Database } from "../../../src/store/driver.ts";
import { attemptsOn } from "../../../src/store/operators/outbox.ts";
import { cite } from "../../../src/store/tables/conversations.ts";
import { readDraft } from "../../../src/store/tables/drafts.ts";
import { storedEvents } from "../../../src/store/tables/events.ts";
import { suppression } from "../../../src/store/tables/suppressions.ts";
import { lineOf, listen, put, receipt, watched } from "../../support/pipeline/stage.ts";
import { conversation, draft, dueChannels, stateOf, storeEvent } from "../../support/store/databases.ts";

/** A draft that has been tried once and is in `state` now, with another behind it. */
async function tried(state: string, open: 0 | 1): Promise<Database> {
  const db = await watched();
  await db.tx(async (q) => {
    await conversation(q, "k");
    await draft(q, "d1", "k");
    await draft(q, "d2", "k");
    const row = await readDraft(q, "d1");
    if (row) await recordSending(q, row, "n", 1);
    await cite(q, "c", "sent-1", "k", "d1");
    await put(q, "drafts", "d1", `state = '${state}', open = ${open}`);
    await q.run("UPDATE lanes SET due_at = NULL");
  });
  return db;
}

async function arrives(
  db: Database,
  event: Partial<DeliveryEvent>,
  line = lineOf(),
): Promise<{ state: string; code: string | null }> {
  return db.tx(async (q) => {
    const id = await storeEvent(q, "receipt", { kind: "delivery" });
    const [row] = await storedEvents(q, "c", 1);
    if (!row) throw new Error("the receipt was not stored");
    await matchReceipt(q, line, row, receipt(event), { log: listen().log, timing: standardTiming });
    const found = await q.one<{ state: string; code: string | null }>(
      "SELECT state, code FROM events WHERE id = $1",
      id,
    );
    if (!found) throw new Error("the receipt is gone");
    return found;
  });
}

const about = { sent: [externalId("sent-1")] };
const open = ["queued", "sending", "unknown"];

it.each([
  // state now: after accepted, delivered, read, failed
  ["queued", "sent", "delivered", "delivered", "failed"],
  ["sending", "sent", "delivered", "delivered", "failed"],
  ["unknown", "sent", "delivered", "delivered", "failed"],
  ["held", "sent", "delivered", "delivered", "failed"],
  ["dropped", "sent", "delivered", "delivered", "failed"],
  ["sent", "sent", "delivered", "delivered", "failed"],
  ["delivered", "delivered", "delivered", "delivered", "failed"],
  ["failed", "failed", "failed", "failed", "failed"],
])("a draft that is %s becomes, by accepted, delivered, read, failed: %s %s %s %s", async (state, ...expected) => {
  const found: (string | undefined)[] = [];
  for (const said of ["accepted", "delivered", "read", "failed"] as const) {
    const db = await tried(state, open.includes(state) ? 1 : 0);
    expect(await arrives(db, { about, state: said })).toEqual({ state: "routed", code: null });
    const after = await db.read((q) => stateOf(q, "drafts", "d1"));
    found.push(after);
    // What stood in front of its lane stands there no more.
    if (open.includes(state)) expect(await db.read((q) => dueChannels(q, "drafts")), said).toEqual(["c"]);
    const [attempt] = await db.read((q) => attemptsOn(q, "d1"));
    if (open.includes(state)) expect(attempt?.outcome).toBe(said === "failed" ? "refused" : "sent");
  }
  expect(found).toEqual(expected);
});

it("says nothing about a draft that was never tried", async () => {
  const db = await tried("queued", 1);
  for (const said of ["delivered", "failed"] as const) {
    await db.tx((q) => q.run("DELETE FROM events"));
    await arrives(db, { about: { key: sendKey("d2") }, state: said, permanent: true });
    expect(await db.read((q) => stateOf(q, "drafts", "d2"))).toBe("queued");
  }
  expect(await db.read((q) => suppression(q, "c", "a@example.org"))).toBeNull();
});

it("finds the draft by key, then by id, then by recipient", async () => {
  const by = async (event: Partial<DeliveryEvent>) => {
    const db = await tried("sent", 0);
    const settled = await arrives(db, { ...event, state: "delivered" });
    return [settled.state, settled.code, await db.read((q) => stateOf(q, "drafts", "d1"))];
  };
  const hit = ["routed", null, "delivered"];
  const miss = ["ignored", "unmatched", "sent"];
  expect(await by({ about: { key: sendKey("d1") } })).toEqual(hit);
  expect(await by({ about: { key: sendKey("nobody"), sent: [externalId("x"), externalId("sent-1")] } })).toEqual(hit);
  expect(await by({ about: { recipient: "A@Example.org" } })).toEqual(hit);
  expect(await by({ about: { recipient: "b@example.org" } })).toEqual(miss);
  expect(await by({ about: { sent: [externalId("x")] } })).toEqual(miss);
  expect(await by({ about: {} })).toEqual(miss);
});

it.each([
  ["the same", "k"],
  ["another", "k2"],
])("is about the newest draft with its id, in %s conversation", async (_which, other) => {
  const db = await tried("sent", 0);
  await db.tx(async (q) => {
    if (other !== "k") await conversation(q, other);
    await draft(q, "d3", other);
    const row = await readDraft(q, "d3");
    if (row) await recordSending(q, row, "n", 1);
    await cite(q, "c", "sent-1", other, "d3");
    await put(q, "drafts", "d3", "state = 'sent', open = 0");
  });
  expect(await arrives(db, { about, state: "failed" })).toEqual({ state: "routed", code: null });
  const states = await db.read((q) => Promise.all(["d1", "d3"].map((id) => stateOf(q, "drafts", id))));
  expect(states).toEqual(["sent", "failed"]);
});

it("suppresses an address at the second hard bounce, and counts one draft's bounce once", async () => {
  const db = await tried("sent", 0);
  const why = () => db.read((q) => suppression(q, "c", "a@example.org"));
  const bounce = async (key: string) => {
    await db.tx((q) => q.run("DELETE FROM events"));
    await arrives(db, {
      about: { key: sendKey(key) },
      state: "failed",
      permanent: true,
      detail: "550 5.1.1",
    });
  };
  await bounce("d1");
  await bounce("d1");
  expect(await why()).toBeNull();
  await db.tx(async (q) => {
    const row = await readDraft(q, "d2");
    if (row) await recordSending(q, row, "n", 1);
    await q.run("UPDATE drafts SET state = 'sent' WHERE id = 'd2'");
  });
  await bounce("d2");
  expect(await why()).toBe("550 5.1.1");
});

/** An adapter whose drafts go to these addresses. */
const withRecipients = (...all: string[]) =>
  lineOf({
    outbound: {
      compose: () => [],
      send: () => Promise.reject(new Error("not called")),
      recipients: () => all,
    },
  });

/** The drafts `d1` and `d2` went out; each bounces, the bounce naming `recipient`. */
async function bothBounce(about: (key: string) => DeliveryEvent["about"], line = lineOf()): Promise<Database> {
  const db = await tried("sent", 0);
  await db.tx(async (q) => {
    const row = await readDraft(q, "d2");
    if (row) await recordSending(q, row, "n", 1);
    await put(q, "drafts", "d2", "state = 'sent', open = 0");
  });
  for (const key of ["d1", "d2"]) {
    await db.tx((q) => q.run("DELETE FROM events"));
    await arrives(db, { about: about(key), state: "failed", permanent: true, detail: "550 5.1.1" }, line);
  }
  return db;
}
const states = (db: Database) =>
  db.read(async (q) => [await stateOf(q, "drafts", "d1"), await stateOf(q, "drafts", "d2")]);

it("strikes the copy's address that bounced, and leaves the person and the reply alone", async () => {
  const copies = (...all: string[]) => withRecipients("a@example.org", ...all);
  const dead = (key: string) => ({ key: sendKey(key), recipient: "Dead@Example.net" });
  const db = await bothBounce(dead, copies("Dead@example.net"));
  expect(await states(db)).toEqual(["sent", "sent"]);
  expect(await db.read((q) => suppression(q, "c", "dead@example.net"))).toBe("550 5.1.1");
  expect(await db.read((q) => suppression(q, "c", "a@example.org"))).toBeNull();
});

it("marks the draft that a bounce without our ids seems to name, and suppresses no address for it", async () => {
  const db = await bothBounce(() => ({ recipient: "a@example.org" }));
  expect(await states(db)).toEqual(["failed", "failed"]);
  expect(await db.read((q) => q.all("SELECT address FROM suppressions"))).toEqual([]);
});

it.each(["queued", "unknown", "held"])(
  "does not end a draft that is %s for a report without our ids",
  async (state) => {
    const db = await tried(state, state === "held" ? 0 : 1);
    const about = { recipient: "a@example.org", mentioned: ["a@example.org"] };
    await arrives(db, { about, state: "failed", permanent: true, detail: "550 5.1.1" });
    await db.tx((q) => q.run("DELETE FROM events"));
    await arrives(db, { about, state: "delivered" });
    expect(await db.read((q) => stateOf(q, "drafts", "d1"))).toBe(state);
  },
);

it("suppresses at once whom the provider says to have opted out, as a refusal to send does", async () => {
  const why = (db: Database, address = "a@example.org") => db.read((q) => suppression(q, "c", address));
  const gone = { state: "failed", permanent: true, code: "opted-out", detail: "undelivered 21610" } as const;
  for (const state of ["sending", "sent", "failed"]) {
    const db = await tried(state, state === "sending" ? 1 : 0);
    expect(await arrives(db, { about, ...gone })).toEqual({ state: "routed", code: null });
    expect(await why(db), state).toBe("the provider says that they opted out: undelivered 21610");
    expect(await db.read((q) => stateOf(q, "drafts", "d1"))).toBe("failed");
  }
  const db = await tried("sent", 0);
  await arrives(db, { about: { recipient: "a@example.org" }, ...gone });
  expect(await why(db), "anybody can write one that names only the person").toBeNull();
  await db.tx((q) => q.run("DELETE FROM events"));
  await arrives(db, { about, ...gone, state: "delivered" });
  expect(await why(db), "it is no failure").toBeNull();
});

it("does not suppress a person who has said START since the attempt", async () => {
  const gone = { state: "failed", permanent: true, code: "opted-out", detail: "undelivered 21610" } as const;
  const after = async (sent: string) => {
    const db = await tried("sent", 0);
    await db.tx(async (q) => {
      const id = await storeEvent(q, "start");
      await put(
        q,
        "events",
        String(id),
        `state = 'ignored', code = 'opt-in', sender = 'a@example.org', sent_at = ${sent}`,
      );
    });
    expect(await arrives(db, { about, ...gone })).toEqual({ state: "routed", code: null });
    return [
      await db.read((q) => stateOf(q, "drafts", "d1")),
      await db.read((q) => suppression(q, "c", "a@example.org")),
    ];
  };
  expect(await after("now_ms() + 1000")).toEqual(["failed", null]);
  expect(await after("now_ms() - 1000")).toEqual([
    "failed",
    "the provider says that they opted out: undelivered 21610",
  ]);
});

it("keeps the state delivered when later receipts contradict it", async () => {
  for (const [platform, state, strikes] of [
    ["sms", "delivered", 0],
    ["email", "failed", 1],
  ] as const) {
    const db = await tried("delivered", 0);
    const line = { ...lineOf(), traits: { ...lineOf().traits, platform } };
    expect(await arrives(db, { about, state: "failed", permanent: true }, line)).toMatchObject({
      state: "routed",
    });
    expect(await db.read((q) => stateOf(q, "drafts", "d1")), platform).toBe(state);
    expect(await db.read((q) => q.all("SELECT address FROM suppressions"))).toHaveLength(strikes);
  }
});

describe("a bounce suppresses recipients of the reply that it cites, and no other address", () => {
  const suppressed = async (db: Database) =>
    (await db.read((q) => q.all<{ address: string }>("SELECT address FROM suppressions WHERE active = 1"))).map(
      ({ address }) => address,
    );
  const mentions =
    (...mentioned: string[]) =>
    (key: string) => ({ key: sendKey(key), mentioned });

  it("not the address of another customer, whose bounce is forged by a recipient who knows the Message-ID", async () => {
    const victim = "victim@example.net";
    const named = await bothBounce(
      (key) => ({ key: sendKey(key), recipient: victim }),
      withRecipients("a@example.org"),
    );
    expect(await suppressed(named)).toEqual([]);
    // A server that forwards mails reports the address behind it, so the only recipient may not have them.
    expect(await states(named)).toEqual(["failed", "failed"]);
    const copied = await bothBounce(
      (key) => ({ key: sendKey(key), recipient: victim }),
      withRecipients("a@example.org", "b@example.org"),
    );
    expect(await suppressed(copied)).toEqual([]);
    expect(await states(copied)).toEqual(["sent", "sent"]);
    const text = await bothBounce(mentions(victim), withRecipients("a@example.org", "b@example.org"));
    expect(await suppressed(text)).toEqual([]);
    const uncited = await bothBounce(() => ({ mentioned: ["a@example.org"] }));
    expect(await suppressed(uncited)).toEqual([]);
  });
  it("the recipient whom the text names, or the only one", async () => {
    const only = await bothBounce(mentions("postmaster@example.org"), withRecipients("a@example.org"));
    expect(await suppressed(only)).toEqual(["a@example.org"]);
    const all = withRecipients("a@example.org", "copy@example.org");
    const person = await bothBounce(mentions("A@example.org", "copy@example.org"), all);
    expect(await suppressed(person)).toEqual(["a@example.org"]);
    expect(await states(person)).toEqual(["failed", "failed"]);
    const copy = await bothBounce(mentions("x@example.org", "copy@example.org", "a@example.org"), all);
    expect(await suppressed(copy)).toEqual(["copy@example.org"]);
    expect(await states(copy)).toEqual(["sent", "sent"]);
  });
});
