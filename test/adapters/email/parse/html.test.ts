import { afterAll, describe, expect, it } from "vitest";
import { html, mail, multipart, reader } from "./mails.ts";

const { parser, read } = reader();
afterAll(() => parser.close());

/** Ways to hide a text from a reader of HTML. */
const hidden: readonly string[] = [
  '<div style="display:none">EVIL</div>',
  '<div style="DISPLAY : NONE !important">EVIL</div>',
  '<div style="display:/* x */none">EVIL</div>',
  '<span style="visibility:hidden">EVIL</span>',
  '<span style="visibility: collapse">EVIL</span>',
  '<span style="opacity:0">EVIL</span>',
  '<span style="opacity:0.0">EVIL</span>',
  '<span style="opacity: .01">EVIL</span>',
  '<span style="font-size:0">EVIL</span>',
  '<span style="font-size:0px;line-height:0">EVIL</span>',
  '<span style="font-size:1px">EVIL</span>',
  '<span style="font-size:0.01em">EVIL</span>',
  '<font size="0">EVIL</font>',
  '<div style="position:absolute;left:-9999px">EVIL</div>',
  '<div style="position:fixed;top:-2000px">EVIL</div>',
  '<div style="text-indent:-9999px">EVIL</div>',
  '<div style="margin-left:-10000px">EVIL</div>',
  '<div style="transform:translateX(-9999px)">EVIL</div>',
  '<div style="transform:scale(0)">EVIL</div>',
  '<div style="height:0;overflow:hidden">EVIL</div>',
  '<div style="max-height:0px;max-width:0;overflow:hidden;mso-hide:all">EVIL</div>',
  '<div style="width:1px;height:1px;overflow:hidden">EVIL</div>',
  '<div style="clip:rect(0,0,0,0);position:absolute">EVIL</div>',
  '<div style="clip-path:inset(100%)">EVIL</div>',
  '<div style="color:transparent">EVIL</div>',
  '<div style="color:rgba(0,0,0,0)">EVIL</div>',
  '<div style="color:#fff;background-color:#ffffff">EVIL</div>',
  '<div style="color:white;background:#fff">EVIL</div>',
  '<div style="mso-hide:all">EVIL</div>',
  '<div style="content-visibility:hidden">EVIL</div>',
  "<div hidden>EVIL</div>",
  '<div aria-hidden="true">EVIL</div>',
  '<div class="preheader">EVIL</div>',
  '<p class="x sr-only">EVIL</p>',
  '<span class="d-none">EVIL</span>',
  '<input type="hidden" value="EVIL">',
  "<textarea>EVIL</textarea>",
  "<template>EVIL</template>",
  "<noscript>EVIL</noscript>",
  "<script>EVIL</script>",
  "<style>EVIL{}</style>",
  "<title>EVIL</title>",
  "<svg><text>EVIL</text></svg>",
  '<iframe srcdoc="EVIL">EVIL</iframe>',
  "<object>EVIL</object>",
  "<!-- EVIL -->",
  "<!--[if mso]>EVIL<![endif]-->",
  '<img alt="EVIL" src="x">',
  '<div style="display:none"><p><b>E<i>VIL EVIL</i></b></p></div>',
];

describe("hidden text", () => {
  it.each(hidden)("%s", async (piece) => {
    const { fullText } = await read(html(`<html><body><p>Hello</p>${piece}<p>World</p></body></html>`));
    expect(fullText).toContain("Hello");
    expect(fullText).toContain("World");
    expect(fullText).not.toContain("EVIL");
  });
  it.each([
    'style="font-size:14px"',
    'style="color:#000;background:#fff"',
    'style="opacity:1"',
    'style="opacity:0.9"',
    'style="overflow:hidden"',
    'style="margin-left:-15px"',
    'class="hidden-gem"',
    'aria-hidden="false"',
    'style="font-size:0.9em"',
    'style="height:100px;overflow:hidden"',
    'style="font-size:10px"',
    'style="line-height:0.5"',
  ])("what is to be seen stays: %s", async (attribute) => {
    expect((await read(html(`<p ${attribute}>GOOD</p>`))).text).toBe("GOOD");
  });
  it("invisible characters go, joined scripts and emoji stay", async () => {
    const { text } = await read(
      mail(
        {},
        "pa\u200brcel\u2060 \u202eevil\u202c t\u00ado\u{e0041}day \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \u{1f468}\u200d\u{1f469} a\u200db\n",
      ),
    );
    expect(text).toBe(
      "parcel evil today \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \u{1f468}\u200d\u{1f469} ab",
    );
  });
});

const old = "<p>Your parcel left us.</p>";
/** How mail programs put the quoted mail into HTML. */
const quotes: readonly [string, string][] = [
  [
    "Gmail",
    `<div class="gmail_quote"><div dir="ltr" class="gmail_attr">On Fri, May 3, 2024 at 10:00 AM S &lt;<a href="mailto:s@example.com">s@example.com</a>&gt; wrote:<br></div><blockquote class="gmail_quote" style="border-left:1px solid">${old}</blockquote></div>`,
  ],
  [
    "Gmail container",
    `<div class="gmail_quote gmail_quote_container">On 3 May 2024 S wrote:<blockquote>${old}</blockquote></div>`,
  ],
  [
    "Apple Mail",
    `<blockquote type="cite"><div>On 3 May 2024, at 10:00, S &lt;s@example.com&gt; wrote:</div>${old}</blockquote>`,
  ],
  [
    "Thunderbird",
    `<div class="moz-cite-prefix">On 5/3/24 10:00, S wrote:<br></div><blockquote type="cite" cite="mid:x">${old}</blockquote>`,
  ],
  [
    "Outlook web",
    `<div id="appendonsend"></div><hr style="width:98%"><div id="divRplyFwdMsg" dir="ltr"><b>From:</b> S<br><b>Sent:</b> Friday<br></div>${old}`,
  ],
  ["Outlook web, forwarded classes", `<div id="x_divRplyFwdMsg">Von: S</div>${old}`],
  [
    "Outlook desktop",
    `<div style="border:none;border-top:solid #E1E1E1 1.0pt;padding:3.0pt 0 0 0"><p><b>From:</b> S &lt;s@example.com&gt;<br><b>Sent:</b> Friday, May 3, 2024<br><b>To:</b> A<br><b>Subject:</b> RE: x</p></div>${old}`,
  ],
  [
    "Outlook mobile",
    `<div id="mail-editor-reference-message-container" class="ms-outlook-mobile-reference-message"><p>x</p>${old}</div>`,
  ],
  ["Yahoo", `<div id="yahoo_quoted_123" class="yahoo_quoted"><div>On Friday, S wrote:</div>${old}</div>`],
  [
    "Proton",
    `<div class="protonmail_quote">On Friday, S wrote:<blockquote class="protonmail_quote" type="cite">${old}</blockquote></div>`,
  ],
  [
    "Zoho",
    `<div class="zmail_extra"><div>---- On Fri, 03 May 2024 <b>S</b> wrote ----</div><blockquote>${old}</blockquote></div>`,
  ],
  [
    "Mail.ru",
    `<blockquote style="border-left:1px solid #0857A6;margin:10px;padding:0 0 0 10px;">Friday, 3 May 2024, S:<br>${old}</blockquote>`,
  ],
  ["Roundcube", `<p>On 2024-05-03 10:00, S wrote:</p><blockquote type="cite">${old}</blockquote>`],
  [
    "Spark",
    `<div name="messageReplySection">On 3 May 2024, S wrote:<blockquote type="cite">${old}</blockquote></div>`,
  ],
  ["Tutanota", `<blockquote class="tutanota_quote">${old}</blockquote>`],
];

describe("quotes in HTML", () => {
  it.each(quotes)("%s", async (_, quote) => {
    const parsed = await read(
      html(`<html><body><div dir="ltr">It has not come.<br><br>Anna</div><br>${quote}</body></html>`),
    );
    expect(parsed.text).toBe("It has not come.\n\nAnna");
    expect(parsed.fullText).toContain("Your parcel left us.");
  });
  it("keeps answers between quotes", async () => {
    const { text } = await read(
      html(
        '<div><blockquote type="cite">When?</blockquote><div>Monday</div><blockquote type="cite">Where?</blockquote><div>Here</div><blockquote type="cite">Bye</blockquote></div>',
      ),
    );
    expect(text).toBe("> When?\n\nMonday\n\n> Where?\n\nHere");
  });
  it("keeps an indented paragraph", async () => {
    const { text } = await read(
      html('<p>I read:</p><blockquote style="margin:0 0 0 40px;border:none">the law</blockquote>'),
    );
    expect(text).toContain("the law");
  });
  it("keeps what is forwarded", async () => {
    const body =
      '<div>please look</div><div class="gmail_quote"><div class="gmail_attr">---------- Forwarded message ---------<br>From: <b>Bob</b> &lt;bob@example.net&gt;<br>Date: Fri, May 3, 2024 at 10:00 AM<br>Subject: Broken<br>To: &lt;anna@example.org&gt;<br></div><br>my mug is broken</div>';
    const parsed = await read(html(body, { Subject: "Fwd: Broken" }));
    expect(parsed.text).toContain("my mug is broken");
    expect(parsed.forwarded).toEqual({
      from: { address: "bob@example.net", name: "Bob" },
      subject: "Broken",
    });
  });
  it("keeps a top-posted mail whole when nothing but the quote is there", async () => {
    const parsed = await read(html(`<blockquote type="cite">${old}</blockquote>`));
    expect(parsed.text).toBe(parsed.fullText);
    expect(parsed.text).toContain("Your parcel left us.");
  });
  it("writes lists, links, tables and breaks readably", async () => {
    const { text } = await read(
      html(
        '<ul><li>one</li><li>two</li></ul><p><a href="https://example.org/a">here</a></p><h1>Title</h1>a<br>b',
      ),
    );
    expect(text).toContain("* one");
    expect(text).toContain("here [https://example.org/a]");
    expect(text).toContain("Title\n\na\nb");
  });
  it("reads plain text when the HTML says nothing", async () => {
    const raw = multipart("alternative", [
      { type: "text/plain", body: "plain words" },
      { type: "text/html", body: "<img src=x>" },
    ]);
    expect((await read(raw)).text).toBe("plain words");
  });
  it("reads one of two alternatives", async () => {
    const raw = multipart("alternative", [
      { type: "text/plain", body: "Hello" },
      { type: "text/html", body: "<p>Hello</p>" },
    ]);
    expect((await read(raw)).fullText).toBe("Hello");
  });
});
