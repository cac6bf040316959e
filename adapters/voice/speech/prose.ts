// Markdown to prose: what is for the eye only goes, what carries meaning is put into sentences.

import { lexer, type Token, type Tokens } from "marked";

/** One paragraph, heading, list or table as running text, in the order of the document. */
export type Passage = string;

/** The passages of a Markdown text. Left out: code blocks, pictures, rules, HTML tags, struck-out words. */
export function passages(markdown: string): readonly Passage[] {
  return blocks(markdown)
    .flatMap(ofBlock)
    .filter((passage) => passage.trim() !== "");
}

/** What is nested beyond any sense (a thousand quotes in quotes) overflows the parser's stack: it is plain text then. */
function blocks(markdown: string): readonly Token[] {
  try {
    return lexer(markdown);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return [{ type: "text", raw: markdown, text: markdown }];
  }
}

function ofBlock(token: Token): readonly Passage[] {
  switch (token.type) {
    case "paragraph":
    case "heading":
      return [inline(children(token))];
    case "text":
      return [inline(children(token), token.text)];
    case "list":
      return ofList(token as Tokens.List);
    case "table":
      return ofTable(token as Tokens.Table);
    case "blockquote":
      return children(token).flatMap(ofBlock);
    case "code":
      // Indented text is almost never code in an answer; only a fence says so.
      return token["codeBlockStyle"] === "indented" ? [String(token["text"])] : [];
    case "html":
      return [withoutTags(token.raw)];
    default:
      return [];
  }
}

/** Short items are one enumeration, as one says it; long ones are sentences of their own. */
function ofList(list: Tokens.List): readonly Passage[] {
  const items = list.items.map((item) => item.tokens.flatMap(ofBlock).filter((part) => part.trim() !== ""));
  const brief = items.every((parts) => parts.length === 1 && isBrief(parts[0] ?? ""));
  if (brief && items.length > 1) return [items.map(([part]) => (part ?? "").trim()).join(", ")];
  if (!list.ordered) return items.flat();
  const first = typeof list.start === "number" ? list.start : 1;
  return items.flatMap((parts, n) => [`${first + n}: ${parts[0] ?? ""}`, ...parts.slice(1)]);
}

const isBrief = (part: string): boolean => !/[.!?:;]/.test(part) && part.trim().split(/\s+/).length <= 8;

/** Each row with the names of its columns: `Monday: open 9 to 5, closed for lunch 12 to 1`. */
function ofTable(table: Tokens.Table): readonly Passage[] {
  const heads = table.header.map((cell) => inline(cell.tokens));
  return table.rows.map((row) => {
    const cells = row.map((cell) => inline(cell.tokens).trim());
    const [name = "", ...values] = cells;
    const said = values.flatMap((value, n) =>
      value === "" ? [] : [`${heads[n + 1] ?? ""} ${value}`.trim()],
    );
    return [name, said.join(", ")].filter((part) => part !== "").join(": ");
  });
}

function inline(tokens: readonly Token[], fallback = ""): string {
  if (tokens.length === 0) return fallback;
  return tokens.map(ofSpan).join("");
}

function ofSpan(token: Token): string {
  switch (token.type) {
    case "link":
      // The words of a link are for people, its address is not; a bare address is handled as text.
      return inline(children(token), token["text"] as string);
    case "image":
    case "html":
      return "";
    case "br":
      return ", ";
    case "del":
      return token.raw.startsWith("~~") ? "" : token.raw;
    case "escape":
    case "codespan":
      return String(token["text"]);
    default:
      return inline(children(token), "text" in token ? String(token["text"]) : "");
  }
}

const children = (token: Token): readonly Token[] => ("tokens" in token ? (token.tokens ?? []) : []);

const withoutTags = (html: string): string => html.replace(/<!--[^]*?-->|<[^>]*>/g, " ");
