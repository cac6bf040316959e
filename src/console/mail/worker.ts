// The worker thread that parses one mail and sanitizes its HTML part.

import { isMainThread, parentPort, workerData } from "node:worker_threads";
import PostalMime from "postal-mime";
import sanitizeHtml from "sanitize-html";

/** Characters of the HTML part that are read. */
const mostCharacters = 400_000;

/** Elements that format text. Everything else is removed; its text stays, except that of scripts and styles. */
const formatting = [
  "a b blockquote br center code dd del div dl dt em font h1 h2 h3 h4 h5 h6 hr i ins li ol p pre q s small span strike strong",
  "sub sup table tbody td tfoot th thead tr tt u ul",
].flatMap((line) => line.split(" "));

/** Returns HTML without anything that runs, loads or leaves the page. An address of a link becomes its title; an image is
 *  replaced by its description. */
export function sanitized(html: string): string {
  return sanitizeHtml(html.slice(0, mostCharacters), {
    allowedTags: formatting,
    allowedAttributes: {
      td: ["align", "valign", "colspan", "rowspan"],
      th: ["align", "valign", "colspan", "rowspan"],
      table: ["align"],
      span: ["title"],
      "*": ["dir"],
    },
    allowedSchemes: [],
    allowProtocolRelative: false,
    disallowedTagsMode: "discard",
    nestingLimit: 40,
    parseStyleAttributes: false,
    transformTags: {
      a: (_tag, { href }) => ({
        tagName: "span",
        attribs: href === undefined ? {} : { title: href.slice(0, 500) },
      }),
      img: (_tag, { alt }) => ({
        tagName: "span",
        attribs: {},
        text: `[image${alt === undefined || alt === "" ? "" : `: ${alt.slice(0, 200)}`}]`,
      }),
    },
  });
}

export interface MailJob {
  readonly raw: Uint8Array;
}

export type MailResult = { readonly html: string | null } | { readonly problem: string };

async function read({ raw }: MailJob): Promise<MailResult> {
  const { html } = await PostalMime.parse(raw, { maxNestingDepth: 50 });
  return { html: html === undefined ? null : sanitized(html) };
}

if (!isMainThread) {
  const result = await read(workerData as MailJob).catch((error: unknown): MailResult => ({ problem: String(error) }));
  parentPort?.postMessage(result);
}
