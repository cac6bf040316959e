// Composes the drafts of a reply: one draft for each text, in the order they are sent.

import type { Json, Reply } from "bridgehead/contract";
import * as z from "zod";
import type { SmsConfig } from "./config.ts";
import { canonicalNumber } from "./numbers.ts";
import type { Provider, TextDraft } from "./provider.ts";
import { textsOf } from "./text/split.ts";

const mostPictures = 10;
const shortest = 20;

/** Pure. Pictures are attached to the last text, so that they arrive after the complete answer. */
export function compose(config: SmsConfig, limits: Provider["limits"], reply: Reply): readonly TextDraft[] {
  const max = Math.max(shortest, Math.min(config.split.max, limits.maxLength));
  const most = config.media.send && limits.media ? mostPictures : 0;
  const { text, pictures } =
    reply.kind === "notice" || reply.plain ? { text: reply.text, pictures: [] } : withoutPictures(reply.text, most);
  const texts = textsOf({ ...reply, text }, { ...config.split, max, target: Math.min(config.split.target, max) });
  const written = reply.to[0]?.address ?? "";
  const to = canonicalNumber(written) ?? written;
  return texts.map((body, at) => ({
    from: reply.from ?? senderFor(to, config.number ?? null),
    to,
    body,
    part: at + 1,
    parts: texts.length,
    media: at === texts.length - 1 ? pictures : [],
    service: config.messaging_service ?? null,
  }));
}

/** Returns our sender address for that recipient when the reply names none. For WhatsApp it is the same
 *  number with the prefix. */
export function senderFor(to: string, number: string | null): string | null {
  const prefix = "whatsapp:";
  return number !== null && to.startsWith(prefix) && number.startsWith("+") ? prefix + number : number;
}

/** Extracts up to `most` publicly available (https) pictures from the Markdown text. Returns them and
 *  the text without them; their descriptions stay in the text. Other pictures become links. */
function withoutPictures(
  markdown: string,
  most: number,
): { readonly text: string; readonly pictures: readonly string[] } {
  const pictures: string[] = [];
  const text = markdown.replace(
    // No character class matches the start of a picture. Each character is examined once, even if a picture
    // is not closed.
    /!\[([^[\]]*)\]\((https?:\/\/[^\s()]+)(?:\s+"[^"]*")?\)/g,
    (_all, words: string, url: string) => {
      if (pictures.length === most || !url.startsWith("https:")) return `[${words}](${url})`;
      pictures.push(url);
      return words;
    },
  );
  return { text, pictures };
}

const draft = z.object({
  from: z.string().nullable(),
  to: z.string().min(1),
  body: z.string(),
  part: z.int(),
  parts: z.int(),
  media: z.array(z.string()),
  service: z.string().nullable(),
});

/** Parses a stored draft. Returns it as it was composed. */
export function readDraft(stored: Json): TextDraft {
  return draft.parse(stored);
}
