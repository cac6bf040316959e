// How a body is rendered: customer text and notifications as plain text, the agent's Markdown within limits of size and
// time, and a readable body when the renderer fails.

import { externalId, type Reply, sendKey, threadToken } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import { config as schema } from "../../../../adapters/email/config.ts";
import { identity } from "../../../../adapters/email/parse/headers.ts";
import {
  compose,
  isLong,
  markdownLimit,
  readRendered,
  renderMarkdown,
  renderPlain,
} from "../../../../adapters/email/smtp/compose.ts";
import { prepare } from "../../../../adapters/email/smtp/long-markdown.ts";
import { standardTiming as timing } from "../../../../adapters/email/timing.ts";
import { systemClock } from "../../../../src/ops/clock.ts";
import { workedMs } from "../../../support/clock.ts";

const server = { host: "127.0.0.1", tls: "none" } as const;
const settings = schema.parse({
  imap: { ...server, user: "support@example.com", password: "x" },
  smtp: server,
  body_marker: false,
});
const reply: Reply = {
  kind: "answer",
  key: sendKey("01hzx7key"),
  createdAt: new Date("2026-11-20T10:00:00Z"),
  to: [{ address: "ann@example.net" }],
  cc: [],
  subject: "Where is it?",
  text: "",
  signature: null,
  introduction: null,
  senderName: null,
  answers: externalId("<q2@example.net>"),
  history: [],
  token: threadToken("tok3ntok3ntok3n"),
  hops: 1,
  session: null,
};
const bodyOf = (more: Partial<Reply>) => {
  const [draft] = compose(settings, identity("support@example.com", []), { ...reply, ...more });
  return draft ?? { text: "", html: "" };
};
const never = new AbortController().signal;
const module = (code: string) => new URL(`data:text/javascript,${encodeURIComponent(code)}`);

describe("customer text is rendered as plain text", () => {
  it("keeps every character of a plain reply, and interprets none", () => {
    const text = "# 1\n* a _b_ **c** `d`\n<b>x</b> [l](https://e.example/x)\n---\n    code\n> said & done\nyes";
    const { text: plain, html } = bodyOf({ text, plain: true });
    expect(plain).toBe(`${text}\n`);
    expect(html).not.toMatch(/<(?:h1|em|strong|code|b|hr|ul|pre)\b/);
    expect(html).toContain("* a _b_ **c** `d`<br>\n&lt;b&gt;x&lt;/b&gt;");
    expect(html).toContain("<blockquote>said &amp; done</blockquote>");
    expect(html).toContain("&nbsp;&nbsp;&nbsp;&nbsp;code");
  });

  it("makes web addresses links, without the punctuation behind them", () => {
    expect(renderPlain('See https://e.example/a?b=1&c="x (http://f.example/).').html).toBe(
      '<p>See <a href="https://e.example/a?b=1&amp;c=">https://e.example/a?b=1&amp;c=</a>&quot;x (<a href="http://f.example/">http://f.example/</a>).</p>',
    );
    expect(renderPlain("javascript:x").html).toBe("<p>javascript:x</p>");
  });

  // 99 kB of the first blocked the event loop for 38 s, and a few kB of the others overflowed the stack.
  it.each(["_a_", "- - -", "> > >", "- - -\n", "> > >\n", "[", "![", "*a **b ", "\n"])(
    "takes little time for 99 kB of %j, as plain text and as Markdown",
    (piece) => {
      const text = `a${piece.repeat(99_000 / piece.length)}`;
      for (const more of [{ plain: true as const }, {}, { signature: text, introduction: text }]) {
        const began = workedMs();
        const body = bodyOf({ text, ...more });
        expect(body.text.trim()).toContain(text.trim());
        expect(workedMs() - began).toBeLessThan(1000);
      }
    },
  );

  it.each(["_a_", "- - -", "> > >", "- - -\n", "1. ", "[a](", "![", "*a **b ", "| a ", "<a "])(
    "renders the longest accepted Markdown of %j",
    (piece) => {
      const text = piece.repeat(markdownLimit / piece.length);
      const began = workedMs();
      expect(renderMarkdown(text).html.length).toBeGreaterThan(0);
      expect(workedMs() - began).toBeLessThan(1000);
    },
  );
});

describe("long Markdown is rendered in a worker", () => {
  const parts = { clock: systemClock, timing };
  const long = `**Bold** and [a link](https://e.example/).\n\n${"word ".repeat(2000)}`;

  it("and composed as rendered there; without that it is sent as plain text", async () => {
    const rendered = await prepare(parts, long, never);
    expect(rendered).toEqual(renderMarkdown(long.trim()));
    const body = bodyOf({ text: long, ...(rendered === null ? {} : { rendered }) });
    expect(body.html).toContain('<strong>Bold</strong> and <a href="https://e.example/">a link</a>');
    expect(body.text).toContain("Bold and a link (https://e.example/).");
    const without = bodyOf({ text: long });
    expect(without.text.trim()).toBe(long.trim());
    expect(without.html).toContain("**Bold**");
  });

  it("only where it is worth a thread", async () => {
    expect([isLong("**short**"), isLong(" ".repeat(3000)), isLong(long)]).toEqual([false, false, true]);
    expect(await prepare(parts, "x".repeat(markdownLimit + 1), never)).toBeNull();
    expect(await prepare(parts, long, AbortSignal.abort())).toBeNull();
  });

  it.each([
    ["takes too long", "for (;;);"],
    ["throws", "throw new Error('no')"],
    ["runs out of memory", "const all = []; for (;;) all.push(new Array(1e5).fill(all.length));"],
    ["ends without an answer", "process.exit(3)"],
  ])("gives up when the worker %s", async (_, code) => {
    const limit = { ...parts, timing: { render: code.startsWith("for") ? 300 : 60_000 } };
    expect(await prepare(limit, long, never, module(code))).toBeNull();
  });

  it("gives up when the signal aborts", async () => {
    const stop = new AbortController();
    const limit = { ...parts, timing: { render: 60_000 } };
    const rendering = prepare(limit, long, stop.signal, module("for (;;);"));
    stop.abort();
    expect(await rendering).toBeNull();
  });

  it("takes nothing else for a rendering", () => {
    for (const other of [undefined, null, 1, "x", [], {}, { text: "a" }, { text: "a", html: 1 }])
      expect(readRendered(other)).toBeNull();
  });
});
