// The chart of the last 24 hours: inline SVG with a text alternative. Lengths are attributes, because the page's policy
// forbids style attributes.

import { html } from "hono/html";
import type { ActivityReport, Hour } from "./activity.ts";
import { count, type Markup, when } from "./page.ts";

/** In the order in which the bars are drawn. */
export const series = ["received", "answered", "refused", "held"] as const;
type Series = (typeof series)[number];

const labels: Readonly<Record<Series, string>> = {
  received: "Received",
  answered: "Answered",
  refused: "Refused",
  held: "Held",
};

const [width, height] = [960, 190];
const [left, bottom, top] = [44, 22, 12];

/** Sum over all hours. */
export const total = ({ hours }: ActivityReport, what: Series): number =>
  hours.reduce((sum, hour) => sum + hour[what], 0);

export function activityChart(report: ActivityReport): Markup {
  const { hours } = report;
  const most = Math.max(4, ...hours.flatMap((hour) => series.map((what) => hour[what])));
  const scale = niceScale(most);
  const y = (value: number) => height - bottom - (value / scale.max) * (height - bottom - top);
  const step = (width - left) / hours.length;
  const summary = series
    .map((what) => `${labels[what].toLowerCase()} ${count(total(report, what))}`)
    .join(", ");
  return html`<ul class="legend">
      ${series.map((what) => html`<li><svg viewBox="0 0 12 12" aria-hidden="true"><rect class="${what}" width="12" height="12" rx="2" /></svg>${labels[what]} ${count(total(report, what))}</li>`)}
    </ul>
    <svg class="chart" viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="chart-title" preserveAspectRatio="none">
      <title id="chart-title">Messages of the last 24 hours: ${summary}</title>
      ${scale.ticks.map(
        (tick) =>
          html`<line class="grid" x1="${left}" x2="${width}" y1="${round(y(tick))}" y2="${round(y(tick))}" /><text x="${left - 8}" y="${round(y(tick) + 4)}" text-anchor="end">${count(tick)}</text>`,
      )}
      ${hours.map((hour, index) => bars(hour, left + index * step, step, y))}
      ${[0, 6, 12, 18, 24].map(
        (ago) =>
          html`<text x="${round(left + (hours.length - 1 - ago + 0.5) * step)}" y="${height - 6}" text-anchor="middle">${ago === 0 ? "now" : `-${ago} h`}</text>`,
      )}
    </svg>
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
function bars(hour: Hour, x: number, step: number, y: (value: number) => number): Markup {
  const inner = step * 0.8;
  const thin = inner / 3;
  const bar = (what: Series, at: number, wide: number) =>
    hour[what] === 0
      ? ""
      : html`<rect class="${what}" x="${round(at)}" y="${round(y(hour[what]))}" width="${round(wide)}" height="${round(height - bottom - y(hour[what]))}" rx="1.5" />`;
  const begin = x + step * 0.1;
  return html`${bar("received", begin, inner)}${series.slice(1).map((what, index) => bar(what, begin + index * thin + thin * 0.12, thin * 0.76))}`;
}

const round = (value: number): number => Math.round(value * 10) / 10;

/** A maximum with few digits, and the lines up to it. */
function niceScale(most: number): { readonly max: number; readonly ticks: readonly number[] } {
  const power = 10 ** Math.floor(Math.log10(most));
  const unit =
    [1, 2, 4, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= most) ?? most;
  return { max: unit, ticks: [0, unit / 2, unit] };
}
