// Parses an email as the demo's customer sees it.

import PostalMime from "postal-mime";

export interface ReplyMail {
  readonly messageId: string;
  readonly subject: string;
  readonly text: string;
}

/** `raw` is the message as received, one character per byte (latin1). */
export async function readReply(raw: string): Promise<ReplyMail> {
  const { messageId = "", subject = "", text = "" } = await PostalMime.parse(Buffer.from(raw, "latin1"));
  return { messageId, subject, text };
}
