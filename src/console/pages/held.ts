// Messages and replies that wait for an operator: by reason, with bulk actions, and one by one.

import { Hono } from "hono";
import { html } from "hono/html";
import { groupMessages, groupReplies } from "../../store/operators/worklists.ts";
import { actOn, actOnGroup, type ItemAction, type ItemKind, listOf } from "../actions.ts";
import type { ConsoleContext, ConsoleEnv } from "../context.ts";
import { checkedIds, count, done, mostPath, mostReason, page, textField } from "../page.ts";
import { filterOf, filters, groupList, itemTable, sumOf, tabsOf, type Wording } from "../worklist.ts";

const wordings: Readonly<Record<ItemKind, Wording>> = {
  messages: { release: "Answer", drop: "Drop" },
  replies: { release: "Send", drop: "Drop" },
  failed: { release: "Send again", drop: "Drop" },
};

const kinds = ["replies", "messages", "failed"] as const;
const isKind = (value: unknown): value is ItemKind => kinds.some((kind) => kind === value);

export function heldPage(context: ConsoleContext): Hono<ConsoleEnv> {
  const app = new Hono<ConsoleEnv>();
  app.get("/", async (c) => {
    const groups = await context.db.read(async (q) => ({
      replies: await groupReplies(q, "held"),
      messages: await groupMessages(q, ["held", "failed"]),
      failed: await groupReplies(q, "failed"),
    }));
    const wanted = c.req.query("kind");
    const kind = isKind(wanted) ? wanted : (kinds.find((one) => groups[one].length > 0) ?? "replies");
    const filter = filterOf(c);
    const items = await context.db.read((q) => listOf(q, kind, filter));
    const shown = groups[kind].filter(
      ({ channel, group }) =>
        (filter.channel === undefined || channel === filter.channel) &&
        (filter.reason === undefined || group === filter.reason),
    );
    const tabs = [
      { kind: "replies", label: "Replies", count: sumOf(groups.replies) },
      { kind: "messages", label: "Messages", count: sumOf(groups.messages) },
      { kind: "failed", label: "Failed replies", count: sumOf(groups.failed) },
    ];
    return page(c, {
      title: "Held",
      main: html`<h1>Held</h1>
        ${tabsOf("/held", tabs, kind)} ${filters(c, context, kind, groups[kind])}
        ${groupList(c, "/held/act", kind, shown, wordings[kind])}
        ${itemTable(c, "/held/act", kind, items, wordings[kind])}`,
    });
  });
  app.post("/act", async (c) => {
    const [kind, back] = [await textField(c, "kind", mostPath), await textField(c, "back", mostPath)];
    const ids = await checkedIds(c);
    const group = await textField(c, "group", mostPath);
    if (!isKind(kind)) return done(c, "/held", "This list does not exist.", "failed");
    if (group === "" && ids.length === 0) return done(c, back, "Nothing was selected.", "failed");
    const action: ItemAction = {
      kind,
      action: (await textField(c, "action", mostPath)) === "drop" ? "drop" : "release",
      why: await textField(c, "why", mostReason),
    };
    const channel = await textField(c, "channel", mostPath);
    const result =
      group === ""
        ? await actOn(context, action, ids)
        : await actOnGroup(context, action, { channel, reason: group });
    const { done: changed, skipped, why } = result;
    context.log.info(
      { action: action.action, kind, done: changed, skipped },
      "an operator acted in the console",
    );
    const says = `${count(changed)} ${verb(action)}.${skipped > 0 ? ` ${count(skipped)} skipped: ${why ?? ""}` : ""}`;
    return done(c, back, says, skipped > 0 ? "failed" : "done");
  });
  return app;
}

const verb = ({ kind, action }: ItemAction): string =>
  action === "drop" ? "dropped" : kind === "messages" ? "will be answered" : "queued to be sent";
