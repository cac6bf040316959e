// What is asked of the store when a caller has said something. The caller waits for the answer, so nothing is counted
// that no cap needs.

import { expect, it } from "vitest";
import { insertSession } from "../../../src/calls/rows.ts";
import { CallSessions } from "../../../src/calls/sessions.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import type { ChannelRules } from "../../../src/pipeline/channel-runtime.ts";
import { routeStage } from "../../../src/pipeline/route/stage.ts";
import { mail } from "../../support/pipeline/pipeline.ts";
import { clock, lineOf, listen } from "../../support/pipeline/stage.ts";
import { conversation, fresh, onEachDatabase, storeEvent, turn } from "../../support/store/databases.ts";
import { statements } from "../../support/store/statements.ts";

const cap = { max: 60, per: 900_000 };
const caps: ChannelRules["caps"] = { sender: [cap], conversation: [cap], channel: [cap] };
const line = {
  ...lineOf({ rules: { caps } }),
  traits: { attachments: false, conversations: "thread", platform: "voice" } as const,
};
const stage = routeStage({
  clock,
  log: listen().log,
  node: "n",
  timing: standardTiming,
  lines: () => new Map([["c", line]]),
  sessions: new CallSessions(standardTiming.calls),
  cancel: () => undefined,
});

onEachDatabase((newDatabase) => {
  it.each([
    ["words of a call count no turns of the past", { session: "s" }, false],
    ["a message does", { answers: [] }, true],
  ])("%s", async (_, thread, isCounted) => {
    const db = await fresh(newDatabase, async (q) => {
      await conversation(q, "k");
      await turn(q, "t", "k");
      await insertSession(q, { channel: "c", id: "s", conversation: "k", node: "n" });
      await storeEvent(q, "e", { body: JSON.stringify(mail({ text: "hello", thread } as never)) });
    });
    const asked = await statements(db, (q) => stage.run(q, new Set(["c"])));
    const routed = await db.read((q) => q.one("SELECT state, code FROM events"));
    expect(routed).toEqual({ state: "routed", code: null });
    expect(asked.some((sql) => /COUNT.* FROM turns/.test(sql))).toBe(isCounted);
  });
});
