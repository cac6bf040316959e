// Defects of texts and of escalations to plant, as in mail/defects.ts: each must be caught by a case of its matrix.

import { externalId } from "bridgehead/contract";
import { methods } from "../contract/flaws.ts";
import type { EscalationInvariant } from "./escalation/invariants.ts";
import { atStart, type Defects, type Modules, type Plant, writingLater } from "./planting.ts";
import type { TextInvariant } from "./sms/scenario.ts";

type Sender = Pick<
  InstanceType<Modules["adapters/sms/twilio/send.ts"]["TwilioSender"]>,
  "handleStatus" | "send" | "reconcile"
>;

/** The sender of texts, with other functions in place of some. */
const sending =
  (change: (real: Sender, altered: () => void) => Partial<Sender>): Plant =>
  (altered) => ({
    "adapters/sms/twilio/send.ts": {
      TwilioSender: (real) =>
        class extends real {
          constructor(...args: ConstructorParameters<typeof real>) {
            super(...args);
            const own: Sender = {
              handleStatus: (status) => super.handleStatus(status),
              send: (text, attempt) => super.send(text, attempt),
              reconcile: (text, attempt, signal) => super.reconcile(text, attempt, signal),
            };
            Object.assign(this, change(own, altered));
          }
        },
    },
  });

export const textDefects: Defects<TextInvariant> = {
  "answered-first": {
    what: "a webhook is answered before its text is committed",
    caught: "event.commit before 2",
    by: ["acknowledged"],
    plant: (altered) => ({
      "adapters/sms/index.ts": {
        default: (real) => ({
          ...real,
          create(channel, config) {
            const hasty: typeof channel = {
              ...methods(channel),
              accept(events, cursor) {
                if (cursor !== undefined) return channel.accept(events, cursor);
                altered();
                setTimeout(() => void channel.accept(events), 50);
                return Promise.resolve(events.map(({ id }) => ({ id, duplicate: false })));
              },
            };
            return real.create(hasty, config);
          },
        }),
      },
    }),
  },
  "missed-for-ever": {
    what: "what came in while nobody listened is not looked for",
    caught: "event.commit before 2",
    by: ["lost"],
    endless: true,
    plant: (altered) => ({
      "adapters/sms/twilio/backfill.ts": {
        Backfill: (real) =>
          class extends real {
            constructor(...[parts, ...more]: ConstructorParameters<typeof real>) {
              const deaf: typeof parts.accept = (heard, cursor) => {
                if (heard.texts.length > 0) altered();
                return parts.accept({ ...heard, texts: [] }, cursor);
              };
              super({ ...parts, accept: deaf }, ...more);
            }
          },
      },
    }),
  },
  "found-again": {
    what: "a text that was found by listing has another id than the one that was told of",
    caught: "event.commit after 2",
    by: ["asked-twice"],
    plant: (altered) => ({
      "adapters/sms/events.ts": {
        eventOfText: (real) => (config, text) => {
          altered();
          return { ...real(config, text), id: externalId(`${text.id}/${Math.random()}`) };
        },
      },
    }),
  },
  "sent-blindly-again": {
    what: "a text of unknown outcome is sent again without looking for it",
    caught: "send.cross after 1",
    by: ["sent-twice"],
    plant: sending((_real, altered) => ({
      reconcile() {
        altered();
        return Promise.resolve({ kind: "not-sent" });
      },
    })),
  },
  "unanswered-is-no": {
    what: "a request that was not answered is taken for one that was not made",
    caught: "unanswered",
    by: ["sent-twice", "phantom"],
    plant: sending((real, altered) => ({
      async send(text, attempt) {
        const outcome = await real.send(text, attempt);
        if (outcome.kind !== "unknown") return outcome;
        altered();
        return { kind: "deferred", reason: outcome.reason, scope: "channel", cause: "unreachable" };
      },
    })),
  },
  "fetched-by-nobody": {
    what: "a claimed attachment is not due again when its holder has died",
    caught: "fetch.commit before 1 picture",
    by: ["unsettled"],
    plant: atStart("UPDATE attachments SET holder = NULL, due_at = NULL WHERE holder IS NOT NULL"),
  },
  "newest-first": {
    what: "a question is put in front of those that wait in its lane",
    caught: "ask.cross before 1",
    by: ["order"],
    plant: (altered) => ({
      "src/store/tables/turns.ts": {
        appendTurn: (real) => async (q, turn) => {
          await real(q, turn);
          const moved = await q.run(
            `UPDATE turns SET seq = -seq WHERE id = $1 AND EXISTS (
               SELECT 1 FROM turns other WHERE other.conversation = turns.conversation AND other.open = 1 AND other.id <> $1)`,
            turn.id,
          );
          if (moved > 0) altered();
        },
      },
    }),
  },
  "suppressed-too-early": {
    what: "who said STOP is only heeded when a reply is made, not when it is sent",
    caught: "stop during the delay",
    by: ["unwanted"],
    plant: (altered) => ({
      "src/pipeline/send/rows.ts": {
        leaseAdmitted: (real) =>
          async function* (q, ...more) {
            for await (const { head, ...rest } of real(q, ...more)) {
              const isSuppressed = head !== null && head.suppressed !== null;
              if (isSuppressed) altered();
              yield { ...rest, head: isSuppressed ? { ...head, suppressed: null } : head };
            }
          },
        recordSending:
          (real) =>
          async (q, draft, ...more) => {
            await q.run("UPDATE drafts SET forced = 1 WHERE id = $1", draft.id);
            return real(q, draft, ...more);
          },
      },
    }),
  },
};

export const escalationDefects: Defects<EscalationInvariant> = {
  "told-in-advance": {
    what: "people count as told before what they are told is committed",
    caught: "hands over answer.commit after 1",
    by: ["unnotified"],
    endless: true,
    plant: writingLater((later) => ({
      "src/store/tables/drafts.ts": {
        insertNotices: (real) => (_q, notices) => {
          later(60_000, (q) => real(q, notices));
          return Promise.resolve();
        },
      },
      "src/escalation/notify/rows.ts": {
        endAll: (real) => (q, ended) =>
          real(
            q,
            ended.map(({ notification }) => ({ notification, reply: null })),
          ),
      },
    })),
  },
  "relayed-blindly-again": {
    what: "a human's words of unknown outcome are put to the platform again without looking",
    caught: "answers ask.cross after 1",
    by: ["relayed"],
    plant: (altered) => ({
      "src/agent/client.ts": {
        createAgentClient: (real) => (options) => ({
          ...real(options),
          findHumanReply() {
            altered();
            return Promise.resolve({ kind: "ok", value: null });
          },
        }),
      },
    }),
  },
  "taken-later": {
    what: "who has taken it is written after their words were heard",
    caught: "answers route.commit after 1",
    by: ["unacknowledged"],
    plant: writingLater((later) => ({
      "src/escalation/actions.ts": {
        acknowledge: (real) => (_q, row, by, deps) => {
          later(60_000, (q) => real(q, row, by, deps));
          return Promise.resolve();
        },
      },
    })),
  },
  "forgotten-at-the-start": {
    what: "notices that the last life did not hand over are dropped at the start",
    caught: "hands over send.cross before 1",
    by: ["unnotified"],
    endless: true,
    plant: atStart(
      "UPDATE drafts SET state = 'dropped', open = 0 WHERE open = 1 AND reply IN (SELECT reply FROM notifications)",
    ),
  },
  "own-words-from-elsewhere": {
    what: "the human's words at the platform are not known for ours",
    caught: "gives back answer.commit after 1",
    // A poll may find the text while the daemon stops: then its draft is still queued.
    by: ["answered-twice", "unsettled"],
    plant: (altered) => ({
      "src/store/tables/takeover.ts": {
        namePlatformId: () => () => {
          altered();
          return Promise.resolve();
        },
      },
      "src/store/tables/turns.ts": {
        changeTurn:
          (real, { readTurn }) =>
          async (q, id, change) => {
            const { kind } = await readTurn(q, id);
            const { questionId: _, ...rest } = change;
            return real(q, id, kind === "relayed" ? rest : change);
          },
      },
    }),
  },
};
