// Converts HTML messages to text. The first pass works on the tree: it removes hidden parts, turns the quote containers of
// mail clients into blockquotes, and tables into lines. Then html-to-text writes the text, with quotes marked by "> ", so
// that one rule trims text and HTML alike.

import { type ChildNode, type Document, DomHandler, Element, isTag, isText, Text } from "domhandler";
import { removeElement, replaceElement } from "domutils";
import { Parser } from "htmlparser2";
import { cleanText, findMarkers, signatureMark } from "../headers.ts";
import { addressesIn, isForwardLine, scan } from "../quotes/lines.ts";
import { isWarning, isWordless, type TrimOptions } from "../quotes/trim.ts";
import {
  type CssRules,
  declarations,
  type ElementCounts,
  enter,
  isRelevant,
  readStyleSheet,
  type StyleSheet,
} from "./css.ts";
import {
  hidesByStyle,
  isColoured,
  isReadable,
  isStyled,
  isZero,
  linkLook,
  lookOf,
  plainLook,
  type TextStyle,
} from "./visibility.ts";
import {
  cellMark,
  elementsIn,
  layOut,
  limitDepth,
  markSignatures,
  maxWritten,
  plainly,
  pushChildren,
  setChildren,
  write,
} from "./write.ts";

/** Characters of HTML that are read; the rest is truncated. */
const maxHtml = 2_000_000;
/** Parsing begins anew when more elements are open at once: the parser's work is quadratic in this number. */
const maxOpen = 1500;
/** With more elements `plainly` writes the text, because html-to-text takes several times as long. With the texts between
 *  them an element then has fewer than `maxChildNodes` children. */
const maxElements = 9_999;

export interface HtmlText {
  /** All visible text. Quotes are marked with "> ", and the text of signature containers with `signatureMark`, unless the
   *  message is a forward or has answers inside its quotes. */
  readonly text: string;
  /** True when the HTML or its text is longer than the limits, so that the end of the text is missing. */
  readonly isCut: boolean;
  /** True when coloured text inside a quoted message contains the customer's answers. */
  readonly inlineAnswers: boolean;
}

/** Marks coloured text until the position of the quote is known. A private-use character, which is
 *  removed from the sender's text. */
const colourMark = "\ue0c0";

/** Converts an HTML body. `options` describe what the message answers, which determines what counts as a quote. */
export function htmlToText(html: string, options: TrimOptions): HtmlText {
  const { text, isCut } = written(html, options);
  const plain = text.replaceAll(colourMark, "");
  if (text === plain || options.relation === "forward" || !hasColouredQuote(text, plain, options))
    return { text: plain, isCut, inlineAnswers: false };
  const unmarked = written(html, { ...options, relation: "forward" }).text.replaceAll(colourMark, "");
  return { text: unmarked, isCut, inlineAnswers: true };
}

type Written = Pick<HtmlText, "text" | "isCut">;

const cellMarks = new RegExp(` {0,8}${cellMark} {0,8}`, "g");
const privateMarks = new RegExp(`[${colourMark}${cellMark}${signatureMark}]`, "g");

function written(html: string, options: TrimOptions): Written {
  const shown = writtenAs(html, options, true);
  if (!/color/i.test(html) || !hasNoWords(shown)) return shown;
  // A mail client in dark mode can send white text without its background. When there is no other text than a quote or
  // a signature, this is the message. Such text inside a quote alone stays removed, because it is not the sender's.
  const all = writtenAs(html, options, false);
  return shown.text === "" || !hasNoWords(all) ? all : shown;
}

const hasNoWords = ({ text }: Written) => text === "" || isWordless(text.replaceAll(colourMark, ""));

function writtenAs(html: string, options: TrimOptions, colours: boolean): Written {
  const { document, elements, hasSheet } = read(html.slice(0, maxHtml));
  prune(document, hasSheet ? readStyleSheet(styleTexts(document)) : null, colours);
  limitDepth(document);
  if (options.relation !== "forward") markQuotes(document, options);
  layOut(document);
  if (options.relation !== "forward") markSignatures(document);
  const all = elements > maxElements ? plainly(document) : write("<tree>", [bodyIn(document)]);
  const text = cleanText(all.slice(0, maxWritten))
    .replace(cellMarks, "\t")
    .replace(/\n[ \n]{1,500}(?=\n)/g, "\n")
    .trim();
  return { text, isCut: html.length > maxHtml || all.length >= maxWritten };
}

/** Returns the first body element, or all nodes of a document without one. */
function bodyIn(document: Document): readonly ChildNode[] {
  for (const element of elementsIn(document)) if (element.name === "body") return [element];
  return document.children;
}

/** True when a coloured line is marked as a quote, or follows the start of an unmarked quote. */
function hasColouredQuote(text: string, plain: string, options: TrimOptions): boolean {
  const lines = scan(plain.replaceAll(signatureMark, "").split("\n"), {
    tails: options.relation === "ours",
    isOwn: options.isOwn ?? (() => true),
  });
  const tail = lines.findIndex((line) => line.kind === "tail");
  return text
    .split("\n")
    .some((line, at) => line.includes(colourMark) && (lines[at]?.kind === "quote" || (tail >= 0 && at > tail)));
}

interface ReadHtml {
  /** Without comments. */
  readonly document: Document;
  readonly elements: number;
  readonly hasSheet: boolean;
}

/** Too many open elements end a piece of the document. The next piece follows it as if they had been closed. */
function read(html: string): ReadHtml {
  const handler = new DomHandler();
  const nodes: ChildNode[] = [];
  let elements = 0;
  let hasSheet = false;
  /** Returns the place at which it has stopped. */
  const readPiece = (from: number): number => {
    let open = 0;
    const parser = new Parser({
      onopentag(name, attributes) {
        open++;
        elements++;
        hasSheet ||= name === "style";
        handler.onopentag(name, attributes);
      },
      onclosetag() {
        open--;
        handler.onclosetag();
      },
      ontext: (text) => handler.ontext(text),
    });
    const tooMany = () => open >= maxOpen;
    let at = from;
    while (at < html.length && !tooMany()) {
      const slice = html.slice(at, at + 4096);
      const whole = slice.slice(0, slice.lastIndexOf(">") + 1) || slice;
      parser.write(whole);
      at += whole.length;
    }
    parser.end();
    handler.onend();
    for (const node of handler.root.children) nodes.push(node);
    handler.onreset();
    return at;
  };
  for (let at = 0; at < html.length; ) at = readPiece(at);
  setChildren(handler.root, nodes);
  return { document: handler.root, elements, hasSheet };
}

/** Removes elements that are hidden, and attributes that are not needed. Iterative, because the sender controls the
 *  depth. `colours`: text in the colour of its background counts as hidden. */
function prune(document: Document, sheet: StyleSheet | null, colours: boolean): void {
  const path: ElementCounts = new Map();
  type Step = { node: ChildNode; look: TextStyle } | { leave: Element };
  const stack: Step[] = document.children.map((node) => ({ node, look: plainLook }));
  for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
    if ("leave" in next) {
      enter(path, next.leave, -1);
      continue;
    }
    const { node, look } = next;
    if (isText(node)) {
      if (node.data.trim() === "") continue;
      node.data = node.data.replace(privateMarks, "");
      if (look === plainLook || look === linkLook) continue;
      if (!isReadable(look, colours)) removeElement(node);
      else if (isColoured(look) && !isWarning(node.data)) node.data = colourMark + node.data;
      continue;
    }
    if (!isTag(node)) {
      removeElement(node);
      continue;
    }
    if (node.name === "img" && emoji.test(node.attribs["alt"] ?? "")) {
      const text = new Text(node.attribs["alt"] ?? "");
      replaceElement(node, text);
      stack.push({ node: text, look });
      continue;
    }
    const rules = sheet === null ? styleOf(node) : sheet.rulesOf(node, path);
    if (isHidden(node) || (rules.size > 0 && hidesByStyle(rules))) {
      removeElement(node);
      continue;
    }
    // Outlook's paragraphs have no space between them.
    if (node.name === "p" && node.attribs["class"]?.startsWith("Mso") === true) node.name = "div";
    const inside = insideOf(node, rules, look);
    if (node.attribs["style"] !== undefined && node.name !== "blockquote") delete node.attribs["style"];
    if (sheet?.needsPath) {
      enter(path, node, 1);
      stack.push({ leave: node });
    }
    for (const child of node.children) stack.push({ node: child, look: inside });
  }
}

/** Gmail sends an emoji as a picture with the emoji as its text. */
const emoji = /^(?:\p{Extended_Pictographic}|\p{EMod}|\p{RI}|\u200d|\ufe0f){1,20}$/u;

const noRules: CssRules = new Map();

const styleOf = ({ attribs: { style } }: Element): CssRules =>
  style !== undefined && isRelevant(style) ? declarations(style) : noRules;

function insideOf(element: Element, rules: CssRules, look: TextStyle): TextStyle {
  if (isStyled(element, rules)) return lookOf(element, rules, look);
  if (element.name !== "a" || look.link) return look;
  return look === plainLook ? linkLook : { ...look, link: true };
}

/** Elements that are never shown or contain no text. */
const silent = new Set([
  ..."head style script template noscript iframe object embed noembed svg math canvas audio video meta".split(" "),
  ..."link title base map select datalist textarea input button progress meter applet frameset noframes".split(" "),
  "dialog",
]);
/** Class names that style sheets of messages use to hide elements. */
const hidingClasses =
  /(?:^|\s)(?:hidden|hide|d-none|invisible|sr-only|visually-hidden|visuallyhidden|preheader|preview-text|mcnpreviewtext|display-none|screen-reader-text|is-hidden|u-hidden)(?=\s|$)/;

/** True when the element and all its content are invisible, regardless of style. */
function isHidden({ name, attribs }: Element): boolean {
  if (silent.has(name)) return true;
  const { hidden, class: classes, type, width, height } = attribs;
  if (hidden !== undefined || attribs["aria-hidden"]?.trim().toLowerCase() === "true") return true;
  if (type?.toLowerCase() === "hidden") return true;
  if (classes !== undefined && hidingClasses.test(classes.slice(0, 500).toLowerCase())) return true;
  return isZero(width) && isZero(height);
}

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
  // An author who deletes the quoted message leaves this mark, and can write on below it.
  if (sender === undefined) return header.attribs["id"]?.endsWith("appendonsend") !== true;
  return isOwn === undefined || isOwn(sender);
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
  /(?:^|\s)(?:gmail_quote|gmail_attr|gmail_extra_quote|(?:ydp[\da-z]{1,12})?yahoo_quoted|protonmail_quote|tutanota_quote|moz-cite-prefix|zmail_extra|wiseStampQuote|front-blockquote|skiff_quote|hey_quote|fastmail-quote|cite-quote|mail-quote|x_gmail_quote|x_moz-cite-prefix|x_yahoo_quoted|x_protonmail_quote|mailru-blockquote|gmx_quote|uik-quote|spark_quote|mimestream_quote|airmail_on)(?=\s|$)/i;
const quoteIds =
  /^(?:x_)?(?:yahoo_quoted_\d{1,20}|replyblockquote|ms-outlook-mobile-body-separator-line|oriMsgHtmlSeperator|isReplyContent|reply139content|origbody|quoted_header)$/i;
/** Outlook's marks: the quote begins here and ends with the parent element. */
const replyHeaderIds = /^(?:x_)?(?:divRplyFwdMsg|appendonsend|stopSpelling|mail-editor-reference-message-container)$/i;

function isQuote(element: Element): boolean {
  const { class: classes, id, type, name, cite, style } = element.attribs;
  if (classes !== undefined && quoteClasses.test(classes.slice(0, 500))) return true;
  if (id !== undefined && id.length < 100 && quoteIds.test(id)) return true;
  if (name !== undefined && /^(?:quote|messageReplySection|ActiveMailReplySection)$/i.test(name)) return true;
  if (element.name !== "blockquote") return false;
  return (
    type?.toLowerCase() === "cite" ||
    cite !== undefined ||
    /border-left\s{0,4}:\s{0,4}[^;]{0,60}(?:solid|[1-9]px)/i.test((style ?? "").slice(0, 1000)) ||
    findMarkers(bottomOf(element)).length > 0
  );
}

function isReplyHeader(element: Element): boolean {
  const { id, class: classes } = element.attribs;
  if (classes !== undefined && /(?:^|\s)ms-outlook-mobile-reference-message(?:\s|$)/.test(classes.slice(0, 500)))
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

/** Returns the last characters of an element's text, where our marker is. */
function bottomOf(element: Element): string {
  let text = "";
  const stack: ChildNode[] = [...element.children];
  for (let node = stack.pop(); node !== undefined && text.length < 200; node = stack.pop()) {
    if (isText(node)) text = (node.data.slice(-400) + text).trimEnd();
    else if (isTag(node)) stack.push(...node.children.slice(-50));
  }
  return text.slice(-200);
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

function styleTexts(document: Document): string {
  const texts: string[] = [];
  for (const element of elementsIn(document))
    if (element.name === "style" && texts.length < 100) texts.push(textIn(element));
  return texts.join("\n");
}

const textIn = (element: Element): string =>
  element.children.map((child) => (isText(child) ? child.data : "")).join("");
