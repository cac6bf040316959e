// Messages that are never answered, each with its reason. An operator may have them answered all the same.

import { Hono } from "hono";
import { html } from "hono/html";
import { groupMessages, listMessages } from "../../store/operators/worklists.ts";
import { actOn } from "../actions.ts";
import type { ConsoleContext, ConsoleEnv } from "../context.ts";
import { checkedIds, count, done, mostPath, page, textField, withQuery } from "../page.ts";
import { filterOf, filters, itemTable } from "../worklist.ts";

export function refusedPage(context: ConsoleContext): Hono<ConsoleEnv> {
  const app = new Hono<ConsoleEnv>();
  app.get("/", async (c) => {
    const filter = filterOf(c);
    const { groups, items } = await context.db.read(async (q) => ({
      groups: await groupMessages(q, ["ignored"]),
      items: await listMessages(q, ["ignored"], filter),
    }));
    const byCode = Map.groupBy(groups, ({ group }) => group);
    const link = (code: string) =>
      withQuery("/refused", { kind: "messages", channel: filter.channel, reason: code });
    return page(c, {
      title: "Refused",
      main: html`<h1>Refused</h1>
        ${filters(c, context, "messages", groups)}
        <ul class="codes" aria-label="By reason">
          ${[...byCode].map(
            ([code, own]) =>
              html`<li><a class="badge off" href="${link(code)}" ${code === filter.reason ? html`aria-current="true"` : ""}>${code} ${count(own.reduce((sum, one) => sum + one.count, 0))}</a></li>`,
          )}
        </ul>
        ${itemTable(c, "/refused/act", "messages", items, { release: "Answer", drop: null })}`,
    });
  });
  app.post("/act", async (c) => {
    const ids = await checkedIds(c);
    const back = await textField(c, "back", mostPath);
    if (ids.length === 0) return done(c, back, "Nothing was selected.", "failed");
    const result = await actOn(context, { kind: "messages", action: "release", why: "" }, ids);
    context.log.info({ action: "release", ...result, why: undefined }, "an operator acted in the console");
    const says = `${count(result.done)} will be answered.${result.skipped > 0 ? ` ${count(result.skipped)} skipped: ${result.why ?? ""}` : ""}`;
    return done(c, back, says, result.skipped > 0 ? "failed" : "done");
  });
  return app;
}
