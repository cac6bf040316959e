// The texts of the description: the guide for developers of clients, what an operation's summary omits, and what the
// names of fields and parameters do not explain.

import { pageQuery } from "../../wire/record.ts";
import { triggers } from "../../wire/webhook.ts";

/** By field name, or by record and field where one name has several meanings. */
const fields: { readonly [field: string]: string } = {
  createdAt: "Time of creation.",
  updatedAt: "Time of the last change.",
  isAnonymized: "Data retention has removed names, addresses and texts.",
  conversationId: "The conversation it belongs to.",
  conversationUserId: "The person of the conversation, an `AgentUser`.",
  customData: "Your own data; returned as `metadata.customData`.",
  context: "What the agent should know about the person.",
  source: "The origin of the person, in your own terms.",
  fkId: "The person's id in your own system. A person is identified by it, by e-mail address or by phone number.",
  fkUserId: "A second id of your own, for example the person's account.",
  email: "An e-mail address.",
  phoneNumber: "With its prefix, for example +15550123.",
  skipEmailValidation: "Accept the address without validation.",
  skipPhoneNumberValidation: "Accept the number without validation.",
  conversationContext: "What the agent should know in this conversation.",
  conversationStateId: "One of the organization's labels, a `ConversationState`.",
  authorId: "The platform user who writes the message.",
  files: "Files that were uploaded before, each to an address of its own (`createUploadUrl`).",
  metadata: "Stored data, including `customData`.",
  resetConversation: "Archive the person's open conversation of this channel and begin a new one.",
  triggerCondition: "The event at which a delivery is sent.",
  headers: "Sent with every delivery, for example `Authorization`.",
  currentPage: "Counted from 1.",
  pageSize: "Maximum number of items on a page.",
  totalItems: "On all pages together.",

  "Agent.role": "The purpose of the agent.",
  "Agent.vectorStoreId": "Where its documents are indexed.",
  "Agent.skills": "Its skills. `systemName` identifies the kind and selects the further fields.",
  "Agent.status": "Only an active agent answers.",

  "AgentFile.url": "URL of the content; it needs the agent's key.",
  "AgentFile.isUploadedToVectorStore": "Null when it could not be read.",
  "AgentFile.vectorStoreUploadStatus": "Null as long as it has not been added to the agent.",
  "AgentFile.vectorStoreUploadError": "Why it could not be added; null unless the status is `failed`.",

  "AgentUser.fkUserId": "A second id of your own.",
  "AgentUser.metadata": "`customData` as it was given.",

  "Conversation.aiConversationId": "Its id at the model's provider.",
  "Conversation.assignedUser": "The platform user who is responsible for it.",
  "Conversation.mode": "Who answers: `ai`, or `manual` when a person does.",
  "Conversation.score": "From 0 to 10, set when a dialog has ended. 0: the dialog had nothing to score.",
  "Conversation.feedbacks": "Ratings of the answers.",
  "Conversation.user": "The person.",

  "Delivery.attempts": "Number of attempts.",
  "Delivery.error": "Why the last attempt got no response.",
  "Delivery.nextAttemptAt": "Null when no further attempt is planned.",
  "Delivery.state": "`failed` when no further attempt is planned.",
  "Delivery.status": "HTTP status of the last response.",

  "Escalation.messageId": "The question that caused it.",
  "Escalation.response": "The text that the person received.",
  "Escalation.notifications":
    "The recipients of the notification. `stored`: an address that this platform keeps and does not write to; `removed`: the delivery is gone.",

  "Failure.details": "Objects with `path` (the field) and `message` (what is wrong with it); may be empty.",
  "Failure.name": "A constant for programs.",

  "Message.conversationMessageId": "The id of the question: on the question itself, and on its answer.",
  "Message.expandedMessage": "The text after the skill ENHANCED_PROMPTING.",
  "Message.files": "Its files.",
  "Message.fullAIResponse": "The model's answer with its reasoning and its sources.",
  "Message.message": "The text for people.",
  "Message.rawMessage": "The original text, before it was formatted for people.",
  "Message.senderRole":
    "`conversation_user`: the person. `assistant`: the agent. `manual_assistant`: a colleague in its place.",
  "Message.source": "The channel; `api` for messages of this API.",
  "Message.subagentId": "The agent that was chosen to answer.",

  "PlatformUser.accessSource": "`agent`: a role on the agent itself. `organization`: owner or admin of it.",
  "PlatformUser.agentAccessStatus": "Null without a role on the agent itself.",
  "PlatformUser.agentRole": "Null without a role on the agent itself.",

  "Statistic.averageCallDuration": "Seconds of calls in a conversation.",
  "Statistic.vapiSecondsUsed": "Seconds of calls.",

  "StartByEmail.emailIntroduction": "What the agent says first.",
  "StartBySms.smsIntroduction": "What the agent says first.",
  "StartByVoice.firstMessage": "What the agent says first.",

  "CreateConversationRequest.context": "What the agent should know in this conversation.",
  "UpdateConversationRequest.context": "What the agent should know in this conversation.",
  "UpdateConversationRequest.status":
    "`archived`: the next start creates a new conversation. No response contains the status.",
  "SendMessageRequest.context": "What the agent should know for this one answer.",
  "SendManualMessageRequest.conversationMessageId": "The question it answers.",
  "ListMessagesAnswer.messages": "The same list as `data`.",
  "RegisterWebhookRequest.url": "HTTPS at a public address; local and private ones are refused.",
  "Webhook.secret": "Returned once, in the answer to the registration. Deliveries are signed with it.",
  "GetResponseAnswer.error": "Why there will be no answer.",
  "CreateUploadUrlAnswer.signedUrl": "PUT the bytes here, within a quarter of an hour and without a key.",
  "CreateUploadUrlAnswer.storagePath": "Its value in `files` of a message.",
  "GetMessageFileUrlAnswer.signedUrl": "GET the bytes here, within a quarter of an hour and without a key.",

  "WebhookDelivery.escalation": "Only when a topic was escalated.",
  "WebhookDelivery.message": "The newest message's text.",
  "WebhookDelivery.messageId": "The newest message.",
  "WebhookDelivery.messages":
    "The newest messages of the conversation, oldest first: at most 1000, of 1,000,000 characters together.",
  "WebhookDelivery.score": "Given when a dialog has ended.",
  "WebhookDelivery.timestamp": "Time of the event.",
  "WebhookDelivery.triggerCondition": "Why this is sent; `escalation` when a topic was escalated.",
  "WebhookDelivery.userId": "The person, as in `user.id`.",
};

/** Returns the description of a field; undefined where the name is sufficient. */
export const fieldWords = (record: string, field: string): string | undefined =>
  fields[`${record}.${field}`] ?? fields[field];

/** All names with a description, so that a test finds those that no record uses any more. */
export const wordedFields: readonly string[] = Object.keys(fields);

type Defaults = { readonly [name: string]: unknown };
const defaults: Defaults = pageQuery.parse({});
/** Returned complete, oldest first. */
const messageDefaults: Defaults = { orderDirection: "ASC" };

/** By parameter name, or by operation and name. */
const parameters: { readonly [name: string]: string } = {
  id: "The id from an earlier response.",
  messageId: "The question: the id from the response of `sendMessageAsync`.",
  fileId: "The id in `files` of the message.",
  page: "Counted from 1.",
  pageSize: "At most 100; larger values count as 100.",
  orderBy: "The time that orders the list.",
  orderDirection: "`ASC`: oldest first.",
  startDate: "Only items from this time on (ISO 8601).",
  endDate: "Only items up to this time (ISO 8601).",
  userId: "Only this person's.",
  conversationUserId: "Only this person's.",
  fkId: "Only the person with this id of yours.",
  fkUserId: "Only the person with this second id of yours.",
  email: "The person with this address.",
  phoneNumber: "The person with this number; the plus sign is written as %2B.",
  searchKeyword: "In titles, names, e-mail addresses and phone numbers.",
  withFeedbacksOnly: "Only those with feedback.",
  "searchUser.fkId": "The person with this id of yours.",
};

export function parameterWords(operation: string, name: string): { description: string; default?: unknown } {
  const description = parameters[`${operation}.${name}`] ?? parameters[name] ?? name;
  const fallback = (operation === "listMessages" ? messageDefaults : defaults)[name];
  return { description, ...(fallback === undefined ? {} : { default: fallback }) };
}

const webhookSecret = "`secret` of the response is returned only here; it verifies the signatures of deliveries.";

/** Additional information on each operation, which its summary omits. */
export const operationWords: { readonly [operation: string]: string } = {
  getAgent: "Use it to check a key.",
  startConversation:
    "The person is identified by `fkId`, e-mail address or phone number, or created. By e-mail and SMS the person's open conversation continues, unless `resetConversation` requests a new one; every call is a new one. Further requests need the `conversationId` of the response.",
  createConversation: "For a conversation through your own program: create the person first (`createUser`).",
  sendMessage:
    "The response is sent when the agent has answered, which depends on its model: use a timeout of at least a minute. There is no idempotency key, so do not repeat a request that may have arrived: read the conversation's messages first. In manual mode the agent does not answer, and the response is the message itself with `senderRole` `conversation_user`.",
  sendMessageAsync: "Request `getResponse` with the `id` of the response for the result, or receive it with a webhook.",
  getResponse: "`pending` until the agent, or in manual mode a person, has answered.",
  setConversationMode:
    "In `manual` mode the agent does not answer until the mode is `ai` again. An answer in preparation is discarded.",
  listMessages:
    "Oldest first. Without `page` and `pageSize` the response contains all messages as one page; with more than 5000 messages or 4 MiB of text it is the first page, and `hasNextPage` is true. Pages of long texts are smaller than `pageSize`. `messages` and `data` contain the same messages.",
  createUser: "One of `fkId`, `email` and `phoneNumber` is required. A person who exists already is answered with 400.",
  searchUser: "One of the three parameters is required.",
  uploadFile: "At most 20 MiB. The agent uses it after it was added to the agent.",
  addFileToAssistant:
    "The response is sent when the document is searchable. A document that cannot be read is answered with 400, and `details` contains the reason; when too many documents wait, the response is 429 with `Retry-After`.",
  createUploadUrl:
    "At most 20 MiB, and ten files for a message. A file that no message uses is deleted after a day. While 16 files are being received, the response is 429 with `Retry-After`.",
  registerWebhook: webhookSecret,
  fireWebhook: "Works with any trigger; the delivery is enqueued.",
  listDeliveries:
    "The log of a webhook, with the outcome and the next attempt of each delivery. A delivery is removed a day after its end.",
  deleteConversations: "Also deletes messages and files. The person is kept.",
};

/** The subject of each tag's operations. */
export const tagWords: { readonly [tag: string]: string } = {
  agents: "The agent of the key: its settings, users, staff and usage.",
  conversations: "Start conversations, send and read messages, and select who answers.",
  users: "The users of an agent.",
  files: "The documents of an agent.",
  webhooks: "Receive events as they happen.",
};

// The guide, in Markdown: first calls, keys, errors, limits, lists, webhooks.

const triggerWords: { readonly [trigger in (typeof triggers)[number]]: string } = {
  each_message: "once for each turn: with the agent's answer, or at once when the agent does not answer",
  start_dialog: "a conversation has begun",
  end_dialog: "no message for six minutes; contains the `score`, where the agent has the skill",
  chat_currently_unavailable: "a message to an agent that is not active",
  auto_archive_conversation: "no message for thirty days",
  manual: "only with `fireWebhook`",
};

/** Sample code that verifies a delivery's signature in a Node receiver. Shown on the page, and run by a test. */
export const verifying = `import { createHmac, timingSafeEqual } from "node:crypto";

// headers: in lower case. body: as it came, not parsed. secret: whsec_...
export function isOurs(headers, body, secret, now = Date.now()) {
  const { "webhook-id": id, "webhook-timestamp": time } = headers;
  if (!(Math.abs(now / 1000 - Number(time)) < 300)) return false;
  const key = Buffer.from(secret.replace("whsec_", ""), "base64");
  const right = createHmac("sha256", key).update(\`\${id}.\${time}.\${body}\`).digest();
  return String(headers["webhook-signature"]).split(" ").some((each) => {
    const [version, signature = ""] = each.split(",");
    const given = Buffer.from(signature, "base64");
    return version === "v1" && given.length === right.length && timingSafeEqual(given, right);
  });
}
`;

export const guide = `The API of AI agents: conversations, users, files, webhooks and statistics.

## First calls

1. Check the key, and read the agent that it belongs to: \`getAgent\`
2. Start a conversation; the response contains its \`conversationId\`: \`startConversation\`
3. Send a message of the user; the response is the agent's answer: \`sendMessage\`
4. Read the messages (\`listMessages\`), or receive them with a webhook (\`registerWebhook\`).
5. Upload a document (\`uploadFile\`), and add it to the agent (\`addFileToAssistant\`), which then searches it.

Each operation below has samples for curl and for \`bridgehead/client\`, and a form that sends the request with the keys that were
entered under _Authorize_. The keys are sent to this server only, and are not kept when you leave the page.

## Keys

Every request has one of two headers. \`Agent-Secret-Key\` gives access to one agent and selects it, so no path contains
its id. \`Organization-Secret-Key\` gives access to the two lists with an agent's id in their path, for every agent of the
organization. A new key invalidates the old one at once. A missing or invalid key is answered with 403. Keep keys on your
server: every reader of a page or an app that contains one can use it.

## Errors

The body of an error is JSON. Its \`name\` and \`message\` are constant; \`details\` contains the paths of the wrong fields of
a 400. Invalid JSON and values of the wrong type are answered with 400, objects of another agent with 404, like objects that
do not exist. Reads can be repeated. A message without a response may have been stored, and the API has no idempotency
key: read the conversation's messages before you send it again.

## Limits

- 1000 requests in any 60 seconds for an organization with all its agents. Further ones are answered with 429, and
  \`Retry-After\` contains the seconds to wait. Requests with an invalid key are not counted.
- 2 MiB for a body, 20 MiB for a document or a file of a message.
- 255 characters for the title of a conversation, 256,000 for its context, 1,000,000 for a message.
- 1000 documents and 100 webhooks for an agent, 10 files for a message.

## Lists

A list has pages: \`data\` contains the items, and \`hasNextPage\` is true when there is another \`page\`. Pages are counted
from 1; \`pageSize\` is 20 by default and 100 at most. New items move the others to later pages; with
\`orderDirection=ASC\` (oldest first) they are appended, so no item is missed. Records may get further fields: ignore
fields that you do not know.

## Webhooks: what you receive

A registered webhook receives a \`POST\` with JSON (\`receiveDelivery\` below) at its \`triggerCondition\`:

${triggers.map((trigger) => `- \`${trigger}\`: ${triggerWords[trigger]}`).join("\n")}

The request has your own \`headers\`. Its signature is that of Standard Webhooks: verify it with any library for that
format, or with the function below for Node. The secret is in the response to the registration only. Verify the body as it was
received: JSON that was parsed and serialized again is another text.

\`\`\`js
${verifying}\`\`\`

The log (\`listDeliveries\`) contains the outcome of each delivery; \`resendDelivery\` sends one again.
`;
