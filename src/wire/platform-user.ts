// Platform users, the members of the organization with access to an agent (External API 2.3).

import * as z from "zod";
import { record } from "./record.ts";

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
