// The last 24 hours and their chart: inline SVG with a text alternative. Lengths are attributes, because the page's policy
// forbids style attributes. Counts of past hours are kept for a while, because they rarely change: an answer, or an operator.

import { html } from "hono/html";
import { countHour, type HourCounts, lastQuestions } from "../store/operators/overview.ts";
import { type ConsoleContext, count, type Markup, when } from "./page.ts";

export interface Hour extends HourCounts {
  /** Begin of the hour, epoch milliseconds. */
  readonly from: number;
}

export interface ActivityReport {
  /** Oldest first; the last one is the current, incomplete hour. */
  readonly hours: readonly Hour[];
  /** The last message of each channel, epoch milliseconds. */
  readonly last: ReadonlyMap<string, number>;
}

const shownHours = 24;

export class Activity {
  readonly #context: Pick<ConsoleContext, "db" | "clock" | "timing">;
  readonly #kept = new Map<number, { readonly hour: Hour; readonly at: number }>();

  constructor(context: Pick<ConsoleContext, "db" | "clock" | "timing">) {
    this.#context = context;
  }

  async read(): Promise<ActivityReport> {
    const { db, clock, timing } = this.#context;
    const { hour: length, keep } = timing.console;
    const now = clock.now();
    const current = now - (now % length);
    const begins = Array.from({ length: shownHours + 1 }, (_, index) => current - (shownHours - index) * length);
    for (const from of this.#kept.keys()) if (!begins.includes(from)) this.#kept.delete(from);
    const hours: Hour[] = [];
    for (const from of begins) {
      const known = this.#kept.get(from);
      // The hour before the current one still changes: its answers are on their way.
      const isComplete = from < current - length;
      if (isComplete && known && now - known.at < keep) {
        hours.push(known.hour);
        continue;
      }
      // One read for each hour: SQLite blocks the thread for the time of a read.
      const counts = await db.read((q) => countHour(q, from, from + length));
      const hour = { from, ...counts };
      this.#kept.set(from, { hour, at: now });
      hours.push(hour);
    }
    const last = new Map(await db.read(lastQuestions));
    for (const hour of hours)
      for (const [channel, at] of hour.last) last.set(channel, Math.max(at, last.get(channel) ?? 0));
    return { hours, last };
  }
}

/** In the order in which the bars are drawn. */
const series = ["received", "answered", "refused", "held"] as const;
type ChartSeries = (typeof series)[number];

const labels: Readonly<Record<ChartSeries, string>> = {
  received: "Received",
  answered: "Answered",
  refused: "Refused",
  held: "Held",
};

/** The bars are stretched to the width of the page; labels are next to the image, and are not. */
const [width, height] = [1000, 100];

export const total = ({ hours }: ActivityReport, what: ChartSeries): number =>
  hours.reduce((sum, hour) => sum + hour[what], 0);

export function activityChart(report: ActivityReport): Markup {
  const { hours } = report;
  const most = Math.max(4, ...hours.flatMap((hour) => series.map((what) => hour[what])));
  const max = niceMaximum(most);
  const step = width / hours.length;
  const summary = series.map((what) => `${labels[what].toLowerCase()} ${count(total(report, what))}`).join(", ");
  return html`<ul class="legend">
      ${series.map((what) => html`<li><svg viewBox="0 0 12 12" aria-hidden="true"><rect class="${what}" width="12" height="12" rx="2" /></svg>${labels[what]} ${count(total(report, what))}</li>`)}
    </ul>
    <div class="chart">
      <div class="rows" aria-hidden="true">${[max, max / 2, 0].map((tick) => html`<span>${count(tick)}</span>`)}</div>
      <svg viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="chart-title" preserveAspectRatio="none">
        <title id="chart-title">Messages of the last 24 hours: ${summary}</title>
        ${[0, height / 2, height].map((y) => html`<line class="grid" x1="0" x2="${width}" y1="${y}" y2="${y}" vector-effect="non-scaling-stroke" />`)}
        ${hours.map((hour, index) => bars(hour, index * step, step, max))}
      </svg>
      <div class="times" aria-hidden="true"><span>24 h ago</span><span>18 h</span><span>12 h</span><span>6 h</span><span>now</span></div>
    </div>
    <details id="chart-table">
      <summary>Show as a table</summary>
      <div class="scroll" role="group" aria-label="Messages by hour" tabindex="0">
        <table>
          <thead>
            <tr><th scope="col">Hour from</th>${series.map((what) => html`<th scope="col" class="number">${labels[what]}</th>`)}</tr>
          </thead>
          <tbody>
            ${hours.toReversed().map((hour) => html`<tr><th scope="row">${when(hour.from)}</th>${series.map((what) => html`<td class="number">${count(hour[what])}</td>`)}</tr>`)}
          </tbody>
        </table>
      </div>
    </details>`;
}

/** A wide bar for what was received, and in front of it one for each outcome. */
function bars(hour: Hour, x: number, step: number, max: number): Markup {
  const inner = step * 0.8;
  const thin = inner / 3;
  const bar = (what: ChartSeries, at: number, wide: number) => {
    const long = (hour[what] / max) * height;
    return long === 0
      ? ""
      : html`<rect class="${what}" x="${round(at)}" y="${round(height - long)}" width="${round(wide)}" height="${round(long)}" />`;
  };
  const begin = x + step * 0.1;
  const outcomes = series.slice(1);
  return html`${bar("received", begin, inner)}${outcomes.map((what, index) => bar(what, begin + index * thin + thin * 0.12, thin * 0.76))}`;
}

const round = (value: number): number => Math.round(value * 10) / 10;

/** Returns a maximum with few digits. */
function niceMaximum(most: number): number {
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 4, 6, 8, 10].map((factor) => factor * power).find((one) => one >= most) ?? most;
}
