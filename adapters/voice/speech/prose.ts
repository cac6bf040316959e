// Converts Markdown to prose: removes visual elements and turns lists and tables into sentences.

import MarkdownIt, { type Token } from "markdown-it";

/** The running text of one paragraph, heading, list or table, in document order. */
export type Passage = string;

const markdownIt = new MarkdownIt({ html: true });
markdownIt.validateLink = () => true;

interface Block {
  readonly token: Token;
  readonly inside: readonly Block[];
}

/** Returns the passages of a Markdown text. Omitted: code blocks, pictures, rules, HTML tags, struck-out text. A
 *  text that fails to parse is returned as one passage. The caller of this function bounds the length. */
export function passages(markdown: string): readonly Passage[] {
  return passagesOf(markdown).filter((passage) => passage.trim() !== "");
}

function passagesOf(markdown: string): readonly Passage[] {
  try {
    return treeOf(markdownIt.parse(markdown, {})).flatMap(ofBlock);
  } catch {
    return [markdown];
  }
}

/** Builds the block tree. markdown-it bounds its depth (`maxNesting`), so that recursion over blocks is safe. */
function treeOf(tokens: readonly Token[]): readonly Block[] {
  const root: Block[] = [];
  const open = [root];
  for (const token of tokens) {
    const inside: Block[] = [];
    if (token.nesting >= 0) open.at(-1)?.push({ token, inside });
    if (token.nesting > 0) open.push(inside);
    if (token.nesting < 0) open.pop();
  }
  return root;
}

function ofBlock({ token, inside }: Block): readonly Passage[] {
  switch (token.type) {
    case "inline":
      return [inline(token.children ?? [])];
    case "bullet_list_open":
    case "ordered_list_open":
      return ofList(token, inside);
    case "table_open":
      return ofTable(inside);
    case "code_block":
      // Indented text in a reply is almost never code, so it is kept; only a fenced block counts as code.
      return [token.content.trimEnd()];
    case "html_block":
      return [withoutTags(token.content)];
    default:
      return inside.flatMap(ofBlock);
  }
}

/** Short items become one comma-separated enumeration. Long items become separate sentences. */
function ofList(token: Token, list: readonly Block[]): readonly Passage[] {
  const items = list.map((item) => item.inside.flatMap(ofBlock).filter((part) => part.trim() !== ""));
  const brief = items.every((parts) => parts.length === 1 && isBrief(parts[0] ?? ""));
  if (brief && items.length > 1) return [items.map(([part]) => (part ?? "").trim()).join(", ")];
  if (token.type === "bullet_list_open") return items.flat();
  const first = Number(token.attrGet("start") ?? 1);
  return items.flatMap((parts, n) => [`${first + n}: ${parts[0] ?? ""}`, ...parts.slice(1)]);
}

const isBrief = (part: string): boolean => !/[.!?:;]/.test(part) && part.trim().split(/\s+/).length <= 8;

/** Returns each row with its column names: `Monday: open 9 to 5, closed for lunch 12 to 1`. */
function ofTable(sections: readonly Block[]): readonly Passage[] {
  const [heads = [], ...rows] = sections.flatMap((section) =>
    section.inside.map((row) => row.inside.map((cell) => cell.inside.flatMap(ofBlock).join("").trim())),
  );
  return rows.map(([name = "", ...values]) => {
    const said = values.flatMap((value, n) =>
      value === "" ? [] : [`${heads[n + 1] ?? ""} ${value}`.trim()],
    );
    return [name, said.join(", ")].filter((part) => part !== "").join(": ");
  });
}

/** Returns the text of inline spans. A link keeps its text without its URL; a bare URL is plain text. Spans may be
 *  nested without limit, so this is one loop without recursion. */
function inline(spans: readonly Token[]): string {
  const said: string[] = [];
  let struck = 0;
  for (const { type, content } of spans) {
    if (type === "s_open") struck += 1;
    else if (type === "s_close") struck -= 1;
    else if (struck > 0 || type === "image" || type === "html_inline") continue;
    else if (type === "softbreak") said.push("\n");
    else said.push(type === "hardbreak" ? ", " : content);
  }
  return said.join("");
}

/** An unclosed comment matches to the end. Searching for its end from each further comment would take quadratic
 *  time. */
const withoutTags = (html: string): string => html.replace(/<!--[^]*?(?:-->|$)|<[^<>]*>/g, " ");
