// The canary: a mail from the channel to its own mailbox, sent regularly and expected back within a limit. It proves that
// mail really arrives and leaves, which a working connection does not: a provider may accept mail and deliver none.
// Responders are notified of a missing one, and of its return.
// Its state is stored before it is sent, so that a restart or a lost connection sends no second one. A canary that comes
// back is deleted and never becomes an event; any other mail with such a subject is handled like all mail.

import { randomBytes } from "node:crypto";
import type { Channel, Clock, SendOutcome } from "bridgehead/contract";
import type { EmailConfig } from "./config.ts";
import type { Identity } from "./parse/headers.ts";
import type { EmailDraft } from "./smtp/send.ts";
import type { EmailTiming } from "./timing.ts";

interface State {
  /** The newest first. A canary that is late is recognized, too. */
  readonly tokens: readonly string[];
  /** Epoch milliseconds of the first attempt to send the newest one. */
  readonly begunAt: number;
  readonly isSent: boolean;
  readonly isBack: boolean;
}

export interface CanaryOptions {
  readonly channel: Pick<Channel, "id" | "clock" | "log" | "secrets" | "warn">;
  readonly settings: NonNullable<EmailConfig["canary"]>;
  readonly timing: Pick<EmailTiming, "canaryRetry">;
  readonly self: Pick<Identity, "address">;
  /** Sends one mail, without a copy in the Sent folder. */
  readonly send: (draft: EmailDraft, signal: AbortSignal) => Promise<SendOutcome>;
}

/** So many tokens are recognized. */
const kept = 5;
const subjectOf = (token: string): string => `Bridgehead canary ${token}`;

export class Canary {
  readonly #options: CanaryOptions;
  readonly #clock: Clock;
  #state: State | null = null;
  #wake: () => void = () => undefined;

  constructor(options: CanaryOptions) {
    this.#options = options;
    this.#clock = options.channel.clock;
  }

  /** Returns whether the mail is a canary of this channel, and notes its return. Call with the bytes of every mail. */
  take(raw: Uint8Array): boolean {
    const { tokens = [] } = this.#state ?? {};
    if (tokens.length === 0) return false;
    const subject = subjectIn(raw);
    const at = tokens.findIndex((token) => subject === subjectOf(token));
    if (at < 0) return false;
    if (at === 0) this.#returned();
    return true;
  }

  /** Call before mail is read. Rejects when the store cannot be read. */
  async load(): Promise<void> {
    const stored = await this.#options.channel.secrets.read(this.#name);
    this.#state = stored === null ? null : (JSON.parse(stored) as State);
  }

  /** Runs while the channel reads. Does not reject: a store that fails is a warning of the channel. */
  async run(signal: AbortSignal): Promise<void> {
    // A process that ended before it could report the return has stored it.
    if (this.#state?.isBack) this.#report(null);
    while (!signal.aborted) {
      const pause = await this.#step(signal).catch((error: unknown) => {
        if (!signal.aborted) this.#options.channel.warn("canary", `the canary failed: ${String(error)}`);
        return this.#options.timing.canaryRetry;
      });
      const woken = new AbortController();
      const wake = () => woken.abort(null);
      this.#wake = wake;
      await this.#clock.sleep(pause, AbortSignal.any([signal, woken.signal]));
    }
  }

  get #name(): string {
    return `canary/${this.#options.channel.id}`;
  }

  /** Does what is due. Returns the milliseconds until the next step. */
  async #step(signal: AbortSignal): Promise<number> {
    const { settings, timing } = this.#options;
    const { every, within } = settings;
    const now = this.#clock.now();
    const state = this.#state;
    // After a clock was set back, the next one is due at once.
    const next = state === null || state.begunAt > now ? now : state.begunAt + every;
    if (state !== null && !state.isBack && now >= state.begunAt + within) this.#overdue(state);
    if (state !== null && !state.isSent && now < next) {
      await this.#send(state, signal);
      return Math.min(timing.canaryRetry, within, Math.max(1, next - this.#clock.now()));
    }
    if (now >= next) {
      const token = randomBytes(12).toString("hex");
      const tokens = [token, ...(state?.tokens ?? [])].slice(0, kept);
      await this.#keep({ tokens, begunAt: now, isSent: false, isBack: false });
      return 0;
    }
    const deadline = state === null || state.isBack ? next : state.begunAt + within;
    return Math.max(1, (now < deadline ? Math.min(deadline, next) : next) - now);
  }

  async #send(state: State, signal: AbortSignal): Promise<void> {
    const { send, self, channel } = this.#options;
    const outcome = await send(draftOf(state, self.address), signal);
    // A mail of unknown outcome counts as sent: either it comes back, or the warning is right.
    if (outcome.kind === "sent" || outcome.kind === "unknown") {
      // It may have arrived since.
      if (this.#state?.tokens[0] === state.tokens[0])
        await this.#keep({ ...state, isSent: true, isBack: this.#state?.isBack ?? false });
    } else channel.log.debug({ outcome: outcome.kind, reason: outcome.reason }, "canary not sent, retrying");
  }

  #overdue({ isSent }: State): void {
    const { settings } = this.#options;
    const minutes = Math.round(settings.within / 60_000);
    this.#report(
      isSent
        ? `a mail of this channel to itself did not arrive within ${minutes} min: the provider accepts mail and does not deliver it`
        : `a mail of this channel to itself could not be sent for ${minutes} min`,
    );
  }

  #report(missing: string | null): void {
    this.#options.channel.warn("canary", missing, { escalates: true });
  }

  #returned(): void {
    const state = this.#state;
    if (state === null || state.isBack) return;
    const { channel } = this.#options;
    this.#state = { ...state, isSent: true, isBack: true };
    this.#report(null);
    channel.log.info({ duration_ms: this.#clock.now() - state.begunAt }, "canary arrived");
    this.#keep(this.#state).catch((error: unknown) =>
      channel.log.warn({ err: error }, "storing the state of the canary failed"),
    );
    this.#wake();
  }

  async #keep(state: State): Promise<void> {
    this.#state = state;
    await this.#options.channel.secrets.write(this.#name, JSON.stringify(state));
  }
}

function draftOf({ tokens: [token = ""], begunAt }: State, address: string): EmailDraft {
  const own = { address, name: "" };
  const text =
    "Bridgehead has sent this mail to its own mailbox to prove that mail is delivered. It deletes the mail when it arrives.";
  return {
    v: 1,
    key: `canary${token}`,
    envelopeFrom: address,
    from: own,
    to: [own],
    cc: [],
    replyTo: null,
    subject: subjectOf(token),
    messageId: `<canary-${token}${address.slice(address.lastIndexOf("@"))}>`,
    inReplyTo: null,
    references: [],
    date: new Date(begunAt).toISOString(),
    automatic: "auto-generated",
    hops: 1,
    text,
    html: `<p>${text}</p>`,
    attachments: [],
  };
}

/** Returns the subject when it is on one line of the header; longer ones are no canary. Linear. */
function subjectIn(raw: Uint8Array): string | null {
  const head = Buffer.from(raw.buffer, raw.byteOffset, Math.min(raw.byteLength, 64_000)).toString("latin1");
  const end = head.search(/\r?\n\r?\n/);
  for (const line of (end < 0 ? head : head.slice(0, end)).split(/\r?\n/))
    if (/^subject:/i.test(line)) return line.slice("subject:".length).trim();
  return null;
}
