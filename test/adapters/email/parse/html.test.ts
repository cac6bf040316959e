import { afterAll, describe, expect, it } from "vitest";
import { answering, html, mail, multipart, reader } from "../../../support/email/mails.ts";

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
  '<div style="display:n\\6fne">EVIL</div>',
  '<div style="display:\\n\\00006F\\6e e">EVIL</div>',
  '<div style="d\\69splay:none">EVIL</div>',
  "<datalist><option>EVIL</option></datalist>",
  "<noembed>EVIL</noembed>",
  "<progress>EVIL</progress>",
  "<meter>EVIL</meter>",
];

/** Declarations that hide text by its size, its place or a clip. `at` is a position. */
const hiding = `transform:scale(0) | transform:rotate(9deg) scale(0,1) | transform:scale(1,0) | transform:scale(.001) |
  transform:scale(5%) | transform:scale(1e-3) | transform:scale(-0.01) | transform:scale(calc(0)) | transform:scaleX(0) |
  transform:scaleY(0%) | transform:scale3d(0,0,0) | scale:0 | scale:1 0 | opacity:5% | filter:opacity(0) | filter:opacity(5%) |
  filter:alpha(opacity=0) | filter:blur(1px) opacity(.01) | zoom:.01 |
  at;clip:rect(1px,1px,1px,1px) | at;clip:rect(0 600px 0 0) | at;clip:rect(0,0,200px,0) | at;clip:rect(0,auto,1px,auto) |
  clip-path:inset(50%) | clip-path:inset(0 0 100%) | clip-path:inset(0 60% 0 40% round 4px) | clip-path:inset(9999px) |
  clip-path:circle(0) | clip-path:circle(0% at 50% 50%) | clip-path:ellipse(0 9px) | clip-path:rect(0 0 0 0) |
  clip-path:polygon(0 0) | clip-path:polygon(0 0,0 0,0 0) | clip-path:polygon(0 0,100% 0,50% 0) |
  clip-path:polygon(evenodd,9px 9px,50px 50px,20px 20px) |
  at;left:-99em | at;left:-1e4px | at;left:-9999999999999999px | at;left:-9999px !important | at;left:calc(-9999px) |
  at;left:-100% | at;left:5000px | at;left:200vw | at;top:-200vh | at;top:-50in | at;top:99999px | at;right:-9999px |
  at;right:9999px | at;bottom:-999rem | at;inset:-9999px auto auto | at;inset:0 9999px |
  margin:-9999px 0 0 -9999px | margin:0 0 0 -99em | margin:-999px | margin:0 -999px | margin:-999px!important;margin:0 |
  margin-top:-200vh | text-indent:-99em | text-indent:9999px;margin-left:-9999px |
  transform:translate(-9999px,0) | transform:translateY(-999em) | transform:translate3d(9999px,0,0) |
  transform:translateX(calc(-9999px)) | translate:-9999px | translate:0 -9999px |
  overflow-y:hidden;max-height:0 | overflow-x:clip;width:0 | overflow:auto;height:0 | overflow:hidden;height:0em |
  overflow:hidden;height:0!important | overflow:hidden;height:.5px | overflow:hidden;line-height:0 |
  overflow:hidden;line-height:1px | font:0/0 a | font-size:1e-3px | font-size:.05em`.split(/\s*\|\s*/);
/** Similar declarations that do not hide. The hanging indents are those of Word. */
const harmless =
  `transform:scale(0.836,0.836) | transform:scale(1) | transform:scale(.5) | transform:scale(-1,1) | transform:scale(50%) |
  transform:scale(0.06) | transform:scaleX(0.9) | transform:scale3d(0.9,0.9,0) | transform:scaleZ(0) | transform:rotate(0) |
  transform:none | scale:0.5 | scale:none | filter:opacity(0.9) | filter:opacity(90%) | filter:alpha(opacity=90) |
  filter:opacity() | filter:blur(0) | filter:none | opacity:0.06 | zoom:0.5 | zoom:normal |
  clip:rect(0px,600px,200px,0px) | at;clip:rect(0,auto,auto,0) | at;clip:rect(auto,auto,auto,auto) | at;clip:auto |
  at;clip:rect(1px,601px,201px,1px) | clip-path:polygon(0 0,100% 0,100% 100%,0 100%) | clip-path:none |
  clip-path:polygon(0 0,100% 100%,100% 0,0 100%) | clip-path:polygon(nonzero,0 0,9px 9px,9px 0) | clip-path:inset(0) |
  clip-path:inset(10%) | clip-path:inset(0 round 8px) | clip-path:circle(50%) | clip-path:circle(at 0 0) |
  clip-path:ellipse(50% 50%) | at;left:50%;margin-left:-300px | at;left:50%;transform:translateX(-50%) | at;left:600px |
  at;top:50%;left:50%;transform:translate(-50%,-50%) | at;top:5000px | at;left:-50% | at;left:-5em | at;left:auto |
  at;inset:0 | at;right:0 | left:-9999px | position:static;top:-9999px |
  margin-left:144.0pt;text-indent:-144.0pt | margin:0 0 0 144pt;text-indent:-144pt | padding-left:10em;text-indent:-10em |
  padding:0 0 0 150px;text-indent:-150px | text-indent:2em | margin:0 auto | margin:-1px -2px | margin:-20px 0 0 -15px |
  margin-left:-9999px;margin:0 | overflow:hidden;line-height:1 | overflow:hidden;line-height:1.5 |
  overflow:hidden;line-height:normal | overflow:hidden;line-height:100% | overflow-y:hidden;max-height:20em |
  overflow:visible;height:0 | overflow:hidden;height:auto | overflow:hidden;height:1em | overflow:hidden;width:1% | height:0 |
  font-size:1.1 | font-size:1 | font-size:.9rem | font-size:-1px | font:400 14px/1.5 Arial |
  display:n\\6fn | display:n\\6 fne | display:\\1006Eone | display:n\\\\6fne`.split(/\s*\|\s*/);
/** The style attribute; `at` is a position. */
const styled = (declarations: string, text: string) =>
  html(`<p>Hello</p><div style="${declarations.replace(/^at;/, "position:absolute;")}">${text}</div><p>World</p>`);

/** `c0`, `c1` ... */
const numbered = (count: number, name: string): string[] => Array.from({ length: count }, (_, i) => `${name}${i}`);

/** Text that one of many hides; a limit on their number could be exceeded on purpose. */
const crowded: readonly (readonly [string, string])[] = [
  [
    "the first of many selectors",
    `<style>${numbered(500, ".long-name-of-a-class-").join(",")}{display:none}</style><p class=long-name-of-a-class-0>EVIL</p>`,
  ],
  ["the last of many selectors", `<style>${numbered(500, ".c").join(",")}{display:none}</style><p class=c499>EVIL</p>`],
  [
    "the last of many rules",
    `<style>${numbered(5000, ".c").join("{color:red}")}{display:none}</style><p class=c4999>EVIL</p>`,
  ],
  ["the last of many classes", `<style>.x{display:none}</style><p class="${numbered(60, "c").join(" ")} x">EVIL</p>`],
];

/** Text in the colour of the background, hidden by a style sheet, or of no size. */
const camouflaged: readonly string[] = [
  '<span style="color:#ffffff">EVIL</span>',
  '<span style="color:white">EVIL</span>',
  '<span style="color:#FEFEFE !important">EVIL</span>',
  '<span style="color:rgb(254, 254, 254)">EVIL</span>',
  '<span style="color:rgba(0,0,0,0.01)">EVIL</span>',
  '<span style="color:hsl(0, 0%, 100%)">EVIL</span>',
  '<span style="-webkit-text-fill-color:#fff">EVIL</span>',
  '<font color="white">EVIL</font>',
  '<font color="#ffffff"><b>EVIL</b></font>',
  '<div style="color:#fff"><p><span>EVIL</span></p></div>',
  '<table bgcolor="#ff0000"><tr><td><font color="#fe0101">EVIL</font></td></tr></table>',
  '<div style="background:#123456 url()"></div><div style="background:#123456"><i style="color:#123456">EVIL</i></div>',
  "<style>.x{display:none}</style><div class=x>EVIL</div>",
  "<style>.X { DISPLAY : NONE }</style><div class=x>EVIL</div>",
  "<style>td.a, #x { font-size: 0 }</style><div id=x>EVIL</div>",
  "<style>.box .in{visibility:hidden}</style><div class=box><p><span class=in>EVIL</span></p></div>",
  "<style>/* } */ .x{color:#fff}</style><p class='y x'>EVIL</p>",
  "<style>@media screen{.x{display:none}}</style><div class=x>EVIL</div>",
  "<style>@media print{.y{color:red}} .x{display:none}</style><div class=x>EVIL</div>",
  "<style><!-- .x{display:none} --></style><div class=x>EVIL</div>",
  "<style>.x{display:none !important}</style><div class=x style='display:block'>EVIL</div>",
  "<style>b{opacity:0}</style><b>EVIL</b>",
  "<style>p[title]{display:none}</style><p title=x>EVIL</p>",
  "<style>[lang='x']{display:none}</style><p lang=x>EVIL</p>",
  "<style>@media (min-width:1px){.x{display:none}}</style><p class=x>EVIL</p>",
  "<style>@media only screen and (min-width: 600px), print{.x{display:none}}</style><p class=x>EVIL</p>",
  "<style>@supports (color:red){.x{display:none}}</style><p class=x>EVIL</p>",
  "</body><style>.x{position:absolute;left:-9999px}</style><div class=x>EVIL</div>",
  '<div style="font-size:0"><p>EVIL</p></div>',
  '<div style="font-size:0.5px">EVIL</div>',
  '<div style="font-size:calc(0px)">EVIL</div>',
  '<div style="font:0/0 a">EVIL</div>',
  '<div style="font-size:10%"><span style="font-size:50%">EVIL</span></div>',
  '<div style="line-height:0;overflow:hidden">EVIL</div>',
  '<div width="0" height="0">EVIL</div>',
  '<div width="0px" height="0%">EVIL</div>',
  "<style>i:not(.a){display:none}</style><i class=b>EVIL</i>",
  "<style>.x:not(div):not(#y){display:none}</style><p class=x>EVIL</p>",
  "<style>.\\78 y{d\\69splay:n\\6f\\6e e}</style><p class=xy>EVIL</p>",
];

/** What looks similar and is to be seen. */
const visible: readonly string[] = [
  '<table bgcolor="#003366"><tr><td><font color="#ffffff">GOOD</font></td></tr></table>',
  '<div style="background-color:black;color:white">GOOD</div>',
  '<div style="background:url(x.png);color:white">GOOD</div>',
  '<div style="background-image:linear-gradient(red,blue);background:linear-gradient(red,blue)"><b style="color:#fff">GOOD</b></div>',
  '<td background="x.png"><span style="color:#fff">GOOD</span></td>',
  "<style>.hero{background:#036}</style><div class=hero><span style='color:#fff'>GOOD</span></div>",
  "<style>@media (max-width:600px){.x{display:none}}</style><div class=x>GOOD</div>",
  "<style>@media print{.x{display:none}}</style><div class=x>GOOD</div>",
  "<style>a:hover{display:none} .x:first-child{display:none}</style><div class=x>GOOD</div>",
  "<style>.a .x{display:none}</style><div class=x>GOOD</div>",
  "<style>[data-ogsc] .x{display:none} p[title=y]{display:none}</style><p class=x title=x>GOOD</p>",
  "<style>@media (prefers-color-scheme:dark){.x{color:#fff}}</style><div class=x>GOOD</div>",
  "<style>@media screen and (max-width:480px){.x{display:none}} @font-face{x:y}</style><div class=x>GOOD</div>",
  "<style>a:link{background:#07f}</style><a style='color:#fff'>GOOD</a>",
  '<div style="color:#fff">GOOD</div>',
  '<td style="font-size:0"><span style="font-size:14px">GOOD</span></td>',
  '<div style="visibility:hidden"><span style="visibility:visible">GOOD</span></div>',
  '<div style="color:#fff"><span style="color:#000">GOOD</span></div>',
  '<div style="color:#999">GOOD</div>',
  '<div style="color:inherit">GOOD</div>',
  '<div style="color:var(--x)">GOOD</div>',
  '<body bgcolor="#000000" text="#ffffff">GOOD</body>',
  '<div style="font-size:small">GOOD</div>',
  '<font size="1">GOOD</font>',
  "<style>}}{{ .x{</style><div>GOOD</div>",
  '<td style="font-size:0"><span style="font:400 14px/20px Arial">GOOD</span></td>',
  "<style>p:not(.a){display:none}</style><p class=a>GOOD</p>",
  `<style>p:not(.a){display:none}</style><p class="${numbered(60, "c").join(" ")} a">GOOD</p>`,
  "<style>p:not(.a,.b){display:none} div:not(.a) p{display:none} p:not(:first-child){display:none}</style><p>GOOD</p>",
  "<style>.md\\:x{display:none} .w-1\\.x{display:none}</style><p class='md x w-1'>GOOD</p>",
];

describe("hidden text", () => {
  it.each(camouflaged)("of the background's colour, by a style sheet or without size: %s", async (piece) => {
    const { fullText } = await read(html(`<html><body><p>Hello</p>${piece}<p>World</p></body></html>`));
    expect(fullText).toContain("Hello");
    expect(fullText).not.toContain("EVIL");
  });
  it.each(visible)("but not what only looks similar: %s", async (piece) => {
    expect((await read(html(`<html>${piece}</html>`))).fullText).toBe("GOOD");
  });
  it.each(crowded)("by a style sheet, with %s", async (_, piece) => {
    expect((await read(html(`<div>Hello</div>${piece}`))).fullText).toBe("Hello");
  });
  it.each(hiding)("by the style %s", async (style) => {
    const { fullText } = await read(styled(style, "EVIL"));
    expect(fullText).toMatch(/^Hello\s+World$/);
  });
  it.each(harmless)("but not by the style %s", async (style) => {
    const { fullText } = await read(styled(style, "GOOD"));
    expect(fullText).toMatch(/^Hello\s+GOOD\s+World$/);
  });
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
    expect(text).toBe("parcel evil today \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \u{1f468}\u200d\u{1f469} ab");
  });
});

const old = "<p>Your parcel left us.</p>";
/** How mail programs put the quoted mail into HTML. */
const quotes: readonly [string, string][] = [
  [
    "Gmail",
    `<div class="gmail_quote"><div dir="ltr" class="gmail_attr">On Fri, May 3, 2024 at 10:00 AM S &lt;<a href="mailto:support@example.com">support@example.com</a>&gt; wrote:<br></div><blockquote class="gmail_quote" style="border-left:1px solid">${old}</blockquote></div>`,
  ],
  [
    "Gmail container",
    `<div class="gmail_quote gmail_quote_container">On 3 May 2024 S wrote:<blockquote>${old}</blockquote></div>`,
  ],
  [
    "Apple Mail",
    `<blockquote type="cite"><div>On 3 May 2024, at 10:00, S &lt;support@example.com&gt; wrote:</div>${old}</blockquote>`,
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
    `<div style="border:none;border-top:solid #E1E1E1 1.0pt;padding:3.0pt 0 0 0"><p><b>From:</b> S &lt;support@example.com&gt;<br><b>Sent:</b> Friday, May 3, 2024<br><b>To:</b> A<br><b>Subject:</b> RE: x</p></div>${old}`,
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
  ["Spark", `<div name="messageReplySection">On 3 May 2024, S wrote:<blockquote type="cite">${old}</blockquote></div>`],
  ["Tutanota", `<blockquote class="tutanota_quote">${old}</blockquote>`],
];

describe("quotes in HTML", () => {
  it.each(quotes)("%s", async (_, quote) => {
    const parsed = await read(
      html(`<html><body><div dir="ltr">It has not come.<br><br>Anna</div><br>${quote}</body></html>`, answering),
    );
    expect(parsed.text).toBe("It has not come.\n\nAnna");
    expect(parsed.fullText).toContain("Your parcel left us.");
  });
  it("keeps answers between quotes", async () => {
    const { text } = await read(
      html(
        '<div><blockquote type="cite">When?</blockquote><div>Monday</div><blockquote type="cite">Where?</blockquote><div>Here</div><blockquote type="cite">Bye</blockquote></div>',
        answering,
      ),
    );
    expect(text).toBe("> When?\n\nMonday\n\n> Where?\n\nHere");
  });
  it("keeps what is written below the mark of a deleted quote", async () => {
    const body = '<div>Thanks a lot.</div><div id="appendonsend"></div><div>One more question: is it blue?</div>';
    expect((await read(html(body, answering))).text).toBe("Thanks a lot.\n\nOne more question: is it blue?");
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
    expect(parsed.forwardedFrom).toEqual({ address: "bob@example.net", name: "Bob" });
  });
  it("keeps a top-posted mail whole when nothing but the quote is there", async () => {
    const parsed = await read(html(`<blockquote type="cite">${old}</blockquote>`));
    expect(parsed.text).toBe(parsed.fullText);
    expect(parsed.text).toContain("Your parcel left us.");
  });
  it("writes lists, links, tables and breaks readably", async () => {
    const { text } = await read(
      html('<ul><li>one</li><li>two</li></ul><p><a href="https://example.org/a">here</a></p><h1>Title</h1>a<br>b'),
    );
    expect(text).toContain("* one");
    expect(text).toContain("here [https://example.org/a]");
    expect(text).toContain("Title\n\na\nb");
  });
  it("writes an emoji that is sent as a picture, and no other picture", async () => {
    const picture = (alt: string) => `<img data-emoji="${alt}" alt="${alt}" src="https://fonts.gstatic.com/x.png">`;
    const { text } = await read(html(`<p>Super ${picture("👍🏽")}${picture("🇩🇪")} ${picture("Logo 1")}</p>`));
    expect(text).toBe("Super 👍🏽🇩🇪");
  });
  it("writes each word once, for any element names", async () => {
    const { text } = await read(
      html("<p>please help</p><tree></tree><tree>with <b>order</b> <tree>4711</tree></tree><tree>"),
    );
    expect(text).toBe("please help\n\nwith order 4711");
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

describe("text in the colour of its background", () => {
  const white = '<div style="color:rgb(255,255,255)">Yes, please cancel order 4711.</div><br>';
  const attribution = "On Mon, 2 Nov 2026 at 09:00, Support &lt;support@example.com&gt; wrote:";
  const asked = `<div class="gmail_quote"><div class="gmail_attr">${attribution}</div><blockquote class="gmail_quote"><div>Shall we?</div></blockquote></div>`;
  const answer = "Yes, please cancel order 4711.";
  it.each([
    ["Gmail's quote", asked],
    ["Outlook's quote", `<div id="divRplyFwdMsg"><b>From:</b> Support<br><b>Sent:</b> Friday</div><p>Shall we?</p>`],
    ["a phone's line", "<div>Sent from Outlook for iOS</div>"],
    ["a phone's line and a quote", `<div>Sent from my iPhone</div>${asked}`],
    ["a signature", "<div>-- <br>Anna</div>"],
    ["nothing", ""],
  ])("is the message of a dark mail client when only this is left: %s", async (_, rest) => {
    expect((await read(html(white + rest, answering))).text).toBe(answer);
  });
  it("is the message when the plain text has its words", async () => {
    const plain = `${answer}\n\nOn Mon, 2 Nov 2026 at 09:00, Support <support@example.com> wrote:\n> Shall we?\n`;
    const bodies = [
      { type: "text/plain; charset=utf-8", body: plain },
      { type: "text/html; charset=utf-8", body: white + asked },
    ];
    expect((await read(multipart("alternative", bodies, answering))).text).toBe(answer);
  });
  it("stays hidden beside words that can be seen", async () => {
    const { fullText } = await read(html(`<p>No.</p><p style="color:#fff">EVIL</p>${asked}`, answering));
    expect(fullText).toContain("No.");
    expect(fullText).not.toContain("EVIL");
  });
  it("stays hidden inside a quote without an answer", async () => {
    const inside = asked.replace("Shall we?", 'Shall we? <span style="color:#fff">EVIL</span>');
    expect((await read(html(inside, answering))).fullText).not.toContain("EVIL");
  });
  it("is restored without text that is hidden in another way", async () => {
    const other = '<div style="color:#fff;display:none">EVIL</div>';
    expect((await read(html(white + other + asked, answering))).fullText).not.toContain("EVIL");
  });
});

describe("tables and other arrangements", () => {
  const textOf = async (body: string) => (await read(html(body))).text;
  it.each([
    [
      "cells and rows",
      "<table><tr><td>Article</td><td>Qty</td></tr><tr><td>4711</td><td>2</td></tr><tr><td>4712</td><td>10</td></tr></table>",
      "Article\tQty\n4711\t2\n4712\t10",
    ],
    [
      "heads, sections and empty cells",
      "<table><caption>Order</caption><thead><tr><th>A</th><th>B</th><th>C</th></tr></thead><tbody><tr><td>1</td><td></td><td>3</td></tr></tbody></table>",
      "Order\nA\tB\tC\n1\t\t3",
    ],
    [
      "cells as Word writes them",
      "<table><tr><td><p class=MsoNormal>47<o:p></o:p></p></td><td><p class=MsoNormal>11</p></td></tr></table>",
      "47\t11",
    ],
    ["cells with line breaks", "<table><tr><td>12 High St<br>Leeds</td><td>3</td></tr></table>", "12 High St Leeds\t3"],
    [
      "tables for layout",
      "<table><tr><td><table><tr><td><p>one</p></td></tr></table></td><td><p>two</p><ul><li>three</li></ul></td></tr></table>",
      "one\n\ntwo\n\n * three",
    ],
    ["cells without a row", "<table><td>47</td><td>11</td></table>", "47\n11"],
    ["definitions", "<dl><dt>Order</dt><dd>4711</dd><dt>Qty</dt><dd>2</dd></dl>", "Order\n4711\nQty\n2"],
    ["raised digits", "<p>10<sup>2</sup> m<sup><b>2</b></sup> 10<sup>-3</sup> 1<sup>st</sup>", "10² m² 10⁻³ 1st"],
    ["raised terms", "<p>2<sup>n+1</sup> 5<sup>1.5</sup></p>", "2^n+1 5^1.5"],
    ["lowered digits", "<p>H<sub>2</sub>O x<sub>12</sub> x<sub>max</sub></p>", "H₂O x₁₂ x_max"],
    [
      "figures and details",
      "<figure>a<figcaption>1</figcaption></figure><details><summary>2</summary>3</details>",
      "a\n1\n2\n3",
    ],
  ])("%s", async (_, body, expected) => expect(await textOf(body)).toBe(expected));

  const both = (plain: string, rich: string) =>
    multipart("alternative", [
      { type: "text/plain; charset=utf-8", body: plain },
      { type: "text/html; charset=utf-8", body: rich },
    ]);
  const table = "<table><tr><td>4711</td><td>2</td></tr><tr><td>4712</td><td>10</td></tr></table>";
  it("uses the plain text when both are equal", async () => {
    const raw = both(
      "4711    2\n4712   10\n<https://example.org/x>\n",
      `${table}<a href="https://example.org/x">https://example.org/x</a>`,
    );
    expect((await read(raw)).text).toBe("4711    2\n4712   10\n<https://example.org/x>");
  });
  it.each([
    ["a stub", "Your client does not support HTML."],
    ["glued together", "47112471210"],
    ["shorter", "4711 2"],
    ["in another order", "4711 10\n4712 2"],
  ])("takes the HTML when the plain text is %s", async (_, plain) => {
    expect((await read(both(plain, table))).text).toBe("4711\t2\n4712\t10");
  });
  it("uses the HTML when only it has the page that a word links to", async () => {
    const raw = both("I want this.", '<p>I want <a href="https://shop.example/p/1">this</a>.</p>');
    expect((await read(raw)).text).toBe("I want this [https://shop.example/p/1].");
  });
  it("uses the HTML when the plain text has what the HTML hides", async () => {
    const raw = both("Hello EVIL", '<p>Hello <span style="display:none">EVIL</span></p>');
    expect((await read(raw)).fullText).toBe("Hello");
  });
  it("uses the HTML when only it marks the quote", async () => {
    const raw = both("new words\n\nold words", "<p>new words</p><blockquote type=cite>old words</blockquote>");
    expect((await read(raw)).fullText).toBe("new words\n\n> old words");
  });
});
