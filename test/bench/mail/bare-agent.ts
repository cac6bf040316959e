// The questions of the bare email scripts to the platform.

import type { Email } from "postal-mime";

/** Sends a JSON body to a path of the platform and returns the JSON of its answer. Rejects when the platform refuses it. */
export type Post = (path: string, body: object) => Promise<Record<string, string>>;

export const headersOf = (key: string) => ({ "agent-secret-key": key, "content-type": "application/json" });

/** Opens a conversation, asks the question and returns the answer. */
export async function answerOf(post: Post, mail: Email): Promise<string> {
  const address = mail.from?.address ?? "";
  const [firstName = address, ...rest] = (mail.from?.name ?? "").split(" ");
  const started = await post("/external/conversations/start", {
    channel: "email",
    firstName,
    lastName: rest.join(" "),
    email: address,
    emailSubject: mail.subject ?? "",
    emailIntroduction: "",
  });
  const answer = await post(`/external/conversations/${started["conversationId"]}/messages`, {
    message: mail.text ?? "",
  });
  return answer["message"] ?? "";
}
