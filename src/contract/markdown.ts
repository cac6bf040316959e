// Converts the Markdown of a reply, parsed by markdown-it, for channels that have no markup of their own, and a reply that is
// HTML to Markdown. The package does not depend on markdown-it: an adapter passes the tokens of its own parser.

/** A token of markdown-it, as far as it is used here. */
export interface MarkdownToken {
  readonly type: string;
  /** 1 opens a block, -1 closes it, 0 is complete. */
  readonly nesting: number;
  readonly content: string;
  readonly children: readonly MarkdownToken[] | null;
  attrGet(name: string): string | number | null;
}

/** A block and the blocks inside it. */
export interface MarkdownBlock<Token extends MarkdownToken = MarkdownToken> {
  readonly token: Token;
  readonly inside: readonly MarkdownBlock<Token>[];
}

/** Returns the tree of blocks. markdown-it limits its depth (`maxNesting`), so recursion over it is safe. The spans
 *  inside a block (`children`) may nest without a limit: read them in a loop. */
export function markdownBlocks<Token extends MarkdownToken>(tokens: readonly Token[]): readonly MarkdownBlock<Token>[] {
  const root: MarkdownBlock<Token>[] = [];
  const open = [root];
  for (const token of tokens) {
    const inside: MarkdownBlock<Token>[] = [];
    if (token.nesting >= 0) open.at(-1)?.push({ token, inside });
    if (token.nesting > 0) open.push(inside);
    if (token.nesting < 0) open.pop();
  }
  return root;
}

/** How `markdownText` renders what channels show differently. */
export interface MarkdownStyle {
  /** A horizontal rule. */
  readonly rule: string;
  code(content: string): string;
  quote(text: string): string;
  /** `sign`: `- ` or `2. `. */
  item(sign: string, text: string): string;
  /** `rows`: the cells of each row, the header first. */
  table(rows: readonly (readonly string[])[]): string;
  link(label: string, href: string): string;
  /** Raw HTML, for a parser with `html: true`. */
  html(source: string): string;
}

/** Returns readable text. Markup of headings and emphasis is removed; lists keep dashes and numbers. */
export function markdownText(tokens: readonly MarkdownToken[], style: MarkdownStyle): string {
  const blocks = (all: readonly MarkdownBlock[]): string => all.map(block).join("");

  function block({ token, inside }: MarkdownBlock): string {
    switch (token.type) {
      case "heading_open":
      case "paragraph_open":
        return `${blocks(inside)}\n\n`;
      case "inline":
        return inline(token.children ?? [], style);
      case "fence":
      case "code_block":
        return style.code(token.content);
      case "blockquote_open":
        return `${style.quote(blocks(inside).trim())}\n\n`;
      case "bullet_list_open":
      case "ordered_list_open":
        return `${list(token, inside)}\n`;
      case "table_open":
        return `${style.table(inside.flatMap((section) => section.inside.map(cellsOf)))}\n`;
      case "html_block":
        return style.html(token.content);
      case "hr":
        return style.rule;
      default:
        return inside.length > 0 ? blocks(inside) : token.content;
    }
  }

  const cellsOf = ({ inside }: MarkdownBlock): readonly string[] => inside.map((cell) => blocks(cell.inside));

  function list(token: MarkdownToken, items: readonly MarkdownBlock[]): string {
    const first = Number(token.attrGet("start") ?? 1);
    const ordered = token.type === "ordered_list_open";
    const text = ({ inside }: MarkdownBlock) =>
      blocks(inside)
        .trim()
        .replace(/\n{2,}/g, "\n");
    return items.map((item, at) => `${style.item(ordered ? `${first + at}. ` : "- ", text(item))}\n`).join("");
  }

  return blocks(markdownBlocks(tokens))
    .replace(/\n{3,}/g, "\n\n")
    .trim();
}

function inline(spans: readonly MarkdownToken[], style: MarkdownStyle): string {
  const shown: string[] = [];
  let link = { at: 0, href: "" };
  for (const token of spans) {
    if (token.type === "link_open") link = { at: shown.length, href: String(token.attrGet("href") ?? "") };
    else if (token.type === "link_close") shown.push(style.link(shown.splice(link.at).join(""), link.href));
    else if (token.type === "softbreak" || token.type === "hardbreak") shown.push("\n");
    else shown.push(token.type === "html_inline" ? style.html(token.content) : token.content);
  }
  return shown.join("");
}

/** True for an answer that is HTML as a whole, as the instructions of an agent for mail may demand, or one line whose paragraphs
 *  end with tags. A text about HTML begins or ends in another way, or has its tags in code. */
const isHtml = (text: string): boolean => isBlocks(text) || (!/[\n`]/.test(text) && text.split(blankLine).length > 2);
const blankLine = /<br ?\/?> ?<br ?\/?>/i;
const isBlocks = (text: string): boolean =>
  /^<(?:!doctype html|html|body|div|p|h[1-6]|ul|ol|table)(?=[\s>])[^<>]{0,1000}>/i.test(text) &&
  /<\/(?:html|body|div|p|h[1-6]|ul|ol|table|span|b|strong|em|i|a)\s?>$|<br ?\/?>$/i.test(text.slice(-20));

/** The text of a comment, a script or a link ends where the next one begins, so that each is read once. */
const unseen =
  /<!--(?:(?!<!--)[^]){0,5000}?-->|<!doctype[^<>]{0,300}>|<(style|script|title)(?=[\s>])(?:(?!<(?:style|script|title))[^]){0,20000}?<\/\1\s?>/gi;
const link =
  /<a\s[^<>]{0,1000}?href\s?=\s?["']([^"'<>\s]{1,2000})["'][^<>]{0,1000}>((?:(?!<a\s)[^]){0,1000}?)<\/a\s?>/gi;
const anyTag = /<\/?[a-z][a-z0-9]{0,10}(?=[\s/>])[^<>]{0,1000}>/gi;

/** Returns the Markdown of an agent's answer. Agents write Markdown, or HTML when their instructions for mail demand it. */
export const asMarkdown = (answer: string): string => (isHtml(answer.trim()) ? htmlToMarkdown(answer) : answer);

/** Returns HTML as Markdown: paragraphs, lines, lists, the cells of tables and links; no styles. `paragraph`: what separates
 *  paragraphs. */
export function htmlToMarkdown(html: string, paragraph = "\n\n"): string {
  let number = 0;
  return html
    .replace(unseen, "")
    .replace(/\s+/g, " ")
    .replace(link, (_, url: string, label: string) => {
      const text = label.replace(anyTag, "").trim();
      return text === "" || text === url.replace(/^mailto:/i, "") ? text || url : `[${text}](<${url}>)`;
    })
    .replace(/ ?<(ul|ol|li)(?=[\s>])[^<>]{0,1000}> ?/gi, (_, tag: string) => {
      if (tag.toLowerCase() === "li") return number === 0 ? "\n- " : `\n${number++}. `;
      number = tag.toLowerCase() === "ol" ? 1 : 0;
      return paragraph;
    })
    .replace(/ ?<\/t[dh]\s?> ?(?=<t[dh])/gi, " | ")
    .replace(/ ?<(?:br|hr|\/(?:div|tr|li))(?=[\s/>])[^<>]{0,1000}> ?/gi, "\n")
    .replace(/ ?<\/(?:p|h[1-6]|ul|ol|table)\s?> ?/gi, paragraph)
    .replace(anyTag, "")
    .replace(/\n{3,}/g, "\n\n")
    .replace(/\n+(?=(?:-|\d+\.) )/g, "\n")
    .trim();
}
