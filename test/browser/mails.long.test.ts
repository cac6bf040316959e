// Mails in the console's frame: no body of 300 hostile ones runs a script or loads anything.

import { createServer } from "node:http";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { frameDocument, frameHeaders } from "../../src/console/mail/html.ts";
import { sanitized } from "../../src/console/mail/worker.ts";
import type { Database, Query } from "../../src/store/driver.ts";
import { migrate } from "../../src/store/migrate.ts";
import { ensureChannel, recordOutcome } from "../../src/store/tables/events.ts";
import { openConsole } from "../support/commands/console.ts";
import { describeReal, needChromium, startChromium, visit } from "../support/machine/debian.ts";
import { serve } from "../support/machine/network.ts";
import { conversation, event, insertEvent, sqliteDatabase } from "../support/store/databases.ts";

interface Outside {
  readonly url: string;
  /** Every request other than those for `documents`. */
  readonly requests: string[];
}

type Document = readonly [body: string, headers: Readonly<Record<string, string>>];

/** A server that serves these documents, and notes every other request. */
async function outside(documents: (path: string) => Document | undefined = () => undefined): Promise<Outside> {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    const [body = "", headers = {}] = documents(request.url ?? "") ?? [];
    if (body === "") requests.push(request.url ?? "");
    response.writeHead(200, { "content-type": "text/html; charset=utf-8", ...headers }).end(body);
  });
  const url = await serve(server);
  return { url: `${url}/x.png`, requests };
}

const mail = (html: string): string =>
  `From: eve@example.org\r\nTo: us@example.com\r\nSubject: hostile\r\nMIME-Version: 1.0\r\nContent-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n${Buffer.from(
    `<p>begin</p>${html}`,
  )
    .toString("base64")
    .replace(/.{76}/g, "$&\r\n")}\r\n`;

async function store(q: Query, id: string, html: string, of: string | null): Promise<void> {
  const body = JSON.stringify({ kind: "message", text: html.slice(0, 2000) });
  const raw = { id: `raw${id}`, bytes: Buffer.from(mail(html)) };
  await insertEvent(
    q,
    event(id, { channel: "support-mail", sender: "eve@example.org", subject: html.slice(0, 200), body, raw }),
  );
  const row = await q.one<{ id: number }>("SELECT id FROM events WHERE external_id = $1", id);
  await recordOutcome(q, row?.id ?? 0, { state: "routed", ...(of === null ? {} : { conversation: of }) });
}

// HTML bodies that try to run a script or to load something from elsewhere. Each uses its own name, so that a success names
// the body. `ran` is called by every script; `away` is the address of a server that notes every request.

interface HostileMail {
  readonly name: string;
  readonly html: string;
}

const events = [
  "onload",
  "onerror",
  "onclick",
  "onmouseover",
  "onfocus",
  "ontoggle",
  "onanimationstart",
  "onbegin",
  "onpageshow",
  "onpointerenter",
  "onscroll",
  "onwheel",
  "onbeforetoggle",
  "onhashchange",
  "onmessage",
  "onresize",
  "oncopy",
  "oncut",
  "onpaste",
  "oninput",
  "onchange",
  "onsubmit",
  "onreset",
  "onselect",
  "ontransitionend",
];

const places: readonly ((attribute: string, away: string) => string)[] = [
  (attribute) => `<body ${attribute}>text`,
  (attribute, away) => `<img src="${away}" ${attribute}>`,
  (attribute) => `<svg ${attribute}><circle r=9 /></svg>`,
  (attribute) => `<details open ${attribute}><summary>s</summary>x</details>`,
  (attribute) => `<input autofocus ${attribute}>`,
  (attribute) => `<p style="animation:x 1s" ${attribute}>p</p>`,
];

const schemes = [
  "javascript:RAN",
  "JaVaScRiPt:RAN",
  " javascript:RAN",
  "java\tscript:RAN",
  "java\nscript:RAN",
  "&#106;avascript:RAN",
  "javascript&colon;RAN",
  "\u0001javascript:RAN",
  "data:text/html,<script>RAN</script>",
  "data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==",
  "vbscript:RAN",
  "blob:RAN",
  "AWAY",
  "//AWAYHOST/x",
];

const carriers: readonly ((url: string) => string)[] = [
  (url) => `<a href="${url}">click</a>`,
  (url) => `<iframe src="${url}"></iframe>`,
  (url) => `<object data="${url}"></object>`,
  (url) => `<embed src="${url}">`,
  (url) => `<form action="${url}"><input type=submit autofocus></form><script>document.forms[0].submit()</script>`,
  (url) => `<meta http-equiv="refresh" content="0;url=${url}">`,
];

const loads: readonly string[] = [
  `<img src="AWAY">`,
  `<img srcset="AWAY 1x, AWAY 2x">`,
  `<picture><source srcset="AWAY"><img></picture>`,
  `<link rel="stylesheet" href="AWAY">`,
  `<link rel="preload" as="image" href="AWAY">`,
  `<link rel="dns-prefetch" href="AWAY">`,
  `<link rel="preconnect" href="AWAY">`,
  `<link rel="prefetch" href="AWAY">`,
  `<link rel="modulepreload" href="AWAY">`,
  `<link rel="icon" href="AWAY">`,
  `<link rel="manifest" href="AWAY">`,
  `<style>@import url(AWAY);</style>`,
  `<style>body{background:url(AWAY)}</style>`,
  `<style>@font-face{font-family:f;src:url(AWAY)}*{font-family:f}</style>`,
  `<p style="background:url(AWAY)">p</p>`,
  `<p style="background:\\75rl(AWAY)">p</p>`,
  `<p style='list-style:url("AWAY")'>p</p>`,
  `<p style="cursor:url(AWAY),auto">p</p>`,
  `<p style="content:url(AWAY)">p</p>`,
  `<p style="behavior:url(AWAY)">p</p>`,
  `<p style="background:image-set(url(AWAY) 1x)">p</p>`,
  `<table background="AWAY"><tr><td background="AWAY">x</table>`,
  `<body background="AWAY">`,
  `<video src="AWAY" autoplay></video>`,
  `<video poster="AWAY"></video>`,
  `<audio src="AWAY" autoplay></audio>`,
  `<video><source src="AWAY"></video>`,
  `<track src="AWAY">`,
  `<input type="image" src="AWAY">`,
  `<frameset><frame src="AWAY"></frameset>`,
  `<iframe srcdoc="<img src='AWAY'><script>RAN</script>"></iframe>`,
  `<svg><image href="AWAY" width=9 height=9 /></svg>`,
  `<svg><image xlink:href="AWAY" width=9 height=9 /></svg>`,
  `<svg><use href="AWAY#x" /></svg>`,
  `<svg><feImage href="AWAY" /></svg>`,
  `<svg><style>*{background:url(AWAY)}</style></svg>`,
  `<svg><foreignObject><img src="AWAY"></foreignObject></svg>`,
  `<svg><a href="javascript:RAN"><text y=9>x</text></a></svg>`,
  `<svg><animate onbegin="RAN" attributeName="x" dur="1s" /></svg>`,
  `<svg><set onbegin="RAN" attributeName="x" /></svg>`,
  `<svg><script>RAN</script></svg>`,
  `<svg><script href="AWAY"></script></svg>`,
  `<svg><handler type="text/javascript">RAN</handler></svg>`,
  `<math><maction actiontype="statusline#http://x" xlink:href="javascript:RAN">x</maction></math>`,
  `<math href="javascript:RAN">x</math>`,
  `<math><mtext><img src="AWAY" onerror="RAN"></mtext></math>`,
  `<base href="AWAY"><img src="x.png">`,
  `<script src="AWAY"></script>`,
  `<script>RAN</script>`,
  `<SCRIPT>RAN</SCRIPT>`,
  `<script type="module">RAN</script>`,
  `<script\n>RAN</script\n>`,
  `<script/x>RAN</script>`,
  `<<script>RAN//<</script>`,
  `<scr<script>ipt>RAN</scr</script>ipt>`,
  `<noscript><p title="</noscript><img src=AWAY onerror=RAN>"></noscript>`,
  `<template><script>RAN</script></template>`,
  `<template shadowrootmode="open"><img src="AWAY" onerror="RAN"></template>`,
  `<isindex action="javascript:RAN" type=image>`,
  `<applet code="AWAY"></applet>`,
  `<portal src="AWAY"></portal>`,
  `<fencedframe src="AWAY"></fencedframe>`,
  `<bgsound src="AWAY">`,
  `<layer src="AWAY"></layer>`,
  `<xml id=x src="AWAY"></xml>`,
  `<?xml-stylesheet href="AWAY"?>`,
  `<![CDATA[<script>RAN</script>]]>`,
  `<!--[if true]><script>RAN</script><![endif]-->`,
  `<!--><script>RAN</script>-->`,
  `<!--!><img src=AWAY onerror=RAN>`,
  `<textarea><script>RAN</script></textarea><img src=AWAY>`,
  `<title><img src=AWAY onerror=RAN></title>`,
  `<plaintext><script>RAN</script>`,
  `<xmp><script>RAN</script></xmp><img src=AWAY onerror=RAN>`,
  `<listing>&lt;img src=AWAY onerror=RAN&gt;</listing>`,
  `<form><math><mtext></form><form><mglyph><style></math><img src=AWAY onerror=RAN>`,
  `<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=AWAY onerror=RAN&gt;">`,
  `<svg></p><style><a id="</style><img src=AWAY onerror=RAN>">`,
  `<svg><style><img src=AWAY onerror=RAN></style></svg>`,
  `<noembed><img title="</noembed><img src=AWAY onerror=RAN>"></noembed>`,
  `<noframes><img src=AWAY onerror=RAN></noframes>`,
  `<table><caption><script>RAN</script></caption><td><style>*{background:url(AWAY)}</style>`,
  `<select><iframe src="AWAY"></iframe></select>`,
  `<a href="AWAY" ping="AWAY">a</a>`,
  `<img alt="<script>RAN</script>" src=AWAY>`,
  `<img alt='"><script>RAN</script>' src=AWAY>`,
  `<a href='"><script>RAN</script>'>x</a>`,
  `<a href="&quot;&gt;&lt;img src=AWAY onerror=RAN&gt;">x</a>`,
  `<p title="\u2028</p><script>RAN</script>">x</p>`,
  `</body></html><script>RAN</script>`,
  `</style><script>RAN</script>`,
  `</title></head><body onload=RAN>`,
  `<img src=x:x onerror\u0000=RAN>`,
  `<img/src=AWAY/onerror=RAN>`,
  `<img\fsrc=AWAY\fonerror=RAN>`,
  `<img src=\`AWAY\`onerror=RAN>`,
  `+ADw-script+AD4-RAN+ADw-/script+AD4-`,
  `<meta charset="utf-7">+ADw-script+AD4-RAN+ADw-/script+AD4-`,
  `<meta http-equiv="content-security-policy" content="default-src *"><img src=AWAY>`,
  `<meta http-equiv="set-cookie" content="a=b">`,
  `<marquee onstart=RAN>x</marquee>`,
  `<button popovertarget=x onclick=RAN autofocus>b</button><div popover id=x onbeforetoggle=RAN>p</div>`,
  `<dialog open oncancel=RAN>d</dialog>`,
  `<keygen autofocus onfocus=RAN>`,
  `<object type="text/html" data="data:text/html,<script>RAN</script>"></object>`,
  `<embed type="image/svg+xml" src="data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' onload='RAN'/>">`,
  `<img src="data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'><image href='AWAY'/></svg>">`,
  `<x-custom onclick=RAN tabindex=1 autofocus>x</x-custom>`,
  `<span title="x" style="position:fixed;inset:0;background:url(AWAY)">overlay</span>`,
  `<a target=_top href="AWAY"><img src=AWAY></a>`,
  `<map name=m><area shape=default href="javascript:RAN"></map><img usemap=#m src=AWAY>`,
  `<input formaction="javascript:RAN" type=submit autofocus>`,
  `<cursor xlink:href="AWAY">`,
  `<div datasrc="AWAY" dataformatas=html>x</div>`,
  `<br size="&{RAN}">`,
  `<p dir="rtl\u202e">\u202etxet</p><script>RAN</script>`,
];

const manyDivs = "<div>".repeat(20_000);
/** Chromium's layout of 3,000 overflows the stack of the page. The sanitizer leaves 40. */
const nestedTables = 500;

/** At least 300 bodies. */
function hostileMails(away: string): readonly HostileMail[] {
  const host = new URL(away).host;
  const bodies = [
    ...events.flatMap((event) => places.map((place) => place(`${event}="RAN"`, "AWAY"))),
    ...schemes.flatMap((scheme) => carriers.map((carrier) => carrier(scheme))),
    ...loads,
    `${manyDivs}<script>RAN</script><img src=AWAY onerror=RAN>`,
    `${"<table><tr><td>".repeat(nestedTables)}<img src=AWAY onerror=RAN>`,
    `${"<a b=".repeat(30_000)}<script>RAN</script>`,
  ];
  return bodies.map((body, at) => {
    const html = body
      .replaceAll("AWAYHOST", host)
      .replaceAll("AWAY", `${away}?body=${at}`)
      .replaceAll("RAN", `fetch('${away}?ran=${at}');top.ran=${at}`);
    return { name: `${at}: ${body.slice(0, 80)}`, html };
  });
}

const missing = await needChromium();
describeReal("Mails in the console in Chromium", missing, () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await startChromium();
  });
  afterAll(() => browser?.close());

  async function open(fill: (db: Database) => Promise<void>) {
    const db = await (await sqliteDatabase()).open();
    await migrate(db);
    await db.tx((q) => ensureChannel(q, "support-mail"));
    await fill(db);
    const fixture = await openConsole(db);
    const visited = await visit(browser, await fixture.link());
    await visited.page.getByRole("button", { name: "Log in" }).click();
    await visited.page.getByRole("heading", { name: "Overview" }).waitFor();
    return { ...visited, fixture, db };
  }

  /** Loads those documents in frames of a page, forty at a time. */
  async function look(at: Outside, first: number, end: number, sandbox: string): Promise<Page> {
    const { page } = await visit(browser, new URL("/parent", at.url).href);
    for (let from = first; from < end; from += 40) {
      await page.evaluate(`Promise.all(Array.from({ length: ${Math.min(40, end - from)} }, (_, n) => {
        const frame = document.createElement("iframe");
        ${sandbox}
        frame.src = "/mail/" + (${from} + n);
        const loaded = new Promise((resolve) => frame.addEventListener("load", resolve, { once: true }));
        document.body.append(frame);
        return loaded;
      }))`);
      await page.evaluate(`document.querySelectorAll("iframe").forEach((frame) => frame.remove())`);
    }
    return page;
  }

  /** Serves the bodies to `look`; the policy of the page is that of the console. */
  async function served(document: (html: string) => Document): Promise<Outside & { readonly count: number }> {
    const { fixture } = await open(async () => {});
    const policy = (await fixture.get("/conversations")).headers.get("content-security-policy") ?? "";
    const page: Document = ["<!doctype html><body>parent", { "content-security-policy": policy }];
    let mails: readonly HostileMail[] = [];
    const server = await outside((path) => {
      if (path === "/parent") return page;
      const found = /^\/mail\/(\d+)$/.exec(path)?.[1];
      return found === undefined ? undefined : document(mails[Number(found)]?.html ?? "");
    });
    mails = hostileMails(server.url);
    expect(mails.length).toBeGreaterThan(300);
    return { ...server, count: mails.length };
  }

  it.each([
    { from: 0, to: 120 },
    { from: 120, to: 240 },
    { from: 240, to: Infinity },
  ])(
    "from $from to $to run no script and load nothing in the frame, even if they were not sanitized",
    async ({ from, to }) => {
      const server = await served((html) => [frameDocument(html), frameHeaders]);
      const page = await look(server, from, Math.min(to, server.count), `frame.setAttribute("sandbox", "");`);
      expect(server.requests.filter((path) => path !== "/favicon.ico")).toEqual([]);
      expect(await page.evaluate("window.ran")).toBeUndefined();
    },
  );

  it("run no script and load nothing when they are sanitized, even outside of the frame", async () => {
    const server = await served((html) => [`<!doctype html><body>${sanitized(html)}`, {}]);
    const page = await look(server, 0, server.count, "");
    expect(server.requests.filter((path) => path !== "/favicon.ico")).toEqual([]);
    expect(await page.evaluate("window.ran")).toBeUndefined();
  });

  it("would do both without these barriers", async () => {
    const server = await served((html) => [`<!doctype html><body>${html}`, {}]);
    const page = await look(server, 0, 150, "");
    expect(new Set(server.requests).size).toBeGreaterThan(20);
    expect(await page.evaluate("window.ran")).toEqual(expect.any(Number));
  });

  it("are shown in the timeline as text, and as HTML in a frame that the page's policy confines", async () => {
    const { url, requests: noted } = await outside();
    const hostile = `<b>bold</b><script>fetch('${url}');top.ran=1</script><img src="${url}" alt="A <i>photo</i>"><a href="${url}">offer</a>`;
    const { page, fixture, requests, complaints } = await open((db) =>
      db.tx(async (q) => {
        await conversation(q, "k1", "support-mail", "eve@example.org");
        await store(q, "one", hostile, "k1");
      }),
    );
    await page.getByRole("link", { name: "Conversations" }).click();
    await page.getByRole("searchbox").fill("eve@");
    await page.getByRole("button", { name: "Search" }).click();
    await page.getByRole("link", { name: "eve@example.org" }).click();
    expect(await page.locator("pre").first().textContent()).toContain("<script>");
    await page.getByText("Show as HTML").click();
    const frame = page.frameLocator("iframe.mail");
    await frame.getByText("bold").waitFor();
    expect(await frame.locator("body").innerHTML()).toBe(
      `<p>begin</p><b>bold</b><span>[image: A &lt;i&gt;photo&lt;/i&gt;]</span><span title="${url}">offer</span>`,
    );
    await frame.getByText("offer").click();
    expect(noted).toEqual([]);
    expect(requests.filter((one) => !one.startsWith(`${fixture.url}/`) && !one.startsWith("data:,"))).toEqual([]);
    expect(await page.evaluate("window.ran")).toBeUndefined();
    expect(complaints).toEqual([]);
    const raw = await fixture.get("/conversations/message/1/raw");
    expect([raw.status, raw.headers.get("content-type"), raw.headers.get("content-disposition")]).toEqual([
      200,
      "message/rfc822",
      'attachment; filename="message-1.eml"',
    ]);
    expect(raw.headers.get("x-content-type-options")).toBe("nosniff");
    expect(Buffer.from(await raw.arrayBuffer()).toString()).toBe(mail(hostile));
    const html = await fixture.get("/conversations/message/1/html");
    expect(html.headers.get("content-security-policy")).toMatch(/default-src 'none'.*; sandbox$/);
    expect((await fetch(`${fixture.url}/conversations/message/1/raw`, { redirect: "manual" })).status).not.toBe(200);
  });
});
