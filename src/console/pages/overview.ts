// The first page: what needs attention, the state of every channel with problems first, open escalations, and the last 24
// hours.

import { Hono } from "hono";
import { html } from "hono/html";
import { duration } from "../../config/schema/values.ts";
import type { Query } from "../../store/driver.ts";
import { pause, resume } from "../../store/operators/channels.ts";
import { overview } from "../../store/operators/overview.ts";
import { type UnclosedEscalations, unclosedEscalations } from "../../store/tables/escalations.ts";
import { type ChannelPause, channelPauses, everyChannel } from "../../store/tables/pauses.ts";
import { type ChannelRow, channelTable, pauseOfAll, rowsOf } from "../channels.ts";
import { Activity, type ActivityReport, activityChart, total } from "../chart.ts";
import {
  type ConsoleContext,
  type ConsoleEnv,
  count,
  done,
  type Markup,
  mostPath,
  mostReason,
  page,
  type StoreState,
  textField,
  when,
} from "../page.ts";

const mostEscalations = 10;

export function overviewPage(context: ConsoleContext): Hono<ConsoleEnv> {
  const app = new Hono<ConsoleEnv>();
  const activity = new Activity(context);
  app.get("/", async (c) => {
    const { channels, escalations, pauses } = await context.db.read(load);
    const report = await activity.read();
    const state = await context.storeState();
    const rows = rowsOf(context, channels, pauses, report);
    const all = pauseOfAll(pauses);
    return page(c, {
      title: "Overview",
      main: html`<h1>Overview</h1>
        ${notices(state, rows, escalations, all)} ${tiles(rows, escalations, report)}
        ${channelTable(c, rows, all, context.clock.now())} ${escalationList(escalations)}
        <section class="panel" aria-labelledby="activity">
          <h2 id="activity">Last 24 hours</h2>
          ${activityChart(report)}
        </section>`,
    });
  });
  app.post("/channels/pause", async (c) => {
    const channel = await textField(c, "channel", mostPath);
    const time = duration.safeParse(await textField(c, "time", mostPath));
    const reason = (await textField(c, "reason", mostReason)) || "no reason given";
    if (!isKnown(context, channel)) return done(c, "/", "There is no such channel.", "failed");
    await pause(context.db, { channel, reason, forMs: time.success ? time.data : null });
    context.log.info({ channel }, "an operator paused a channel in the console");
    return done(
      c,
      "/",
      `${nameOf(channel)} paused. Messages are received and stored, and nothing is asked or sent to customers.`,
    );
  });
  app.post("/channels/resume", async (c) => {
    const channel = await textField(c, "channel", mostPath);
    if (!isKnown(context, channel)) return done(c, "/", "There is no such channel.", "failed");
    const { ended } = await resume(context.db, channel);
    context.log.info({ channel }, "an operator resumed a channel in the console");
    return done(c, "/", ended === null ? `${nameOf(channel)} not paused.` : `${nameOf(channel)} resumed.`);
  });
  return app;
}

const isKnown = (context: ConsoleContext, channel: string): boolean =>
  channel === everyChannel || context.channels().some(({ id }) => id === channel);

const nameOf = (channel: string): string => (channel === everyChannel ? "All channels are" : `Channel ${channel} is`);

async function load(q: Query) {
  return {
    channels: await overview(q),
    escalations: await unclosedEscalations(q, mostEscalations),
    pauses: await channelPauses(q),
  };
}

/** What needs an operator, the most urgent first. Empty when nothing does. */
function notices(
  { problem, warnings }: StoreState,
  rows: readonly ChannelRow[],
  escalations: UnclosedEscalations,
  all: ChannelPause | null,
): Markup {
  const broken = rows.filter(({ level }) => level === "bad");
  const found: (readonly [level: "bad" | "warn", content: Markup])[] = [];
  if (problem !== null) found.push(["bad", html`The store ${problem}.`]);
  if (escalations.open > 0)
    found.push([
      "bad",
      html`${plural(escalations.open, "escalation")} without a responder. <a href="/escalations">Show</a>`,
    ]);
  if (broken.length > 0)
    found.push([
      "bad",
      html`${plural(broken.length, "channel")} not working: ${broken.map(({ id }) => id).join(", ")}.`,
    ]);
  if (all !== null) found.push(["warn", html`All channels are paused since ${when(all.since)}: ${all.reason}`]);
  for (const text of warnings) found.push(["warn", html`${text}. <a href="/held">Show held</a>`]);
  if (found.length === 0) return "";
  return html`<ul class="notices" aria-label="Problems">
    ${found.map(([level, content]) => html`<li class="${level}">${content}</li>`)}
  </ul>`;
}

const plural = (value: number, noun: string): string => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

function tiles(rows: readonly ChannelRow[], escalations: UnclosedEscalations, report: ActivityReport): Markup {
  const sum = (what: "waiting" | "held") => rows.reduce((all, row) => all + row[what], 0);
  const held = sum("held");
  const unclosed = escalations.open + escalations.acknowledged;
  return html`<ul class="stats">
    <li class="${held > 0 ? "watch" : ""}"><a href="/held"><strong>${count(held)}</strong> held</a></li>
    <li><a href="/waiting"><strong>${count(sum("waiting"))}</strong> waiting</a></li>
    <li class="${escalations.open > 0 ? "alarm" : ""}"><a href="/escalations"><strong>${count(unclosed)}</strong> escalations</a></li>
    <li><a href="/conversations"><strong>${count(total(report, "received"))}</strong> received in 24 h</a></li>
    <li><a href="/refused"><strong>${count(total(report, "refused"))}</strong> refused in 24 h</a></li>
  </ul>`;
}

function escalationList({ rows, open, acknowledged }: UnclosedEscalations): Markup {
  if (rows.length === 0) return "";
  return html`<section class="panel flush" aria-labelledby="escalations">
    <h2 id="escalations">Open escalations</h2>
    <ul class="reasons">
      ${rows.map(
        ({ number, state, reason, channel, opened_at, acknowledged_by }) =>
          html`<li>
            <span class="badge ${state === "open" ? "bad" : "warn"}">${state === "open" ? "nobody yet" : (acknowledged_by ?? "acknowledged")}</span>
            <span class="what"><a href="/escalations/${number}">${number}</a> ${reason}
              <span class="muted">${channel}, since ${when(opened_at)}</span></span>
          </li>`,
      )}
    </ul>
    ${open + acknowledged > rows.length ? html`<p class="bar"><a href="/escalations">All ${count(open + acknowledged)}</a></p>` : ""}
  </section>`;
}
