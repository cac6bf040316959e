// What the elements of an HTML message are: parts that a reader cannot see, and quotes of other messages. Hidden text
// can carry instructions to the agent that no person has read.

import { type ChildNode, type Document, Element, isTag, isText } from "domhandler";
import { addressesIn, isForwardLine } from "../quotes/lines.ts";
import type { TrimOptions } from "../quotes/trim.ts";
import { type Colour, type CssRules, colourOf, contrast, isVivid, white } from "./css.ts";

/** Elements that are never shown or contain no text. */
const silent = new Set(
  [
    "head",
    "style",
    "script",
    "template",
    "noscript",
    "iframe",
    "object",
    "embed",
    "svg",
    "math",
    "canvas",
    "audio",
    "video",
  ].concat([
    "meta",
    "link",
    "title",
    "base",
    "map",
    "select",
    "textarea",
    "input",
    "button",
    "applet",
    "frameset",
    "noframes",
    "dialog",
  ]),
);
/** Class names that style sheets of messages use to hide elements. */
const hidingClasses =
  /(?:^|\s)(?:hidden|hide|d-none|invisible|sr-only|visually-hidden|visuallyhidden|preheader|preview-text|mcnpreviewtext|display-none|screen-reader-text|is-hidden|u-hidden)(?=\s|$)/;

/** The style of text in an element; children inherit it. */
export interface TextStyle {
  readonly visible: boolean;
  /** Pixels. */
  readonly size: number;
  /** The text colour; null when it is unknown or not set. */
  readonly ink: Colour | null;
  /** The background colour; null when unknown, such as an image. */
  readonly paper: Colour | null;
  readonly link: boolean;
}

/** The default style of a mail client. */
export const plainLook: TextStyle = { visible: true, size: 16, ink: null, paper: white, link: false };

/** True when the element and all its content are invisible. */
export function isHidden(element: Element, rules: CssRules): boolean {
  if (silent.has(element.name)) return true;
  const { hidden, class: classes, type } = element.attribs;
  if (hidden !== undefined || element.attribs["aria-hidden"]?.trim().toLowerCase() === "true") return true;
  if (type?.toLowerCase() === "hidden") return true;
  if (classes !== undefined && hidingClasses.test(classes.slice(0, 500).toLowerCase())) return true;
  if (isZero(element.attribs["width"]) && isZero(element.attribs["height"])) return true;
  return rules.size > 0 && hidesByStyle(rules);
}

/** Returns the style of the text in an element; `parent` is the style around it. Children can override
 *  all of it, except what `isHidden` detects. */
export function lookOf(element: Element, rules: CssRules, parent: TextStyle): TextStyle {
  const { bgcolor, background, text, color, size } = element.attribs;
  const link = parent.link || element.name === "a";
  if (rules.size === 0 && bgcolor === undefined && background === undefined && text === undefined) {
    if (element.name !== "font") return link === parent.link ? parent : { ...parent, link };
  }
  let { visible, ink, paper } = parent;
  const visibility = rules.get("visibility");
  if (visibility !== undefined) visible = !/^(?:hidden|collapse)/.test(visibility);
  if (element.name === "body" && text !== undefined) ink = colourOf(text, ink);
  if (element.name === "font" && color !== undefined) ink = colourOf(color, ink);
  const own = rules.get("-webkit-text-fill-color") ?? rules.get("color");
  if (own !== undefined) ink = colourOf(own, ink);
  if (bgcolor !== undefined) paper = colourOf(bgcolor, paper);
  if (background !== undefined) paper = null;
  for (const name of ["background", "background-color"]) {
    const value = rules.get(name);
    if (value !== undefined) paper = paperOf(value, paper);
  }
  let px = sizeOf(rules, parent.size);
  if (element.name === "font" && size !== undefined && rules.get("font-size") === undefined)
    px = isZero(size) ? 0 : Math.max(px, 10);
  return { visible, size: px, ink, paper, link };
}

/** Text with lower contrast counts as hidden. Light grey on white, as in footers, is above this value. */
const leastContrast = 1.2;
/** Text smaller than this many pixels counts as hidden. */
const leastSize = 2.4;

/** True when a reader sees text of this style. `colours`: whether colours are compared. */
export function isReadable({ visible, size, ink, paper }: TextStyle, colours: boolean): boolean {
  if (!visible || size < leastSize) return false;
  if (ink === null || !colours) return true;
  if (ink.alpha < 0.06) return false;
  return paper === null || contrast(ink, paper) >= leastContrast;
}

/** True for text in a strong colour, which customers use to separate their answers from our text around
 *  them. Links do not count, because they have a default colour. */
export function isColoured({ ink, link }: TextStyle): boolean {
  return ink !== null && !link && isVivid(ink);
}

/** Returns the background colour. A transparent background returns the parent's; images and gradients
 *  are unknown. */
function paperOf(value: string, parent: Colour | null): Colour | null {
  if (/url\(|gradient/.test(value)) return null;
  if (/^(?:none|inherit|initial|unset|transparent|0)\b/.test(value)) return parent;
  const colour = colourOf(/(?:#|rgb|hsl)[^;!]{0,60}|^[a-z]{3,22}/.exec(value)?.[0] ?? "", null);
  return colour !== null && colour.alpha < 0.3 ? parent : colour;
}

function sizeOf(rules: CssRules, parent: number): number {
  const value =
    rules.get("font-size") ??
    /(?:^|\s)(\d{0,4}\.?\d{1,4}(?:px|pt|em|rem|%|vw)?)(?:\/|\s)/.exec(rules.get("font") ?? "")?.[1];
  if (value === undefined) return parent;
  const [, number, unit] =
    /^(?:calc\(\s{0,5})?(\d{0,6}\.?\d{0,6})\s{0,3}(px|pt|em|rem|ex|ch|%|vw|vh|pc|in|cm|mm|q)?/.exec(value) ??
    [];
  if (number === undefined || number === "" || number === ".")
    return /^(?:xx|x-|sma|med|lar|init)/.test(value) ? 16 : parent;
  const amount = Number(number);
  if (unit === "em" || unit === "ex" || unit === "ch") return amount * parent;
  if (unit === "%") return (amount / 100) * parent;
  if (unit === undefined || unit === "px") return amount;
  // The other units are all larger than a pixel.
  return unit === "rem" ? amount * 16 : amount * 1.33;
}

const isZero = (value: string | undefined) =>
  value !== undefined && /^\s{0,4}0+(?:\.0*)?(?:px|%)?\s{0,4}$/.test(value.slice(0, 20));

function hidesByStyle(rules: CssRules): boolean {
  const is = (name: string, test: RegExp) => {
    const value = rules.get(name);
    return value !== undefined && test.test(value);
  };
  return (
    is("display", /^none/) ||
    is("mso-hide", /^all/) ||
    is("content-visibility", /^hidden/) ||
    isFaint(rules.get("opacity")) ||
    isFaint(rules.get("zoom")) ||
    is("transform", /scale(?:x|y|3d)?\(0(?:[.)\s,]0*|\))/) ||
    is("filter", /opacity\(0|opacity=0\)/) ||
    is("clip", /^rect\((?:0(?:px)?|1px)[\s,]/) ||
    is("clip-path", /^inset\((?:50|100)%|^circle\(0|^polygon\(0(?:px)?\s0/) ||
    isOffScreen(rules) ||
    isSqueezed(rules)
  );
}

/** True for a fraction (`0.02`, `2%`) so small that nothing is visible. */
function isFaint(value: string | undefined): boolean {
  const share = Number.parseFloat(value ?? "") / (value?.includes("%") ? 100 : 1);
  return share < 0.06;
}

const zero = /^[01](?:px|pt)?(?:!|\s|$)|^0(?:em|rem|%|vh|vw)?(?:!|\s|$)/;
const farAway = /^-\d{3,}/;

function isOffScreen(rules: CssRules): boolean {
  const far = (name: string) => farAway.test(rules.get(name) ?? "");
  if (
    far("text-indent") ||
    far("margin-left") ||
    far("margin-top") ||
    /translate[xy3d]{0,2}\(\s{0,4}-\d{3,}/.test(rules.get("transform") ?? "")
  )
    return true;
  return (
    /^(?:absolute|fixed|relative)/.test(rules.get("position") ?? "") &&
    ["left", "top", "right", "bottom"].some(far)
  );
}

/** True when a dimension of the box is zero and its overflow is hidden. */
function isSqueezed(rules: CssRules): boolean {
  if (!/^hidden|^clip/.test(rules.get("overflow") ?? "")) return false;
  return ["height", "max-height", "width", "max-width", "line-height"].some((name) =>
    zero.test(rules.get(name) ?? ""),
  );
}

/** Converts quote containers to blockquotes, and other blockquotes (indents) to divs. */
export function markQuotes(document: Document, options: TrimOptions): void {
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

/** Adds the children of an element to a stack, the first on top. */
export function pushChildren(node: Element, stack: (ChildNode | { leave: Element })[]): void {
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
