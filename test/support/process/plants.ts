// Everything that can be planted, by name.

import { AsyncLocalStorage } from "node:async_hooks";
import type { Clock } from "bridgehead/contract";
import type { ApiCall } from "../../../adapters/sms/twilio/client.ts";
import type { TwilioSender } from "../../../adapters/sms/twilio/send.ts";
import { type TimingOverrides, timingWith } from "../../../src/ops/timing.ts";
import { escalationDefects } from "./escalation/defects.ts";
import { defects } from "./mail/defects.ts";
import type { Plant } from "./planting.ts";
import { textDefects } from "./sms/defects.ts";

// Not defects, but circumstances that would take too long to wait for, or need more than one machine: planted as defects are.

/** Durations of the daemon that differ from the standard ones. */
const timed =
  (timing: TimingOverrides): Plant =>
  (altered) => ({
    "src/commands/run.ts": {
      runDaemon: (real) => (options, io, standard) => {
        altered();
        return real(options, io, timingWith(timing, standard));
      },
    },
  });

const all =
  (...plants: readonly Plant[]): Plant =>
  (altered) =>
    Object.assign({}, ...plants.map((plant) => plant(altered)));

/** How much faster the clock of `quick-looks` goes. */
const haste = 75;

const circumstances: { readonly [name: string]: Plant } = {
  /** A lease that hardly holds one call. */
  "short-lease": timed({ ask: { rateWait: 0, read: 500, leaseMargin: 500 } }),
  /** Leases on PostgreSQL that end a few seconds after their holder died. SQLite has a single process and forgets them. */
  "short-takeover": timed({
    channels: { lease: 3000, renewal: 1000 },
    ask: { rateWait: 0, read: 1000, leaseMargin: 1000 },
    send: { attempt: 6000, leaseMargin: 2000, crossing: 2000 },
  }),
  /** Looks at a provider's list of texts that need not wait until it is certainly complete: to them, attempts age faster. */
  "quick-looks": (altered) => ({
    "adapters/sms/twilio/send.ts": {
      TwilioSender: (real) => {
        const ahead = new AsyncLocalStorage<number>();
        return class extends real {
          readonly #clock: Pick<Clock, "now">;

          constructor(...[channel, ...more]: ConstructorParameters<typeof real>) {
            const clock = {
              now: () => channel.clock.now() + (ahead.getStore() ?? 0),
              monotonic: () => channel.clock.monotonic(),
              sleep: (ms: number, signal?: AbortSignal) => channel.clock.sleep(ms, signal),
            };
            const hasty = new Proxy(channel, {
              get: (target, name) => {
                if (name === "clock") return clock;
                const member: unknown = Reflect.get(target, name, target);
                return typeof member === "function" ? member.bind(target) : member;
              },
            });
            super(hasty, ...more);
            this.#clock = channel.clock;
          }

          override async reconcile(...[text, attempt, signal]: Parameters<TwilioSender["reconcile"]>) {
            altered();
            const age = this.#clock.now() - attempt.startedAt.getTime();
            const verdict = await ahead.run(age * (haste - 1), () => super.reconcile(text, attempt, signal));
            if (verdict.kind !== "unsure" || verdict.lookAgainAfterMs === undefined) return verdict;
            return { ...verdict, lookAgainAfterMs: verdict.lookAgainAfterMs / haste };
          }
        };
      },
    },
  }),
  /** Calls to providers that give up on a silent one soon. */
  "short-calls": all(timed({ escalation: { webhookAnswer: 6000 } }), (altered) => ({
    "adapters/sms/twilio/client.ts": {
      TwilioClient: (real) =>
        class extends real {
          override messages(call: ApiCall) {
            altered();
            return super.messages({
              ...call,
              signal: AbortSignal.any([call.signal, AbortSignal.timeout(6000)]),
            });
          }
        },
    },
  })),
  /** Nobody waits for three quarters of a minute in doubt whether somebody was told. */
  "short-doubt": timed({ reconcile: { noticeWindow: 300 } }),
  /** What is sent again and again, because the daemon dies each time, does not wait longer each time. */
  "no-patience": (altered) => ({
    "src/domain/retry.ts": {
      sendDelay: () => () => {
        altered();
        return 0;
      },
    },
  }),
  /** Two daemons on one SQLite store, as two nodes are on PostgreSQL. */
  "shared-store": (altered) => ({
    "src/store/sqlite/lock.ts": {
      lockStore: () => () => {
        altered();
        return () => undefined;
      },
    },
  }),
};

export const plantable: readonly string[] = [defects, textDefects, escalationDefects, circumstances].flatMap(
  (all) => Object.keys(all),
);

/** Throws when there is no such defect or circumstance. */
export function plantNamed(name: string): Plant {
  const plant = (defects[name] ?? textDefects[name] ?? escalationDefects[name])?.plant ?? circumstances[name];
  if (!plant) throw new Error(`there is no defect ${name}`);
  return plant;
}
