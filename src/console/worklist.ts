// The views that the pages of messages and replies share: filters, groups with bulk actions, the table, paging.

import { html } from "hono/html";
import type { Repair } from "../store/operators/repair.ts";
import { shownAddress } from "../store/operators/timeline.ts";
import { type ListedGroup, type ListedItem, type ListFilter, mostCounted } from "../store/operators/worklists.ts";
import { type ConsoleContext, count, form, here, type Markup, type PageRequest, when, withQuery } from "./page.ts";

const rowsOfPage = 50;

/** The filter of a request, from its query. One more row than is shown tells whether there are more. */
export function filterOf(c: PageRequest): ListFilter {
  const given = (name: string) => c.req.query(name) || undefined;
  return {
    channel: given("channel"),
    reason: given("reason"),
    text: given("q"),
    after: given("after"),
    limit: rowsOfPage + 1,
  };
}

interface Tab {
  readonly list: { readonly kind: string; readonly label: string };
  /** Not exact beyond `mostCounted`. */
  readonly count: number;
}

export const tabsOf = (path: string, tabs: readonly Tab[], active: string): Markup =>
  html`<nav class="tabs" aria-label="Lists"><ul>${tabs.map(
    ({ list: { kind, label }, count: value }) =>
      html`<li><a href="${withQuery(path, { kind })}" ${kind === active ? html`aria-current="page"` : ""}>${label} <span class="badge off">${about(value)}</span></a></li>`,
  )}</ul></nav>`;

const about = (value: number): string => (value >= mostCounted ? `${count(mostCounted)}+` : count(value));

/** The form that narrows a list down, by GET. */
export function filters(c: PageRequest, context: ConsoleContext, kind: string, groups: readonly ListedGroup[]): Markup {
  const { channel, reason, text } = filterOf(c);
  const channels = [...new Set([...context.channels().map(({ id }) => id), ...groups.map((one) => one.channel)])];
  const reasons = [...new Set(groups.map(({ group }) => group))];
  const option = (value: string, label: string, chosen: boolean) =>
    html`<option value="${value}" ${chosen ? html`selected` : ""}>${label}</option>`;
  return html`<form class="filters" method="get" action="${c.req.path}" role="search">
    <input type="hidden" name="kind" value="${kind}" />
    <label><span>Channel</span><select name="channel">${option("", "All", channel === undefined)}${channels.map((id) => option(id, id, id === channel))}</select></label>
    ${
      reasons.length === 0 || reason !== undefined
        ? ""
        : html`<label><span>Sender or subject</span><input type="search" name="q" value="${text ?? ""}" maxlength="200" /></label>`
    }
    ${reason === undefined ? "" : html`<input type="hidden" name="reason" value="${reason}" />`}
    <button>Filter</button>
    ${channel === undefined && reason === undefined && text === undefined ? "" : html`<a href="${withQuery(c.req.path, { kind })}">Show all</a>`}
  </form>`;
}

/** What can be done with the items of a list. */
export interface ItemActions {
  readonly repair: Repair;
  /** Label of the repair: "Send again". */
  readonly label: string;
  /** Label of the repair of checked items. */
  readonly selected: string;
  /** Null where items cannot be dropped. */
  readonly drop: string | null;
  /** What became of repaired items: "queued to be sent". */
  readonly says: string;
}

/** The reasons of a list as links, without actions. */
export function codeList(
  path: string,
  kind: string,
  { channel, reason }: ListFilter,
  groups: readonly ListedGroup[],
): Markup {
  if (groups.length === 0) return "";
  const byCode = Map.groupBy(groups, ({ group }) => group);
  return html`<ul class="codes" aria-label="By reason">
    ${[...byCode].map(
      ([code, own]) =>
        html`<li><a class="badge off" href="${withQuery(path, { kind, channel, reason: code })}" ${code === reason ? html`aria-current="true"` : ""}>${code} ${count(own.reduce((sum, one) => sum + one.count, 0))}</a></li>`,
    )}
  </ul>`;
}

/** The reasons of a list, each with its actions on all items. `to`: the path of the actions. */
export function groupList(
  c: PageRequest,
  to: string,
  kind: string,
  groups: readonly ListedGroup[],
  { label, drop }: ItemActions,
): Markup {
  if (groups.length === 0) return "";
  const entry = ({ channel, group, reason, count: size }: ListedGroup, index: number) => {
    const all = size >= mostCounted ? "all" : `all ${count(size)}`;
    const fields = (action: "release" | "drop") =>
      html`${Object.entries({ kind, group, channel, action, back: here(c) }).map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`)}`;
    return html`<li>
      <span class="what"><a href="${withQuery(c.req.path, { kind, channel, reason: group })}">${group}</a> <span class="muted">${channel}</span><span class="reason">${reason ?? ""}</span></span>
      <strong class="number">${about(size)}</strong>
      <span class="actions">
        ${form(c, to, html`${fields("release")}<button>${label} ${all}<span class="hidden">: ${group}</span></button>`)}
        ${
          drop === null
            ? ""
            : html`<details class="act" id="drop-group-${index}"><summary>${drop} ${all}…<span class="hidden">: ${group}</span></summary>${form(
                c,
                to,
                html`${fields("drop")}${whyField(true)}<button class="risk">${drop} ${all}</button>`,
              )}</details>`
        }
      </span>
    </li>`;
  };
  return html`<section class="panel flush" aria-labelledby="by-reason">
    <h2 id="by-reason">By reason</h2>
    <ul class="reasons">${groups.map(entry)}</ul>
  </section>`;
}

/** The reason of a drop. Not required inside of a form with other actions. */
export const whyField = (required: boolean): Markup =>
  html`<label class="field"><span>Reason (stored with each item)</span><input type="text" name="why" maxlength="200" ${required ? html`required` : ""} /></label>`;

/** The table of a list, in a form with the actions on checked items. `actions`: null for a list without. */
export function itemTable(
  c: PageRequest,
  to: string,
  kind: string,
  items: readonly ListedItem[],
  actions: ItemActions | null,
): Markup {
  const shown = items.slice(0, rowsOfPage);
  if (shown.length === 0) return html`<section class="panel"><p class="empty">Nothing here.</p></section>`;
  const waits = shown.some(({ due }) => due !== null);
  const table = html`<div class="scroll" role="group" aria-label="List" tabindex="0"><table class="cards">
    <thead><tr>
      ${actions === null ? "" : html`<th scope="col" class="pick"><input type="checkbox" data-all hidden aria-label="Select all" /></th>`}
      <th scope="col">Person and subject</th><th scope="col">Reason</th><th scope="col">Channel</th><th scope="col">${waits ? "Since" : "Time"}</th>${waits ? html`<th scope="col">Due</th>` : ""}<th scope="col" class="number">Attempts</th>
    </tr></thead>
    <tbody>${shown.map((item) => itemRow(item, kind, actions !== null, waits))}</tbody>
  </table></div>`;
  if (actions === null) return html`<section class="panel flush">${table}</section>${pager(c, items)}`;
  const { selected, drop } = actions;
  return html`${form(
    c,
    to,
    html`<button disabled hidden>Enter does nothing</button><input type="hidden" name="kind" value="${kind}" /><input type="hidden" name="back" value="${here(c)}" />
      <section class="panel flush">${table}
        <div class="bar actions">
          <button name="action" value="release">${selected}</button>
          ${
            drop === null
              ? ""
              : html`<details class="act" id="drop-selected"><summary>${drop} selected…</summary><div class="actions">${whyField(false)}<button class="risk" name="action" value="drop">${drop} selected</button></div></details>`
          }
          <span data-chosen class="muted" role="status"></span>
        </div>
      </section>`,
  )}${pager(c, items)}`;
}

/** Adds a reason to items that wait without one: the pause of their channel, or their due time. */
export function explained(items: readonly ListedItem[], context: ConsoleContext): readonly ListedItem[] {
  const paused = new Set(context.channels().flatMap((one) => (one.paused === null ? [] : [one.id])));
  const now = context.clock.now();
  return items.map((item) => {
    if (item.due === null || item.reason !== null || !ordinary.has(item.group)) return item;
    const waits = item.due > now ? "waits until it is due" : "waits for its turn";
    return { ...item, reason: paused.has(item.channel) ? "its channel is paused" : waits };
  });
}

/** States that say no more than that an item waits. */
const ordinary: ReadonlySet<string> = new Set(["stored", "waiting", "queued"]);

function itemRow(item: ListedItem, kind: string, picks: boolean, waits: boolean): Markup {
  const { id, person, subject, group, reason, channel, at, due, attempts, state } = item;
  const name = person === null || person === "" ? "unknown" : shownAddress(person);
  const badge =
    ordinary.has(group) || (group === state && reason !== null)
      ? ""
      : html`<span class="badge ${state === "failed" ? "bad" : "off"}">${group}</span>`;
  return html`<tr>
    ${picks ? html`<td class="pick"><input type="checkbox" name="id" value="${id}" aria-label="Select ${name}: ${subject ?? id}" /></td>` : ""}
    <th scope="row"><a href="${pathOf(item, kind)}">${name}</a><span class="muted wrap">${subject ?? ""}</span></th>
    <td data-label="Reason" class="wrap"><div>${badge} ${reason ?? ""}</div></td>
    <td data-label="Channel" class="nowrap">${channel}</td>
    <td data-label="${waits ? "Since" : "Time"}" class="nowrap">${when(at)}</td>
    ${waits ? html`<td data-label="Due" class="nowrap">${due === null ? "" : when(due)}</td>` : ""}
    <td data-label="Attempts" class="number">${attempts}</td>
  </tr>`;
}

/** A message has a page of its own; replies and questions are part of a conversation. */
function pathOf({ id, conversation }: ListedItem, kind: string): string {
  return kind === "messages" || conversation === null
    ? `/messages/${id}`
    : `/conversations/${encodeURIComponent(conversation)}`;
}

function pager(c: PageRequest, items: readonly ListedItem[]): Markup {
  const last = items.length > rowsOfPage ? items[rowsOfPage - 1] : undefined;
  const isFirst = c.req.query("after") === undefined;
  if (isFirst && last === undefined) return "";
  const to = (after: string | null): string => {
    const query = new URL(c.req.url).searchParams;
    query.delete("after");
    if (after !== null) query.set("after", after);
    return `${c.req.path}?${query.toString()}`;
  };
  return html`<nav class="pager" aria-label="Pages of the list">
    ${isFirst ? html`<span></span>` : html`<a href="${to(null)}">First page</a>`}
    ${last === undefined ? html`<span></span>` : html`<a href="${to(last.position)}" rel="next">Older</a>`}
  </nav>`;
}
