// What the pages of the console receive (the store, the daemon's live view, the session of a request) and share: the layout,
// forms with the CSRF token, redirects with a message, times. Texts are escaped by `html`; pages never use `raw`.

import { createHash } from "node:crypto";
import type { Traits } from "bridgehead/contract";
import type { Context, Hono } from "hono";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import { html } from "hono/html";
import type { HtmlEscapedString } from "hono/utils/html";
import type { ChannelReport } from "../channels/readiness.ts";
import type { Policy } from "../domain/policy.ts";
import type { Core, Query } from "../store/driver.ts";
import { assets } from "./assets/assets.ts";
import { csrfToken } from "./session.ts";

export interface ConsoleContext extends Omit<Core, "node"> {
  /** Runs an action in a transaction and starts the work that became due. Resolves when it is on disk. */
  commit<T>(write: (q: Query) => Promise<T>): Promise<T>;
  /** The channels that run on this node, in the configuration's order. */
  channels(): readonly ChannelReport[];
  /** The configuration file, which commands in pages name. Default: the one at the default place. */
  readonly config?: string;
  /** Problems and warnings of the store, such as a restored backup. */
  storeState(): Promise<StoreState>;
  /** Kind of a channel that can send now; null for others. */
  kindOf(channel: string): Traits["platform"] | null;
  /** Null when the configuration has no responders. */
  policy(): Policy | null;
}

export interface StoreState {
  /** Why the store cannot be written; null when it can. */
  readonly problem: string | null;
  readonly warnings: readonly string[];
}

/** The variables of a request, set before a page is called. */
export interface ConsoleEnv {
  readonly Variables: {
    session: string;
    /** The entries of the navigation. */
    pages: readonly ConsolePage[];
  };
}

export interface ConsolePage {
  /** Where the page is mounted: `/`, `/held`. */
  readonly path: string;
  /** Entry in the navigation; null for none. */
  readonly label: string | null;
  /** Creates the page's routes, relative to `path`. */
  create(context: ConsoleContext): Hono<ConsoleEnv>;
}

/** Escaped HTML. A promise when a part of it is one; `html` awaits it. */
export type Markup = HtmlEscapedString | Promise<HtmlEscapedString> | string;

export type PageRequest = Context<ConsoleEnv>;

const flashCookie = "bridgehead-flash";
/** Seconds for which a message waits for the page that shows it. */
const flashSeconds = 60;

/** Sent by the live updates: only the content of `main` is rendered. */
export const partHeader = "x-console-part";

export interface PageParts {
  readonly title: string;
  /** Content of `main`, including its `h1`. */
  readonly main: Markup;
  readonly status?: 200 | 400 | 404 | 409;
}

export async function page(context: PageRequest, { title, main, status = 200 }: PageParts): Promise<Response> {
  const content = await html`${main}`;
  if (context.req.header(partHeader) !== undefined) return context.html(content, status);
  const path = context.req.path;
  const active = (at: string) => (at === "/" ? path === "/" : path === at || path.startsWith(`${at}/`));
  const entries = (context.get("pages") ?? []).filter(({ label }) => label !== null);
  return context.html(
    shell(
      title,
      html`<a class="skip" href="#main">To the content</a>
        <header class="top">
          <a class="brand" href="/">Bridgehead</a>
          <nav aria-label="Pages">
            <ul>
              ${entries.map(
                ({ path: at, label }) =>
                  html`<li><a href="${at}" ${active(at) ? html`aria-current="page"` : ""}>${label}</a></li>`,
              )}
            </ul>
          </nav>
          <span id="live" role="status"></span>
          ${form(context, "/logout", html`<button class="quiet">Log out</button>`)}
        </header>
        ${flash(context)}
        <main id="main" tabindex="-1" ${status === 200 ? html`data-live="${mainHash(String(content))}"` : ""}>${content}</main>`,
    ),
    status,
  );
}

export const notFound = (context: PageRequest, text: Markup): Promise<Response> =>
  page(context, { title: "Not found", main: html`<h1>Not found</h1><p>${text}</p>`, status: 404 });

/** A list of labels with their values, without those that are null or empty. */
export const factList = (facts: readonly (readonly [label: string, value: Markup | null])[]): Markup =>
  html`<dl class="facts">${facts
    .filter(([, value]) => value !== null && value !== "")
    .map(([label, value]) => html`<dt>${label}</dt><dd>${value}</dd>`)}</dl>`;

/** Identifies the content of `main`, for the live updates. */
export const mainHash = (content: string): string => createHash("sha256").update(content).digest("hex").slice(0, 16);

/** The document around a page; also for the pages without a session. */
export const shell = (title: string, body: Markup): Markup =>
  html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
<meta name="color-scheme" content="light dark" />
<meta name="referrer" content="same-origin" />
<title>${title} - Bridgehead</title>
<link rel="icon" href="data:," />
<link rel="stylesheet" href="${assets.style.path}" />
<script src="${assets.script.path}" defer></script>
</head>
<body>
${body}
</body>
</html>
`;

/** Returns a POST form with the CSRF token. `action` is a path of the console. */
export const form = (context: PageRequest, action: string, content: Markup, className = ""): Markup =>
  html`<form method="post" action="${action}" class="${className}"><input type="hidden" name="csrf" value="${csrfToken(context.get("session"))}" />${content}</form>`;

/** The text of a form that was refused, to be copied: no page is cached, so the browser has lost it. */
export const unsentText = (text: unknown): Markup =>
  typeof text !== "string" || text.trim() === ""
    ? ""
    : html`<label class="field"><span>Your text was not sent. Copy it:</span><textarea readonly>${text}</textarea></label>`;

/** Most characters of a reason that an operator gives, and of a path to return to. */
export const mostReason = 200;
export const mostPath = 2000;

/** Returns the checked boxes of a list. */
export async function checkedIds(context: PageRequest): Promise<string[]> {
  const values = (await context.req.formData()).getAll("id");
  return values.filter((value) => typeof value === "string");
}

/** Returns a text field of the form that was sent: without carriage returns and NUL, trimmed, at most `most` characters.
 *  Empty when it is missing. */
export async function textField(context: PageRequest, name: string, most: number): Promise<string> {
  const value = (await context.req.formData()).get(name);
  if (typeof value !== "string") return "";
  return value.replaceAll("\r\n", "\n").replaceAll("\0", "").slice(0, most).toWellFormed().trim();
}

/** Redirects after an action to a page of the console, which shows `says` once. */
export function done(context: PageRequest, to: string, says: string, kind: "done" | "failed" = "done"): Response {
  setCookie(context, flashCookie, JSON.stringify({ says: says.slice(0, 600), kind }), {
    path: "/",
    httpOnly: true,
    sameSite: "Strict",
    maxAge: flashSeconds,
  });
  return context.redirect(localPath(to), 303);
}

export const localPath = (to: unknown): string =>
  typeof to === "string" && /^\/(?![/\\])[^\s\\]*$/.test(to) ? to : "/";

/** Path and query of this request: the target of a redirect back to it. */
export function here(context: PageRequest): string {
  const { pathname, search } = new URL(context.req.url);
  return pathname + search;
}

function flash(context: PageRequest): Markup {
  const stored = getCookie(context, flashCookie);
  if (stored === undefined) return "";
  deleteCookie(context, flashCookie, { path: "/" });
  try {
    const { says, kind } = JSON.parse(stored) as { says?: unknown; kind?: unknown };
    const failed = kind === "failed";
    return html`<p class="flash ${failed ? "bad" : "good"}" role="${failed ? "alert" : "status"}">${String(says)}</p>`;
  } catch {
    return "";
  }
}

/** A point in time, epoch milliseconds. UTC; the script shows it in the browser's time zone. */
export const when = (ms: number): Markup => {
  const iso = new Date(ms).toISOString();
  return html`<time datetime="${iso}" title="${iso}">${iso.slice(0, 16).replace("T", " ")} UTC</time>`;
};

/** Number with thousands separators. */
export const count = (value: number): string => value.toLocaleString("en");

export function withQuery(path: string, query: Readonly<Record<string, string | number | undefined>>): string {
  const set = new URLSearchParams();
  for (const [key, value] of Object.entries(query))
    if (value !== undefined && value !== "") set.set(key, String(value));
  return set.size === 0 ? path : `${path}?${set.toString()}`;
}
