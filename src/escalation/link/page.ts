// The HTML page of a link in a notification, and the link itself: its URL carries a token, the store has the
// token's hash. The page has forms and no scripts, and loads nothing.

import { createHash } from "node:crypto";
import { html, raw } from "hono/html";
import type { ActionName } from "../../domain/policy.ts";
import type { PageContent, ShownMessage } from "./decide.ts";

const style = `:root{color-scheme:light dark;--line:color-mix(in srgb,CanvasText 22%,Canvas);--soft:color-mix(in srgb,CanvasText 6%,Canvas);--dim:color-mix(in srgb,CanvasText 72%,Canvas)}
*{box-sizing:border-box}
body{margin:0;padding:1rem;font:1rem/1.5 system-ui,sans-serif;background:Canvas;color:CanvasText}
main{max-width:40rem;margin:0 auto}
h1{font-size:1.4rem;line-height:1.25;margin:0 0 .75rem}
h2{font-size:1.05rem;margin:0 0 .5rem;padding-top:1.5rem}
.status{margin:0 0 1rem;padding:.6rem .8rem;border-left:.3rem solid #b45309;background:var(--soft)}
.acknowledged{border-color:#0b5cad}
.closed{border-color:#2e7d32}
.result{margin:0 0 1rem;padding:.6rem .8rem;border:2px solid #0b5cad;border-radius:.4rem}
dl{display:grid;grid-template-columns:minmax(5.5rem,max-content) 1fr;gap:.3rem .9rem;margin:0}
dt{color:var(--dim)}
dd{margin:0;overflow-wrap:anywhere;unicode-bidi:isolate}
ul,ol{list-style:none;margin:0;padding:0}
li{margin:0 0 .6rem;overflow-wrap:anywhere;unicode-bidi:isolate}
.said{padding:.5rem .8rem;border:1px solid var(--line);border-radius:.6rem}
.person{background:var(--soft)}
.said p{margin:0;white-space:pre-wrap;unicode-bidi:plaintext}
.said .by{font-size:.85rem;color:var(--dim)}
form{margin:0 0 1rem}
label{display:block;margin:0 0 .3rem;font-weight:600}
textarea,input{width:100%;font:inherit;padding:.5rem;border:1px solid var(--dim);border-radius:.4rem;background:Canvas;color:CanvasText}
textarea{min-height:7rem}
input{margin-bottom:.6rem}
button{width:100%;min-height:3rem;margin-top:.4rem;font:inherit;font-weight:600;border:2px solid #0b5cad;border-radius:.5rem;background:#0b5cad;color:#fff}
button.second{background:Canvas;color:CanvasText;border-color:var(--dim)}
summary{min-height:2.75rem;padding:.6rem 0;cursor:pointer}
.hint{margin:.3rem 0;font-size:.9rem;color:var(--dim)}
:focus-visible{outline:3px solid Highlight;outline-offset:2px}`;

const styleHash = createHash("sha256").update(style).digest("base64");

/** Forbids loading, scripts, frames and foreign form targets, and keeps the page out of caches, search
 *  indexes and Referer headers. */
const headers = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": `default-src 'none'; style-src 'sha256-${styleHash}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`,
  "referrer-policy": "no-referrer",
  "x-robots-tag": "noindex, nofollow, noarchive",
  "x-content-type-options": "nosniff",
  "cache-control": "no-store",
  "cross-origin-opener-policy": "same-origin",
};

type PageHtml = ReturnType<typeof html>;

/** What the responder has just done. `text`: kept, because it was not accepted: in the form, or to be copied where the form is
 *  not offered any more. */
export interface LinkResult {
  readonly says: string;
  readonly action: ActionName | null;
  readonly text: string;
  readonly name: string;
  /** The text may be repeated. */
  readonly repeated: boolean;
}

export async function pageResponse(status: number, content: PageContent, result: LinkResult | null): Promise<Response> {
  const { title, state, facts, details, messages, notes, notified } = content;
  return respond(
    status,
    title,
    html`<h1>${title}</h1>
${result === null ? "" : html`<p class="result" role="status">${capital(result.says)}.</p>`}
${result?.action && !content.actions.has(result.action) ? unsent(result.text) : ""}
<p class="status ${state}">${content.status}</p>
${content.actions.has("ack") ? form(content, "ack", result) : ""}
<h2>What it is about</h2>
${factList(facts)}
${messages.length === 0 ? "" : html`<h2>Conversation</h2>${conversation(content)}`}
${notes.length === 0 ? "" : html`<h2>Notes</h2><ul>${notes.map((note) => html`<li>${visible(note)}</li>`)}</ul>`}
${actions(content, result)}
<h2>Details</h2>
${factList(details)}
${notified.length === 0 ? "" : html`<h2>Notified</h2><ul>${notified.map((one) => html`<li>${visible(one)}</li>`)}</ul>`}`,
  );
}

const factList = (facts: PageContent["facts"]): PageHtml =>
  html`<dl>${facts.map(([label, value]) => html`<dt>${label}</dt><dd>${visible(value)}</dd>`)}</dl>`;

/** The response for every invalid link, independent of the reason. `text`: what a form was to send. */
export const invalidLink = (text = ""): Promise<Response> =>
  respond(
    404,
    "This link is not valid",
    html`<h1>This link is not valid</h1>
<p>It has expired, or a newer notification has replaced it. The newest notification of the escalation has a link that works.</p>
${unsent(text)}`,
  );

/** The text of a form that was not accepted, to be copied: no page is cached, so the browser has lost it. */
const unsent = (text: string): PageHtml =>
  text === ""
    ? html``
    : html`<label for="unsent">Your text was not sent. Copy it:</label><textarea id="unsent" readonly>${text}</textarea>`;

async function respond(status: number, title: string, body: PageHtml): Promise<Response> {
  const text = await html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex, nofollow">
<meta name="referrer" content="no-referrer">
<title>${title}</title>
<style>${raw(style)}</style>
</head>
<body>
<main>
${body}
</main>
</body>
</html>
`;
  return new Response(String(text), { status, headers });
}

/** Number of messages that are shown without a click. */
const fewMessages = 6;

function conversation({ messages, isCut }: PageContent): PageHtml {
  const [earlier, newest] = [messages.slice(0, -fewMessages), messages.slice(-fewMessages)];
  return html`${isCut ? html`<p class="hint">Earlier messages are not shown here.</p>` : ""}
${earlier.length === 0 ? "" : html`<details><summary>Earlier messages (${earlier.length})</summary>${messageList(earlier)}</details>`}
${messageList(newest)}`;
}

const messageList = (messages: readonly ShownMessage[]): PageHtml =>
  html`<ol>${messages.map(
    ({ who, side, at, text }) =>
      html`<li class="said ${side}"><p class="by">${visible(who)}, ${at}</p><p dir="auto">${visible(text)}</p></li>`,
  )}</ol>`;

function actions(content: PageContent, result: LinkResult | null): PageHtml {
  const offered = (...names: ActionName[]) => names.filter((name) => content.actions.has(name));
  const ends = offered("resume", "close");
  return html`${
    content.whyNotReplied === null
      ? ""
      : html`<p class="hint">A reply to the customer is not possible here: ${visible(content.whyNotReplied)}.</p>`
  }
${offered("reply", "note").map((name) => html`<h2>${texts[name].title}</h2>${form(content, name, result)}`)}
${
  ends.length === 0
    ? ""
    : html`<details><summary>End the escalation</summary>${ends.map((name) => form(content, name, result))}</details>`
}`;
}

const texts: Readonly<Record<ActionName, { title: string; button: string; label: string; hint: string }>> = {
  ack: { title: "", button: "Acknowledge", label: "", hint: "" },
  reply: {
    title: "Reply to the customer",
    button: "Send to the customer",
    label: "Text for the customer",
    hint: "Sent in the customer's conversation, under the name and with the signature of the agent.",
  },
  note: {
    title: "Note",
    button: "Keep the note",
    label: "Text for the responders",
    hint: "The customer does not see it.",
  },
  resume: {
    title: "",
    button: "Return to the agent",
    label: "",
    hint: "Closes the escalation; the agent answers the customer again.",
  },
  close: {
    title: "",
    button: "Close",
    label: "",
    hint: "Closes the escalation; the agent stays silent if it was silenced, and the next message of the customer is a new escalation.",
  },
};

function form({ asksName }: PageContent, action: ActionName, result: LinkResult | null): PageHtml {
  const { button, label, hint } = texts[action];
  const own = result?.action === action ? result : null;
  const primary = action === "ack" || action === "reply";
  const name = `name-${action}`;
  return html`<form method="post">
<input type="hidden" name="action" value="${action}">
${
  label === ""
    ? ""
    : html`<label for="${action}">${label}</label>
<textarea id="${action}" name="text" required maxlength="${longestText}" dir="auto">${own?.text ?? ""}</textarea>`
}
${
  asksName
    ? html`<label for="${name}">Your name</label><input id="${name}" name="by" maxlength="${longestName}" autocomplete="name" value="${result?.name ?? ""}">`
    : ""
}
<button type="submit"${primary ? "" : raw(' class="second"')}>${button}</button>
${own?.repeated ? html`<button type="submit" name="again" value="yes" class="second">Repeat it</button>` : ""}
${hint === "" ? "" : html`<p class="hint">${hint}</p>`}
</form>`;
}

/** Limits of the forms' fields in characters. */
export const longestText = 20_000;
export const longestName = 100;

const capital = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1);

/** Removes control characters, including those that change the text direction. Keeps line ends and tabs. */
const visible = (text: string): string =>
  text
    .replace(/\r\n?|[\u2028\u2029\u0085]/gu, "\n")
    .replace(/[^\P{Cc}\n\t]/gu, "")
    .replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, "");

/** Path prefix at the listener. */
export const linkPath = "/escalations";

/** Returns the URL of a token; null without a public URL, because the link could not be opened. */
export const linkTo = (publicUrl: string | undefined, token: string): string | null =>
  publicUrl === undefined ? null : `${publicUrl}${linkPath}/${token}`;

/** Returns the stored form of a token. */
export const hashOf = (token: string): string => createHash("sha256").update(token).digest("hex");
