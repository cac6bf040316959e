// Calls without a socket: the provider requests instructions, plays them and posts what the caller said. A request is held
// until the engine has something to say, so that the same `Call` takes the turns as over a socket. The state that another
// process needs is in the provider's next request.

import { type Channel, externalId, type HttpRoute, sessionId } from "bridgehead/contract";
import type {
  CallRequest,
  DialectCommand,
  RequestSide,
  RequestState,
  SpeechInstructions,
} from "../dialects/dialect.ts";
import { Call } from "./call.ts";
import { CallRecord, personOf, type VoiceChannel } from "./record.ts";
import { spokenLength } from "./speaking.ts";

/** Message numbers start at a multiple of this for each opening of a call. The numbers of two openings never collide. */
const perOpening = 1000;

/** The calls of one channel that use requests. */
export class RequestCalls {
  readonly #voice: VoiceChannel;
  readonly #side: RequestSide;
  readonly #calls = new Map<string, RequestCall>();
  /** Calls whose stored state is being loaded. A repeated request waits for the first one. */
  readonly #opening = new Map<string, Promise<RequestCall>>();
  #closed = false;

  constructor(voice: VoiceChannel, side: RequestSide) {
    this.#voice = voice;
    this.#side = side;
    voice.onEnd((call) => this.#calls.get(call)?.close());
  }

  get route(): HttpRoute {
    return {
      kind: "http",
      method: "POST",
      path: this.#side.path,
      handle: async (request) => {
        const read = await this.#side.read(request);
        if (read === null) {
          this.#voice.channel.log.warn({ path: this.#side.path }, "request rejected: unauthorized, invalid signature");
          return new Response(null, { status: 403 });
        }
        return this.#side.write(await this.#handle(read));
      },
    };
  }

  /** Returns undefined for a call that is not in this process. */
  find(call: string): Call | undefined {
    return this.#calls.get(call)?.call;
  }

  close(): void {
    this.#closed = true;
    for (const one of this.#calls.values()) one.close();
    this.#calls.clear();
  }

  async #handle(request: CallRequest): Promise<SpeechInstructions> {
    const { call } = request;
    for (let opening = this.#opening.get(call); opening; opening = this.#opening.get(call))
      await opening.catch(() => undefined);
    const known = this.#calls.get(call);
    if (known?.continues(request)) {
      known.take(request);
      return known.instructions();
    }
    known?.close();
    const gone = (one: RequestCall) => {
      if (this.#calls.get(call) === one) this.#calls.delete(call);
    };
    const opening = RequestCall.open(this.#voice, this.#side, request, gone)
      .then((opened) => {
        this.#calls.set(call, opened);
        if (this.#closed) opened.close();
        return opened;
      })
      .finally(() => this.#opening.delete(call));
    this.#opening.set(call, opening);
    return (await opening).instructions();
  }
}

/** One call, from its first request to this process to its end. */
class RequestCall {
  readonly call: Call;
  readonly #voice: VoiceChannel;
  readonly #name: string;
  readonly #gone: (one: RequestCall) => void;
  readonly #over = new AbortController();
  /** The utterances since the last instructions. */
  #pieces: string[] = [];
  #final: (DialectCommand & { readonly kind: "transfer" | "end" }) | null = null;
  #askedAt: number | null;
  /** The request that is held; null while the provider plays instructions. */
  #held: PromiseWithResolvers<SpeechInstructions> | null = null;
  #hold = new AbortController();
  #idle = new AbortController();
  #failure: Error | null = null;
  /** Number of store operations in progress. Instructions acknowledge a request, so they wait for the commit. */
  #storing = 0;
  /** The sentences of the last instructions, and when their playback began (clock milliseconds). */
  #speech: { readonly pieces: readonly string[]; readonly at: number } = { pieces: [], at: 0 };

  /** Stores a call that begins; continues one that another process has served. */
  static async open(
    voice: VoiceChannel,
    side: RequestSide,
    request: CallRequest,
    gone: (one: RequestCall) => void,
  ): Promise<RequestCall> {
    const { channel } = voice;
    const session = sessionId(request.call);
    const from = personOf(request.person, request.call);
    let facts = await channel.session(session);
    const openings = facts?.openings ?? 0;
    const isOver = facts !== null && (facts.state === "closed" || facts.transferring !== null);
    // A call that continues belongs to another process, or is lost since that process ended. Its replies must come here.
    if (request.state === null || !isOver) {
      const id = externalId(`opened/${request.call}/gather${openings === 0 ? "" : `/${openings}`}`);
      await channel.accept([{ kind: "session", id, session, state: "opened", from }]);
      facts = await channel.session(session);
    }
    // It is the caller's turn, also when an earlier question is unanswered.
    if (facts !== null && (request.state?.askedAt ?? null) === null) facts = { ...facts, pending: null };
    const state = request.state ?? { next: openings * perOpening + 1, askedAt: null };
    const opened = new RequestCall(voice, side, request, state, facts, gone);
    if (request.state === null)
      opened.#run(opened.call.begin(request.greeting ?? voice.greeting(voice.config.language)));
    else {
      opened.#run(opened.call.join(state.askedAt));
      opened.take(request);
    }
    return opened;
  }

  private constructor(
    voice: VoiceChannel,
    side: RequestSide,
    request: CallRequest,
    state: RequestState,
    facts: Awaited<ReturnType<Channel["session"]>>,
    gone: (one: RequestCall) => void,
  ) {
    const { channel, config, timing } = voice;
    this.#voice = voice;
    this.#name = request.call;
    this.#gone = gone;
    this.#askedAt = state.askedAt;
    const { call, person, ours } = request;
    const counted = <T>(work: Promise<T>): Promise<T> => {
      this.#storing++;
      const done = () => {
        this.#storing--;
        this.#look();
      };
      return work.finally(done);
    };
    const store = {
      clock: channel.clock,
      accept: (...given: Parameters<Channel["accept"]>) => counted(channel.accept(...given)),
      session: (id: Parameters<Channel["session"]>[0]) => counted(channel.session(id)),
    };
    const name = { call, ticket: "gather", person: personOf(person, call), ours, from: state.next };
    this.call = new Call({
      channel,
      config,
      timing,
      can: side.can,
      start: { call, language: null, resumed: false },
      record: new CallRecord(store, name),
      facts,
      ringing: null,
      joins: request.state !== null,
      write: async (command) => this.#write(command),
      unready: () =>
        this.#held === null
          ? { kind: "deferred", reason: "no request is waiting for it", retryAfterMs: timing.requestRetry }
          : null,
      over: this.#over.signal,
      // The last command waits for the next request, or for the end of the call.
      hangUp: () => (this.#final === null ? this.close() : undefined),
      failed: (error) => this.#failed(error),
    });
    this.call.number(state.next);
  }

  /** Returns false when another process has served the call since, or when the request repeats an earlier one. The
   *  call is then opened again from stored state. */
  continues({ state }: CallRequest): boolean {
    if (state === null || state.next !== this.call.next) return false;
    // The reply, or the goodbye after a give-up, may have become due since the last response.
    const due = this.#pieces.length > 0 || this.#final !== null || this.#failure !== null;
    return due || (state.askedAt !== null) === this.call.pending;
  }

  take({ event, state }: CallRequest): void {
    if (event === null || event.kind === "start" || event.kind === "end") return;
    if (state !== null) this.call.number(state.next);
    if (event.kind !== "silence") this.#askedAt = this.#voice.channel.clock.now();
    const heard = event.kind === "turn" ? this.#playedBefore(event.text) : null;
    this.#run(
      (async () => {
        if (heard !== null) await this.call.handle({ kind: "interrupted", heard, estimated: true });
        await this.call.handle(event);
      })(),
    );
  }

  /** Resolves when the engine has something to say, or the request was held for its maximum time. Rejects on an internal
   *  error; the provider then uses its fallback. */
  instructions(): Promise<SpeechInstructions> {
    const { channel, timing } = this.#voice;
    const { clock, log } = channel;
    if (this.#failure !== null) return Promise.reject(this.#failure);
    if (this.#over.signal.aborted) {
      // The adapter was closed in the meantime. The next process handles the next request.
      this.#held = Promise.withResolvers();
      const { promise } = this.#held;
      this.#respond();
      return promise;
    }
    this.#idle.abort("over");
    this.#idle = new AbortController();
    this.#expire(this.#idle.signal).catch((error: unknown) =>
      log.error({ call: this.#name, err: error }, "closing an idle call failed"),
    );
    // A repeated request replaces the one before it.
    this.#respond();
    this.#held = Promise.withResolvers();
    this.#hold = new AbortController();
    const { signal } = this.#hold;
    void clock.sleep(timing.longestHold, signal).then(() => (signal.aborted ? undefined : this.#respond()));
    this.#look();
    return this.#held.promise;
  }

  /** Ends the engine's work on this call in this process. */
  close(): void {
    this.#respond();
    this.#idle.abort("over");
    this.#over.abort("over");
    this.#gone(this);
    this.call.end(null).catch(() => undefined);
  }

  #write(command: DialectCommand): void {
    if (command.kind === "end" || command.kind === "transfer") this.#final = command;
    if (command.kind !== "say" || command.text === "") return this.#look();
    // A filler that could not be played yet is enough.
    const filler = !command.last && this.call.pending;
    if (!filler || this.#pieces.length === 0) this.#pieces.push(command.text.trimEnd());
    this.#look();
  }

  /** Responds to the held request when the engine's step is complete. All steps but store operations and timers are
   *  microtasks. */
  #look(): void {
    setImmediate(() => {
      if (this.#storing > 0 || this.#held === null) return;
      if (this.#pieces.length > 0 || this.#final !== null || !this.call.pending) this.#respond();
    });
  }

  #respond(): void {
    const held = this.#held;
    if (held === null) return;
    this.#held = null;
    this.#hold.abort("over");
    const { pending } = this.call;
    const now = this.#voice.channel.clock.now();
    this.#askedAt = pending ? Math.min(this.#askedAt ?? now, now) : null; // the clock may step backward
    const pieces = this.#pieces;
    this.#pieces = [];
    this.#speech = { pieces, at: now };
    const step = this.#final?.kind ?? (pending ? "wait" : "listen");
    const data = this.#final?.kind === "transfer" ? this.#final.data : null;
    const state = { next: this.call.next, askedAt: this.#askedAt };
    held.resolve({ call: this.#name, pieces, step, data, state });
    if (this.#final !== null) this.close();
  }

  /** Estimates which sentences were played before the caller began to speak. Null: all of them. */
  #playedBefore(text: string): string | null {
    const { channel, config, timing } = this.#voice;
    const { pieces, at } = this.#speech;
    const spokenFor = channel.clock.now() - at - timing.recognition;
    let letters = (spokenFor * config.speaking_rate) / 1000 - spokenLength(text);
    if (letters >= spokenLength(pieces.join(""))) return null;
    const heard = pieces.filter((piece) => (letters -= spokenLength(piece)) >= 0);
    return heard.join(" ");
  }

  #run(work: Promise<void>): void {
    work.catch((error: unknown) => this.#failed(error));
  }

  #failed(error: unknown): void {
    if (this.#over.signal.aborted) return;
    this.#failure = error instanceof Error ? error : new Error(String(error));
    this.#held?.reject(this.#failure);
    this.#held = null;
    this.#hold.abort("over");
    this.#voice.channel.log.error({ call: this.#name, err: error }, "a call without a socket failed");
    this.close();
  }

  async #expire(signal: AbortSignal): Promise<void> {
    const { channel, timing } = this.#voice;
    await channel.clock.sleep(timing.idle, signal);
    if (signal.aborted) return;
    this.close();
    await this.#voice.closed(this.#name, "no-sign");
  }
}
