// The pages Held, Refused and Waiting: lists of messages and replies with their reasons, and the actions on one, on checked
// ones, and on all of a reason. The store decides about each item, so an item that has changed since the page was loaded is
// skipped, and the operator reads why.

import { Hono } from "hono";
import { html } from "hono/html";
import type { Query } from "../../store/driver.ts";
import { type Box, type Repair, repair, type Selection } from "../../store/operators/repair.ts";
import {
  countWaiting,
  groupMessages,
  groupReplies,
  type ListedGroup,
  type ListedItem,
  type ListFilter,
  listMessages,
  listReplies,
  listWaiting,
  type MessageState,
  type ReplyState,
  type WaitingKind,
} from "../../store/operators/worklists.ts";
import {
  type ConsoleContext,
  type ConsoleEnv,
  checkedIds,
  count,
  done,
  mostPath,
  mostReason,
  type PageRequest,
  page,
  textField,
} from "../page.ts";
import { codeList, explained, filterOf, filters, groupList, type ItemActions, itemTable, tabsOf } from "../worklist.ts";

interface WorkList {
  readonly kind: string;
  readonly label: string;
  readonly box: Box;
  /** Null for a list without actions. */
  readonly actions: ItemActions | null;
  /** Limits the actions on all items of a reason. */
  readonly states: readonly string[];
  list(q: Query, filter: ListFilter): Promise<ListedItem[]>;
  /** Empty for a list without reasons. */
  groups(q: Query): Promise<ListedGroup[]>;
  /** The number of items that the tab shows. */
  count(q: Query, groups: readonly ListedGroup[]): Promise<number>;
}

const sumOf = async (_q: Query, groups: readonly ListedGroup[]): Promise<number> =>
  groups.reduce((sum, one) => sum + one.count, 0);

const messages = (states: readonly MessageState[], drop: string | null): WorkList => ({
  kind: "messages",
  label: "Messages",
  box: "inbox",
  actions: { repair: "retry", label: "Answer", selected: "Answer selected", drop, says: "will be answered" },
  states,
  list: (q, filter) => listMessages(q, states, filter),
  groups: (q) => groupMessages(q, states),
  count: sumOf,
});

const replies = (state: ReplyState, kind: string, label: string, button: string): WorkList => ({
  kind,
  label,
  box: "outbox",
  actions: {
    repair: "retry",
    label: button,
    selected: `${button} selected`,
    drop: "Drop",
    says: "queued to be sent",
  },
  states: [state],
  list: (q, filter) => listReplies(q, state, filter),
  groups: (q) => groupReplies(q, state),
  count: sumOf,
});

const waiting = (kind: WaitingKind, label: string, actions: ItemActions | null): WorkList => ({
  kind,
  label,
  box: "outbox",
  actions,
  states: ["queued"],
  list: (q, filter) => listWaiting(q, kind, filter),
  groups: async () => [],
  count: (q) => countWaiting(q, kind),
});

interface WorkPage {
  readonly path: string;
  readonly title: string;
  readonly lists: readonly [WorkList, ...WorkList[]];
  /** True when the actions are offered for all items of a reason. */
  readonly isBulk: boolean;
}

/** Messages and replies that wait for an operator. */
export const heldPage = workPage({
  path: "/held",
  title: "Held",
  isBulk: true,
  lists: [
    replies("held", "replies", "Replies", "Send"),
    messages(["held", "failed"], "Drop"),
    replies("failed", "failed", "Failed replies", "Send again"),
  ],
});

/** Messages that are never answered, unless an operator decides otherwise. */
export const refusedPage = workPage({
  path: "/refused",
  title: "Refused",
  isBulk: false,
  lists: [messages(["ignored"], null)],
});

/** What the daemon does next without an operator. */
export const waitingPage = workPage({
  path: "/waiting",
  title: "Waiting",
  isBulk: false,
  lists: [
    waiting("messages", "Messages", null),
    waiting("questions", "Questions to the agent", null),
    waiting("replies", "Replies", {
      repair: "send-now",
      label: "Send now",
      selected: "Send selected now",
      drop: "Drop",
      says: "will be sent now",
    }),
  ],
});

function workPage(work: WorkPage): (context: ConsoleContext) => Hono<ConsoleEnv> {
  return (context) => {
    const app = new Hono<ConsoleEnv>();
    app.get("/", (c) => show(c, context, work));
    app.post("/act", (c) => act(c, context, work));
    return app;
  };
}

async function show(c: PageRequest, context: ConsoleContext, work: WorkPage): Promise<Response> {
  const { path, title, lists, isBulk } = work;
  const filter = filterOf(c);
  const counted = await context.db.read(async (q) => {
    const found = [];
    for (const list of lists) {
      const groups = await list.groups(q);
      found.push({ list, groups, count: await list.count(q, groups) });
    }
    return found;
  });
  const wanted = c.req.query("kind");
  const chosen = counted.find(({ list }) => list.kind === wanted) ?? counted.find((one) => one.count > 0) ?? counted[0];
  const { list, groups } = chosen ?? { list: lists[0], groups: [] };
  const items = explained(await context.db.read((q) => list.list(q, filter)), context);
  const shown = groups.filter(
    ({ channel, group }) =>
      (filter.channel === undefined || channel === filter.channel) &&
      (filter.reason === undefined || group === filter.reason),
  );
  const to = `${path}/act`;
  return page(c, {
    title,
    main: html`<h1>${title}</h1>
      ${lists.length > 1 ? tabsOf(path, counted, list.kind) : ""} ${filters(c, context, list.kind, groups)}
      ${isBulk && list.actions ? groupList(c, to, list.kind, shown, list.actions) : codeList(path, list.kind, filter, groups)}
      ${itemTable(c, to, list.kind, items, list.actions)}`,
  });
}

async function act(c: PageRequest, context: ConsoleContext, work: WorkPage): Promise<Response> {
  const field = (name: string) => textField(c, name, mostPath);
  const [kind, back, code, channel] = [
    await field("kind"),
    await field("back"),
    await field("group"),
    await field("channel"),
  ];
  const list = work.lists.find((one) => one.kind === kind);
  const ids = await checkedIds(c);
  if (!list?.actions) return done(c, work.path, "This list does not exist.", "failed");
  if (code === "" && ids.length === 0) return done(c, back, "Nothing was selected.", "failed");
  const isDropped = (await field("action")) === "drop" && list.actions.drop !== null;
  const { says, problem } = await repairItems(
    context,
    list.box,
    isDropped ? "drop" : list.actions.repair,
    code === "" ? { ids } : { states: list.states, code, channel },
    await textField(c, "why", mostReason),
    isDropped ? "dropped" : list.actions.says,
  );
  return done(c, back, says, problem === null ? "done" : "failed");
}

/** The operator that the history of a message names. */
export const actor = "the web console";

/** Changes the items, and returns what the operator reads. `problem`: why the first of the skipped items was skipped. */
export async function repairItems(
  context: ConsoleContext,
  box: Box,
  action: Repair,
  selection: Selection,
  reason: string,
  verb: string,
): Promise<{ readonly says: string; readonly problem: string | null }> {
  const { changed, skipped } = await repair(context, box, action, selection, { actor, reason });
  context.log.info({ box, action, changed, skipped: skipped.length }, "an operator acted in the console");
  const problem = skipped[0]?.why ?? null;
  const rest = problem === null ? "" : ` ${count(skipped.length)} skipped: ${problem}`;
  return { says: `${count(changed)} ${verb}.${rest}`, problem };
}
