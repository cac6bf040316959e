// The texts of the description: the guide for developers of clients, what an operation's summary omits, and what the
// names of fields and parameters do not explain.

import { pageQuery } from "../../wire/record.ts";
import { triggers } from "../../wire/webhook.ts";

/** By field name, or by record and field where one name has several meanings. */
const fields: { readonly [field: string]: string } = {
  createdAt: "When it was made.",
  updatedAt: "When it was last changed.",
  isAnonymized: "Data retention has taken names, addresses and words out of it.",
  conversationId: "The conversation it belongs to.",
  conversationUserId: "The person of the conversation, an `AgentUser`.",
  customData: "Anything of your own; it comes back as `metadata.customData`.",
  context: "What the agent should know about the person.",
  source: "Where the person comes from, in your own words.",
  fkId: "The person's id in your own system. People are recognised by it, by e-mail address and by phone number.",
  fkUserId: "A second id of your own, for example the person's account.",
  email: "An e-mail address.",
  phoneNumber: "With its prefix, for example +15550123.",
  skipEmailValidation: "Take the address as it is.",
  skipPhoneNumberValidation: "Take the number as it is.",
  conversationContext: "What the agent should know in this conversation.",
  conversationStateId: "One of the organization's labels, a `ConversationState`.",
  authorId: "The platform user who says it.",
  files: "Files that were uploaded before, each to an address of its own (`createUploadUrl`).",
  metadata: "What was stored with it, `customData` among it.",
  resetConversation: "Archive the person's open conversation of this channel and begin a new one.",
  triggerCondition: "What makes it fire.",
  headers: "Sent with every delivery, for example `Authorization`.",
  currentPage: "Counted from 1.",
  pageSize: "How many items a page has at most.",
  totalItems: "On all pages together.",

  "Agent.role": "What the agent is for.",
  "Agent.vectorStoreId": "Where its documents are indexed.",
  "Agent.skills": "What it is able to do. `systemName` tells them apart and selects the further fields.",
  "Agent.status": "Only an active agent answers.",

  "AgentFile.url": "Where to read it, under the agent's key.",
  "AgentFile.isUploadedToVectorStore": "Null when it could not be read.",
  "AgentFile.vectorStoreUploadStatus": "Null as long as it has not been added to the agent.",
  "AgentFile.vectorStoreUploadError": "Why it could not be added; null unless the status is `failed`.",

  "AgentUser.fkUserId": "A second id of your own.",
  "AgentUser.metadata": "`customData` as it was given.",

  "Conversation.aiConversationId": "Its id at the model's provider.",
  "Conversation.assignedUser": "The colleague in charge of it.",
  "Conversation.mode": "Who answers: `ai`, or `manual` when a person does.",
  "Conversation.score": "From 0 to 10, given when a dialog has ended. 0: nothing was said that counts.",
  "Conversation.feedbacks": "What people thought of the answers.",
  "Conversation.user": "The person.",

  "Delivery.attempts": "How often it was tried.",
  "Delivery.error": "Why the last try failed without an answer.",
  "Delivery.nextAttemptAt": "Null when no further attempt is planned.",
  "Delivery.state": "`failed` when no further attempt is planned.",
  "Delivery.status": "The last answer's status.",

  "Escalation.messageId": "The question that called for it.",
  "Escalation.response": "The text that the person received.",
  "Escalation.notifications":
    "The recipients of the notification. `stored`: an address that this platform keeps and does not write to; `removed`: the delivery is gone.",

  "Failure.details": "Objects with `path` (the field) and `message` (what is wrong with it); may be empty.",
  "Failure.name": "A word for programs.",

  "Message.conversationMessageId": "The id of the question: on the question itself, and on its answer.",
  "Message.expandedMessage": "What the ENHANCED_PROMPTING skill made of it.",
  "Message.files": "Files that came with it.",
  "Message.fullAIResponse": "The model's answer with its reasoning and its sources.",
  "Message.message": "The text for people.",
  "Message.rawMessage": "The text as it came, before it was made fit for people.",
  "Message.senderRole":
    "`conversation_user`: the person. `assistant`: the agent. `manual_assistant`: a colleague in its place.",
  "Message.source": "The channel; `api` for what was said through this interface.",
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
  "UpdateConversationRequest.status": "`archived`: the next start begins a new one. No answer shows it.",
  "SendMessageRequest.context": "What the agent should know for this one answer.",
  "SendManualMessageRequest.conversationMessageId": "The question it answers.",
  "ListMessagesAnswer.messages": "The same list as `data`.",
  "RegisterWebhookRequest.url": "HTTPS at a public address; local and private ones are refused.",
  "Webhook.secret": "Returned once, in the answer to the registration. Deliveries are signed with it.",
  "GetResponseAnswer.error": "Why there is no answer, and will be none.",
  "CreateUploadUrlAnswer.signedUrl": "PUT the bytes here, within a quarter of an hour and without a key.",
  "CreateUploadUrlAnswer.storagePath": "How a message's `files` name it.",
  "GetMessageFileUrlAnswer.signedUrl": "GET the bytes here, within a quarter of an hour and without a key.",

  "WebhookDelivery.escalation": "Only when a topic was escalated.",
  "WebhookDelivery.message": "The newest message's text.",
  "WebhookDelivery.messageId": "The newest message.",
  "WebhookDelivery.messages":
    "The newest messages of the conversation, oldest first: at most 1000, of 1,000,000 characters together.",
  "WebhookDelivery.score": "Given when a dialog has ended.",
  "WebhookDelivery.timestamp": "When it happened.",
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
  id: "The id that an earlier answer gave.",
  messageId: "The question: the id that `sendMessageAsync` gave.",
  fileId: "The id that the message's `files` give.",
  page: "Counted from 1.",
  pageSize: "At most 100; more is cut to that.",
  orderBy: "By which time the list is ordered.",
  orderDirection: "`ASC`: oldest first.",
  startDate: "Nothing before it; an ISO 8601 time.",
  endDate: "Nothing after it; an ISO 8601 time.",
  userId: "Only this person's.",
  conversationUserId: "Only this person's.",
  fkId: "Only the person with this id of yours.",
  fkUserId: "Only the person with this second id of yours.",
  email: "The person with this address.",
  phoneNumber: "The person with this number; the plus sign written as %2B.",
  searchKeyword: "In titles, names, e-mail addresses and phone numbers.",
  withFeedbacksOnly: "Only those with feedback.",
  "searchUser.fkId": "The person with this id of yours.",
};

/** Returns a parameter's description, and its default value. */
export function parameterWords(operation: string, name: string): { description: string; default?: unknown } {
  const description = parameters[`${operation}.${name}`] ?? parameters[name] ?? name;
  const fallback = (operation === "listMessages" ? messageDefaults : defaults)[name];
  return { description, ...(fallback === undefined ? {} : { default: fallback }) };
}

const webhookSecret = "The answer's `secret` is returned this once: with it you check that a delivery is ours.";

/** Additional information on each operation, which its summary omits. */
export const operationWords: { readonly [operation: string]: string } = {
  getAgent: "A good first call: it tells whether the key is right.",
  startConversation:
    "The person is recognised by `fkId`, e-mail address or phone number, else made known. By e-mail and SMS their open conversation goes on, unless `resetConversation` asks for a new one; every call is a new one. The answer's `conversationId` is what the next calls need.",
  createConversation: "For a conversation that your own program holds: make the person known first (`createUser`).",
  sendMessage:
    "The answer comes when the agent has answered, which takes as long as its model does: allow a minute. Nothing tells two calls with the same text apart, so do not repeat one that may have arrived: look at the conversation's messages first. In manual mode the agent is silent, and the message itself comes back with `senderRole` `conversation_user`.",
  sendMessageAsync: "Ask `getResponse` with the answer's `id` for what became of it, or let a webhook tell you.",
  getResponse: "`pending` until the agent, or in manual mode a person, has answered.",
  setConversationMode:
    "In `manual` mode the agent is silent until the mode is `ai` again. An answer that it is writing is discarded.",
  listMessages:
    "Oldest first. Without `page` and `pageSize` all of them, as one page; of more than 5000 messages or 4 MiB of text the first page, as `hasNextPage` says. Pages of long texts are smaller than `pageSize` asks for. The same messages are in `messages` and in `data`.",
  createUser: "One of `fkId`, `email` and `phoneNumber` is required. A person who is known already is a 400.",
  searchUser: "One of the three parameters is required.",
  uploadFile: "At most 20 MiB. The agent answers from it once it is added to it.",
  addFileToAssistant:
    "The answer comes when the document is read and searchable. A document that cannot be read is a 400 whose `details` give the reason; when too many documents wait to be read, the answer is 429 with `Retry-After`.",
  createUploadUrl:
    "At most 20 MiB, ten files a message. A file that no message names is gone after a day. While 16 files are being received, the address answers 429 with `Retry-After`.",
  registerWebhook: webhookSecret,
  fireWebhook: "With any trigger; the delivery is put into the queue.",
  listDeliveries:
    "The log of a webhook, with each delivery's outcome and its next try. A delivery leaves it a day after its end.",
  deleteConversations: "Messages and files with them. The person stays known.",
};

/** The subject of each tag's operations. */
export const tagWords: { readonly [tag: string]: string } = {
  agents: "The agent behind the key: its settings, the people it talks to, who looks after it, what it used.",
  conversations: "Begin a conversation, speak in it, read it, and decide who answers.",
  users: "The people an agent talks to.",
  files: "The documents an agent answers from.",
  webhooks: "Receive events as they happen.",
};

// The guide, in Markdown: first calls, keys, errors, limits, lists, webhooks.

const triggerWords: { readonly [trigger in (typeof triggers)[number]]: string } = {
  each_message: "once for every turn: with the agent's answer, or at once when the agent will not answer",
  start_dialog: "a conversation has begun",
  end_dialog: "no message for six minutes; the `score` is there by then, where the agent scores",
  chat_currently_unavailable: "a person wrote to an agent that is not active",
  auto_archive_conversation: "no message for thirty days",
  manual: "only by hand (`fireWebhook`)",
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

export const guide = `Talk to AI agents: conversations, the people in them, files, webhooks, statistics.

## First calls

1. Is the key right, and whose is it? \`getAgent\`
2. Begin a conversation; the answer is its \`conversationId\`. \`startConversation\`
3. Say what the person says; the answer is the agent's. \`sendMessage\`
4. Follow what happens by reading the messages (\`listMessages\`), or let a webhook tell you (\`registerWebhook\`).
5. Teach the agent: upload a document (\`uploadFile\`), then make it searchable (\`addFileToAssistant\`).

Each operation below has samples for curl and for \`bridgehead/client\`, and a form that calls it with the keys that
_Authorize_ asks for. The keys are sent with your calls to this server only; they are forgotten when you
leave the page.

## Keys

Every call carries one of two headers. \`Agent-Secret-Key\` opens one agent, and names it: no path says which.
\`Organization-Secret-Key\` opens the two lists with an agent's id in their path, for every agent of the organization. A
new key ends the old one at once. A key that opens nothing, and one that is missing, is a 403. Keep keys on your server:
every reader of a page or an app that contains one can use it.

## Errors

An error's body is JSON, and the words in \`name\` and \`message\` do not change. \`details\` names the fields of a 400 by
their paths. Text that is no JSON, and a value of the wrong type, is a 400; a thing of another agent is a 404, like one
that never was. Reads may be repeated. A message whose answer never came may have been taken: look at the conversation's
messages before you send it again, for nothing tells two equal ones apart.

## Limits

- 1000 requests in any 60 seconds for an organization, all its agents together. Beyond it: 429, and \`Retry-After\` says
  how many seconds to wait. What a wrong key asks is not counted.
- A body of 2 MiB; a document, or a file of a message, of 20 MiB.
- A conversation's title of 255 characters, its context of 256,000, a message of 1,000,000.
- 1000 documents and 100 webhooks for an agent, 10 files for a message.

## Lists

A list comes in pages: \`data\` holds the items, \`hasNextPage\` says whether to ask for the next \`page\`. Pages are counted
from 1, with 20 items unless \`pageSize\` says otherwise, and 100 at most. What comes to a list while you read it moves the
rest: oldest first (\`orderDirection=ASC\`) no page changes behind you. Further fields may come to any record: read past
those you do not know.

## Webhooks: what you receive

A registered webhook is sent a \`POST\` with JSON (\`receiveDelivery\` below) when its \`triggerCondition\` comes true:

${triggers.map((trigger) => `- \`${trigger}\`: ${triggerWords[trigger]}`).join("\n")}

Your own \`headers\` come with it. Is it ours? Every library for Standard Webhooks tells, and so do these lines for Node.
The secret is in the answer to the registration, and only there. Check the body as it came: JSON that was parsed and
written again is another text.

\`\`\`js
${verifying}\`\`\`

What went wrong is in the log (\`listDeliveries\`); send it again from there (\`resendDelivery\`).
`;
