// Converts HTML messages to text. The first pass works on the tree: it removes hidden parts, turns the
// quote containers of mail clients into blockquotes, and turns tables into lines. Then html-to-text writes
// the text, with quotes marked by "> ", so that one rule trims text and HTML alike.

import { type ChildNode, type Document, DomHandler, Element, isTag, isText } from "domhandler";
import { getOuterHTML, removeElement } from "domutils";
import { compile } from "html-to-text";
import { Parser } from "htmlparser2";
import { addressesIn } from "./attribution.ts";
import { cleanText } from "./cleaning.ts";
import { isColoured, isHidden, isReadable, type Look, lookOf, plainLook } from "./hidden.ts";
import { isForwardLine, scan } from "./lines.ts";
import { enter, type Path, readStyleSheet } from "./stylesheet.ts";
import { cellMark, layOut } from "./tables.ts";
import type { TrimOptions } from "./trim.ts";

/** Characters of HTML that are read; the rest is truncated. */
const maxHtml = 2_000_000;
/** Deeper elements are dropped before any recursion reaches them. */
const maxDepth = 120;
/** Parsing stops when more elements are open at once, because the parser's work is quadratic in this
 *  number. */
const maxOpen = 1500;
/** Characters of cleaned HTML that are converted to text. */
const maxWritten = 400_000;
/** With more elements `plainly` writes the text, because html-to-text parses the HTML again, which takes
 *  most of the CPU time. */
const maxElements = 12_000;

const write = compile({
  wordwrap: false,
  preserveNewlines: false,
  limits: {
    maxInputLength: maxWritten + 1,
    maxDepth: maxDepth + 10,
    maxChildNodes: 20_000,
    maxBaseElements: 1,
  },
  selectors: [
    { selector: "a", options: { hideLinkHrefIfSameAsText: true, ignoreHref: false, noAnchorUrl: true } },
    { selector: "img", format: "skip" },
    ...[
      "dl",
      "dt",
      "dd",
      "center",
      "address",
      "fieldset",
      "legend",
      "figure",
      "figcaption",
      "details",
      "summary",
    ].map((selector) => ({
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
});

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

/** Converts an HTML body. `options` describe what the message answers, which determines what counts as a
 *  quote. */
export function htmlToText(html: string, options: TrimOptions): HtmlText {
  const text = written(html, options);
  if (!text.includes(colourMark)) return { text, inlineAnswers: false };
  const plain = text.replaceAll(colourMark, "");
  if (options.relation === "forward" || !hasColouredQuote(text, plain, options))
    return { text: plain, inlineAnswers: false };
  const unmarked = written(html, { ...options, relation: "forward" }).replaceAll(colourMark, "");
  return { text: unmarked, inlineAnswers: true };
}

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
    elements > maxElements
      ? plainly(document)
      : write(getOuterHTML(document, { encodeEntities: "utf8" }).slice(0, maxWritten));
  return cleanText(text).replace(cellMarks, "\t").trim();
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
  const path: Path = new Map();
  type Step = { node: ChildNode; depth: number; look: Look } | { leave: Element };
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

/** Returns the text of all `<style>` elements. */
function styleTexts(document: Document): string {
  const texts: string[] = [];
  const stack: ChildNode[] = [...document.children].reverse();
  for (let node = stack.pop(); node !== undefined && texts.length < 100; node = stack.pop()) {
    if (!isTag(node)) {
      // The HTML parser represents `<style>` as a separate node type.
      if ("children" in node && "name" in node && node.name === "style")
        texts.push(textIn(node as unknown as Element));
      continue;
    }
    if (node.name === "style") texts.push(textIn(node));
    else for (let i = node.children.length - 1; i >= 0; i--) stack.push(node.children[i] as ChildNode);
  }
  return texts.join("\n");
}

const textIn = (element: Element): string =>
  element.children.map((child) => (isText(child) ? child.data : "")).join("");

/** Converts quote containers to blockquotes, and other blockquotes (indents) to divs. */
function markQuotes(document: Document, options: TrimOptions): void {
  const quoted = new Set<ChildNode>();
  const stack: ChildNode[] = [...document.children].reverse();
  for (let node = stack.pop(); node !== undefined; node = stack.pop()) {
    if (!isTag(node) || quoted.has(node)) continue;
    if (isReplyHeader(node)) {
      if (quotesOwn(node, options)) flatten(wrapFromHere(node), quoted);
      else pushChildren(node, stack);
    } else if (isQuote(node) && !isForwarded(node)) {
      if (hasAnswers(node)) markPieces(node, quoted);
      else {
        node.name = "blockquote";
        flatten(node, quoted);
      }
    } else {
      if (node.name === "blockquote") node.name = "div";
      pushChildren(node, stack);
    }
  }
}

/** True when the customer has written between the blockquotes of a container, as Gmail formats answers
 *  to single questions. */
function hasAnswers(container: Element): boolean {
  if (container.name === "blockquote") return false;
  const first = container.children.findIndex((child) => isTag(child) && child.name === "blockquote");
  if (first < 0) return false;
  return container.children.slice(first + 1).some((child) => {
    if (isText(child)) return child.data.trim() !== "";
    return isTag(child) && child.name !== "blockquote" && !isQuote(child) && topOf(child).trim() !== "";
  });
}

/** Marks the blockquotes of a container, and keeps the rest as the customer's text. */
function markPieces(container: Element, quoted: Set<ChildNode>): void {
  for (const child of container.children) {
    if (!isTag(child)) continue;
    if (child.name === "blockquote") flatten(child, quoted);
    else quoted.add(child);
  }
}

function pushChildren(node: Element, stack: (ChildNode | { leave: Element })[]): void {
  for (let i = node.children.length - 1; i >= 0; i--) stack.push(node.children[i] as ChildNode);
}

/** Outlook marks the header of a quoted message in responses and in forwards in the same way. It is a
 *  quote when the message answers one of our messages and the quoted message is not from a third party. */
function quotesOwn(header: Element, { relation, isOwn }: TrimOptions): boolean {
  if (relation !== "ours") return false;
  let text = "";
  let element: ChildNode | null = header;
  for (let i = 0; i < 6 && element !== null && text.length < 200; i++, element = element.next)
    if (isTag(element)) text += ` ${topOf(element)}`;
  // The sender comes first; the recipients follow.
  const [sender] = addressesIn(text.split(/\b(?:to|an|à|para|aan|till|til|кому|kime)\s?:/i, 1)[0] ?? "");
  return sender === undefined || isOwn === undefined || isOwn(sender);
}

/** Quotes inside a quote are part of it; one level of "> " is sufficient. */
function flatten(quote: Element, quoted: Set<ChildNode>): void {
  const stack: ChildNode[] = [quote];
  for (let node = stack.pop(); node !== undefined; node = stack.pop()) {
    if (!isTag(node)) continue;
    quoted.add(node);
    if (node !== quote && node.name === "blockquote") node.name = "div";
    for (const child of node.children) stack.push(child);
  }
}

const quoteClasses =
  /(?:^|\s)(?:gmail_quote|gmail_attr|gmail_extra_quote|yahoo_quoted|protonmail_quote|tutanota_quote|moz-cite-prefix|zmail_extra|wiseStampQuote|front-blockquote|skiff_quote|hey_quote|fastmail-quote|cite-quote|mail-quote|x_gmail_quote|x_moz-cite-prefix|x_yahoo_quoted|x_protonmail_quote|mailru-blockquote|gmx_quote|uik-quote|spark_quote|mimestream_quote|airmail_on)(?=\s|$)/i;
const quoteIds =
  /^(?:x_)?(?:yahoo_quoted_\d{1,20}|replyblockquote|ms-outlook-mobile-body-separator-line|oriMsgHtmlSeperator|isReplyContent|reply139content|origbody|quoted_header)$/i;
/** Outlook's marks: the quote begins here and ends with the parent element. */
const replyHeaderIds =
  /^(?:x_)?(?:divRplyFwdMsg|appendonsend|stopSpelling|mail-editor-reference-message-container)$/i;

function isQuote(element: Element): boolean {
  const { class: classes, id, type, name, cite, style } = element.attribs;
  if (classes !== undefined && quoteClasses.test(classes.slice(0, 500))) return true;
  if (id !== undefined && id.length < 100 && quoteIds.test(id)) return true;
  if (name !== undefined && /^(?:quote|messageReplySection|ActiveMailReplySection)$/i.test(name)) return true;
  if (element.name !== "blockquote") return false;
  return (
    type?.toLowerCase() === "cite" ||
    cite !== undefined ||
    /border-left\s{0,4}:\s{0,4}[^;]{0,60}(?:solid|[1-9]px)/i.test((style ?? "").slice(0, 1000))
  );
}

function isReplyHeader(element: Element): boolean {
  const { id, class: classes } = element.attribs;
  if (
    classes !== undefined &&
    /(?:^|\s)ms-outlook-mobile-reference-message(?:\s|$)/.test(classes.slice(0, 500))
  )
    return true;
  return id !== undefined && id.length < 60 && replyHeaderIds.test(id);
}

/** True for "---------- Forwarded message ---------" at the top of an apparent quote. */
function isForwarded(element: Element): boolean {
  return isForwardLine(/^[-_=\s]{2,40}[^\n=-]{4,60}[-_=]{2,40}/.exec(topOf(element))?.[0] ?? "");
}

/** Returns the first characters of an element's text. */
function topOf(element: Element): string {
  let text = "";
  const stack: ChildNode[] = [...element.children].reverse();
  for (let node = stack.pop(); node !== undefined && text.length < 200; node = stack.pop()) {
    if (isText(node)) text = (text + node.data.slice(0, 400)).trimStart();
    else if (isTag(node)) stack.push(...node.children.slice(0, 50).reverse());
  }
  return text.slice(0, 200);
}

/** Moves the element and all its later siblings into one blockquote, which is returned. */
function wrapFromHere(element: Element): Element {
  const siblings = element.parent?.children ?? [];
  const moved = siblings.splice(siblings.indexOf(element));
  const quote = new Element("blockquote", {}, moved);
  quote.parent = element.parent;
  for (const child of moved) child.parent = quote;
  quote.prev = siblings.at(-1) ?? null;
  if (quote.prev !== null) quote.prev.next = quote;
  siblings.push(quote);
  return quote;
}
