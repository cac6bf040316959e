// One message: why it was not answered, its text, and the actions on it.

import { Hono } from "hono";
import { html } from "hono/html";
import { type EventHistory, eventHistory } from "../../store/operators/history.ts";
import { type Fate, messageFate } from "../../store/operators/inbox.ts";
import {
  type ConsoleContext,
  type ConsoleEnv,
  done,
  factList,
  form,
  type Markup,
  mostPath,
  mostReason,
  notFound,
  page,
  textField,
  when,
} from "../page.ts";
import { rawLinks } from "../timeline.ts";
import { whyField } from "../worklist.ts";
import { repairItems } from "./worklists.ts";

/** Most characters of the text that are shown. */
const mostText = 20_000;

export function messagePage(context: ConsoleContext): Hono<ConsoleEnv> {
  const app = new Hono<ConsoleEnv>();
  app.get("/:id{[0-9]+}", async (c) => {
    const id = Number(c.req.param("id"));
    const { history, fate } = await context.db.read(async (q) => ({
      history: await eventHistory(q, id),
      fate: await messageFate(q, id),
    }));
    const event = history?.events[0];
    if (event === undefined) return notFound(c, `There is no message ${id}.`);
    const title = event.subject ?? `Message ${id}`;
    const text = textOf(event.body);
    return page(c, {
      title,
      main: html`<h1>${title}</h1>
        <section class="panel">${facts(event, fate)} ${actions(c, id, event.state)}</section>
        <section class="panel" aria-labelledby="text">
          <h2 id="text">Text</h2>
          ${text === null ? html`<p class="muted">The text is no longer stored (retention).</p>` : html`<pre>${text}</pre>`}
          ${event.raw_size === null ? "" : rawLinks(id)}
        </section>`,
    });
  });
  app.post("/:id{[0-9]+}/act", async (c) => {
    const id = Number(c.req.param("id"));
    const isDropped = (await textField(c, "action", mostPath)) === "drop";
    const why = await textField(c, "why", mostReason);
    const action = isDropped ? "drop" : "retry";
    const { problem } = await repairItems(context, "inbox", action, { ids: [id] }, why, action);
    const says = isDropped ? "It is dropped." : "It will be answered.";
    return done(c, `/messages/${id}`, problem ?? says, problem === null ? "done" : "failed");
  });
  return app;
}

const facts = (event: EventHistory, fate: Fate): Markup =>
  factList([
    ["From", event.sender ?? "unknown"],
    ["Channel", event.channel],
    ["Arrived", when(event.received_at)],
    ["Sent", event.sent_at === null ? null : when(event.sent_at)],
    [
      "State",
      html`<span class="badge ${event.state === "failed" ? "bad" : "off"}">${event.state}</span> ${event.code ?? ""}`,
    ],
    ["Result", fate.state === "unanswered" ? html`not answered: ${fate.reason ?? ""}` : fate.state],
    [
      "Conversation",
      event.conversation && html`<a href="/conversations/${event.conversation}">Show the conversation</a>`,
    ],
    ...event.attachments.map((one) => ["Attachment", html`${one.name} (${one.media_type})`] as const),
  ]);

function actions(c: Parameters<typeof form>[0], id: number, state: string): Markup {
  if (!["ignored", "held", "failed"].includes(state)) return "";
  const to = `/messages/${id}/act`;
  return html`<div class="actions">
    ${form(c, to, html`<input type="hidden" name="action" value="release" /><button class="main">Answer</button>`)}
    ${
      ["held", "failed"].includes(state)
        ? html`<details class="act" id="drop"><summary>Drop…</summary>${form(
            c,
            to,
            html`<input type="hidden" name="action" value="drop" />${whyField(true)}<button class="risk">Drop</button>`,
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
