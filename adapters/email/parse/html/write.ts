// Writes the tree of an HTML message as text: the settings of html-to-text, the layout of tables and of raised digits, the
// marks of signatures, and the text of messages with very many elements. Without separators "10" and "2" in two cells would
// read as 102.

import { type ChildNode, type Document, Element, isTag, isText, type ParentNode, Text } from "domhandler";
import { compile, type DomNode, type FormatCallback } from "html-to-text";
import { signatureMark } from "../headers.ts";

/** Deeper elements are replaced by their text before any recursion reaches them. */
const maxDepth = 120;
/** Quotes that are nested deeper are not marked. */
const maxQuotes = 10;
/** Characters of text that are written. */
export const maxWritten = 400_000;

/** Writes the nodes that are passed as metadata, so that html-to-text does not parse the HTML a second time. Its published
 *  types omit the metadata. The first call takes the nodes: a further `<tree>` is the sender's, an unknown element. */
const tree: FormatCallback = (element, walk, builder) => {
  const { metadata } = builder as unknown as { readonly metadata: DomNode[][] };
  walk(metadata.pop() ?? element.children, builder);
};

export const write = compile({
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
    ..."dl dt dd center address fieldset legend figure figcaption details summary".split(" ").map((selector) => ({
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

/** Separates two cells until the text is written, with tabs in its place. A private-use character, because a tab
 *  would be collapsed. */
export const cellMark = "\ue0c1";
const paragraphs = new Set("p blockquote h1 h2 h3 h4 h5 h6 ul ol dl pre".split(" "));
const blocks = new Set([
  ...paragraphs,
  ..."div br hr li dt dd center address fieldset legend figure figcaption details summary section article header".split(
    " ",
  ),
  ..."footer main nav aside form body html".split(" "),
]);

/** Writes the text of a message with very many elements, or of an element at `maxDepth`: one line for each block, quotes
 *  with "> ", links with their address. Unlike html-to-text it writes no list marks and collapses whitespace in `<pre>`.
 *  Returns at most `maxWritten` characters. */
export function plainly(parent: ParentNode, mostQuotes = maxQuotes): string {
  const lines: string[] = [];
  let parts: string[] = [];
  let depth = 0;
  let length = 0;
  const endLine = () => {
    const words = parts.join("").replace(/\s+/g, " ").trim();
    parts = [];
    if (words === "") return;
    const line = "> ".repeat(Math.min(depth, mostQuotes)) + words;
    lines.push(line);
    length += line.length;
  };
  const endBlock = (name: string) => {
    if (!blocks.has(name)) return;
    endLine();
    if (paragraphs.has(name) && lines.at(-1) !== "") lines.push("");
  };
  const stack: (ChildNode | { leave: Element })[] = [...parent.children].reverse();
  for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
    if (length >= maxWritten) break;
    if ("leave" in next) {
      const { name, attribs } = next.leave;
      const href = name === "a" ? (attribs["href"] ?? "").slice(0, 2000).replace(/^mailto:/i, "") : "";
      if (href !== "" && !href.startsWith("#") && parts.at(-1)?.trim() !== href) parts.push(` [${href}]`);
      endBlock(name);
      if (name === "blockquote") depth--;
    } else if (isText(next)) parts.push(next.data);
    else if (isTag(next)) {
      endBlock(next.name);
      if (next.name === "blockquote") depth++;
      stack.push({ leave: next });
      for (const child of next.children.toReversed()) stack.push(child);
    }
  }
  endLine();
  return lines.join("\n").slice(0, maxWritten);
}

/** Replaces the content of elements at `maxDepth` by its text, and quotes inside of `maxQuotes` quotes by their content.
 *  html-to-text is recursive and writes the text of a quote again for each quote around it. */
export function limitDepth(document: Document): void {
  const stack: { readonly parent: ParentNode; readonly depth: number; readonly quotes: number }[] = [];
  stack.push({ parent: document, depth: 0, quotes: 0 });
  for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
    const { parent, depth, quotes } = next;
    const elements = parent.children.filter(isTag);
    if (depth < maxDepth)
      for (const element of elements) {
        const isQuoted = element.name === "blockquote";
        if (isQuoted && quotes === maxQuotes) element.name = "div";
        stack.push({ parent: element, depth: depth + 1, quotes: Math.min(quotes + (isQuoted ? 1 : 0), maxQuotes) });
      }
    else if (elements.length > 0) {
      layOut(parent);
      const lines = plainly(parent, maxQuotes - quotes).split("\n");
      setChildren(
        parent,
        lines.flatMap((line) => [new Text(line), new Element("br", {})]),
      );
    }
  }
}

/** Yields the elements in document order, each before its children. Iterative, because the sender controls the depth. */
export function* elementsIn(parent: ParentNode): Generator<Element> {
  const stack: ChildNode[] = [...parent.children].reverse();
  for (let node = stack.pop(); node !== undefined; node = stack.pop()) {
    if (!isTag(node)) continue;
    yield node;
    pushChildren(node, stack);
  }
}

/** Adds the children of an element to a stack, the first on top. */
export function pushChildren(node: Element, stack: (ChildNode | { leave: Element })[]): void {
  for (let i = node.children.length - 1; i >= 0; i--) stack.push(node.children[i] as ChildNode);
}

/** Converts tables, and `<sup>` and `<sub>` digits. */
export function layOut(parent: ParentNode): void {
  // Parents come first, so a row reads its cells before they are renamed.
  for (const element of elementsIn(parent)) {
    if (element.name === "div" || element.name === "p") dropLastBreak(element);
    else if (needsLayout.has(element.name)) layOutElement(element);
  }
}

/** Removes the line break at the end of a block with other content, because it is not visible. */
function dropLastBreak(block: Element): void {
  const last = block.children.findLastIndex((child) => !isText(child) || child.data.trim() !== "");
  const node = block.children[last];
  if (last > 0 && node !== undefined && isTag(node) && node.name === "br") block.children.splice(last, 1);
}

/** Elements that `layOutElement` converts. */
const needsLayout = new Set("table thead tbody tfoot caption tr td th sup sub".split(" "));

/** Converts a part of a table to a block, a row to separated cells, and `<sup>` and `<sub>` digits to their Unicode forms. */
function layOutElement(element: Element): void {
  if (element.name === "tr") layOutRow(element);
  else if (element.name === "sup" || element.name === "sub") return writeRaised(element);
  element.name = "div";
}

/** A row whose cells have more text, blocks or nodes is used for layout: its cells become paragraphs. */
const most = { text: 200, blocks: 4, nodes: 60 };

const blockNames = new Set(["p", "div", "br", "h1", "h2", "h3", "h4", "h5", "h6", "center", "blockquote"]);
const structureNames = new Set(["table", "ul", "ol", "dl", "pre", "hr"]);

/** Returns the number of characters in a cell; null when it is too large or has its own structure.
 *  Inspects a limited number of nodes. */
function textOfCell(cell: Element): number | null {
  const seen = { text: 0, blocks: 0, nodes: 0 };
  const stack: ChildNode[] = [cell];
  for (let node = stack.pop(); node !== undefined; node = stack.pop()) {
    if (isText(node)) seen.text += node.data.length > 5 * most.text ? node.data.length : node.data.trim().length;
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

/** Puts the blocks of a cell on one line, separated by a space. The cell is small, so the line is short as well. */
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
  if (/^[0-9+\-=()−]+$/.test(words)) first.data = words.replace(/./g, (char) => forms.charAt(flat.indexOf(char)));
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

export function setChildren(parent: ParentNode, children: ChildNode[]): void {
  parent.children = children;
  for (const [at, child] of children.entries()) {
    child.parent = parent;
    child.prev = children[at - 1] ?? null;
    child.next = children[at + 1] ?? null;
  }
}

/** Part of the class, id or name of a container with a signature: gmail_signature, Signature (Outlook), ms-outlook-mobile-signature,
 *  AppleMailSignature, moz-signature, ydp1a2b3csignature (Yahoo), protonmail_signature_block, io-ox-signature,
 *  messageSignatureSection (Spark), _rc_sig (Roundcube), __SIG_PRE__ (Zimbra), bloop_sign (Airmail), Zm-_Id_-Sgn (Zoho). Outlook writes "x_" in front
 *  of those in the messages that it quotes. */
const signatureNames = /(?:^|\s)(?!x_)\S{0,60}?(?:signature|_rc_sig|__SIG_|bloop_sign|zm-_id_-sgn(?=\s|$))/i;
const signatureAttributes = ["class", "id", "name", "data-marker"];
/** Other elements are inside of a line. Tables are `div` when they are laid out. */
const signatureContainers = new Set(["div", "p", "section", "signature"]);

/** Marks each piece of text in such a container, outside of quotes. Iterative, because the sender controls the depth. */
export function markSignatures(document: Document): void {
  const stack: { readonly node: ChildNode; readonly inside: boolean }[] = [];
  const push = (nodes: readonly ChildNode[], inside: boolean) => {
    for (const node of nodes) stack.push({ node, inside });
  };
  push(document.children, false);
  for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
    const { node, inside } = next;
    if (isText(node)) {
      if (inside && node.data.trim() !== "") node.data = signatureMark + node.data;
    } else if (isTag(node) && node.name !== "blockquote") push(node.children, inside || isSignature(node));
  }
}

function isSignature({ name, attribs }: Element): boolean {
  if (!signatureContainers.has(name)) return false;
  if (attribs["data-signature-widget"] !== undefined) return true;
  return (
    name === "signature" || signatureAttributes.some((key) => signatureNames.test((attribs[key] ?? "").slice(0, 500)))
  );
}
