// Operations on the agent, its users, its admins and its usage (External API 4.2), and on agent users, the persons an
// agent talks to (External API 2.2; the operations from the public description).

import { agent } from "../wire/agent.ts";
import { escalation } from "../wire/escalation.ts";
import type { Page } from "../wire/page.ts";
import { statistic } from "../wire/statistic.ts";
import { platformUser, user, userSearch } from "../wire/user.ts";
import type { BodyOf, Caller, Line, QueryOf } from "./caller.ts";
import type { CallResult } from "./exchange.ts";
import type { CallOptions } from "./options.ts";
import { one, pageOf } from "./reading.ts";
import type { Agent, Escalation, PlatformUser, Statistic, User, UserSearch } from "./records.ts";

export interface Agents {
  /** GET /external/agents/by-api-key: returns the agent of the key, with its configuration and skills
   *  (2.4). */
  get(options?: CallOptions): Promise<CallResult<Agent>>;
  /** GET /external/agents/users: returns one page of the agent's users (2.2). */
  users(query?: QueryOf<"listAgentUsers">, options?: CallOptions): Promise<CallResult<Page<User>>>;
  /** GET /external/agents/admin-users: returns one page of its owners and admins, and active ones of its
   *  organization (2.3). */
  adminUsers(
    query?: QueryOf<"listAdminUsers">,
    options?: CallOptions,
  ): Promise<CallResult<Page<PlatformUser>>>;
  /** GET /external/agents/statistic: returns the usage of a period or of one user (2.7). */
  statistic(query?: QueryOf<"getStatistic">, options?: CallOptions): Promise<CallResult<Statistic>>;
  /** GET /external/agents/escalations: returns past escalations and the notified recipients.
   *  Bridgehead's own platform provides this list; the interface does not define it. */
  escalations(
    query?: QueryOf<"listEscalations">,
    options?: CallOptions,
  ): Promise<CallResult<Page<Escalation>>>;
  /** GET /external/agents/{id}/users: returns the users of one of the organization's agents. Requires
   *  the organization's key. `missing`: the organization has no such agent. */
  usersOf(
    agentId: string,
    query?: QueryOf<"listUsersOfAgent">,
    options?: CallOptions,
  ): Promise<CallResult<Page<User>>>;
  /** GET /external/agents/{id}/platform-users: returns all platform users with access to one of the
   *  organization's agents (4.2, rule 1). Requires the organization's key. */
  platformUsersOf(
    agentId: string,
    query?: QueryOf<"listPlatformUsers">,
    options?: CallOptions,
  ): Promise<CallResult<Page<PlatformUser>>>;
}

const own = { method: "GET", key: "agent", mayBeMissing: true } as const;
const organizations = { ...own, key: "organization" } as const;
const getLine: Line<"getAgent"> = { ...own, path: "/external/agents/by-api-key" };
const usersLine: Line<"listAgentUsers"> = { ...own, path: "/external/agents/users" };
const adminsLine: Line<"listAdminUsers"> = { ...own, path: "/external/agents/admin-users" };
const statisticLine: Line<"getStatistic"> = { ...own, path: "/external/agents/statistic" };
const escalationsLine: Line<"listEscalations"> = {
  ...own,
  path: "/external/agents/escalations",
  mayBeMissing: false,
};
const usersOfLine: Line<"listUsersOfAgent"> = { ...organizations, path: "/external/agents/{id}/users" };
const platformUsersLine: Line<"listPlatformUsers"> = {
  ...organizations,
  path: "/external/agents/{id}/platform-users",
};

export function agentsOf({ call, json }: Caller): Agents {
  const record = json(one(agent.read));
  const people = json(pageOf(user.read));
  const colleagues = json(pageOf(platformUser.read));
  const numbers = json(one(statistic.read));
  const escalated = json(pageOf(escalation.read));
  return {
    get: (options) => call(getLine, { answer: record }, options),
    users: (query, options) => call(usersLine, { query, answer: people }, options),
    adminUsers: (query, options) => call(adminsLine, { query, answer: colleagues }, options),
    statistic: (query, options) => call(statisticLine, { query, answer: numbers }, options),
    escalations: (query, options) => call(escalationsLine, { query, answer: escalated }, options),
    usersOf: (id, query, options) => call(usersOfLine, { names: { id }, query, answer: people }, options),
    platformUsersOf: (id, query, options) =>
      call(platformUsersLine, { names: { id }, query, answer: colleagues }, options),
  };
}

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
const userLine: Line<"getUser"> = { ...named, method: "GET", path: "/external/users/{id}" };
const deleteLine: Line<"deleteUser"> = { ...named, method: "DELETE", path: "/external/users/{id}" };

export function usersOf({ call, json }: Caller): Users {
  const record = json(one(user.read));
  const found = json(one(userSearch.read));
  return {
    create: (body, options) => call(createLine, { body, answer: record }, options),
    search: (query, options) => call(searchLine, { query, answer: found }, options),
    get: (id, options) => call(userLine, { names: { id }, answer: record }, options),
    delete: (id, options) =>
      call(deleteLine, { names: { id }, answer: { form: "nothing", value: undefined } }, options),
  };
}
