// Renders the timeline of a conversation: one part for each message of the customer, with a bar for every step on the
// time axis of its part.

import { html } from "hono/html";
import { durationText } from "../domain/duration-text.ts";
import type { History } from "../store/operators/history.ts";
import { type TimelineEntry, timelineOf } from "../store/operators/timeline.ts";
import { type Markup, when } from "./page.ts";

const barWidth = 240;

/** Steps that may come days later. They do not lengthen the time axis; their bar is at its end. */
const beside = new Set(["escalation", "notification", "action", "receipt"]);

/** Steps that belong together: a message and everything until the next one. */
interface Part {
  readonly entries: TimelineEntry[];
  readonly from: number;
  until: number;
}

/** Returns the timeline, the newest part first. */
export function timeline(history: History): Markup {
  const parts: Part[] = [];
  for (const entry of timelineOf(history)) {
    const last = parts.at(-1);
    const until = entry.at + (entry.duration ?? 0);
    if (last === undefined || entry.kind === "received") parts.push({ entries: [entry], from: entry.at, until });
    else {
      last.entries.push(entry);
      if (!beside.has(entry.kind)) last.until = Math.max(last.until, until);
    }
  }
  return html`${parts.reverse().map(
    (part) => html`<section class="panel flush" aria-label="${part.entries[0]?.title ?? ""}">
      <ol class="steps">${part.entries.map((entry) => step(entry, part))}</ol>
    </section>`,
  )}`;
}

const levels: ReadonlyMap<string, string> = new Map(
  Object.entries({
    bad: "failed held refused open",
    warn: "unknown deferred waiting queued asking sending running stored acknowledged",
    good: "answered sent delivered read routed composed",
  }).flatMap(([level, states]) => states.split(" ").map((state) => [state, level] as const)),
);

/** The level of a state for the classes of the stylesheet: `good`, `warn`, `bad`, `off`. */
export const levelOf = (state: string): string => levels.get(state) ?? "off";

const names: Readonly<Record<string, string>> = { routed: "accepted", composed: "ready", stored: "waiting" };

function step(entry: TimelineEntry, part: Part): Markup {
  const { at, duration, state, title, detail, text, ids, raw, kind } = entry;
  const folded = text !== null && kind === "question";
  return html`<li>
    <div class="at">${when(at)}${duration === null ? "" : html`<span class="muted">${durationText(duration)}</span>`}</div>
    <div class="what">
      <p><span class="badge ${levelOf(state)}">${names[state] ?? state}</span> <strong class="wrap">${title}</strong></p>
      ${bar(entry, part)}
      ${detail === null ? "" : html`<p class="wrap">${detail}</p>`}
      ${
        text === null || text === ""
          ? ""
          : folded
            ? html`<details id="t${at}-${ids[0]?.[1] ?? ""}"><summary>Request to the agent</summary><pre>${text}</pre></details>`
            : html`<pre>${text}</pre>`
      }
      ${raw === null ? "" : rawLinks(raw)}
      ${ids.length === 0 ? "" : html`<p class="muted wrap mono">${ids.map(([name, id]) => html`${name}: ${id} `)}</p>`}
    </div>
  </li>`;
}

/** The links to a message as it was received: the HTML part in a frame without scripts and network, and the download. */
export const rawLinks = (event: number): Markup => html`<div class="actions">
    <a class="button" href="/conversations/message/${event}/raw" download>Download the raw message</a>
    <details id="html-${event}"><summary>Show as HTML</summary>
      <iframe class="mail" sandbox="" loading="lazy" referrerpolicy="no-referrer" title="HTML of message ${event}" src="/conversations/message/${event}/html"></iframe>
    </details>
  </div>`;

/** A bar on the time axis of the part; at least visible, also for an instant. */
function bar({ at, duration, state }: TimelineEntry, { from, until }: Part): Markup {
  const scale = until > from ? barWidth / (until - from) : 0;
  const width = Math.min(barWidth, Math.max(3, (duration ?? 0) * scale));
  const left = Math.max(0, Math.min((at - from) * scale, barWidth - width));
  return html`<svg class="hop" viewBox="0 0 ${barWidth} 8" preserveAspectRatio="none" aria-hidden="true"><rect class="axis" width="${barWidth}" height="8" rx="2"></rect><rect class="${levelOf(state)}" x="${left.toFixed(1)}" width="${width.toFixed(1)}" height="8" rx="2"></rect></svg>`;
}
