// The channels on the overview: one row each, problems first, with what waits, and pause and resume.

import type { Context } from "hono";
import { html } from "hono/html";
import type { ChannelReport } from "../channels/readiness.ts";
import { minutesText } from "../domain/duration-text.ts";
import { workOf } from "../store/operators/channels.ts";
import type { ChannelOverview } from "../store/operators/overview.ts";
import { type ChannelPause, everyChannel } from "../store/tables/pauses.ts";
import type { ActivityReport } from "./chart.ts";
import { type ConsoleContext, type ConsoleEnv, count, form, type Markup, when } from "./page.ts";

type RowLevel = "bad" | "warn" | "off" | "good";

export interface ChannelRow {
  readonly id: string;
  /** Null for a channel that has work in the store, and does not run on this node. */
  readonly report: ChannelReport | null;
  readonly level: RowLevel;
  readonly state: string;
  readonly reasons: readonly string[];
  /** The pause of the channel, or that of all channels; null when it is not paused. */
  readonly pause: ChannelPause | null;
  readonly nextAt: number | null;
  readonly last: number | null;
  readonly waiting: number;
  readonly held: number;
  /** Milliseconds since the oldest waiting message arrived; null when nothing waits. */
  readonly oldest: number | null;
}

/** The pause of all channels; null without one. */
export const pauseOfAll = (pauses: readonly ChannelPause[]): ChannelPause | null =>
  pauses.find(({ channel }) => channel === everyChannel) ?? null;

const order: readonly RowLevel[] = ["bad", "warn", "good", "off"];

/** One row per channel, problems first, then in the configuration's order. */
export function rowsOf(
  context: ConsoleContext,
  stored: readonly ChannelOverview[],
  pauses: readonly ChannelPause[],
  report: ActivityReport,
): readonly ChannelRow[] {
  const running = context.channels();
  const known = new Map(stored.map((one) => [one.channel, one]));
  const rest = stored.filter(({ channel }) => !running.some(({ id }) => id === channel));
  const pauseOf = (id: string) => pauses.find(({ channel }) => channel === id) ?? pauseOfAll(pauses);
  const row = (id: string, channel: ChannelReport | null) =>
    rowOf(context, id, channel, known.get(id), pauseOf(id), report);
  const rows = [
    ...running.map((channel) => row(channel.id, channel)),
    ...rest.map(({ channel }) => row(channel, null)).filter(({ waiting, held }) => waiting + held > 0),
  ];
  return rows.toSorted((a, b) => order.indexOf(a.level) - order.indexOf(b.level));
}

function rowOf(
  { clock, timing }: ConsoleContext,
  id: string,
  report: ChannelReport | null,
  stored: ChannelOverview | undefined,
  pause: ChannelPause | null,
  { last }: ActivityReport,
): ChannelRow {
  const { unanswered, unsent, held } = stored ? workOf(stored) : { unanswered: 0, unsent: 0, held: 0 };
  const oldest = stored?.oldest_waiting ?? null;
  const backoff = stored?.paused_reason ?? null;
  const reasons = [
    ...(report?.reason ? [report.reason] : []),
    ...(pause === null ? [] : [`Paused: ${pause.reason}`]),
    ...(report?.not_asking ? [`The agent is not asked: ${report.not_asking}`] : []),
    ...(backoff === null ? [] : [`Sending waits: ${backoff}`]),
    ...(report?.mode === "shadow" ? ["Shadow mode: replies are held"] : []),
    ...(report?.warnings ?? []),
    ...(report === null ? ["Not configured, or disabled, and has work in the store"] : []),
  ];
  const retry = report?.retry_at ? Date.parse(report.retry_at) : null;
  const resumes = stored && stored.paused_for > 0 ? clock.now() + stored.paused_for : null;
  const isBroken =
    report !== null && (report.state === "degraded" || report.state === "unauthorized" || report.key_rejected);
  const isLate = (oldest ?? 0) > timing.console.late;
  const isWatched = reasons.length > 0 || isLate || held > 0 || report?.state === "connecting";
  const works = report !== null && (report.state === "ready" || report.state === "standby");
  return {
    id,
    report,
    level: isBroken ? "bad" : isWatched ? "warn" : "good",
    state: report === null ? "not running" : works && pause !== null ? "paused" : report.state,
    reasons,
    pause,
    nextAt: retry !== null && retry > clock.now() ? retry : resumes,
    last: last.get(id) ?? null,
    waiting: unanswered + unsent,
    held,
    oldest,
  };
}

/** A channel that works has a green badge, even when work waits on it. */
const badgeOf = (state: string, level: RowLevel): RowLevel =>
  state === "ready" || state === "standby" ? "good" : level;

const stateNames: Readonly<Record<string, string>> = { unauthorized: "credentials refused" };

const linked = (path: string, value: number): Markup =>
  value === 0 ? "0" : html`<a href="${path}">${count(value)}</a>`;

export function channelTable(
  c: Context<ConsoleEnv>,
  rows: readonly ChannelRow[],
  all: ChannelPause | null,
  now: number,
): Markup {
  if (rows.length === 0) return html`<section class="panel"><p class="empty">No channel is configured.</p></section>`;
  return html`<section class="panel flush" aria-labelledby="channels">
    <div class="bar head">
      <h2 id="channels">Channels</h2>
      ${all === null ? pauseForm(c, everyChannel, "all channels") : resumeForm(c, everyChannel, "all channels")}
    </div>
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
            <th scope="col"><span class="hidden">Actions</span></th>
          </tr>
        </thead>
        <tbody>
          ${rows.map((row) => channelRow(c, row, now))}
        </tbody>
      </table>
    </div>
  </section>`;
}

function channelRow(c: Context<ConsoleEnv>, row: ChannelRow, now: number): Markup {
  const { id, report, level, state, reasons, pause, nextAt, last, waiting, held, oldest } = row;
  const query = `channel=${encodeURIComponent(id)}`;
  return html`<tr>
    <th scope="row" class="nowrap">${id}<span class="muted">${report?.adapter ?? ""}</span></th>
    <td data-label="State"><div><span class="badge ${badgeOf(state, level)}">${stateNames[state] ?? state}</span>
      ${reasons.map((reason) => html`<span class="reason wrap">${reason}</span>`)}</div></td>
    <td data-label="Since" class="nowrap">${report === null ? "" : when(Date.parse(report.since))}</td>
    <td data-label="Next attempt" class="nowrap">${nextAt === null ? "" : when(nextAt)}</td>
    <td data-label="Last message" class="nowrap">${last === null ? html`<span>none</span>` : html`<span>${minutesText(now - last)} ago</span>`}</td>
    <td data-label="Waiting" class="number">${linked(`/waiting?${query}`, waiting)}</td>
    <td data-label="Held" class="number">${linked(`/held?${query}`, held)}</td>
    <td data-label="Oldest" class="number nowrap">${oldest === null ? "" : minutesText(oldest)}</td>
    <td class="act">${report === null || report.notices_only ? "" : pause?.channel === id ? resumeForm(c, id, id) : pause === null ? pauseForm(c, id, id) : ""}</td>
  </tr>`;
}

/** For how long a channel can be paused: value and label. */
const pauseTimes = [
  ["", "until it is resumed"],
  ["1h", "for an hour"],
  ["8h", "for 8 hours"],
  ["24h", "for a day"],
] as const;

const pauseForm = (c: Context<ConsoleEnv>, channel: string, label: string): Markup =>
  html`<details class="act" id="pause-${channel}"><summary>Pause${channel === everyChannel ? " all" : html`<span class="hidden"> ${label}</span>`}…</summary>${form(
    c,
    "/channels/pause",
    html`<input type="hidden" name="channel" value="${channel}" />
      <label class="field"><span>Reason</span><input type="text" name="reason" maxlength="200" required /></label>
      <label class="field"><span>Time</span><select name="time">${pauseTimes.map(([value, name]) => html`<option value="${value}">${name}</option>`)}</select></label>
      <button class="risk">Pause ${label}</button>`,
  )}</details>`;

const resumeForm = (c: Context<ConsoleEnv>, channel: string, label: string): Markup =>
  form(
    c,
    "/channels/resume",
    html`<input type="hidden" name="channel" value="${channel}" /><button>Resume${channel === everyChannel ? " all" : html`<span class="hidden"> ${label}</span>`}</button>`,
  );
