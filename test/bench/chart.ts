// The chart of the published report: a bar for the used part of each limit.

import type { Line } from "./report.ts";

const layout = { label: 430, bar: 320, row: 24, top: 40, text: 60 };
/** Bars end at this multiple of the goal. */
const most = 4;

const escape = (text: string): string =>
  text.replace(/[&<>]/g, (sign) => (sign === "&" ? "&amp;" : sign === "<" ? "&lt;" : "&gt;"));

/** An SVG of the lines that have a limit, in their order; the dashed line is the goal. It follows the colour scheme of the
 *  browser, also inside an <img>. */
export function chartOf(lines: readonly Line[]): string {
  const bars = lines.filter(({ used }) => used !== null);
  const { label, bar, row, top, text } = layout;
  const width = label + bar + text;
  const height = top + bars.length * row + 12;
  const at = (part: number) => label + (Math.min(part, most) / most) * bar;
  const rows = bars.map(({ name, used, verdict }, index) => {
    const y = top + index * row;
    const part = used ?? 0;
    const end = Math.max(label + 2, at(part));
    const shown = Number.isFinite(part) ? part.toFixed(part >= 10 ? 0 : 2) : "missed";
    return `<text x="${label - 10}" y="${y + 16}" text-anchor="end">${escape(name)}</text>
<rect x="${label}" y="${y + 4}" width="${(end - label).toFixed(1)}" height="${row - 8}" rx="2" class="${verdict === "ok" ? "met" : "missed"}"/>
<text x="${(end + 6).toFixed(1)}" y="${y + 16}">${shown}</text>`;
  });
  const ticks = [1, 2, 3, 4].map((part) => {
    const kind = part === 1 ? "goal" : "tick";
    return `<text x="${at(part)}" y="18" text-anchor="middle">${part === 1 ? "goal" : `x ${part}`}</text>
<line x1="${at(part)}" x2="${at(part)}" y1="24" y2="${height - 6}" class="${kind}"/>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="Used part of each limit; 1 is the goal">
<style>
text { font: 13px system-ui, sans-serif; fill: #24292f }
.met { fill: #2da44e } .missed { fill: #cf222e } .goal { stroke: #24292f; stroke-dasharray: 4 3 } .tick { stroke: #d0d7de }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .met { fill: #3fb950 } .missed { fill: #f85149 } .goal { stroke: #e6edf3 } .tick { stroke: #30363d } }
</style>
${ticks.join("\n")}
${rows.join("\n")}
</svg>
`;
}
