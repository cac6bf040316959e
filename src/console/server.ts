// The routes of the web console: checks every request (host, session, origin, CSRF token) before a page sees it, and serves
// login, assets and live updates. Pages are in pages/.

import { mostFormFields } from "bridgehead/contract";
import { type Context, Hono, type MiddlewareHandler } from "hono";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import { html } from "hono/html";
import { streamSSE } from "hono/streaming";
import { isLoopback } from "../config/schema/values.ts";
import { isClientGone, readBody } from "../http/channel-route.ts";
import { assets } from "./assets/assets.ts";
import {
  type ConsoleContext,
  type ConsoleEnv,
  type ConsolePage,
  done,
  here,
  localPath,
  type Markup,
  mainHash,
  notFound,
  partHeader,
  shell,
  unsentText,
} from "./page.ts";
import { conversationsPage } from "./pages/conversations.ts";
import { escalationsPage } from "./pages/escalations.ts";
import { messagePage } from "./pages/message.ts";
import { overviewPage } from "./pages/overview.ts";
import { heldPage, refusedPage, waitingPage } from "./pages/worklists.ts";
import { deleteSession, extendSession } from "./rows.ts";
import { checkSession, isCsrfToken, useLoginLink } from "./session.ts";
import type { ConsoleOptions } from "./start.ts";

/** The pages in the order of the navigation. */
const standardPages: readonly ConsolePage[] = [
  { path: "/", label: "Overview", create: overviewPage },
  { path: "/waiting", label: "Waiting", create: waitingPage },
  { path: "/held", label: "Held", create: heldPage },
  { path: "/refused", label: "Refused", create: refusedPage },
  { path: "/conversations", label: "Conversations", create: conversationsPage },
  { path: "/messages", label: null, create: messagePage },
  { path: "/escalations", label: "Escalations", create: escalationsPage },
];

/** Largest form in bytes: 20,000 characters of any script, encoded. Forms are read before the session is known. */
const mostBytes = 2 ** 18;

export function createConsole({ context, publicUrl, pages: more = [] }: ConsoleOptions): Hono<ConsoleEnv> {
  const pages = [...standardPages, ...more];
  const app = new Hono<ConsoleEnv>();
  const publicAddress = publicUrl === undefined ? null : new URL(publicUrl);
  const guard = createGuard(context, publicAddress);
  app.use(securityHeaders);
  app.use(guard.host);
  app.get("/healthz", (c) => c.json({ status: "ok" }));
  for (const { path, type, text } of Object.values(assets))
    app.get(path, (c) => c.body(text, 200, { "content-type": type, "cache-control": forever }));
  app.use(limitForm);
  app.use(guard.origin);
  loginRoutes(app, context, guard);
  app.use(guard.session);
  app.use(async (c, next) => {
    c.set("pages", pages);
    await next();
  });
  app.post("/logout", async (c) => {
    await context.commit((q) => deleteSession(q, c.get("session")));
    deleteCookie(c, guard.cookie, { path: "/", secure: guard.secure });
    return c.html(gate("Logged out", html`<p>${howToLogIn}</p>`));
  });
  app.get("/live", createLive(app, context));
  for (const one of pages) app.route(one.path, one.create(context));
  app.notFound((c) => notFound(c, `There is no page ${c.req.path}.`));
  app.onError((error, c) => {
    // The path of a login link is a credential.
    const path = c.req.path.replace(/^(\/login\/).*/s, "$1...");
    if (!isClientGone(error)) context.log.error({ err: error, path }, "a request to the console failed");
    return refuse(c, 500, "This failed. The daemon's log has the reason.");
  });
  return app;
}

const forever = "public, max-age=31536000, immutable";

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "frame-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join("; ");

const standardHeaders: Readonly<Record<string, string>> = {
  "content-security-policy": policy,
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "same-origin",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "permissions-policy": "camera=(), geolocation=(), microphone=()",
  "x-robots-tag": "noindex, nofollow",
  "cache-control": "no-store",
};

/** Headers that a page has set itself take precedence. */
async function securityHeaders(c: Context, next: () => Promise<void>): Promise<void> {
  await next();
  for (const [name, value] of Object.entries(standardHeaders))
    if (!c.res.headers.has(name)) c.res.headers.set(name, value);
}

/** Number of fields of a form, at most one too high. They are counted before hono parses the form: the parser of Node.js takes
 *  quadratic time for fields without `=`. */
const fieldsIn = (body: Uint8Array): number =>
  body.reduce((count, byte) => (byte === ampersand ? count + 1 : count), 1);
const ampersand = 0x26;

/** Reads the form up to the limit, also from a proxy that does not announce its length. hono's own limit builds a `Request`
 *  from the one of the server then, which Node refuses. */
const limitForm: MiddlewareHandler = async (c, next) => {
  const { raw, method, url } = c.req;
  const body = await readBody(raw, mostBytes);
  if (body === null || fieldsIn(body) > mostFormFields) return refuse(c, 413, "This form is too large.");
  if (body.length > 0) c.req.raw = new Request(url, { method, headers: raw.headers, body });
  return next();
};

type Middleware = MiddlewareHandler<ConsoleEnv>;

/** The checks before every page. `publicAddress`: the proxy's URL. */
function createGuard(context: ConsoleContext, publicAddress: URL | null) {
  const secure = publicAddress?.protocol === "https:";
  const cookie = secure ? "__Host-bridgehead" : "bridgehead";
  /** Against DNS rebinding: a foreign name that resolves to this machine is refused. */
  const host: Middleware = async (c, next) => {
    const named = c.req.header("host") ?? "";
    if (publicAddress?.host !== named && !isLoopback(URL.parse(`http://${named}`)?.hostname ?? ""))
      return refuse(c, 403, "This name is not the console's. Set console.public_url for another name.");
    return next();
  };
  const origin: Middleware = async (c, next) => {
    if (isReading(c)) return next();
    const site = c.req.header("sec-fetch-site");
    const from = URL.parse(c.req.header("origin") ?? "");
    const own = from !== null && (from.host === c.req.header("host") || from.origin === publicAddress?.origin);
    if (!own || (site !== undefined && site !== "same-origin"))
      return refuse(c, 403, "This request did not come from the console.");
    return next();
  };
  const session: Middleware = async (c, next) => {
    const token = getCookie(c, cookie) ?? "";
    const state = await context.db.read((q) => checkSession(q, token, context.timing.console));
    if (state === "invalid") return c.html(gate("Log in", html`<p>${howToLogIn}</p>${await unsent(c)}`), 401);
    if (state === "stale") await context.commit((q) => extendSession(q, token, context.timing.console));
    if (!isReading(c) && !isCsrfToken(await csrfField(c), token))
      return refuse(c, 403, "This form is out of date: reload the page and try again.", await unsent(c));
    c.set("session", token);
    return next();
  };
  return { cookie, secure, host, origin, session };
}

/** Reads the field `csrf` of a form; null for a body that is not a form. The page reads the same parsed form again. */
const csrfField = (c: Context): Promise<unknown> =>
  c.req.formData().then(
    (fields) => fields.get("csrf"),
    () => null,
  );

const isReading = (c: Context): boolean => c.req.method === "GET" || c.req.method === "HEAD";

const howToLogIn = html`Run <code>bridgehead console</code> on the machine of the daemon, with its configuration. It prints a link that logs you in
  once, within ten minutes.`;

const gate = (title: string, content: Parameters<typeof shell>[1]) =>
  shell(title, html`<main class="gate"><div class="panel"><h1>${title}</h1>${content}</div></main>`);

const refuse = async (c: Context, status: 403 | 413 | 500, text: string, more: Markup = ""): Promise<Response> =>
  c.html(
    gate(status === 500 ? "Failed" : "Refused", html`<p>${text}</p>${more}<p><a href="/">To the overview</a></p>`),
    status,
  );

/** The texts of a refused form of the console. */
async function unsent(c: Context): Promise<Markup> {
  if (isReading(c)) return "";
  const fields = await c.req.formData().catch(() => null);
  return html`${["text", "reason"].map((name) => unsentText(fields?.get(name)))}`;
}

/** GET changes nothing, because mail scanners and browsers open links in advance. POST uses the link up. */
function loginRoutes(
  app: Hono<ConsoleEnv>,
  context: ConsoleContext,
  { cookie, secure }: ReturnType<typeof createGuard>,
): void {
  app.get("/login/:link", (c) =>
    c.html(
      gate(
        "Bridgehead console",
        html`<p>This link logs this browser in.</p><form method="post" action="${here(c)}"><button class="main" autofocus>Log in</button></form>`,
      ),
    ),
  );
  app.post("/login/:link", async (c) => {
    const token = await context.commit((q) => useLoginLink(q, c.req.param("link"), context.timing.console));
    if (token === null)
      return c.html(
        gate("This link does not work", html`<p>It was used before, or has expired. ${howToLogIn}</p>`),
        403,
      );
    const maxAge = Math.floor(context.timing.console.longest / 1000);
    setCookie(c, cookie, token, { path: "/", httpOnly: true, sameSite: "Strict", secure, maxAge });
    context.log.info({}, "an operator logged in to the console");
    return done(c, localPath(c.req.query("to")), "You are logged in.");
  });
}

/** The pause between two renderings is this many times as long as a rendering. */
const share = 20;

/** Streams of live updates that may be open at the same time. */
const mostStreams = 100;

/** Renders the page again at an interval, and sends the content of `main` when it differs from what the browser has. */
function createLive(app: Hono<ConsoleEnv>, context: ConsoleContext): (c: Context<ConsoleEnv>) => Response {
  let open = 0;
  return (c) => {
    if (c.req.header(partHeader) !== undefined) return c.text("this is no page\n", 400);
    if (open >= mostStreams) return c.text("too many live updates\n", 503);
    const path = localPath(c.req.query("page"));
    const headers = {
      cookie: c.req.header("cookie") ?? "",
      host: c.req.header("host") ?? "",
      [partHeader]: "main",
    };
    let seen = c.req.query("seen") ?? "";
    return streamSSE(c, async (stream) => {
      open += 1;
      const ended = new AbortController();
      stream.onAbort(() => ended.abort());
      try {
        while (!stream.aborted) {
          const began = context.clock.monotonic();
          const response = await app.request(path, { headers });
          if (response.status === 401) return await stream.writeSSE({ event: "gone", data: "" });
          if (!response.headers.get("content-type")?.startsWith("text/html")) return;
          const text = await response.text();
          const hash = mainHash(text);
          if (hash !== seen && response.ok) {
            seen = hash;
            await stream.writeSSE({ event: "main", data: text });
          }
          // A page that is expensive, because much waits, is rendered less often.
          const pause = Math.max(context.timing.console.refresh, share * (context.clock.monotonic() - began));
          await context.clock.sleep(pause, ended.signal);
        }
      } finally {
        open -= 1;
      }
    });
  };
}
