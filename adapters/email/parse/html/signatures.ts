// Marks the text of the containers in which mail clients put a signature.

import { type ChildNode, type Document, type Element, isTag, isText } from "domhandler";
import { signatureMark } from "../headers.ts";

/** Part of the class, id or name of such a container: gmail_signature, Signature (Outlook), ms-outlook-mobile-signature,
 *  AppleMailSignature, moz-signature, ydp1a2b3csignature (Yahoo), protonmail_signature_block, io-ox-signature,
 *  messageSignatureSection (Spark), _rc_sig (Roundcube), __SIG_PRE__ (Zimbra), bloop_sign (Airmail). Outlook writes "x_" in front
 *  of those in the messages that it quotes. */
const names = /(?:^|\s)(?!x_)\S{0,60}?(?:signature|_rc_sig|__SIG_|bloop_sign)/i;
const attributes = ["class", "id", "name", "data-marker"];
/** Other elements are inside of a line. Tables are `div` when they are laid out. */
const containers = new Set(["div", "p", "section", "signature"]);

/** Marks each piece of such text outside of quotes. Iterative, because the sender controls the depth. */
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
    } else if (isTag(node) && node.name !== "blockquote") push(node.children, inside || isContainer(node));
  }
}

function isContainer({ name, attribs }: Element): boolean {
  if (!containers.has(name)) return false;
  if (attribs["data-signature-widget"] !== undefined) return true;
  return name === "signature" || attributes.some((key) => names.test((attribs[key] ?? "").slice(0, 500)));
}
