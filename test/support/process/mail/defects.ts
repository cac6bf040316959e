// Defects to plant: each is a plausible mistake, and each must be caught by a case of the matrix. They prove that the
// matrix can fail.

import { externalId, type InboundEvent } from "bridgehead/contract";
import type { Query } from "../../../../src/store/driver.ts";
import { atStart, type Defects, type Modules, type Plant, type Wraps, writingLater } from "../planting.ts";
import type { Invariant } from "./invariants.ts";

type Accept = Modules["src/pipeline/accept/stage.ts"]["accept"];

/** Stage accept, with the real `moveCursor` at hand. Commits without events pass: they say where reading begins. */
const accepting =
  (wrap: (real: Accept, write: (...args: Parameters<Accept>) => Promise<unknown>) => Accept): Plant =>
  (altered) => {
    let moveCursor: Modules["src/pipeline/accept/rows.ts"]["moveCursor"] | undefined;
    return {
      "src/pipeline/accept/rows.ts": {
        moveCursor: (real) => {
          moveCursor = real;
          return real;
        },
      },
      "src/pipeline/accept/stage.ts": {
        accept: (real) => {
          const wrapped = wrap(real, (scheduler, channel, _events, position) =>
            scheduler.commit(async (q) => {
              if (position) await moveCursor?.(q, channel, position);
            }),
          );
          return (...args) => {
            if (args[2].length === 0) return real(...args);
            altered();
            return wrapped(...args);
          };
        },
      },
    };
  };

function withoutFingerprint(event: InboundEvent): InboundEvent {
  if (!("fingerprint" in event)) return event;
  const { fingerprint: _, ...rest } = event;
  return rest;
}

/** The client of an agent, with other operations in place of some. */
const asking =
  (change: (altered: () => void) => Partial<ReturnType<Modules["src/agent/client.ts"]["createAgentClient"]>>): Plant =>
  (altered) => ({
    "src/agent/client.ts": {
      createAgentClient: (real) => (options) => ({ ...real(options), ...change(altered) }),
    },
  });

/** Binds a conversation as the daemon does. */
const bind = (q: Query, conversation: string, platformId: string) =>
  q.write("UPDATE conversations SET platform_id = $1 WHERE id = $2", platformId, conversation);

export const defects: Defects<Invariant> = {
  "marks-first": {
    what: "a mail is moved out of the mailbox before it is committed",
    caught: "event.commit before 2 move",
    by: ["lost"],
    endless: true,
    plant: (altered) => ({
      "adapters/email/imap/fetch.ts": {
        MailFetcher: (real) =>
          new Proxy(real, {
            construct: (target, [options]: ConstructorParameters<typeof real>) => {
              const { core, client, mark, own } = options;
              const early: typeof core = {
                ...core,
                async accept(events, cursor) {
                  altered();
                  const uids = events.map(({ id }) => Number(id.slice(id.lastIndexOf("/") + 1)));
                  await mark(client, uids, own);
                  return core.accept(events, cursor);
                },
              };
              return new target({ ...options, core: early });
            },
          }),
      },
    }),
  },
  "cursor-first": {
    what: "the cursor is written in a transaction of its own, before the events",
    caught: "event.commit before 2",
    by: ["lost"],
    endless: true,
    plant: accepting((real, writeCursor) => async (...args) => {
      await writeCursor(...args);
      const [scheduler, channel, events, , ...more] = args;
      return real(scheduler, channel, events, null, ...more);
    }),
  },
  "cursor-last-no-dedupe": {
    what: "the cursor follows in a transaction of its own, and ids are not recognised",
    caught: "event.commit after 2",
    by: ["asked-twice"],
    plant: accepting((real, writeCursor) => async (...args) => {
      const [scheduler, channel, events, , ...more] = args;
      const strange = events.map((event) => ({
        ...withoutFingerprint(event),
        id: externalId(`${event.id}?${Math.random()}`),
      }));
      const accepted = await real(scheduler, channel, strange, null, ...more);
      await writeCursor(...args);
      return accepted.map((one, at) => ({ ...one, id: events[at]?.id ?? one.id }));
    }),
  },
  "no-fingerprint": {
    what: "copies under another position in the mailbox are not recognised",
    caught: "outcome.commit after 1 renumbered",
    // The mark on a copy keeps it from being answered twice: it is held instead.
    by: ["asked-twice", "held"],
    plant: accepting(
      (real) =>
        (scheduler, channel, events, ...more) =>
          real(scheduler, channel, events.map(withoutFingerprint), ...more),
    ),
  },
  "attempt-not-recorded": {
    what: "the attempt to put a question is written down with its outcome, not before it",
    caught: "ask.cross after 1",
    by: ["asked-twice"],
    plant: (altered) => {
      type Record = Modules["src/store/tables/turns.ts"]["recordAsking"];
      const unrecorded = new Map<string, Parameters<Record>>();
      let record: Record | undefined;
      return {
        "src/store/tables/turns.ts": {
          recordAsking: (real) => {
            record = real;
            return (...args) => {
              altered();
              unrecorded.set(args[1].id, args);
              return Promise.resolve(true);
            };
          },
          bindAsking: () => async (q, turn, platformId) => {
            await bind(q, turn.conversation, platformId);
            return true;
          },
          endAttempt:
            (real) =>
            async (q, subject, ...more) => {
              const [, ...args] = unrecorded.get(subject) ?? [];
              if (args[0] !== undefined) await record?.(q, ...(args as [never, never, never]));
              unrecorded.delete(subject);
              return real(q, subject, ...more);
            },
        },
      };
    },
  },
  "asked-blindly-again": {
    what: "a question of unknown outcome is put again without looking",
    caught: "ask.cross after 1",
    by: ["asked-twice"],
    plant: asking((altered) => ({
      lookUp() {
        altered();
        return Promise.resolve({ kind: "ok", value: { state: "absent" } });
      },
    })),
  },
  "opened-blindly-again": {
    what: "the conversation of an unanswered opening is not looked for",
    caught: "open.cross after 1 create",
    by: ["stray-conversation"],
    plant: asking((altered) => ({
      findConversations() {
        altered();
        return Promise.resolve({ kind: "ok", value: [] });
      },
    })),
  },
  "binding-with-the-answer": {
    what: "the platform's conversation is only remembered when it has answered",
    caught: "ask.cross after 1",
    by: ["asked-twice"],
    plant: (altered) => {
      const unwritten = new Map<string, string>();
      return {
        "src/store/tables/turns.ts": {
          bindAsking: () => (_q, turn, platformId) => {
            altered();
            unwritten.set(turn.conversation, platformId);
            return Promise.resolve(true);
          },
        },
        "src/store/tables/drafts.ts": {
          insertReply: (real) => async (q, reply) => {
            const platformId = unwritten.get(reply.conversation);
            if (platformId !== undefined) await bind(q, reply.conversation, platformId);
            return real(q, reply);
          },
        },
      };
    },
  },
  "reply-outside": {
    what: "the reply is stored in a transaction after the one that closes the turn",
    caught: "answer.commit after 1",
    by: ["lost"],
    endless: true,
    plant: writingLater((later) => ({
      "src/store/tables/drafts.ts": {
        insertReply: (real) => (_q, reply) => {
          later(2000, (q) => real(q, reply));
          return Promise.resolve();
        },
      },
    })),
  },
  "bounce-outside": {
    what: "what a bounce says of its draft is written after the bounce itself",
    caught: "receipt.commit after 1",
    by: ["bounce"],
    plant: writingLater((later) => ({
      "src/store/tables/drafts.ts": {
        // Nothing but a bounce fails a draft there.
        changeDraft: (real) => (q, id, change, from) => {
          if (change.state !== "failed") return real(q, id, change, from);
          later(2000, (another) => real(another, id, change));
          return Promise.resolve(true);
        },
      },
    })),
  },
  "sent-in-advance": {
    what: "a draft counts as sent when its attempt begins",
    caught: "send.record after 1",
    by: ["phantom"],
    endless: true,
    plant: (altered) => ({
      "src/pipeline/send/rows.ts": {
        recordSending:
          (real) =>
          async (q, draft, ...more) => {
            altered();
            const recorded = await real(q, draft, ...more);
            await q.run("UPDATE drafts SET state = 'sent', open = 0 WHERE id = $1", draft.id);
            return recorded;
          },
      },
    }),
  },
  "unknown-sent-again": {
    what: "a draft of unknown outcome is sent again, whatever the policy says",
    caught: "send.cross after 1 hold",
    by: ["sent-twice"],
    plant: (altered) => ({
      "src/pipeline/send/rows.ts": {
        leaseAdmitted: (real, { headDraft }) =>
          async function* (q, ...more) {
            for await (const { lease, head, ...rest } of real(q, ...more)) {
              const isUnknown = head !== null && ["sending", "unknown"].includes(head.state);
              if (isUnknown) {
                altered();
                await q.run("UPDATE drafts SET state = 'queued', due_at = now_ms() WHERE id = $1", head.id);
              }
              yield { ...rest, lease, head: isUnknown ? await headDraft(q, lease) : head };
            }
          },
      },
    }),
  },
  "sending-not-recorded": {
    what: "a draft is sent before the attempt is written down",
    caught: "send.cross after 1 hold",
    by: ["sent-twice"],
    endless: true,
    plant: (altered) => ({
      "src/pipeline/send/rows.ts": {
        recordSending: () => () => {
          altered();
          return Promise.resolve(true);
        },
      },
    }),
  },
  "silence-is-no": {
    what: "no reply after the final dot is taken for a refusal that may be repeated",
    caught: "silent relay hold",
    by: ["sent-twice"],
    plant: (altered) => ({
      "adapters/email/status.ts": {
        outcomeOf: (real) => (error, crossed) => {
          const outcome = real(error, crossed);
          if (outcome.kind !== "unknown") return outcome;
          altered();
          return { kind: "deferred", reason: outcome.reason, retryAfterMs: 100 };
        },
      },
    }),
  },
  "fresh-message-id": {
    what: "every attempt has a Message-ID of its own",
    caught: "send.cross after 1",
    by: ["changed-id"],
    endless: true,
    plant: (altered) => ({
      "adapters/email/smtp/send.ts": {
        readDraft: (real) => (stored) => {
          altered();
          const draft = real(stored);
          return { ...draft, messageId: draft.messageId.replace("@", `.${Math.random()}@`) };
        },
      },
    }),
  },
  "policy-ignored": {
    what: "`hold` resends",
    caught: "send.cross after 1 hold",
    by: ["sent-twice"],
    plant: (altered) => ({
      "src/pipeline/reconcile/stage.ts": {
        reconcile: (real) => (sending, signal, deps) => {
          altered();
          const { line } = sending;
          const rules = { ...line.rules, on_unknown: "resend" as const };
          return real({ ...sending, line: { ...line, rules } }, signal, deps);
        },
      },
    }),
  },
  "leases-left": {
    what: "leases of a dead process are waited for",
    caught: "ask.record after 1",
    by: ["lost", "unsettled"],
    endless: true,
    plant: (altered) => ({
      "src/store/leases.ts": {
        endLeases: () => () => {
          altered();
          return Promise.resolve();
        },
      },
    }),
  },
  "delay-forgotten": {
    what: "after a restart everything is due",
    caught: "answer.commit after 1 late",
    by: ["too-early"],
    plant: atStart(
      "UPDATE drafts SET due_at = created_at WHERE state = 'queued'",
      "UPDATE lanes SET due_at = 0 WHERE due_at IS NOT NULL",
    ),
  },
  "youngest-first": {
    what: "a lane is worked from its end",
    caught: "event.commit before 2",
    by: ["order"],
    plant: (altered) => ({
      "src/pipeline/ask/rows.ts": {
        leaseTurns: (real) => async (q, claim) => {
          const found = [...(await real(q, claim))];
          for (const [at, { head, ...rest }] of found.entries()) {
            const last = await q.one<{ id: string }>(
              "SELECT * FROM turns WHERE conversation = $1 AND open = 1 ORDER BY seq DESC LIMIT 1",
              rest.lease.conversation,
            );
            if (head === null || last === undefined || last.id === head.turn.id) continue;
            altered();
            found[at] = { ...rest, head: { ...head, turn: { ...head.turn, ...last } } };
          }
          return found;
        },
      },
    }),
  },
  "no-guard": {
    what: "a holder whose lease was taken over writes all the same",
    caught: "stalled holder",
    by: ["sent-twice"],
    plant: (altered) => {
      const unguarded =
        <Args extends readonly unknown[]>(
          real: (...args: Args) => Promise<void>,
          { LeaseLost }: Modules["src/store/lanes.ts"],
        ) =>
        (...args: Args) =>
          real(...args).catch((error: unknown) => {
            if (!(error instanceof LeaseLost)) throw error;
            altered();
          });
      const lanes: Wraps["src/store/lanes.ts"] = { guardLease: unguarded, releaseLane: unguarded };
      return {
        "src/store/lanes.ts": lanes,
        // The check of the state would refuse the second write as well.
        "src/store/tables/turns.ts": {
          changeTurn:
            (real) =>
            (...args) =>
              real(...args).catch((error: unknown) => {
                if (!(error instanceof Error && error.message.endsWith("may not follow its state"))) throw error;
                altered();
              }),
        },
      };
    },
  },
};
