// Serves the links in notifications, /escalations/<token>.
// Input: GET shows the escalation and changes nothing, because mail scanners open links. POST is the button.
// Effect: the button acknowledges the escalation, once.
// Output: an HTML page; forged, used and expired tokens get the same one.
// Failure: the request fails, and the link stays valid. Crash: likewise, unless it was committed.

import type { Clock, Log } from "bridgehead/contract";
import type { Scheduler } from "../../engine/scheduler.ts";
import { plain } from "../../http/channel-route.ts";
import { failpoint } from "../../ops/failpoints.ts";
import type { Database, Query } from "../../store/driver.ts";
import { type EscalationRow, lockEscalations, readEscalation } from "../../store/tables/escalations.ts";
import { type TargetRow, targetByLink, useLink } from "../../store/tables/responders.ts";
import { acknowledge } from "../actions.ts";
import { headlinesOf } from "../notify/rows.ts";
import { headline, utc } from "../notify/text.ts";
import { hashOf, linkPath, type PageContent, pageResponse } from "./page.ts";

export interface PageDeps {
  readonly db: Pick<Database, "read">;
  readonly scheduler: Pick<Scheduler, "commit">;
  readonly clock: Clock;
  readonly log: Log;
}

/** Serves everything under /escalations/. */
export function pageHandler(deps: PageDeps): (request: Request) => Promise<Response> {
  return async (request) => {
    const { method } = request;
    if (method !== "GET" && method !== "HEAD" && method !== "POST")
      return plain(405, "method not allowed", { allow: "GET, HEAD, POST" });
    const link = hashOf(new URL(request.url).pathname.slice(linkPath.length + 1));
    const content = await (method === "POST" ? taken(link, deps) : deps.db.read((q) => shown(q, link)));
    return content === null ? pageResponse(404, nothing) : pageResponse(200, content);
  };
}

/** One response for every invalid link, independent of the reason. */
const nothing: PageContent = {
  title: "This link leads nowhere",
  facts: [],
  words:
    "It is not one of ours, has expired, or has been used. If you have just used it, it has done its work. The newest message about an escalation has a link that works.",
  button: null,
};

interface Linked {
  readonly contact: TargetRow;
  readonly row: EscalationRow;
}

async function linked(q: Query, link: string): Promise<Linked | null> {
  const contact = await targetByLink(q, link);
  if (contact === null || contact.link_used_at !== null || contact.left <= 0) return null;
  return { contact, row: await readEscalation(q, contact.escalation) };
}

async function shown(q: Query, link: string): Promise<PageContent | null> {
  const found = await linked(q, link);
  if (found === null) return null;
  const { contact, row } = found;
  const own = row.taken_contact === contact.id;
  if (row.state === "closed") return page(q, row, "It is closed. Nothing is left to do.", null);
  if (own) return page(q, row, "You have it.", null);
  return page(q, row, `You are ${contact.name}. Nobody else is told once you have taken it.`, "I take it");
}

async function taken(link: string, { scheduler, clock, log }: PageDeps): Promise<PageContent | null> {
  let escalation = "";
  const content = await scheduler.commit(async (q) => {
    const found = await linked(q, link);
    if (found === null) return null;
    const { contact } = found;
    // Reads the current row under the lock: another node may have closed the escalation.
    const row = (await lockEscalations(q, [found.row.id])).get(found.row.id) ?? found.row;
    if (row.state === "closed") return page(q, row, "It was closed before. Nothing is left to do.", null);
    if (!(await useLink(q, contact.id))) return null;
    await acknowledge(q, row, { name: contact.name, contact: contact.id }, { clock, log });
    escalation = row.id;
    failpoint("take.commit", "before", { escalation });
    return page(q, await readEscalation(q, row.id), howToGoOn(contact, row), null);
  });
  if (escalation !== "") failpoint("take.commit", "after", { escalation });
  return content;
}

function howToGoOn({ way }: TargetRow, { number, conversation }: EscalationRow): string {
  const answer = way === "email" ? "Answer the mail" : `Answer the message with ${number} and your words`;
  return `It is yours.${conversation === null || way === "webhook" ? "" : ` ${answer} to write to the customer.`}`;
}

async function page(
  q: Query,
  row: EscalationRow,
  words: string,
  button: string | null,
): Promise<PageContent> {
  const who =
    row.state === "closed"
      ? "It is closed"
      : row.state === "taken"
        ? (row.taken_by ?? "Somebody")
        : "Nobody yet";
  const details = (await headlinesOf(q, [row])).get(row.id);
  return {
    title: `Escalation ${row.number}`,
    facts: [
      ["What", details ? headline(details) : row.reason],
      ["Why", row.reason],
      ["Since", utc(row.opened_at)],
      ["Who has it", who],
    ],
    words,
    button,
  };
}
