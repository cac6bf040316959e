// The skills by which colleagues reach the agent inside their chat applications. Their system names are the products';
// the interface writes placeholders, and so do we.

import * as z from "zod";
import { skillOf } from "./kinds.ts";

const mode = z.enum(["ALL_ENABLED", "CUSTOM"]);
/** The ids count only under CUSTOM. */
const channels = z.looseObject({ mode, channelIds: z.array(z.string()) });
const users = z.looseObject({ mode, userIds: z.array(z.string()) });
/** True: only senders whose address belongs to a platform user get an answer. */
const known = { requireKnownRaiaUser: z.boolean() };

const tenant = z.looseObject({
  tenantId: z.string(),
  /** False blocks the tenant's messages. */
  enabled: z.boolean(),
  teams: z.array(z.looseObject({ teamId: z.string(), channels })),
  users,
});

const workspace = z.looseObject({
  slackTeamId: z.string(),
  /** False blocks the workspace's messages. */
  enabled: z.boolean(),
  channels: channels.extend(known),
  users: users.extend(known),
});

export const teamsChatSkill = skillOf(
  "<TEAMS_CHAT>",
  { config: z.looseObject({ isFileUploadEnabled: z.boolean(), tenants: z.array(tenant) }) },
  {},
);

export const chatWorkspaceSkill = skillOf(
  "<CHAT_WORKSPACE>",
  { config: z.looseObject({ isFileUploadEnabled: z.boolean(), workspaces: z.array(workspace) }) },
  {},
);
