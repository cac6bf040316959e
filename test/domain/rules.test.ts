// The pure rules: who is answered, where, in which conversation, when again.

import { externalId, type MessageEvent, sessionId, threadToken } from "bridgehead/contract";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { capped, channelRoom, matches, refuse, waitedTooLong } from "../../src/domain/guards.ts";
import { delayAfter, hopLimit, paceOf } from "../../src/domain/retry.ts";
import { machines } from "../../src/domain/states.ts";
import {
  answerTo,
  joinedContext,
  questionContext,
  questionText,
  referenceLimit,
  references,
} from "../../src/domain/turn.ts";
import { workedMs } from "../support/clock.ts";

const hour = 3_600_000;
const now = 1_800_000_000_000;
const message = (over: Partial<MessageEvent> = {}): MessageEvent => ({
  kind: "message",
  id: externalId("id-1"),
  from: { address: "Ann@Example.org" },
  to: [],
  thread: { answers: [] },
  sentAt: new Date(now),
  text: "hello",
  ...over,
});
const ids = (...texts: string[]) => texts.map(externalId);

describe("thread", () => {
  it("follows references in their order, each once, and not without end", () => {
    const answers = ids("b", "a", "b", ...Array.from({ length: 50 }, (_, i) => `r${i}`));
    const tokens = Array.from({ length: 50 }, (_, i) => threadToken(`t${i}`));
    const found = references(message({ thread: { answers, tokens } }));
    expect(found.answers.slice(0, 3)).toEqual(["b", "a", "r0"]);
    expect([found.answers.length, found.tokens.length]).toEqual([referenceLimit, referenceLimit]);
    expect(references(message({ thread: { session: sessionId("s") } }))).toEqual({ answers: [], tokens: [] });
  });
});

describe("guards", () => {
  const rules = { max_age: hour, allow: [] as string[], deny: [] as string[] };

  it.each<[string, Partial<MessageEvent>, Partial<typeof rules>, string | null]>([
    ["answers a plain message", {}, {}, null],
    ["keeps the adapter's refusal", { refusal: { code: "list", reason: "x" } }, { deny: ["*"] }, "list"],
    ["is not too old at the limit", { sentAt: new Date(now - hour) }, {}, null],
    ["is too old after it", { sentAt: new Date(now - hour - 1) }, {}, "too-old"],
    ["denies before it allows", {}, { deny: ["*@example.org"], allow: ["*"] }, "denied"],
    ["denies in any case", {}, { deny: ["ANN@example.ORG"] }, "denied"],
    ["does not allow others", {}, { allow: ["*@other.org"] }, "not-allowed"],
    ["allows by pattern", {}, { allow: ["nobody@x", "*@example.org"] }, null],
    ["answers below the hop limit", { hops: hopLimit - 1 }, {}, null],
    ["falls silent at it", { hops: hopLimit }, {}, "loop"],
  ])("%s", (_, over, changed, code) => {
    expect(refuse(message(over), { ...rules, ...changed }, now)?.code ?? null).toBe(code);
  });

  it("names the first cap that one more turn would break", () => {
    const cap = { max: 3, per: 60_000 };
    expect(capped([])).toBeNull();
    expect(capped([{ name: "sender", cap, count: 2 }])).toBeNull();
    const over = capped([
      { name: "sender", cap, count: 2 },
      { name: "conversation", cap, count: 3 },
      { name: "sender", cap, count: 9 },
    ]);
    expect(over).toEqual({
      name: "conversation",
      cap,
      count: 3,
      code: "cap-conversation",
      reason: "3 per 1 min reached",
    });
  });

  it("reasons name short limits, and what exceeded them", () => {
    const refusal = refuse(message({ sentAt: new Date(now - 25 * 60_000) }), { ...rules, max_age: 20 * 60_000 }, now);
    expect(refusal?.reason).toBe("written 25 min before we saw it; max_age is 20 min");
    expect(waitedTooLong(25 * 60_000, 20 * 60_000)).toBe("waited 25 min; max_age is 20 min");
    expect(waitedTooLong(25 * hour, 24 * hour)).toBe("waited 1 d 1 h; max_age is 1 d");
    const over = { name: "sender", cap: { max: 5, per: 20_000 }, count: 5 } as const;
    expect(capped([over])?.reason).toBe("5 per 20 s reached");
    expect(capped([{ ...over, isReplyTo: true }])?.reason).toBe("5 per 20 s reached for its Reply-To");
  });

  it.each([
    // Half of 20 at once, then the other 8 (2 are reserved) evenly in the window.
    [{ total: 9, others: 9, sinceOther: 0 }, null],
    [{ total: 10, others: 10, sinceOther: 0 }, { ms: 1000 }],
    [{ total: 10, others: 10, sinceOther: 999 }, { ms: 1 }],
    [{ total: 10, others: 10, sinceOther: 1000 }, null],
    [{ total: 18, others: 18, sinceOther: 1000 }, { below: 18 }],
  ])("lets others begin at the pace of a channel's cap: %o", (use, room) => {
    expect(channelRoom({ max: 20, per: 8000 }, false, use)).toEqual(room);
  });

  it("never lets others use a channel's cap up at one blow, and never exceeds it", () => {
    const cap = { max: 60, per: 15 * 60_000 };
    const made: { at: number; other: boolean }[] = [];
    const use = (now: number) => {
      const inside = made.filter(({ at }) => at > now - cap.per);
      const others = inside.filter(({ other }) => other);
      const newest = others.at(-1);
      return {
        total: inside.length,
        others: others.length,
        sinceOther: newest === undefined ? null : now - newest.at,
      };
    };
    const served = { customers: 0, others: 0 };
    // A flood for two hours, one message a second, and a customer every three minutes.
    for (let now = 1_000; now < 2 * 3_600_000; now += 1_000) {
      if (now % 180_000 === 0) {
        expect(channelRoom(cap, true, use(now))).toBeNull();
        made.push({ at: now, other: false });
        served.customers += 1;
      }
      if (channelRoom(cap, false, use(now)) === null) {
        made.push({ at: now, other: true });
        served.others += 1;
      }
      expect(use(now).total).toBeLessThanOrEqual(cap.max);
    }
    expect(served.customers).toBe(39);
    expect(served.others).toBeGreaterThan(200);
    expect(channelRoom({ max: 2, per: 1000 }, false, { total: 1, others: 1, sinceOther: 0 })).toBeNull();
    expect(channelRoom({ max: 2, per: 1000 }, true, { total: 2, others: 0, sinceOther: null })).toEqual({
      below: 2,
    });
  });

  /** Slow and plain: every way to place the first part, then the rest. */
  function oracle(pattern: string, text: string): boolean {
    const [first] = pattern;
    if (first === undefined) return text === "";
    if (first !== "*") return text[0] === first && oracle(pattern.slice(1), text.slice(1));
    return oracle(pattern.slice(1), text) || (text !== "" && oracle(pattern, text.slice(1)));
  }

  it("matches patterns as a slow and plain matcher does", () => {
    const letters = (chars: string, maxLength: number) =>
      fc.array(fc.constantFrom(...chars.split("")), { maxLength }).map((list) => list.join(""));
    fc.assert(
      fc.property(letters("ab*", 8), letters("ab", 10), (pattern, text) => {
        expect(matches(pattern, text)).toBe(oracle(pattern, text));
      }),
      { numRuns: 5000 },
    );
    fc.assert(
      fc.property(letters("ab", 4), letters("ab", 4), letters("ab", 4), (a, b, c) => {
        expect(matches(`${a}*${c}`, a + b + c)).toBe(true);
      }),
    );
  });

  it("needs time in proportion to the address", () => {
    const pattern = `${"*a".repeat(50)}*b`;
    const began = workedMs();
    expect(matches(pattern, "a".repeat(1_000_000))).toBe(false);
    expect(workedMs() - began).toBeLessThan(2000);
  });
});

describe("question", () => {
  const pdf = { name: "a.pdf", media_type: "application/pdf", size: 5000 };
  it.each([
    ["the words alone", message({ text: "  hi \n" }), false, [], "hi"],
    ["the subject leads a new conversation", message({ subject: " Order " }), true, [], "Subject: Order\n\nhello"],
    ["and no other", message({ subject: "Order" }), false, [], "hello"],
    ["an empty subject is none", message({ subject: " " }), true, [], "hello"],
    [
      "attachments are named",
      message(),
      false,
      [pdf, { ...pdf, name: "b", size: null }],
      "hello\n\n[Attachment: a.pdf (application/pdf, 5 kB)]\n[Attachment: b (application/pdf)]",
    ],
    [
      "a small attachment is at least 1 kB",
      message({ text: "" }),
      false,
      [{ ...pdf, size: 3 }],
      "[Attachment: a.pdf (application/pdf, 1 kB)]",
    ],
    [
      "a message without text says all in its subject",
      message({ text: " ", subject: "Please call me" }),
      false,
      [],
      "Subject: Please call me",
    ],
    ["nothing at all is said", message({ text: " " }), true, [], "(empty message)"],
    [
      "control characters go, lines and tabs stay",
      message({ text: "a\u0000b\u001b[31m\tc\r\nd", subject: "x\u0000y" }),
      true,
      [],
      "Subject: xy\n\nab[31m\tc\r\nd",
    ],
  ])("%s", (_, event, first, attachments, text) => {
    expect(questionText(event, first, attachments)).toBe(text);
  });

  it("adds facts to the text", () => {
    expect(questionContext(message())).toBeNull();
    expect(questionContext(message({ notes: {} }))).toBeNull();
    expect(questionContext(message({ notes: { sender: "unverified", list: "no" } }))).toBe(
      "sender: unverified\nlist: no",
    );
  });

  it("joins the facts of messages that are asked together, each once", () => {
    expect(joinedContext(null, null)).toBeNull();
    expect(joinedContext("a: 1", null)).toBe("a: 1");
    expect(joinedContext("a: 1\nb: 2", "b: 2\nc: 3")).toBe("a: 1\nb: 2\nc: 3");
  });
});

describe("address", () => {
  it("answers the message, under the id others cite, at the end of its history", () => {
    const event = message({
      cited: externalId("<m@x>"),
      thread: { answers: ids("p", "gp") },
      subject: "s",
      hops: 1,
    });
    expect(answerTo(event)).toEqual({
      to: [{ address: "Ann@Example.org" }],
      cc: [],
      subject: "s",
      answers: "<m@x>",
      history: ["gp", "p", "<m@x>"],
      hops: 2,
      session: null,
    });
  });

  it("goes to Reply-To and keeps Cc", () => {
    const event = message({ replyTo: { address: "r@x" }, cc: [{ address: "c@x" }] });
    expect(answerTo(event)).toMatchObject({
      to: [{ address: "r@x" }],
      cc: [{ address: "c@x" }],
      subject: null,
      hops: 1,
    });
  });

  it("names itself once when it cites itself, and stays in its session", () => {
    expect(answerTo(message({ thread: { answers: ids("id-1", "p") } })).history).toEqual(["p", "id-1"]);
    const call = answerTo(message({ thread: { session: sessionId("call") } }));
    expect([call.session, call.history]).toEqual(["call", ["id-1"]]);
  });
});

describe("retry", () => {
  it("waits longer after each failure, and then as long as the last time", () => {
    const schedule = [1000, 5000, 15_000];
    expect([0, 1, 2, 3, 4, 9].map((failures) => delayAfter(failures, schedule))).toEqual([
      1000, 1000, 5000, 15_000, 15_000, 15_000,
    ]);
    expect(delayAfter(3, [7])).toBe(7);
    expect(delayAfter(1, [])).toBe(0);
  });
  it("are those of mail for mail only: a chat waits like a text message", () => {
    const paces = ["email", "sms", "voice", "live_chat", null].map(paceOf);
    expect(paces).toEqual(["mail", "phone", "phone", "phone", "phone"]);
  });
});

describe("states", () => {
  it.each(Object.entries(machines))("%s leads only to states that exist", (_, machine) => {
    const names = Object.keys(machine);
    for (const followers of Object.values<readonly string[]>(machine)) {
      for (const state of followers) expect(names).toContain(state);
    }
  });
});
