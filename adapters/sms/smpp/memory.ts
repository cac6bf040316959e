// What must outlive a connection, kept in the channel's cursor and so committed together with the texts:
//
// - parts of long texts whose other parts have not come yet. Each is answered when it is stored; a centre that sends
//   one message at a time would otherwise never send the next;
// - deliveries whose answer the centre may not have read. SMPP gives a delivered text no id, so one that comes again over
//   another line can only be known by its content, and people do write "ok" twice.

import { createHash } from "node:crypto";
import type { Clock, Cursor } from "bridgehead/contract";
import { cursor } from "bridgehead/contract";
import { type Part, userData } from "./encoding.ts";
import { decode, type Pdu, text } from "./pdu.ts";

/** One text: its only message, or all its parts in order; of an incomplete one, those that came. */
export interface Whole {
  readonly id: string;
  readonly pdus: readonly Pdu[];
  /** When its first part came, in milliseconds. */
  readonly since: number;
  /** How many parts never came. */
  readonly missing: number;
}

interface Group {
  readonly name: string;
  readonly id: string;
  readonly since: number;
  readonly total: number;
  readonly parts: Record<string, string>;
}

/** A delivery whose answer the centre may not have read. */
export interface Delivery {
  readonly print: string;
  readonly id: string;
  readonly at: number;
}

type Open = Delivery & { readonly pdu: Pdu; readonly answered: boolean };

/** A centre that has not tried again for so long will not. */
const forgottenAfterMs = 3_600_000;
/** A centre that tries again over the same line has waited at least so long; who says "ok" twice is quicker. */
const impatientAfterMs = 5000;
const mostGroups = 200;

export type Memory = ReturnType<typeof createMemory>;

/** What a line has delivered and what is known of it; one for each run. `left`: what the run before it had open, which
 *  includes what was never committed. */
export function createMemory(
  stored: Cursor | null,
  left: readonly Delivery[],
  clock: Pick<Clock, "now">,
  incompleteAfterMs: number,
) {
  const restored = parsed(stored);
  let groups: Group[] = [...restored.groups];
  // Of earlier lines; what is in it may come again. Of this line, a text that comes again is another text, unless the
  // first is not answered yet: then the centre lost patience.
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
    /** Takes one message in; the text that is whole by it, if one is. */
    take(pdu: Pdu): Whole | null {
      const print = printOf(pdu);
      const { part } = userData(pdu);
      const before = known(print);
      const group = part === null ? undefined : groups.find(({ name }) => name === nameOf(pdu, part));
      const id = before?.id ?? group?.id ?? newId(print);
      open = [...open.filter((one) => one !== before), { print, id, at: clock.now(), pdu, answered: false }];
      if (part === null) return { id, pdus: [pdu], since: clock.now(), missing: 0 };
      // The other parts are not here: the text was whole before, and only the answer got lost.
      if (before !== undefined && group === undefined) return null;
      return join(pdu, part, group ?? begin(pdu, part, id));
    },

    /** Long texts that have waited long enough for what is missing, and the oldest when they are too many. */
    incomplete(): readonly Whole[] {
      const late = (group: Group, at: number) =>
        clock.now() - group.since >= incompleteAfterMs || at < groups.length - mostGroups;
      const given = groups.filter(late);
      groups = groups.filter((group) => !given.includes(group));
      return given.map(wholeOf);
    },

    /** The message was answered. */
    answered(pdu: Pdu): void {
      open = open.map((one) => (one.pdu === pdu ? { ...one, answered: true } : one));
    },

    /** To be called when answers have been written; the function it gives, when the centre has read them. */
    settling(): () => void {
      const written = new Set(open.filter((one) => one.answered));
      return () => {
        open = open.filter((one) => !written.has(one));
      };
    },

    /** True when the centre may not have read an answer that was written. */
    unsettled: () => open.some((one) => one.answered),

    /** For the next run's `left`. */
    open: (): readonly Delivery[] => [...earlier, ...open].map(({ print, id, at }) => ({ print, id, at })),

    /** What to commit now; null: nothing has changed since the last one. */
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

/** The sequence number differs when the same message comes again; the rest does not. */
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
