// One connection of one call: handles the provider's events and speaks the agent's replies. Only the newest question
// counts: a reply to an older message is refused.

import { type Attempt, type ExternalId, externalId, type SendOutcome } from "bridgehead/contract";
import type { CallEvent, StartEvent } from "../dialects/dialect.ts";
import type { SpeechDraft } from "../outbound.ts";
import { configuredGreeting, languageOf, type Phrases, phrasesFor } from "../speech/phrases.ts";
import { sentencesOf } from "../speech/speakable.ts";
import { canTransfer } from "../twiml.ts";
import { Dialogue } from "./dialogue.ts";
import { type CallParts, type ConnectionEnd, Departure, type Farewell } from "./leaving.ts";
import { notesOf, transferUnanswered } from "./record.ts";
import { Speaker } from "./speaking.ts";
import { Keypad, ReplyWait, Silence, Utterances } from "./timers.ts";

const ended: SendOutcome = { kind: "refused", code: "ended", reason: "the call is being ended" };
const superseded: SendOutcome = { kind: "refused", code: "superseded", reason: "the caller has said something newer" };

export class Call {
  readonly #parts: CallParts;
  readonly #resumed: boolean;
  /** Start of the call, in milliseconds of the monotonic clock. */
  readonly #began: number;
  readonly #canTransfer: boolean;
  readonly #talk = new Dialogue();
  readonly #speaker: Speaker;
  readonly #waits: ReplyWait;
  readonly #quiet: Silence;
  readonly #utterances: Utterances;
  readonly #keys: Keypad;
  readonly #departure: Departure;
  /** False: each event contains the complete utterance, so nothing is debounced. */
  readonly #debounces: boolean;
  #language: string;
  #count = 0;
  /** The id of the newest message. A reply to any other message is refused. */
  #newest: ExternalId | null;
  #pending: boolean;
  /** The message whose reply was spoken last; null when the caller has asked again or interrupted since. */
  #spoken: ExternalId | null = null;
  #finished = false;

  constructor(parts: CallParts) {
    this.#parts = parts;
    const { channel, config, timing, can, facts, start } = parts;
    const { clock } = channel;
    this.#resumed = facts !== null && facts.openings > 1;
    const before = facts !== null && (this.#resumed || parts.joins) ? clock.now() - facts.openedAt.getTime() : 0;
    this.#began = clock.monotonic() - Math.max(0, before);
    this.#canTransfer = canTransfer(config, can);
    this.#language = languageOf(config, start.language) ?? config.language;
    this.#newest = facts?.pending ?? null;
    this.#pending = this.#newest !== null;
    this.#debounces = config.collect > 0 && can.wholeTurns !== true;
    const speaker = new Speaker({
      clock,
      timing,
      rate: can.wholeTurns ? null : config.speaking_rate,
      language: () => (config.languages.length > 0 ? this.#language : null),
      write: parts.write,
    });
    const timers = { clock, config, timing, speaker, failed: parts.failed };
    this.#speaker = speaker;
    this.#waits = new ReplyWait(
      timers,
      () => this.#phrases.fillers,
      () => this.#giveUp(),
    );
    this.#quiet = new Silence(
      timers,
      (asked) => {
        this.#talk.recordPresenceQuestion();
        return this.#phrases.stillThere[asked % 2] ?? "";
      },
      () => this.#talk.closing,
      () => (this.#talk.closing ? this.#end() : this.#goodbye("silent")),
    );
    this.#utterances = new Utterances(timers, this.#debounces ? config.collect : 0, (text) =>
      this.#handleUtterance(text),
    );
    this.#keys = new Keypad(
      timers,
      this.#canTransfer,
      () => this.#toHuman("asked"),
      (row) => this.#keyed(row),
    );
    this.#departure = new Departure(parts, {
      speaker,
      language: () => this.#language,
      durationMs: () => this.#duration,
    });
  }

  /** True while the reply to a question is pending. */
  get pending(): boolean {
    return this.#pending;
  }

  /** Speaks the greeting and starts the timers. `greeting`: instead of the configured one. */
  async begin(greeting: string | null = null): Promise<void> {
    const { channel, config, can, start, ringing, failed } = this.#parts;
    this.#limit().catch(failed);
    if (ringing !== null) return this.#depart({ way: "human", reason: ringing, words: [] });
    const again = start.resumed || this.#resumed;
    const usual = configuredGreeting(config, this.#language) ?? channel.agent()?.introduction;
    const first = greeting ?? (again ? this.#phrases.lostYou : (usual ?? this.#phrases.greeting));
    const sentences = sentencesOf(first, this.#language, this.#phrases);
    this.#talk.record(sentences);
    if (can.greets) for (const sentence of sentences) this.#speaker.assume(sentence);
    // A call that continues on another connection is not affected by a pause that began during it.
    const refused = this.#isIdle || (!again && channel.agent()?.paused === true);
    if (!can.greets && !refused) await this.#speaker.speak(sentences);
    if (refused) return this.#giveUp();
    if (this.#pending) this.#waits.begin();
    else this.#listen();
  }

  /** Continues a call that another process has served so far, instead of `begin`. `askedAt`: when the pending question
   *  was asked; null when it is the caller's turn. */
  async join(askedAt: number | null): Promise<void> {
    const { channel, failed } = this.#parts;
    this.#limit().catch(failed);
    if (askedAt === null) return;
    if (this.#pending) return this.#waits.begin(Math.max(0, channel.clock.now() - askedAt));
    // The reply was part of a response that was not delivered and never will be: another process held that request.
    await this.#speaker.speak([this.#phrases.lostYou]);
  }

  /** Sets the number of the caller's next message. A repeated event then has the same id. */
  number(next: number): void {
    this.#count = next - 1;
  }

  /** The number of the caller's next message. */
  get next(): number {
    return this.#count + 1;
  }

  async handle(event: Exclude<CallEvent, StartEvent | { kind: "end" }>): Promise<void> {
    if (this.#finished || this.#departure.closed) return;
    switch (event.kind) {
      case "turn":
        return this.#turn(event.text, event.language);
      case "partial":
        return this.#alive();
      case "speaking":
        this.#quiet.callerSpeaks(event.speaking);
        return event.speaking ? this.#alive() : undefined;
      case "digits":
        this.#alive();
        return this.#isLeaving ? undefined : this.#keys.press(event.digits);
      case "interrupted":
        return this.#cutShort(event.heard, event.estimated !== true);
      case "playback":
        return this.#quiet.playback(event.speaking);
      case "silence":
        return this.#pending || this.#isLeaving ? undefined : this.#quiet.noticed();
      case "dialed":
        return this.#dialed(event.outcome);
      case "problem":
        return this.#parts.channel.log.warn(
          { call: this.#parts.start.call, problem: event.text },
          "provider reported an error",
        );
    }
  }

  /** Speaks a reply, unless a newer question has arrived. */
  async answer(draft: SpeechDraft, attempt: Attempt): Promise<SendOutcome> {
    const before = this.#obstacle(draft);
    if (before === superseded && draft.answers === this.#newest) this.#talk.unspoken();
    if (before !== null) return before;
    await attempt.crossing();
    // The caller may have spoken or hung up while the attempt was recorded. Nothing was spoken.
    const since = this.#obstacle(draft);
    if (since !== null) return since;
    this.#pending = false;
    this.#waits.rest();
    this.#spoken = draft.answers;
    const { left } = this.#speaker;
    const { config, start, timing } = this.#parts;
    try {
      const transfer = draft.transfer === true && this.#canTransfer;
      const pieces = this.#talk.answers({
        sentences: sentencesOf(draft.text, this.#language, this.#phrases),
        most: config.max_sentences,
        offer: transfer ? null : this.#phrases.restOffered,
      });
      const end = await this.#speaker.speak(pieces);
      if (transfer) this.#depart({ way: "human", reason: "escalated", words: [] });
      else this.#proceed(end);
      const id = externalId(`${start.call}/spoken/${attempt.key}`);
      return { kind: "sent", id, ...(end === "cut" ? { detail: "interrupted" } : {}) };
    } catch {
      // Without a frame the reply is deferred to the next connection. Otherwise the caller may have received a part.
      const reason = "the line was cut";
      return this.#speaker.left === left
        ? { kind: "deferred", reason, retryAfterMs: timing.connectionRetry }
        : { kind: "unknown", reason };
    }
  }

  /** Waits until current speech, and a transfer or end that follows it, has finished, so that the process can exit. */
  async drain(): Promise<void> {
    const { channel, over, timing } = this.#parts;
    const signal = AbortSignal.any([over, AbortSignal.timeout(timing.drain)]);
    await this.#speaker.finished(signal);
    await Promise.race([this.#departure.idle(), channel.clock.sleep(timing.drain, signal)]);
  }

  /** Called at the end of the connection. Sends pending utterances and digits. Null: another connection has the call. */
  async end(ending: ConnectionEnd | null): Promise<void> {
    const { record } = this.#parts;
    this.#finished = true;
    this.#waits.end();
    this.#quiet.end();
    const digits = this.#keys.end();
    await this.#utterances.end();
    if (digits !== "") await this.#ask(digits, this.#talk.finishReply(), true);
    await this.#departure.idle(); // it may be storing the end
    if (this.#departure.closed || ending === null) return;
    await (ending.hungUp ? record.closed(ending.reason, this.#duration) : record.lost(ending.reason));
  }

  get #phrases(): Phrases {
    return phrasesFor(this.#parts.config, this.#language);
  }

  /** True while the agent receives no messages (it is inactive, or its key is rejected). It is not waited for. */
  get #isIdle(): boolean {
    return this.#parts.channel.agent()?.active === false;
  }

  get #isLeaving(): boolean {
    return this.#departure.farewell !== null;
  }

  get #duration(): number {
    return Math.max(0, Math.round(this.#parts.channel.clock.monotonic() - this.#began));
  }

  #obstacle({ answers }: SpeechDraft): SendOutcome | null {
    if (this.#isLeaving) return ended;
    const { over, timing, unready } = this.#parts;
    const late = this.#utterances.pending || (this.#newest !== null && answers !== this.#newest);
    if (late && answers !== null) return superseded;
    // What a human writes answers no message: it waits.
    const waits = over.aborted ? "the line is gone" : this.#utterances.pending ? "the caller is speaking" : null;
    if (waits !== null) return { kind: "deferred", reason: waits, retryAfterMs: timing.connectionRetry };
    return unready?.() ?? null;
  }

  /** Continues after a reply: ends the call when both sides have used a goodbye phrase. */
  #proceed(reply: "whole" | "cut"): void {
    if (this.#talk.over && reply === "whole") this.#end();
    else this.#listen();
  }

  /** Starts the silence timer, when it is the caller's turn. */
  #listen(): void {
    if (this.#pending || this.#isLeaving || this.#parts.can.reportsSilence) this.#quiet.rest();
    else this.#quiet.watch();
  }

  #alive(): void {
    this.#active();
    this.#listen();
  }

  #active(): void {
    this.#quiet.reset();
    this.#departure.cancel();
  }

  async #turn(text: string, reported: string | null): Promise<void> {
    const { config, can, failed, write } = this.#parts;
    const speaking = can.turnsEndSpeech !== true && this.#speaker.busy;
    this.#active();
    this.#quiet.callerSpeaks(false);
    this.#quiet.rest();
    if (this.#isLeaving) return;
    if (!this.#utterances.pending) {
      this.#talk.utteranceBegins(speaking ? this.#speaker.unplayed : 0);
      if (this.#talk.ignores(text, { speaking, pending: this.#pending }))
        return this.#talk.endsAfterSpeech ? this.#end() : this.#listen();
    }
    const now = languageOf(config, reported) ?? this.#language;
    if (now !== this.#language) {
      this.#language = now;
      if (config.languages.length > 0) await write({ kind: "language", language: now });
    }
    if (!this.#utterances.add(text)) return this.#listen();
    if (this.#debounces) return this.#awaitReply();
    await this.#speaker.close();
    this.#utterances.flush().catch(failed);
  }

  /** Handles a new question: cancels silence timer and open speech, and starts the wait. */
  async #awaitReply(): Promise<void> {
    this.#pending = true;
    this.#spoken = null;
    this.#quiet.rest();
    await this.#speaker.close();
    if (this.#isIdle) this.#giveUp();
    else this.#waits.begin();
  }

  /** Handles a complete utterance: sends it to the agent, or responds without the agent. */
  async #handleUtterance(text: string): Promise<void> {
    const reaction = this.#talk.handleUtterance(text);
    if (reaction.kind === "ask") {
      const stored = this.#ask(text, reaction.heard);
      if (this.#debounces || this.#finished) return stored;
      await Promise.all([stored, this.#awaitReply()]);
      return;
    }
    if (this.#parts.over.aborted) return; // the connection is closed
    this.#pending = false;
    this.#waits.rest();
    if (reaction.kind === "leave") return this.#end();
    this.#proceed(await this.#speaker.speak(reaction.pieces));
  }

  async #keyed(row: string): Promise<void> {
    await this.#utterances.flush();
    await Promise.all([this.#ask(row, this.#talk.finishReply(), true), this.#awaitReply()]);
  }

  async #ask(text: string, heard: string | null, keyed = false): Promise<void> {
    const { record } = this.#parts;
    this.#newest = record.messageId(++this.#count);
    await record.storeMessage(this.#newest, text, notesOf(heard, keyed));
  }

  async #cutShort(heard: string | null, stored: boolean): Promise<void> {
    const about = this.#spoken;
    this.#spoken = null;
    this.#alive(); // before `speaker.interrupted()`, so that a barge-in cancels a goodbye
    if (this.#parts.can.stops) await this.#parts.write({ kind: "stop" });
    await this.#speaker.interrupted();
    this.#talk.interrupted(heard);
    this.#listen();
    if (about !== null && stored) await this.#parts.record.interrupted(heard, about);
  }

  async #dialed(outcome: "answered" | "unanswered" | "gone"): Promise<void> {
    const { channel, config, record, start, write } = this.#parts;
    if (this.#departure.farewell?.way !== "human") return;
    if (outcome === "answered") return this.#departure.taken();
    channel.log.warn({ call: start.call, outcome }, "call transfer not answered");
    await record.missed(transferUnanswered);
    if (outcome === "gone") return;
    this.#departure.returned();
    const { apology } = this.#phrases;
    if (config.transfer?.no_answer !== "agent") return this.#goodbye("no-answer", [apology]);
    await record.returned();
    if (this.#language !== config.language) await write({ kind: "language", language: this.#language });
    this.#talk.record([apology]);
    await this.#speaker.speak([apology]);
    this.#listen();
  }

  #toHuman(reason: string, first: readonly string[] = []): void {
    this.#depart({ way: "human", reason, words: [...first, this.#phrases.transfer] });
  }

  #goodbye(reason: string, first: readonly string[] = []): void {
    this.#depart({ way: "end", reason, words: [...first, this.#phrases.goodbye] });
  }

  /** Both sides have used a goodbye phrase. The call ends when our speech has finished. */
  #end(): void {
    this.#depart({ way: "end", reason: "goodbye", words: [] });
  }

  #giveUp(): void {
    const first = [this.#phrases.apology];
    if (this.#canTransfer && this.#parts.config.give_up.to === "human") this.#toHuman("no-answer", first);
    else this.#goodbye("no-answer", first);
  }

  #depart(farewell: Farewell): void {
    if (this.#isLeaving) return;
    this.#pending = false;
    this.#waits.rest();
    this.#keys.rest();
    this.#quiet.rest();
    this.#departure.begin(farewell);
  }

  async #limit(): Promise<void> {
    const { channel, config, over, timing } = this.#parts;
    await channel.clock.sleep(config.max_call - this.#duration, over);
    // Repeats the goodbye, because the caller may have cancelled another one that was in progress.
    while (!over.aborted) {
      this.#goodbye("too-long");
      await channel.clock.sleep(timing.parting, over);
    }
  }
}
