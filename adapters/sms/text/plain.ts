// Converts the agent's Markdown to plain text as a person types it on a phone: no markup, links followed by
// their URL.

import MarkdownIt, { type Token } from "markdown-it";

/** Markdown longer than this many characters is sent unchanged. This bounds the work inside the
 *  transaction to a few milliseconds; an answer of this length is about thirty text messages. */
const markdownLimit = 5_000;

const allowedLink = /^(https?:\/\/|mailto:|tel:)[^\s<>"']+$/i;
const markdownIt = new MarkdownIt({ html: true, breaks: true, linkify: true });
markdownIt.linkify.set({ fuzzyLink: false, fuzzyIP: false });
markdownIt.validateLink = () => true;

/** Removes the markup of headings and emphasis. Lists keep dashes and numbers, tables become lines.
 *  Returns the input unchanged if parsing fails. */
export function toPlain(markdown: string): string {
  if (markdown.length > markdownLimit) return markdown;
  try {
    return blocks(treeOf(markdownIt.parse(markdown, {})))
      .replace(/\n{3,}/g, "\n\n")
      .trim();
  } catch {
    return markdown;
  }
}

interface Block {
  readonly token: Token;
  readonly inside: readonly Block[];
}

/** Returns the tree of blocks. markdown-it limits its depth (`maxNesting`), so recursion over it is
 *  safe. */
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

const blocks = (all: readonly Block[]): string => all.map(block).join("");

function block({ token, inside }: Block): string {
  switch (token.type) {
    case "hr":
      return "\n";
    case "fence":
    case "code_block":
      return `${token.content}\n`;
    case "blockquote_open":
      return `${blocks(inside).trim()}\n\n`;
    case "bullet_list_open":
    case "ordered_list_open":
      return `${list(token, inside)}\n`;
    case "table_open":
      return `${table(inside)}\n`;
    case "heading_open":
    case "paragraph_open":
      return `${blocks(inside)}\n\n`;
    case "inline":
      return inline(token.children ?? []);
    case "html_block":
      return visible(token.content);
    default:
      return inside.length > 0 ? blocks(inside) : token.content;
  }
}

function list(token: Token, items: readonly Block[]): string {
  const first = Number(token.attrGet("start") ?? 1);
  const ordered = token.type === "ordered_list_open";
  return items
    .map((item, index) => {
      const body = blocks(item.inside)
        .trim()
        .replace(/\n{2,}/g, "\n");
      return `${ordered ? `${first + index}. ` : "- "}${body}\n`;
    })
    .join("");
}

/** A row of two columns becomes "name: value". The cells of wider rows are separated by commas. */
function table(sections: readonly Block[]): string {
  const [header, ...rows] = sections.flatMap(({ inside }) => inside.map(cellsOf));
  if (header?.length === 2) return rows.map((cells) => `${cells.join(": ")}\n`).join("");
  return [header ?? [], ...rows].map((cells) => `${cells.join(", ")}\n`).join("");
}

const cellsOf = ({ inside }: Block): readonly string[] => inside.map((cell) => blocks(cell.inside));

/** Renders inline tokens in one loop, without recursion, because their nesting has no limit. */
function inline(spans: readonly Token[]): string {
  const said: string[] = [];
  let link = { at: 0, href: "" };
  for (const token of spans) {
    if (token.type === "link_open") link = { at: said.length, href: String(token.attrGet("href") ?? "") };
    else if (token.type === "softbreak" || token.type === "hardbreak") said.push("\n");
    else if (token.type === "html_inline") said.push(visible(token.content));
    else if (token.type === "link_close") said.push(linked(said.splice(link.at).join(""), link.href));
    else said.push(token.content);
  }
  return said.join("").replaceAll("\u00a0", " ");
}

function linked(label: string, href: string): string {
  const bare = href.replace(/^(mailto|tel):/i, "");
  return !allowedLink.test(href) || label === href || label === bare ? label : `${label} (${bare})`;
}

/** Returns the text of HTML: `<br>` becomes a line break, other tags are removed. */
function visible(html: string): string {
  // Comments are removed only up to the last comment end. Searching beyond it would be quadratic.
  const last = html.lastIndexOf("-->");
  const commented = last < 0 ? 0 : last + 3;
  const shown = html.slice(0, commented).replace(/<!--[^]*?-->/g, "");
  return `${shown}${html.slice(commented)}`.replace(/<br\s*\/?>/gi, "\n").replace(/<\/?[a-z][^<>]*>/gi, "");
}
