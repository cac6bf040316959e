// The platform of the email, text and call measurements: answers every question at once with the same text.

import type { IncomingMessage, ServerResponse } from "node:http";

export interface PlatformStub {
  serve(request: IncomingMessage, response: ServerResponse): void;
  /** Questions received so far. */
  asked(): number;
  /** Answers every later question with this text; null: with the usual one. With `escalatingAnswer` the agent's settings
   *  have an escalation as well. */
  answerWith(text: string | null): void;
  /** Delays every later answer by `ms` milliseconds. */
  answerAfter(ms: number): void;
}

/** The answer with which the agent escalates. */
export const escalatingAnswer = "A colleague will contact you shortly.";

/** The start of the answer to a caller. */
export const firstWords = "Your order";

const skills = [
  { systemName: "EMAIL", status: "active", email: "support@example.com", responseDelaySeconds: null },
  { systemName: "SMS", status: "active", phoneNumber: "+15550100", responseDelaySeconds: null },
  { systemName: "VOICE", status: "active" },
];
/** Only while the agent escalates: with it the daemon polls every conversation. */
const escalation = {
  systemName: "ESCALATION",
  status: "active",
  escalations: [
    {
      topic: "person",
      escalationPrompt: "asks for a person",
      autoChangeConversationMode: false,
      response: escalatingAnswer,
      recipients: [],
    },
  ],
};
const agent = { id: "a-1", organizationId: "o-1", name: "Support", status: "active", skills };

export function createPlatform(usual: string): PlatformStub {
  let answer = usual;
  let conversations = 0;
  let asked = 0;
  let delay = 0;
  const answerTo = (method: string, path: string): object => {
    if (path.startsWith("/external/agents/"))
      return answer === escalatingAnswer ? { ...agent, skills: [...skills, escalation] } : agent;
    if (path === "/external/conversations/start") return { conversationId: `c-${++conversations}` };
    // A poll is no question, and neither is the registration of a webhook.
    if (method === "POST" && path.endsWith("/messages")) asked += 1;
    return {
      id: `m-${asked}`,
      message: answer,
      conversationId: path.split("/")[3] ?? "",
      senderRole: "agent",
      conversationMessageId: `q-${asked}`,
      source: "api",
      createdAt: "2026-01-01T00:00:00.000Z",
      isAnonymized: false,
    };
  };
  return {
    asked: () => asked,
    answerWith: (text) => void (answer = text ?? usual),
    answerAfter: (ms) => void (delay = ms),
    serve(request, response) {
      request.resume();
      request.on("end", () => {
        const respond = () => answerJson(response, 200, answerTo(request.method ?? "", request.url ?? ""));
        if (delay > 0) setTimeout(respond, delay);
        else respond();
      });
    },
  };
}

export function answerJson(response: ServerResponse, status: number, answer: object): void {
  const body = JSON.stringify(answer);
  response.writeHead(status, {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
  });
  response.end(body);
}
