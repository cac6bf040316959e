// POST /external/users, GET /external/users/search, GET /external/users/{id}.

import type { Clock } from "bridgehead/contract";
import { Hono } from "hono";
import { createUserRequest } from "../../wire/conversation.ts";
import { notFound } from "../../wire/record.ts";
import { removeConversations } from "../conversations/start.ts";
import { addressProblems, dialled, personRow } from "../conversations/users.ts";
import { userOf } from "../records.ts";
import type { PlatformStore } from "../store/store.ts";
import { fail, type RouteEnv, readBody, refused } from "./exchange.ts";

export function userRoutes(store: PlatformStore, clock: Clock): Hono<RouteEnv> {
  return new Hono<RouteEnv>()
    .post("/", async (c) => {
      const body = await readBody(c, createUserRequest);
      if ("response" in body) return body.response;
      const problems = addressProblems(body.value);
      if (problems.length > 0) return refused(c, problems).response;
      const row = personRow(c.var.agent.id, body.value, clock.now());
      const made = await store.commits.write(() => {
        if (store.people.find(row.agent_id, row)) return false;
        store.people.insert(row);
        return true;
      });
      return made
        ? c.json(userOf(row), 201)
        : refused(c, [{ path: "", message: "user already exists" }]).response;
    })
    .get("/search", (c) => {
      const { fkId, email, phoneNumber } = c.req.query();
      if (!fkId && !email && !phoneNumber)
        return refused(c, [{ path: "", message: "one of email, phoneNumber and fkId is needed" }]).response;
      const person = store.people.find(c.var.agent.id, {
        fk_id: fkId || null,
        email: email || null,
        // A plus sign that was not encoded arrives as a space.
        phone_number: dialled(phoneNumber?.replace(/^ /, "+") ?? "") || null,
      });
      if (!person) return fail(c, notFound);
      return c.json({ user: userOf(person), conversationIds: store.conversations.ofPerson(person.id) });
    })
    .delete("/:id", async (c) => {
      const person = store.people.byId(c.var.agent.id, c.req.param("id"));
      if (!person) return fail(c, notFound);
      await store.commits.write(() => {
        removeConversations(store, person.id);
        store.people.remove(person.id);
      });
      return c.body(null, 204);
    })
    .get("/:id", (c) => {
      const person = store.people.byId(c.var.agent.id, c.req.param("id"));
      return person ? c.json(userOf(person)) : fail(c, notFound);
    });
}
