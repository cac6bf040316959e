// The first page: what needs attention, the state of every channel with problems first, open escalations, and the last 24
// hours.

import { Hono } from "hono";
import { html } from "hono/html";
import type { ChannelReport } from "../../channels/readiness.ts";
import type { Query } from "../../store/driver.ts";
import { type ChannelOverview, overview } from "../../store/operators/overview.ts";
import { type UnclosedEscalations, unclosedEscalations } from "../../store/tables/escalations.ts";
import { Activity, type ActivityReport } from "../activity.ts";
import { activityChart, total } from "../chart.ts";
import type { ConsoleContext, ConsoleEnv, StoreState } from "../context.ts";
import { count, type Markup, page, span, when } from "../page.ts";

/** Most escalations that the page lists. */
const mostEscalations = 10;

type RowLevel = "bad" | "warn" | "off" | "good";

interface ChannelRow {
  readonly id: string;
  /** Null for a channel that has work in the store, and does not run on this node. */
  readonly report: ChannelReport | null;
  readonly level: RowLevel;
  readonly state: string;
  readonly reasons: readonly string[];
  readonly nextAt: number | null;
  readonly last: number | null;
  readonly waiting: number;
  readonly held: number;
  /** Milliseconds since the oldest waiting message arrived; null when nothing waits. */
  readonly oldest: number | null;
}

export function overviewPage(context: ConsoleContext): Hono<ConsoleEnv> {
  const app = new Hono<ConsoleEnv>();
  const activity = new Activity(context);
  app.get("/", async (c) => {
    const { channels, escalations } = await context.db.read(load);
    const report = await activity.read();
    const state = await context.storeState();
    const rows = rowsOf(context, channels, report);
    return page(c, {
      title: "Overview",
      main: html`<h1>Overview</h1>
        ${notices(state, rows, escalations)} ${tiles(rows, escalations, report)} ${channelTable(rows, context.clock.now())}
        ${escalationList(escalations)}
        <section class="panel" aria-labelledby="activity">
          <h2 id="activity">Last 24 hours</h2>
          ${activityChart(report)}
        </section>`,
    });
  });
  return app;
}

async function load(q: Query) {
  return { channels: await overview(q), escalations: await unclosedEscalations(q, mostEscalations) };
}

const order: readonly RowLevel[] = ["bad", "warn", "good", "off"];

/** One row per channel, problems first, then in the configuration's order. */
function rowsOf(
  context: ConsoleContext,
  stored: readonly ChannelOverview[],
  report: ActivityReport,
): readonly ChannelRow[] {
  const running = context.channels();
  const known = new Map(stored.map((one) => [one.channel, one]));
  const rest = stored.filter(({ channel }) => !running.some(({ id }) => id === channel));
  const rows = [
    ...running.map((channel) => rowOf(context, channel.id, channel, known.get(channel.id), report)),
    ...rest
      .map((one) => rowOf(context, one.channel, null, one, report))
      .filter(({ waiting, held }) => waiting + held > 0),
  ];
  return rows.toSorted((a, b) => order.indexOf(a.level) - order.indexOf(b.level));
}

function rowOf(
  { clock, timing }: ConsoleContext,
  id: string,
  report: ChannelReport | null,
  stored: ChannelOverview | undefined,
  { last }: ActivityReport,
): ChannelRow {
  const work = workOf(stored);
  const paused = stored?.paused_reason ?? null;
  const isLate = (work.oldest ?? 0) > timing.console.late;
  const reasons = [
    ...(report?.reason ? [report.reason] : []),
    ...(report?.not_asking ? [`The agent is not asked: ${report.not_asking}`] : []),
    ...(paused === null ? [] : [`Sending is paused: ${paused}`]),
    ...(report?.warnings ?? []),
    ...(report === null ? ["It is not configured, or disabled, and has work in the store."] : []),
  ];
  const retry = report?.retry_at ? Date.parse(report.retry_at) : null;
  const resumes = stored && stored.paused_for > 0 ? clock.now() + stored.paused_for : null;
  const isBroken =
    report !== null &&
    (report.state === "degraded" || report.state === "unauthorized" || report.key_rejected);
  const isWatched = reasons.length > 0 || isLate || work.held > 0 || report?.state === "connecting";
  return {
    id,
    report,
    level: isBroken ? "bad" : isWatched ? "warn" : "good",
    state:
      report === null ? "not running" : paused !== null && report.state === "ready" ? "paused" : report.state,
    reasons,
    nextAt: retry !== null && retry > clock.now() ? retry : resumes,
    last: last.get(id) ?? null,
    ...work,
  };
}

function workOf(stored: ChannelOverview | undefined): Pick<ChannelRow, "waiting" | "held" | "oldest"> {
  if (stored === undefined) return { waiting: 0, held: 0, oldest: null };
  const { events, turns, replies, drafts, oldest_waiting: oldest } = stored;
  const of = (counts: ChannelOverview["events"], ...states: readonly string[]) =>
    states.reduce((sum, state) => sum + (counts[state] ?? 0), 0);
  return {
    waiting:
      of(events, "stored") +
      of(turns, "waiting", "asking", "unknown") +
      of(replies, "ready") +
      of(drafts, "queued", "sending", "unknown"),
    held: of(events, "held", "failed") + of(drafts, "held", "failed"),
    oldest,
  };
}

/** What needs an operator, the most urgent first. Empty when nothing does. */
function notices(
  { problem, warnings }: StoreState,
  rows: readonly ChannelRow[],
  escalations: UnclosedEscalations,
): Markup {
  const broken = rows.filter(({ level }) => level === "bad");
  const found = [
    ...(problem === null ? [] : [["bad", html`The store ${problem}.`] as const]),
    ...(escalations.open > 0
      ? [
          [
            "bad",
            html`${plural(escalations.open, "escalation")} without a responder. <a href="/escalations">Show</a>`,
          ] as const,
        ]
      : []),
    ...(broken.length > 0
      ? [
          [
            "bad",
            html`${plural(broken.length, "channel")} not working: ${broken.map(({ id }) => id).join(", ")}.`,
          ] as const,
        ]
      : []),
    ...warnings.map((text) => ["warn", html`${text}. <a href="/held">Show held</a>`] as const),
  ];
  if (found.length === 0) return "";
  return html`<ul class="notices" aria-label="Problems">
    ${found.map(([level, content]) => html`<li class="${level}">${content}</li>`)}
  </ul>`;
}

const plural = (value: number, noun: string): string => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

function tiles(
  rows: readonly ChannelRow[],
  escalations: UnclosedEscalations,
  report: ActivityReport,
): Markup {
  const sum = (what: "waiting" | "held") => rows.reduce((all, row) => all + row[what], 0);
  const held = sum("held");
  const unclosed = escalations.open + escalations.taken;
  return html`<ul class="stats">
    <li class="${held > 0 ? "watch" : ""}"><a href="/held"><strong>${count(held)}</strong> held</a></li>
    <li><a href="/waiting"><strong>${count(sum("waiting"))}</strong> waiting</a></li>
    <li class="${escalations.open > 0 ? "alarm" : ""}"><a href="/escalations"><strong>${count(unclosed)}</strong> escalations</a></li>
    <li><a href="/conversations"><strong>${count(total(report, "received"))}</strong> received in 24 h</a></li>
    <li><a href="/refused"><strong>${count(total(report, "refused"))}</strong> refused in 24 h</a></li>
  </ul>`;
}

/** A channel that works has a green badge, whatever waits on it. */
const badgeOf = (state: string, level: RowLevel): RowLevel =>
  state === "ready" || state === "standby" ? "good" : level;

const stateNames: Readonly<Record<string, string>> = { unauthorized: "credentials refused" };

const linked = (path: string, value: number): Markup =>
  value === 0 ? "0" : html`<a href="${path}">${count(value)}</a>`;

function channelTable(rows: readonly ChannelRow[], now: number): Markup {
  if (rows.length === 0)
    return html`<section class="panel"><p class="empty">No channel is configured.</p></section>`;
  return html`<section class="panel flush" aria-labelledby="channels">
    <h2 id="channels">Channels</h2>
    <div class="scroll" role="group" aria-labelledby="channels" tabindex="0">
      <table class="cards">
        <thead>
          <tr>
            <th scope="col">Channel</th>
            <th scope="col">State</th>
            <th scope="col">Since</th>
            <th scope="col">Next attempt</th>
            <th scope="col">Last message</th>
            <th scope="col" class="number">Waiting</th>
            <th scope="col" class="number">Held</th>
            <th scope="col" class="number">Oldest</th>
          </tr>
        </thead>
        <tbody>
          ${rows.map((row) => channelRow(row, now))}
        </tbody>
      </table>
    </div>
  </section>`;
}

function channelRow(
  { id, report, level, state, reasons, nextAt, last, waiting, held, oldest }: ChannelRow,
  now: number,
): Markup {
  const query = `channel=${encodeURIComponent(id)}`;
  return html`<tr>
    <th scope="row">${id}<span class="muted">${report?.adapter ?? ""}</span></th>
    <td data-label="State"><div><span class="badge ${badgeOf(state, level)}">${stateNames[state] ?? state}</span>
      ${reasons.map((reason) => html`<span class="reason wrap">${reason}</span>`)}</div></td>
    <td data-label="Since">${report === null ? "" : when(Date.parse(report.since))}</td>
    <td data-label="Next attempt">${nextAt === null ? "" : when(nextAt)}</td>
    <td data-label="Last message">${last === null ? html`<span>none</span>` : html`<span>${span(now - last)} ago</span>`}</td>
    <td data-label="Waiting" class="number">${linked(`/waiting?${query}`, waiting)}</td>
    <td data-label="Held" class="number">${linked(`/held?${query}`, held)}</td>
    <td data-label="Oldest" class="number nowrap">${oldest === null ? "" : span(oldest)}</td>
  </tr>`;
}

function escalationList({ rows, open, taken }: UnclosedEscalations): Markup {
  if (rows.length === 0) return "";
  return html`<section class="panel flush" aria-labelledby="escalations">
    <h2 id="escalations">Open escalations</h2>
    <ul class="reasons">
      ${rows.map(
        ({ number, state, reason, channel, opened_at, taken_by }) =>
          html`<li>
            <span class="badge ${state === "open" ? "bad" : "warn"}">${state === "open" ? "nobody yet" : (taken_by ?? "taken")}</span>
            <span class="what"><a href="/escalations/${number}">${number}</a> ${reason}
              <span class="muted">${channel}, since ${when(opened_at)}</span></span>
          </li>`,
      )}
    </ul>
    ${open + taken > rows.length ? html`<p class="bar"><a href="/escalations">All ${count(open + taken)}</a></p>` : ""}
  </section>`;
}
