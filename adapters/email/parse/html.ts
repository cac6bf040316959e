// HTML mail to text. First the tree: hidden parts out, the containers that mail programs put quotes into become blockquotes, attributes
// nobody reads dropped. Then html-to-text writes the rest, quotes with "> ", so that one rule trims text and HTML alike.

import { type ChildNode, type Document, DomHandler, Element, isTag, isText } from "domhandler";
import { getOuterHTML, removeElement } from "domutils";
import { compile } from "html-to-text";
import { Parser } from "htmlparser2";
import { cleanText } from "./cleaning.ts";
import { isHidden } from "./hidden.ts";
import { isForwardLine } from "./lines.ts";

/** Characters of HTML that are read; the rest is cut. */
const maxHtml = 2_000_000;
/** Deeper elements are dropped, before any recursion can reach them. */
const maxDepth = 120;
/** With more elements open at once reading stops: the parser's work grows with the square of it. */
const maxOpen = 1500;
/** Characters of cleaned HTML that become text. */
const maxWritten = 400_000;

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
    { selector: "table", options: { uppercaseHeaderCells: false } },
    ...["h1", "h2", "h3", "h4", "h5", "h6"].map((selector) => ({ selector, options: { uppercase: false } })),
    { selector: "hr", options: { length: 20 } },
    {
      selector: "blockquote",
      options: { leadingLineBreaks: 2, trailingLineBreaks: 2, trimEmptyLines: true },
    },
  ],
});

/** Everything a reader sees, quotes marked with "> ". A forward's content is left unmarked: it is what the mail is about. */
export function htmlToText(html: string, forward: boolean): string {
  const document = read(html.slice(0, maxHtml));
  prune(document);
  if (!forward) markQuotes(document);
  const clean = getOuterHTML(document, { encodeEntities: "utf8" }).slice(0, maxWritten);
  return cleanText(write(clean)).trim();
}

/** The tree, without comments. Fed in pieces, so that it can stop. */
function read(html: string): Document {
  const handler = new DomHandler();
  let open = 0;
  const parser = new Parser({
    onopentag(name, attributes) {
      open++;
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
  return handler.root;
}

/** Removes what is hidden or too deep, and the attributes that do not matter. Iterative: depth is the sender's choice. */
function prune(document: Document): void {
  const stack: { node: ChildNode; depth: number }[] = document.children.map((node) => ({ node, depth: 0 }));
  for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
    const { node, depth } = next;
    if (!isTag(node)) {
      if (!isText(node)) removeElement(node);
      continue;
    }
    if (depth > maxDepth || isHidden(node)) {
      removeElement(node);
      continue;
    }
    if (node.attribs["style"] !== undefined && node.name !== "blockquote") delete node.attribs["style"];
    for (const child of node.children) stack.push({ node: child, depth: depth + 1 });
  }
}

/** Turns quote containers into blockquotes, and everything else that is no quote but a blockquote (an indent) into a div. */
function markQuotes(document: Document): void {
  const quoted = new Set<ChildNode>();
  const stack: ChildNode[] = [...document.children].reverse();
  for (let node = stack.pop(); node !== undefined; node = stack.pop()) {
    if (!isTag(node) || quoted.has(node)) continue;
    if (isReplyHeader(node)) {
      flatten(wrapFromHere(node), quoted);
    } else if (isQuote(node) && !isForwarded(node)) {
      node.name = "blockquote";
      flatten(node, quoted);
    } else {
      if (node.name === "blockquote") node.name = "div";
      for (let i = node.children.length - 1; i >= 0; i--) stack.push(node.children[i] as ChildNode);
    }
  }
}

/** Quotes in a quote are part of it; one level of "> " tells enough. */
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
  /(?:^|\s)(?:gmail_quote|gmail_attr|gmail_extra_quote|yahoo_quoted|protonmail_quote|tutanota_quote|moz-cite-prefix|zmail_extra|wiseStampQuote|front-blockquote|skiff_quote|hey_quote|fastmail-quote|cite-quote|mail-quote|x_gmail_quote|x_moz-cite-prefix|x_yahoo_quoted|x_protonmail_quote|ms-outlook-mobile-reference-message|mailru-blockquote|gmx_quote|uik-quote|spark_quote|mimestream_quote|airmail_on)(?=\s|$)/i;
const quoteIds =
  /^(?:x_)?(?:yahoo_quoted_\d{1,20}|replyblockquote|mail-editor-reference-message-container|ms-outlook-mobile-body-separator-line|oriMsgHtmlSeperator|isReplyContent|reply139content|origbody|quoted_header)$/i;
/** Outlook's marks: the quote begins here and ends with the parent. */
const replyHeaderIds = /^(?:x_)?(?:divRplyFwdMsg|appendonsend|stopSpelling)$/i;

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
  const { id } = element.attribs;
  return id !== undefined && id.length < 60 && replyHeaderIds.test(id);
}

/** "---------- Forwarded message ---------" at the top of what looks like a quote. */
function isForwarded(element: Element): boolean {
  return isForwardLine(/^[-_\s]{2,40}[^\n-]{4,60}[-_]{2,40}/.exec(topOf(element))?.[0] ?? "");
}

/** The first characters of an element's text. */
function topOf(element: Element): string {
  let text = "";
  const stack: ChildNode[] = [...element.children].reverse();
  for (let node = stack.pop(); node !== undefined && text.length < 200; node = stack.pop()) {
    if (isText(node)) text = (text + node.data.slice(0, 400)).trimStart();
    else if (isTag(node)) stack.push(...node.children.slice(0, 50).reverse());
  }
  return text.slice(0, 200);
}

/** The element and all its later siblings go into one blockquote, which is returned. */
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
