// The stylesheet and the script of the console, under paths with their hash.

import { createHash } from "node:crypto";
import { style } from "./style.ts";

const script = String.raw`"use strict";
(() => {
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const main = document.querySelector("main[data-live]");
const live = document.getElementById("live");

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const early = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric" });
const localize = (within) => {
  const now = new Date();
  for (const time of all("time[datetime]", within)) {
    const at = new Date(time.dateTime);
    const isToday = at.toDateString() === now.toDateString();
    time.textContent = (isToday ? clock : at.getFullYear() === now.getFullYear() ? day : early).format(at);
  }
};

const boxes = (table) => all("input[type=checkbox][name]", table);
const chosen = (table) => {
  const given = boxes(table);
  const checked = given.filter((box) => box.checked).length;
  for (const box of all("input[data-all]", table)) {
    box.checked = checked > 0 && checked === given.length;
    box.indeterminate = checked > 0 && checked < given.length;
  }
  for (const shown of all("[data-chosen]")) shown.textContent = checked > 0 ? checked + " selected" : "";
};
const prepare = (within) => {
  localize(within);
  for (const box of all("input[data-all]", within)) box.hidden = false;
};
prepare(document);
document.addEventListener("change", ({ target }) => {
  const table = target.closest && target.closest("table");
  if (!table) return;
  if (target.matches("[data-all]")) for (const box of boxes(table)) box.checked = target.checked;
  chosen(table);
});
document.addEventListener("change", ({ target }) => {
  if (target.matches && target.matches("select[data-submit]")) target.form.requestSubmit();
});

if (!main) return;

/* A change that the operator would lose: typed text, checked boxes, an open choice, a selection. */
const changed = (field) => {
  if (field.matches("[data-all]")) return false;
  if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
  if (field.tagName === "SELECT") return field === document.activeElement;
  return field.type !== "hidden" && field.value !== field.defaultValue;
};
const busy = () =>
  all("input, textarea, select", main).some(changed) ||
  (main.contains(document.activeElement) && document.activeElement.matches("input[type=text], input[type=search], textarea")) ||
  (!getSelection().isCollapsed && main.contains(getSelection().anchorNode));

const nameOf = (element) => {
  if (!element || !main.contains(element)) return null;
  if (element.id) return "#" + CSS.escape(element.id);
  const href = element.getAttribute("href");
  if (href) return "a[href=\"" + CSS.escape(href) + "\"]";
  const { form, name, value } = element;
  if (form && name) return "[name=\"" + CSS.escape(name) + "\"][value=\"" + CSS.escape(value || "") + "\"]";
  return element.tagName === "SUMMARY" && element.parentElement.id ? "#" + CSS.escape(element.parentElement.id) + " > summary" : null;
};

let next = null;
const apply = () => {
  if (next === null || busy()) return;
  const focused = nameOf(document.activeElement);
  const open = all("details[id][open]", main).map(({ id }) => id);
  main.replaceChildren(document.createRange().createContextualFragment(next));
  next = null;
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  prepare(main);
  if (focused) main.querySelector(focused)?.focus({ preventScroll: true });
};

let source = null;
const say = (text, state) => {
  if (!live) return;
  live.textContent = text;
  live.className = state;
};
const connect = () => {
  if (source || document.hidden) return;
  source = new EventSource("/live?page=" + encodeURIComponent(location.pathname + location.search) + "&seen=" + main.dataset.live);
  source.addEventListener("open", () => say("Live", "on"));
  source.addEventListener("main", ({ data }) => { next = data; apply(); });
  source.addEventListener("gone", () => {
    if (!busy()) return location.reload();
    disconnect();
    say("Logged out, your text is kept", "off");
  });
  source.addEventListener("error", () => say("Not connected", "off"));
};
const disconnect = () => { if (source) source.close(); source = null; };
document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
addEventListener("pagehide", disconnect);
addEventListener("pageshow", connect);
for (const type of ["focusout", "change", "selectionchange"]) document.addEventListener(type, () => queueMicrotask(apply));
connect();
})();
`;

interface Asset {
  readonly path: string;
  readonly type: string;
  readonly text: string;
}

function asset(name: string, type: string, text: string): Asset {
  const hash = createHash("sha256").update(text).digest("hex").slice(0, 12);
  return { path: `/assets/${hash}/${name}`, type, text };
}

export const assets = {
  style: asset("console.css", "text/css; charset=utf-8", style),
  script: asset("console.js", "text/javascript; charset=utf-8", script),
} as const;
