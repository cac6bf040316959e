// What a planted defect is: wrappers around exported functions of the daemon. The sources are loaded unchanged; modules that
// import a wrapped one get its wrapper instead (plant.ts).

import type { Database, Query } from "../../../src/store/driver.ts";

/** The modules that can be wrapped. An export that is renamed or changes its type fails the type check. */
export interface Modules {
  "adapters/email/imap/fetch.ts": typeof import("../../../adapters/email/imap/fetch.ts");
  "adapters/email/smtp/send.ts": typeof import("../../../adapters/email/smtp/send.ts");
  "adapters/email/status.ts": typeof import("../../../adapters/email/status.ts");
  "adapters/sms/events.ts": typeof import("../../../adapters/sms/events.ts");
  "adapters/sms/index.ts": typeof import("../../../adapters/sms/index.ts");
  "adapters/sms/twilio/client.ts": typeof import("../../../adapters/sms/twilio/client.ts");
  "adapters/sms/twilio/backfill.ts": typeof import("../../../adapters/sms/twilio/backfill.ts");
  "adapters/sms/twilio/send.ts": typeof import("../../../adapters/sms/twilio/send.ts");
  "src/agent/client.ts": typeof import("../../../src/agent/client.ts");
  "src/commands/run.ts": typeof import("../../../src/commands/run.ts");
  "src/escalation/notify/rows.ts": typeof import("../../../src/escalation/notify/rows.ts");
  "src/escalation/actions.ts": typeof import("../../../src/escalation/actions.ts");
  "src/pipeline/ask/rows.ts": typeof import("../../../src/pipeline/ask/rows.ts");
  "src/pipeline/accept/rows.ts": typeof import("../../../src/pipeline/accept/rows.ts");
  "src/pipeline/accept/stage.ts": typeof import("../../../src/pipeline/accept/stage.ts");
  "src/pipeline/send/rows.ts": typeof import("../../../src/pipeline/send/rows.ts");
  "src/pipeline/reconcile/stage.ts": typeof import("../../../src/pipeline/reconcile/stage.ts");
  "src/store/lanes.ts": typeof import("../../../src/store/lanes.ts");
  "src/store/leases.ts": typeof import("../../../src/store/leases.ts");
  "src/store/sqlite/lock.ts": typeof import("../../../src/store/sqlite/lock.ts");
  "src/store/migrate.ts": typeof import("../../../src/store/migrate.ts");
  "src/store/tables/responders.ts": typeof import("../../../src/store/tables/responders.ts");
  "src/store/tables/conversations.ts": typeof import("../../../src/store/tables/conversations.ts");
  "src/store/tables/drafts.ts": typeof import("../../../src/store/tables/drafts.ts");
  "src/store/tables/events.ts": typeof import("../../../src/store/tables/events.ts");
  "src/store/tables/suppressions.ts": typeof import("../../../src/store/tables/suppressions.ts");
  "src/store/tables/takeover.ts": typeof import("../../../src/store/tables/takeover.ts");
  "src/store/tables/turns.ts": typeof import("../../../src/store/tables/turns.ts");
}

/** Wrappers by module and export. A wrapper gets the real function and its module. */
export type Wraps = {
  readonly [File in keyof Modules]?: {
    readonly [Name in keyof Modules[File]]?: (real: Modules[File][Name], module: Modules[File]) => Modules[File][Name];
  };
};

/** Creates the wrappers of one daemon. They call `altered` whenever they differ from the real function. A defect that
 *  never differed is not caught, even when its case fails. */
export type Plant = (altered: () => void) => Wraps;

/** A plausible mistake. */
export interface Defect<Invariant extends string> {
  readonly what: string;
  /** The case in which it shows. */
  readonly caught: string;
  /** One of these invariants must be broken there. */
  readonly by: readonly Invariant[];
  /** Set when nothing ever settles under it: then there is no point in waiting. */
  readonly endless?: true;
  readonly plant: Plant;
}

export type Defects<Invariant extends string> = { readonly [name: string]: Defect<Invariant> };

/** For wrappers that write in a transaction of their own, `ms` after the one that should contain the write. */
export const writingLater =
  (make: (later: (ms: number, write: (q: Query) => Promise<unknown>) => void) => Wraps): Plant =>
  (altered) => {
    let database: Database | undefined;
    const later = (ms: number, write: (q: Query) => Promise<unknown>) => {
      altered();
      setTimeout(() => void database?.tx(write), ms);
    };
    return {
      ...make(later),
      "src/store/migrate.ts": {
        migrate: (real) => (db, steps) => {
          database = db;
          return real(db, steps);
        },
      },
    };
  };

/** Runs statements when the store is opened, before the daemon looks at what an earlier process has left. */
export const atStart =
  (...statements: readonly string[]): Plant =>
  (altered) => ({
    "src/store/migrate.ts": {
      migrate: (real) => async (db, steps) => {
        const applied = await real(db, steps);
        let changed = 0;
        await db.tx(async (q) => {
          for (const statement of statements) changed += await q.run(statement);
        });
        if (changed > 0) altered();
        return applied;
      },
    },
  });
