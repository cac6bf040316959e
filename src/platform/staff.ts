// Platform users with access to an agent, and the source of their access (External API 2.3, 4.2 rules 1 and
// 2).

import type { agentRoles, organizationRoles, platformUser } from "../wire/conversation.ts";
import type { Served } from "../wire/record.ts";
import type { AgentDefinition } from "./definition.ts";

type Status = "active" | "inactive";

/** A member of the organization, from its definition. */
export interface Member {
  readonly email: string;
  readonly firstName: string;
  readonly lastName: string;
  readonly avatarUrl: string | null;
  readonly role: (typeof organizationRoles)[number];
  readonly status: Status;
}

/** A member's direct assignment to one agent. */
export interface Assignment {
  readonly email: string;
  readonly role: (typeof agentRoles)[number];
  readonly status: Status;
}

/** A stored member, with id and creation time. */
export interface KnownMember {
  readonly id: string;
  readonly created_at: number;
}

type Access = Served<typeof platformUser>;

const leading: ReadonlySet<string> = new Set(["owner", "admin"]);

/** Returns all members with access: a direct assignment in any role, or owner or admin of the
 *  organization. */
export function withAccess(agent: AgentDefinition, known: ReadonlyMap<string, KnownMember>): Access[] {
  return accesses(agent, known).filter(
    ({ agentRole, organizationRole }) => Boolean(agentRole) || leading.has(organizationRole ?? ""),
  );
}

/** Returns the administrators: owner or admin of the agent, and active owners and admins of the
 *  organization. */
export function inCharge(agent: AgentDefinition, known: ReadonlyMap<string, KnownMember>): Access[] {
  return accesses(agent, known).flatMap((access): Access[] => {
    if (leading.has(access.agentRole ?? "")) return [{ ...access, accessSource: "agent" }];
    const leads = leading.has(access.organizationRole ?? "") && access.organizationStatus === "active";
    return leads ? [{ ...access, accessSource: "organization" }] : [];
  });
}

/** Returns every member with both of their roles. `known` is keyed by lower-case e-mail address. */
function accesses(agent: AgentDefinition, known: ReadonlyMap<string, KnownMember>): Access[] {
  return agent.organization.members.flatMap((member) => {
    const stored = known.get(member.email.toLowerCase());
    if (!stored) return [];
    const own = agent.assignments.find(({ email }) => email.toLowerCase() === member.email.toLowerCase());
    return [
      {
        id: stored.id,
        email: member.email,
        firstName: member.firstName,
        lastName: member.lastName,
        avatarUrl: member.avatarUrl,
        agentRole: own?.role ?? null,
        agentAccessStatus: own?.status ?? null,
        organizationRole: member.role,
        organizationStatus: member.status,
        accessSource: own ? ("agent" as const) : ("organization" as const),
        createdAt: new Date(stored.created_at).toISOString(),
      },
    ];
  });
}
