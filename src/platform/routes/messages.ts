// Routes for the messages of a conversation: asking the agent, listing messages, and replies of platform
// users.

import type { Clock } from "bridgehead/contract";
import { type Context, Hono } from "hono";
import * as z from "zod";
import { uploadUrlRequest } from "../../wire/agent.ts";
import { manualMessageRequest, type responseOn, sendRequest } from "../../wire/conversation.ts";
import type { Served } from "../../wire/record.ts";
import { defaultPageSize, forbidden, notFound, optionalPageQuery, pageOf } from "../../wire/record.ts";
import type { Turns } from "../conversations/turns.ts";
import { type MessageContent } from "../conversations/turns.ts";
import {
  fileName,
  findAttached,
  isSigned,
  type Purpose,
  savedAs,
  signedPath,
  storagePath,
} from "../files/message-files.ts";
import { newUuid } from "../ids.ts";
import { shownMessage, transcript } from "../records.ts";
import type { MessageFileRow, MessageRow } from "../store/messages.ts";
import type { PlatformStore } from "../store/store.ts";
import {
  bounded,
  fail,
  type ParsedInput,
  type RouteContext,
  type RouteEnv,
  readBody,
  readQuery,
  refused,
} from "./exchange.ts";

type Saying = Pick<z.output<typeof sendRequest>, "message" | "files"> & {
  readonly context?: string | undefined;
};

/** Without `page` and `pageSize` all messages are one page, as in the public description. */
const listQuery = optionalPageQuery.extend({
  orderBy: z.enum(["createdAt"]).default("createdAt"),
  orderDirection: z.enum(["ASC", "DESC"]).default("ASC"),
  shouldIncludeFeedbacks: z.enum(["true", "false"]).optional(),
});

export function messageRoutes(store: PlatformStore, turns: Turns): Hono<RouteEnv> {
  /** Returns the message of a request to the conversation of its path, or the 400 response. */
  const wordsOf = (c: RouteContext, { message, context, files }: Saying): ParsedInput<MessageContent> => {
    const conversation = store.conversations.byId(c.var.agent.id, c.req.param("id") ?? "");
    const found = findAttached(store, conversation?.id ?? "", files ?? []);
    // If the conversation does not exist, the files are not reported; the conversation is reported as
    // missing.
    if (conversation && found.problems.length > 0) return refused(c, found.problems);
    return { value: { text: message, context: context ?? null, files: found.files } };
  };
  return new Hono<RouteEnv>()
    .post("/:id/messages", async (c) => {
      const body = await readBody(c, sendRequest);
      if ("response" in body) return body.response;
      const words = wordsOf(c, body.value);
      if ("response" in words) return words.response;
      // When the client disconnects, a model request is cancelled to save its cost. Other answers are ready
      // before a client can disconnect.
      const gone = c.var.agent.model ? c.req.raw.signal : null;
      const said = await turns.ask(c.var.agent, c.req.param("id"), words.value, gone);
      return said ? c.json(shownMessage(store, said), 201) : fail(c, notFound);
    })
    .post("/:id/messages/async", async (c) => {
      const body = await readBody(c, sendRequest);
      if ("response" in body) return body.response;
      const words = wordsOf(c, body.value);
      if ("response" in words) return words.response;
      const question = await turns.askLater(c.var.agent, c.req.param("id"), words.value);
      return question ? c.json(shownMessage(store, question), 201) : fail(c, notFound);
    })
    .get("/:id/messages/:question/response-on", (c) => {
      const conversation = store.conversations.byId(c.var.agent.id, c.req.param("id"));
      const question = conversation && store.messages.byId(conversation.id, c.req.param("question"));
      if (!conversation || question?.sender_role !== "conversation_user") return fail(c, notFound);
      return c.json(responseTo(store, question, store.messages.answerTo(conversation.id, question.id)));
    })
    .get("/:id/messages", (c) => {
      const query = readQuery(c, listQuery);
      if ("response" in query) return query.response;
      const conversation = store.conversations.byId(c.var.agent.id, c.req.param("id"));
      if (!conversation) return fail(c, notFound);
      // The platform stores no feedback: a client that asks for it gets an empty list.
      const feedback =
        query.value.shouldIncludeFeedbacks === "true" ? { conversationMessageFeedbacks: [] } : {};
      const { orderDirection } = query.value;
      const total = store.messages.count(conversation.id);
      const whole = query.value.page === undefined && query.value.pageSize === undefined;
      const at = query.value.page ?? 1;
      const pageSize = whole ? Math.max(1, total) : (query.value.pageSize ?? defaultPageSize);
      const slice = { orderDirection, limit: pageSize, offset: (at - 1) * pageSize };
      const messages = transcript(store, conversation.id, slice).map((each) => ({ ...each, ...feedback }));
      const { data, ...page } = pageOf(messages, at, pageSize, total);
      return c.json({ messages, ...page, data });
    })
    .post("/:id/send-manual-message", async (c) => {
      const body = await readBody(c, manualMessageRequest);
      if ("response" in body) return body.response;
      const conversation = store.conversations.byId(c.var.agent.id, c.req.param("id"));
      if (!conversation) return fail(c, notFound);
      if (conversation.mode !== "manual" || conversation.channel === "voice")
        return refused(c, [{ path: "", message: "only in manual mode, and not in a call" }]).response;
      const { conversationMessageId } = body.value;
      if (conversationMessageId && !store.messages.byId(conversation.id, conversationMessageId))
        return refused(c, [{ path: "conversationMessageId", message: "no such message here" }]).response;
      const words = wordsOf(c, body.value);
      if ("response" in words) return words.response;
      const said = await turns.sayManually(conversation, words.value, conversationMessageId ?? null);
      return c.json(shownMessage(store, said));
    });
}

/** An unanswered question in manual mode is pending: a platform user may still answer. */
function responseTo(
  store: PlatformStore,
  question: MessageRow,
  answer: MessageRow | undefined,
): Served<typeof responseOn> {
  if (answer) return { status: "completed", message: shownMessage(store, answer), error: null };
  if (question.error !== null) return { status: "failed", message: null, error: question.error };
  return { status: "pending", message: null, error: null };
}

// Routes for files of messages. A key is required to get upload and download URLs; the URLs themselves need
// none.

const maxFileBytes = 20 * 1024 * 1024;
/** Maximum number of announced files in one conversation that no message names yet. */
const looseAtMost = 20;

/** The routes that require an agent's key. */
export function messageFileRoutes(store: PlatformStore, clock: Clock): Hono<RouteEnv> {
  const signed = (c: RouteContext, purpose: Purpose, id: string) =>
    c.var.base + signedPath(store.messageFiles.secret, purpose, id, clock.now());
  return new Hono<RouteEnv>()
    .post("/:id/message-files/upload-url", async (c) => {
      const body = await readBody(c, uploadUrlRequest);
      if ("response" in body) return body.response;
      const conversation = store.conversations.byId(c.var.agent.id, c.req.param("id"));
      if (!conversation) return fail(c, notFound);
      if (store.messageFiles.loose(conversation.id) >= looseAtMost)
        return refused(c, [{ path: "", message: `${looseAtMost} files wait for their message already` }])
          .response;
      const now = clock.now();
      const row = {
        id: newUuid(now),
        conversation_id: conversation.id,
        message_id: null,
        name: fileName(body.value.fileName),
        media_type: body.value.contentType,
        created_at: now,
        updated_at: now,
      };
      await store.commits.write(() => store.messageFiles.insert(row));
      return c.json({ signedUrl: signed(c, "upload", row.id), storagePath: storagePath(row) });
    })
    .get("/:id/message-files/:fileId/signed-url", (c) => {
      const conversation = store.conversations.byId(c.var.agent.id, c.req.param("id"));
      const file = store.messageFiles.byId(c.req.param("fileId"));
      if (!conversation || file?.conversation_id !== conversation.id || file.size === null)
        return fail(c, notFound);
      return c.json({ signedUrl: signed(c, "download", file.id), fileId: file.id });
    });
}

/** The routes of the signed URLs. */
export function signedRoutes(store: PlatformStore, clock: Clock): Hono {
  /** Returns the file of the URL, or the error response. */
  function opened(c: Context, purpose: Purpose): MessageFileRow | Response {
    const fileId = c.req.param("id") ?? "";
    const { expires = "", signature = "" } = c.req.query();
    const claim = { purpose, fileId, expires, signature };
    if (!isSigned(store.messageFiles.secret, claim, clock.now())) return fail(c, forbidden);
    return store.messageFiles.byId(fileId) ?? fail(c, notFound);
  }
  return new Hono()
    .put("/:id/upload", bounded(maxFileBytes), async (c) => {
      const file = opened(c, "upload");
      if (file instanceof Response) return file;
      const bytes = new Uint8Array(await c.req.arrayBuffer());
      const stored = await store.commits.write(() => store.messageFiles.fill(file.id, bytes, clock.now()));
      // A message already names the file, and its content must not change.
      return stored ? c.body(null, 200) : fail(c, forbidden);
    })
    .get("/:id/download", (c) => {
      const file = opened(c, "download");
      if (file instanceof Response) return file;
      const bytes = store.messageFiles.bytes(file.id);
      if (!bytes) return fail(c, notFound);
      return c.body(new Uint8Array(bytes), 200, {
        "content-type": "application/octet-stream",
        "content-disposition": savedAs(file.name),
        "x-content-type-options": "nosniff",
      });
    });
}
