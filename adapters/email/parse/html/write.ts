// Writes the tree of an HTML message as text: the settings of html-to-text, the layout of tables and of raised digits, and
// the text of messages with very many elements. Without separators "10" and "2" in two cells would read as 102.

import { type ChildNode, type Document, type Element, isTag, isText, Text } from "domhandler";
import { compile, type DomNode, type FormatCallback } from "html-to-text";

/** Deeper elements are dropped before any recursion reaches them. */
export const maxDepth = 120;
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

/** Writes the text of a message with very many elements: one line for each block, quotes with "> ",
 *  links with their address. Unlike html-to-text it writes no list marks and collapses whitespace in
 *  `<pre>`. Returns at most `maxWritten` characters. */
export function plainly(document: Document): string {
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
      for (const child of next.children.toReversed()) stack.push(child);
    }
  }
  endLine();
  return lines.join("\n").slice(0, maxWritten);
}

/** Elements that `layOutElement` converts. */
export const needsLayout = new Set("table thead tbody tfoot caption tr td th sup sub".split(" "));

/** Converts a part of a table to a block, a row to separated cells, and `<sup>` and `<sub>` digits to their Unicode forms. */
export function layOutElement(element: Element): void {
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

function setChildren(parent: Element, children: ChildNode[]): void {
  parent.children = children;
  for (const [at, child] of children.entries()) {
    child.parent = parent;
    child.prev = children[at - 1] ?? null;
    child.next = children[at + 1] ?? null;
  }
}
