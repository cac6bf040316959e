// Agent users, the persons an agent talks to (External API 2.2), and the requests that create and find them.
// Platform users, the members of the organization with access to an agent (External API 2.3).

import * as z from "zod";
import { record } from "./record.ts";

const names = { firstName: z.string(), lastName: z.string() };

/** `customData` of a request is returned as `metadata.customData`. */
export const user = record(
  "user",
  { id: z.string() },
  { ...names, isAnonymized: z.boolean() },
  {
    context: z.string(),
    source: z.string(),
    fkId: z.string(),
    fkUserId: z.string(),
    email: z.string(),
    phoneNumber: z.string(),
    metadata: z.record(z.string(), z.unknown()),
  },
);

/** Fields that every request about a user may contain. */
export const personFields = {
  ...names,
  context: z.string().optional(),
  source: z.string().optional(),
  fkId: z.string().optional(),
  fkUserId: z.string().optional(),
  customData: z.record(z.string(), z.unknown()).optional(),
  skipPhoneNumberValidation: z.boolean().optional(),
  skipEmailValidation: z.boolean().optional(),
};

/** POST /external/users: at least one of phoneNumber, email and fkId. */
export const createUserRequest = z
  .looseObject({ ...personFields, email: z.string().optional(), phoneNumber: z.string().optional() })
  .refine((body) => Boolean(body.email || body.phoneNumber || body.fkId), {
    message: "one of phoneNumber, email and fkId is required",
    path: ["fkId"],
  });

/** GET /external/users/search: returns the user and their conversations. */
export const userSearch = record(
  "users/search",
  { user: user.read, conversationIds: z.array(z.string()) },
  {},
  {},
);

const status = z.enum(["active", "inactive"]).nullable();

export const agentRoles = ["owner", "admin", "editor", "user", "copilot_user", "copilot_admin"] as const;
export const organizationRoles = [
  "owner",
  "admin",
  "manager",
  "user",
  "copilot_user",
  "copilot_admin",
  "guest",
] as const;

/** `accessSource`: a role on the agent itself, or owner or admin of its organization. */
export const platformUser = record(
  "platform user",
  { id: z.string() },
  {
    email: z.string(),
    firstName: z.string(),
    lastName: z.string(),
    accessSource: z.enum(["agent", "organization"]),
    createdAt: z.string(),
  },
  {
    avatarUrl: z.string().nullable(),
    /** Null without a direct assignment to the agent, like its status. */
    agentRole: z.enum(agentRoles).nullable(),
    agentAccessStatus: status,
    organizationRole: z.enum(organizationRoles).nullable(),
    organizationStatus: status,
  },
);
