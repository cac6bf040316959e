// Skills by which platform users reach the agent in their chat applications. The real system names are
// product names; the interface uses placeholders, and so does this file.

import * as z from "zod";
import { skillOf } from "./kinds.ts";

const mode = z.enum(["ALL_ENABLED", "CUSTOM"]);
/** The ids apply only under CUSTOM. */
const channels = z.looseObject({ mode, channelIds: z.array(z.string()) });
const users = z.looseObject({ mode, userIds: z.array(z.string()) });
/** True: only senders whose address belongs to a platform user receive an answer. */
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
