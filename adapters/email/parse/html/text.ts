// Converts HTML messages to text. The first pass works on the tree: it removes hidden parts, turns the quote
// containers of mail clients into blockquotes, and turns tables into lines. Without separators "10" and "2" in two
// cells would read as 102. Then html-to-text writes the text, with quotes marked by "> ", so that one rule trims text
// and HTML alike.

import { type ChildNode, type Document, DomHandler, type Element, isTag, isText, Text } from "domhandler";
import { removeElement } from "domutils";
import { compile, type DomNode, type FormatCallback } from "html-to-text";
import { Parser } from "htmlparser2";
import { cleanText } from "../headers.ts";
import { scan } from "../quotes/lines.ts";
import type { TrimOptions } from "../quotes/trim.ts";
import { type ElementCounts, enter, readStyleSheet } from "./css.ts";
import {
  isColoured,
  isHidden,
  isReadable,
  lookOf,
  markQuotes,
  plainLook,
  pushChildren,
  type TextStyle,
} from "./elements.ts";

/** Characters of HTML that are read; the rest is truncated. */
const maxHtml = 2_000_000;
/** Deeper elements are dropped before any recursion reaches them. */
const maxDepth = 120;
/** Parsing stops when more elements are open at once: the parser's work is quadratic in this number. */
const maxOpen = 1500;
/** Characters of text that are written. */
const maxWritten = 400_000;
/** With more elements `plainly` writes the text, because html-to-text takes several times as long. */
const maxElements = 12_000;

/** Writes the nodes that are passed as metadata, so that html-to-text does not parse the HTML a second time. Its published
 *  types omit the metadata. The first call takes the nodes: a further `<tree>` is the sender's, an unknown element. */
const tree: FormatCallback = (element, walk, builder) => {
  const { metadata } = builder as unknown as { readonly metadata: DomNode[][] };
  walk(metadata.pop() ?? element.children, builder);
};

const write = compile({
  wordwrap: false,
  preserveNewlines: false,
  limits: {
    maxDepth: maxDepth + 10,
    maxChildNodes: 20_000,
    maxBaseElements: 1,
  },
  formatters: { tree },
  selectors: [
    { selector: "tree", format: "tree" },
    { selector: "a", options: { hideLinkHrefIfSameAsText: true, ignoreHref: false, noAnchorUrl: true } },
    { selector: "img", format: "skip" },
    ..."dl dt dd center address fieldset legend figure figcaption details summary"
      .split(" ")
      .map((selector) => ({
        selector,
        format: "block",
        options: { leadingLineBreaks: 1, trailingLineBreaks: 1 },
      })),
    ...["h1", "h2", "h3", "h4", "h5", "h6"].map((selector) => ({ selector, options: { uppercase: false } })),
    { selector: "hr", options: { length: 20 } },
    {
      selector: "blockquote",
      options: { leadingLineBreaks: 2, trailingLineBreaks: 2, trimEmptyLines: true },
    },
  ],
}) as (html: string, metadata: (readonly ChildNode[])[]) => string;

export interface HtmlText {
  /** All visible text. Quotes are marked with "> ", unless the message is a forward or has answers
   *  inside its quotes. */
  readonly text: string;
  /** True when coloured text inside a quoted message contains the customer's answers. */
  readonly inlineAnswers: boolean;
}

/** Marks coloured text until the position of the quote is known. A private-use character, which is
 *  removed from the sender's text. */
const colourMark = "\ue0c0";

/** Converts an HTML body. `options` describe what the message answers, which determines what counts as a quote. */
export function htmlToText(html: string, options: TrimOptions): HtmlText {
  const text = written(html, options);
  if (!text.includes(colourMark)) return { text, inlineAnswers: false };
  const plain = text.replaceAll(colourMark, "");
  if (options.relation === "forward" || !hasColouredQuote(text, plain, options))
    return { text: plain, inlineAnswers: false };
  const unmarked = written(html, { ...options, relation: "forward" }).replaceAll(colourMark, "");
  return { text: unmarked, inlineAnswers: true };
}

/** Separates two cells until the text is written, with tabs in its place. A private-use character, because a tab
 *  would be collapsed. */
const cellMark = "\ue0c1";
const cellMarks = new RegExp(` {0,8}${cellMark} {0,8}`, "g");
const privateMarks = new RegExp(`[${colourMark}${cellMark}]`, "g");

function written(html: string, options: TrimOptions): string {
  const text = writtenAs(html, options, true);
  // A mail client in dark mode can send white text without its background. When there is no other text,
  // this is the message.
  return text === "" && /color/i.test(html) ? writtenAs(html, options, false) : text;
}

function writtenAs(html: string, options: TrimOptions, colours: boolean): string {
  const { document, elements } = read(html.slice(0, maxHtml));
  prune(document, colours);
  if (options.relation !== "forward") markQuotes(document, options);
  layOut(document);
  const text =
    elements > maxElements ? plainly(document) : write("<tree>", [bodyIn(document)]).slice(0, maxWritten);
  return cleanText(text).replace(cellMarks, "\t").trim();
}

/** Yields the elements in document order, each before its children. Iterative, because the sender controls the depth. */
function* elementsIn(document: Document): Generator<Element> {
  const stack: ChildNode[] = [...document.children].reverse();
  for (let node = stack.pop(); node !== undefined; node = stack.pop()) {
    if (!isTag(node)) continue;
    yield node;
    pushChildren(node, stack);
  }
}

/** Returns the first body element, or all nodes of a document without one. */
function bodyIn(document: Document): readonly ChildNode[] {
  for (const element of elementsIn(document)) if (element.name === "body") return [element];
  return document.children;
}

/** True when a coloured line is marked as a quote, or follows the start of an unmarked quote. */
function hasColouredQuote(text: string, plain: string, options: TrimOptions): boolean {
  const lines = scan(plain.split("\n"), {
    tails: options.relation === "ours",
    isOwn: options.isOwn ?? (() => true),
  });
  const tail = lines.findIndex((line) => line.kind === "tail");
  return text
    .split("\n")
    .some(
      (line, at) => line.includes(colourMark) && (lines[at]?.kind === "quote" || (tail >= 0 && at > tail)),
    );
}

const paragraphs = new Set("p blockquote h1 h2 h3 h4 h5 h6 ul ol dl pre".split(" "));
const blocks = new Set([
  ...paragraphs,
  ..."div br hr li dt dd center address fieldset legend figure figcaption details summary section article header".split(
    " ",
  ),
  ..."footer main nav aside form body html".split(" "),
]);

/** Writes the text of a message with very many elements: one line for each block, quotes with "> ",
 *  links with their address. Unlike html-to-text it writes no list marks and collapses whitespace in
 *  `<pre>`. Returns at most `maxWritten` characters. */
function plainly(document: Document): string {
  const lines: string[] = [];
  let line: string[] = [];
  let depth = 0;
  let length = 0;
  const endLine = () => {
    const words = line.join("").replace(/\s+/g, " ").trim();
    line = [];
    if (words === "") return;
    lines.push("> ".repeat(depth) + words);
    length += 2 * depth + words.length;
  };
  const endBlock = (name: string) => {
    if (!blocks.has(name)) return;
    endLine();
    if (paragraphs.has(name) && lines.at(-1) !== "") lines.push("");
  };
  const stack: (ChildNode | { leave: Element })[] = [...document.children].reverse();
  for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
    if (length >= maxWritten) break;
    if ("leave" in next) {
      const { name, attribs } = next.leave;
      const href = name === "a" ? (attribs["href"] ?? "").slice(0, 2000).replace(/^mailto:/i, "") : "";
      if (href !== "" && !href.startsWith("#") && line.at(-1)?.trim() !== href) line.push(` [${href}]`);
      endBlock(name);
      if (name === "blockquote") depth--;
    } else if (isText(next)) line.push(next.data);
    else if (isTag(next)) {
      endBlock(next.name);
      if (next.name === "blockquote") depth++;
      stack.push({ leave: next });
      pushChildren(next, stack);
    }
  }
  endLine();
  return lines.join("\n").slice(0, maxWritten);
}

/** Returns the tree without comments, and the number of elements in the HTML. The input is fed in
 *  pieces, so that parsing can stop. */
function read(html: string): { readonly document: Document; readonly elements: number } {
  const handler = new DomHandler();
  let open = 0;
  let elements = 0;
  const parser = new Parser({
    onopentag(name, attributes) {
      open++;
      elements++;
      handler.onopentag(name, attributes);
    },
    onclosetag() {
      open--;
      handler.onclosetag();
    },
    ontext: (text) => handler.ontext(text),
  });
  const tooMany = () => open >= maxOpen;
  for (let at = 0; at < html.length && !tooMany(); at += 4096) parser.write(html.slice(at, at + 4096));
  if (!tooMany()) parser.end();
  handler.onend();
  return { document: handler.root, elements };
}

/** Removes elements that are hidden or too deep, and attributes that are not needed. Iterative, because
 *  the sender controls the depth. `colours`: text in the colour of its background counts as hidden. */
function prune(document: Document, colours: boolean): void {
  const sheet = readStyleSheet(styleTexts(document));
  const path: ElementCounts = new Map();
  type Step = { node: ChildNode; depth: number; look: TextStyle } | { leave: Element };
  const stack: Step[] = document.children.map((node) => ({ node, depth: 0, look: plainLook }));
  for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
    if ("leave" in next) {
      enter(path, next.leave, -1);
      continue;
    }
    const { node, depth, look } = next;
    if (isText(node)) {
      if (node.data.trim() === "") continue;
      node.data = node.data.replace(privateMarks, "");
      if (!isReadable(look, colours)) removeElement(node);
      else if (isColoured(look) && !isWarning(node.data)) node.data = colourMark + node.data;
      continue;
    }
    if (!isTag(node)) {
      removeElement(node);
      continue;
    }
    const rules = sheet.rulesOf(node, path);
    if (depth > maxDepth || isHidden(node, rules)) {
      removeElement(node);
      continue;
    }
    const inside = lookOf(node, rules, look);
    if (node.attribs["style"] !== undefined && node.name !== "blockquote") delete node.attribs["style"];
    if (sheet.needsPath) {
      enter(path, node, 1);
      stack.push({ leave: node });
    }
    for (const child of node.children) stack.push({ node: child, depth: depth + 1, look: inside });
  }
}

/** Mail gateways of companies use colour for their warning above external messages. */
const isWarning = (text: string) =>
  /caution|external|warning|achtung|vorsicht|extern|attention|attenzione|precaución|waarschuwing/i.test(
    text.slice(0, 200),
  );

/** Returns the text of the `<style>` elements. */
function styleTexts(document: Document): string {
  const texts: string[] = [];
  for (const element of elementsIn(document))
    if (element.name === "style" && texts.length < 100) texts.push(textIn(element));
  return texts.join("\n");
}

const textIn = (element: Element): string =>
  element.children.map((child) => (isText(child) ? child.data : "")).join("");

/** A row whose cells have more text, blocks or nodes is used for layout: its cells become paragraphs. */
const most = { text: 200, blocks: 4, nodes: 60 };

const blockNames = new Set(["p", "div", "br", "h1", "h2", "h3", "h4", "h5", "h6", "center", "blockquote"]);
const structureNames = new Set(["table", "ul", "ol", "dl", "pre", "hr"]);
const tableNames = new Set(["table", "thead", "tbody", "tfoot", "caption", "tr", "td", "th"]);

/** Converts tables to blocks and separated cells, and `<sup>` and `<sub>` digits to their Unicode forms. */
function layOut(document: Document): void {
  // Parents come first, so a row reads its cells before they are renamed.
  for (const element of elementsIn(document)) {
    if (element.name === "tr") layOutRow(element);
    else if (element.name === "sup" || element.name === "sub") writeRaised(element);
    else if (element.name === "div" || element.name === "p") dropLastBreak(element);
    if (tableNames.has(element.name)) element.name = "div";
  }
}

/** Returns the number of characters in a cell; null when it is too large or has its own structure.
 *  Inspects a limited number of nodes. */
function textOfCell(cell: Element): number | null {
  const seen = { text: 0, blocks: 0, nodes: 0 };
  const stack: ChildNode[] = [cell];
  for (let node = stack.pop(); node !== undefined; node = stack.pop()) {
    if (isText(node))
      seen.text += node.data.length > 5 * most.text ? node.data.length : node.data.trim().length;
    if (isTag(node)) {
      if (structureNames.has(node.name) || node.children.length > most.nodes) return null;
      if (blockNames.has(node.name)) seen.blocks++;
      stack.push(...node.children);
    }
    if (++seen.nodes > most.nodes || seen.text > most.text || seen.blocks > most.blocks) return null;
  }
  return seen.text;
}

function layOutRow(row: Element): void {
  const cells = row.children.filter((child) => isTag(child) && /^t[dh]$/.test(child.name)) as Element[];
  if (cells.length < 2) return;
  const sizes: number[] = [];
  for (const cell of cells) {
    const size = textOfCell(cell);
    if (size === null) return;
    sizes.push(size);
  }
  const last = sizes.findLastIndex((size) => size > 0);
  const children: ChildNode[] = [];
  for (const [at, cell] of cells.entries()) {
    if (at > last) break;
    if (at > 0) children.push(new Text(cellMark));
    cell.name = "span";
    if (cell.children.some((child) => isTag(child))) makeInline(cell);
    children.push(cell);
  }
  setChildren(row, children);
}

/** Puts the blocks of a cell on one line, separated by a space. The cell is small, so the line is short
 *  as well. */
function makeInline(cell: Element): void {
  const stack: Element[] = [cell];
  for (let element = stack.pop(); element !== undefined; element = stack.pop()) {
    const children: ChildNode[] = [];
    for (const child of element.children) {
      if (isTag(child) && blockNames.has(child.name)) {
        children.push(new Text(" "));
        if (child.name !== "br") children.push(child, new Text(" "));
        child.name = "span";
      } else children.push(child);
      if (isTag(child)) stack.push(child);
    }
    setChildren(element, children);
  }
}

/** Removes the line break at the end of a block with other content, because it is not visible. */
function dropLastBreak(block: Element): void {
  const last = block.children.findLastIndex((child) => !isText(child) || child.data.trim() !== "");
  const node = block.children[last];
  if (last > 0 && node !== undefined && isTag(node) && node.name === "br") block.children.splice(last, 1);
}

/** The characters that have raised and lowered forms, at the same index in the other two strings. */
const flat = "0123456789+-=()−";
const raised = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾⁻";
const lowered = "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎₋";

/** Writes "10<sup>2</sup>" as "10²". Letters ("1<sup>st</sup>") are unchanged; other content gets the
 *  prefix "^" or "_". */
function writeRaised(element: Element): void {
  const up = element.name === "sup";
  element.name = "span";
  const first = firstText(element);
  if (first === null) return;
  const words = first.data.trim();
  if (words === "" || words.length > 30) return;
  const forms = up ? raised : lowered;
  if (/^[0-9+\-=()−]+$/.test(words))
    first.data = words.replace(/./g, (char) => forms.charAt(flat.indexOf(char)));
  else if (!/^\p{L}+\.?$/u.test(words) || !up) first.data = `${up ? "^" : "_"}${words}`;
}

/** Returns the text node of an element that contains only text, possibly nested in inline elements. */
function firstText(element: Element): Text | null {
  let node: ChildNode | undefined = element;
  for (let depth = 0; depth < 8 && node !== undefined; depth++) {
    if (isText(node)) return node;
    if (!isTag(node) || node.children.length !== 1) return null;
    node = node.children[0];
  }
  return null;
}

function setChildren(parent: Element, children: ChildNode[]): void {
  parent.children = children;
  for (const [at, child] of children.entries()) {
    child.parent = parent;
    child.prev = children[at - 1] ?? null;
    child.next = children[at + 1] ?? null;
  }
}
