// What becomes of a reply: one draft for each text, in the order they are sent.

import type { Json, Reply } from "bridgehead/contract";
import * as z from "zod";
import type { SmsConfig } from "./config.ts";
import { canonicalNumber } from "./numbers.ts";
import type { Provider, TextDraft } from "./provider.ts";
import { textsOf } from "./text/index.ts";

const mostPictures = 10;
const shortest = 20;

/** Pure. Pictures go with the last text, so that they come when everything has been said. */
export function compose(config: SmsConfig, limits: Provider["limits"], reply: Reply): readonly TextDraft[] {
  const max = Math.max(shortest, Math.min(config.split.max, limits.maxLength));
  const taken =
    config.media.send && limits.media && reply.kind !== "notice" ? withoutPictures(reply.text) : null;
  const texts = textsOf(taken === null ? reply : { ...reply, text: taken.text }, {
    ...config.split,
    max,
    target: Math.min(config.split.target, max),
  });
  const to = reply.to[0]?.address ?? "";
  return texts.map((body, at) => ({
    from: config.number ?? null,
    to: canonicalNumber(to) ?? to,
    body,
    part: at + 1,
    parts: texts.length,
    media: at === texts.length - 1 ? (taken?.pictures ?? []) : [],
    service: config.messaging_service ?? null,
  }));
}

/** Pictures of the Markdown text that anybody can fetch, and the text without them, their words kept. */
function withoutPictures(markdown: string): { readonly text: string; readonly pictures: readonly string[] } {
  const pictures: string[] = [];
  const text = markdown.replace(
    /!\[([^\]]*)\]\((https:\/\/[^\s)]+)(?:\s+"[^"]*")?\)/g,
    (all, words: string, url: string) => {
      if (pictures.length === mostPictures || !URL.canParse(url)) return all;
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

/** A stored draft, as it was composed. */
export function readDraft(stored: Json): TextDraft {
  return draft.parse(stored);
}
