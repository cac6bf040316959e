// Serves the links in notifications, /escalations/<token>. A link belongs to one responder and one escalation. It is
// valid until it expires or a newer notification replaces it, so that the responder can acknowledge now and answer later.
// Input: GET shows the escalation and changes nothing, because mail scanners open links. POST is one of its forms.
// Effect: a form acknowledges, replies, notes, resumes or closes, as `bridgehead escalation` does; a repetition has no effect.
// Output: an HTML page; after an action a redirect to it. Forged, replaced and expired tokens get the same page.
// Failure: the request fails, and the form can be sent again. Crash: likewise; a committed action is not repeated.

import { formField, formOf } from "bridgehead/contract";
import { type ActionName, actionNames } from "../../domain/policy.ts";
import { plain, readBody } from "../../http/channel-route.ts";
import { failpoints } from "../../ops/failpoints.ts";
import type { Timing } from "../../ops/timing.ts";
import type { Query } from "../../store/driver.ts";
import { lockEscalations, readEscalation } from "../../store/tables/escalations.ts";
import { targetByLink } from "../../store/tables/responders.ts";
import type { ActionOutcome } from "../act/decide.ts";
import { act } from "../act/stage.ts";
import type { EscalationParts } from "../actions.ts";
import { loadCase } from "../case.ts";
import { kindOf, whyNotRelayed } from "../reply/decide.ts";
import { readCustomers } from "../reply/rows.ts";
import { type Linked, type LinkPolicy, pageOf, permittedActions } from "./decide.ts";
import { hashOf, invalidLink, type LinkResult, linkPath, longestName, longestText, pageResponse } from "./page.ts";

type LinkDeps = Pick<EscalationParts, "policy" | "lines" | "clock" | "log" | "db" | "scheduler"> & {
  readonly timing: Pick<Timing, "commands">;
};

/** Without a policy the links of earlier notifications show the escalation and acknowledge it. */
const withoutPolicy: LinkPolicy = { expires: 0, actions: ["ack"], addresses: "masked" };

/** Limit of a form in bytes: `longestText` characters of any script, encoded. */
const mostBytes = 2 ** 18;

/** Serves everything under /escalations/. */
export function linkHandler(deps: LinkDeps): (request: Request) => Promise<Response> {
  return async (request) => {
    const { method } = request;
    if (method !== "GET" && method !== "HEAD" && method !== "POST")
      return plain(405, "method not allowed", { allow: "GET, HEAD, POST" });
    const { pathname, searchParams } = new URL(request.url);
    const link = hashOf(pathname.slice(linkPath.length + 1));
    const policy = deps.policy()?.link ?? withoutPolicy;
    if (method === "POST") return posted(request, link, policy, deps);
    const linked = await deps.db.read((q) => load(q, link, deps));
    return linked === null
      ? invalidLink()
      : pageResponse(200, pageOf(linked, policy), resultOf(searchParams.get("done")));
  };
}

/** Loads what the page and its forms depend on; null when the link is invalid. `lock`: for this transaction, and
 *  reads the row under the lock, because another node may have changed it. */
async function load(q: Query, link: string, deps: LinkDeps, lock = false): Promise<Linked | null> {
  const target = await targetByLink(q, link);
  if (target === null || target.left <= 0) return null;
  // The link of a responder who was removed from the policy is invalid. Recipients of the agent have no row in it.
  const responders = deps.policy()?.responders;
  if (responders && !target.person.startsWith("agent:") && !responders.has(target.person)) return null;
  const { escalation } = target;
  const row = lock ? (await lockEscalations(q, [escalation])).get(escalation) : await readEscalation(q, escalation);
  if (row === undefined) return null;
  const { conversation } = row;
  const customer = conversation === null ? null : ((await readCustomers(q, [conversation])).get(conversation) ?? null);
  const shown = await loadCase(q, row);
  const kind = customer && kindOf(deps.lines().get(customer.channel));
  return { target, ...shown, whyNotReplied: whyNotRelayed(customer, kind) };
}

interface Form {
  readonly action: ActionName | null;
  readonly text: string;
  readonly name: string;
  readonly again: boolean;
}

async function posted(request: Request, link: string, policy: LinkPolicy, deps: LinkDeps): Promise<Response> {
  const body = await readBody(request, mostBytes);
  if (body === null) return plain(413, "too large", { connection: "close" });
  const form = readForm(body);
  let escalation = "";
  const result = await deps.scheduler.commit(async (q) => {
    escalation = "";
    const linked = await load(q, link, deps, true);
    if (linked === null) return null;
    const outcome = await execute(q, linked, form, policy, deps);
    if (outcome.done) {
      escalation = linked.details.row.id;
      failpoints["action.commit"].publish({ phase: "before", escalation });
    }
    return { linked, outcome };
  });
  if (escalation !== "") failpoints["action.commit"].publish({ phase: "after", escalation });
  if (result === null) return invalidLink(form.text);
  const { linked, outcome } = result;
  // A reload of the page does not send the form again. The location is relative, because a proxy may serve the page under a
  // path that this process does not know.
  const headers = { location: `?done=${form.action}`, "cache-control": "no-store" };
  if (outcome.done) return new Response(null, { status: 303, headers });
  const { action, text, name } = form;
  const shown = { says: outcome.says, action, text, name, repeated: outcome.repeated === true };
  return pageResponse(409, pageOf(linked, policy), shown);
}

async function execute(
  q: Query,
  linked: Linked,
  { action, text, name, again }: Form,
  policy: LinkPolicy,
  deps: LinkDeps,
): Promise<ActionOutcome> {
  const { target, details } = linked;
  if (action === null) return { done: false, says: "the form has no action" };
  if (!policy.actions.includes(action)) return { done: false, says: "the escalation policy does not permit this" };
  if (action === "reply" && !permittedActions(linked, policy).has("reply") && linked.whyNotReplied !== null)
    return { done: false, says: `not sent: ${linked.whyNotReplied}` };
  // Several responders may share one webhook.
  const by = { name: target.way === "webhook" && name !== "" ? name : target.name, target: target.id };
  const request = { action, by, text, again };
  return act(q, details.row, request, {
    kindOf: (channel) => kindOf(deps.lines().get(channel)),
    clock: deps.clock,
    log: deps.log,
    sameText: deps.timing.commands.sameText,
  });
}

function readForm(body: Uint8Array): Form {
  const form = formOf(new TextDecoder().decode(body));
  const field = (name: string) => (formField(form, name) ?? "").replaceAll("\0", "");
  return {
    action: actionNames.find((one) => one === formField(form, "action")) ?? null,
    text: fieldText(field("text").replaceAll("\r\n", "\n"), longestText),
    name: fieldText(field("by").replaceAll(/\p{Cc}/gu, " "), longestName),
    again: "again" in form,
  };
}

const fieldText = (text: string, longest: number): string => text.slice(0, longest).toWellFormed().trim();

const results: Readonly<Record<ActionName, string>> = {
  ack: "acknowledged; the other responders are notified of it",
  reply: "the text will be sent to the customer",
  note: "the note was kept",
  resume: "the conversation was returned to the agent, and the escalation is closed",
  close: "the escalation is closed",
};

/** Returns the result of the action that redirected here. */
function resultOf(done: string | null): LinkResult | null {
  const action = actionNames.find((name) => name === done);
  return action ? { says: results[action], action: null, text: "", name: "", repeated: false } : null;
}
