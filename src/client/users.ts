// Operations on agent users, the persons an agent talks to (External API 2.2; the operations from the
// public description).

import { user, userSearch } from "../wire/user.ts";
import type { Caller } from "./caller.ts";
import type { BodyOf, Line, QueryOf } from "./line.ts";
import type { CallOptions } from "./options.ts";
import { one } from "./reading.ts";
import type { User, UserSearch } from "./records.ts";
import type { CallResult } from "./result.ts";

export interface Users {
  /** POST /external/users: creates a user by fkId, e-mail address or phone number. `refused` (400) when
   *  the user already exists or the data is invalid. */
  create(body: BodyOf<"createUser">, options?: CallOptions): Promise<CallResult<User>>;
  /** GET /external/users/search: returns a user and the ids of their conversations, by one of the three.
   *  `missing`: no such user exists. */
  search(query: QueryOf<"searchUser">, options?: CallOptions): Promise<CallResult<UserSearch>>;
  /** GET /external/users/{id}. `missing`: the user does not exist. */
  get(id: string, options?: CallOptions): Promise<CallResult<User>>;
  /** DELETE /external/users/{id}: deletes a user with all their conversations. */
  delete(id: string, options?: CallOptions): Promise<CallResult<void>>;
}

const createLine: Line<"createUser"> = {
  method: "POST",
  path: "/external/users",
  key: "agent",
  mayBeMissing: false,
};
const named = { key: "agent", mayBeMissing: true } as const;
const searchLine: Line<"searchUser"> = { ...named, method: "GET", path: "/external/users/search" };
const getLine: Line<"getUser"> = { ...named, method: "GET", path: "/external/users/{id}" };
const deleteLine: Line<"deleteUser"> = { ...named, method: "DELETE", path: "/external/users/{id}" };

export function usersOf({ call, json }: Caller): Users {
  const record = json(one(user.read));
  const found = json(one(userSearch.read));
  return {
    create: (body, options) => call(createLine, { body, answer: record }, options),
    search: (query, options) => call(searchLine, { query, answer: found }, options),
    get: (id, options) => call(getLine, { names: { id }, answer: record }, options),
    delete: (id, options) =>
      call(deleteLine, { names: { id }, answer: { form: "nothing", value: undefined } }, options),
  };
}
