// Messages of one run share the statements that load and write their rows. The results are those of one message after
// the other.

import { externalId, type MessageEvent } from "bridgehead/contract";
import { expect, it } from "vitest";
import { insertEvents } from "../../../src/pipeline/accept/rows.ts";
import type { ChannelRules } from "../../../src/pipeline/channel-runtime.ts";
import type { EscalationHooks } from "../../../src/pipeline/escalation.ts";
import type { Query } from "../../../src/store/driver.ts";
import { mail, openPipeline, type TestPipeline, testClock } from "../../support/pipeline/pipeline.ts";
import { event } from "../../support/store/databases.ts";

const routed = (pipeline: TestPipeline) =>
  pipeline.db.read((q) =>
    q.all<{ state: string; code: string | null }>(
      "SELECT external_id, state, code, attempts > 0 AS postponed FROM events ORDER BY id",
    ),
  );

it("routes the others when some events of a run cannot be read", async () => {
  // Those that failed are tried again when time passes.
  const pipeline = await openPipeline({ clock: testClock(true) });
  const good = (id: string) => JSON.stringify(mail({ text: id, from: { address: `${id}@example.org` } }));
  const bodies = {
    one: good("one"),
    erased: "{}",
    empty: '{"kind":"message"}',
    partly: '{"kind":"message","id":"p","from":{"address":"p@example.org"},"thread":{"answers":[]}}',
    broken: "{",
    copied: JSON.stringify(mail({ text: "c", from: { address: "c@example.org" }, cc: [{ name: "none" } as never] })),
    answered: JSON.stringify(mail({ text: "a", from: { address: "d@example.org" }, replyTo: {} as never })),
    two: good("two"),
  };
  await pipeline.scheduler.commit((q) =>
    insertEvents(
      q,
      Object.entries(bodies).map(([id, body]) => event(id, { body })),
    ),
  );
  await pipeline.settles();
  expect(await routed(pipeline)).toEqual(
    Object.keys(bodies).map((id) => {
      const well = id === "one" || id === "two";
      return { external_id: id, state: well ? "routed" : "stored", code: null, postponed: well ? 0 : 1 };
    }),
  );
});

const stores = (channel: string, message: MessageEvent) => (q: Query) =>
  insertEvents(q, [event(message.id, { channel, body: JSON.stringify(message) })]);

it("gives up an event that cannot be read, and routes the other events and channels", async () => {
  const pipeline = await openPipeline({ channels: ["c", "d"], clock: testClock(true) });
  const bad = mail({ text: "bad", cc: [{ name: "without an address" } as never] });
  for (const channel of ["c", "d"])
    await pipeline.scheduler.commit(stores(channel, channel === "c" ? bad : mail({ text: "good" })));
  await pipeline.accepts("c", mail({ text: "later" }));
  for (let n = 0; n < 5; n++) await pipeline.passes(3_600_000, 3_600_000);
  const states = await pipeline.db.read((q) => q.all("SELECT channel, state FROM events ORDER BY id"));
  expect(states).toEqual([
    { channel: "c", state: "failed" },
    { channel: "d", state: "routed" },
    { channel: "c", state: "routed" },
  ]);
});

it("routes the other channels when an error in one of them concerns no event", async () => {
  let isBroken = true;
  const broken = (rules: ChannelRules): ChannelRules => ({
    ...rules,
    get pause_on() {
      if (isBroken) throw new Error("planted");
      return undefined;
    },
  });
  const pipeline = await openPipeline({
    channels: ["c", "d"],
    line: (line) => (line.channel === "c" ? { ...line, rules: broken(line.rules) } : line),
  });
  await pipeline.scheduler.commit(async (q) => {
    for (const channel of ["c", "d"]) await stores(channel, mail({ text: channel }))(q);
  });
  await pipeline.settles();
  expect(pipeline.sent).toEqual(["answer to d"]);
  expect(pipeline.heard).toContainEqual(expect.stringMatching(/^routing a channel failed/));
  isBroken = false;
  await pipeline.settles();
  expect(pipeline.sent).toEqual(["answer to d", "answer to c"]);
});

it("uses what earlier messages of the same run have changed", async () => {
  const pipeline = await openPipeline({
    rules: { caps: { sender: [{ max: 2, per: 60_000 }], conversation: [], channel: [] } },
  });
  const [from, first] = [{ address: "eve@example.org" }, externalId("first")];
  await pipeline.arrives(
    { text: "one", from, id: first, cc: [{ address: "cc@example.org" }] },
    { text: "other", from: { address: "bob@example.org" } },
    { text: "two", from: { address: "cc@example.org" }, thread: { answers: [first] } },
    { text: "three", from },
    { text: "four", from },
    { text: "stop", from: { address: "bob@example.org" }, consent: { word: "stop" } },
    { text: "late", from: { address: "bob@example.org" } },
  );
  const rows = await routed(pipeline);
  expect(rows.map(({ state, code }) => code ?? state)).toEqual([
    // The waiting turn of the second message is dropped after the STOP.
    "routed",
    "suppressed",
    "routed",
    "routed",
    "cap-sender",
    "opt-out",
    "suppressed",
  ]);
  const turns = await pipeline.db.read((q) =>
    q.all<{ question: string; of: number }>(
      `SELECT question, DENSE_RANK() OVER (ORDER BY conversation) AS of FROM turns ORDER BY event`,
    ),
  );
  expect(turns.find(({ question }) => question === "two")?.of).toBe(turns[0]?.of);
  expect(new Set(turns.map(({ of }) => of)).size).toBe(3);
});

it("lets messages wait at the channel's cap when another one of their group fails", async () => {
  let isBroken = false;
  const fails: EscalationHooks["open"] = async (_, { cause }) => {
    if (cause === "held") throw new Error("planted");
  };
  const pipeline = await openPipeline({
    clock: testClock(true),
    rules: { caps: { sender: [], conversation: [], channel: [{ max: 1, per: 3_600_000 }] } },
    line: (line) => ({ ...line, escalation: () => (isBroken ? ({ open: fails } as EscalationHooks) : null) }),
  });
  await pipeline.arrives({ text: "one", from: { address: "one@example.org" } });
  const bodies = {
    waits: mail({ text: "two", from: { address: "two@example.org" } }),
    fails: mail({
      text: "",
      from: { address: "three@example.org" },
      refusal: { code: "encrypted", reason: "encrypted", hold: true },
    }),
  };
  isBroken = true;
  await pipeline.scheduler.commit((q) =>
    insertEvents(
      q,
      // An exempt message is routed with the others in the order of arrival.
      Object.entries(bodies).map(([id, body]) => event(id, { body: JSON.stringify(body), exempt: id === "fails" })),
    ),
  );
  // Later runs find the message again, so what counts is the first one.
  const due = await pipeline.db.read((q) =>
    q.all("SELECT external_id, state, code, due_at > now_ms() AS later FROM events WHERE id > 1 ORDER BY id"),
  );
  // Without its due time the message that waits would be read again at once.
  expect(due).toMatchObject([
    { external_id: "waits", state: "stored", code: "cap-channel", later: 1 },
    { external_id: "fails", state: "stored", later: 1 },
  ]);
});

it("a message that cites an ancestor of another one continues its conversation", async () => {
  const pipeline = await openPipeline();
  const answers = [externalId("<ours@x>"), externalId("<first@x>")];
  await pipeline.arrives({ text: "two", cited: externalId("<two@x>"), thread: { answers } });
  await pipeline.arrives({ text: "three", cited: externalId("<three@x>"), thread: { answers: answers.slice(1) } });
  expect(await pipeline.db.read((q) => q.all("SELECT id FROM conversations"))).toHaveLength(1);
  expect(pipeline.sent).toHaveLength(2);
});
