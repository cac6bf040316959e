// The agent's Markdown as one would type it into a phone: no signs of markup, links with their address behind them.

import { Marked, type Token, type Tokens } from "marked";

const marked = new Marked({ gfm: true, breaks: true });
const allowedLink = /^(https?:\/\/|mailto:|tel:)[^\s<>"']+$/i;

/** Headings and emphasis lose their signs, lists keep dashes and numbers, tables become lines. */
export function toPlain(markdown: string): string {
  return blocks(marked.lexer(markdown))
    .replace(/\n{3,}/g, "\n\n")
    .trim();
}

const blocks = (tokens: readonly Token[]): string => tokens.map(block).join("");
const inline = (tokens: readonly Token[]): string => tokens.map(piece).join("");

function block(token: Token): string {
  switch (token.type) {
    case "space":
    case "hr":
    case "def":
      return "\n";
    case "code":
      return `${(token as Tokens.Code).text}\n\n`;
    case "blockquote":
      return `${blocks(token.tokens ?? []).trim()}\n\n`;
    case "list":
      return `${list(token as Tokens.List)}\n`;
    case "table":
      return `${table(token as Tokens.Table)}\n`;
    case "heading":
    case "paragraph":
      return `${inline(token.tokens ?? [])}\n\n`;
    case "html":
      return visible(token.raw);
    default:
      return "tokens" in token && token.tokens ? `${inline(token.tokens)}\n` : `${token.raw.trim()}\n`;
  }
}

function list({ items, ordered, start }: Tokens.List): string {
  const first = typeof start === "number" ? start : 1;
  return items
    .map((item, index) => {
      const sign = ordered ? `${first + index}. ` : "- ";
      const box = item.task ? (item.checked ? "[x] " : "[ ] ") : "";
      const body = blocks(item.tokens.filter((token) => token.type !== "checkbox")).trim();
      return `${sign}${box}${body.replace(/\n{2,}/g, "\n")}\n`;
    })
    .join("");
}

/** A row of two columns reads best as "name: value"; wider ones keep commas between the cells. */
function table({ header, rows }: Tokens.Table): string {
  const cells = (row: readonly Tokens.TableCell[]) => row.map((cell) => inline(cell.tokens));
  if (header.length === 2) return rows.map((row) => `${cells(row).join(": ")}\n`).join("");
  return [header, ...rows].map((row) => `${cells(row).join(", ")}\n`).join("");
}

function piece(token: Token): string {
  switch (token.type) {
    case "br":
      return "\n";
    case "codespan":
    case "escape":
      return (token as Tokens.Codespan).text;
    case "image":
      return (token as Tokens.Image).text;
    case "html":
      return visible(token.raw);
    case "link":
      return link(token as Tokens.Link);
    default:
      if ("tokens" in token && token.tokens) return inline(token.tokens);
      return "text" in token ? entities(String(token.text)) : token.raw;
  }
}

const named: Readonly<Record<string, string>> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  "#39": "'",
  nbsp: " ",
};

/** The few entities that models write into Markdown. */
function entities(text: string): string {
  return text.replace(/&(amp|lt|gt|quot|#39|nbsp);/g, (whole, name: string) => named[name] ?? whole);
}

function link({ href, tokens }: Tokens.Link): string {
  const label = inline(tokens);
  const bare = href.replace(/^(mailto|tel):/i, "");
  return !allowedLink.test(href) || label === href || label === bare ? label : `${label} (${bare})`;
}

/** A break is a break; other tags are markup without a meaning here. Their text stays. */
function visible(html: string): string {
  return html
    .replace(/<br\s*\/?>/gi, "\n")
    .replace(/<!--[^]*?-->/g, "")
    .replace(/<\/?[a-z][^<>]*>/gi, "");
}
