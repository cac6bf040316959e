// Prepares the parts of an HTML message whose meaning depends on position: table cells, raised and lowered
// digits. Without separators "10" and "2" in two cells would read as 102.

import { type ChildNode, type Document, type Element, isTag, isText, Text } from "domhandler";

/** Separates two cells until the text is written, when html.ts replaces it with a tab. A private-use
 *  character, because a tab would be collapsed. */
export const cellMark = "\ue0c1";

/** A row whose cells have more text, blocks or nodes is used for layout: its cells become paragraphs. */
const most = { text: 200, blocks: 4, nodes: 60 };

const blockNames = new Set(["p", "div", "br", "h1", "h2", "h3", "h4", "h5", "h6", "center", "blockquote"]);
const structureNames = new Set(["table", "ul", "ol", "dl", "pre", "hr"]);
const tableNames = new Set(["table", "thead", "tbody", "tfoot", "caption", "tr", "td", "th"]);

/** Converts tables to blocks and separated cells, and `<sup>` and `<sub>` digits to their Unicode forms.
 *  Iterative, because the sender controls the depth. */
export function layOut(document: Document): void {
  const stack: ChildNode[] = [...document.children].reverse();
  for (let node = stack.pop(); node !== undefined; node = stack.pop()) {
    if (!isTag(node)) continue;
    // Parents come first, so a row reads its cells before they are renamed.
    if (node.name === "tr") layOutRow(node);
    else if (node.name === "sup" || node.name === "sub") writeRaised(node);
    else if (node.name === "div" || node.name === "p") dropLastBreak(node);
    if (tableNames.has(node.name)) node.name = "div";
    for (let i = node.children.length - 1; i >= 0; i--) stack.push(node.children[i] as ChildNode);
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
