// What the demo's customer sees of a mail.

import PostalMime from "postal-mime";

export interface ReplyMail {
  readonly messageId: string;
  readonly subject: string;
  readonly text: string;
}

/** `raw`: the mail as the server took it, one character a byte. */
export async function readReply(raw: string): Promise<ReplyMail> {
  const { messageId = "", subject = "", text = "" } = await PostalMime.parse(Buffer.from(raw, "latin1"));
  return { messageId, subject, text };
}
