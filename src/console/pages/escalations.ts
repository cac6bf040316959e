// Escalations: the list, and one escalation with its triggers, conversation, notifications and actions. The actions are
// those of `bridgehead escalation`.

import { Hono } from "hono";
import { getCookie, setCookie } from "hono/cookie";
import { html } from "hono/html";
import { commandText } from "../../domain/command-text.ts";
import { minutesText } from "../../domain/duration-text.ts";
import { type ActionName, actionNames } from "../../domain/policy.ts";
import type { ActionOutcome } from "../../escalation/act/decide.ts";
import { act } from "../../escalation/act/stage.ts";
import { deliveryText, type EscalationCase, loadCase, triggersAndNotes } from "../../escalation/case.ts";
import { headlinesOf } from "../../escalation/notify/rows.ts";
import type { Details } from "../../escalation/notify/text.ts";
import type { Query } from "../../store/driver.ts";
import { attemptsOf } from "../../store/operators/history.ts";
import type { AttemptRow } from "../../store/operators/outbox.ts";
import {
  type EscalationRow,
  escalationByNumber,
  listEscalations,
  lockEscalations,
} from "../../store/tables/escalations.ts";
import type { NotificationStateRow } from "../../store/tables/responders.ts";
import {
  type ConsoleContext,
  type ConsoleEnv,
  done,
  factList,
  form,
  type Markup,
  notFound,
  type PageRequest,
  page,
  textField,
  unsentText,
  when,
  withQuery,
} from "../page.ts";

const path = "/escalations";
const states = ["open", "acknowledged", "closed"] as const;
const badges = { open: "bad", acknowledged: "warn", closed: "off" } as const;

/** Limit of rows of each state. */
const mostRows = 100;
/** Limit of messages in the excerpt of the conversation. */
const mostMessages = 30;
const longestText = 20_000;
const longestName = 100;

export function escalationsPage(context: ConsoleContext): Hono<ConsoleEnv> {
  const app = new Hono<ConsoleEnv>();
  app.get("/", (c) => list(c, context));
  app.get("/:number", (c) => show(c, context, null));
  app.post("/:number", (c) => execute(c, context));
  return app;
}

async function list(c: PageRequest, { db, clock }: ConsoleContext): Promise<Response> {
  const chosen = states.find((state) => state === c.req.query("state"));
  const { rows, headlines } = await db.read(async (q) => {
    const found: EscalationRow[] = [];
    // Open ones first.
    for (const state of chosen === undefined ? states : [chosen])
      found.push(...(await listEscalations(q, { state, limit: mostRows })));
    return { rows: found, headlines: await headlinesOf(q, found) };
  });
  const filters = [undefined, ...states].map((state) => {
    const name = state ?? "all";
    const query = state === undefined ? {} : { state: name };
    return html`<li><a href="${withQuery(path, query)}" ${state === chosen ? html`aria-current="true"` : ""}>${name}</a></li>`;
  });
  return page(c, {
    title: "Escalations",
    main: html`<h1>Escalations</h1>
      <ul class="modes">${filters}</ul>
      ${
        rows.length === 0
          ? html`<p class="panel empty">No ${chosen ?? ""} escalation.</p>`
          : html`<div class="panel flush"><div class="scroll"><table class="cards">
              <thead><tr><th scope="col">Escalation</th><th scope="col">State</th><th scope="col">Customer</th>
                <th scope="col">Channel</th><th scope="col">Opened</th></tr></thead>
              <tbody>${rows.map((row) => listRow(row, headlines.get(row.id), clock.now()))}</tbody>
            </table></div></div>`
      }`,
  });
}

function listRow(row: EscalationRow, details: Details | undefined, now: number): Markup {
  const person = details?.person;
  const holder = row.state === "acknowledged" ? row.acknowledged_by : row.state === "closed" ? row.closed_by : null;
  return html`<tr>
    <th scope="row"><a href="${path}/${row.number}">${row.number}: ${row.topic ?? row.reason}</a>
      ${row.topic === null ? "" : html`<span class="muted">${row.reason}</span>`}</th>
    <td data-label="State"><div>${badge(row)}${holder ? html` <span class="muted">by ${holder}</span>` : ""}</div></td>
    <td data-label="Customer" class="wrap">${person ? (person.name ?? person.address) : ""}</td>
    <td data-label="Channel">${row.channel}</td>
    <td data-label="Opened">${when(row.opened_at)}${
      row.state === "open" ? html`<span class="muted">for ${minutesText(now - row.opened_at)}</span>` : ""
    }</td>
  </tr>`;
}

const badge = ({ state }: EscalationRow): Markup => html`<span class="badge ${badges[state]}">${state}</span>`;

/** A form that was not accepted: its text is kept. */
interface RefusedForm {
  readonly action: ActionName;
  readonly text: string;
  readonly outcome: ActionOutcome;
}

const numberOf = (c: PageRequest): number => {
  const given = c.req.param("number") ?? "";
  return /^\d{1,9}$/.test(given) ? Number(given) : 0;
};

const missing = (c: PageRequest): Promise<Response> =>
  notFound(c, html`There is no such escalation. <a href="${path}">All escalations</a>`);

async function show(c: PageRequest, context: ConsoleContext, refused: RefusedForm | null): Promise<Response> {
  const found = await context.db.read(async (q) => {
    const row = await escalationByNumber(q, numberOf(c));
    if (row === null) return null;
    const own = await loadCase(q, row);
    const drafts = own.notifications.flatMap(({ draft }) => draft ?? []);
    return { own, attempts: await attemptsOf(q, drafts) };
  });
  if (found === null) return missing(c);
  const { own } = found;
  const { row } = own.details;
  const { triggers, notes } = triggersAndNotes(own.details.triggers);
  return page(c, {
    title: `Escalation ${row.number}`,
    status: refused === null ? 200 : 409,
    main: html`<p><a href="${path}">Escalations</a></p>
      <div class="head"><h1>Escalation ${row.number}: ${row.topic ?? row.reason}</h1>${badge(row)}</div>
      <div class="split first">
        <div>${conversation(own.details, context)} ${actions(c, own, context, refused)}</div>
        <div>
          ${facts(own)} ${notifications(own.notifications, found.attempts)}
          ${section(
            "Triggers",
            triggers.map(({ at, from, detail }) => html`${when(at)} ${from}${detail ? `: ${detail}` : ""}`),
          )}
          ${section(
            "Notes",
            notes.map(({ at, text }) => html`${when(at)} <span class="text">${text}</span>`),
          )}
        </div>
      </div>`,
  });
}

const section = (title: string, items: readonly Markup[]): Markup =>
  items.length === 0
    ? ""
    : html`<section class="panel"><h2>${title}</h2><ul class="plain">${items.map((item) => html`<li class="wrap">${item}</li>`)}</ul></section>`;

function facts({ details: { row, person, subject, platformId } }: EscalationCase): Markup {
  const known = person?.known;
  return html`<section class="panel"><h2 class="hidden">Facts</h2>${factList([
    ["Why", row.reason],
    ["Topic", row.topic],
    ["Cause", row.cause],
    ["Customer", person && [person.name, person.address].filter(Boolean).join(", ")],
    [
      "Known",
      known
        ? html`since ${when(known.since)}, ${known.conversations} conversations, ${known.escalations} earlier escalations`
        : null,
    ],
    ["Subject", subject],
    ["Channel", row.channel],
    ["Agent", row.agent],
    ["Opened", when(row.opened_at)],
    [
      "Acknowledged",
      row.acknowledged_by &&
        html`${row.acknowledged_by}${row.acknowledged_at === null ? "" : html`, ${when(row.acknowledged_at)}`}`,
    ],
    ["Closed", row.closed_at === null ? null : html`${row.closed_by}, ${when(row.closed_at)}`],
    ["Conversation", row.conversation && html`<a href="/conversations/${row.conversation}">${row.conversation}</a>`],
    ["On the platform", platformId ?? null],
  ])}</section>`;
}

const names = { person: "Customer", agent: "Agent", human: "Responder" } as const;

function conversation({ said, cut, row }: Details, { config }: ConsoleContext): Markup {
  if (said.length === 0) return "";
  const shown = said.slice(-mostMessages);
  return html`<section><h2>Conversation</h2>
    ${cut === true || shown.length < said.length ? html`<p class="muted">The newest ${shown.length} messages. All of them: <code>${commandText(`escalation show ${row.number}`, config)}</code></p>` : ""}
    <ol class="said">${shown.map(
      ({ who, at, text, other, cut: left }) =>
        html`<li class="${who}"><p class="by"><strong>${other ?? names[who]}</strong>${when(at)}</p><p class="text">${text}${left ? ` [${left} more characters]` : ""}</p></li>`,
    )}</ol></section>`;
}

const kindNames = {
  opened: "first notification",
  reminder: "repetition",
  acknowledged: "acknowledgement of another responder",
  customer: "message of the customer",
  message: "message of Bridgehead",
} as const;
const wayNames = { sms: "SMS", email: "email", webhook: "webhook" } as const;

function notifications(
  rows: readonly NotificationStateRow[],
  attempts: ReadonlyMap<string, readonly AttemptRow[]>,
): Markup {
  if (rows.length === 0)
    return html`<section class="panel"><h2>Notifications</h2><p>No responder was notified.</p></section>`;
  const states = {
    sent: "good",
    delivered: "good",
    failed: "bad",
    held: "bad",
    dropped: "bad",
    unknown: "warn",
  };
  return html`<section class="panel flush"><h2>Notifications</h2>
    <div class="scroll" tabindex="0" role="group" aria-label="Notifications"><table class="cards">
    <thead><tr><th scope="col">Responder</th><th scope="col">What</th><th scope="col">State</th><th scope="col">Attempts</th></tr></thead>
    <tbody>${rows.map((one) => {
      const made = attempts.get(one.draft ?? "") ?? [];
      const colour = (states as Record<string, string>)[one.state ?? ""] ?? "off";
      return html`<tr>
        <th scope="row">${one.name}<span class="muted">${wayNames[one.way]}${one.way === "webhook" ? "" : ` ${one.address}`}</span></th>
        <td data-label="What"><div>${kindNames[one.kind]}<span class="muted">${when(one.made_at)}</span></div></td>
        <td data-label="State"><div><span class="badge ${colour}">${deliveryText(one)}</span>${one.reason ? html`<span class="muted">${one.reason}</span>` : ""}</div></td>
        <td data-label="Attempts"><div>${made.map(({ started_at, outcome, detail }) => html`<div>${when(started_at)} ${outcome ?? "running"}${detail ? `: ${detail}` : ""}</div>`)}</div></td>
      </tr>`;
    })}</tbody></table></div></section>`;
}

const nameCookie = "bridgehead-name";
const defaultName = "an operator";
/** Seconds for which the browser keeps the operator's name. */
const nameSeconds = 31_536_000;

function actions(
  c: PageRequest,
  { details, isReturned }: EscalationCase,
  context: ConsoleContext,
  refused: RefusedForm | null,
): Markup {
  const { row } = details;
  const name = getCookie(c, nameCookie) ?? defaultName;
  const to = `${path}/${row.number}`;
  const field = (action: ActionName) => html`<input type="hidden" name="action" value="${action}" />`;
  const by = (action: ActionName) =>
    html`<label class="field"><span>Your name, as the responders see it</span><input type="text" id="by-${action}" name="by" value="${name}" maxlength="${longestName}" /></label>`;
  const writing = (action: "reply" | "note", label: string, button: string, className: string) => {
    const own = refused?.action === action ? refused : null;
    return form(
      c,
      to,
      html`${field(action)}
        <label class="field"><span>${label}</span><textarea id="text-${action}" name="text" required maxlength="${longestText}">${own?.text ?? ""}</textarea></label>
        ${by(action)} <button class="${className}">${button}</button>
        ${own?.outcome.repeated ? html`<button name="again" value="yes">Repeat it</button>` : ""}`,
    );
  };
  const folded = (action: ActionName, button: string, hint: string, className: string) =>
    html`<details class="act" id="act-${action}" ${action === "ack" && row.state === "open" ? html`open` : ""}><summary>${button}</summary><p>${hint}</p>${form(c, to, html`${field(action)} ${by(action)} <button class="${className}">${button}</button>`)}</details>`;
  const isOpen = row.state !== "closed";
  const isReplied = isOpen && row.conversation !== null && context.kindOf(row.channel) !== null;
  return html`<section class="panel"><h2>Actions</h2><div class="acts">
    ${refused === null ? "" : html`<p class="refused bad" role="alert">${refused.outcome.says}</p>`}
    ${refused?.action === "reply" && !isReplied ? unsentText(refused.text) : ""}
    ${isOpen ? html`${folded("ack", row.state === "open" ? "Acknowledge" : "Take it over", "Ends the notifications; the other responders are informed.", "main")}` : ""}
    ${isReplied ? html`<details class="act" id="act-reply" ${refused?.action === "reply" ? html`open` : ""}><summary>Reply to the customer</summary>${writing("reply", "Text for the customer, sent under the agent's name", "Send to the customer", "main")}</details>` : ""}
    <details class="act" id="act-note" ${refused?.action === "note" ? html`open` : ""}><summary>Note</summary>${writing("note", "Text for the responders", "Keep the note", "")}</details>
    ${row.conversation === null || isReturned ? "" : folded("resume", "Return to the agent", "Closes the escalation; the agent answers the customer again.", "")}
    ${isOpen ? folded("close", "Close", "Closes the escalation; if the agent was silenced, it stays silent until the conversation is returned to it.", "risk") : ""}
  </div></section>`;
}

async function execute(c: PageRequest, context: ConsoleContext): Promise<Response> {
  const to = `${path}/${numberOf(c)}`;
  const given = await textField(c, "action", longestName);
  const action = actionNames.find((one) => one === given);
  if (action === undefined) return done(c, to, "The form has no action.", "failed");
  const text = await textField(c, "text", longestText);
  const again = (await textField(c, "again", longestName)) !== "";
  const name = (await textField(c, "by", longestName)).replaceAll(/\p{Cc}/gu, " ") || defaultName;
  const outcome = await context.commit(async (q: Query) => {
    const found = await escalationByNumber(q, numberOf(c));
    const row = found && (await lockEscalations(q, [found.id])).get(found.id);
    if (!row) return null;
    const request = { action, by: { name, target: null }, text, again };
    const { sameText } = context.timing.commands;
    return act(q, row, request, { ...context, sameText });
  });
  if (outcome === null) return missing(c);
  setCookie(c, nameCookie, name, { path, httpOnly: true, sameSite: "Strict", maxAge: nameSeconds });
  if (!outcome.done) return show(c, context, { action, text, outcome });
  return done(c, to, `${outcome.says.slice(0, 1).toUpperCase()}${outcome.says.slice(1)}.`);
}
