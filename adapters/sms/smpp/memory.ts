// State that must survive a connection. It is stored in the channel's cursor and so committed together with
// the texts:
//
// - parts of long texts that are incomplete. Each part is acknowledged when it is stored; a message centre
//   that sends one message at a time would otherwise never send the next;
// - deliveries whose response the message centre may not have read. SMPP gives a delivered text no id. A
//   text that is delivered again over another connection can be recognized only by its content, and customers
//   do write "ok" twice.

import { createHash } from "node:crypto";
import type { Clock, Cursor } from "bridgehead/contract";
import { cursor } from "bridgehead/contract";
import { type Part, userData } from "./encoding.ts";
import { decode, type Pdu, text } from "./pdu.ts";

/** One text: its only message, or all its parts in order. An incomplete text has the parts that arrived. */
export interface Whole {
  readonly id: string;
  readonly pdus: readonly Pdu[];
  /** Arrival of its first part, in milliseconds. */
  readonly since: number;
  /** Number of parts that never arrived. */
  readonly missing: number;
}

interface Group {
  readonly name: string;
  readonly id: string;
  readonly since: number;
  readonly total: number;
  readonly parts: Record<string, string>;
}

/** A delivery whose response the message centre may not have read. */
export interface Delivery {
  readonly print: string;
  readonly id: string;
  readonly at: number;
}

type Open = Delivery & { readonly pdu: Pdu; readonly answered: boolean };

/** A message centre that has not retried for this long will not retry. Milliseconds. */
const forgottenAfterMs = 3_600_000;
/** A message centre that retries over the same connection has waited at least this long. A customer who
 *  writes "ok" twice is faster. Milliseconds. */
const impatientAfterMs = 5000;
const mostGroups = 200;

export type Memory = ReturnType<typeof createMemory>;

/** Creates the record of a connection's deliveries; each run has one. `left`: the open deliveries of the
 *  previous run, including those that were never committed. */
export function createMemory(
  stored: Cursor | null,
  left: readonly Delivery[],
  clock: Pick<Clock, "now">,
  incompleteAfterMs: number,
) {
  const restored = parsed(stored);
  let groups: Group[] = [...restored.groups];
  // Deliveries of earlier connections, which may arrive again. On this connection an identical message is
  // another text, unless the response to the first is still pending: then the message centre retried it.
  let earlier = [...left, ...restored.open.filter(({ id }) => !left.some((one) => one.id === id))].filter(
    ({ at }) => clock.now() - at < forgottenAfterMs,
  );
  let open: readonly Open[] = [];
  let count = 0;
  let kept = stored ?? "";

  const newId = (print: string) =>
    `smpp-${clock.now().toString(36)}-${(count++).toString(36)}-${print.slice(0, 16)}`;

  function known(print: string): Delivery | undefined {
    const again = earlier.find((one) => one.print === print);
    earlier = earlier.filter((one) => one !== again);
    const late = (one: Open) => !one.answered && clock.now() - one.at >= impatientAfterMs;
    return again ?? open.find((one) => one.print === print && late(one));
  }

  return {
    /** Adds one message. Returns the text that it completes, or null. */
    take(pdu: Pdu): Whole | null {
      const print = printOf(pdu);
      const { part } = userData(pdu);
      const before = known(print);
      const group = part === null ? undefined : groups.find(({ name }) => name === nameOf(pdu, part));
      const id = before?.id ?? group?.id ?? newId(print);
      open = [...open.filter((one) => one !== before), { print, id, at: clock.now(), pdu, answered: false }];
      if (part === null) return { id, pdus: [pdu], since: clock.now(), missing: 0 };
      // The other parts are gone: the text was complete before, and only the response was lost.
      if (before !== undefined && group === undefined) return null;
      return join(pdu, part, group ?? begin(pdu, part, id));
    },

    /** Returns long texts whose timeout for missing parts has expired. When there are too many, also the
     *  oldest. */
    incomplete(): readonly Whole[] {
      const late = (group: Group, at: number) =>
        clock.now() - group.since >= incompleteAfterMs || at < groups.length - mostGroups;
      const given = groups.filter(late);
      groups = groups.filter((group) => !given.includes(group));
      return given.map(wholeOf);
    },

    /** Records that the response to the message was sent. */
    answered(pdu: Pdu): void {
      open = open.map((one) => (one.pdu === pdu ? { ...one, answered: true } : one));
    },

    /** Called when responses have been written. Returns a function to call when the message centre has
     *  read them. */
    settling(): () => void {
      const written = new Set(open.filter((one) => one.answered));
      return () => {
        open = open.filter((one) => !written.has(one));
      };
    },

    /** Returns true when the message centre may not have read a response that was written. */
    unsettled: () => open.some((one) => one.answered),

    /** Returns the open deliveries for the next run's `left`. */
    open: (): readonly Delivery[] => [...earlier, ...open].map(({ print, id, at }) => ({ print, id, at })),

    /** Returns the cursor to commit; null: it has not changed since the last one. */
    cursor(): Cursor | null {
      const now = JSON.stringify({ groups, open: this.open() });
      if (now === kept) return null;
      kept = now;
      return cursor(now);
    },
  };

  function begin(pdu: Pdu, part: Part, id: string): Group {
    const group = { name: nameOf(pdu, part), id, since: clock.now(), total: part.total, parts: {} };
    groups = [...groups, group];
    return group;
  }

  function join(pdu: Pdu, part: Part, group: Group): Whole | null {
    group.parts[part.number] = Buffer.from(pdu.raw).toString("base64");
    if (Object.keys(group.parts).length < group.total) return null;
    groups = groups.filter((one) => one !== group);
    return wholeOf(group);
  }
}

function wholeOf({ id, since, total, parts }: Group): Whole {
  // Integer keys of an object come in ascending order.
  const pdus = Object.values(parts).map((raw) => decode(Buffer.from(raw, "base64")));
  return { id, since, pdus, missing: total - pdus.length };
}

/** Returns a hash without the header: the sequence number changes when a message is delivered again, the
 *  rest does not. */
function printOf({ raw }: Pdu): string {
  return createHash("sha256").update(Buffer.from(raw).subarray(16)).digest("hex");
}

function nameOf(pdu: Pdu, { reference, total }: Part): string {
  return JSON.stringify([text(pdu, "source_addr"), text(pdu, "destination_addr"), reference, total]);
}

interface Stored {
  readonly groups: readonly Group[];
  readonly open: readonly Delivery[];
}

function parsed(stored: Cursor | null): Stored {
  return stored === null ? { groups: [], open: [] } : (JSON.parse(stored) as Stored);
}
