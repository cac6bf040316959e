// Operations on conversations and their messages (External API 4.3; the public description where it is
// silent).

import { downloadUrl, uploadUrl } from "../wire/agent.ts";
import { conversation, conversationState, message, responseOn, startResponse } from "../wire/conversation.ts";
import type { Page } from "../wire/record.ts";
import type { OperationCaller } from "./caller.ts";
import type { BodyOf, QueryOf } from "./operations.ts";
import type {
  CallOptions,
  Conversation,
  ConversationState,
  DownloadUrl,
  Message,
  Response,
  Started,
  UploadUrl,
} from "./options.ts";
import { type MessagePage, messages, one, pageOf } from "./reading.ts";
import type { CallResult } from "./result.ts";

export interface Conversations {
  /** POST /external/conversations/start: opens a conversation by e-mail, SMS or voice. The platform may
   *  message the person itself. There is no idempotency key: after `unknown`, search for the
   *  conversation before a retry. */
  start(body: BodyOf<"startConversation">, options?: CallOptions): Promise<CallResult<Started>>;
  /** POST /external/conversations: opens a conversation without a channel. `missing`: the user does not
   *  exist. */
  create(body: BodyOf<"createConversation">, options?: CallOptions): Promise<CallResult<Conversation>>;
  /** GET /external/conversations: returns one page; `pages` iterates over all pages. */
  list(query?: QueryOf<"listConversations">, options?: CallOptions): Promise<CallResult<Page<Conversation>>>;
  /** DELETE /external/conversations: deletes all conversations of one user. The interface cannot delete
   *  a single one. */
  deleteAll(body: BodyOf<"deleteConversations">, options?: CallOptions): Promise<CallResult<void>>;
  /** GET /external/conversations/states: returns the organization's labels for conversations. */
  states(options?: CallOptions): Promise<CallResult<Page<ConversationState>>>;
  /** GET /external/conversations/{id}. `missing`: the conversation does not exist. */
  get(id: string, options?: CallOptions): Promise<CallResult<Conversation>>;
  /** PUT /external/conversations/{id}: changes title, context, status or label. Omitted fields keep
   *  their values. */
  update(
    id: string,
    body: BodyOf<"updateConversation">,
    options?: CallOptions,
  ): Promise<CallResult<Conversation>>;
  /** PUT /external/conversations/{id}/mode: assigns the conversation to a human (`manual`) or back to
   *  the agent (`ai`). */
  setMode(id: string, mode: "manual" | "ai", options?: CallOptions): Promise<CallResult<Conversation>>;
  /** POST /external/conversations/{id}/messages: sends a user's message. The response is the agent's
   *  reply. In manual mode it is the message itself (`senderRole` conversation_user). There is no
   *  idempotency key: after `unknown`, search for the message. */
  send(id: string, body: BodyOf<"sendMessage">, options?: CallOptions): Promise<CallResult<Message>>;
  /** GET /external/conversations/{id}/messages: returns one page, oldest first by default; `pages`
   *  iterates over all pages. Platforms without paging return all messages for any requested page. */
  messages(
    id: string,
    query?: QueryOf<"listMessages">,
    options?: CallOptions,
  ): Promise<CallResult<MessagePage>>;
  /** POST .../messages/async: returns without waiting for the reply. The response is the message; pass
   *  its id to `response`. */
  sendAsync(
    id: string,
    body: BodyOf<"sendMessageAsync">,
    options?: CallOptions,
  ): Promise<CallResult<Message>>;
  /** GET .../messages/{messageId}/response-on: returns pending, completed with the reply, or failed with
   *  an error. */
  response(id: string, messageId: string, options?: CallOptions): Promise<CallResult<Response>>;
  /** POST .../send-manual-message: sends a platform user's reply. `refused` outside manual mode, and in
   *  a call. */
  sendManual(
    id: string,
    body: BodyOf<"sendManualMessage">,
    options?: CallOptions,
  ): Promise<CallResult<Message>>;
  /** POST .../message-files/upload-url: returns a URL that accepts the file's bytes by PUT. The URL
   *  needs no key and expires soon. Then name the file by its `storagePath` in `files` of `send`. */
  uploadUrl(
    id: string,
    body: BodyOf<"createUploadUrl">,
    options?: CallOptions,
  ): Promise<CallResult<UploadUrl>>;
  /** GET .../message-files/{fileId}/signed-url: returns a URL to GET a message's file. The URL needs no
   *  key and expires soon. */
  fileUrl(id: string, fileId: string, options?: CallOptions): Promise<CallResult<DownloadUrl>>;
}

export function conversationsOf({ call, json, list: listOf }: OperationCaller): Conversations {
  const started = json(one(startResponse.read));
  const record = json(one(conversation.read));
  const page = json(pageOf(conversation.read));
  const labels = json(pageOf(conversationState.read));
  const spoken = json(one(message.read));
  const list = listOf(["messages", "data"], messages);
  const answer = json(one(responseOn.read));
  const up = json(one(uploadUrl.read));
  const down = json(one(downloadUrl.read));
  const nothing = { form: "nothing", value: undefined } as const;
  return {
    start: (body, options) => call("startConversation", { body, answer: started }, options),
    create: (body, options) => call("createConversation", { body, answer: record }, options),
    list: (query, options) => call("listConversations", { query, answer: page }, options),
    deleteAll: (body, options) => call("deleteConversations", { body, answer: nothing }, options),
    states: (options) => call("listConversationStates", { answer: labels }, options),
    get: (id, options) => call("getConversation", { names: { id }, answer: record }, options),
    update: (id, body, options) =>
      call("updateConversation", { names: { id }, body, answer: record }, options),
    setMode: (id, mode, options) =>
      call("setConversationMode", { names: { id }, body: { mode }, answer: record }, options),
    send: (id, body, options) => call("sendMessage", { names: { id }, body, answer: spoken }, options),
    messages: (id, query, options) => call("listMessages", { names: { id }, query, answer: list }, options),
    sendAsync: (id, body, options) =>
      call("sendMessageAsync", { names: { id }, body, answer: spoken }, options),
    response: (id, messageId, options) => call("getResponse", { names: { id, messageId }, answer }, options),
    sendManual: (id, body, options) =>
      call("sendManualMessage", { names: { id }, body, answer: spoken }, options),
    uploadUrl: (id, body, options) => call("createUploadUrl", { names: { id }, body, answer: up }, options),
    fileUrl: (id, fileId, options) =>
      call("getMessageFileUrl", { names: { id, fileId }, answer: down }, options),
  };
}
