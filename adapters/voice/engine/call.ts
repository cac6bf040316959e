// One connection of one call: handles the provider's events and speaks the agent's replies. Only the newest question
// counts: a reply to an older message is refused.

import {
  type Attempt,
  type Channel,
  type ExternalId,
  externalId,
  type SendOutcome,
  type SessionFacts,
} from "bridgehead/contract";
import type { VoiceConfig } from "../config.ts";
import type { CallEvent, Capabilities, Command, StartEvent } from "../dialects/dialect.ts";
import type { Speech } from "../draft.ts";
import { untaken } from "../for-humans.ts";
import { canHandOver, handOverData } from "../handoff.ts";
import { configuredGreeting, languageOf, wording } from "../wording.ts";
import { collecting } from "./collecting.ts";
import { dialogue } from "./dialogue.ts";
import { keypad } from "./keypad.ts";
import { type Farewell, leave } from "./leaving.ts";
import { type CallRecord, notesOf } from "./record.ts";
import { sentencesOf } from "./script.ts";
import { silence } from "./silence.ts";
import { speaker as makeSpeaker } from "./speaking.ts";
import { waiting } from "./waiting.ts";

export interface CallParts {
  readonly channel: Channel;
  readonly config: VoiceConfig;
  readonly can: Capabilities;
  readonly start: StartEvent;
  readonly record: CallRecord;
  /** The stored session, read after this connection was opened. */
  readonly facts: SessionFacts | null;
  /** The reason of the transfer that was in progress when the previous connection was lost; else null. */
  readonly ringing: string | null;
  readonly write: (command: Command) => Promise<void>;
  /** Aborts when the connection has ended. */
  readonly over: AbortSignal;
  /** Closes the connection with code 1000. */
  readonly hangUp: () => void;
  /** Reports a background error that ends the connection. */
  readonly failed: (error: unknown) => void;
}

export interface LiveCall {
  /** Speaks the greeting and starts the timers. */
  begin(): Promise<void>;
  handle(event: Exclude<CallEvent, StartEvent | { kind: "end" }>): Promise<void>;
  /** Speaks a reply, unless a newer question has arrived. */
  answer(draft: Speech, attempt: Attempt): Promise<SendOutcome>;
  /** Waits until current speech has finished, so that the process can exit. */
  drain(): Promise<void>;
  /** Called when the connection has ended. Flushes pending utterances as a message. Null: another connection has the
   *  call. */
  end(ending: Ending | null): Promise<void>;
}

const ended: SendOutcome = { kind: "refused", code: "ended", reason: "the call is being ended" };
const superseded: SendOutcome = {
  kind: "refused",
  code: "superseded",
  reason: "the caller has said something newer",
};
const lineGone: SendOutcome = { kind: "deferred", reason: "the line is gone", retryAfterMs: 500 };

/** The end of a connection. `hungUp`: the call ended with it. */
export interface Ending {
  readonly reason: string;
  readonly hungUp: boolean;
}

/** Reasons of a goodbye that the caller cancels by speaking. */
const stayable: ReadonlySet<string | undefined> = new Set(["silent", "goodbye"]);
/** Time in milliseconds for the provider to execute an `end` command, before we close the connection. */
const partingMs = 10_000;
const drainMs = 8_000;

export function liveCall(parts: CallParts): LiveCall {
  const { channel, config, can, record, over, facts, failed } = parts;
  const { clock } = channel;
  const resumed = facts !== null && facts.openings > 1;
  const before = resumed ? Math.max(0, clock.now() - facts.openedAt.getTime()) : 0;
  const began = clock.monotonic() - before;
  const duration = () => Math.max(0, Math.round(clock.monotonic() - began));
  const handsOver = canHandOver(config, can);
  let language = languageOf(config, parts.start.language) ?? config.language;
  let count = 0;
  /** The id of the newest message. A reply to any other message is refused. */
  let newest: ExternalId | null = facts?.pending ?? null;
  let pending = newest !== null;
  /** The message whose reply was spoken last; null when the caller has asked again or interrupted since. */
  let spoken: ExternalId | null = null;
  let leaving: { readonly farewell: Farewell; readonly abort: AbortController } | null = null;
  let closed = false;
  let finished = false;

  const words = () => wording(config, language);
  const isIdle = () => channel.agent()?.active === false;
  const talk = dialogue();
  const speaker = makeSpeaker({
    clock,
    rate: config.speaking_rate,
    language: () => (config.languages.length > 0 ? language : null),
    write: parts.write,
  });
  const depart = async (farewell: Farewell) => {
    if (leaving) return;
    const abort = new AbortController();
    leaving = { farewell, abort };
    pending = false;
    waits.end();
    keys.rest();
    quiet.rest();
    const signal = AbortSignal.any([over, abort.signal]);
    const ended = () => void (closed = true);
    const data = (reason: string) => handOverData(parts.start.call, reason, language);
    const target = config.hand_over?.dial?.[0] ?? null;
    await leave({ ...parts, clock, speaker, target, data, duration, ended }, farewell, signal);
    if (signal.aborted || (farewell.way === "human" && can.transfer === "dial")) return;
    await clock.sleep(partingMs, over);
    parts.hangUp();
  };
  const toHuman = (reason: string, first: readonly string[] = []) =>
    depart({ way: "human", reason, words: [...first, words().handOver] });
  const goodbye = (reason: string, first: readonly string[] = []) =>
    depart({ way: "end", reason, words: [...first, words().goodbye] });
  /** Both sides have said goodbye. The call ends when our speech has finished. */
  const farewell = () => depart({ way: "end", reason: "goodbye", words: [] });
  const giveUp = () => {
    const human = handsOver && config.give_up.to === "human";
    return human ? toHuman("no-answer", [words().apology]) : goodbye("no-answer", [words().apology]);
  };

  const waits = waiting({ clock, config, speaker, fillers: () => words().fillers, giveUp, failed });
  const quiet = silence({
    clock,
    config,
    speaker,
    question(asked) {
      talk.asksPresence();
      return words().stillThere[asked % 2] ?? "";
    },
    over: () => talk.closing,
    leave: () => (talk.closing ? farewell() : goodbye("silent")),
    failed,
  });
  const ask = async (text: string, heard: string | null, keyed = false) => {
    const id = record.messageId(++count);
    newest = id;
    await record.said(id, text, notesOf(heard, keyed));
  };
  /** Handles a complete utterance: sends it to the agent, or responds without the agent. */
  const said = async (text: string) => {
    const reaction = talk.hears(text);
    if (reaction.kind === "ask") return ask(text, reaction.heard);
    if (over.aborted) return; // the connection is closed
    pending = false;
    waits.end();
    if (reaction.kind === "leave") return farewell();
    await speaker.speak(reaction.pieces);
    listen();
  };
  const collected = collecting({ clock, wait: config.collect, said, failed });
  /** Handles a new question: cancels silence timer and open speech, and starts the wait. An agent that receives no
   *  messages now (it is inactive, or its key is rejected) is not waited for. */
  const asked = async () => {
    pending = true;
    spoken = null;
    quiet.rest();
    await speaker.close();
    if (isIdle()) await giveUp();
    else waits.begin();
  };
  const keys = keypad({
    clock,
    config,
    canHandOver: handsOver,
    human: () => toHuman("asked"),
    async entered(row) {
      await collected.flush();
      await asked();
      await ask(row, talk.asks(), true);
    },
    failed,
  });
  const listen = () => (pending || leaving || can.reportsSilence ? quiet.rest() : quiet.watch());
  const alive = () => {
    quiet.heard();
    // A caller who speaks during the goodbye may want to continue, so the goodbye is cancelled.
    if (stayable.has(leaving?.farewell.reason) && leaving && !closed) {
      leaving.abort.abort("over");
      leaving = null;
    }
    listen();
  };

  const turn = async (text: string, reported: string | null) => {
    const speaking = can.turnsEndSpeech !== true && speaker.busy;
    const moment = { speaking, lastSentence: speaker.inLastPiece, pending };
    alive();
    if (leaving) return;
    // A back-channel is not a question and does not interrupt one.
    if (!collected.pending && talk.ignores(text, moment)) return talk.closing ? farewell() : undefined;
    const now = languageOf(config, reported) ?? language;
    if (now !== language) {
      language = now;
      if (config.languages.length > 0) await parts.write({ kind: "language", language });
    }
    if (collected.add(text)) await asked();
  };
  const cutShort = async (heard: string | null) => {
    const about = spoken;
    spoken = null;
    alive(); // before `speaker.interrupted()`, so that a barge-in cancels a goodbye
    if (can.stops) await parts.write({ kind: "stop" });
    await speaker.interrupted();
    talk.interrupted(heard);
    listen();
    if (about !== null) await record.interrupted(heard, about);
  };
  const dialed = async (outcome: "answered" | "unanswered" | "gone") => {
    if (leaving?.farewell.way !== "human" || closed) return;
    if (outcome === "answered") {
      closed = true;
      return record.closed("handed-over", duration());
    }
    channel.log.warn({ call: parts.start.call, outcome }, "nobody took a call that was handed over");
    await record.missed(untaken);
    if (outcome === "gone") return;
    leaving = null;
    if (config.hand_over?.no_answer !== "agent") return goodbye("no-answer", [words().apology]);
    await record.returned();
    if (language !== config.language) await parts.write({ kind: "language", language });
    talk.says([words().apology]);
    await speaker.speak([words().apology]);
    listen();
  };
  const limit = async () => {
    await clock.sleep(config.max_call - duration(), over);
    // Repeats the goodbye, because the caller may have cancelled another one that was in progress.
    while (!over.aborted) {
      await goodbye("too-long");
      await clock.sleep(partingMs, over);
    }
  };

  return {
    async begin() {
      limit().catch(failed);
      if (parts.ringing !== null) return depart({ way: "human", reason: parts.ringing, words: [] });
      const again = parts.start.resumed || resumed;
      const greeting = configuredGreeting(config, language) ?? channel.agent()?.introduction;
      const first = again ? words().lostYou : (greeting ?? words().greeting);
      const sentences = sentencesOf(first, language, words());
      talk.says(sentences);
      if (can.greets) speaker.assume(first);
      else if (!isIdle()) await speaker.speak(sentences);
      if (isIdle()) return giveUp();
      if (pending) waits.begin();
      else listen();
    },
    async handle(event) {
      if (finished) return;
      switch (event.kind) {
        case "turn":
          return turn(event.text, event.language);
        case "partial":
          return alive();
        case "digits":
          alive();
          return leaving ? undefined : keys.press(event.digits);
        case "interrupted":
          return cutShort(event.heard);
        case "playback":
          return speaker.playback(event.speaking);
        case "silence":
          return pending || leaving ? undefined : quiet.noticed();
        case "dialed":
          return dialed(event.outcome);
        case "problem":
          return channel.log.warn({ call: parts.start.call, problem: event.text }, "the provider complains");
      }
    },
    async answer(draft, attempt) {
      const obstacle = () => {
        if (leaving || closed) return ended;
        const late = newest !== null && draft.answers !== null && draft.answers !== newest;
        if (late || collected.pending) return superseded;
        return over.aborted ? lineGone : null;
      };
      const before = obstacle();
      if (before !== null) return before;
      await attempt.crossing();
      // The caller may have spoken or hung up while the attempt was recorded. Nothing was spoken.
      const since = obstacle();
      if (since !== null) return since;
      pending = false;
      waits.end();
      spoken = draft.answers;
      const left = speaker.left;
      try {
        const handOver = draft.handOver === true && handsOver;
        const pieces = talk.answers({
          sentences: sentencesOf(draft.text, language, words()),
          most: config.max_sentences,
          offer: handOver ? null : words().restOffered,
        });
        const end = await speaker.speak(pieces);
        // Not awaited: the reply was spoken, and the result of the transfer or the end does not change that.
        if (handOver) depart({ way: "human", reason: "escalated", words: [] }).catch(failed);
        else if (talk.over && end === "whole") farewell().catch(failed);
        else listen();
        const id = externalId(`${parts.start.call}/spoken/${attempt.key}`);
        return { kind: "sent", id, ...(end === "cut" ? { detail: "interrupted" } : {}) };
      } catch {
        // When no frame was sent, the reply is deferred to the next connection. Otherwise the caller may have received
        // a part.
        const reason = "the line was cut";
        return speaker.left === left
          ? { kind: "deferred", reason, retryAfterMs: 500 }
          : { kind: "unknown", reason };
      }
    },
    async drain() {
      await speaker.finished(AbortSignal.any([over, AbortSignal.timeout(drainMs)]));
    },
    async end(ending) {
      finished = true;
      waits.end();
      quiet.rest();
      keys.rest();
      await collected.flush();
      if (closed || ending === null) return;
      await (ending.hungUp ? record.closed(ending.reason, duration()) : record.lost(ending.reason));
    },
  };
}
