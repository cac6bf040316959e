// Which age applies: the configuration's or that of the agent's DATA_RETENTION skill.

import { describe, expect, it } from "vitest";
import { retentionRules } from "../../src/commands/daemon.ts";
import { stricter } from "../../src/domain/retention.ts";

const day = 86_400_000;
const configured = { rawMs: 30 * day, eventsMs: 365 * day, peopleMs: 365 * day };
const both = { conversations: true, people: true };

describe("the stricter retention", () => {
  it.each([
    ["no skill", null, configured],
    ["a longer one", { days: 1000, ...both }, configured],
    ["a shorter one", { days: 7, ...both }, { rawMs: 7 * day, eventsMs: 7 * day, peopleMs: 7 * day }],
    ["one between raw and events", { days: 90, ...both }, { ...configured, eventsMs: 90 * day, peopleMs: 90 * day }],
    [
      "texts only",
      { days: 7, conversations: true, people: false },
      { ...configured, rawMs: 7 * day, eventsMs: 7 * day },
    ],
    [
      "users only: texts are erased with the names, which stay as long as texts do",
      { days: 7, conversations: false, people: true },
      { rawMs: 7 * day, eventsMs: 7 * day, peopleMs: 7 * day },
    ],
    ["neither", { days: 7, conversations: false, people: false }, configured],
    ["at once", { days: 0, ...both }, { rawMs: 0, eventsMs: 0, peopleMs: 0 }],
    ["an invalid number", { days: Number.NaN, ...both }, configured],
    ["a negative number", { days: -1, ...both }, configured],
  ])("%s", (_, skill, ages) => {
    expect(stricter(configured, skill)).toEqual(ages);
  });

  it("applies to the channels of the agent only, and not before its settings were read", () => {
    const channels = [
      { id: "a", core: { agent: "strict" } },
      { id: "b", core: { agent: "lenient" } },
      { id: "c", core: { agent: "unread" } },
    ];
    const settings = (days: number) => ({ state: { settings: { retention: { days, ...both } } } });
    const agents = new Map<string, object>([
      ["strict", settings(7)],
      ["lenient", settings(1000)],
      ["unread", { state: { settings: null } }],
    ]);
    const rules = retentionRules(
      { retention: { raw: 30 * day, events: 365 * day }, channels } as never,
      agents as never,
    );
    const week = { rawMs: 7 * day, eventsMs: 7 * day, peopleMs: 7 * day };
    expect(rules).toEqual({
      ...configured,
      channels: new Map([
        ["a", week],
        ["b", configured],
        ["c", configured],
      ]),
      agents: new Map([
        ["strict", week],
        ["lenient", configured],
        ["unread", configured],
      ]),
    });
  });
});
