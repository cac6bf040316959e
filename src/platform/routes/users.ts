// POST /external/users, GET /external/users/search, GET /external/users/{id}.

import type { Clock } from "bridgehead/contract";
import { Hono } from "hono";
import { createUserRequest } from "../../wire/conversation.ts";
import { removeConversations } from "../conversations/start.ts";
import { addressProblems, dialled, personRow } from "../conversations/users.ts";
import { userOf } from "../records.ts";
import type { PlatformStore } from "../store/store.ts";
import { found, type RouteEnv, readBody, refuseAny, refused } from "./exchange.ts";

export function userRoutes(store: PlatformStore, clock: Clock): Hono<RouteEnv> {
  return new Hono<RouteEnv>()
    .post("/", async (c) => {
      const body = await readBody(c, createUserRequest);
      const problems = addressProblems(body);
      refuseAny(problems);
      const row = personRow(c.var.agent.id, body, clock.now());
      const made = await store.commits.write(() => {
        if (store.people.find(row.agent_id, row)) return false;
        store.people.insert(row);
        return true;
      });
      if (!made) throw refused([{ path: "", message: "user already exists" }]);
      return c.json(userOf(row), 201);
    })
    .get("/search", (c) => {
      const { fkId, email, phoneNumber } = c.req.query();
      if (!fkId && !email && !phoneNumber)
        throw refused([{ path: "", message: "one of email, phoneNumber and fkId is needed" }]);
      const person = found(
        store.people.find(c.var.agent.id, {
          fk_id: fkId || null,
          email: email || null,
          // A plus sign that was not encoded arrives as a space.
          phone_number: dialled(phoneNumber?.replace(/^ /, "+") ?? "") || null,
        }),
      );
      return c.json({ user: userOf(person), conversationIds: store.conversations.ofPerson(person.id) });
    })
    .delete("/:id", async (c) => {
      const person = found(store.people.byId(c.var.agent.id, c.req.param("id")));
      await store.commits.write(() => {
        removeConversations(store, person.id);
        store.people.remove(person.id);
      });
      return c.body(null, 204);
    })
    .get("/:id", (c) => {
      return c.json(userOf(found(store.people.byId(c.var.agent.id, c.req.param("id")))));
    });
}
