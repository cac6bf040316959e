// What the daemon has yet to do by itself: stored messages, questions, replies with their due time.

import { Hono } from "hono";
import { html } from "hono/html";
import { listWaiting } from "../../store/operators/worklists.ts";
import type { ConsoleContext, ConsoleEnv } from "../context.ts";
import { page } from "../page.ts";
import { filterOf, filters, itemTable, tabsOf } from "../worklist.ts";

const kinds = ["messages", "questions", "replies"] as const;
type WaitingKind = (typeof kinds)[number];

const labels: Readonly<Record<WaitingKind, string>> = {
  messages: "Messages",
  questions: "Questions to the agent",
  replies: "Replies",
};

export function waitingPage(context: ConsoleContext): Hono<ConsoleEnv> {
  const app = new Hono<ConsoleEnv>();
  app.get("/", async (c) => {
    const filter = filterOf(c);
    const lists = await context.db.read(async (q) => ({
      messages: await listWaiting(q, "messages", filter),
      questions: await listWaiting(q, "questions", filter),
      replies: await listWaiting(q, "replies", filter),
    }));
    const wanted = c.req.query("kind");
    const kind =
      kinds.find((one) => one === wanted) ?? kinds.find((one) => lists[one].length > 0) ?? "messages";
    const tabs = kinds.map((one) => ({ kind: one, label: labels[one], count: lists[one].length }));
    return page(c, {
      title: "Waiting",
      main: html`<h1>Waiting</h1>
        ${tabsOf("/waiting", tabs, kind)} ${filters(c, context, kind, [])}
        ${itemTable(c, "", kind, lists[kind], null)}`,
    });
  });
  return app;
}
