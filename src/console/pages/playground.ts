// The playground of the demo: mails, texts and calls as the customer, answers as the responder, and the stages that each
// message passes. Exists in the demo only, which passes the page to `startConsole`.

import { Hono } from "hono";
import { html } from "hono/html";
import type { Playground, PlaygroundMessage } from "../../sandbox/playground.ts";
import { type MessageStages, type PassedStage, stagesOf } from "../../store/operators/stages.ts";
import {
  type ConsoleContext,
  type ConsoleEnv,
  type ConsolePage,
  done,
  form,
  type Markup,
  type PageRequest,
  page,
  textField,
  when,
} from "../page.ts";

type PlaygroundMode = "mail" | "text" | "call" | "responder";

/** Addresses with which the forms start. */
export interface PlaygroundAddresses {
  readonly mail: string;
  readonly number: string;
}

export const playgroundPage = (playground: Playground, standard: PlaygroundAddresses): ConsolePage => ({
  path: "/playground",
  label: "Playground",
  create(context) {
    const app = new Hono<ConsoleEnv>();
    app.get("/", (c) => show(c, context, playground, standard));
    app.post("/mail", (c) => writeMail(c, playground));
    app.post("/text", (c) => writeText(c, playground));
    app.post("/call", (c) => call(c, playground));
    app.post("/respond", (c) => respond(c, playground));
    return app;
  },
});

/** Limit of messages on the page; each costs a few statements. */
const mostMessages = 30;
const longestText = 20_000;

const field = (c: PageRequest, name: string): Promise<string> => textField(c, name, longestText);

async function show(
  c: PageRequest,
  context: ConsoleContext,
  playground: Playground,
  standard: PlaygroundAddresses,
): Promise<Response> {
  const as = c.req.query("as") ?? "";
  const mode: PlaygroundMode = as === "text" || as === "call" || as === "responder" ? as : "mail";
  const messages = playground.messages.slice(-mostMessages).toReversed();
  const stages = await stagesByMessage(context, messages);
  return page(c, {
    title: "Playground",
    main: html`<div class="head"><h1>Playground</h1><span class="muted">Nothing here leaves this machine.</span></div>
      <div class="split">
        <div>
          <section class="panel" aria-labelledby="write">
            <h2 id="write">Write</h2>
            ${modes(mode)} ${forms[mode](c, playground, standard)}
          </section>
          ${faults(playground)}
        </div>
        <section aria-labelledby="messages">
          <h2 id="messages">Messages, newest first</h2>
          ${
            messages.length === 0
              ? html`<p class="panel empty">Write the first message.</p>`
              : html`<ol class="said">${messages.map((one) => messageItem(one, stages.get(one.id) ?? null))}</ol>`
          }
        </section>
      </div>`,
  });
}

async function writeMail(c: PageRequest, playground: Playground): Promise<Response> {
  const [from, subject, text] = [await field(c, "from"), await field(c, "subject"), await field(c, "text")];
  if (!/^[^\s@<>]+@[^\s@<>]+$/.test(from) || /\n/.test(subject))
    return done(c, "/playground", "The mail needs an address such as anna@customer.example.", "failed");
  playground.mail(subject, text, from);
  return done(c, "/playground", "The mail is in the mailbox.");
}

async function writeText(c: PageRequest, playground: Playground): Promise<Response> {
  const [from, text] = [await field(c, "from"), await field(c, "text")];
  if (!/^\+\d{5,15}$/.test(from))
    return done(c, "/playground?as=text", "The text needs a number such as +12025550123.", "failed");
  await playground.text(text, from);
  return done(c, "/playground?as=text", "The provider has delivered the text.");
}

async function call(c: PageRequest, playground: Playground): Promise<Response> {
  const [action, text] = [await field(c, "action"), await field(c, "text")];
  if (action === "dial") await playground.dial();
  else if (action === "hang-up") await playground.hangUp();
  // The answer is shown as it is spoken.
  else if (text !== "") void playground.say(text).catch(() => undefined);
  return c.redirect("/playground?as=call", 303);
}

async function respond(c: PageRequest, playground: Playground): Promise<Response> {
  const to = "/playground?as=responder";
  return playground.respond(await field(c, "text"), Number(await field(c, "to")) || undefined)
    ? done(c, to, "The answer is in the mailbox.")
    : done(c, to, "No notification has arrived yet.", "failed");
}

const modeNames: Readonly<Record<PlaygroundMode, string>> = {
  mail: "Mail",
  text: "Text",
  call: "Call",
  responder: "As the responder",
};

const modes = (current: PlaygroundMode): Markup =>
  html`<ul class="modes">
    ${(Object.keys(modeNames) as PlaygroundMode[]).map(
      (mode) =>
        html`<li><a href="/playground?as=${mode}" ${mode === current ? html`aria-current="true"` : ""}>${modeNames[mode]}</a></li>`,
    )}
  </ul>`;

type ModeForm = (c: PageRequest, playground: Playground, standard: PlaygroundAddresses) => Markup;

const input = (label: string, name: string, value: string, list = ""): Markup =>
  html`<label class="field"><span>${label}</span><input type="text" name="${name}" value="${value}" autocomplete="off"${list === "" ? "" : html` list="${list}"`} /></label>`;
const textarea = (label: string): Markup =>
  html`<label class="field"><span>${label}</span><textarea name="text" required maxlength="${longestText}"></textarea></label>`;
const addresses = (playground: Playground, kind: "mail" | "text", first: string): Markup =>
  html`<datalist id="addresses"><option value="${first}"></option>${playground.faults
    .filter((fault) => fault.kind === kind)
    .map(({ address }) => html`<option value="${address}"></option>`)}</datalist>`;

const forms: Readonly<Record<PlaygroundMode, ModeForm>> = {
  mail: (c, playground, { mail }) =>
    form(
      c,
      "/playground/mail",
      html`${input("From", "from", mail, "addresses")} ${addresses(playground, "mail", mail)}
        ${input("Subject (empty: a reply to the newest mail)", "subject", "")} ${textarea("Mail")}
        <button class="main">Send the mail</button>`,
    ),
  text: (c, playground, { number }) =>
    form(
      c,
      "/playground/text",
      html`${input("From", "from", number, "addresses")} ${addresses(playground, "text", number)}
        ${textarea("Text (STOP, START and HELP work)")} <button class="main">Send the text</button>`,
    ),
  call: (c, playground) => {
    const { call } = playground;
    const act = (action: string, label: string, className: string) =>
      form(
        c,
        "/playground/call",
        html`<input type="hidden" name="action" value="${action}" /><button class="${className}">${label}</button>`,
      );
    return call === null
      ? html`<p>Speech is typed, and the answers are shown as text.</p>${act("dial", "Call", "main")}`
      : html`${form(c, "/playground/call", html`${textarea("Say")}<button class="main">Say it</button>`)}
          <p></p>${act("hang-up", "Hang up", "risk")}`;
  },
  responder: (c, playground) => {
    const received = playground.messages.filter(({ party, written }) => party === "responder" && written === null);
    if (received.length === 0)
      return html`<p>
        Ben is notified by mail when the agent escalates. Write a complaint as the customer, such as
        “I have a complaint: the lamp arrived broken.”
      </p>`;
    return html`<p class="muted">
        “ok” acknowledges. Any other text goes to the customer. On a line of its own, #resume returns the
        conversation to the agent, #close closes, and #note keeps what follows internal.
      </p>
      ${form(
        c,
        "/playground/respond",
        html`<label class="field"><span>Notification</span><select name="to">
              ${received.toReversed().map(({ id, subject }) => html`<option value="${id}">${subject}</option>`)}
            </select></label>
          ${textarea("Answer as Ben")} <button class="main">Send the answer</button>`,
      )}`;
  },
};

function faults(playground: Playground): Markup {
  return html`<details class="panel" id="faults">
    <summary>Addresses that choose a fault</summary>
    <p>A reply to one of these fails as described. Write from it, and watch what Bridgehead does.</p>
    <div class="scroll" tabindex="0" role="group" aria-label="Addresses that choose a fault">
      <table>
        <thead><tr><th scope="col">Address</th><th scope="col">Effect</th></tr></thead>
        <tbody>
          ${playground.faults.map(
            ({ address, effect }) => html`<tr><th scope="row" class="mono">${address}</th><td>${effect}</td></tr>`,
          )}
        </tbody>
      </table>
    </div>
  </details>`;
}

async function stagesByMessage(
  { db }: ConsoleContext,
  messages: readonly PlaygroundMessage[],
): Promise<ReadonlyMap<number, MessageStages>> {
  const found = new Map<number, MessageStages>();
  await db.read(async (q) => {
    for (const { id, written } of messages) {
      if (written === null || written.pattern === "") continue;
      const stages = await stagesOf(q, written.channel, written.pattern, written.index);
      if (stages !== null) found.set(id, stages);
    }
  });
  return found;
}

const stageNames = ["received", "asked", "answered", "queued", "sent", "delivered"] as const;
const kindNames = { mail: "Mail", text: "Text", call: "Call" } as const;

function messageItem(message: PlaygroundMessage, stages: MessageStages | null): Markup {
  const { id, at, kind, party, address, written, subject } = message;
  const who = party === "responder" ? "Ben, the responder" : address;
  return html`<li class="${written === null ? "reply" : "mine"}" id="message-${id}">
    <p class="by"><strong>${written === null ? `to ${who}` : who}</strong><span>${kindNames[kind]}</span>${when(at)}</p>
    ${subject === null ? "" : html`<p class="text"><strong>${subject}</strong></p>`}
    ${shownText(message)}
    ${written === null || written.pattern === "" ? "" : track(at, kind, stages)}
  </li>`;
}

/** Long mails are notifications and quotes: the rest is shown on a click. */
const mostShown = 600;

const linkPattern = /http:\/\/127\.0\.0\.1:\d+\/escalations\/[\w-]+/;

function shownText({ id, party, text: whole }: PlaygroundMessage): Markup {
  const text = whole.trimEnd();
  const [link] = linkPattern.exec(text) ?? [];
  const button =
    party === "responder" && link !== undefined
      ? html`<p><a class="button" href="${link}" target="_blank" rel="noopener">Open the link of the notification</a></p>`
      : "";
  if (text.length <= mostShown) return html`<p class="text">${text}</p>${button}`;
  return html`<p class="text">${text.slice(0, mostShown).toWellFormed()}…</p>
    <details id="text-${id}"><summary>The whole text</summary><p class="text">${text}</p></details>${button}`;
}

function track(began: number, kind: PlaygroundMessage["kind"], stages: MessageStages | null): Markup {
  const passed = new Map<string, PassedStage>((stages?.passed ?? []).map((stage) => [stage.name, stage]));
  const isOver = stages !== null && stages.stopped !== null;
  // A mail server reports no delivery, and a call has none.
  const names = stageNames.filter((name) => name !== "delivered" || kind === "text");
  return html`<ol class="track" aria-label="Stages">
    ${names.map((name) => {
      const stage = passed.get(name);
      if (!stage) return isOver ? "" : html`<li>${name}</li>`;
      const ms = Math.max(0, stage.at - began);
      return html`<li class="done">${name} <small>${ms} ms${stage.detail === null ? "" : `, ${stage.detail}`}</small></li>`;
    })}
    ${isOver ? html`<li class="stop">${stages.stopped}</li>` : ""}
  </ol>`;
}
