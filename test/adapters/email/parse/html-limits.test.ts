import { afterAll, describe, expect, it } from "vitest";
import { html, reader } from "../../../support/email/mails.ts";

const { parser, read } = reader();
afterAll(() => parser.close());

it("keeps the text below large pictures in the HTML itself", async () => {
  const picture = (bytes: number) => `<p><img alt="" src="data:image/png;base64,${"iVBORw0K".repeat(bytes / 8)}"></p>`;
  const { fullText } = await read(html(`${picture(6_000_000)}<p>Where is</p>${picture(3_000_000)}<p>my lamp?</p>`));
  expect(fullText).toBe("Where is\n\nmy lamp?");
});

describe("a mail with more elements than html-to-text is given", () => {
  const many = "<p>a".repeat(12_000);

  it("keeps what a reader sees, its lines, quotes and links", async () => {
    const parts = [
      '<p>Hello  <b>Anna</b>,<br>see <a href="https://a.b/c">this page</a> &amp; <a href="https://a.b">https://a.b</a>',
      '<table><tr><td>4711</td><td>2</td></tr></table><div style="display:none">EVIL</div>',
      '<blockquote type="cite">old words<br>more</blockquote>',
    ];
    const { fullText } = await read(html(`${parts.join("")}${many}`));
    expect(fullText.slice(0, 110)).toContain(
      "Hello Anna,\nsee this page [https://a.b/c] & https://a.b\n\n4711\t2\n\n> old words\n> more\n\na",
    );
    expect(fullText).not.toContain("EVIL");
  });
  it("reads the text to the end", async () => {
    const { fullText } = await read(html(`${many}<p>last words</p>`));
    expect(fullText.endsWith("\n\na\n\nlast words")).toBe(true);
    expect(fullText.match(/a/g)).toHaveLength(12_001);
  });
});

describe("a mail whose elements are nested deeper than html-to-text is given", () => {
  const parts = [
    'Hello <b>Anna</b><p>see <a href="https://a.b/c">this page</a></p>',
    '<table><tr><td>4711</td><td>2</td></tr></table><div style="display:none">EVIL</div><script>EVIL</script>',
  ];

  it.each([119, 120, 121, 122, 500, 1600, 5000, 20_000])(
    "keeps the text inside %d elements and after them",
    async (depth) => {
      const raw = html(`<p>First${"<div>".repeat(depth)}${parts.join("")}${"</div>".repeat(depth)}<p>Last`);
      const { fullText } = await read(raw);
      const words = ["First", "Hello Anna", "see this page [https://a.b/c]", "4711\t2", "Last"];
      expect(fullText.split(/\n+/)).toEqual(words);
    },
  );
  it("keeps words whole where the parser begins anew", async () => {
    const deep = Array.from({ length: 6000 }, (_, n) => `<i title="t${n}">w${n} `).join("");
    const { fullText } = await read(html(deep));
    expect(fullText.split(/\s+/)).toEqual(Array.from({ length: 6000 }, (_, n) => `w${n}`));
  });
  it("marks the text of many nested quotes as quoted", async () => {
    const depth = 300;
    const quotes = `${"<blockquote type=cite>".repeat(depth)}old words${"</blockquote>".repeat(depth)}`;
    const { fullText } = await read(html(`<p>new words</p>${quotes}<p>last words</p>`));
    expect(fullText).toMatch(/^new words\n\n(?:> ){1,10}old words\n\nlast words$/);
  });
});
