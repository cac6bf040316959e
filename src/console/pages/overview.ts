// The first page: the state of every channel, problems first.

import { Hono } from "hono";
import { html } from "hono/html";
import type { ConsoleContext, ConsoleEnv } from "../context.ts";
import { page } from "../page.ts";

export function overviewPage(context: ConsoleContext): Hono<ConsoleEnv> {
  const app = new Hono<ConsoleEnv>();
  app.get("/", async (c) => {
    const channels = context.channels();
    return page(c, {
      title: "Overview",
      main: html`<h1>Overview</h1>
        <ul>${channels.map(({ id, state }) => html`<li>${id}: ${state}</li>`)}</ul>`,
    });
  });
  return app;
}
