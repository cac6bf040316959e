// Operations on conversations and their messages (External API 4.3; the public description where it is silent).

import { downloadUrl, uploadUrl } from "../wire/agent.ts";
import { conversation, conversationState, message, responseOn, startResponse } from "../wire/conversation.ts";
import type { OperationCaller } from "./caller.ts";
import type { Methods } from "./operations.ts";
import type {
  CallOptions,
  Conversation,
  ConversationState,
  DownloadUrl,
  Message,
  Page,
  Response,
  Started,
  UploadUrl,
} from "./options.ts";
import { type BodyContent, messages, nothing, one, pageOf } from "./reading.ts";

export type Conversations = ReturnType<typeof conversationsOf>;

export function conversationsOf(
  { call, json, list }: OperationCaller,
  { plain, queried, queriedById, posted, postedById, byId }: Methods,
) {
  const started: BodyContent<Started> = json(one(startResponse.read));
  const record: BodyContent<Conversation> = json(one(conversation.read));
  const page: BodyContent<Page<Conversation>> = json(pageOf(conversation.read));
  const labels: BodyContent<Page<ConversationState>> = json(pageOf(conversationState.read));
  const spoken: BodyContent<Message> = json(one(message.read));
  const response: BodyContent<Response> = json(one(responseOn.read));
  const upload: BodyContent<UploadUrl> = json(one(uploadUrl.read));
  const download: BodyContent<DownloadUrl> = json(one(downloadUrl.read));
  return {
    /** POST /external/conversations/start: opens a conversation by e-mail, SMS or voice. The platform may message the
     *  person itself. There is no idempotency key: after `unknown`, search for the conversation before a retry. */
    start: posted("startConversation", started),
    /** POST /external/conversations: opens a conversation without a channel. `missing`: the user does not exist. */
    create: posted("createConversation", record),
    /** GET /external/conversations: returns one page; `pages` iterates over all pages. */
    list: queried("listConversations", page),
    /** DELETE /external/conversations: deletes all conversations of one user. The interface cannot delete
     *  a single one. */
    deleteAll: posted("deleteConversations", nothing),
    /** GET /external/conversations/states: returns the organization's labels for conversations. */
    states: plain("listConversationStates", labels),
    /** GET /external/conversations/{id}. `missing`: the conversation does not exist. */
    get: byId("getConversation", record),
    /** PUT /external/conversations/{id}: changes title, context, status or label. Omitted fields keep their values. */
    update: postedById("updateConversation", record),
    /** PUT /external/conversations/{id}/mode: assigns the conversation to a human (`manual`) or back to
     *  the agent (`ai`). */
    setMode: (id: string, mode: "manual" | "ai", options?: CallOptions) =>
      call("setConversationMode", { names: { id }, body: { mode }, answer: record }, options),
    /** POST /external/conversations/{id}/messages: sends a user's message. The response is the agent's
     *  reply. In manual mode it is the message itself (`senderRole` conversation_user). There is no
     *  idempotency key: after `unknown`, search for the message. */
    send: postedById("sendMessage", spoken),
    /** GET /external/conversations/{id}/messages: returns one page, oldest first by default; `pages`
     *  iterates over all pages. Platforms without paging return all messages for any requested page. */
    messages: queriedById("listMessages", list(["messages", "data"], messages)),
    /** POST .../messages/async: returns without waiting for the reply. The response is the message; pass
     *  its id to `response`. */
    sendAsync: postedById("sendMessageAsync", spoken),
    /** GET .../messages/{messageId}/response-on: returns pending, completed with the reply, or failed with an error. */
    response: (id: string, messageId: string, options?: CallOptions) =>
      call("getResponse", { names: { id, messageId }, answer: response }, options),
    /** POST .../send-manual-message: sends a platform user's reply. `refused` outside manual mode, and in a call. */
    sendManual: postedById("sendManualMessage", spoken),
    /** POST .../message-files/upload-url: returns a URL that accepts the file's bytes by PUT. The URL
     *  needs no key and expires soon. Then name the file by its `storagePath` in `files` of `send`. */
    uploadUrl: postedById("createUploadUrl", upload),
    /** GET .../message-files/{fileId}/signed-url: returns a URL to GET a message's file. The URL needs no
     *  key and expires soon. */
    fileUrl: (id: string, fileId: string, options?: CallOptions) =>
      call("getMessageFileUrl", { names: { id, fileId }, answer: download }, options),
  };
}
