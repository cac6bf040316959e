// The chart of the last 24 hours: inline SVG with a text alternative. Lengths are attributes, because the page's policy
// forbids style attributes.

import { html } from "hono/html";
import type { ActivityReport, Hour } from "./activity.ts";
import { count, type Markup, when } from "./page.ts";

/** In the order in which the bars are drawn. */
const series = ["received", "answered", "refused", "held"] as const;
type ChartSeries = (typeof series)[number];

const labels: Readonly<Record<ChartSeries, string>> = {
  received: "Received",
  answered: "Answered",
  refused: "Refused",
  held: "Held",
};

/** The bars are stretched to the width of the page; labels are beside the image, and are not. */
const [width, height] = [1000, 100];

/** Sum over all hours. */
export const total = ({ hours }: ActivityReport, what: ChartSeries): number =>
  hours.reduce((sum, hour) => sum + hour[what], 0);

export function activityChart(report: ActivityReport): Markup {
  const { hours } = report;
  const most = Math.max(4, ...hours.flatMap((hour) => series.map((what) => hour[what])));
  const scale = niceScale(most);
  const step = width / hours.length;
  const summary = series
    .map((what) => `${labels[what].toLowerCase()} ${count(total(report, what))}`)
    .join(", ");
  return html`<ul class="legend">
      ${series.map((what) => html`<li><svg viewBox="0 0 12 12" aria-hidden="true"><rect class="${what}" width="12" height="12" rx="2" /></svg>${labels[what]} ${count(total(report, what))}</li>`)}
    </ul>
    <div class="chart">
      <div class="rows" aria-hidden="true">${scale.ticks.map((tick) => html`<span>${count(tick)}</span>`)}</div>
      <svg viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="chart-title" preserveAspectRatio="none">
        <title id="chart-title">Messages of the last 24 hours: ${summary}</title>
        ${[0, height / 2, height].map((y) => html`<line class="grid" x1="0" x2="${width}" y1="${y}" y2="${y}" vector-effect="non-scaling-stroke" />`)}
        ${hours.map((hour, index) => bars(hour, index * step, step, scale.max))}
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

/** A maximum with few digits, and the lines down from it. */
function niceScale(most: number): { readonly max: number; readonly ticks: readonly number[] } {
  const power = 10 ** Math.floor(Math.log10(most));
  const max = [1, 2, 4, 6, 8, 10].map((factor) => factor * power).find((one) => one >= most) ?? most;
  return { max, ticks: [max, max / 2, 0] };
}
