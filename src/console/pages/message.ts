// One message: why it was not answered, its text, and the actions on it.

import { Hono } from "hono";
import { html } from "hono/html";
import { messageFate, showEvent } from "../../store/operators/inbox.ts";
import { actOn } from "../actions.ts";
import type { ConsoleContext, ConsoleEnv } from "../context.ts";
import { done, form, type Markup, mostPath, mostReason, page, textField, when } from "../page.ts";
import { rawLinks } from "../timeline.ts";

/** Most characters of the text that are shown. */
const mostText = 20_000;

export function messagePage(context: ConsoleContext): Hono<ConsoleEnv> {
  const app = new Hono<ConsoleEnv>();
  app.get("/:id{[0-9]+}", async (c) => {
    const id = Number(c.req.param("id"));
    const found = await context.db.read(async (q) => ({
      event: await showEvent(q, id),
      fate: await messageFate(q, id),
    }));
    const { event, fate } = found;
    if (event === null)
      return page(c, {
        title: "Not found",
        main: html`<h1>Not found</h1><p>There is no message ${id}.</p>`,
        status: 404,
      });
    const facts: readonly (readonly [string, Markup])[] = [
      ["From", event.sender ?? "unknown"],
      ["Channel", event.channel],
      ["Arrived", when(event.received_at)],
      ...(event.sent_at === null ? [] : [["Sent", when(event.sent_at)] as const]),
      [
        "State",
        html`<span class="badge ${event.state === "failed" ? "bad" : "off"}">${event.state}</span> ${event.code ?? ""}`,
      ],
      ["Result", fate.state === "unanswered" ? html`not answered: ${fate.reason ?? ""}` : fate.state],
      ...(event.conversation === null
        ? []
        : [
            [
              "Conversation",
              html`<a href="/conversations/${event.conversation}">Show the conversation</a>`,
            ] as const,
          ]),
      ...event.attachments.map((one) => ["Attachment", html`${one.name} (${one.media_type})`] as const),
    ];
    const text = textOf(event.body);
    return page(c, {
      title: event.subject ?? `Message ${id}`,
      main: html`<h1>${event.subject ?? `Message ${id}`}</h1>
        <section class="panel">
          <dl class="facts">${facts.map(([label, value]) => html`<dt>${label}</dt><dd>${value}</dd>`)}</dl>
          ${actions(c, id, event.state)}
        </section>
        <section class="panel" aria-labelledby="text">
          <h2 id="text">Text</h2>
          ${text === null ? html`<p class="muted">The text is no longer stored (retention).</p>` : html`<pre>${text}</pre>`}
          ${rawLinks(id)}
        </section>`,
    });
  });
  app.post("/:id{[0-9]+}/act", async (c) => {
    const id = c.req.param("id");
    const action = (await textField(c, "action", mostPath)) === "drop" ? "drop" : "release";
    const why = await textField(c, "why", mostReason);
    const result = await actOn(context, { kind: "messages", action, why }, [id]);
    context.log.info({ action, event: Number(id), done: result.done }, "an operator acted in the console");
    if (result.why !== null) return done(c, `/messages/${id}`, result.why, "failed");
    return done(c, `/messages/${id}`, action === "drop" ? "It is dropped." : "It will be answered.");
  });
  return app;
}

function actions(c: Parameters<typeof form>[0], id: number, state: string): Markup {
  if (!["ignored", "held", "failed"].includes(state)) return "";
  const to = `/messages/${id}/act`;
  return html`<div class="actions">
    ${form(c, to, html`<input type="hidden" name="action" value="release" /><button class="main">Answer</button>`)}
    ${
      state === "held"
        ? html`<details class="act" id="drop"><summary>Drop…</summary>${form(
            c,
            to,
            html`<input type="hidden" name="action" value="drop" /><label class="field"><span>Reason (stored with the message)</span><input type="text" name="why" maxlength="200" required /></label><button class="risk">Drop</button>`,
          )}</details>`
        : ""
    }
  </div>`;
}

/** The author's text of a stored message; null when retention has erased it. */
function textOf(body: string): string | null {
  const { text } = JSON.parse(body) as { text?: unknown };
  return typeof text === "string" ? text.slice(0, mostText) : null;
}
