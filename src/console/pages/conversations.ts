// Conversations: search, list, the timeline of one, and a message as it was received.

import { Hono } from "hono";
import { html } from "hono/html";
import type { Query } from "../../store/driver.ts";
import { type ConversationSummary, findMatches, listConversations, summariesOf } from "../../store/operators/find.ts";
import { conversationHistory, type History } from "../../store/operators/history.ts";
import { type EventSummary, readRaw } from "../../store/operators/inbox.ts";
import { frameDocument, frameHeaders, mailHtml } from "../mail/html.ts";
import {
  type ConsoleContext,
  type ConsoleEnv,
  factList,
  type Markup,
  notFound,
  page,
  when,
  withQuery,
} from "../page.ts";
import { levelOf, timeline } from "../timeline.ts";

const rowsOfPage = 50;
/** Steps of each kind on a timeline, and on the complete one. */
const mostSteps = 100;
const allSteps = 2000;
/** Characters of the texts of each kind: they are read and rendered on the thread that serves calls. */
const mostCharacters = 2_000_000;

interface ShownConversation {
  readonly path: string;
  readonly at: number;
  readonly state: string;
  readonly channel: string;
  readonly person: string;
  readonly subject: string;
  readonly reason: string;
  readonly escalation: number | null;
}

export function conversationsPage(context: ConsoleContext): Hono<ConsoleEnv> {
  const app = new Hono<ConsoleEnv>();
  app.get("/", async (c) => {
    const { q: query = "", channel = "", state = "" } = c.req.query();
    const rows = await context.db.read((q) => load(q, query.trim(), channel, state));
    return page(c, {
      title: "Conversations",
      main: html`<h1>Conversations</h1>
        ${searchForm(context, query, channel, state)} ${table(rows, query, withQuery("/conversations", { channel }))}`,
    });
  });
  app.get("/message/:event{[0-9]+}/raw", async (c) => {
    const event = Number(c.req.param("event"));
    const bytes = await context.db.read((q) => readRaw(q, event));
    if (bytes === null) return notFound(c, "The message as it arrived is not stored, or no longer.");
    return c.body(new Uint8Array(bytes), 200, {
      "content-type": "message/rfc822",
      "content-disposition": `attachment; filename="message-${event}.eml"`,
      "x-content-type-options": "nosniff",
    });
  });
  app.get("/message/:event{[0-9]+}/html", async (c) => {
    const event = Number(c.req.param("event"));
    const bytes = await context.db.read((q) => readRaw(q, event));
    const shown =
      bytes === null
        ? "<p>The message as it arrived is not stored, or no longer.</p>"
        : await mailHtml(bytes, context.timing.console.mailHtml).then(
            (content) => content ?? "<p>This message has no HTML part.</p>",
            (error: unknown) => {
              context.log.warn({ event, err: error }, "a mail cannot be shown as HTML");
              return "<p>This message cannot be shown as HTML. Download it instead.</p>";
            },
          );
    return c.body(frameDocument(shown), 200, frameHeaders);
  });
  app.get("/:id", async (c) => {
    const isFull = c.req.query("all") !== undefined;
    const found = await context.db.read(async (q) => {
      const steps = isFull ? allSteps : mostSteps;
      const history = await conversationHistory(q, c.req.param("id"), steps, mostCharacters / steps);
      const summary = (await summariesOf(q, [c.req.param("id")])).values().next().value;
      return history?.conversation && summary ? { history, summary } : null;
    });
    if (found === null) return notFound(c, "There is no such conversation.");
    const { history, summary } = found;
    return page(c, {
      title: summary.subject ?? summary.person,
      main: html`<h1>${summary.subject ?? "Conversation"}</h1>
        <section class="panel">${facts(history, summary)}</section>
        ${history.cut ? html`<p class="muted">Older steps are left out. ${isFull ? "" : html`<a href="?all">Show all</a>`}</p>` : ""}
        ${timeline(history)}`,
    });
  });
  return app;
}

async function load(q: Query, query: string, channel: string, state: string): Promise<readonly ShownConversation[]> {
  const wanted: "attention" | "waiting" | null = state === "attention" || state === "waiting" ? state : null;
  const narrowed = channel === "" ? {} : { channel };
  if (query === "") {
    const filter = { limit: rowsOfPage, ...narrowed, ...(wanted === null ? {} : { state: wanted }) };
    return (await listConversations(q, filter)).map((one) => summaryRow(one));
  }
  return (await findMatches(q, query, { limit: rowsOfPage }))
    .flatMap(({ summary, message, at }): readonly ShownConversation[] => {
      if (summary !== null) return [{ ...summaryRow(summary, message?.subject), at }];
      return message === null ? [] : [messageRow(message)];
    })
    .filter((row) => channel === "" || row.channel === channel)
    .filter((row) => wanted === null || matches(row, wanted));
}

const matches = ({ state, escalation }: ShownConversation, wanted: "attention" | "waiting"): boolean =>
  wanted === "waiting" ? state === "waiting" : state === "held" || state === "failed" || escalation !== null;

function summaryRow(summary: ConversationSummary, subject?: string | null): ShownConversation {
  const { id, at, state, channel, person, person_name, escalation, reason } = summary;
  return {
    path: `/conversations/${encodeURIComponent(id)}`,
    at,
    state,
    channel,
    person: person === "" ? "erased" : person_name === null ? person : `${person_name} <${person}>`,
    subject: subject ?? summary.subject ?? "",
    reason: reason ?? "",
    escalation,
  };
}

const messageRow = ({
  id,
  received_at,
  state,
  channel,
  sender,
  subject,
  code,
  reason,
}: EventSummary): ShownConversation => ({
  path: `/messages/${id}`,
  at: received_at,
  state: state === "stored" ? "waiting" : state,
  channel,
  person: sender ?? "unknown",
  subject: subject ?? "",
  reason: [code, reason].filter((part) => part !== null && part !== "").join(": "),
  escalation: null,
});

function searchForm(context: ConsoleContext, query: string, channel: string, state: string): Markup {
  const states = [
    ["", "All"],
    ["attention", "Held, failed or escalated"],
    ["waiting", "Waiting"],
  ] as const;
  const option = (value: string, label: string, chosen: string) =>
    html`<option value="${value}" ${value === chosen ? "selected" : ""}>${label}</option>`;
  return html`<form method="get" action="/conversations" class="filters" role="search">
    <label><span>Address, number, subject, Message-ID or any id</span><input type="search" name="q" value="${query}" size="40" /></label>
    <label><span>State</span><select name="state" data-submit>${states.map(([value, label]) => option(value, label, state))}</select></label>
    <label><span>Channel</span><select name="channel" data-submit>${option("", "All", channel)}${context.channels().map(({ id }) => option(id, id, channel))}</select></label>
    <button class="main">Search</button>
  </form>`;
}

function table(rows: readonly ShownConversation[], query: string, all: string): Markup {
  if (rows.length === 0)
    return html`<section class="panel"><p class="empty">${query === "" ? "No conversations." : html`Nothing matches. <a href="${all}">Show all</a>`}</p></section>`;
  return html`<section class="panel flush"><div class="scroll"><table class="cards">
    <thead><tr><th scope="col">Person and subject</th><th scope="col">State</th><th scope="col">Reason</th><th scope="col">Channel</th><th scope="col">Time</th></tr></thead>
    <tbody>${rows.map(
      ({ path, person, subject, state, reason, channel, at, escalation }) => html`<tr>
        <th scope="row"><a href="${path}">${person}</a><span class="muted wrap">${subject}</span></th>
        <td data-label="State"><div><span class="badge ${levelOf(state)}">${state}</span>${
          escalation === null ? "" : html` <a href="/escalations/${escalation}">escalation ${escalation}</a>`
        }</div></td>
        <td data-label="Reason" class="wrap">${reason}</td>
        <td data-label="Channel">${channel}</td>
        <td data-label="Time" class="nowrap">${when(at)}</td>
      </tr>`,
    )}</tbody>
  </table></div></section>
  ${rows.length < rowsOfPage ? "" : html`<p class="muted">The newest ${rowsOfPage}. Search to find older ones.</p>`}`;
}

const facts = ({ conversation }: History, summary: ConversationSummary): Markup =>
  factList([
    ["Person", summary.person === "" ? "erased (retention)" : summary.person],
    ["Name", summary.person_name],
    ["State", html`<span class="badge ${levelOf(summary.state)}">${summary.state}</span> ${summary.reason ?? ""}`],
    [
      "Escalation",
      summary.escalation === null ? null : html`<a href="/escalations/${summary.escalation}">${summary.escalation}</a>`,
    ],
    ["Channel", `${summary.channel}, agent ${summary.agent}`],
    ["Our address", conversation?.via ?? null],
    ["Answered by", conversation?.mode === "manual" ? "humans (manual mode at the platform)" : null],
    ["Suppressed", conversation?.suppressed ?? null],
    ["Opened", when(summary.opened_at)],
    ["Platform", summary.platform_id],
    ["Conversation", summary.id],
  ]);
