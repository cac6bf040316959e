// The messages of a conversation: asking the agent, reading along, answering in its place.

import { Hono } from "hono";
import * as z from "zod";
import { notFound } from "../../wire/failure.ts";
import { manualMessageRequest, type responseOn, sendRequest } from "../../wire/message.ts";
import { pageOf } from "../../wire/page.ts";
import type { Served } from "../../wire/record.ts";
import { messageOf } from "../records.ts";
import type { MessageRow } from "../store/messages.ts";
import type { PlatformStore } from "../store/store.ts";
import type { Turns } from "../turns.ts";
import { type Env, fail, readBody, readQuery, refused } from "./exchange.ts";

const listQuery = z.looseObject({ orderDirection: z.enum(["ASC", "DESC"]).default("ASC") });

export function messageRoutes(store: PlatformStore, turns: Turns): Hono<Env> {
  return new Hono<Env>()
    .post("/:id/messages", async (c) => {
      const body = await readBody(c, sendRequest);
      if ("response" in body) return body.response;
      const { message, context } = body.value;
      const said = await turns.ask(c.var.agent, c.req.param("id"), message, context ?? null);
      return said ? c.json(messageOf(said), 201) : fail(c, notFound);
    })
    .post("/:id/messages/async", async (c) => {
      const body = await readBody(c, sendRequest);
      if ("response" in body) return body.response;
      const { message, context } = body.value;
      const question = await turns.askLater(c.var.agent, c.req.param("id"), message, context ?? null);
      return question ? c.json(messageOf(question), 201) : fail(c, notFound);
    })
    .get("/:id/messages/:question/response-on", (c) => {
      const conversation = store.conversations.byId(c.var.agent.id, c.req.param("id"));
      const question = conversation && store.messages.byId(conversation.id, c.req.param("question"));
      if (!conversation || question?.sender_role !== "conversation_user") return fail(c, notFound);
      return c.json(responseTo(question, store.messages.answerTo(conversation.id, question.id)));
    })
    .get("/:id/messages", (c) => {
      const query = readQuery(c, listQuery);
      if ("response" in query) return query.response;
      const conversation = store.conversations.byId(c.var.agent.id, c.req.param("id"));
      if (!conversation) return fail(c, notFound);
      const messages = store.messages.list(conversation.id).map(messageOf);
      if (query.value.orderDirection === "DESC") messages.reverse();
      // All messages are one page: the envelope of lists around them serves those who look for it there.
      const { data, ...page } = pageOf(messages, 1, Math.max(1, messages.length), messages.length);
      return c.json({ messages, ...page, data });
    })
    .post("/:id/send-manual-message", async (c) => {
      const body = await readBody(c, manualMessageRequest);
      if ("response" in body) return body.response;
      const conversation = store.conversations.byId(c.var.agent.id, c.req.param("id"));
      if (!conversation) return fail(c, notFound);
      if (conversation.mode !== "manual" || conversation.channel === "voice")
        return refused(c, [{ path: "", message: "only in manual mode, and not in a call" }]).response;
      const { message, conversationMessageId } = body.value;
      if (conversationMessageId && !store.messages.byId(conversation.id, conversationMessageId))
        return refused(c, [{ path: "conversationMessageId", message: "no such message here" }]).response;
      return c.json(messageOf(await turns.sayManually(conversation, message, conversationMessageId ?? null)));
    });
}

/** Unanswered in manual mode means pending: a person may still answer. */
function responseTo(question: MessageRow, answer: MessageRow | undefined): Served<typeof responseOn> {
  if (answer) return { status: "completed", message: messageOf(answer), error: null };
  if (question.error !== null) return { status: "failed", message: null, error: question.error };
  return { status: "pending", message: null, error: null };
}
