// The views that the pages of messages and replies share: filters, groups with bulk actions, the table, paging.

import type { Context } from "hono";
import { html } from "hono/html";
import type { ListedGroup, ListedItem, ListFilter } from "../store/operators/worklists.ts";
import { mostCounted } from "../store/operators/worklists.ts";
import type { ItemAction, ItemKind } from "./actions.ts";
import type { ConsoleContext, ConsoleEnv } from "./context.ts";
import { count, form, here, type Markup, when, withQuery } from "./page.ts";

type ListRequest = Context<ConsoleEnv>;

const rowsOfPage = 50;

/** The filter of a request, from its query. One more row than is shown tells whether there are more. */
export function filterOf(c: ListRequest): ListFilter {
  const given = (name: string) => c.req.query(name) || undefined;
  return {
    channel: given("channel"),
    reason: given("reason"),
    text: given("q"),
    after: given("after"),
    limit: rowsOfPage + 1,
  };
}

export interface Tab {
  readonly kind: string;
  readonly label: string;
  /** Null when it is not counted. */
  readonly count: number | null;
}

/** Links to the lists of a page. The number of a list is not exact beyond `mostCounted`. */
export const tabsOf = (path: string, tabs: readonly Tab[], active: string): Markup =>
  html`<nav class="tabs" aria-label="Lists"><ul>${tabs.map(
    ({ kind, label, count: value }) =>
      html`<li><a href="${withQuery(path, { kind })}" ${kind === active ? html`aria-current="page"` : ""}>${label}${value === null ? "" : html` <span class="badge off">${about(value)}</span>`}</a></li>`,
  )}</ul></nav>`;

const about = (value: number): string => (value >= mostCounted ? `${count(mostCounted)}+` : count(value));

/** Sum of the groups' counts. */
export const sumOf = (groups: readonly ListedGroup[]): number =>
  groups.reduce((sum, one) => sum + one.count, 0);

/** The form that narrows a list down, by GET. */
export function filters(
  c: ListRequest,
  context: ConsoleContext,
  kind: string,
  groups: readonly ListedGroup[],
): Markup {
  const { channel, reason, text } = filterOf(c);
  const channels = [
    ...new Set([...context.channels().map(({ id }) => id), ...groups.map((one) => one.channel)]),
  ];
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

export interface Wording {
  /** Label of the action that continues an item: "Send again". */
  readonly release: string;
  /** Null where items cannot be dropped. */
  readonly drop: string | null;
}

/** The groups of a list, each with its actions on all items. `to`: the path of the actions. */
export function groupList(
  c: ListRequest,
  to: string,
  kind: ItemKind,
  groups: readonly ListedGroup[],
  wording: Wording,
): Markup {
  if (groups.length === 0) return "";
  return html`<section class="panel flush" aria-labelledby="by-reason">
    <h2 id="by-reason">By reason</h2>
    <ul class="reasons">
      ${groups.map((group, index) => groupEntry(c, to, kind, group, wording, index))}
    </ul>
  </section>`;
}

function groupEntry(
  c: ListRequest,
  to: string,
  kind: ItemKind,
  group: ListedGroup,
  wording: Wording,
  index: number,
): Markup {
  const all = group.count >= mostCounted ? "all" : `all ${count(group.count)}`;
  const link = withQuery(c.req.path, { kind, channel: group.channel, reason: group.group });
  const fields = (action: ItemAction["action"]) =>
    html`<input type="hidden" name="kind" value="${kind}" /><input type="hidden" name="group" value="${group.group}" /><input type="hidden" name="channel" value="${group.channel}" /><input type="hidden" name="action" value="${action}" /><input type="hidden" name="back" value="${here(c)}" />`;
  const what = group.group;
  return html`<li>
    <span class="what"><a href="${link}">${what}</a> <span class="muted">${group.channel}</span><span class="reason">${group.reason ?? ""}</span></span>
    <strong class="number">${about(group.count)}</strong>
    <span class="actions">
      ${form(c, to, html`${fields("release")}<button>${wording.release} ${all}<span class="hidden">: ${what}</span></button>`)}
      ${
        wording.drop === null
          ? ""
          : html`<details class="act" id="drop-group-${index}"><summary>${wording.drop} ${all}…<span class="hidden">: ${what}</span></summary>${form(
              c,
              to,
              html`${fields("drop")}${whyField}<button class="risk">${wording.drop} ${all}</button>`,
            )}</details>`
      }
    </span>
  </li>`;
}

const whyField = html`<label class="field"><span>Reason (stored with each item)</span><input type="text" name="why" maxlength="200" required /></label>`;

/** The table of a list, in a form with the actions on checked items. `wording`: null for a list without actions. */
export function itemTable(
  c: ListRequest,
  to: string,
  kind: string,
  items: readonly ListedItem[],
  wording: Wording | null,
): Markup {
  const shown = items.slice(0, rowsOfPage);
  if (shown.length === 0) return html`<section class="panel"><p class="empty">Nothing here.</p></section>`;
  const waits = shown.some(({ due }) => due !== null);
  const table = html`<div class="scroll" role="group" aria-label="List" tabindex="0"><table class="cards">
    <thead><tr>
      ${wording === null ? "" : html`<th scope="col" class="pick"><input type="checkbox" data-all hidden aria-label="Select all" /></th>`}
      <th scope="col">Person and subject</th><th scope="col">Reason</th><th scope="col">Channel</th><th scope="col">${waits ? "Arrived" : "Time"}</th>${waits ? html`<th scope="col">Due</th>` : ""}<th scope="col" class="number">Attempts</th>
    </tr></thead>
    <tbody>${shown.map((item) => itemRow(item, kind, wording !== null, waits))}</tbody>
  </table></div>`;
  if (wording === null) return html`<section class="panel flush">${table}</section>${pager(c, items)}`;
  return html`${form(
    c,
    to,
    html`<button disabled hidden>Enter does nothing</button><input type="hidden" name="kind" value="${kind}" /><input type="hidden" name="back" value="${here(c)}" />
      <section class="panel flush">${table}
        <div class="bar actions">
          <button name="action" value="release">${wording.release} selected</button>
          ${
            wording.drop === null
              ? ""
              : html`<details class="act" id="drop-selected"><summary>${wording.drop} selected…</summary><div class="actions"><label class="field"><span>Reason (stored with each item)</span><input type="text" name="why" maxlength="200" /></label><button class="risk" name="action" value="drop">${wording.drop} selected</button></div></details>`
          }
          <span data-chosen class="muted" role="status"></span>
        </div>
      </section>`,
  )}${pager(c, items)}`;
}

function itemRow(item: ListedItem, kind: string, picks: boolean, waits: boolean): Markup {
  const { id, person, subject, group, reason, channel, at, due, attempts, state } = item;
  const name = person === null || person === "" ? "unknown" : shownPerson(person);
  return html`<tr>
    ${picks ? html`<td class="pick"><input type="checkbox" name="id" value="${id}" aria-label="Select ${name}: ${subject ?? id}" /></td>` : ""}
    <th scope="row"><a href="${pathOf(item, kind)}">${name}</a><span class="muted wrap">${subject ?? ""}</span></th>
    <td data-label="Reason" class="wrap"><div>${group !== state || reason === null ? html`<span class="badge ${state === "failed" ? "bad" : "off"}">${group}</span>` : ""}
      ${reason ?? ""}</div></td>
    <td data-label="Channel">${channel}</td>
    <td data-label="${waits ? "Arrived" : "Time"}" class="nowrap">${when(at)}</td>
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

/** Masks the path of a webhook, because it often contains a secret key. */
function shownPerson(person: string): string {
  const url = URL.parse(person);
  return url?.protocol.startsWith("http") ? `${url.protocol}//${url.host}/...` : person;
}

function pager(c: ListRequest, items: readonly ListedItem[]): Markup {
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
