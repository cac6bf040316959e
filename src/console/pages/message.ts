// One message: why it was not answered, its text, and the actions on it.

import { Hono } from "hono";
import { html } from "hono/html";
import { type EventHistory, eventHistory } from "../../store/operators/history.ts";
import { type Fate, messageFate } from "../../store/operators/inbox.ts";
import { optOut, senderOf } from "../../store/operators/opt-outs.ts";
import { allOwn, type Suppression, suppressionsOf } from "../../store/tables/suppressions.ts";
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
  type PageRequest,
  page,
  textField,
  when,
} from "../page.ts";
import { rawLinks } from "../timeline.ts";
import { whyField } from "../worklist.ts";
import { actor, repairItems } from "./worklists.ts";

/** Most characters of the text that are shown. */
const mostText = 20_000;

export function messagePage(context: ConsoleContext): Hono<ConsoleEnv> {
  const app = new Hono<ConsoleEnv>();
  app.get("/:id{[0-9]+}", async (c) => {
    const id = Number(c.req.param("id"));
    const { event, fate, suppressed } = await context.db.read(async (q) => {
      const found = (await eventHistory(q, id))?.events[0];
      const sender = found?.sender ?? null;
      return {
        event: found,
        fate: await messageFate(q, id),
        suppressed: found && sender !== null ? await suppressionsOf(q, found.channel, sender) : [],
      };
    });
    if (event === undefined) return notFound(c, `There is no message ${id}.`);
    const title = event.subject ?? `Message ${id}`;
    const text = textOf(event.body);
    return page(c, {
      title,
      main: html`<h1>${title}</h1>
        <section class="panel">${facts(event, fate, suppressed)} ${actions(c, event, suppressed)}</section>
        <section class="panel" aria-labelledby="text">
          <h2 id="text">Text</h2>
          ${text === null ? html`<p class="muted">The text is no longer stored (retention).</p>` : html`<pre>${text}</pre>`}
          ${event.raw_size === null ? "" : rawLinks(id)}
        </section>`,
    });
  });
  app.post("/:id{[0-9]+}/act", async (c) => {
    const id = Number(c.req.param("id"));
    const named = await textField(c, "action", mostPath);
    const why = await textField(c, "why", mostReason);
    if (named === "opt-out") {
      const problem = await optOutSender(context, id, why);
      return done(c, `/messages/${id}`, problem ?? "The sender gets nothing any more.", problem ? "failed" : "done");
    }
    const isDropped = named === "drop";
    const action = isDropped ? "drop" : "retry";
    const { problem } = await repairItems(context, "inbox", action, { ids: [id] }, why, action);
    const says = isDropped ? "It is dropped." : "It will be answered.";
    return done(c, `/messages/${id}`, problem ?? says, problem === null ? "done" : "failed");
  });
  return app;
}

/** Opts the sender of a message out. Returns why it was not possible, or null. */
async function optOutSender(context: ConsoleContext, id: number, reason: string): Promise<string | null> {
  try {
    await context.commit(async (q) => optOut(q, await senderOf(q, id), { actor, reason }));
  } catch (error) {
    return (error as Error).message;
  }
  context.log.info({ action: "opt-out", event: id }, "an operator acted in the console");
  return null;
}

/** Returns why the sender gets nothing, from which of our addresses; null when it does. */
const suppressedText = (suppressed: readonly Suppression[]): string | null =>
  suppressed.map(({ own_address: own, reason }) => (own === allOwn ? reason : `from ${own}: ${reason}`)).join("; ") ||
  null;

const facts = (event: EventHistory, fate: Fate, suppressed: readonly Suppression[]): Markup =>
  factList([
    ["From", event.sender ?? "unknown"],
    ["Channel", event.channel],
    ["Arrived", when(event.received_at)],
    ["Sent", event.sent_at === null ? null : when(event.sent_at)],
    [
      "State",
      html`<span class="badge ${event.state === "failed" ? "bad" : "off"}">${event.state}</span> ${event.code ?? ""}`,
    ],
    ["Sender gets nothing", suppressedText(suppressed)],
    ["Result", fate.state === "unanswered" ? html`not answered: ${fate.reason ?? ""}` : fate.state],
    [
      "Conversation",
      event.conversation && html`<a href="/conversations/${event.conversation}">Show the conversation</a>`,
    ],
    ...event.attachments.map((one) => ["Attachment", html`${one.name || "(erased)"} (${one.media_type})`] as const),
  ]);

function actions(
  c: PageRequest,
  { id, kind, sender, state }: EventHistory,
  suppressed: readonly Suppression[],
): Markup {
  const isOptedOut = suppressed.some(({ own_address: own }) => own === allOwn);
  const to = `/messages/${id}/act`;
  const field = (name: string) => html`<input type="hidden" name="action" value="${name}" />`;
  const reasoned = (name: string, label: string) =>
    html`<details class="act" id="${name}"><summary>${label}…</summary>${form(
      c,
      to,
      html`${field(name)}${whyField(true)}<button class="risk">${label}</button>`,
    )}</details>`;
  const parts = [
    ...(["ignored", "held", "failed"].includes(state)
      ? [form(c, to, html`${field("release")}<button class="main">Answer</button>`)]
      : []),
    ...(["held", "failed"].includes(state) ? [reasoned("drop", "Drop")] : []),
    ...(kind === "message" && sender !== null && !isOptedOut ? [reasoned("opt-out", "Opt out")] : []),
  ];
  return parts.length === 0 ? "" : html`<div class="actions">${parts}</div>`;
}

/** The author's text of a stored message; null when retention has erased it. */
function textOf(body: string): string | null {
  const { text } = JSON.parse(body) as { text?: unknown };
  return typeof text === "string" ? text.slice(0, mostText) : null;
}
