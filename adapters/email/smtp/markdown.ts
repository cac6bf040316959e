// The agent's Markdown as simple HTML and as readable text. Nothing the agent writes reaches a reader's mail program
// as markup of its own: raw HTML becomes visible text, links are http, https or mailto, images become their names.

import { Marked, type Token, type Tokens } from "marked";

const allowedLink = /^(https?:\/\/|mailto:)[^\s<>"']+$/i;

const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    html: ({ text }) => escapeHtml(text),
    link({ href, tokens }) {
      const inside = this.parser.parseInline(tokens);
      return allowedLink.test(href) ? `<a href="${escapeHtml(href)}">${inside}</a>` : inside;
    },
    image: ({ text, title }) => escapeHtml(text || title || ""),
    checkbox: ({ checked }) => (checked ? "[x] " : "[ ] "),
  },
});

/** A fragment, without html or body elements. */
export function toHtml(markdown: string): string {
  return marked.parse(markdown, { async: false }).trim();
}

/** Emphasis signs removed, links with their address behind them, lists and code as they are read. */
export function toText(markdown: string): string {
  const lines = blocks(marked.lexer(markdown));
  return lines.replace(/\n{3,}/g, "\n\n").trim();
}

/** For text in HTML, in elements and in quoted attributes. */
export function escapeHtml(text: string): string {
  const names: Readonly<Record<string, string>> = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "'": "&#39;",
  };
  return text.replace(/[&<>"']/g, (sign) => names[sign] ?? sign);
}

function blocks(tokens: readonly Token[]): string {
  return tokens.map(block).join("");
}

function block(token: Token): string {
  switch (token.type) {
    case "space":
      return "\n";
    case "heading":
      return `${inline(token.tokens ?? [])}\n\n`;
    case "code":
      return `${indent((token as Tokens.Code).text, "    ")}\n\n`;
    case "blockquote":
      return `${indent(blocks(token.tokens ?? []).trim(), "| ")}\n\n`;
    case "list":
      return `${list(token as Tokens.List)}\n`;
    case "table":
      return `${table(token as Tokens.Table)}\n`;
    case "hr":
      return "* * *\n\n";
    case "paragraph":
      return `${inline(token.tokens ?? [])}\n\n`;
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
      return `${sign}${box}${indent(body.replace(/\n{2,}/g, "\n"), " ".repeat(sign.length)).trimStart()}\n`;
    })
    .join("");
}

function table({ header, rows }: Tokens.Table): string {
  const row = (cells: readonly Tokens.TableCell[]) =>
    `${cells.map((cell) => inline(cell.tokens)).join(" | ")}\n`;
  return [header, ...rows].map(row).join("");
}

function inline(tokens: readonly Token[]): string {
  return tokens.map(piece).join("");
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
    case "link": {
      const { href, tokens } = token as Tokens.Link;
      const label = inline(tokens);
      const bare = href.replace(/^mailto:/i, "");
      return !allowedLink.test(href) || label === href || label === bare ? label : `${label} (${bare})`;
    }
    default:
      if ("tokens" in token && token.tokens) return inline(token.tokens);
      return "text" in token && token.type !== "html" ? String(token.text) : token.raw;
  }
}

function indent(text: string, by: string): string {
  return text.replace(/^(?=.)/gm, by);
}
